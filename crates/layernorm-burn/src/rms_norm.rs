//! RMS normalization (Zhang and Sennrich, 2019).

use crate::{checks, functional};
use burn::config::Config;
use burn::module::{Content, DisplaySettings, Module, ModuleDisplay, Param};
use burn::nn::Initializer;
use burn::tensor::{Device, Tensor};

/// Configuration of an [`RmsNorm`].
#[derive(Config, Debug)]
pub struct RmsNormConfig {
    /// The size of the last axis.
    pub d_model: usize,
    /// ε, under the root. Default: 1e-5
    #[config(default = 1e-5)]
    pub epsilon: f64,
}

/// RMS normalization over the last axis, like [`burn::nn::RmsNorm`].
///
/// y = x/sqrt(mean(x²) + ε)·γ
#[derive(Module, Debug)]
#[module(custom_display)]
pub struct RmsNorm {
    /// γ `[d_model]`.
    pub gamma: Param<Tensor<1>>,
    /// ε.
    pub epsilon: f64,
}

impl RmsNormConfig {
    /// Creates the module with γ = 1.
    ///
    /// # Panics
    /// If ε is negative or not finite.
    pub fn init(&self, device: &Device) -> RmsNorm {
        checks::or_panic(self.try_init(device))
    }

    /// Like [`RmsNormConfig::init`], but returns an error instead of panicking.
    pub fn try_init(&self, device: &Device) -> Result<RmsNorm, layernorm::Error> {
        checks::row_norm(self.d_model, self.epsilon)?;
        Ok(RmsNorm { gamma: Initializer::Ones.init([self.d_model], device), epsilon: self.epsilon })
    }
}

impl RmsNorm {
    /// Normalizes every row.
    ///
    /// # Shapes
    /// - x: `[..., d_model]`
    /// - output: `[..., d_model]`
    ///
    /// # Panics
    /// If the last axis is not `d_model`: "weight: expected shape …, found …".
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        functional::rms_norm(x, Some(self.gamma.val()), None, self.epsilon)
    }
}

impl ModuleDisplay for RmsNorm {
    fn custom_settings(&self) -> Option<DisplaySettings> {
        DisplaySettings::new().with_new_line_after_attribute(false).optional()
    }

    fn custom_content(&self, content: Content) -> Option<Content> {
        let [d_model] = self.gamma.shape().dims();
        content.add("d_model", &d_model).add("epsilon", &self.epsilon).optional()
    }
}
