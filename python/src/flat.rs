//! Numbers that follow each other in memory, as Python hands them over: with their type and how many there are, so that nothing
//! is read or written beyond them.

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
    /// The address of the first.
    pub fn address(&self) -> usize {
        self.address
    }

    /// The type.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The address, if so many numbers are there and can be read as what they are.
    pub fn checked(&self, what: impl Fn() -> String, count: usize) -> Result<usize, Failure> {
        if self.count != count {
            return Err(Failure::Count { what: what(), expected: count, found: self.count });
        }
        if count > 0 && (self.address == 0 || !self.address.is_multiple_of(self.dtype.size())) {
            return Err(Failure::Memory { what: what() });
        }
        Ok(self.address)
    }

    /// Refuses numbers of another type, or not so many.
    pub fn fits(&self, what: &'static str, dtype: Dtype, count: usize) -> Result<(), Failure> {
        self.typed(what, dtype, count).map(|_| ())
    }

    fn typed(&self, what: &'static str, dtype: Dtype, count: usize) -> Result<usize, Failure> {
        if self.dtype != dtype {
            return Err(Failure::Type { what, expected: dtype.name(), found: self.dtype });
        }
        self.checked(|| what.to_owned(), count)
    }

    /// So many numbers of the type `dtype`, to read.
    ///
    /// # Safety
    /// The memory is what the caller said and stays so for `'a`; `dtype` is `T`.
    pub unsafe fn read<'a, T>(&self, what: &'static str, dtype: Dtype, count: usize) -> Result<&'a [T], Failure> {
        // SAFETY: the caller's promise; as many as this are there.
        Ok(unsafe { slice(self.typed(what, dtype, count)?, count) })
    }

    /// The same to write.
    ///
    /// # Safety
    /// As for [`Flat::read`], and nothing else uses the memory.
    pub unsafe fn write<'a, T>(&self, what: &'static str, dtype: Dtype, count: usize) -> Result<&'a mut [T], Failure> {
        // SAFETY: as above.
        Ok(unsafe { slice_mut(self.typed(what, dtype, count)?, count) })
    }
}
