//! Views of the caller's memory: the only place where shapes, strides and bounds are checked. Code below trusts the
//! views.

use crate::error::Error;
use std::marker::PhantomData;

/// Maximum number of dimensions of a tensor.
pub const MAX_RANK: usize = 16;

/// Shape and strides (in elements) of a tensor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    rank: usize,
    shape: [usize; MAX_RANK],
    strides: [isize; MAX_RANK],
}

impl Layout {
    fn new(shape: &[usize], strides: &[isize]) -> Result<Layout, Error> {
        if shape.len() > MAX_RANK {
            return Err(Error::Rank { max: MAX_RANK, found: shape.len() });
        }
        if strides.len() != shape.len() {
            return Err(Error::StrideCount { expected: shape.len(), found: strides.len() });
        }
        element_count(shape)?;
        let mut layout = Layout { rank: shape.len(), shape: [1; MAX_RANK], strides: [0; MAX_RANK] };
        layout.shape[..shape.len()].copy_from_slice(shape);
        layout.strides[..shape.len()].copy_from_slice(strides);
        Ok(layout)
    }

    fn contiguous(shape: &[usize]) -> Result<Layout, Error> {
        if shape.len() > MAX_RANK {
            return Err(Error::Rank { max: MAX_RANK, found: shape.len() });
        }
        element_count(shape)?;
        let mut strides = [0; MAX_RANK];
        let mut step = 1usize;
        for (axis, &dim) in shape.iter().enumerate().rev() {
            strides[axis] = step as isize;
            // Without elements, the strides are meaningless.
            step = step.wrapping_mul(dim.max(1));
        }
        Layout::new(shape, &strides[..shape.len()])
    }

    pub(crate) fn shape(&self) -> &[usize] {
        &self.shape[..self.rank]
    }

    pub(crate) fn strides(&self) -> &[isize] {
        &self.strides[..self.rank]
    }

    pub(crate) fn len(&self) -> usize {
        count(self.shape())
    }

    /// Returns the lowest and the highest offset touched, or `None` if there are no elements. Fails if an offset
    /// overflows.
    fn span(&self) -> Result<Option<(isize, isize)>, Error> {
        if self.len() == 0 {
            return Ok(None);
        }
        let (mut first, mut last) = (0isize, 0isize);
        for (&dim, &stride) in self.shape().iter().zip(self.strides()) {
            let reach = stride.checked_mul(dim as isize - 1);
            let end = if stride < 0 { &mut first } else { &mut last };
            *end = reach
                .and_then(|reach| end.checked_add(reach))
                .ok_or_else(|| Error::TooLarge { shape: self.shape().to_vec() })?;
        }
        Ok(Some((first, last)))
    }

    /// Returns whether no two elements share memory. Also rejects some layouts without overlap, none of which slicing
    /// can produce.
    fn is_disjoint(&self) -> bool {
        let mut dims: [(usize, usize); MAX_RANK] = [(0, 1); MAX_RANK];
        for (slot, (&dim, &stride)) in dims.iter_mut().zip(self.shape().iter().zip(self.strides())) {
            *slot = (stride.unsigned_abs(), dim);
        }
        if self.len() == 0 {
            return true;
        }
        dims.sort_unstable();
        let mut reach = 0usize;
        for (stride, dim) in dims.into_iter().filter(|&(_, dim)| dim > 1) {
            if stride <= reach {
                return false;
            }
            reach = reach.saturating_add(stride.saturating_mul(dim - 1));
        }
        true
    }
}

/// Returns the number of elements of a checked shape. An empty tensor can have any other dimensions, whose product
/// may overflow.
pub(crate) fn count(shape: &[usize]) -> usize {
    if shape.contains(&0) { 0 } else { shape.iter().product() }
}

/// Returns the number of elements of a shape. Fails if it exceeds `isize::MAX`.
pub(crate) fn element_count(shape: &[usize]) -> Result<usize, Error> {
    // An empty tensor can have any other dimensions, as in NumPy.
    if shape.contains(&0) {
        return Ok(0);
    }
    shape
        .iter()
        .try_fold(1usize, |count, &dim| count.checked_mul(dim))
        .filter(|&count| count <= isize::MAX as usize / 8)
        .ok_or_else(|| Error::TooLarge { shape: shape.to_vec() })
}

fn check_bounds(layout: &Layout, offset: usize, len: usize) -> Result<(), Error> {
    let Some((first, last)) = layout.span()? else { return Ok(()) };
    let too_large = || Error::TooLarge { shape: layout.shape().to_vec() };
    let first = first.checked_add_unsigned(offset).ok_or_else(too_large)?;
    let last = last.checked_add_unsigned(offset).ok_or_else(too_large)?;
    if first < 0 || last as usize >= len { Err(Error::OutOfBounds { first, last, len }) } else { Ok(()) }
}

macro_rules! view {
    ($name:ident, $slice:ty, $ptr:ty, $as_ptr:ident, $doc:literal, $disjoint:expr) => {
        #[doc = $doc]
        #[derive(Debug)]
        pub struct $name<'a, T> {
            ptr: $ptr,
            layout: Layout,
            memory: PhantomData<$slice>,
        }

        // SAFETY: a view is a checked slice and can be sent wherever a slice can.
        unsafe impl<T: Sync + Send> Send for $name<'_, T> {}
        // SAFETY: as above.
        unsafe impl<T: Sync> Sync for $name<'_, T> {}

        impl<'a, T> $name<'a, T> {
            /// Creates a row-major view that covers the whole slice.
            pub fn new(data: $slice, shape: &[usize]) -> Result<Self, Error> {
                let layout = Layout::contiguous(shape)?;
                if data.len() != layout.len() {
                    return Err(Error::Length { what: "data", expected: layout.len(), found: data.len() });
                }
                Ok($name { ptr: data.$as_ptr(), layout, memory: PhantomData })
            }

            /// Creates a view with any strides (in elements; they may be negative), whose element 0 is at `offset` in the
            /// slice.
            pub fn strided(data: $slice, shape: &[usize], strides: &[isize], offset: usize) -> Result<Self, Error> {
                let layout = Layout::new(shape, strides)?;
                check_bounds(&layout, offset, data.len())?;
                let disjoint: fn(&Layout) -> bool = $disjoint;
                if !disjoint(&layout) {
                    return Err(Error::Overlap { shape: shape.to_vec(), strides: strides.to_vec() });
                }
                // An empty view can have any offset, but its pointer must not leave the slice.
                let ptr = data.$as_ptr().wrapping_add(if layout.len() == 0 { 0 } else { offset });
                Ok($name { ptr, layout, memory: PhantomData })
            }

            /// Creates a view of the tensor at `ptr`, for adapters to other libraries' arrays. Strides are in
            /// elements.
            ///
            /// # Safety
            /// Every element that shape and strides reach from `ptr` is valid for the lifetime `'a`: for reads and,
            /// in a mutable view, for writes without aliasing.
            pub unsafe fn from_raw_parts(ptr: $ptr, shape: &[usize], strides: &[isize]) -> Result<Self, Error> {
                let layout = Layout::new(shape, strides)?;
                layout.span()?;
                let disjoint: fn(&Layout) -> bool = $disjoint;
                if !disjoint(&layout) {
                    return Err(Error::Overlap { shape: shape.to_vec(), strides: strides.to_vec() });
                }
                Ok($name { ptr, layout, memory: PhantomData })
            }

            /// Returns the shape.
            pub fn shape(&self) -> &[usize] {
                self.layout.shape()
            }

            /// Returns the strides, in elements.
            pub fn strides(&self) -> &[isize] {
                self.layout.strides()
            }

            /// Returns the number of elements.
            pub fn len(&self) -> usize {
                self.layout.len()
            }

            /// Returns whether there are no elements.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            pub(crate) fn layout(&self) -> &Layout {
                &self.layout
            }

            pub(crate) fn ptr(&self) -> $ptr {
                self.ptr
            }
        }
    };
}

view!(View, &'a [T], *const T, as_ptr, "An immutable tensor view: memory, shape and strides.", |_| true);
view!(
    ViewMut,
    &'a mut [T],
    *mut T,
    as_mut_ptr,
    "A mutable tensor view: memory, shape and strides. No two of its elements share memory.",
    Layout::is_disjoint
);

impl<T> Clone for View<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for View<'_, T> {}

impl<T> ViewMut<'_, T> {
    /// Returns the same tensor as an immutable view.
    pub fn as_view(&self) -> View<'_, T> {
        View { ptr: self.ptr, layout: self.layout, memory: PhantomData }
    }

    /// Reborrows the view for a shorter lifetime, so that it can be used again.
    pub fn reborrow(&mut self) -> ViewMut<'_, T> {
        ViewMut { ptr: self.ptr, layout: self.layout, memory: PhantomData }
    }
}

#[cfg(feature = "ndarray")]
mod from_ndarray {
    use super::{Error, View, ViewMut};
    use ndarray::{ArrayView, ArrayViewMut, Dimension};

    impl<'a, T, D: Dimension> TryFrom<ArrayView<'a, T, D>> for View<'a, T> {
        type Error = Error;
        fn try_from(array: ArrayView<'a, T, D>) -> Result<Self, Error> {
            // SAFETY: ndarray guarantees that every element reached by shape and strides is valid for 'a.
            unsafe { View::from_raw_parts(array.as_ptr(), array.shape(), array.strides()) }
        }
    }

    impl<'a, T, D: Dimension> TryFrom<ArrayViewMut<'a, T, D>> for ViewMut<'a, T> {
        type Error = Error;
        fn try_from(mut array: ArrayViewMut<'a, T, D>) -> Result<Self, Error> {
            let ptr = array.as_mut_ptr();
            // SAFETY: ndarray guarantees that every element reached by shape and strides is valid and unaliased for
            // 'a.
            unsafe { ViewMut::from_raw_parts(ptr, array.shape(), array.strides()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_never_leaves_its_memory() {
        let data = [0f32; 12];
        assert!(View::strided(&data, &[3, 4], &[4, 1], 0).is_ok());
        assert!(View::strided(&data, &[3, 4], &[-4, -1], 11).is_ok());
        assert_eq!(
            View::strided(&data, &[3, 4], &[4, 1], 1).unwrap_err(),
            Error::OutOfBounds { first: 1, last: 12, len: 12 }
        );
        assert!(matches!(View::strided(&data, &[3, 4], &[-4, 1], 7), Err(Error::OutOfBounds { first: -1, .. })));
        assert!(matches!(View::strided(&data, &[2], &[isize::MAX], 5), Err(Error::TooLarge { .. })));
        assert!(matches!(View::strided(&data, &[usize::MAX, 2], &[0, 0], 0), Err(Error::TooLarge { .. })));
        assert!(View::strided(&data, &[0, usize::MAX], &[1, 1], 99).is_ok_and(|v| v.is_empty()));
        assert!(View::strided(&data, &[7, 4], &[0, 1], 0).is_ok(), "a broadcast can be read");
    }

    #[test]
    fn an_output_may_not_overlap_itself() {
        let mut data = [0f32; 12];
        for (shape, strides, ok) in [
            (&[3usize, 4][..], &[4isize, 1][..], true),
            (&[4, 3], &[1, 4], true),
            (&[3, 4], &[0, 1], false),
            (&[3, 4], &[2, 1], false),
            (&[1, 4], &[0, 1], true),
            (&[2, 2, 3], &[6, 1, 2], true),
        ] {
            assert_eq!(ViewMut::strided(&mut data, shape, strides, 0).is_ok(), ok, "{shape:?} {strides:?}");
        }
    }
}
