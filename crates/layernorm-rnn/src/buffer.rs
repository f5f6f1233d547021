//! Memory that grows and is used again: aligned to cache lines, and matrices whose rows do not collide in the caches.

use layernorm::parts::{CacheLine, large_pages};

/// Numbers in memory that is kept from call to call. Several threads may write to it, each to places of its own.
#[derive(Debug)]
pub(crate) struct Buffer<A> {
    lines: Vec<CacheLine>,
    start: *mut A,
}

// SAFETY: a buffer owns its memory; who writes where is the business of the callers of `ptr`.
unsafe impl<A: Send> Send for Buffer<A> {}
// SAFETY: as above.
unsafe impl<A: Sync> Sync for Buffer<A> {}

/// Elements behind the end that may be read (their values do not matter), so that whole vectors can be.
const SLACK: usize = 64;

impl<A: Copy + Default> Buffer<A> {
    pub(crate) const fn new() -> Self {
        Buffer { lines: Vec::new(), start: std::ptr::null_mut() }
    }

    /// Room for so many numbers. What was there is lost if it grows.
    pub(crate) fn reserve(&mut self, count: usize) {
        let lines = ((count + SLACK) * size_of::<A>()).div_ceil(size_of::<CacheLine>());
        if self.lines.len() < lines {
            self.lines = Vec::with_capacity(lines);
            large_pages(self.lines.as_mut_ptr().cast(), lines * size_of::<CacheLine>());
            self.lines.resize(lines, CacheLine::ZERO);
            self.start = self.lines.as_mut_ptr().cast();
        }
    }

    pub(crate) fn ptr(&self) -> *mut A {
        self.start
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.lines.len() * size_of::<CacheLine>()
    }
}

/// A matrix in a buffer. Rows are a multiple of a cache line apart, and never a power of two, so that a column's lines fall
/// onto different places of a cache.
#[derive(Debug)]
pub(crate) struct Matrix<A> {
    buffer: Buffer<A>,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    stride: usize,
}

impl<A: Copy + Default> Matrix<A> {
    pub(crate) const fn new() -> Self {
        Matrix { buffer: Buffer::new(), rows: 0, columns: 0, stride: 0 }
    }

    /// Makes it so large. The numbers in it are those of before or 0, in no order.
    pub(crate) fn reshape(&mut self, rows: usize, columns: usize) {
        let line = 64 / size_of::<A>();
        let lines = columns.div_ceil(line);
        (self.rows, self.columns, self.stride) = (rows, columns, (lines + 1 - lines % 2) * line);
        self.buffer.reserve(rows * self.stride);
    }

    /// All zeros.
    pub(crate) fn clear(&mut self) {
        // SAFETY: the buffer has room for all rows, and zero bytes are the number 0.
        unsafe { std::ptr::write_bytes(self.buffer.ptr(), 0, self.rows * self.stride) };
    }

    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// The start of a row.
    pub(crate) fn row(&self, row: usize) -> *mut A {
        debug_assert!(row <= self.rows);
        self.buffer.ptr().wrapping_add(row * self.stride)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.buffer.bytes()
    }
}
