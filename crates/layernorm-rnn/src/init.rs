//! Starting values. Gains start at 1; a scheme says how weights and biases start.
//!
//! ```text
//! uniform by fan-in      U(±1/sqrt(f)),  f the numbers that a unit sees
//! Xavier's uniform       U(±sqrt(6/(rows + columns)))
//! truncated normal       N(0, s²) cut at ±2s,  s = sqrt(2/(I + P + G·H))/0.8796, so that the variance is 2/(I + P + G·H)
//! orthogonal             Gram-Schmidt on normal numbers: uniform among all orthonormal rows (or columns, if those are fewer)
//! ```
//!
//! A number depends on the seed and its place alone, not on which other parameters the network has.

use crate::config::Config;
use crate::error::Error;
use crate::noise::{Random, Use};
use crate::params::{Entry, Params, Slot};
use crate::variant::{Gate, Kind, Variant};
use layernorm::Float;
use layernorm::parts::memory;
use orthonormal::orthonormal;

/// How a parameter starts. A vector is taken as a matrix of one column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scheme {
    /// All zeros.
    Zeros,
    /// Uniform in ±bound.
    Uniform {
        /// The bound.
        bound: f64,
    },
    /// Uniform in ±1/sqrt(H), as `torch.nn` does for recurrent networks.
    UniformByHidden,
    /// Uniform in ±1/sqrt(fan-in), as `torch.nn.Linear` does: the columns of a weight; for bx and b those of W, for bh those
    /// of U, else H.
    UniformByFanIn,
    /// Normal with this deviation.
    Normal {
        /// The standard deviation.
        deviation: f64,
    },
    /// Normal, cut at two deviations, with variance 2/(I + P + G·H): that of W and U as one matrix on `[x, h]`.
    TruncatedNormalJoint,
    /// Glorot's (Xavier's) uniform: ±sqrt(6/(columns + rows)), of the whole matrix `[G·H, …]`.
    XavierUniform,
    /// Xavier's uniform, gate by gate.
    XavierUniformByGate,
    /// Xavier's uniform of W and U as one matrix on `[x, h]`: ±sqrt(6/(I + P + G·H)).
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
    /// Each gate's block is orthogonal if it is square, else uniform in ±bound.
    OrthogonalIfSquare {
        /// The bound.
        bound: f64,
    },
}

/// How a network starts.
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
    /// What the bias of the forget gate starts at beyond that (LSTM), in the first that there is of b, bx, bh and β of LNs,
    /// LNx and LNh. Without any of them it has no effect.
    pub forget_bias: f64,
}

/// What the sources agree on, where they say anything.
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
    /// Gain 1 and bias 0, as the paper means. It does not say how weights start: Xavier's W and orthogonal U, gate by gate.
    pub const fn paper() -> Init {
        BASE
    }

    /// `torch.nn`: everything uniform in ±1/sqrt(H), biases too.
    pub const fn torch() -> Init {
        let all = Scheme::UniformByHidden;
        Init { input_weight: all, recurrent_weight: all, bias: all, peephole: all, projection: all, ..BASE }
    }

    /// PyTorch's fastrnns: everything standard normal.
    pub const fn fastrnns() -> Init {
        let all = Scheme::Normal { deviation: 1.0 };
        Init { input_weight: all, recurrent_weight: all, bias: all, projection: all, ..BASE }
    }

    /// torchaudio, whose products are `nn.Linear`.
    pub const fn torchaudio() -> Init {
        let all = Scheme::UniformByFanIn;
        Init { input_weight: all, recurrent_weight: all, bias: all, projection: all, ..BASE }
    }

    /// Keras and TensorFlow Addons: Glorot's W, orthogonal U, each as a whole; the forget gate's bias is 1.
    pub const fn keras() -> Init {
        Init {
            input_weight: Scheme::XavierUniform,
            recurrent_weight: Scheme::Orthogonal { gain: 1.0 },
            forget_bias: 1.0,
            ..BASE
        }
    }

    /// haste: Xavier's W and orthogonal U, gate by gate; the forget gate's bias is 1.
    pub const fn haste() -> Init {
        Init { forget_bias: 1.0, ..BASE }
    }

    /// The paper's authors: orthogonal U; W orthogonal where it is square, else uniform in ±0.1.
    pub const fn theano() -> Init {
        Init { input_weight: Scheme::OrthogonalIfSquare { bound: 0.1 }, ..BASE }
    }

    /// The authors' Torch module: `nn.Linear`, and β of the cell's norm uniform in ±1/sqrt(H).
    pub const fn draw() -> Init {
        Init { norm_bias: Scheme::UniformByHidden, ..Init::torchaudio() }
    }

    /// DreamerV3: one truncated normal kernel on x and h.
    pub const fn dreamer() -> Init {
        let both = Scheme::TruncatedNormalJoint;
        Init { input_weight: both, recurrent_weight: both, ..BASE }
    }

    /// tf.contrib: one kernel on x and h, Glorot's.
    pub const fn contrib() -> Init {
        let both = Scheme::XavierUniformJoint;
        Init { input_weight: both, recurrent_weight: both, ..BASE }
    }

    /// How a variant starts where it comes from. Of your own, one without norms starts as `torch.nn`, others as the paper's.
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

    /// Writes starting values into all parameters. The same seed gives the same numbers.
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
                    number("spread of starting values", "0 or more", found, found >= 0.0)?
                }
                Scheme::Orthogonal { gain } | Scheme::OrthogonalByGate { gain } => {
                    number("gain of an orthogonal start", "a finite number", gain, true)?
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A parameter's starting values.
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
        Block::of(config, entry, Random::new(seed, Use::Init, entry.layer, stream)).fill(scheme)
    }

    /// Schemes for matrices say nothing of a bias.
    fn projection_bias_starts_at_0(&self) -> bool {
        !matches!(self.projection, Scheme::UniformByHidden | Scheme::UniformByFanIn | Scheme::Normal { .. })
    }
}

/// Where the forget gate's bias goes.
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

/// A matrix to be filled, by whole or by gate.
struct Block {
    rows: usize,
    columns: usize,
    /// How many gates share the rows.
    gates: usize,
    hidden: usize,
    fan_in: usize,
    /// I + P + G·H.
    joint: usize,
    random: Random,
}

impl Block {
    fn of(config: &Config, entry: &Entry, random: Random) -> Block {
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

    /// Normal numbers cut at two of their deviations, with this deviation after the cut. What is cut off is drawn again.
    fn truncated(&self, deviation: f64) -> Result<Vec<f64>, Error> {
        // The deviation of a standard normal number that is cut at ±2.
        const CUT: f64 = 0.879_625_661_034_239_8;
        let count = self.rows * self.columns;
        let number = |i: usize| (0..64).map(|again| self.random.normal(i + again * count)).find(|x| x.abs() <= 2.0);
        self.each(|i| deviation / CUT * number(i).unwrap_or(0.0))
    }

    /// Blocks of so many rows, each with orthonormal rows or columns, whichever are fewer.
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
