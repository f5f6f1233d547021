//! Norms of tensors in device memory, with the bits of those in `norms.rs`.

use super::{Place, run};
use crate::failure::Failure;
use crate::tensor::{Dtype, parameter_type};
use layernorm_cuda::{
    Affine, Backward, BatchBackward, BatchForward, BatchNorm, Forward, Gradients, GroupBackward, GroupNorm, Param,
    RowNorm, Rows, Running, Stats, Type, Workspace,
};
use pyo3::prelude::*;

/// `(kind, dtype, sizes, eps)`: sizes are `(rows, n, 0, 0)` for `layer` and `rms`, `(N, C, places, groups)` for `group`,
/// `(N, C, places, 0)` for `batch`.
type Described = (String, usize, (usize, usize, usize, usize), f64);

/// `(address, dtype)` of γ, β or their gradients; the address is 0 if there is none.
type Vector = (u64, usize);

/// `(address, elements from a row to the next)`; the distance counts for rows alone.
type Matrix = (u64, i64);

/// `(mean, variance, momentum)`: addresses of `[C]` in the arithmetic type.
type Moments = (u64, u64, f64);

enum Norm {
    Rows(RowNorm),
    Group(GroupNorm),
    Batch(BatchNorm),
}

/// What a description says, with its parameters.
fn norm_of((kind, dtype, sizes, eps): Described, weight: Vector, bias: Vector) -> Result<(Norm, Dtype), Failure> {
    let dtype = Dtype::number(dtype).map_err(|_| Failure::Order("no type has this number"))?;
    let affine = Affine {
        gain: parameter("weight", weight, dtype)?,
        bias: parameter("bias", bias, dtype)?,
        zero_centered: false,
    };
    let (element, (a, b, c, d)) = (element_of(dtype), sizes);
    let norm = match kind.as_str() {
        "layer" | "rms" => Norm::Rows(RowNorm { element, rows: a, n: b, centered: kind == "layer", eps, affine }),
        "group" => Norm::Group(GroupNorm { element, samples: a, channels: b, space: c, groups: d, eps, affine }),
        "batch" => Norm::Batch(BatchNorm { element, samples: a, channels: b, space: c, eps, affine }),
        _ => return Err(Failure::Order("kind: expected layer, rms, group or batch")),
    };
    Ok((norm, dtype))
}

fn element_of(dtype: Dtype) -> Type {
    match dtype {
        Dtype::F16 => Type::F16,
        Dtype::Bf16 => Type::Bf16,
        Dtype::F32 => Type::F32,
        Dtype::F64 => Type::F64,
    }
}

fn parameter(what: &'static str, (address, code): Vector, input: Dtype) -> Result<Option<Param>, Failure> {
    if address == 0 {
        return Ok(None);
    }
    let found = Dtype::number(code).map_err(|_| Failure::Order("no type has this number"))?;
    parameter_type(what, found, input)?;
    Ok(Some(Param { address, f32: found == Dtype::F32 }))
}

/// m, δ and r, one after the other, each `count` times.
fn stats_at(address: u64, count: usize, element: Type) -> Stats {
    let each = (count * element.accumulator_bytes()) as u64;
    Stats { m: address, delta: address + each, rstd: address + 2 * each }
}

impl Norm {
    /// How many rows have statistics.
    fn rows(&self) -> usize {
        match self {
            Norm::Rows(norm) => norm.rows,
            Norm::Group(norm) => norm.samples * norm.groups,
            Norm::Batch(norm) => norm.channels,
        }
    }

    fn stats(&self, address: u64) -> Option<Stats> {
        let (Norm::Rows(RowNorm { element, .. })
        | Norm::Group(GroupNorm { element, .. })
        | Norm::Batch(BatchNorm { element, .. })) = self;
        (address != 0).then(|| stats_at(address, self.rows(), *element))
    }
}

fn running_of(moments: Option<Moments>) -> Option<Running> {
    moments.map(|(mean, var, factor)| Running { mean, var, factor, unbiased: true })
}

fn rows_at((address, stride): Matrix) -> Rows {
    Rows { address, stride }
}

/// y = norm(x) on a stream. `stats` is the address of `[3, rows]` in the arithmetic type, or 0. Batch norm: with statistics it
/// is training, and running ones, where given, are updated; without, they are used.
#[pyfunction]
#[pyo3(signature = (place, norm, x, y, weight, bias, stats, running, workspace, /))]
#[allow(clippy::too_many_arguments, reason = "what Python calls has positions, not fields")]
pub fn cuda_forward(
    py: Python<'_>,
    place: Place,
    norm: Described,
    x: Matrix,
    y: Matrix,
    weight: Vector,
    bias: Vector,
    stats: u64,
    running: Option<Moments>,
    workspace: (u64, usize),
) -> PyResult<()> {
    let (norm, _) = norm_of(norm, weight, bias)?;
    let stats = norm.stats(stats);
    let workspace = Workspace { address: workspace.0, bytes: workspace.1 };
    run(py, place, |device, stream| {
        // SAFETY: Python keeps the tensors alive, of these sizes and on this device, until the stream has come past the call.
        unsafe {
            match norm {
                Norm::Rows(norm) => {
                    let call = Forward { x: rows_at(x), residual: None, y: rows_at(y), stats };
                    norm.forward(device, &call, stream)?;
                }
                Norm::Group(norm) => norm.forward(device, x.0, y.0, stats, stream)?,
                Norm::Batch(norm) => {
                    let call = BatchForward { x: x.0, y: y.0, stats, running: running_of(running) };
                    norm.forward(device, &call, workspace, stream)?;
                }
            }
        }
        Ok(())
    })
}

/// Gradients on a stream; those whose address is 0 are not computed. Without statistics (0), batch norm is by running ones.
#[pyfunction]
#[pyo3(signature = (place, norm, x, dy, weight, stats, running, dx, dweight, dbias, workspace, /))]
#[allow(clippy::too_many_arguments, reason = "what Python calls has positions, not fields")]
pub fn cuda_backward(
    py: Python<'_>,
    place: Place,
    norm: Described,
    x: Matrix,
    dy: Matrix,
    weight: Vector,
    stats: u64,
    running: Option<Moments>,
    dx: Matrix,
    dweight: Vector,
    dbias: Vector,
    workspace: (u64, usize),
) -> PyResult<()> {
    let (norm, dtype) = norm_of(norm, weight, (0, 0))?;
    let gradients = Gradients { gain: parameter("weight", dweight, dtype)?, bias: parameter("bias", dbias, dtype)? };
    let stats = norm.stats(stats);
    let workspace = Workspace { address: workspace.0, bytes: workspace.1 };
    let running = running_of(running);
    run(py, place, |device, stream| {
        // Of no rows there are no statistics, and none are read.
        let none = (norm.rows() == 0).then_some(Stats { m: 0, delta: 0, rstd: 0 });
        let saved = || stats.or(none).ok_or(Failure::Order("expected statistics"));
        // SAFETY: as in `cuda_forward`.
        unsafe {
            match norm {
                Norm::Rows(norm) => {
                    let to = (dx.0 != 0).then(|| rows_at(dx));
                    let (x, dy) = (rows_at(x), rows_at(dy));
                    let call = Backward { x, dy, dh: None, stats: saved()?, dx: to, gradients };
                    norm.backward(device, &call, workspace, stream)?;
                }
                Norm::Group(norm) => {
                    let call = GroupBackward { x: x.0, dy: dy.0, stats: saved()?, dx: dx.0, gradients };
                    norm.backward(device, &call, workspace, stream)?;
                }
                Norm::Batch(norm) => {
                    let call = BatchBackward { x: x.0, dy: dy.0, stats, running, dx: dx.0, gradients };
                    norm.backward(device, &call, workspace, stream)?;
                }
            }
        }
        Ok(())
    })
}

/// Bytes of workspace that a call takes. `gradients`: a backward pass that computes dγ or dβ.
#[pyfunction]
#[pyo3(signature = (norm, gradients, /))]
pub fn cuda_workspace(norm: Described, gradients: bool) -> PyResult<usize> {
    let place = gradients.then_some(Param { address: 16, f32: true });
    let wanted = Gradients { gain: place, bias: place };
    Ok(match norm_of(norm, (0, 0), (0, 0))?.0 {
        Norm::Rows(norm) => norm.workspace(&wanted),
        Norm::Group(norm) => norm.workspace(&wanted),
        Norm::Batch(norm) => norm.workspace(),
    })
}
