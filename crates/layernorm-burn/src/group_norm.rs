//! Group normalization (Wu and He, 2018).

use crate::{checks, functional};
use burn::config::Config;
use burn::module::{Content, DisplaySettings, Module, ModuleDisplay, Param};
use burn::nn::Initializer;
use burn::tensor::{Device, Tensor};

/// Configuration of a [`GroupNorm`].
#[derive(Config, Debug)]
pub struct GroupNormConfig {
    /// Number of groups; must divide the number of channels.
    pub num_groups: usize,
    /// Number of channels.
    pub num_channels: usize,
    /// ε, under the root. Default: 1e-5
    #[config(default = 1e-5)]
    pub epsilon: f64,
    /// Whether there are γ and β, one of each per channel. Default: true
    #[config(default = true)]
    pub affine: bool,
}

/// Group normalization, like [`burn::nn::GroupNorm`]: divides the channels of a sample into groups and normalizes each
/// group to mean 0 and variance 1.
///
/// y = (x − mean)/sqrt(var + ε)·γ + β, with the mean and variance of the group, and γ and β of the channel.
#[derive(Module, Debug)]
#[module(custom_display)]
pub struct GroupNorm {
    /// γ `[num_channels]`.
    pub gamma: Option<Param<Tensor<1>>>,
    /// β `[num_channels]`.
    pub beta: Option<Param<Tensor<1>>>,
    /// Number of groups.
    pub num_groups: usize,
    /// Number of channels.
    pub num_channels: usize,
    /// ε.
    pub epsilon: f64,
    /// Whether it was created with γ and β.
    pub affine: bool,
}

impl GroupNormConfig {
    /// Creates the module with γ = 1 and β = 0.
    ///
    /// # Panics
    /// If the number of groups does not divide the number of channels, or if ε is negative or not finite.
    pub fn init(&self, device: &Device) -> GroupNorm {
        checks::or_panic(self.try_init(device))
    }

    /// Like [`GroupNormConfig::init`], but returns an error instead of panicking.
    pub fn try_init(&self, device: &Device) -> Result<GroupNorm, layernorm::Error> {
        checks::group_norm(self.num_groups, self.num_channels, self.epsilon)?;
        let start = |initializer: Initializer| self.affine.then(|| initializer.init([self.num_channels], device));
        Ok(GroupNorm {
            gamma: start(Initializer::Ones),
            beta: start(Initializer::Zeros),
            num_groups: self.num_groups,
            num_channels: self.num_channels,
            epsilon: self.epsilon,
            affine: self.affine,
        })
    }
}

impl GroupNorm {
    /// Normalizes every group of every sample.
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
        functional::group_norm(input, gamma, beta, self.num_groups, self.epsilon)
    }
}

impl ModuleDisplay for GroupNorm {
    fn custom_settings(&self) -> Option<DisplaySettings> {
        DisplaySettings::new().with_new_line_after_attribute(false).optional()
    }

    fn custom_content(&self, content: Content) -> Option<Content> {
        content
            .add("num_groups", &self.num_groups)
            .add("num_channels", &self.num_channels)
            .add("epsilon", &self.epsilon)
            .add("affine", &self.affine)
            .optional()
    }
}
