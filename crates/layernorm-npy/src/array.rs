//! An array in memory, and the only place where shapes are checked.

use crate::{DType, Data, Error, Scalar};

/// The maximum number of dimensions, as in NumPy 2.
pub const MAX_DIMENSIONS: usize = 64;

/// Which index varies fastest in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// The last index, NumPy's default
    C,
    /// The first index
    Fortran,
}

/// An array as stored in its file: shape, order and elements.
///
/// The number of elements is always the product of the shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    shape: Vec<usize>,
    order: Order,
    data: Data,
}

impl Array {
    /// Creates an array in C order. Fails if the number of `values` is not that of `shape`.
    pub fn new<T: Scalar>(shape: impl Into<Vec<usize>>, values: Vec<T>) -> Result<Self, Error> {
        Self::from_data(shape, Order::C, T::wrap(values))
    }

    /// Creates an array with elements in the given order. Fails if the number of elements is not that of `shape`.
    pub fn from_data(shape: impl Into<Vec<usize>>, order: Order, data: Data) -> Result<Self, Error> {
        let shape = shape.into();
        check_length(&shape, data.dtype(), data.len())?;
        Ok(Self { shape, order, data })
    }

    /// For a shape that [`element_count`] accepted, with that many elements.
    pub(crate) fn from_checked(shape: Vec<usize>, order: Order, data: Data) -> Self {
        Self { shape, order, data }
    }

    /// The length of each dimension; empty for a 0-d array, which has one element.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The order of the elements.
    pub fn order(&self) -> Order {
        self.order
    }

    /// The distance, in elements, between neighbours along each dimension.
    ///
    /// A dimension of length 0 counts as 1 here, so no stride of an empty array is 0.
    pub fn strides(&self) -> Vec<isize> {
        let mut strides = vec![0; self.shape.len()];
        let mut step = 1_isize;
        let mut set = |(stride, length): (&mut isize, &usize)| {
            *stride = step;
            // Cannot overflow or wrap: `element_count` bounds the product of the non-zero lengths.
            step *= (*length).max(1) as isize;
        };
        match self.order {
            Order::C => strides.iter_mut().zip(&self.shape).rev().for_each(&mut set),
            Order::Fortran => strides.iter_mut().zip(&self.shape).for_each(&mut set),
        }
        strides
    }

    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        self.data.dtype()
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// The elements, in [`order`](Self::order).
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// The elements by value, in [`order`](Self::order).
    pub fn into_data(self) -> Data {
        self.data
    }

    /// The elements, in [`order`](Self::order), as a slice of `T`. Fails if they have another type.
    pub fn as_slice<T: Scalar>(&self) -> Result<&[T], Error> {
        T::slice(&self.data).ok_or(Error::DTypeMismatch { expected: T::DTYPE, found: self.dtype() })
    }

    /// The elements, in [`order`](Self::order), as a `Vec<T>`. Fails if they have another type.
    pub fn into_vec<T: Scalar>(self) -> Result<Vec<T>, Error> {
        T::take(self.data).map_err(|data| Error::DTypeMismatch { expected: T::DTYPE, found: data.dtype() })
    }
}

/// The number of elements of a shape.
///
/// The overflow check leaves out zeros, because strides are products of parts of the shape and must not overflow for an
/// empty array either.
pub(crate) fn element_count(shape: &[usize], dtype: DType) -> Result<usize, Error> {
    if shape.len() > MAX_DIMENSIONS {
        return Err(Error::TooManyDimensions { limit: MAX_DIMENSIONS, found: shape.len() });
    }
    let bytes = shape
        .iter()
        .filter(|&&length| length != 0)
        .try_fold(dtype.size(), |bytes, &length| bytes.checked_mul(length))
        .filter(|&bytes| isize::try_from(bytes).is_ok())
        .ok_or_else(|| Error::ShapeTooLarge { shape: shape.to_vec(), dtype })?;
    if shape.contains(&0) { Ok(0) } else { Ok(bytes / dtype.size()) }
}

/// Fails if `found` is not the number of elements of `shape`.
pub(crate) fn check_length(shape: &[usize], dtype: DType, found: usize) -> Result<(), Error> {
    let expected = element_count(shape, dtype)?;
    if expected == found { Ok(()) } else { Err(Error::LengthMismatch { shape: shape.to_vec(), expected, found }) }
}
