//! Norms: each call makes views of tensors and calls the library.

use crate::failure::Failure;
use crate::flat::Flat;
use crate::settings::{How, run};
use crate::tensor::{Dtype, Parameters, Tensor, gradient, with_type};
use layernorm::batch_norm::{self, BatchConfig, Moments, Momentum, Running, RunningVariance};
use layernorm::group_norm::{self, GroupConfig};
use layernorm::{
    Affine, Axes, Context, Element, Gradients, NormConfig, StatsMut, StatsRef, View, ViewMut, layer_norm, rms_norm,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

/// A norm with its own arguments.
#[derive(Clone, Debug)]
pub enum Op {
    /// Layer norm over these axes, or over this number of trailing axes.
    Layer(Rows),
    /// RMS norm over such axes.
    Rms(Rows),
    /// Group norm with this number of groups.
    Group(usize),
    /// Batch norm with the statistics of the batch.
    Batch,
}

#[derive(Clone, Debug)]
pub enum Rows {
    Last(usize),
    These(Vec<isize>),
}

impl Rows {
    fn axes(&self) -> Axes<'_> {
        match self {
            Rows::Last(count) => Axes::Last(*count),
            Rows::These(axes) => Axes::These(axes),
        }
    }
}

/// `("layer", trailing axes or a tuple of axes)`, `("rms", …)`, `("group", groups)` or `("batch", None)`.
impl<'py> FromPyObject<'_, 'py> for Op {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Op> {
        let (name, rest): (Bound<'py, PyAny>, Bound<'py, PyAny>) = object.extract()?;
        let rows = || -> PyResult<Rows> {
            Ok(match rest.extract::<usize>() {
                Ok(count) => Rows::Last(count),
                Err(_) => Rows::These(rest.extract()?),
            })
        };
        match name.extract::<&str>()? {
            "layer" => Ok(Op::Layer(rows()?)),
            "rms" => Ok(Op::Rms(rows()?)),
            "group" => Ok(Op::Group(rest.extract()?)),
            "batch" => Ok(Op::Batch),
            other => Err(PyTypeError::new_err(format!("no norm has the name {other:?}"))),
        }
    }
}

/// m, δ and r of the rows: `[3, rows]` in the accumulation type.
type Stats = Flat;

/// Number of rows with statistics.
fn stats_rows(stats: &Stats) -> Result<usize, Failure> {
    if !stats.count().is_multiple_of(3) {
        let what = "statistics".to_owned();
        return Err(Failure::Count { what, expected: stats.count() / 3 * 3, found: stats.count() });
    }
    Ok(stats.count() / 3)
}

/// # Safety
/// The memory is as described, and nothing else accesses it; `acc` is `A`.
unsafe fn stats_mut<'a, A>(stats: Stats, acc: Dtype) -> Result<StatsMut<'a, A>, Failure> {
    let rows = stats_rows(&stats)?;
    // SAFETY: guaranteed by the caller.
    let (m, rest) = unsafe { stats.write("statistics", acc, 3 * rows)? }.split_at_mut(rows);
    let (delta, rstd) = rest.split_at_mut(rows);
    Ok(StatsMut { m, delta, rstd })
}

/// # Safety
/// The memory is as described; `acc` is `A`.
unsafe fn stats_ref<'a, A>(stats: Stats, acc: Dtype) -> Result<StatsRef<'a, A>, Failure> {
    let rows = stats_rows(&stats)?;
    // SAFETY: guaranteed by the caller.
    let (m, rest) = unsafe { stats.read("statistics", acc, 3 * rows)? }.split_at(rows);
    let (delta, rstd) = rest.split_at(rows);
    Ok(StatsRef { m, delta, rstd })
}

struct Forward {
    op: Op,
    x: Tensor,
    y: Tensor,
    parameters: Parameters,
    eps: f64,
    stats: Option<Stats>,
    residual: Option<(Tensor, Tensor)>,
}

/// y = norm(x); with `residual = (r, h)`: h = x + r, y = norm(h). x and y may be the same tensor, for layer and RMS norm.
#[pyfunction]
#[pyo3(signature = (op, x, y, weight, bias, zero_centered, eps, stats, residual, how, /))]
#[allow(clippy::too_many_arguments, reason = "Python passes positional arguments")]
pub fn forward(
    py: Python<'_>,
    op: Op,
    x: Tensor,
    y: Tensor,
    weight: Option<Tensor>,
    bias: Option<Tensor>,
    zero_centered: bool,
    eps: f64,
    stats: Option<Stats>,
    residual: Option<(Tensor, Tensor)>,
    how: How,
) -> PyResult<()> {
    let parameters = Parameters { weight, bias, zero_centered };
    let call = Forward { op, x, y, parameters, eps, stats, residual };
    run(py, how, move |cx| with_type!(call.x.dtype, forward_of(&call, cx)))
}

fn forward_of<T: Element>(call: &Forward, cx: &mut Context) -> Result<(), Failure> {
    let dtype = call.x.dtype;
    call.y.same_type("output", dtype)?;
    // SAFETY: Python keeps the arrays alive and describes them correctly; outputs are exclusive and do not overlap.
    unsafe {
        let affine = call.parameters.affine::<T>(dtype)?;
        let stats = call.stats.map(|stats| stats_mut(stats, dtype.acc())).transpose()?;
        let (x, eps) = (call.x.view()?, call.eps);
        match &call.op {
            Op::Layer(rows) => row_forward(call, stats, &NormConfig { axes: rows.axes(), affine, eps }, true, cx),
            Op::Rms(rows) => row_forward(call, stats, &NormConfig { axes: rows.axes(), affine, eps }, false, cx),
            Op::Group(groups) => {
                let config = GroupConfig { groups: *groups, affine, eps };
                Ok(group_norm::forward(x, call.y.view_mut()?, stats, &config, cx)?)
            }
            Op::Batch => {
                let stats = stats.ok_or(Failure::Order("batch norm needs room for its statistics"))?;
                Ok(batch_norm::forward(x, call.y.view_mut()?, stats, &BatchConfig { affine, eps }, cx)?)
            }
        }
    }
}

/// # Safety
/// As in [`forward_of`].
unsafe fn row_forward<T: Element>(
    call: &Forward,
    stats: Option<StatsMut<'_, T::Acc>>,
    config: &NormConfig<'_, T>,
    centered: bool,
    cx: &mut Context,
) -> Result<(), Failure> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let y: ViewMut<'_, T> = call.y.view_mut()?;
        if let Some((residual, h)) = &call.residual {
            residual.same_type("residual", call.x.dtype)?;
            h.same_type("residual output", call.x.dtype)?;
            let (x, r, h) = (call.x.view()?, residual.view()?, h.view_mut()?);
            let op = if centered { layer_norm::forward_residual } else { rms_norm::forward_residual };
            return Ok(op(x, r, h, y, stats, config, cx)?);
        }
        if call.x.is_same(&call.y) {
            let op = if centered { layer_norm::forward_in_place } else { rms_norm::forward_in_place };
            return Ok(op(y, stats, config, cx)?);
        }
        let op = if centered { layer_norm::forward } else { rms_norm::forward };
        Ok(op(call.x.view()?, y, stats, config, cx)?)
    }
}

struct Backward {
    op: Op,
    x: Tensor,
    dy: Tensor,
    dh: Option<Tensor>,
    weight: Option<Tensor>,
    zero_centered: bool,
    eps: f64,
    stats: Option<Stats>,
    dx: Option<Tensor>,
    dweight: Option<Tensor>,
    dbias: Option<Tensor>,
}

/// Computes gradients from dy, x (h with a residual) and the saved statistics, except those that are None.
#[pyfunction]
#[pyo3(signature = (op, x, dy, dh, weight, zero_centered, eps, stats, dx, dweight, dbias, how, /))]
#[allow(clippy::too_many_arguments, reason = "Python passes positional arguments")]
pub fn backward(
    py: Python<'_>,
    op: Op,
    x: Tensor,
    dy: Tensor,
    dh: Option<Tensor>,
    weight: Option<Tensor>,
    zero_centered: bool,
    eps: f64,
    stats: Stats,
    dx: Option<Tensor>,
    dweight: Option<Tensor>,
    dbias: Option<Tensor>,
    how: How,
) -> PyResult<()> {
    let stats = Some(stats);
    let call = Backward { op, x, dy, dh, weight, zero_centered, eps, stats, dx, dweight, dbias };
    run(py, how, move |cx| with_type!(call.x.dtype, backward_of(&call, cx)))
}

fn backward_of<T: Element>(call: &Backward, cx: &mut Context) -> Result<(), Failure> {
    // SAFETY: Python keeps the arrays alive and describes them correctly; outputs are exclusive and do not overlap.
    unsafe {
        let (x, dy, affine, gradients) = backward_views::<T>(call)?;
        let stats = call.stats.ok_or(Failure::Order("gradients need the statistics"))?;
        let (stats, eps) = (stats_ref(stats, call.x.dtype.acc())?, call.eps);
        let rows = |rows: &Rows, centered: bool, gradients, cx: &mut Context| {
            let config = NormConfig { axes: rows.axes(), affine, eps };
            let dh = call.dh.as_ref().map(|dh| dh.view()).transpose()?;
            let op = if centered { layer_norm::backward_residual } else { rms_norm::backward_residual };
            Ok(op(x, dy, dh, stats, gradients, &config, cx)?)
        };
        match &call.op {
            Op::Layer(axes) => rows(axes, true, gradients, cx),
            Op::Rms(axes) => rows(axes, false, gradients, cx),
            Op::Group(groups) => {
                Ok(group_norm::backward(x, dy, stats, gradients, &GroupConfig { groups: *groups, affine, eps }, cx)?)
            }
            Op::Batch => Ok(batch_norm::backward(x, dy, stats, gradients, &BatchConfig { affine, eps }, cx)?),
        }
    }
}

type BackwardViews<'a, T> = (View<'a, T>, View<'a, T>, Affine<'a, T>, Gradients<'a, T>);

/// # Safety
/// As in [`backward_of`].
unsafe fn backward_views<'a, T: Element>(call: &Backward) -> Result<BackwardViews<'a, T>, Failure> {
    let dtype = call.x.dtype;
    call.dy.same_type("gradient of the output", dtype)?;
    if let Some(dh) = &call.dh {
        dh.same_type("gradient of the residual output", dtype)?;
    }
    if let Some(dx) = &call.dx {
        dx.same_type("gradient of the input", dtype)?;
    }
    // SAFETY: guaranteed by the caller.
    unsafe {
        let parameters = Parameters { weight: call.weight, bias: None, zero_centered: call.zero_centered };
        let gradients = Gradients {
            input: call.dx.as_ref().map(|dx| dx.view_mut()).transpose()?,
            weight: gradient("gradient of the weight", call.dweight, dtype)?,
            bias: gradient("gradient of the bias", call.dbias, dtype)?,
        };
        Ok((call.x.view()?, call.dy.view()?, parameters.affine(dtype)?, gradients))
    }
}

/// Running mean and variance, in the accumulation type.
type RunningStats = (Flat, Flat);

/// Number of channels of `[N, C, …]`; 0 if there is no such axis, which is an error in the operations.
fn channels(x: &Tensor) -> usize {
    x.shape().get(1).copied().unwrap_or(0)
}

/// Batch norm in training, which also updates running statistics: with weight `momentum`, or, if it is None, as the average over
/// all batches, of which there were `batches` before.
#[pyfunction]
#[pyo3(signature = (x, y, weight, bias, eps, stats, running, momentum, batches, how, /))]
#[allow(clippy::too_many_arguments, reason = "Python passes positional arguments")]
pub fn batch_running(
    py: Python<'_>,
    x: Tensor,
    y: Tensor,
    weight: Option<Tensor>,
    bias: Option<Tensor>,
    eps: f64,
    stats: Stats,
    running: RunningStats,
    momentum: Option<f64>,
    batches: u64,
    how: How,
) -> PyResult<()> {
    fn of<T: Element>(
        call: &Forward,
        running: RunningStats,
        momentum: Momentum,
        cx: &mut Context,
    ) -> Result<(), Failure> {
        call.y.same_type("output", call.x.dtype)?;
        let (acc, count) = (call.x.dtype.acc(), channels(&call.x));
        // SAFETY: as in `forward_of`.
        unsafe {
            let config = BatchConfig { affine: call.parameters.affine::<T>(call.x.dtype)?, eps: call.eps };
            let stats = call.stats.ok_or(Failure::Order("batch norm needs room for its statistics"))?;
            let stats = stats_mut(stats, acc)?;
            let mean = running.0.write("running mean", acc, count)?;
            let var = running.1.write("running variance", acc, count)?;
            let running = Running { mean, var, momentum, variance: RunningVariance::Unbiased };
            Ok(batch_norm::forward_running(call.x.view()?, call.y.view_mut()?, stats, running, &config, cx)?)
        }
    }
    let momentum = momentum.map_or(Momentum::Cumulative(batches), Momentum::Exponential);
    let parameters = Parameters { weight, bias, zero_centered: false };
    let call = Forward { op: Op::Batch, x, y, parameters, eps, stats: Some(stats), residual: None };
    run(py, how, move |cx| with_type!(call.x.dtype, of(&call, running, momentum, cx)))
}

/// Batch norm with running statistics.
#[pyfunction]
#[pyo3(signature = (x, y, weight, bias, eps, running, how, /))]
#[allow(clippy::too_many_arguments, reason = "Python passes positional arguments")]
pub fn batch_infer(
    py: Python<'_>,
    x: Tensor,
    y: Tensor,
    weight: Option<Tensor>,
    bias: Option<Tensor>,
    eps: f64,
    running: RunningStats,
    how: How,
) -> PyResult<()> {
    fn of<T: Element>(call: &Forward, running: RunningStats, cx: &mut Context) -> Result<(), Failure> {
        call.y.same_type("output", call.x.dtype)?;
        // SAFETY: as in `forward_of`.
        unsafe {
            let config = BatchConfig { affine: call.parameters.affine::<T>(call.x.dtype)?, eps: call.eps };
            Ok(batch_norm::infer(call.x.view()?, call.y.view_mut()?, moments(running, &call.x)?, &config, cx)?)
        }
    }
    let parameters = Parameters { weight, bias, zero_centered: false };
    let call = Forward { op: Op::Batch, x, y, parameters, eps, stats: None, residual: None };
    run(py, how, move |cx| with_type!(call.x.dtype, of(&call, running, cx)))
}

/// # Safety
/// The memory is as described; the accumulation type of x is `A`.
unsafe fn moments<'a, A>((mean, var): RunningStats, x: &Tensor) -> Result<Moments<'a, A>, Failure> {
    let (acc, count) = (x.dtype.acc(), channels(x));
    // SAFETY: guaranteed by the caller.
    unsafe {
        Ok(Moments { mean: mean.read("running mean", acc, count)?, var: var.read("running variance", acc, count)? })
    }
}

/// Computes the gradients of [`batch_infer`].
#[pyfunction]
#[pyo3(signature = (x, dy, weight, eps, running, dx, dweight, dbias, how, /))]
#[allow(clippy::too_many_arguments, reason = "Python passes positional arguments")]
pub fn batch_infer_backward(
    py: Python<'_>,
    x: Tensor,
    dy: Tensor,
    weight: Option<Tensor>,
    eps: f64,
    running: RunningStats,
    dx: Option<Tensor>,
    dweight: Option<Tensor>,
    dbias: Option<Tensor>,
    how: How,
) -> PyResult<()> {
    fn of<T: Element>(call: &Backward, running: RunningStats, cx: &mut Context) -> Result<(), Failure> {
        // SAFETY: as in `backward_of`.
        unsafe {
            let (x, dy, affine, gradients) = backward_views::<T>(call)?;
            let config = BatchConfig { affine, eps: call.eps };
            Ok(batch_norm::infer_backward(x, dy, moments(running, &call.x)?, gradients, &config, cx)?)
        }
    }
    let (stats, dh, zero_centered) = (None, None, false);
    let call = Backward { op: Op::Batch, x, dy, dh, weight, zero_centered, eps, stats, dx, dweight, dbias };
    run(py, how, move |cx| with_type!(call.x.dtype, of(&call, running, cx)))
}
