//! Instance normalization (Ulyanov, Vedaldi and Lempitsky, 2016): every channel of every sample to mean 0 and variance 1, then
//! gain and bias of the channel. It is group norm with one channel a group.

use crate::context::Context;
use crate::element::Element;
use crate::error::Error;
use crate::group_norm::{self, GroupConfig};
use crate::params::{Affine, Gradients, StatsMut, StatsRef};
use crate::view::{View, ViewMut};

/// γ and β (one a channel) and ε.
#[derive(Debug)]
pub struct InstanceConfig<'a, T> {
    /// γ and β, `[C]`.
    pub affine: Affine<'a, T>,
    /// ε: finite, 0 or more.
    pub eps: f64,
}

impl<T> Default for InstanceConfig<'_, T> {
    /// No γ and β, ε = 10⁻⁵.
    fn default() -> Self {
        InstanceConfig { affine: Affine::default(), eps: 1e-5 }
    }
}

impl<'a, T> InstanceConfig<'a, T> {
    /// One group a channel. A tensor without a channel axis gets its error from group norm.
    fn groups(&self, shape: &[usize]) -> GroupConfig<'a, T> {
        let groups = shape.get(1).copied().unwrap_or(1);
        GroupConfig { groups, affine: self.affine, eps: self.eps }
    }
}

/// y = norm(x), x of shape `[N, C, …]`. `stats`, if given, gets one of each a sample and channel.
pub fn forward<T: Element>(
    x: View<T>,
    y: ViewMut<T>,
    stats: Option<StatsMut<T::Acc>>,
    config: &InstanceConfig<T>,
    cx: &mut Context,
) -> Result<(), Error> {
    group_norm::forward(x, y, stats, &config.groups(x.shape()), cx)
}

/// Gradients from dy, x and the statistics that [`forward`] saved.
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
