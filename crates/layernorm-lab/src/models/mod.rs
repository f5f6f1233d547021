//! Networks for images and a network for text, each with a configurable normalization.
//!
//! ```text
//! images [B, R, C] → MLP | RNN, GRU or LSTM over rows or pixels | CNN | Transformer over rows → logits [B, 10]
//! characters [B, T] → RNN, GRU or LSTM → logits [B·T, V]
//! ```
//!
//! All weights are drawn here from the seed, each from a separate random stream, so networks that differ only in the
//! norm start from the same weights on every machine. Only batch norm computes differently in training (on a device
//! with autodiff) and at inference.

mod character;
mod cnn;
mod dense;
mod mlp;
mod norm;
pub(crate) mod numbers;
mod recurrent;
mod start;
mod states;
mod steps;
mod taps;
#[cfg(test)]
mod tests;
mod transformer;

pub use character::{CharacterNet, CharacterSize};
pub(crate) use dense::Dense;
pub(crate) use mlp::DenseLayer;
pub use norm::Norm;
pub(crate) use recurrent::network as initial;
pub(crate) use start::Draw as ParameterDraw;
pub use start::Start;
pub use states::{StepState, StepStatistics};
pub use taps::{Seen, Taps};

use crate::data::CLASSES;
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use layernorm_rnn::Kind;
use serde::{Deserialize, Serialize};
use start::Draw;

/// Type and size of a network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Arch {
    /// Fully connected layers, with a norm between each product and its nonlinearity.
    Mlp {
        /// Units of each hidden layer.
        hidden: Vec<usize>,
        /// The nonlinearity.
        activation: Activation,
        /// Whether the logits are normalized too.
        output_norm: bool,
    },
    /// A simple RNN with tanh whose last state is classified.
    Rnn(RecurrentSize),
    /// A GRU whose last state is classified.
    Gru(RecurrentSize),
    /// An LSTM whose last state is classified.
    Lstm(RecurrentSize),
    /// Two 3×3 convolutions of stride 2, each with a norm and ReLU, and a linear layer.
    Cnn {
        /// Channels after each convolution.
        channels: [usize; 2],
    },
    /// A Transformer over the rows of an image: blocks of attention and a two-layer MLP.
    Transformer {
        /// Width of a position.
        width: usize,
        /// Number of attention heads.
        heads: usize,
        /// Number of blocks.
        blocks: usize,
        /// Pre-norm (norms before attention and MLP, now standard) or post-norm (after each residual connection, as
        /// originally).
        pre_norm: bool,
    },
}

/// Sizes and input of a recurrent network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecurrentSize {
    /// Hidden units of each layer.
    pub hidden: usize,
    /// Input of a time step.
    pub reads: Reads,
    /// Number of layers; each reads the states of the one below.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub layers: usize,
}

fn one() -> usize {
    1
}

fn is_one(number: &usize) -> bool {
    *number == 1
}

/// Input of a recurrent network at a time step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reads {
    /// A row: 28 steps of 28 numbers.
    Rows,
    /// A pixel: 784 steps of one number.
    Pixels,
}

/// A nonlinearity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// max(0, x).
    Relu,
    /// tanh.
    Tanh,
}

impl Arch {
    /// The display name.
    pub fn name(&self) -> &'static str {
        match self {
            Arch::Mlp { .. } => "MLP",
            Arch::Rnn(_) => "RNN",
            Arch::Gru(_) => "GRU",
            Arch::Lstm(_) => "LSTM",
            Arch::Cnn { .. } => "CNN",
            Arch::Transformer { .. } => "Transformer",
        }
    }

    /// An MLP with ReLU whose logits are not normalized.
    pub fn mlp(hidden: &[usize]) -> Arch {
        Arch::Mlp { hidden: hidden.to_vec(), activation: Activation::Relu, output_norm: false }
    }

    /// A recurrent network of this kind.
    pub fn recurrent(kind: Kind, size: RecurrentSize) -> Arch {
        match kind {
            Kind::Rnn => Arch::Rnn(size),
            Kind::Gru => Arch::Gru(size),
            Kind::Lstm => Arch::Lstm(size),
        }
    }

    /// An LSTM with one layer.
    pub fn lstm(hidden: usize, reads: Reads) -> Arch {
        Arch::Lstm(RecurrentSize { hidden, reads, layers: 1 })
    }

    /// Kind and sizes of a recurrent network; `None` for other networks.
    pub fn as_recurrent(&self) -> Option<(Kind, RecurrentSize)> {
        match self {
            Arch::Rnn(size) => Some((Kind::Rnn, *size)),
            Arch::Gru(size) => Some((Kind::Gru, *size)),
            Arch::Lstm(size) => Some((Kind::Lstm, *size)),
            _ => None,
        }
    }

    /// Why this network does not support the norm; `None` if it does.
    pub fn refuses(&self, norm: Norm) -> Option<&'static str> {
        match (self, self.as_recurrent(), norm) {
            (Arch::Mlp { .. }, _, Norm::Instance) => {
                Some("instance norm needs several positions per unit, and an MLP has only one: the output would be β")
            }
            (_, Some(_), Norm::Instance) => {
                Some("instance norm normalizes over positions, which a recurrent network reads one at a time")
            }
            (Arch::Rnn(_), _, Norm::Group) => {
                Some("in a recurrent network, group norm normalizes each gate separately, and an RNN has no gates")
            }
            (_, Some((_, size)), Norm::Batch | Norm::Rms | Norm::Weight) if size.layers > 1 => {
                Some("recurrent networks of several layers support only none, layer and group")
            }
            _ => None,
        }
    }

    /// Whether the norm has a bias β in this network. RMS norm has none; of the recurrent networks that are computed
    /// step by step (batch norm, RMS norm), only the LSTM has one, after its cells.
    pub fn has_norm_bias(&self, norm: Norm) -> bool {
        match (self.as_recurrent(), norm) {
            (_, Norm::None | Norm::Weight) => false,
            (Some((kind, _)), Norm::Batch | Norm::Rms) => kind == Kind::Lstm,
            (None, Norm::Rms) => false,
            _ => true,
        }
    }

    /// Checks the sizes and whether the norm is supported.
    pub(crate) fn check(&self, norm: Norm) -> Result<(), String> {
        self.check_sizes()?;
        match self.refuses(norm) {
            Some(why) => Err(format!("{} with {} norm: {why}", self.name(), norm.name())),
            None => Ok(()),
        }
    }

    /// Checks whether images of this size are supported.
    pub(crate) fn check_image(&self, [rows, columns]: [usize; 2]) -> Result<(), String> {
        let pixels = rows.checked_mul(columns).filter(|&pixels| pixels <= MOST_PIXELS);
        let Some(pixels) = pixels.filter(|&pixels| pixels > 0) else {
            return Err(format!("images: expected 1 to {MOST_PIXELS} pixels, found {rows}×{columns}"));
        };
        let layers = match (self, self.as_recurrent()) {
            (Arch::Mlp { hidden, .. }, _) => hidden.len(),
            (_, Some((_, size))) => size.layers,
            _ => 1,
        };
        let steps = match self.as_recurrent().map(|(_, size)| size.reads) {
            Some(Reads::Rows) => rows,
            Some(Reads::Pixels) => pixels,
            None => 1,
        };
        for (what, most, found) in [("hidden layers", MOST_LAYERS, layers), ("time steps", MOST_STEPS, steps)] {
            if found > most {
                return Err(format!("{what}: expected at most {most}, found {found}"));
            }
        }
        Ok(())
    }

    fn check_sizes(&self) -> Result<(), String> {
        let positive = |what: &str, size: usize| match size {
            0 => Err(format!("{what}: expected 1 or more, found 0")),
            _ => Ok(()),
        };
        match self {
            Arch::Mlp { hidden, .. } => hidden.iter().try_for_each(|&units| positive("hidden units", units)),
            Arch::Rnn(size) | Arch::Gru(size) | Arch::Lstm(size) => {
                positive("hidden units", size.hidden)?;
                positive("layers", size.layers)
            }
            Arch::Cnn { channels } => channels.iter().try_for_each(|&channels| positive("channels", channels)),
            &Arch::Transformer { width, heads, blocks, .. } => {
                positive("width", width)?;
                positive("blocks", blocks)?;
                if heads == 0 || !width.is_multiple_of(heads) {
                    return Err(format!("heads: expected a divisor of the width {width}, found {heads}"));
                }
                Ok(())
            }
        }
    }
}

/// A network of any kind.
#[derive(Module, Debug)]
pub enum Net {
    /// An MLP.
    Mlp(mlp::Mlp),
    /// A simple RNN.
    Rnn(recurrent::Reader),
    /// A GRU.
    Gru(recurrent::Reader),
    /// An LSTM.
    Lstm(recurrent::Reader),
    /// A CNN.
    Cnn(cnn::Cnn),
    /// A Transformer.
    Transformer(transformer::Transformer),
}

impl Net {
    /// Creates a network for images of `[rows, columns]`. The error says what is not supported.
    pub fn new(arch: &Arch, norm: Norm, image: [usize; 2], start: &Start, device: &Device) -> Result<Net, String> {
        arch.check(norm)?;
        start.check()?;
        arch.check_image(image)?;
        let mut draw = Draw::new(start, device);
        let mut reader = |kind, size: &RecurrentSize| recurrent::Reader::new(kind, *size, image, norm, &mut draw);
        let net = match arch {
            Arch::Rnn(size) => Net::Rnn(reader(Kind::Rnn, size)?),
            Arch::Gru(size) => Net::Gru(reader(Kind::Gru, size)?),
            Arch::Lstm(size) => Net::Lstm(reader(Kind::Lstm, size)?),
            Arch::Mlp { hidden, activation, output_norm } => {
                Net::Mlp(mlp::Mlp::new(image[0] * image[1], hidden, *activation, *output_norm, norm, &mut draw))
            }
            Arch::Cnn { channels } => Net::Cnn(cnn::Cnn::new(image, *channels, norm, &mut draw)),
            &Arch::Transformer { width, heads, blocks, pre_norm } => {
                let sizes = [width, heads, blocks];
                Net::Transformer(transformer::Transformer::new(image, sizes, pre_norm, norm, &mut draw))
            }
        };
        Ok(numbers::numbered(net))
    }

    /// The logits `[B, 10]` of images `[B, rows, columns]`.
    pub fn forward(&self, images: Tensor<3>, taps: &mut Taps) -> Tensor<2> {
        match self {
            Net::Mlp(net) => net.forward(images, taps),
            Net::Rnn(net) | Net::Gru(net) | Net::Lstm(net) => net.forward(images, taps),
            Net::Cnn(net) => net.forward(images, taps),
            Net::Transformer(net) => net.forward(images, taps),
        }
    }

    /// The network for inference. For a recurrent network with batch norm, the statistics of every time step are computed over
    /// these batches of training images, on a device with autodiff; other networks are unchanged.
    pub fn settled(&self, batches: impl Iterator<Item = Tensor<3>>) -> Net {
        // Training mode, but without the graph of a backward pass.
        let mut net = self.valid().train().no_grad();
        for (number, images) in (1u32..).zip(batches) {
            // Mean over all batches so far.
            let keeps = match &mut net {
                Net::Rnn(reader) | Net::Gru(reader) | Net::Lstm(reader) => reader.set_momentum(1.0 / f64::from(number)),
                _ => false,
            };
            if !keeps {
                return self.valid();
            }
            net.forward(images, &mut Taps::closed());
        }
        net.valid()
    }

    /// The logits and the hidden state h of the last layer at every time step, so that the loss can be differentiated by each h; `None`
    /// if the network has no time steps. The logits are bit-identical to those of [`Net::forward`].
    pub fn forward_through_time(&self, images: Tensor<3>) -> Option<(Tensor<2>, Vec<Tensor<3>>)> {
        match self {
            Net::Rnn(net) | Net::Gru(net) | Net::Lstm(net) => Some(net.forward_through_time(images)),
            _ => None,
        }
    }

    /// The layers of an MLP in order of use; empty for other networks.
    pub(crate) fn dense_layers(&self) -> Vec<DenseLayer<'_>> {
        match self {
            Net::Mlp(net) => net.layers(),
            _ => Vec::new(),
        }
    }

    /// Pre-activations, cell state and hidden state of the last layer at every time step; `None` if the network has no
    /// time steps.
    pub fn states(&self, images: Tensor<3>) -> Option<Vec<StepState>> {
        match self {
            Net::Rnn(net) | Net::Gru(net) | Net::Lstm(net) => Some(net.states(images)),
            _ => None,
        }
    }

    /// The running statistics of every time step; empty if the network has none.
    pub fn step_statistics(&self) -> Vec<StepStatistics> {
        match self {
            Net::Rnn(net) | Net::Gru(net) | Net::Lstm(net) => net.statistics(),
            _ => Vec::new(),
        }
    }

    /// The network with the same running statistics for all time steps: those of all steps together. Networks without
    /// statistics per time step are unchanged.
    pub fn with_shared_statistics(self) -> Net {
        match self {
            Net::Rnn(net) => Net::Rnn(net.with_shared_statistics()),
            Net::Gru(net) => Net::Gru(net.with_shared_statistics()),
            Net::Lstm(net) => Net::Lstm(net.with_shared_statistics()),
            other => other,
        }
    }

    /// The named weights of its layers, in order of use.
    pub fn weights(&self) -> Vec<(String, Weight)> {
        match self {
            Net::Mlp(net) => net.weights(),
            Net::Rnn(net) | Net::Gru(net) | Net::Lstm(net) => net.weights(),
            Net::Cnn(net) => net.weights(),
            Net::Transformer(net) => net.weights(),
        }
    }
}

/// A weight, by its parameter id.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Weight {
    /// A matrix.
    Matrix(burn::module::ParamId),
    /// The filters of a convolution.
    Filters(burn::module::ParamId),
}

/// Maximum number of pixels of an image; a header with more is damaged or unsuitable for these networks.
const MOST_PIXELS: usize = 1 << 24;
/// Maximum number of time steps; more would take too long.
const MOST_STEPS: usize = 1 << 14;
/// Maximum number of hidden layers of an MLP or layers of a recurrent network.
const MOST_LAYERS: usize = 1 << 10;

/// Number of logits.
const LOGITS: usize = CLASSES;
