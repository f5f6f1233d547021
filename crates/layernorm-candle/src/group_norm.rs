//! Group normalization (Wu and He, 2018).

use crate::{checks, ops};
use candle_core::{Module, Result, Tensor};
use candle_nn::{Init, VarBuilder};

/// Group normalization, like [`candle_nn::GroupNorm`]: divides the channels of a sample into groups and normalizes each
/// group to mean 0 and variance 1.
///
/// y = (x − mean)/sqrt(var + ε)·weight + bias, with the mean and variance of the group, and weight and bias of the
/// channel.
#[derive(Clone, Debug)]
pub struct GroupNorm {
    weight: Tensor,
    bias: Tensor,
    eps: f64,
    num_channels: usize,
    num_groups: usize,
}

impl GroupNorm {
    /// Creates a group norm with weight and bias, `[num_channels]` each.
    pub fn new(weight: Tensor, bias: Tensor, num_channels: usize, num_groups: usize, eps: f64) -> Result<Self> {
        checks::group_norm(num_groups, num_channels, eps)?;
        checks::parameter("weight", &weight, num_channels)?;
        checks::parameter("bias", &bias, num_channels)?;
        Ok(GroupNorm { weight, bias, eps, num_channels, num_groups })
    }

    /// The weight γ, `[num_channels]`.
    pub fn weight(&self) -> &Tensor {
        &self.weight
    }

    /// The bias β, `[num_channels]`.
    pub fn bias(&self) -> &Tensor {
        &self.bias
    }
}

impl Module for GroupNorm {
    /// Normalizes every group of every sample: x and y `[N, C, …]`, with at least two dimensions.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        checks::channels(x, self.num_channels)?;
        ops::group_norm(x, Some(&self.weight), Some(&self.bias), self.num_groups, self.eps)
    }
}

/// Creates a group norm, like [`candle_nn::group_norm()`]: `weight` starts at 1, `bias` at 0.
pub fn group_norm(num_groups: usize, num_channels: usize, eps: f64, vb: VarBuilder) -> Result<GroupNorm> {
    checks::group_norm(num_groups, num_channels, eps)?;
    let weight = vb.get_with_hints(num_channels, "weight", Init::Const(1.0))?;
    let bias = vb.get_with_hints(num_channels, "bias", Init::Const(0.0))?;
    GroupNorm::new(weight, bias, num_channels, num_groups, eps)
}
