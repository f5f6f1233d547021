//! RMS normalization (Zhang and Sennrich, 2019).

use crate::layer_norm::{LayerNorm, layer_norm};
use candle_core::{Module, Result, Tensor};
use candle_nn::{LayerNormConfig, VarBuilder};

/// RMS normalization over the last axis, like [`candle_nn::RmsNorm`], with gradients of x and weight.
///
/// y = x/sqrt(mean(x²) + ε)·weight
#[derive(Clone, Debug)]
pub struct RmsNorm(LayerNorm);

impl RmsNorm {
    /// Creates an RMS norm with a weight `[d]`.
    pub fn new(weight: Tensor, eps: f64) -> Self {
        RmsNorm(LayerNorm::rms_norm(weight, eps))
    }

    /// The wrapped layer norm, which does not remove the mean.
    pub fn into_inner(self) -> LayerNorm {
        self.0
    }

    /// The weight γ, `[d]`.
    pub fn weight(&self) -> &Tensor {
        self.0.weight()
    }

    /// ε, under the root.
    pub fn eps(&self) -> f64 {
        self.0.eps()
    }

    /// The same as `forward`, which is differentiable here. In candle-nn it is a slower method for training.
    pub fn forward_diff(&self, x: &Tensor) -> Result<Tensor> {
        self.0.forward(x)
    }
}

impl Module for RmsNorm {
    /// Normalizes every row: x and y `[…, d]`.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.0.forward(x)
    }
}

/// Creates an RMS norm over a last axis of this size, like [`candle_nn::rms_norm`]: `weight` starts at 1.
pub fn rms_norm(size: usize, eps: f64, vb: VarBuilder) -> Result<RmsNorm> {
    layer_norm(size, LayerNormConfig { eps, remove_mean: false, affine: false }, vb).map(RmsNorm)
}
