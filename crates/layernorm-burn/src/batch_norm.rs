//! Batch normalization (Ioffe and Szegedy, 2015).

use crate::{checks, functional};
use burn::config::Config;
use burn::module::{Content, DisplaySettings, Flag, Module, ModuleDisplay, Param, RunningState};
use burn::nn::Initializer;
use burn::tensor::{Device, Tensor};

/// Configuration of a [`BatchNorm`].
#[derive(Config, Debug)]
pub struct BatchNormConfig {
    /// Number of channels.
    pub num_features: usize,
    /// ε, under the root. Default: 1e-5
    #[config(default = 1e-5)]
    pub epsilon: f64,
    /// Weight of the current batch in the running statistics, 0 to 1. Default: 0.1
    #[config(default = 0.1)]
    pub momentum: f64,
}

/// Batch normalization, like [`burn::nn::BatchNorm`]: normalizes every channel to mean 0 and variance 1.
///
/// In training (on a device with autodiff, unless the layer is frozen) it uses the mean and variance of the batch and
/// updates the running statistics; otherwise it uses the running statistics. The variance is divided by N, as in Burn.
#[derive(Module, Debug)]
#[module(custom_display)]
pub struct BatchNorm {
    /// γ `[num_features]`.
    pub gamma: Param<Tensor<1>>,
    /// β `[num_features]`.
    pub beta: Param<Tensor<1>>,
    /// Whether the layer takes part in training.
    pub training: Param<Flag>,
    /// The running mean `[num_features]`.
    pub running_mean: RunningState<Tensor<1>>,
    /// The running variance `[num_features]`.
    pub running_var: RunningState<Tensor<1>>,
    /// Weight of the current batch in the running statistics.
    pub momentum: f64,
    /// ε.
    pub epsilon: f64,
}

impl BatchNormConfig {
    /// Creates the module with γ = 1, β = 0, running mean 0 and running variance 1.
    ///
    /// # Panics
    /// If ε is negative or not finite, or if the momentum is not between 0 and 1.
    pub fn init(&self, device: &Device) -> BatchNorm {
        checks::or_panic(self.try_init(device))
    }

    /// Like [`BatchNormConfig::init`], but returns an error instead of panicking.
    pub fn try_init(&self, device: &Device) -> Result<BatchNorm, layernorm::Error> {
        checks::batch_norm(self.num_features, self.epsilon, self.momentum)?;
        Ok(BatchNorm {
            gamma: Initializer::Ones.init([self.num_features], device),
            beta: Initializer::Zeros.init([self.num_features], device),
            training: Param::from_bool(true),
            running_mean: RunningState::new(Tensor::zeros([self.num_features], device)),
            running_var: RunningState::new(Tensor::ones([self.num_features], device)),
            momentum: self.momentum,
            epsilon: self.epsilon,
        })
    }
}

impl BatchNorm {
    /// Normalizes every channel.
    ///
    /// # Shapes
    /// - input: `[batch_size, num_features, *]`
    /// - output: `[batch_size, num_features, *]`
    ///
    /// # Panics
    /// If the second axis is not `num_features`: "input: expected shape …, found …".
    pub fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        let [num_features] = self.gamma.shape().dims();
        checks::channels(&input.dims(), num_features);
        let (gamma, beta, device) = (Some(self.gamma.val()), Some(self.beta.val()), input.device());
        if !(device.is_autodiff() && self.training.is_enabled()) {
            let moments = [&self.running_mean, &self.running_var].map(|state| state.value().to_device(&device));
            return functional::batch_norm(input, gamma, beta, moments, self.epsilon);
        }
        let running = [&self.running_mean, &self.running_var].map(|state| state.value_sync().to_device(&device));
        let trained = functional::batch_norm_train(input, gamma, beta, running, self.momentum, self.epsilon);
        self.running_mean.update(trained.running_mean);
        self.running_var.update(trained.running_var);
        trained.output
    }
}

impl ModuleDisplay for BatchNorm {
    fn custom_settings(&self) -> Option<DisplaySettings> {
        DisplaySettings::new().with_new_line_after_attribute(false).optional()
    }

    fn custom_content(&self, content: Content) -> Option<Content> {
        let [num_features] = self.gamma.shape().dims();
        let content =
            content.add("num_features", &num_features).add("momentum", &self.momentum).add("epsilon", &self.epsilon);
        match self.training.is_enabled() {
            true => content.optional(),
            false => content.add("training", &self.training).optional(),
        }
    }
}
