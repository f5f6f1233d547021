//! Memory that grows and is used again: aligned to cache lines, and matrices whose rows do not collide in the caches.

use layernorm::Error;
use layernorm::parts::{CacheLine, large_pages, memory};

/// Numbers in memory that is kept from call to call. Several threads may write to it, each to places of its own.
#[derive(Debug)]
pub(crate) struct Buffer<A> {
    lines: Vec<CacheLine>,
    start: *mut A,
}

// SAFETY: a buffer owns its memory; who writes where is the business of who uses what `ptr` gives.
unsafe impl<A: Send> Send for Buffer<A> {}
// SAFETY: as above.
unsafe impl<A: Sync> Sync for Buffer<A> {}

/// Elements behind the end that may be read (their values do not matter), so that whole vectors can be.
const SLACK: usize = 64;

/// Cache lines for so many numbers; more than there can be if they cannot be counted.
fn lines<A>(count: usize) -> usize {
    count.saturating_add(SLACK).saturating_mul(size_of::<A>()).div_ceil(size_of::<CacheLine>())
}

impl<A: Copy + Default> Buffer<A> {
    pub(crate) const fn new() -> Self {
        Buffer { lines: Vec::new(), start: std::ptr::null_mut() }
    }

    /// Bytes that [`Buffer::reserve`] takes; `usize::MAX` if they cannot be counted.
    pub(crate) fn need(count: usize) -> usize {
        lines::<A>(count).saturating_mul(size_of::<CacheLine>())
    }

    /// Room for so many numbers. What was there is lost if it grows, or if there is no memory.
    pub(crate) fn reserve(&mut self, count: usize) -> Result<(), Error> {
        let lines = lines::<A>(count);
        if self.lines.len() < lines {
            *self = Buffer::new();
            self.lines = memory::reserved(lines)?;
            large_pages(self.lines.spare_capacity_mut());
            self.lines.resize(lines, CacheLine::ZERO);
            self.start = self.lines.as_mut_ptr().cast();
        }
        Ok(())
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

    /// Numbers from row to row.
    fn stride_of(columns: usize) -> usize {
        let line = 64 / size_of::<A>();
        let lines = columns.div_ceil(line);
        (lines + 1 - lines % 2) * line
    }

    /// Bytes that a matrix of this size takes; `usize::MAX` if they cannot be counted.
    pub(crate) fn need(rows: usize, columns: usize) -> usize {
        Buffer::<A>::need(rows.saturating_mul(Self::stride_of(columns)))
    }

    /// Makes it so large. The numbers in it are those of before or 0, in no order.
    pub(crate) fn reshape(&mut self, rows: usize, columns: usize) -> Result<(), Error> {
        // Without memory there are no rows.
        self.rows = 0;
        (self.columns, self.stride) = (columns, Self::stride_of(columns));
        self.buffer.reserve(rows.saturating_mul(self.stride))?;
        self.rows = rows;
        Ok(())
    }

    /// All zeros.
    pub(crate) fn clear(&mut self) {
        // SAFETY: the buffer has room for all rows, and zero bytes are the number 0.
        unsafe { std::ptr::write_bytes(self.buffer.ptr(), 0, self.rows * self.stride) };
    }

    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// The start of a row, for kernels: several threads may write to it through this, each to places of its own.
    pub(crate) fn row(&self, row: usize) -> *mut A {
        debug_assert!(row <= self.rows);
        self.buffer.ptr().wrapping_add(row * self.stride)
    }

    /// The numbers of a row.
    pub(crate) fn values_mut(&mut self, row: usize) -> &mut [A] {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        // SAFETY: the buffer has this row, and nobody else has the matrix.
        unsafe { std::slice::from_raw_parts_mut(self.row(row), self.columns) }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.buffer.bytes()
    }
}
