//! Tensors as Python passes them: address, type, shape and strides. The Python code takes them from arrays that it keeps alive
//! during the call.

use crate::failure::Failure;
use layernorm::{Affine, Element, MAX_RANK, Param, ParamMut, View, ViewMut};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// float16
    F16,
    /// bfloat16
    Bf16,
    /// float32
    F32,
    /// float64
    F64,
}

impl Dtype {
    const ALL: [Dtype; 4] = [Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::F64];

    /// Returns the type with this index in [`Dtype::ALL`].
    pub fn number(code: usize) -> PyResult<Dtype> {
        Dtype::ALL.get(code).copied().ok_or_else(|| PyValueError::new_err(format!("no type has number {code}")))
    }

    /// Size of an element in bytes.
    pub fn size(self) -> usize {
        match self {
            Dtype::F16 | Dtype::Bf16 => 2,
            Dtype::F32 => 4,
            Dtype::F64 => 8,
        }
    }

    /// Accumulation type.
    pub fn acc(self) -> Dtype {
        if self == Dtype::F64 { Dtype::F64 } else { Dtype::F32 }
    }

    /// Name in NumPy and PyTorch.
    pub fn name(self) -> &'static str {
        match self {
            Dtype::F16 => "float16",
            Dtype::Bf16 => "bfloat16",
            Dtype::F32 => "float32",
            Dtype::F64 => "float64",
        }
    }
}

/// Calls `$run::<T>(…)`, or `$run::<T, _>(…)` with a semicolon, with the element type of a [`Dtype`].
macro_rules! with_type {
    ($dtype:expr, $run:ident($($arg:expr),* ;)) => {
        match $dtype {
            $crate::tensor::Dtype::F16 => $run::<layernorm::f16, _>($($arg),*),
            $crate::tensor::Dtype::Bf16 => $run::<layernorm::bf16, _>($($arg),*),
            $crate::tensor::Dtype::F32 => $run::<f32, _>($($arg),*),
            $crate::tensor::Dtype::F64 => $run::<f64, _>($($arg),*),
        }
    };
    ($dtype:expr, $run:ident($($arg:expr),* $(,)?)) => {
        match $dtype {
            $crate::tensor::Dtype::F16 => $run::<layernorm::f16>($($arg),*),
            $crate::tensor::Dtype::Bf16 => $run::<layernorm::bf16>($($arg),*),
            $crate::tensor::Dtype::F32 => $run::<f32>($($arg),*),
            $crate::tensor::Dtype::F64 => $run::<f64>($($arg),*),
        }
    };
}
pub(crate) use with_type;

/// `(address, dtype, shape, strides)`, strides in elements. The dtype is its index in [`Dtype::ALL`].
#[derive(Clone, Copy, Debug)]
pub struct Tensor {
    /// Address of the first element.
    pub address: usize,
    /// Element type.
    pub dtype: Dtype,
    rank: usize,
    shape: [usize; MAX_RANK],
    strides: [isize; MAX_RANK],
}

fn numbers<'py, N>(tuple: &Bound<'py, PyAny>, to: &mut [N; MAX_RANK]) -> PyResult<usize>
where
    N: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    let tuple = tuple.cast::<PyTuple>()?;
    if tuple.len() > MAX_RANK {
        return Err(Failure::from(layernorm::Error::Rank { max: MAX_RANK, found: tuple.len() }).into());
    }
    for (at, item) in tuple.iter().enumerate() {
        to[at] = item.extract()?;
    }
    Ok(tuple.len())
}

/// Checks that a tensor has aligned memory. PyTorch's tensors without memory (on the device `meta`, freed, or zero tensors) have
/// address 0.
pub fn has_memory(address: usize, dtype: Dtype, empty: bool) -> Result<(), Failure> {
    if !empty && (address == 0 || !address.is_multiple_of(dtype.size())) {
        return Err(Failure::Memory { what: "tensor".to_owned() });
    }
    Ok(())
}

impl<'py> FromPyObject<'_, 'py> for Tensor {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Tensor> {
        let parts = object.cast::<PyTuple>()?;
        let dtype = Dtype::number(parts.get_item(1)?.extract()?)?;
        let (mut shape, mut strides) = ([0; MAX_RANK], [0; MAX_RANK]);
        let rank = numbers(&parts.get_item(2)?, &mut shape)?;
        if numbers(&parts.get_item(3)?, &mut strides)? != rank {
            return Err(PyValueError::new_err("shape and strides have different lengths"));
        }
        let address = parts.get_item(0)?.extract()?;
        has_memory(address, dtype, shape[..rank].contains(&0))?;
        Ok(Tensor { address, dtype, rank, shape, strides })
    }
}

impl Tensor {
    /// Shape.
    pub fn shape(&self) -> &[usize] {
        &self.shape[..self.rank]
    }

    /// Whether the other tensor is the same memory with the same shape and strides.
    pub fn is_same(&self, other: &Tensor) -> bool {
        let layout = |tensor: &Tensor| (tensor.address, tensor.dtype, tensor.shape, tensor.strides);
        layout(self) == layout(other)
    }

    /// Returns the address as a pointer. An empty tensor may have address 0, which slices and views do not allow.
    fn pointer<T>(&self) -> *mut T {
        if self.address == 0 { std::ptr::dangling_mut() } else { std::ptr::with_exposed_provenance_mut(self.address) }
    }

    /// Returns a view for reading.
    ///
    /// # Safety
    /// The memory is as described, of type `T`, and stays valid for `'a`.
    pub unsafe fn view<'a, T>(&self) -> Result<View<'a, T>, Failure> {
        // SAFETY: guaranteed by the caller.
        Ok(unsafe { View::from_raw_parts(self.pointer(), self.shape(), &self.strides[..self.rank]) }?)
    }

    /// Returns a view for writing.
    ///
    /// # Safety
    /// As for [`Tensor::view`], and nothing else accesses the memory.
    pub unsafe fn view_mut<'a, T>(&self) -> Result<ViewMut<'a, T>, Failure> {
        // SAFETY: guaranteed by the caller.
        Ok(unsafe { ViewMut::from_raw_parts(self.pointer(), self.shape(), &self.strides[..self.rank]) }?)
    }

    /// Checks that the type is that of `like`.
    pub fn same_type(&self, what: &'static str, like: Dtype) -> Result<(), Failure> {
        if self.dtype == like { Ok(()) } else { Err(Failure::Type { what, expected: like.name(), found: self.dtype }) }
    }

    fn parameter_type(&self, what: &'static str, input: Dtype) -> Result<(), Failure> {
        parameter_type(what, self.dtype, input)
    }
}

/// Checks that a parameter has the input's type or float32.
pub fn parameter_type(what: &'static str, found: Dtype, input: Dtype) -> Result<(), Failure> {
    if found == input || found == Dtype::F32 {
        return Ok(());
    }
    let expected = match input {
        Dtype::F16 => "float16 or float32",
        Dtype::Bf16 => "bfloat16 or float32",
        Dtype::F32 => "float32",
        Dtype::F64 => "float64 or float32",
    };
    Err(Failure::Type { what, expected, found })
}

/// γ and β.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    /// γ
    pub weight: Option<Tensor>,
    /// β
    pub bias: Option<Tensor>,
    /// Whether the gain is 1 + γ.
    pub zero_centered: bool,
}

impl Parameters {
    /// Converts the parameters for the library.
    ///
    /// # Safety
    /// As for [`Tensor::view`]; `input` is `T`.
    pub unsafe fn affine<'a, T: Element>(&self, input: Dtype) -> Result<Affine<'a, T>, Failure> {
        let parameter = |what, tensor: Option<Tensor>| -> Result<Option<Param<'a, T>>, Failure> {
            let Some(tensor) = tensor else { return Ok(None) };
            tensor.parameter_type(what, input)?;
            // SAFETY: guaranteed by the caller.
            Ok(Some(unsafe {
                if tensor.dtype == input { Param::Same(tensor.view()?) } else { Param::F32(tensor.view()?) }
            }))
        };
        Ok(Affine {
            weight: parameter("weight", self.weight)?,
            bias: parameter("bias", self.bias)?,
            zero_centered: self.zero_centered,
        })
    }
}

/// Returns the output for the gradient of a parameter.
///
/// # Safety
/// As for [`Tensor::view_mut`]; `input` is `T`.
pub unsafe fn gradient<'a, T: Element>(
    what: &'static str,
    tensor: Option<Tensor>,
    input: Dtype,
) -> Result<Option<ParamMut<'a, T>>, Failure> {
    let Some(tensor) = tensor else { return Ok(None) };
    tensor.parameter_type(what, input)?;
    // SAFETY: guaranteed by the caller.
    Ok(Some(unsafe {
        if tensor.dtype == input { ParamMut::Same(tensor.view_mut()?) } else { ParamMut::F32(tensor.view_mut()?) }
    }))
}

/// Returns the `count` contiguous numbers at an address.
///
/// # Safety
/// They exist, of type `A` (for which any bytes are valid), for `'a`.
pub unsafe fn slice<'a, A>(address: usize, count: usize) -> &'a [A] {
    // SAFETY: guaranteed by the caller; without elements any aligned address is valid.
    unsafe { std::slice::from_raw_parts(nonempty(address, count), count) }
}

/// The same for writing.
///
/// # Safety
/// As for [`slice`], and nothing else accesses the memory.
pub unsafe fn slice_mut<'a, A>(address: usize, count: usize) -> &'a mut [A] {
    // SAFETY: as above.
    unsafe { std::slice::from_raw_parts_mut(nonempty(address, count), count) }
}

fn nonempty<A>(address: usize, count: usize) -> *mut A {
    if count == 0 { std::ptr::dangling_mut() } else { std::ptr::with_exposed_provenance_mut(address) }
}
