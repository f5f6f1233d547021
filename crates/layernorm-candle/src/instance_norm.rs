//! Instance normalization (Ulyanov, Vedaldi and Lempitsky, 2016).

use crate::{checks, ops};
use candle_core::{Module, Result, Tensor};
use candle_nn::{Init, VarBuilder};

/// Configuration of an [`InstanceNorm`]. Can be created from a number, which is ε.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InstanceNormConfig {
    /// ε, under the root. Default: 1e-5
    pub eps: f64,
    /// Whether there are weight and bias, one of each per channel. Default: false, as in PyTorch
    pub affine: bool,
}

impl Default for InstanceNormConfig {
    fn default() -> Self {
        InstanceNormConfig { eps: 1e-5, affine: false }
    }
}

impl From<f64> for InstanceNormConfig {
    fn from(eps: f64) -> Self {
        InstanceNormConfig { eps, ..InstanceNormConfig::default() }
    }
}

/// Instance normalization: normalizes every channel of every sample to mean 0 and variance 1. It is group norm with one
/// channel per group.
#[derive(Clone, Debug)]
pub struct InstanceNorm {
    affine: Option<[Tensor; 2]>,
    num_channels: usize,
    eps: f64,
}

impl InstanceNorm {
    /// The weight γ, `[num_channels]`, if there is one.
    pub fn weight(&self) -> Option<&Tensor> {
        self.affine.as_ref().map(|[weight, _]| weight)
    }

    /// The bias β, `[num_channels]`, if there is one.
    pub fn bias(&self) -> Option<&Tensor> {
        self.affine.as_ref().map(|[_, bias]| bias)
    }
}

impl Module for InstanceNorm {
    /// Normalizes every channel of every sample: x and y `[N, C, …]`.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        checks::channels(x, self.num_channels)?;
        ops::group_norm(x, self.weight(), self.bias(), self.num_channels, self.eps)
    }
}

/// Creates an instance norm for this many channels. With `affine`, `weight` starts at 1 and `bias` at 0.
pub fn instance_norm<C: Into<InstanceNormConfig>>(
    num_channels: usize,
    config: C,
    vb: VarBuilder,
) -> Result<InstanceNorm> {
    let InstanceNormConfig { eps, affine } = config.into();
    checks::group_norm(num_channels, num_channels, eps)?;
    let get = |name, start| vb.get_with_hints(num_channels, name, Init::Const(start));
    let affine = if affine { Some([get("weight", 1.0)?, get("bias", 0.0)?]) } else { None };
    Ok(InstanceNorm { affine, num_channels, eps })
}
