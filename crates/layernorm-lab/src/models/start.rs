//! Initialization: weights uniform in ±k/sqrt(f), where f is the fan-in, from one random stream per parameter.

use crate::data::SplitMix64;
use burn::module::Param;
use burn::tensor::{Device, Tensor, TensorData};
use serde::{Deserialize, Serialize};

/// Initialization of a network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// Random seed of the weights.
    pub seed: u64,
    /// k, the factor for all weights (not biases).
    pub weight_scale: f64,
    /// Initial gain γ of the norms. In an LSTM or GRU with batch norm this is multiplied by 0.1, as recommended for LSTMs
    /// (Cooijmans et al., 2016).
    pub gain: f64,
    /// Initial bias β of the norms.
    pub bias: f64,
    /// ε of the norms.
    pub epsilon: f64,
    /// Whether γ and β are trained. Otherwise they are fixed at 1 and 0.
    #[serde(default = "trained", skip_serializing_if = "is_trained")]
    pub affine: bool,
}

fn trained() -> bool {
    true
}

fn is_trained(affine: &bool) -> bool {
    *affine
}

impl Start {
    /// The default: γ = 1, β = 0, ε = 1e-5.
    pub fn new(seed: u64) -> Start {
        Start { seed, weight_scale: 1.0, gain: 1.0, bias: 0.0, epsilon: 1e-5, affine: true }
    }

    /// Checks the values, which become f32 in the network.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (what, value) in [("weight scale", self.weight_scale), ("gain", self.gain), ("bias", self.bias)] {
            if !(value as f32).is_finite() {
                return Err(format!("{what}: expected a finite number, found {value}"));
            }
        }
        if !self.affine && (self.gain, self.bias) != (1.0, 0.0) {
            let Start { gain, bias, .. } = self;
            return Err(format!("gain and bias: expected 1 and 0 if they are not trained, found {gain} and {bias}"));
        }
        match self.epsilon {
            epsilon if (epsilon as f32).is_finite() && epsilon >= 0.0 => Ok(()),
            epsilon => Err(format!("ε: expected a finite number, 0 or more, found {epsilon}")),
        }
    }
}

/// Draws parameters in sequence.
pub(crate) struct Draw<'a> {
    pub(crate) start: &'a Start,
    pub(crate) device: &'a Device,
    drawn: u64,
}

impl<'a> Draw<'a> {
    pub(crate) fn new(start: &'a Start, device: &'a Device) -> Self {
        Draw { start, device, drawn: 0 }
    }

    /// A weight with this fan-in.
    pub(super) fn weight<const D: usize>(&mut self, shape: [usize; D], fan_in: usize) -> Param<Tensor<D>> {
        let bound = self.start.weight_scale / (fan_in.max(1) as f64).sqrt();
        self.uniform(shape, bound)
    }

    /// A bias with this fan-in.
    pub(super) fn bias(&mut self, units: usize, fan_in: usize) -> Param<Tensor<1>> {
        self.uniform([units], 1.0 / (fan_in.max(1) as f64).sqrt())
    }

    /// Uniform in ±bound.
    fn uniform<const D: usize>(&mut self, shape: [usize; D], bound: f64) -> Param<Tensor<D>> {
        let mut random = SplitMix64::stream(self.start.seed, self.drawn);
        self.drawn += 1;
        let unit = |random: &mut SplitMix64| (random.next_u64() >> 11) as f64 / (1u64 << 52) as f64 - 1.0;
        let numbers: Vec<f32> = (0..shape.iter().product()).map(|_| (bound * unit(&mut random)) as f32).collect();
        self.param(numbers, shape)
    }

    /// Constant values.
    pub(super) fn constant(&self, units: usize, value: f64) -> Param<Tensor<1>> {
        self.param(vec![value as f32; units], [units])
    }

    pub(crate) fn param<const D: usize>(&self, numbers: Vec<f32>, shape: [usize; D]) -> Param<Tensor<D>> {
        Param::from_tensor(Tensor::from_data(TensorData::new(numbers, shape), self.device))
    }

    /// A seed for modules that draw their own numbers.
    pub(crate) fn seed(&mut self) -> u64 {
        self.drawn += 1;
        SplitMix64::stream(self.start.seed, self.drawn - 1).next_u64()
    }
}
