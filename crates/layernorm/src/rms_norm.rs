//! RMS normalization (Zhang and Sennrich, 2019): divides each row by its root mean square, then applies the gain.
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

// The signatures are those of `layer_norm`, written out in both files so that documentation and editors show them.

/// Rows are not centred.
const CENTERED: bool = false;

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
