//! Layer norm and RMS norm: the chosen axes form a row.

use super::args::{Args, Op};
use super::files::{Input, Inputs, Number};
use super::results::Results;
use crate::failure::Failure;
use layernorm::{Axes, Context, NormConfig, View, ViewMut, layer_norm, rms_norm};

/// The default axes.
const LAST: &[isize] = &[-1];

/// Forward, then backward if a gradient of the output is given.
pub(super) fn run<T: Number>(args: &Args, inputs: &Inputs, cx: &mut Context) -> Result<Results<T>, Failure> {
    let axes = args.axes.as_deref().unwrap_or(LAST);
    let (rest, row) = split(inputs.x.shape(), axes);
    let mut results = Results::new(args, inputs, row, rest)?;
    let config = NormConfig { axes: Axes::These(axes), affine: inputs.affine(args.zero_centered)?, eps: args.eps };
    forward(args.op, inputs, &mut results, &config, cx)?;
    if let Some(dy) = &inputs.dy {
        backward(args.op, inputs, dy, &mut results, &config, cx)?;
    }
    Ok(results)
}

fn forward<T: Number>(
    op: Op,
    inputs: &Inputs,
    results: &mut Results<T>,
    config: &NormConfig<T>,
    cx: &mut Context,
) -> Result<(), Failure> {
    let x = inputs.x.view()?;
    let shape = &results.shape;
    let y = ViewMut::new(&mut results.y, shape)?;
    let stats = Some(results.saved.as_mut());
    match (&inputs.residual, &mut results.h) {
        (Some(residual), Some(h)) => {
            let forward = if op == Op::Rms { rms_norm::forward_residual } else { layer_norm::forward_residual };
            forward(x, residual.view()?, ViewMut::new(h, shape)?, y, stats, config, cx)?;
        }
        _ => {
            let forward = if op == Op::Rms { rms_norm::forward } else { layer_norm::forward };
            forward(x, y, stats, config, cx)?;
        }
    }
    Ok(())
}

fn backward<T: Number>(
    op: Op,
    inputs: &Inputs,
    dy: &Input,
    results: &mut Results<T>,
    config: &NormConfig<T>,
    cx: &mut Context,
) -> Result<(), Failure> {
    let h = match &results.h {
        Some(h) => View::new(h, &results.shape)?,
        None => inputs.x.view()?,
    };
    let dh = inputs.dh.as_ref().map(Input::view).transpose()?;
    let gradients = results.gradients.as_mut(&results.shape)?;
    let backward = if op == Op::Rms { rms_norm::backward_residual } else { layer_norm::backward_residual };
    Ok(backward(h, dy.view()?, dh, results.saved.as_ref(), gradients, config, cx)?)
}

/// Splits the shape into the dimensions that count rows and those within a row, each in order. Axes that do not exist are
/// ignored here; the operation rejects them.
fn split(shape: &[usize], axes: &[isize]) -> (Vec<usize>, Vec<usize>) {
    let rank = shape.len() as isize;
    let (mut rest, mut row) = (Vec::new(), Vec::new());
    for (axis, &dim) in (0..).zip(shape) {
        let part = if axes.contains(&axis) || axes.contains(&(axis - rank)) { &mut row } else { &mut rest };
        part.push(dim);
    }
    (rest, row)
}
