//! Dimensions of a tensor, as few as its strides allow.

use crate::view::{MAX_RANK, count};

/// Dimensions in row-major order; neighbouring dimensions are merged where strides allow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dims {
    pub(crate) rank: usize,
    shape: [usize; MAX_RANK],
    pub(crate) strides: [isize; MAX_RANK],
}

impl Dims {
    pub(crate) fn new(dims: impl Iterator<Item = (usize, isize)>) -> Dims {
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

    pub(crate) fn count(&self) -> usize {
        count(&self.shape[..self.rank])
    }

    /// Returns the offset of an element by its row-major index.
    pub(crate) fn offset(&self, mut index: usize) -> isize {
        let mut offset = 0;
        for axis in (0..self.rank).rev() {
            offset += (index % self.shape[axis]) as isize * self.strides[axis];
            index /= self.shape[axis];
        }
        offset
    }

    /// Returns the stride if the elements are evenly spaced.
    pub(crate) fn even(&self) -> Option<isize> {
        match self.rank {
            0 => Some(0),
            1 => Some(self.strides[0]),
            _ => None,
        }
    }

    pub(crate) fn innermost(&self) -> (usize, isize) {
        match self.rank {
            0 => (1, 0),
            rank => (self.shape[rank - 1], self.strides[rank - 1]),
        }
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
}
