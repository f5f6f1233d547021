//! Contiguous arrays as Python passes them: address, type and number of elements, so that nothing is accessed out of bounds.

use crate::failure::Failure;
use crate::tensor::{Dtype, slice, slice_mut};
use pyo3::prelude::*;

/// `(address, dtype, count)` of a contiguous tensor.
#[derive(Clone, Copy, Debug)]
pub struct Flat {
    address: usize,
    dtype: Dtype,
    count: usize,
}

impl<'py> FromPyObject<'_, 'py> for Flat {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Flat> {
        let (address, code, count) = object.extract()?;
        Ok(Flat { address, dtype: Dtype::number(code)?, count })
    }
}

impl Flat {
    /// Address of the first element.
    pub fn address(&self) -> usize {
        self.address
    }

    /// Element type.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Number of elements.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the address if there are `count` elements in aligned memory.
    pub fn checked(&self, what: impl Fn() -> String, count: usize) -> Result<usize, Failure> {
        if self.count != count {
            return Err(Failure::Count { what: what(), expected: count, found: self.count });
        }
        if count > 0 && (self.address == 0 || !self.address.is_multiple_of(self.dtype.size())) {
            return Err(Failure::Memory { what: what() });
        }
        Ok(self.address)
    }

    /// Checks type and number of elements.
    pub fn fits(&self, what: &'static str, dtype: Dtype, count: usize) -> Result<(), Failure> {
        self.typed(what, dtype, count).map(|_| ())
    }

    fn typed(&self, what: &'static str, dtype: Dtype, count: usize) -> Result<usize, Failure> {
        if self.dtype != dtype {
            return Err(Failure::Type { what, expected: dtype.name(), found: self.dtype });
        }
        self.checked(|| what.to_owned(), count)
    }

    /// Returns `count` elements of type `dtype` for reading.
    ///
    /// # Safety
    /// The memory is as described and stays valid for `'a`; `dtype` is `T`.
    pub unsafe fn read<'a, T>(&self, what: &'static str, dtype: Dtype, count: usize) -> Result<&'a [T], Failure> {
        // SAFETY: guaranteed by the caller; the count was checked.
        Ok(unsafe { slice(self.typed(what, dtype, count)?, count) })
    }

    /// The same for writing.
    ///
    /// # Safety
    /// As for [`Flat::read`], and nothing else accesses the memory.
    pub unsafe fn write<'a, T>(&self, what: &'static str, dtype: Dtype, count: usize) -> Result<&'a mut [T], Failure> {
        // SAFETY: as above.
        Ok(unsafe { slice_mut(self.typed(what, dtype, count)?, count) })
    }
}
