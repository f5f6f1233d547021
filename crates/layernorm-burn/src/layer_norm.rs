//! Layer normalization (Ba, Kiros and Hinton, 2016).

use crate::{checks, functional};
use burn::config::Config;
use burn::module::{Content, DisplaySettings, Module, ModuleDisplay, Param};
use burn::nn::Initializer;
use burn::tensor::{Device, Tensor};

/// Configuration of a [`LayerNorm`].
#[derive(Config, Debug)]
pub struct LayerNormConfig {
    /// The size of the last axis.
    pub d_model: usize,
    /// ε, under the root. Default: 1e-5
    #[config(default = 1e-5)]
    pub epsilon: f64,
    /// Whether there is a bias β. Default: true
    #[config(default = true)]
    pub bias: bool,
}

/// Layer normalization over the last axis, like [`burn::nn::LayerNorm`].
///
/// y = (x − mean)/sqrt(var + ε)·γ + β, with the mean and variance of the last axis. The variance is divided by its
/// length.
#[derive(Module, Debug)]
#[module(custom_display)]
pub struct LayerNorm {
    /// γ `[d_model]`.
    pub gamma: Param<Tensor<1>>,
    /// β `[d_model]`.
    pub beta: Option<Param<Tensor<1>>>,
    /// ε.
    pub epsilon: f64,
}

impl LayerNormConfig {
    /// Creates the module with γ = 1 and β = 0.
    ///
    /// # Panics
    /// If ε is negative or not finite.
    pub fn init(&self, device: &Device) -> LayerNorm {
        checks::or_panic(self.try_init(device))
    }

    /// Like [`LayerNormConfig::init`], but returns an error instead of panicking.
    pub fn try_init(&self, device: &Device) -> Result<LayerNorm, layernorm::Error> {
        checks::row_norm(self.d_model, self.epsilon)?;
        let gamma = Initializer::Ones.init([self.d_model], device);
        let beta = self.bias.then(|| Initializer::Zeros.init([self.d_model], device));
        Ok(LayerNorm { gamma, beta, epsilon: self.epsilon })
    }
}

impl LayerNorm {
    /// Normalizes every row.
    ///
    /// # Shapes
    /// - input: `[..., d_model]`
    /// - output: `[..., d_model]`
    ///
    /// # Panics
    /// If the last axis is not `d_model`: "weight: expected shape …, found …".
    pub fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        functional::layer_norm(input, Some(self.gamma.val()), self.beta.as_ref().map(Param::val), self.epsilon)
    }
}

impl ModuleDisplay for LayerNorm {
    fn custom_settings(&self) -> Option<DisplaySettings> {
        DisplaySettings::new().with_new_line_after_attribute(false).optional()
    }

    fn custom_content(&self, content: Content) -> Option<Content> {
        let [d_model] = self.gamma.shape().dims();
        content.add("d_model", &d_model).add("epsilon", &self.epsilon).add("bias", &self.beta.is_some()).optional()
    }
}
