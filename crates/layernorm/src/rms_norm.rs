//! RMS normalization (Zhang and Sennrich, 2019): every row divided by its root mean square, then gain.
//!
//! ```text
//! r = 1/sqrt(sum(x·x)/N + ε)    y = (x·r)·γ        with β: fma(x·r, γ, β)
//!
//! g = dy·γ    x̂ = x·r    b = sum(g·x̂)/N    dx = r·fma(−x̂, b, g)
//! dγ = Σ dy·x̂    dβ = Σ dy     over the rows
//! ```

use crate::context::Context;
use crate::element::Element;
use crate::error::Error;
use crate::params::{Gradients, StatsMut, StatsRef};
use crate::row_norm::{self, BackwardArgs, ForwardArgs, Operands};
use crate::view::{View, ViewMut};

pub use crate::row_norm::NormConfig;

/// Rows are not centred.
const CENTERED: bool = false;

/// y = norm(x). `stats`, if given, gets the statistics that backward needs, one of each a row.
pub fn forward<T: Element>(
    x: View<T>,
    y: ViewMut<T>,
    stats: Option<StatsMut<T::Acc>>,
    config: &NormConfig<T>,
    cx: &mut Context,
) -> Result<(), Error> {
    row_norm::forward(ForwardArgs { x: Operands::Apart { x, y }, stats }, config, CENTERED, cx)
}

/// x = norm(x), in the same memory.
pub fn forward_in_place<T: Element>(
    x: ViewMut<T>,
    stats: Option<StatsMut<T::Acc>>,
    config: &NormConfig<T>,
    cx: &mut Context,
) -> Result<(), Error> {
    row_norm::forward(ForwardArgs { x: Operands::InPlace(x), stats }, config, CENTERED, cx)
}

/// h = x + residual, rounded to the type; y = norm(h). The same bits as the two one after the other.
pub fn forward_residual<T: Element>(
    x: View<T>,
    residual: View<T>,
    h: ViewMut<T>,
    y: ViewMut<T>,
    stats: Option<StatsMut<T::Acc>>,
    config: &NormConfig<T>,
    cx: &mut Context,
) -> Result<(), Error> {
    row_norm::forward(ForwardArgs { x: Operands::Residual { x, residual, h, y }, stats }, config, CENTERED, cx)
}

/// Gradients from dy, x and the statistics that [`forward`] saved.
pub fn backward<T: Element>(
    x: View<T>,
    dy: View<T>,
    stats: StatsRef<T::Acc>,
    gradients: Gradients<T>,
    config: &NormConfig<T>,
    cx: &mut Context,
) -> Result<(), Error> {
    row_norm::backward(BackwardArgs { x, dy, dh: None, stats }, gradients, config, CENTERED, cx)
}

/// Gradients of [`forward_residual`]: `h` is its residual output, `dh` the gradient that comes from h's other users. The
/// gradient of the input is that of x and of the residual alike: dh + (the gradient through the norm, rounded).
pub fn backward_residual<T: Element>(
    h: View<T>,
    dy: View<T>,
    dh: Option<View<T>>,
    stats: StatsRef<T::Acc>,
    gradients: Gradients<T>,
    config: &NormConfig<T>,
    cx: &mut Context,
) -> Result<(), Error> {
    row_norm::backward(BackwardArgs { x: h, dy, dh, stats }, gradients, config, CENTERED, cx)
}
