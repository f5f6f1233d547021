//! Fast path for layer and RMS norm of contiguous rows, for tensors so small that call overhead dominates. It runs the same
//! operations as `norms.rs` and gives the same bits.

use crate::failure::Failure;
use crate::flat::Flat;
use crate::settings::run;
use crate::tensor::{Dtype, has_memory, parameter_type, slice_mut, with_type};
use layernorm::parts::memory;
use layernorm::{
    Affine, Axes, Context, Element, Float, Gradients, NormConfig, Param, ParamMut, StatsMut, StatsRef, View, ViewMut,
    layer_norm, rms_norm,
};
use pyo3::prelude::*;

/// Statistics saved by a forward pass: m, δ and r of each row.
#[pyclass(frozen, module = "layernorm._core")]
pub struct Saved {
    numbers: Numbers,
    shape: Shape,
    /// Addresses of x and γ, to detect replaced tensors.
    of: (usize, Option<usize>),
}

enum Numbers {
    Single(Vec<f32>),
    Double(Vec<f64>),
}

#[pymethods]
impl Saved {
    /// `(address, type, count)` as the general functions take statistics. Valid as long as this object lives.
    #[getter]
    fn place(&self) -> (usize, usize, usize) {
        let (address, count) = match &self.numbers {
            Numbers::Single(numbers) => (numbers.as_ptr().expose_provenance(), numbers.len()),
            Numbers::Double(numbers) => (numbers.as_ptr().expose_provenance(), numbers.len()),
        };
        (address, self.shape.dtype.acc() as usize, count)
    }
}

/// Rows `[rows, n]` of a type.
#[derive(Clone, Copy, PartialEq)]
struct Shape {
    centered: bool,
    dtype: Dtype,
    rows: usize,
    n: usize,
    eps: f64,
}

/// `(address, dtype)` of γ, β or their gradients, `[n]`.
type Vector = Option<(usize, Dtype)>;

/// γ or β, if given, as Python passes it. Python has checked that its shape has `n` elements.
fn vector(address: Option<usize>, code: usize, n: usize) -> PyResult<Vector> {
    let Some(address) = address else { return Ok(None) };
    let dtype = Dtype::number(code)?;
    has_memory(address, dtype, n == 0)?;
    Ok(Some((address, dtype)))
}

/// # Safety
/// There are `rows·n` contiguous elements of type `T`.
unsafe fn matrix<'a, T>(address: usize, shape: Shape) -> Result<View<'a, T>, Failure> {
    let pointer = std::ptr::with_exposed_provenance(address);
    // SAFETY: guaranteed by the caller.
    Ok(unsafe { View::from_raw_parts(pointer, &[shape.rows, shape.n], &[shape.n as isize, 1]) }?)
}

/// # Safety
/// As for [`matrix`], and nothing else accesses the memory.
unsafe fn matrix_mut<'a, T>(address: usize, shape: Shape) -> Result<ViewMut<'a, T>, Failure> {
    let pointer = std::ptr::with_exposed_provenance_mut(address);
    // SAFETY: guaranteed by the caller.
    Ok(unsafe { ViewMut::from_raw_parts(pointer, &[shape.rows, shape.n], &[shape.n as isize, 1]) }?)
}

/// # Safety
/// There are `n` contiguous elements of the type of x or f32.
unsafe fn parameter<'a, T: Element>(vector: Vector, shape: Shape) -> Result<Option<Param<'a, T>>, Failure> {
    let Some((address, dtype)) = vector else { return Ok(None) };
    parameter_type("parameter", dtype, shape.dtype)?;
    // SAFETY: guaranteed by the caller.
    Ok(Some(unsafe {
        if dtype == shape.dtype {
            Param::Same(View::from_raw_parts(std::ptr::with_exposed_provenance(address), &[shape.n], &[1])?)
        } else {
            Param::F32(View::from_raw_parts(std::ptr::with_exposed_provenance(address), &[shape.n], &[1])?)
        }
    }))
}

/// # Safety
/// As for [`parameter`], and nothing else accesses the memory.
unsafe fn parameter_mut<'a, T: Element>(vector: Vector, shape: Shape) -> Result<Option<ParamMut<'a, T>>, Failure> {
    let Some((address, dtype)) = vector else { return Ok(None) };
    parameter_type("gradient of a parameter", dtype, shape.dtype)?;
    // SAFETY: guaranteed by the caller.
    Ok(Some(unsafe {
        if dtype == shape.dtype {
            ParamMut::Same(ViewMut::from_raw_parts(std::ptr::with_exposed_provenance_mut(address), &[shape.n], &[1])?)
        } else {
            ParamMut::F32(ViewMut::from_raw_parts(std::ptr::with_exposed_provenance_mut(address), &[shape.n], &[1])?)
        }
    }))
}

/// Computes y = norm(x) for contiguous rows `[rows, n]`, and returns the statistics if they are to be saved.
#[pyfunction]
#[pyo3(signature = (centered, dtype, rows, n, x, y, weight, weight_type, bias, bias_type, eps, save, threads, /))]
#[allow(clippy::too_many_arguments, reason = "Python passes positional arguments")]
pub fn rows_forward(
    py: Python<'_>,
    centered: bool,
    dtype: usize,
    rows: usize,
    n: usize,
    x: usize,
    y: usize,
    weight: Option<usize>,
    weight_type: usize,
    bias: Option<usize>,
    bias_type: usize,
    eps: f64,
    save: bool,
    threads: usize,
) -> PyResult<Option<Saved>> {
    let shape = Shape { centered, dtype: Dtype::number(dtype)?, rows, n, eps };
    has_memory(x, shape.dtype, rows == 0 || n == 0)?;
    has_memory(y, shape.dtype, rows == 0 || n == 0)?;
    let mut saved = save.then(|| Saved::new(shape, (x, weight))).transpose()?;
    let stats = saved.as_mut().map(|saved| saved.place().0);
    let (weight, bias) = (vector(weight, weight_type, n)?, vector(bias, bias_type, n)?);
    let call = Forward { shape, x, y, weight, bias, stats };
    run(py, (threads, true), |cx| with_type!(call.shape.dtype, forward_of(&call, cx)))?;
    Ok(saved)
}

impl Saved {
    fn new(shape: Shape, of: (usize, Option<usize>)) -> Result<Saved, Failure> {
        let count = shape.rows.saturating_mul(3);
        let numbers = match shape.dtype {
            Dtype::F64 => Numbers::Double(memory::zeros(count)?),
            _ => Numbers::Single(memory::zeros(count)?),
        };
        Ok(Saved { numbers, shape, of })
    }
}

struct Forward {
    shape: Shape,
    x: usize,
    y: usize,
    weight: Vector,
    bias: Vector,
    stats: Option<usize>,
}

fn forward_of<T: Element>(call: &Forward, cx: &mut Context) -> Result<(), Failure> {
    let shape = call.shape;
    // SAFETY: Python keeps the tensors alive, contiguous and of these sizes; outputs are exclusive.
    unsafe {
        let affine =
            Affine { weight: parameter(call.weight, shape)?, bias: parameter(call.bias, shape)?, zero_centered: false };
        let stats = call.stats.map(|address| {
            let (m, rest) = slice_mut::<T::Acc>(address, 3 * shape.rows).split_at_mut(shape.rows);
            let (delta, rstd) = rest.split_at_mut(shape.rows);
            StatsMut { m, delta, rstd }
        });
        let config = NormConfig::<T> { axes: Axes::Last(1), affine, eps: shape.eps };
        let op = if shape.centered { layer_norm::forward } else { rms_norm::forward };
        Ok(op(matrix(call.x, shape)?, matrix_mut(call.y, shape)?, stats, &config, cx)?)
    }
}

/// Computes gradients from what [`rows_forward`] saved, except those that are None. Returns false and does nothing if the address or
/// size of x or γ has changed, because hooks may have replaced them. Counts are of elements.
#[pyfunction]
#[pyo3(signature = (
    centered, dtype, n, x, count, dy, weight, weight_type, weight_count, eps, saved, dx, dweight, dbias, bias_type, threads, /
))]
#[allow(clippy::too_many_arguments, reason = "Python passes positional arguments")]
pub fn rows_backward(
    py: Python<'_>,
    centered: bool,
    dtype: usize,
    n: usize,
    x: usize,
    count: usize,
    dy: Flat,
    weight: Option<usize>,
    weight_type: usize,
    weight_count: usize,
    eps: f64,
    saved: &Saved,
    dx: Option<usize>,
    dweight: Option<usize>,
    dbias: Option<usize>,
    bias_type: usize,
    threads: usize,
) -> PyResult<bool> {
    let shape = Shape { centered, dtype: Dtype::number(dtype)?, rows: saved.shape.rows, n, eps };
    let same = saved.of == (x, weight) && saved.shape == shape && count == shape.rows * n;
    if !same || (weight.is_some() && weight_count != n) {
        return Ok(false);
    }
    dy.fits("gradient of the output", shape.dtype, count)?;
    let (weight, dweight, dbias) =
        (vector(weight, weight_type, n)?, vector(dweight, weight_type, n)?, vector(dbias, bias_type, n)?);
    has_memory(dx.unwrap_or(x), shape.dtype, count == 0)?;
    let dy = dy.address();
    let call = Backward { shape, x, dy, weight, dx, dweight, dbias };
    run(py, (threads, true), |cx| match (&saved.numbers, call.shape.dtype) {
        (Numbers::Double(stats), Dtype::F64) => backward_of::<f64>(&call, stats, cx),
        (Numbers::Single(stats), Dtype::F32) => backward_of::<f32>(&call, stats, cx),
        (Numbers::Single(stats), Dtype::F16) => backward_of::<layernorm::f16>(&call, stats, cx),
        (Numbers::Single(stats), Dtype::Bf16) => backward_of::<layernorm::bf16>(&call, stats, cx),
        _ => Err(Failure::Order("statistics of another type")),
    })?;
    Ok(true)
}

struct Backward {
    shape: Shape,
    x: usize,
    dy: usize,
    weight: Vector,
    dx: Option<usize>,
    dweight: Vector,
    dbias: Vector,
}

fn backward_of<T: Element>(call: &Backward, stats: &[T::Acc], cx: &mut Context) -> Result<(), Failure>
where
    T::Acc: Float,
{
    let shape = call.shape;
    let (m, rest) = stats.split_at(shape.rows);
    let (delta, rstd) = rest.split_at(shape.rows);
    // SAFETY: as in `forward_of`.
    unsafe {
        let affine = Affine { weight: parameter(call.weight, shape)?, bias: None, zero_centered: false };
        let gradients = Gradients {
            input: call.dx.map(|dx| matrix_mut(dx, shape)).transpose()?,
            weight: parameter_mut(call.dweight, shape)?,
            bias: parameter_mut(call.dbias, shape)?,
        };
        let config = NormConfig::<T> { axes: Axes::Last(1), affine, eps: shape.eps };
        let op = if shape.centered { layer_norm::backward } else { rms_norm::backward };
        let (x, dy) = (matrix(call.x, shape)?, matrix(call.dy, shape)?);
        Ok(op(x, dy, StatsRef { m, delta, rstd }, gradients, &config, cx)?)
    }
}
