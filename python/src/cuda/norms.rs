//! Norms of tensors in device memory, with the same bits as `norms.rs`.

use super::{Place, run};
use crate::failure::Failure;
use crate::tensor::{Dtype, parameter_type};
use layernorm_cuda::{
    Affine, Backward, BatchBackward, BatchForward, BatchNorm, Forward, Gradients, GroupBackward, GroupNorm, Param,
    RowNorm, Rows, Running, Stats, Type, Workspace,
};
use pyo3::prelude::*;

/// `(kind, dtype, sizes, eps)`: sizes are `(rows, n, 0, 0)` for `layer` and `rms`, `(N, C, positions, groups)` for
/// `group`, `(N, C, positions, 0)` for `batch`.
type Described = (String, usize, (usize, usize, usize, usize), f64);

/// `(address, dtype, elements)` of γ, β or their gradients.
type Vector = Option<(u64, usize, usize)>;

/// `(address, elements between rows, elements from the address)`; the second is used for row norms only.
type Matrix = (u64, i64, usize);

/// `(mean, variance, elements of each, momentum)`: addresses of `[C]` in the accumulation type.
type Moments = (u64, u64, usize, f64);

/// `(address, elements)` of `[3, rows]` in the accumulation type.
type Saved = Option<(u64, usize)>;

enum DeviceNorm {
    Rows(RowNorm),
    Group(GroupNorm),
    Batch(BatchNorm),
}

/// Returns the norm of a description, with its parameters.
fn norm_of((kind, dtype, sizes, eps): Described, weight: Vector, bias: Vector) -> Result<(DeviceNorm, Dtype), Failure> {
    let dtype = Dtype::number(dtype).map_err(|_| Failure::Order("no type has this number"))?;
    let (element, (a, b, c, d)) = (element_of(dtype), sizes);
    // The second size, of rows or of channels, is that of the parameters.
    let affine = Affine {
        gain: parameter("weight", weight, dtype, b)?,
        bias: parameter("bias", bias, dtype, b)?,
        zero_centered: false,
    };
    let norm = match kind.as_str() {
        "layer" | "rms" => DeviceNorm::Rows(RowNorm { element, rows: a, n: b, centered: kind == "layer", eps, affine }),
        "group" => DeviceNorm::Group(GroupNorm { element, samples: a, channels: b, space: c, groups: d, eps, affine }),
        "batch" => DeviceNorm::Batch(BatchNorm { element, samples: a, channels: b, space: c, eps, affine }),
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

/// Checks that a parameter, if given, has memory and the number of elements that the norm needs.
fn parameter(what: &'static str, vector: Vector, input: Dtype, expected: usize) -> Result<Option<Param>, Failure> {
    let Some((address, code, found)) = vector else { return Ok(None) };
    let dtype = Dtype::number(code).map_err(|_| Failure::Order("no type has this number"))?;
    parameter_type(what, dtype, input)?;
    counted(what, address, found, expected)?;
    Ok(Some(Param { address, f32: dtype == Dtype::F32 }))
}

/// Checks that there is memory for exactly `expected` elements.
fn counted(what: &'static str, address: u64, found: usize, expected: usize) -> Result<(), Failure> {
    // A tensor whose memory was freed has address 0.
    let found = if address == 0 { 0 } else { found };
    if found == expected { Ok(()) } else { Err(Failure::Count { what: what.into(), expected, found }) }
}

/// m, δ and r: `[3, count]`.
fn stats_at(address: u64, count: usize, element: Type) -> Stats {
    let each = (count * element.accumulator_bytes()) as u64;
    Stats { m: address, delta: address + each, rstd: address + 2 * each }
}

impl DeviceNorm {
    /// Number of rows with statistics.
    fn rows(&self) -> usize {
        match self {
            DeviceNorm::Rows(norm) => norm.rows,
            DeviceNorm::Group(norm) => norm.samples.saturating_mul(norm.groups),
            DeviceNorm::Batch(norm) => norm.channels,
        }
    }

    /// Checks a tensor of the input's shape: its memory must contain the last row. Rows may have gaps or overlap.
    fn tensor(&self, what: &'static str, (address, stride, found): Matrix) -> Result<Rows, Failure> {
        let expected = match self {
            DeviceNorm::Rows(norm) if norm.rows == 0 || norm.n == 0 => 0,
            DeviceNorm::Rows(norm) => {
                let stride =
                    usize::try_from(stride).map_err(|_| Failure::Order("expected rows that ascend in memory"))?;
                stride.saturating_mul(norm.rows - 1).saturating_add(norm.n)
            }
            DeviceNorm::Group(GroupNorm { samples, channels, space, .. })
            | DeviceNorm::Batch(BatchNorm { samples, channels, space, .. }) => {
                samples.saturating_mul(*channels).saturating_mul(*space)
            }
        };
        // A tensor whose memory was freed has address 0.
        let found = if address == 0 { 0 } else { found };
        if found < expected {
            return Err(Failure::Count { what: what.into(), expected, found });
        }
        Ok(Rows { address, stride })
    }

    /// Checks that statistics have memory for all rows.
    fn stats(&self, saved: Saved) -> Result<Option<Stats>, Failure> {
        let (DeviceNorm::Rows(RowNorm { element, .. })
        | DeviceNorm::Group(GroupNorm { element, .. })
        | DeviceNorm::Batch(BatchNorm { element, .. })) = self;
        let Some((address, found)) = saved else { return Ok(None) };
        counted("statistics", address, found, self.rows().saturating_mul(3))?;
        // Without rows there is no memory.
        Ok(Some(stats_at(address, self.rows(), *element)))
    }

    /// Checks that running statistics have memory for all channels.
    fn running(&self, moments: Option<Moments>) -> Result<Option<Running>, Failure> {
        let Some((mean, var, found, factor)) = moments else { return Ok(None) };
        counted("running mean", mean, found, self.rows())?;
        counted("running variance", var, found, self.rows())?;
        Ok(Some(Running { mean, var, factor, unbiased: true }))
    }
}

/// Computes y = norm(x) on a stream. `stats` is the output for the statistics `[3, rows]` in the accumulation type, or None. Batch
/// norm with `stats` is training and updates the running statistics, if given; without `stats` it normalizes with them.
#[pyfunction]
#[pyo3(signature = (place, norm, x, y, weight, bias, stats, running, workspace, /))]
#[allow(clippy::too_many_arguments, reason = "Python passes positional arguments")]
pub fn cuda_forward(
    py: Python<'_>,
    place: Place,
    norm: Described,
    x: Matrix,
    y: Matrix,
    weight: Vector,
    bias: Vector,
    stats: Saved,
    running: Option<Moments>,
    workspace: (u64, usize),
) -> PyResult<()> {
    let (norm, _) = norm_of(norm, weight, bias)?;
    let (x, y) = (norm.tensor("input", x)?, norm.tensor("output", y)?);
    let (stats, running) = (norm.stats(stats)?, norm.running(running)?);
    let workspace = Workspace { address: workspace.0, bytes: workspace.1 };
    run(py, place, |device, stream| {
        // SAFETY: Python keeps the tensors alive, on this device, until the stream has passed the call; their sizes were
        // checked.
        unsafe {
            match norm {
                DeviceNorm::Rows(norm) => {
                    let call = Forward { x, residual: None, y, stats };
                    norm.forward(device, &call, stream)?;
                }
                DeviceNorm::Group(norm) => norm.forward(device, x.address, y.address, stats, stream)?,
                DeviceNorm::Batch(norm) => {
                    let call = BatchForward { x: x.address, y: y.address, stats, running };
                    norm.forward(device, &call, workspace, stream)?;
                }
            }
        }
        Ok(())
    })
}

/// Computes gradients on a stream, except those that are None (dx: whose address is 0). Without statistics, batch norm uses the
/// running ones.
#[pyfunction]
#[pyo3(signature = (place, norm, x, dy, weight, stats, running, dx, dweight, dbias, workspace, /))]
#[allow(clippy::too_many_arguments, reason = "Python passes positional arguments")]
pub fn cuda_backward(
    py: Python<'_>,
    place: Place,
    norm: Described,
    x: Matrix,
    dy: Matrix,
    weight: Vector,
    stats: Saved,
    running: Option<Moments>,
    dx: Matrix,
    dweight: Vector,
    dbias: Vector,
    workspace: (u64, usize),
) -> PyResult<()> {
    let count = norm.2.1;
    let (norm, dtype) = norm_of(norm, weight, None)?;
    let gradients = Gradients {
        gain: parameter("gradient of weight", dweight, dtype, count)?,
        bias: parameter("gradient of bias", dbias, dtype, count)?,
    };
    let (x, dy) = (norm.tensor("input", x)?, norm.tensor("gradient", dy)?);
    let dx = if dx.0 == 0 { None } else { Some(norm.tensor("gradient of input", dx)?) };
    let (stats, running) = (norm.stats(stats)?, norm.running(running)?);
    let workspace = Workspace { address: workspace.0, bytes: workspace.1 };
    run(py, place, |device, stream| {
        let dx_address = dx.map_or(0, |dx| dx.address);
        // Without rows there are no statistics, and none are read.
        let none = (norm.rows() == 0).then_some(Stats { m: 0, delta: 0, rstd: 0 });
        let saved = || stats.or(none).ok_or(Failure::Order("expected statistics"));
        // SAFETY: as in `cuda_forward`.
        unsafe {
            match norm {
                DeviceNorm::Rows(norm) => {
                    let call = Backward { x, dy, dh: None, stats: saved()?, dx, gradients };
                    norm.backward(device, &call, workspace, stream)?;
                }
                DeviceNorm::Group(norm) => {
                    let call =
                        GroupBackward { x: x.address, dy: dy.address, stats: saved()?, dx: dx_address, gradients };
                    norm.backward(device, &call, workspace, stream)?;
                }
                DeviceNorm::Batch(norm) => {
                    let call =
                        BatchBackward { x: x.address, dy: dy.address, stats, running, dx: dx_address, gradients };
                    norm.backward(device, &call, workspace, stream)?;
                }
            }
        }
        Ok(())
    })
}

/// Returns the size of the workspace of a call in bytes. `gradients`: a backward pass that computes dγ or dβ.
#[pyfunction]
#[pyo3(signature = (norm, gradients, /))]
pub fn cuda_workspace(norm: Described, gradients: bool) -> PyResult<usize> {
    let place = gradients.then_some(Param { address: 16, f32: true });
    let wanted = Gradients { gain: place, bias: place };
    Ok(match norm_of(norm, None, None)?.0 {
        DeviceNorm::Rows(norm) => norm.workspace(&wanted),
        DeviceNorm::Group(norm) => norm.workspace(&wanted),
        DeviceNorm::Batch(norm) => norm.workspace(),
    })
}
