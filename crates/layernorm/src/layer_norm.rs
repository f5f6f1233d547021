//! Layer normalization (Ba, Kiros and Hinton, 2016): every row to mean 0 and variance 1, then gain and bias.
//!
//! ```text
//! m = sum(x)/N    d = x − m    δ = sum(d)/N    v = max(0, fma(−δ, δ, sum(d·d)/N))    r = 1/sqrt(v + ε)
//! y = fma((d − δ)·r, γ, β)
//!
//! g = dy·γ    x̂ = (d − δ)·r    a = sum(g)/N    b = sum(g·x̂)/N    dx = r·fma(−x̂, b, g − a)
//! dγ = Σ dy·x̂    dβ = Σ dy     over the rows
//! ```
//! The mean is taken twice: δ is what the rounding of m left behind. That is why a large mean costs no accuracy.

use crate::context::Context;
use crate::element::Element;
use crate::error::Error;
use crate::params::{Gradients, StatsMut, StatsRef};
use crate::row_norm::{self, BackwardArgs, ForwardArgs, Operands};
use crate::view::{View, ViewMut};

pub use crate::row_norm::NormConfig;

/// Rows are centred.
const CENTERED: bool = true;

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
