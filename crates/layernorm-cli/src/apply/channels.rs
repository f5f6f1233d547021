//! Batch, group and instance norm: x is `[N, C, …]`, γ and β are `[C]`.

use super::args::{Args, Op};
use super::files::{Inputs, Number};
use super::results::Results;
use crate::failure::Failure;
use layernorm::batch_norm::{self, BatchConfig, Moments};
use layernorm::group_norm::{self, GroupConfig};
use layernorm::instance_norm::{self, InstanceConfig};
use layernorm::{Context, Error, Float, ViewMut};

/// Forward, then backward if a gradient of the output is given.
pub(super) fn run<T: Number>(args: &Args, inputs: &Inputs, cx: &mut Context) -> Result<Results<T>, Failure> {
    let (samples, channels) = match *inputs.x.shape() {
        [samples, channels, ..] => (samples, channels),
        ref shape => return Err(Error::TooFewDimensions { what: "input", min: 2, found: shape.len() }.into()),
    };
    let results = |stats: Vec<usize>| Results::new(args, inputs, vec![channels], stats);
    match (args.op, args.groups) {
        (Op::Group, groups) => {
            let groups = divisor(groups.unwrap_or_default(), channels)?;
            group(args, inputs, groups, results(vec![samples, groups])?, cx)
        }
        (Op::Instance, _) => instance(args, inputs, results(vec![samples, channels])?, cx),
        _ => match (&inputs.running_mean, &inputs.running_var) {
            (Some(mean), Some(var)) => {
                let (mean, var) = (mean.per_channel::<T>(channels)?, var.per_channel::<T>(channels)?);
                infer(args, inputs, Moments { mean: &mean, var: &var }, results(vec![channels])?, cx)
            }
            _ => batch(args, inputs, results(vec![channels])?, cx),
        },
    }
}

/// Returns the number of groups if it divides the channels. Called before memory is allocated for the statistics.
fn divisor(groups: usize, channels: usize) -> Result<usize, Error> {
    let fits = groups > 0 && channels.is_multiple_of(groups);
    if fits { Ok(groups) } else { Err(Error::Groups { groups, channels }) }
}

/// Group norm.
fn group<T: Number>(
    args: &Args,
    inputs: &Inputs,
    groups: usize,
    mut results: Results<T>,
    cx: &mut Context,
) -> Result<Results<T>, Failure> {
    let config = GroupConfig { groups, affine: inputs.affine(args.zero_centered)?, eps: args.eps };
    let y = ViewMut::new(&mut results.y, &results.shape)?;
    group_norm::forward(inputs.x.view()?, y, Some(results.saved.as_mut()), &config, cx)?;
    if let Some(dy) = &inputs.dy {
        let gradients = results.gradients.as_mut(&results.shape)?;
        group_norm::backward(inputs.x.view()?, dy.view()?, results.saved.as_ref(), gradients, &config, cx)?;
    }
    Ok(results)
}

/// Instance norm.
fn instance<T: Number>(
    args: &Args,
    inputs: &Inputs,
    mut results: Results<T>,
    cx: &mut Context,
) -> Result<Results<T>, Failure> {
    let config = InstanceConfig { affine: inputs.affine(args.zero_centered)?, eps: args.eps };
    let y = ViewMut::new(&mut results.y, &results.shape)?;
    instance_norm::forward(inputs.x.view()?, y, Some(results.saved.as_mut()), &config, cx)?;
    if let Some(dy) = &inputs.dy {
        let gradients = results.gradients.as_mut(&results.shape)?;
        instance_norm::backward(inputs.x.view()?, dy.view()?, results.saved.as_ref(), gradients, &config, cx)?;
    }
    Ok(results)
}

/// Batch norm with the statistics of the batch.
fn batch<T: Number>(
    args: &Args,
    inputs: &Inputs,
    mut results: Results<T>,
    cx: &mut Context,
) -> Result<Results<T>, Failure> {
    let config = BatchConfig { affine: inputs.affine(args.zero_centered)?, eps: args.eps };
    let y = ViewMut::new(&mut results.y, &results.shape)?;
    batch_norm::forward(inputs.x.view()?, y, results.saved.as_mut(), &config, cx)?;
    if let Some(dy) = &inputs.dy {
        let gradients = results.gradients.as_mut(&results.shape)?;
        batch_norm::backward(inputs.x.view()?, dy.view()?, results.saved.as_ref(), gradients, &config, cx)?;
    }
    Ok(results)
}

/// Batch norm with running statistics, which are also the ones written to the files.
fn infer<T: Number>(
    args: &Args,
    inputs: &Inputs,
    moments: Moments<T::Acc>,
    mut results: Results<T>,
    cx: &mut Context,
) -> Result<Results<T>, Failure> {
    let config = BatchConfig { affine: inputs.affine(args.zero_centered)?, eps: args.eps };
    let y = ViewMut::new(&mut results.y, &results.shape)?;
    batch_norm::infer(inputs.x.view()?, y, moments, &config, cx)?;
    if let Some(dy) = &inputs.dy {
        let gradients = results.gradients.as_mut(&results.shape)?;
        batch_norm::infer_backward(inputs.x.view()?, dy.view()?, moments, gradients, &config, cx)?;
    }
    let eps = T::Acc::from_f64(args.eps);
    results.saved.m.copy_from_slice(moments.mean);
    // Adding −0 does not change a mean.
    results.saved.delta.fill(T::Acc::NEG_ZERO);
    for (rstd, &var) in results.saved.rstd.iter_mut().zip(moments.var) {
        *rstd = T::Acc::ONE / (var + eps).sqrt();
    }
    Ok(results)
}
