//! Weight normalization (Salimans and Kingma, 2016) of a linear layer.

use crate::functional;
use burn::config::Config;
use burn::module::{Content, DisplaySettings, Module, ModuleDisplay, Param};
use burn::nn::{Initializer, LinearConfig};
use burn::tensor::module::linear;
use burn::tensor::{Device, Tensor};

/// Configuration of a [`WeightNormLinear`].
#[derive(Config, Debug)]
pub struct WeightNormLinearConfig {
    /// The size of the input's last axis.
    pub d_input: usize,
    /// The size of the output's last axis.
    pub d_output: usize,
    /// Whether there is a bias. Default: true
    #[config(default = true)]
    pub bias: bool,
    /// How v and the bias are initialized. Default: as in [`burn::nn::Linear`]
    #[config(default = "Initializer::KaimingUniform{gain:1.0/f64::sqrt(3.0), fan_out_only:false}")]
    pub initializer: Initializer,
}

/// A linear layer whose weight is a direction times a length, one of each per output.
///
/// O = I·W + b, where column j of W is gⱼ·vⱼ/‖vⱼ‖.
#[derive(Module, Debug)]
#[module(custom_display)]
pub struct WeightNormLinear {
    /// v `[d_input, d_output]`: the directions. A column of zeros has no direction and becomes NaN.
    pub v: Param<Tensor<2>>,
    /// g `[d_output]`: the lengths.
    pub g: Param<Tensor<1>>,
    /// b `[d_output]`.
    pub bias: Option<Param<Tensor<1>>>,
}

impl WeightNormLinearConfig {
    /// Initializes v and the bias like the weight and bias of [`burn::nn::Linear`], and g = ‖v‖, so that W = v.
    pub fn init(&self, device: &Device) -> WeightNormLinear {
        let linear = LinearConfig::new(self.d_input, self.d_output)
            .with_bias(self.bias)
            .with_initializer(self.initializer.clone())
            .init(device);
        let lengths = linear.weight.val().detach().square().sum_dim(0).sqrt();
        let g = Param::from_tensor(lengths.reshape([self.d_output]).detach());
        WeightNormLinear { v: linear.weight, g, bias: linear.bias }
    }
}

impl WeightNormLinear {
    /// W `[d_input, d_output]`.
    pub fn weight(&self) -> Tensor<2> {
        functional::weight_norm(self.v.val(), self.g.val(), Some(1))
    }

    /// O = I·W + b.
    ///
    /// # Shapes
    /// - input: `[..., d_input]`
    /// - output: `[..., d_output]`
    ///
    /// # Panics
    /// If the last axis is not `d_input`, with Burn's message.
    pub fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        linear(input, self.weight(), self.bias.as_ref().map(Param::val))
    }
}

impl ModuleDisplay for WeightNormLinear {
    fn custom_settings(&self) -> Option<DisplaySettings> {
        DisplaySettings::new().with_new_line_after_attribute(false).optional()
    }

    fn custom_content(&self, content: Content) -> Option<Content> {
        let [d_input, d_output] = self.v.shape().dims();
        content.add("d_input", &d_input).add("d_output", &d_output).add("bias", &self.bias.is_some()).optional()
    }
}
