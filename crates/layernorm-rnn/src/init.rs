//! Initialization. Gains start at 1; a scheme determines the initial weights and biases.
//!
//! ```text
//! uniform by fan-in      U(±1/sqrt(f)),  f the number of inputs of a unit
//! Xavier uniform         U(±sqrt(6/(rows + columns)))
//! truncated normal       N(0, s²) cut at ±2s,  s = sqrt(2/(I + P + G·H))/0.8796, so that the variance is 2/(I + P + G·H)
//! orthogonal             Gram-Schmidt on normal numbers: uniformly distributed orthonormal rows (or columns, if fewer)
//! ```
//!
//! A number depends only on the seed and its position, not on which other parameters the network has.

use crate::config::Config;
use crate::error::Error;
use crate::noise::{NoiseStream, Purpose};
use crate::params::{Entry, Params, Slot};
use crate::variant::{Gate, Kind, Variant};
use layernorm::Float;
use layernorm::parts::memory;
use orthonormal::orthonormal;

/// Initialization scheme of a parameter. A vector is treated as a matrix of one column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scheme {
    /// All zeros.
    Zeros,
    /// Uniform in ±bound.
    Uniform {
        /// The bound.
        bound: f64,
    },
    /// Uniform in ±1/sqrt(H), as in `torch.nn`'s recurrent networks.
    UniformByHidden,
    /// Uniform in ±1/sqrt(fan-in), as in `torch.nn.Linear`. The fan-in is the number of columns: of the weight
    /// itself; of W for bx and b; of U for bh; otherwise H.
    UniformByFanIn,
    /// Normal with this standard deviation.
    Normal {
        /// The standard deviation.
        deviation: f64,
    },
    /// Normal, truncated at two standard deviations, with variance 2/(I + P + G·H): that of W and U as one matrix on
    /// `[x, h]`.
    TruncatedNormalJoint,
    /// Xavier (Glorot) uniform: ±sqrt(6/(columns + rows)) of the whole matrix `[G·H, …]`.
    XavierUniform,
    /// Xavier uniform, gate by gate.
    XavierUniformByGate,
    /// Xavier uniform for W and U as one matrix on `[x, h]`: ±sqrt(6/(I + P + G·H)).
    XavierUniformJoint,
    /// Each gate's block has orthonormal rows or columns, times the gain.
    OrthogonalByGate {
        /// The gain.
        gain: f64,
    },
    /// The whole matrix has orthonormal rows or columns, times the gain.
    Orthogonal {
        /// The gain.
        gain: f64,
    },
    /// Each gate's block is orthogonal if it is square, otherwise uniform in ±bound.
    OrthogonalIfSquare {
        /// The bound.
        bound: f64,
    },
}

/// Initialization of a network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Init {
    /// W.
    pub input_weight: Scheme,
    /// U.
    pub recurrent_weight: Scheme,
    /// bx, bh and b.
    pub bias: Scheme,
    /// β of the norms.
    pub norm_bias: Scheme,
    /// Peepholes.
    pub peephole: Scheme,
    /// The projection and its bias.
    pub projection: Scheme,
    /// Number added to the initial bias of the forget gate (LSTM), in the first that exists of b, bx, bh and β of
    /// LNs, LNx and LNh. Without any of them it has no effect.
    pub forget_bias: f64,
}

/// What the sources agree on, where they specify anything.
const BASE: Init = Init {
    input_weight: Scheme::XavierUniformByGate,
    recurrent_weight: Scheme::OrthogonalByGate { gain: 1.0 },
    bias: Scheme::Zeros,
    norm_bias: Scheme::Zeros,
    peephole: Scheme::Zeros,
    projection: Scheme::XavierUniform,
    forget_bias: 0.0,
};

impl Init {
    /// Returns the paper's initialization: gain 1 and bias 0. The paper does not specify the weights: W is Xavier
    /// uniform and U orthogonal, gate by gate.
    pub const fn paper() -> Init {
        BASE
    }

    /// Returns `torch.nn`'s initialization: everything uniform in ±1/sqrt(H), including biases.
    pub const fn torch() -> Init {
        let all = Scheme::UniformByHidden;
        Init { input_weight: all, recurrent_weight: all, bias: all, peephole: all, projection: all, ..BASE }
    }

    /// Returns the initialization of PyTorch's fastrnns: everything standard normal.
    pub const fn fastrnns() -> Init {
        let all = Scheme::Normal { deviation: 1.0 };
        Init { input_weight: all, recurrent_weight: all, bias: all, projection: all, ..BASE }
    }

    /// Returns the initialization of torchaudio, whose products are `nn.Linear`.
    pub const fn torchaudio() -> Init {
        let all = Scheme::UniformByFanIn;
        Init { input_weight: all, recurrent_weight: all, bias: all, projection: all, ..BASE }
    }

    /// Returns the initialization of Keras and TensorFlow Addons: W Glorot uniform, U orthogonal, each as a whole;
    /// the forget gate's bias is 1.
    pub const fn keras() -> Init {
        Init {
            input_weight: Scheme::XavierUniform,
            recurrent_weight: Scheme::Orthogonal { gain: 1.0 },
            forget_bias: 1.0,
            ..BASE
        }
    }

    /// Returns haste's initialization: W Xavier uniform and U orthogonal, gate by gate; the forget gate's bias is 1.
    pub const fn haste() -> Init {
        Init { forget_bias: 1.0, ..BASE }
    }

    /// Returns the initialization of the paper's authors: U orthogonal; W orthogonal if square, otherwise uniform in
    /// ±0.1.
    pub const fn theano() -> Init {
        Init { input_weight: Scheme::OrthogonalIfSquare { bound: 0.1 }, ..BASE }
    }

    /// Returns the initialization of the authors' Torch module: `nn.Linear`, and β of the cell's norm uniform in
    /// ±1/sqrt(H).
    pub const fn draw() -> Init {
        Init { norm_bias: Scheme::UniformByHidden, ..Init::torchaudio() }
    }

    /// Returns DreamerV3's initialization: one truncated normal kernel on x and h.
    pub const fn dreamer() -> Init {
        let both = Scheme::TruncatedNormalJoint;
        Init { input_weight: both, recurrent_weight: both, ..BASE }
    }

    /// Returns tf.contrib's initialization: one Glorot uniform kernel on x and h.
    pub const fn contrib() -> Init {
        let both = Scheme::XavierUniformJoint;
        Init { input_weight: both, recurrent_weight: both, ..BASE }
    }

    /// Returns the initialization of a variant's source. A variant of your own gets `torch.nn`'s if it has no norms,
    /// otherwise the paper's.
    pub fn for_variant(variant: &Variant) -> Init {
        match variant.name.strip_suffix("-relu").unwrap_or(variant.name) {
            "paper" | "tflite" | "tflite-cifg" => Init::paper(),
            "theano" => Init::theano(),
            "draw" => Init::draw(),
            "fastrnns" => Init::fastrnns(),
            "torchaudio" => Init::torchaudio(),
            "keras" => Init::keras(),
            "haste" => Init::haste(),
            "per-gate" => Init::contrib(),
            "dreamer" => Init::dreamer(),
            _ if variant.norms().next().is_none() => Init::torch(),
            _ => Init::paper(),
        }
    }

    /// Writes initial values to all parameters. The same seed gives the same numbers.
    pub fn fill<A: Float>(&self, config: &Config, params: &mut Params<A>, seed: u64) -> Result<(), Error> {
        config.check()?;
        self.check()?;
        for index in 0..params.entries().len() {
            let entry = params.entries()[index].clone();
            let mut values = self.start(config, &entry, seed)?;
            if forget_slot(config) == Some(entry.slot) {
                let gate = config.variant.gates().iter().position(|&gate| gate == Gate::Forget).unwrap_or(0);
                let start = (gate * config.hidden).min(values.len());
                let end = (start + config.hidden).min(values.len());
                values[start..end].iter_mut().for_each(|value| *value += self.forget_bias);
            }
            for (to, value) in params.values_mut()[entry.range.clone()].iter_mut().zip(values) {
                *to = A::from_f64(value);
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), Error> {
        let number = |what, expected, found: f64, fits: bool| {
            if fits && found.is_finite() { Ok(()) } else { Err(Error::Number { what, expected, found }) }
        };
        number("bias of the forget gate", "a finite number", self.forget_bias, true)?;
        let schemes =
            [self.input_weight, self.recurrent_weight, self.bias, self.norm_bias, self.peephole, self.projection];
        for scheme in schemes {
            match scheme {
                Scheme::Uniform { bound: found }
                | Scheme::OrthogonalIfSquare { bound: found }
                | Scheme::Normal { deviation: found } => {
                    number("spread of initial values", "0 or more", found, found >= 0.0)?
                }
                Scheme::Orthogonal { gain } | Scheme::OrthogonalByGate { gain } => {
                    number("gain of an orthogonal initialization", "a finite number", gain, true)?
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns a parameter's initial values.
    fn start(&self, config: &Config, entry: &Entry, seed: u64) -> Result<Vec<f64>, Error> {
        let scheme = match entry.slot {
            slot if slot.is_gain() => return Ok(memory::filled(entry.range.len(), 1.0)?),
            Slot::InputWeight => self.input_weight,
            Slot::RecurrentWeight => self.recurrent_weight,
            Slot::InputBias | Slot::RecurrentBias | Slot::Bias => self.bias,
            Slot::Peephole => self.peephole,
            Slot::Projection => self.projection,
            Slot::ProjectionBias if self.projection_bias_starts_at_0() => Scheme::Zeros,
            Slot::ProjectionBias => self.projection,
            _ => self.norm_bias,
        };
        let stream = entry.direction + 2 * entry.slot as usize;
        Block::of(config, entry, NoiseStream::new(seed, Purpose::Init, entry.layer, stream)).fill(scheme)
    }

    /// Returns whether the projection's bias starts at 0: schemes for matrices do not apply to a bias.
    fn projection_bias_starts_at_0(&self) -> bool {
        !matches!(self.projection, Scheme::UniformByHidden | Scheme::UniformByFanIn | Scheme::Normal { .. })
    }
}

/// Returns the parameter that the forget gate's bias is added to.
fn forget_slot(config: &Config) -> Option<Slot> {
    let slots = [
        Slot::Bias,
        Slot::InputBias,
        Slot::RecurrentBias,
        Slot::SumNormBias,
        Slot::InputNormBias,
        Slot::RecurrentNormBias,
    ];
    let there = |slot: &Slot| config.variant.kind == Kind::Lstm && slot.shape(config, 0).is_some();
    slots.into_iter().find(there)
}

/// A matrix to fill, as a whole or gate by gate.
struct Block {
    rows: usize,
    columns: usize,
    /// Number of gates that share the rows.
    gates: usize,
    hidden: usize,
    fan_in: usize,
    /// I + P + G·H.
    joint: usize,
    random: NoiseStream,
}

impl Block {
    fn of(config: &Config, entry: &Entry, random: NoiseStream) -> Block {
        let (input, output) = (config.layer_input(entry.layer), config.output());
        let fan_in = match entry.slot {
            Slot::InputWeight | Slot::InputBias | Slot::Bias => input,
            Slot::RecurrentWeight | Slot::RecurrentBias => output,
            _ => config.hidden,
        };
        let rows = entry.shape[0];
        let gates = if rows == config.gate_width() { config.variant.gates().len() } else { 1 };
        let columns = entry.shape.get(1).copied().unwrap_or(1);
        let joint = input + output + config.gate_width();
        Block { rows, columns, gates, hidden: config.hidden, fan_in, joint, random }
    }

    fn fill(&self, scheme: Scheme) -> Result<Vec<f64>, Error> {
        let gate_rows = self.rows / self.gates;
        match scheme {
            Scheme::Zeros => Ok(memory::zeros(self.rows * self.columns)?),
            Scheme::Uniform { bound } => self.uniform(bound),
            Scheme::UniformByHidden => self.uniform(1.0 / (self.hidden as f64).sqrt()),
            Scheme::UniformByFanIn => self.uniform(1.0 / (self.fan_in as f64).sqrt()),
            Scheme::Normal { deviation } => self.each(|i| deviation * self.random.normal(i)),
            Scheme::TruncatedNormalJoint => self.truncated((2.0 / self.joint as f64).sqrt()),
            Scheme::XavierUniform => self.uniform((6.0 / (self.rows + self.columns) as f64).sqrt()),
            Scheme::XavierUniformByGate => self.uniform((6.0 / (gate_rows + self.columns) as f64).sqrt()),
            Scheme::XavierUniformJoint => self.uniform((6.0 / self.joint as f64).sqrt()),
            Scheme::Orthogonal { gain } => self.orthogonal(self.rows, gain),
            Scheme::OrthogonalByGate { gain } => self.orthogonal(gate_rows, gain),
            Scheme::OrthogonalIfSquare { .. } if gate_rows == self.columns => self.orthogonal(gate_rows, 1.0),
            Scheme::OrthogonalIfSquare { bound } => self.uniform(bound),
        }
    }

    fn each(&self, number: impl Fn(usize) -> f64) -> Result<Vec<f64>, Error> {
        let count = self.rows * self.columns;
        let mut values = memory::reserved(count)?;
        values.extend((0..count).map(number));
        Ok(values)
    }

    fn uniform(&self, bound: f64) -> Result<Vec<f64>, Error> {
        self.each(|i| bound * (2.0 * self.random.uniform(i) - 1.0))
    }

    /// Returns normal numbers truncated at two standard deviations, with this deviation after the truncation. Numbers
    /// outside are redrawn.
    fn truncated(&self, deviation: f64) -> Result<Vec<f64>, Error> {
        // Standard deviation of a standard normal number truncated at ±2.
        const CUT: f64 = 0.879_625_661_034_239_8;
        let count = self.rows * self.columns;
        let number = |i: usize| (0..64).map(|again| self.random.normal(i + again * count)).find(|x| x.abs() <= 2.0);
        self.each(|i| deviation / CUT * number(i).unwrap_or(0.0))
    }

    /// Returns blocks of this many rows, each with orthonormal rows or columns, whichever are fewer.
    fn orthogonal(&self, rows: usize, gain: f64) -> Result<Vec<f64>, Error> {
        let (few, long) = (rows.min(self.columns), rows.max(self.columns));
        let mut values: Vec<f64> = memory::zeros(self.rows * self.columns)?;
        for (at, block) in values.chunks_mut(rows * self.columns).enumerate() {
            let basis = orthonormal(&self.random, at * few * long, few, long)?;
            for (k, value) in block.iter_mut().enumerate() {
                let (row, column) = (k / self.columns, k % self.columns);
                *value =
                    gain * if rows <= self.columns { basis[row * long + column] } else { basis[column * long + row] };
            }
        }
        Ok(values)
    }
}

mod orthonormal;
#[cfg(test)]
mod tests;
