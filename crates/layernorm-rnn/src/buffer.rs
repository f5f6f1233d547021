//! Reusable memory that grows on demand: aligned to cache lines, and matrices whose rows do not conflict in the
//! caches.

use layernorm::Error;
use layernorm::parts::{CacheLine, large_pages, memory};

/// Memory that is kept from call to call. Several threads may write to it, each to separate elements.
#[derive(Debug)]
pub(crate) struct Buffer<A> {
    lines: Vec<CacheLine>,
    start: *mut A,
}

// SAFETY: a buffer owns its memory; whoever uses the pointer from `ptr` is responsible for disjoint writes.
unsafe impl<A: Send> Send for Buffer<A> {}
// SAFETY: as above.
unsafe impl<A: Sync> Sync for Buffer<A> {}

/// Elements past the end that may be read (their values do not matter), so that whole vectors can be loaded.
const SLACK: usize = 64;

/// Returns the number of cache lines for `count` numbers; more than can exist if the number overflows.
fn lines<A>(count: usize) -> usize {
    count.saturating_add(SLACK).saturating_mul(size_of::<A>()).div_ceil(size_of::<CacheLine>())
}

impl<A: Copy + Default> Buffer<A> {
    pub(crate) const fn new() -> Self {
        Buffer { lines: Vec::new(), start: std::ptr::null_mut() }
    }

    /// Returns the bytes that [`Buffer::reserve`] takes; `usize::MAX` if the number overflows.
    pub(crate) fn need(count: usize) -> usize {
        lines::<A>(count).saturating_mul(size_of::<CacheLine>())
    }

    /// Reserves memory for `count` numbers. The contents are lost if the buffer grows or memory runs out.
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

    /// Returns the number of bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.lines.len() * size_of::<CacheLine>()
    }
}

/// A matrix in a buffer. The row stride is a multiple of a cache line and never a power of two, so that the lines of
/// a column map to different cache sets.
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

    /// Returns the row stride, in numbers.
    fn stride_of(columns: usize) -> usize {
        let line = 64 / size_of::<A>();
        let lines = columns.div_ceil(line);
        (lines + 1 - lines % 2) * line
    }

    /// Returns the bytes that a matrix of this size takes; `usize::MAX` if the number overflows.
    pub(crate) fn need(rows: usize, columns: usize) -> usize {
        Buffer::<A>::need(rows.saturating_mul(Self::stride_of(columns)))
    }

    /// Resizes the matrix. Its elements are 0 or left over from before, in no particular order.
    pub(crate) fn reshape(&mut self, rows: usize, columns: usize) -> Result<(), Error> {
        // If memory runs out, the matrix has no rows.
        self.rows = 0;
        (self.columns, self.stride) = (columns, Self::stride_of(columns));
        self.buffer.reserve(rows.saturating_mul(self.stride))?;
        self.rows = rows;
        Ok(())
    }

    /// Sets all elements to zero.
    pub(crate) fn clear(&mut self) {
        // SAFETY: the buffer has room for all rows, and all-zero bytes are the number 0.
        unsafe { std::ptr::write_bytes(self.buffer.ptr(), 0, self.rows * self.stride) };
    }

    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// Returns the start of a row, for kernels. Several threads may write through it, each to separate elements.
    pub(crate) fn row(&self, row: usize) -> *mut A {
        debug_assert!(row <= self.rows);
        self.buffer.ptr().wrapping_add(row * self.stride)
    }

    /// Returns the elements of a row.
    pub(crate) fn values_mut(&mut self, row: usize) -> &mut [A] {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        // SAFETY: the buffer has this row, and `&mut self` guarantees exclusive access to the matrix.
        unsafe { std::slice::from_raw_parts_mut(self.row(row), self.columns) }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.buffer.bytes()
    }
}
