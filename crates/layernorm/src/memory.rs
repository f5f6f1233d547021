//! Fallible allocation: a call that needs more memory than available returns an error instead of aborting the
//! process.

use crate::element::Element;
use crate::error::Error;
use std::alloc::{Layout, alloc_zeroed};

/// Returns the error for `count` elements that could not be allocated.
pub fn out_of_memory<T>(count: usize) -> Error {
    Error::OutOfMemory { bytes: count.saturating_mul(size_of::<T>()) }
}

/// Returns an empty vector with capacity for `count` elements.
pub fn reserved<T>(count: usize) -> Result<Vec<T>, Error> {
    let mut vector = Vec::new();
    vector.try_reserve_exact(count).map_err(|_| out_of_memory::<T>(count))?;
    Ok(vector)
}

/// Returns a vector of `count` copies of a value.
pub fn filled<T: Clone>(count: usize, value: T) -> Result<Vec<T>, Error> {
    let mut vector = reserved(count)?;
    vector.resize(count, value);
    Ok(vector)
}

/// Returns a copy of a slice.
pub fn copied<T: Copy>(from: &[T]) -> Result<Vec<T>, Error> {
    let mut vector = reserved(from.len())?;
    vector.extend_from_slice(from);
    Ok(vector)
}

/// Sets a reused vector to `count` copies of a value. Allocates only to grow.
pub fn refill<T: Clone>(vector: &mut Vec<T>, count: usize, value: T) -> Result<(), Error> {
    vector.clear();
    vector.try_reserve_exact(count).map_err(|_| out_of_memory::<T>(count))?;
    vector.resize(count, value);
    Ok(())
}

/// Extends a vector to at least `count` elements.
pub fn more<T>(vector: &mut Vec<T>, count: usize, new: impl FnMut() -> T) -> Result<(), Error> {
    let missing = count.saturating_sub(vector.len());
    vector.try_reserve_exact(missing).map_err(|_| out_of_memory::<T>(count))?;
    vector.extend(std::iter::repeat_with(new).take(missing));
    Ok(())
}

/// Appends an element.
pub(crate) fn push<T>(vector: &mut Vec<T>, value: T) -> Result<(), Error> {
    vector.try_reserve(1).map_err(|_| out_of_memory::<T>(vector.len() + 1))?;
    vector.push(value);
    Ok(())
}

/// Returns a vector of zeros. The system provides zero pages on first touch, so nothing is written here.
pub fn zeros<T: Element>(count: usize) -> Result<Vec<T>, Error> {
    let layout = Layout::array::<T>(count).map_err(|_| out_of_memory::<T>(count))?;
    if layout.size() == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: the layout has a nonzero size. All-zero bytes are the number 0 in every element type, and the vector
    // frees its memory with the layout that it was allocated with.
    unsafe {
        let start = alloc_zeroed(layout);
        if start.is_null() {
            Err(out_of_memory::<T>(count))
        } else {
            Ok(Vec::from_raw_parts(start.cast(), count, count))
        }
    }
}

/// Fails if this many bytes cannot be allocated at once. The memory is allocated and freed untouched. Systems that
/// overcommit check each request separately: several requests that fit one by one can be too much together, and the
/// process would be killed when it writes to them.
pub fn room_for(bytes: usize) -> Result<(), Error> {
    reserved::<u8>(bytes).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_is_an_error_with_its_bytes() {
        let most = isize::MAX as usize;
        assert_eq!(zeros::<f32>(most).unwrap_err(), Error::OutOfMemory { bytes: usize::MAX });
        assert_eq!(zeros::<f64>(most).unwrap_err(), Error::OutOfMemory { bytes: usize::MAX });
        assert_eq!(filled(most, 0u8).unwrap_err(), Error::OutOfMemory { bytes: most });
        assert_eq!(refill(&mut vec![1u16; 3], most, 0).unwrap_err(), Error::OutOfMemory { bytes: usize::MAX - 1 });
        assert_eq!(room_for(most).unwrap_err(), Error::OutOfMemory { bytes: most });
        assert_eq!(zeros::<f64>(3).unwrap(), [0.0; 3]);
        assert_eq!(zeros::<f32>(0).unwrap(), []);
        assert_eq!(copied(&[1, 2]).unwrap(), [1, 2]);
    }
}
