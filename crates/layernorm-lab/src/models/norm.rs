//! The normalizations of hidden units, for the shapes that occur in the networks.
//!
//! ```text
//!              vectors [N, C]       positions [B, T, C]        images [B, C, H, W]
//! batch        each unit over N     each unit over B and T     each channel over B, H and W
//! layer        each row             each position              each image, over C, H and W (γ, β by channel)
//! rms          each row             each position              each image, over C, H and W (γ, β by pixel)
//! group        groups of units      groups of units            groups of channels
//! instance     –                    each unit over T           each channel over H and W
//! ```
//!
//! Weight norm normalizes the weights instead of the activations: see [`super::dense`].

use super::start::Draw;
use burn::module::{Module, Param, ParamId};
use burn::tensor::Tensor;
use layernorm_burn::{
    BatchNorm, BatchNormConfig, GroupNorm, GroupNormConfig, InstanceNorm, InstanceNormConfig, LayerNorm,
    LayerNormConfig, RmsNorm, RmsNormConfig,
};
use serde::{Deserialize, Serialize};

/// A normalization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Norm {
    /// None.
    None,
    /// Batch norm (Ioffe and Szegedy, 2015); in a recurrent network with separate statistics for every time step
    /// (Cooijmans et al., 2016).
    Batch,
    /// Layer norm (Ba, Kiros and Hinton, 2016).
    Layer,
    /// RMS norm (Zhang and Sennrich, 2019).
    Rms,
    /// Group norm (Wu and He, 2018); in an LSTM or a GRU, layer norm of each gate separately.
    Group,
    /// Instance norm (Ulyanov, Vedaldi and Lempitsky, 2016).
    Instance,
    /// Weight norm (Salimans and Kingma, 2016).
    Weight,
}

impl Norm {
    /// All of them.
    pub const ALL: [Norm; 7] =
        [Norm::None, Norm::Batch, Norm::Layer, Norm::Rms, Norm::Group, Norm::Instance, Norm::Weight];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Norm::None => "none",
            Norm::Batch => "batch",
            Norm::Layer => "layer",
            Norm::Rms => "rms",
            Norm::Group => "group",
            Norm::Instance => "instance",
            Norm::Weight => "weight",
        }
    }

    /// The norm with this name.
    pub fn named(name: &str) -> Option<Norm> {
        Norm::ALL.into_iter().find(|norm| norm.name() == name)
    }
}

impl std::fmt::Display for Norm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A norm of hidden units.
#[derive(Module, Debug)]
pub enum NormLayer {
    /// Batch norm.
    Batch(BatchNorm),
    /// Layer norm of rows.
    Layer(LayerNorm),
    /// RMS norm of rows.
    Rms(RmsNorm),
    /// Group norm; with one group, layer norm of images.
    Group(GroupNorm),
    /// Instance norm.
    Instance(InstanceNorm),
}

impl NormLayer {
    /// For vectors or positions of `units`; `None` if activations are not normalized.
    pub(super) fn of_units(norm: Norm, units: usize, draw: &Draw<'_>) -> Option<NormLayer> {
        let epsilon = draw.start.epsilon;
        Some(match norm {
            Norm::None | Norm::Weight => return None,
            Norm::Batch => batch(units, draw),
            Norm::Layer => {
                let mut norm = LayerNormConfig::new(units).with_epsilon(epsilon).init(draw.device);
                (norm.gamma, norm.beta) = (gain(units, draw), Some(bias(units, draw)));
                NormLayer::Layer(norm)
            }
            Norm::Rms => NormLayer::rms(units, draw),
            Norm::Group => NormLayer::group(groups(units), units, draw),
            Norm::Instance => instance(units, draw),
        })
    }

    /// For images of `[channels, height, width]`.
    pub(super) fn of_images(norm: Norm, [channels, height, width]: [usize; 3], draw: &Draw<'_>) -> Option<NormLayer> {
        Some(match norm {
            Norm::None | Norm::Weight => return None,
            Norm::Batch => batch(channels, draw),
            Norm::Layer => NormLayer::group(1, channels, draw),
            Norm::Rms => NormLayer::rms(channels * height * width, draw),
            Norm::Group => NormLayer::group(groups(channels), channels, draw),
            Norm::Instance => instance(channels, draw),
        })
    }

    fn rms(units: usize, draw: &Draw<'_>) -> NormLayer {
        let mut norm = RmsNormConfig::new(units).with_epsilon(draw.start.epsilon).init(draw.device);
        norm.gamma = gain(units, draw);
        NormLayer::Rms(norm)
    }

    fn group(groups: usize, channels: usize, draw: &Draw<'_>) -> NormLayer {
        let mut norm = GroupNormConfig::new(groups, channels).with_epsilon(draw.start.epsilon).init(draw.device);
        (norm.gamma, norm.beta) = (Some(gain(channels, draw)), Some(bias(channels, draw)));
        NormLayer::Group(norm)
    }

    /// The ids of γ and β.
    pub(super) fn affine(&self) -> Vec<ParamId> {
        let (gain, bias) = match self {
            NormLayer::Batch(norm) => (Some(norm.gamma.id), Some(norm.beta.id)),
            NormLayer::Layer(norm) => (Some(norm.gamma.id), norm.beta.as_ref().map(|beta| beta.id)),
            NormLayer::Rms(norm) => (Some(norm.gamma.id), None),
            NormLayer::Group(norm) => {
                (norm.gamma.as_ref().map(|gamma| gamma.id), norm.beta.as_ref().map(|beta| beta.id))
            }
            NormLayer::Instance(norm) => {
                (norm.gamma.as_ref().map(|gamma| gamma.id), norm.beta.as_ref().map(|beta| beta.id))
            }
        };
        gain.into_iter().chain(bias).collect()
    }

    /// Vectors `[N, C]`.
    pub(super) fn vectors(&self, x: Tensor<2>) -> Tensor<2> {
        match self {
            NormLayer::Batch(norm) => batch_norm(norm, x),
            NormLayer::Layer(norm) => norm.forward(x),
            NormLayer::Rms(norm) => norm.forward(x),
            NormLayer::Group(norm) => norm.forward(x),
            NormLayer::Instance(norm) => norm.forward(x.unsqueeze_dim::<3>(2)).squeeze_dim(2),
        }
    }

    /// Positions `[B, T, C]`.
    pub(super) fn positions(&self, x: Tensor<3>) -> Tensor<3> {
        match self {
            NormLayer::Instance(norm) => norm.forward(x.swap_dims(1, 2)).swap_dims(1, 2),
            NormLayer::Layer(norm) => norm.forward(x),
            NormLayer::Rms(norm) => norm.forward(x),
            NormLayer::Batch(_) | NormLayer::Group(_) => {
                let [batch, positions, units] = x.dims();
                self.vectors(x.reshape([batch * positions, units])).reshape([batch, positions, units])
            }
        }
    }

    /// Images `[B, C, H, W]`.
    pub(super) fn images(&self, x: Tensor<4>) -> Tensor<4> {
        match self {
            NormLayer::Batch(norm) => batch_norm(norm, x),
            NormLayer::Group(norm) => norm.forward(x),
            NormLayer::Instance(norm) => norm.forward(x),
            NormLayer::Layer(_) | NormLayer::Rms(_) => {
                let [batch, channels, height, width] = x.dims();
                let rows = self.vectors(x.reshape([batch, channels * height * width]));
                rows.reshape([batch, channels, height, width])
            }
        }
    }
}

/// Batch norm with unbiased running variance, as in the original paper. Burn divides by n, which makes results with
/// small batches worse at inference.
fn batch_norm<const D: usize>(norm: &BatchNorm, x: Tensor<D>) -> Tensor<D> {
    let [all, units] = [x.shape().num_elements(), x.dims()[1]];
    if !x.device().is_autodiff() {
        return norm.forward(x);
    }
    let before = norm.running_var.value_sync();
    let y = norm.forward(x);
    norm.running_var.update(unbiased(norm.running_var.value_sync(), before, norm.momentum, all / units.max(1)));
    y
}

/// Converts (1 − m)·before + m·v from v divided by n to v divided by n − 1. For a single sample this is undefined, and
/// the value is kept.
pub(super) fn unbiased(running: Tensor<1>, before: Tensor<1>, momentum: f64, count: usize) -> Tensor<1> {
    if count < 2 {
        return running;
    }
    let part = running.clone() - before * (1.0 - momentum);
    running + part / (count - 1) as f64
}

fn batch(units: usize, draw: &Draw<'_>) -> NormLayer {
    let mut norm = BatchNormConfig::new(units).with_epsilon(draw.start.epsilon).init(draw.device);
    (norm.gamma, norm.beta) = (gain(units, draw), bias(units, draw));
    NormLayer::Batch(norm)
}

fn instance(units: usize, draw: &Draw<'_>) -> NormLayer {
    let mut norm = InstanceNormConfig::new(units).with_epsilon(draw.start.epsilon).init(draw.device);
    (norm.gamma, norm.beta) = (Some(gain(units, draw)), Some(bias(units, draw)));
    NormLayer::Instance(norm)
}

fn gain(units: usize, draw: &Draw<'_>) -> Param<Tensor<1>> {
    draw.constant(units, draw.start.gain).set_require_grad(draw.start.affine)
}

fn bias(units: usize, draw: &Draw<'_>) -> Param<Tensor<1>> {
    draw.constant(units, draw.start.bias).set_require_grad(draw.start.affine)
}

/// Minimum number of units or channels per group: of two normalized values, only the signs would be left.
const LEAST: usize = 4;

/// The largest of 8, 4, 2 and 1 groups that divides the units and leaves enough of them in each group.
fn groups(units: usize) -> usize {
    [8, 4, 2].into_iter().find(|&groups| units.is_multiple_of(groups) && units / groups >= LEAST).unwrap_or(1)
}
