//! Configurations are checked by the core itself, with an input that has no rows, so that the errors are the core's.

use crate::ops::refused;
use candle_core::{Result, Tensor};
use layernorm::group_norm::{self, GroupConfig};
use layernorm::{Context, Error, NormConfig, View, ViewMut, layer_norm};

/// Checks a norm over rows of this length.
pub(crate) fn row_norm(n: usize, eps: f64) -> Result<()> {
    let check = || {
        let (x, y) = (View::new(&[], &[0, n])?, ViewMut::new(&mut [], &[0, n])?);
        layer_norm::forward::<f32>(x, y, None, &NormConfig::new().eps(eps), &mut Context::new())
    };
    check().map_err(refused)
}

/// Checks a norm over groups of channels.
pub(crate) fn group_norm(groups: usize, channels: usize, eps: f64) -> Result<()> {
    let check = || {
        let (x, y) = (View::new(&[], &[0, channels])?, ViewMut::new(&mut [], &[0, channels])?);
        let config = GroupConfig { eps, ..GroupConfig::new(groups) };
        group_norm::forward::<f32>(x, y, None, &config, &mut Context::new())
    };
    check().map_err(refused)
}

/// Returns the core's error if a tensor `[N, C, …]` has another number of channels.
pub(crate) fn channels(x: &Tensor, channels: usize) -> Result<()> {
    let error = match x.dims() {
        [_, found, ..] if *found == channels => return Ok(()),
        [samples, _, space @ ..] => {
            let expected = [*samples, channels].iter().chain(space).copied().collect();
            Error::Shape { what: "input", expected, found: x.dims().to_vec() }
        }
        shape => Error::TooFewDimensions { what: "input", min: 2, found: shape.len() },
    };
    Err(refused(error))
}

/// Returns the core's error if a parameter does not have the shape `[n]`.
pub(crate) fn parameter(what: &'static str, tensor: &Tensor, n: usize) -> Result<()> {
    match tensor.dims() {
        [found] if *found == n => Ok(()),
        found => Err(refused(Error::Shape { what, expected: vec![n], found: found.to_vec() })),
    }
}
