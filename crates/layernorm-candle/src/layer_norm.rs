//! Layer normalization (Ba, Kiros and Hinton, 2016).

use crate::{checks, ops};
use candle_core::{Module, Result, Tensor};
use candle_nn::{Init, LayerNormConfig, VarBuilder};

/// Layer normalization over the last axis, like [`candle_nn::LayerNorm`], with gradients of x, weight and bias.
///
/// y = (x − mean)/sqrt(var + ε)·weight + bias, with the mean and variance of the last axis. The variance is divided by
/// its length. Without `remove_mean` it is y = x/sqrt(mean(x²) + ε)·weight + bias.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    weight: Tensor,
    bias: Option<Tensor>,
    remove_mean: bool,
    eps: f64,
}

impl LayerNorm {
    /// Creates a layer norm with weight and bias, `[d]` each.
    pub fn new(weight: Tensor, bias: Tensor, eps: f64) -> Self {
        LayerNorm { weight, bias: Some(bias), remove_mean: true, eps }
    }

    /// Creates a layer norm with a weight `[d]` and no bias.
    pub fn new_no_bias(weight: Tensor, eps: f64) -> Self {
        LayerNorm { weight, bias: None, remove_mean: true, eps }
    }

    /// Creates a norm that does not remove the mean, with a weight `[d]` and no bias.
    pub fn rms_norm(weight: Tensor, eps: f64) -> Self {
        LayerNorm { weight, bias: None, remove_mean: false, eps }
    }

    /// The weight γ, `[d]`.
    pub fn weight(&self) -> &Tensor {
        &self.weight
    }

    /// The bias β, `[d]`, if there is one.
    pub fn bias(&self) -> Option<&Tensor> {
        self.bias.as_ref()
    }

    /// ε, under the root.
    pub fn eps(&self) -> f64 {
        self.eps
    }

    /// Whether the mean is removed.
    pub fn remove_mean(&self) -> bool {
        self.remove_mean
    }
}

impl Module for LayerNorm {
    /// Normalizes every row: x and y `[…, d]`.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let norm = if self.remove_mean { ops::layer_norm } else { ops::rms_norm };
        norm(x, Some(&self.weight), self.bias.as_ref(), self.eps)
    }
}

/// Creates a layer norm over a last axis of this size, like [`candle_nn::layer_norm()`]: `weight` (or `gamma`) starts at
/// 1, `bias` (or `beta`) at 0. The configuration is candle-nn's; a number is taken as ε.
pub fn layer_norm<C: Into<LayerNormConfig>>(size: usize, config: C, vb: VarBuilder) -> Result<LayerNorm> {
    let LayerNormConfig { eps, remove_mean, affine } = config.into();
    checks::row_norm(size, eps)?;
    let get = |names: [&str; 2], start| {
        let name = names.into_iter().find(|name| vb.contains_tensor(name)).unwrap_or(names[0]);
        vb.get_with_hints(size, name, Init::Const(start))
    };
    let weight = get(["weight", "gamma"], 1.0)?;
    let bias = if affine { Some(get(["bias", "beta"], 0.0)?) } else { None };
    Ok(LayerNorm { weight, bias, remove_mean, eps })
}

/// Creates a layer norm without a bias, like [`candle_nn::layer_norm_no_bias`].
pub fn layer_norm_no_bias(size: usize, eps: f64, vb: VarBuilder) -> Result<LayerNorm> {
    layer_norm(size, LayerNormConfig { eps, remove_mean: true, affine: false }, vb)
}
