//! Instance normalization (Ulyanov, Vedaldi and Lempitsky, 2016).

use crate::{checks, functional};
use burn::config::Config;
use burn::module::{Content, DisplaySettings, Module, ModuleDisplay, Param};
use burn::nn::Initializer;
use burn::tensor::{Device, Tensor};

/// Configuration of an [`InstanceNorm`].
#[derive(Config, Debug)]
pub struct InstanceNormConfig {
    /// Number of channels.
    pub num_channels: usize,
    /// ε, under the root. Default: 1e-5
    #[config(default = 1e-5)]
    pub epsilon: f64,
    /// Whether there are γ and β, one of each per channel. Default: true
    #[config(default = true)]
    pub affine: bool,
}

/// Instance normalization, like [`burn::nn::InstanceNorm`]: normalizes every channel of every sample to mean 0 and
/// variance 1.
///
/// y = (x − mean)/sqrt(var + ε)·γ + β, with the mean and variance of the channel in its sample.
#[derive(Module, Debug)]
#[module(custom_display)]
pub struct InstanceNorm {
    /// γ `[num_channels]`.
    pub gamma: Option<Param<Tensor<1>>>,
    /// β `[num_channels]`.
    pub beta: Option<Param<Tensor<1>>>,
    /// Number of channels.
    pub num_channels: usize,
    /// ε.
    pub epsilon: f64,
    /// Whether it was created with γ and β.
    pub affine: bool,
}

impl InstanceNormConfig {
    /// Creates the module with γ = 1 and β = 0.
    ///
    /// # Panics
    /// If ε is negative or not finite.
    pub fn init(&self, device: &Device) -> InstanceNorm {
        checks::or_panic(self.try_init(device))
    }

    /// Like [`InstanceNormConfig::init`], but returns an error instead of panicking.
    pub fn try_init(&self, device: &Device) -> Result<InstanceNorm, layernorm::Error> {
        checks::group_norm(self.num_channels, self.num_channels, self.epsilon)?;
        let start = |initializer: Initializer| self.affine.then(|| initializer.init([self.num_channels], device));
        Ok(InstanceNorm {
            gamma: start(Initializer::Ones),
            beta: start(Initializer::Zeros),
            num_channels: self.num_channels,
            epsilon: self.epsilon,
            affine: self.affine,
        })
    }
}

impl InstanceNorm {
    /// Normalizes every channel of every sample.
    ///
    /// # Shapes
    /// - input: `[batch_size, num_channels, *]`
    /// - output: `[batch_size, num_channels, *]`
    ///
    /// # Panics
    /// If the second axis is not `num_channels`: "input: expected shape …, found …".
    pub fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        checks::channels(&input.dims(), self.num_channels);
        let [gamma, beta] = [&self.gamma, &self.beta].map(|param| param.as_ref().map(Param::val));
        functional::group_norm(input, gamma, beta, self.num_channels, self.epsilon)
    }
}

impl ModuleDisplay for InstanceNorm {
    fn custom_settings(&self) -> Option<DisplaySettings> {
        DisplaySettings::new().with_new_line_after_attribute(false).optional()
    }

    fn custom_content(&self, content: Content) -> Option<Content> {
        content
            .add("num_channels", &self.num_channels)
            .add("epsilon", &self.epsilon)
            .add("affine", &self.affine)
            .optional()
    }
}
