//! Configurations are checked by the core itself, with an input that has no rows, so that the errors are the core's.

use layernorm::batch_norm::{self, BatchConfig, Momentum, Running, RunningVariance};
use layernorm::group_norm::{self, GroupConfig};
use layernorm::{Context, Error, NormConfig, Saved, View, ViewMut, layer_norm};

/// Checks a norm over rows of this length.
pub(crate) fn row_norm(n: usize, eps: f64) -> Result<(), Error> {
    let (x, y) = (View::new(&[], &[0, n])?, ViewMut::new(&mut [], &[0, n])?);
    layer_norm::forward::<f32>(x, y, None, &NormConfig::new().eps(eps), &mut Context::new())
}

/// Checks a norm over groups of channels.
pub(crate) fn group_norm(groups: usize, channels: usize, eps: f64) -> Result<(), Error> {
    let (x, y) = (View::new(&[], &[0, channels])?, ViewMut::new(&mut [], &[0, channels])?);
    let config = GroupConfig { eps, ..GroupConfig::new(groups) };
    group_norm::forward::<f32>(x, y, None, &config, &mut Context::new())
}

/// Checks a batch norm with this many channels.
pub(crate) fn batch_norm(channels: usize, eps: f64, momentum: f64) -> Result<(), Error> {
    let (x, y) = (View::new(&[], &[0, channels])?, ViewMut::new(&mut [], &[0, channels])?);
    let (mut mean, mut var, mut saved) = (vec![0.0; channels], vec![1.0; channels], Saved::new(channels));
    let momentum = Momentum::Exponential(momentum);
    let running = Running { mean: &mut mean, var: &mut var, momentum, variance: RunningVariance::Biased };
    let config = BatchConfig { eps, ..BatchConfig::default() };
    batch_norm::forward_running::<f32>(x, y, saved.as_mut(), running, &config, &mut Context::new())
}

/// By Burn's convention, `init` panics on an invalid configuration, and `forward` on a shape mismatch. The message is
/// the core's.
pub(crate) fn or_panic<R, E: std::fmt::Display>(result: Result<R, E>) -> R {
    result.unwrap_or_else(|error| panic!("layernorm: {error}"))
}

/// Panics with the core's error if a tensor `[N, C, …]` has another number of channels.
pub(crate) fn channels(shape: &[usize], channels: usize) {
    or_panic(match shape {
        [_, found, ..] if *found == channels => Ok(()),
        [samples, _, space @ ..] => {
            let expected = [*samples, channels].iter().chain(space).copied().collect();
            Err(Error::Shape { what: "input", expected, found: shape.to_vec() })
        }
        _ => Err(Error::TooFewDimensions { what: "input", min: 2, found: shape.len() }),
    });
}
