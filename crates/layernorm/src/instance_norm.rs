//! Instance normalization (Ulyanov, Vedaldi and Lempitsky, 2016): scales each channel of each sample to mean 0 and
//! variance 1, then applies the channel's gain and bias. It is group norm with one channel per group.

use crate::context::Context;
use crate::element::Element;
use crate::error::Error;
use crate::group_norm::{self, GroupConfig};
use crate::params::{Affine, Gradients, StatsMut, StatsRef};
use crate::view::{View, ViewMut};

/// Configuration of instance norm: γ and β (one per channel), and ε.
#[derive(Debug)]
pub struct InstanceConfig<'a, T> {
    /// γ and β, `[C]`.
    pub affine: Affine<'a, T>,
    /// ε: finite and not negative.
    pub eps: f64,
}

impl<T> Default for InstanceConfig<'_, T> {
    /// Returns a configuration without γ and β, and with ε = 10⁻⁵.
    fn default() -> Self {
        InstanceConfig { affine: Affine::default(), eps: 1e-5 }
    }
}

impl<'a, T> InstanceConfig<'a, T> {
    /// Returns the group norm with one group per channel. A tensor without a channel axis is rejected there.
    fn groups(&self, shape: &[usize]) -> GroupConfig<'a, T> {
        let groups = shape.get(1).copied().unwrap_or(1);
        GroupConfig { groups, affine: self.affine, eps: self.eps }
    }
}

/// Computes y = norm(x) for x of shape `[N, C, …]`. Writes the statistics that backward needs to `stats`, if given:
/// one of each per sample and channel.
pub fn forward<T: Element>(
    x: View<T>,
    y: ViewMut<T>,
    stats: Option<StatsMut<T::Acc>>,
    config: &InstanceConfig<T>,
    cx: &mut Context,
) -> Result<(), Error> {
    group_norm::forward(x, y, stats, &config.groups(x.shape()), cx)
}

/// Computes the gradients from dy, x and the statistics saved by [`forward`].
pub fn backward<T: Element>(
    x: View<T>,
    dy: View<T>,
    stats: StatsRef<T::Acc>,
    gradients: Gradients<T>,
    config: &InstanceConfig<T>,
    cx: &mut Context,
) -> Result<(), Error> {
    group_norm::backward(x, dy, stats, gradients, &config.groups(x.shape()), cx)
}
