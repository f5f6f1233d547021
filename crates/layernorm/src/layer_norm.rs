//! Layer normalization (Ba, Kiros and Hinton, 2016): scales each row to mean 0 and variance 1, then applies gain and
//! bias.
//!
//! ```text
//! m = sum(x)/N    d = x − m    δ = sum(d)/N    v = max(0, fma(−δ, δ, sum(d·d)/N))    r = 1/sqrt(v + ε)
//! y = fma((d − δ)·r, γ, β)
//!
//! g = dy·γ    x̂ = (d − δ)·r    a = sum(g)/N    b = sum(g·x̂)/N    dx = r·fma(−x̂, b, g − a)
//! dγ = Σ dy·x̂    dβ = Σ dy     over the rows
//! ```
//! The mean is corrected once: δ is the rounding error of m. Therefore a large mean costs no accuracy.

use crate::context::Context;
use crate::element::Element;
use crate::error::Error;
use crate::params::{Gradients, StatsMut, StatsRef};
use crate::row_norm::{self, BackwardArgs, ForwardArgs, Operands};
use crate::view::{View, ViewMut};

pub use crate::row_norm::NormConfig;

/// Rows are centred.
const CENTERED: bool = true;

/// Computes y = norm(x). Writes the statistics that backward needs to `stats`, if given: one of each per row.
pub fn forward<T: Element>(
    x: View<T>,
    y: ViewMut<T>,
    stats: Option<StatsMut<T::Acc>>,
    config: &NormConfig<T>,
    cx: &mut Context,
) -> Result<(), Error> {
    row_norm::forward(ForwardArgs { x: Operands::Apart { x, y }, stats }, config, CENTERED, cx)
}

/// Computes x = norm(x) in place.
pub fn forward_in_place<T: Element>(
    x: ViewMut<T>,
    stats: Option<StatsMut<T::Acc>>,
    config: &NormConfig<T>,
    cx: &mut Context,
) -> Result<(), Error> {
    row_norm::forward(ForwardArgs { x: Operands::InPlace(x), stats }, config, CENTERED, cx)
}

/// Computes h = x + residual, rounded to the element type, and y = norm(h), bit-identical to the two operations in
/// sequence.
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

/// Computes the gradients from dy, x and the statistics saved by [`forward`].
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

/// Computes the gradients of [`forward_residual`]. `h` is its residual output, and `dh` is the gradient of h from its
/// other uses. The gradient of the input is that of both x and the residual: dh + (the gradient through the norm,
/// rounded).
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
