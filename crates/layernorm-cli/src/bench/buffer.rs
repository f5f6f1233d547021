//! Memory for a measurement: allocated and written once, before timing starts, and aligned to a cache line.

use crate::failure::Failure;

const LINE_BYTES: usize = 64;

/// A slice that starts at a cache line, like the tensors of frameworks.
#[derive(Debug)]
pub struct Buffer<T> {
    memory: Vec<T>,
    start: usize,
    len: usize,
}

impl<T: Copy> Buffer<T> {
    /// Allocates `len` elements and writes each of them.
    pub fn new(len: usize, mut value: impl FnMut() -> T) -> Result<Self, Failure> {
        let spare = LINE_BYTES / size_of::<T>();
        let mut memory = Vec::new();
        memory.try_reserve_exact(len + spare).map_err(|_| {
            Failure::bad_input(format!("memory: expected {} free bytes, found less", (len + spare) * size_of::<T>()))
        })?;
        memory.extend((0..len + spare).map(|_| value()));
        let start = memory.as_ptr().align_offset(LINE_BYTES).min(spare);
        Ok(Buffer { memory, start, len })
    }

    /// The elements, read-only.
    pub fn get(&self) -> &[T] {
        &self.memory[self.start..self.start + self.len]
    }

    /// The elements, mutable.
    pub fn get_mut(&mut self) -> &mut [T] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_start_at_a_cache_line() {
        for len in [0, 1, 100, 100_000] {
            let mut buffer = Buffer::new(len, || 1u16).unwrap();
            assert_eq!(buffer.get().as_ptr() as usize % LINE_BYTES, 0);
            assert_eq!(buffer.get_mut().len(), len);
        }
        assert!(Buffer::new(usize::MAX / 16, || 0.0f64).is_err());
    }
}
