//! Views a tensor as rows: the normalized axes form a row, the others index the rows.
//!
//! Where rows are contiguous and evenly spaced, kernels work on the tensor's own memory. Otherwise tiles of rows are
//! packed into scratch memory, processed there and unpacked. The kernel is the same, and so are the bits.

use crate::error::Error;
use crate::kernels::Rows;
use crate::view::{Layout, MAX_RANK, count};

/// Dimensions in row-major order; neighbouring dimensions are merged where strides allow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dims {
    rank: usize,
    shape: [usize; MAX_RANK],
    strides: [isize; MAX_RANK],
}

impl Dims {
    fn new(dims: impl Iterator<Item = (usize, isize)>) -> Dims {
        let mut merged = Dims { rank: 0, shape: [1; MAX_RANK], strides: [0; MAX_RANK] };
        for (dim, stride) in dims.filter(|&(dim, _)| dim != 1) {
            let last = merged.rank.wrapping_sub(1);
            if merged.rank > 0 && merged.strides[last] == stride.wrapping_mul(dim as isize) {
                merged.shape[last] = merged.shape[last].wrapping_mul(dim);
                merged.strides[last] = stride;
            } else {
                merged.shape[merged.rank] = dim;
                merged.strides[merged.rank] = stride;
                merged.rank += 1;
            }
        }
        merged
    }

    fn count(&self) -> usize {
        count(&self.shape[..self.rank])
    }

    /// Returns the offset of an element by its row-major index.
    fn offset(&self, mut index: usize) -> isize {
        let mut offset = 0;
        for axis in (0..self.rank).rev() {
            offset += (index % self.shape[axis]) as isize * self.strides[axis];
            index /= self.shape[axis];
        }
        offset
    }

    /// Returns the stride if the elements are evenly spaced.
    fn even(&self) -> Option<isize> {
        match self.rank {
            0 => Some(0),
            1 => Some(self.strides[0]),
            _ => None,
        }
    }

    fn innermost(&self) -> (usize, isize) {
        match self.rank {
            0 => (1, 0),
            rank => (self.shape[rank - 1], self.strides[rank - 1]),
        }
    }
}

/// Axes that form a row. Axes count from the front; negative ones from the back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axes<'a> {
    /// This many trailing axes, like PyTorch's `normalized_shape`.
    Last(usize),
    /// These axes, in any order.
    These(&'a [isize]),
}

impl Axes<'_> {
    /// Returns for each axis of a tensor whether it belongs to the row.
    pub(crate) fn mask(&self, rank: usize) -> Result<[bool; MAX_RANK], Error> {
        let mut mask = [false; MAX_RANK];
        match *self {
            Axes::Last(count) if count > rank => {
                return Err(Error::TooFewDimensions { what: "input", min: count, found: rank });
            }
            Axes::Last(count) => mask[rank - count..rank].fill(true),
            Axes::These(axes) => {
                for &axis in axes {
                    let at = if axis < 0 { axis.checked_add_unsigned(rank) } else { Some(axis) };
                    let at = at
                        .and_then(|at| usize::try_from(at).ok())
                        .filter(|&at| at < rank)
                        .ok_or(Error::Axis { axis, rank })?;
                    if std::mem::replace(&mut mask[at], true) {
                        return Err(Error::RepeatedAxis { axis: at });
                    }
                }
            }
        }
        Ok(mask)
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_merge_and_offsets_follow() {
        let dims = Dims::new([(2, 60), (3, 20), (1, 7), (4, 5), (5, 1)].into_iter());
        assert_eq!((dims.rank, dims.even()), (1, Some(1)));
        let dims = Dims::new([(2, 60), (4, 1), (3, 20)].into_iter());
        assert_eq!(dims.rank, 3);
        assert_eq!(dims.offset(13), 60 + 20);
        assert_eq!(dims.offset(15), 60 + 1);
    }

    #[test]
    fn axes_are_checked() {
        let mask = |axes: &[isize]| Axes::These(axes).mask(3);
        assert_eq!(mask(&[-1, 0]).unwrap()[..3], [true, false, true]);
        assert_eq!(mask(&[3]), Err(Error::Axis { axis: 3, rank: 3 }));
        assert_eq!(mask(&[-4]), Err(Error::Axis { axis: -4, rank: 3 }));
        assert_eq!(mask(&[isize::MIN]), Err(Error::Axis { axis: isize::MIN, rank: 3 }));
        assert_eq!(mask(&[2, -1]), Err(Error::RepeatedAxis { axis: 2 }));
        assert!(matches!(Axes::Last(4).mask(3), Err(Error::TooFewDimensions { min: 4, .. })));
    }
}
