//! Views a tensor as rows: the normalized axes form a row, the others index the rows.
//!
//! Where rows are contiguous and evenly spaced, kernels work on the tensor's own memory. Otherwise tiles of rows are
//! packed into scratch memory, processed there and unpacked. The kernel is the same, and so are the bits.

use crate::dims::Dims;
use crate::kernels::Rows;
use crate::view::{Layout, MAX_RANK};

/// A tensor of an operation, viewed as rows.
#[derive(Clone, Copy)]
pub(crate) struct Operand<P> {
    base: P,
    outer: Dims,
    inner: Dims,
}

impl<P: Copy> Operand<P> {
    /// Creates an operand whose rows consist of the axes marked in `in_row`.
    pub(crate) fn new(base: P, layout: &Layout, in_row: &[bool; MAX_RANK]) -> Self {
        let dims = |wanted: bool| {
            let dims = layout.shape().iter().zip(layout.strides()).zip(in_row);
            Dims::new(dims.filter(move |(_, row)| **row == wanted).map(|((&dim, &stride), _)| (dim, stride)))
        };
        Operand { base, outer: dims(false), inner: dims(true) }
    }

    /// Creates rows from their dimensions, for operations that split a dimension.
    pub(crate) fn from_dims(base: P, outer: &[(usize, isize)], inner: &[(usize, isize)]) -> Self {
        Operand { base, outer: Dims::new(outer.iter().copied()), inner: Dims::new(inner.iter().copied()) }
    }

    pub(crate) fn rows(&self) -> usize {
        self.outer.count()
    }

    pub(crate) fn n(&self) -> usize {
        self.inner.count()
    }

    /// Returns the rows in place if they are contiguous and evenly spaced.
    pub(crate) fn direct(&self) -> Option<Rows<P>> {
        let contiguous = self.inner.rank == 0 || (self.inner.rank == 1 && self.inner.strides[0] == 1);
        let stride = self.outer.even().filter(|_| contiguous)?;
        Some(Rows { ptr: self.base, stride })
    }

    /// Calls `visit(offset in the tensor, index in the tile)` for the elements of a tile of rows, in the order with
    /// the smaller steps in the tensor's memory.
    #[inline(always)]
    fn for_tile(&self, first_row: usize, rows: usize, mut visit: impl FnMut(isize, usize)) {
        let n = self.n();
        let mut starts = [0isize; crate::sum::CHUNK];
        let starts = &mut starts[..rows];
        for (i, start) in starts.iter_mut().enumerate() {
            *start = self.outer.offset(first_row + i);
        }
        let (len, stride) = self.inner.innermost();
        let across = self.outer.innermost().1.unsigned_abs() < stride.unsigned_abs();
        for first in (0..n).step_by(len.max(1)) {
            let base = self.inner.offset(first);
            if across {
                for i in 0..len {
                    for (row, &start) in starts.iter().enumerate() {
                        visit(start + base + i as isize * stride, row * n + first + i);
                    }
                }
            } else {
                for (row, &start) in starts.iter().enumerate() {
                    for i in 0..len {
                        visit(start + base + i as isize * stride, row * n + first + i);
                    }
                }
            }
        }
    }
}

impl<T: Copy> Operand<*const T> {
    /// Returns one element, for rare cases that go element by element.
    ///
    /// # Safety
    /// The row and the element exist.
    pub(crate) unsafe fn element(&self, row: usize, i: usize) -> T {
        // SAFETY: guaranteed by the caller; the offsets come from the checked view.
        unsafe { *self.base.offset(self.outer.offset(row) + self.inner.offset(i)) }
    }

    /// Packs rows into a tile.
    ///
    /// # Safety
    /// The tensor is valid for reads, `to` for writes of the rows' elements, and they do not overlap.
    pub(crate) unsafe fn pack(&self, first_row: usize, rows: usize, to: *mut T) {
        // SAFETY: guaranteed by the caller; the offsets come from the checked view.
        self.for_tile(first_row, rows, |from, at| unsafe { *to.add(at) = *self.base.offset(from) });
    }
}

impl<T: Copy> Operand<*mut T> {
    /// Writes one element.
    ///
    /// # Safety
    /// The row and the element exist.
    pub(crate) unsafe fn set_element(&self, row: usize, i: usize, value: T) {
        // SAFETY: guaranteed by the caller; the offsets come from the checked view.
        unsafe { *self.base.offset(self.outer.offset(row) + self.inner.offset(i)) = value }
    }

    /// Unpacks a tile into the rows.
    ///
    /// # Safety
    /// The tensor is valid for writes, `from` for reads of the rows' elements, and they do not overlap.
    pub(crate) unsafe fn unpack(&self, first_row: usize, rows: usize, from: *const T) {
        // SAFETY: guaranteed by the caller; the offsets come from the checked view.
        self.for_tile(first_row, rows, |to, at| unsafe { *self.base.offset(to) = *from.add(at) });
    }

    pub(crate) fn as_const(&self) -> Operand<*const T> {
        Operand { base: self.base, outer: self.outer, inner: self.inner }
    }
}
