//! Networks for images, each with a configurable normalization.
//!
//! ```text
//! images [B, R, C] → MLP | LSTM over rows or pixels | CNN | Transformer over rows → logits [B, 10]
//! ```
//!
//! All weights are drawn here from the seed, each from a separate random stream, so networks that differ only in the
//! norm start from the same weights on every machine. Only batch norm computes differently in training (on a device
//! with autodiff) and at inference.

mod cnn;
mod dense;
mod lstm;
mod mlp;
mod norm;
mod numbers;
mod start;
mod steps;
mod taps;
#[cfg(test)]
mod tests;
mod transformer;

pub use norm::Norm;
pub use start::Start;
pub use taps::{Seen, Taps};

use crate::data::CLASSES;
use burn::module::Module;
use burn::tensor::{Device, Tensor};
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
    /// An LSTM whose last state is classified.
    Lstm {
        /// Hidden units.
        hidden: usize,
        /// Input of a time step.
        reads: Reads,
    },
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

/// Input of an LSTM at a time step.
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
            Arch::Lstm { .. } => "LSTM",
            Arch::Cnn { .. } => "CNN",
            Arch::Transformer { .. } => "Transformer",
        }
    }

    /// An MLP with ReLU whose logits are not normalized.
    pub fn mlp(hidden: &[usize]) -> Arch {
        Arch::Mlp { hidden: hidden.to_vec(), activation: Activation::Relu, output_norm: false }
    }

    /// Why this network does not support the norm; `None` if it does.
    pub fn refuses(&self, norm: Norm) -> Option<&'static str> {
        match (self, norm) {
            (Arch::Mlp { .. }, Norm::Instance) => {
                Some("instance norm needs several positions per unit, and an MLP has only one: the output would be β")
            }
            (Arch::Lstm { .. }, Norm::Instance) => {
                Some("instance norm normalizes over positions, which an LSTM reads one at a time")
            }
            _ => None,
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
        let steps = match self {
            Arch::Lstm { reads: Reads::Rows, .. } => rows,
            Arch::Lstm { reads: Reads::Pixels, .. } => pixels,
            Arch::Mlp { hidden, .. } if hidden.len() > MOST_LAYERS => {
                return Err(format!("hidden layers: expected at most {MOST_LAYERS}, found {}", hidden.len()));
            }
            _ => return Ok(()),
        };
        match steps {
            ..=MOST_STEPS => Ok(()),
            _ => Err(format!("time steps of an LSTM: expected at most {MOST_STEPS}, found {steps}")),
        }
    }

    fn check_sizes(&self) -> Result<(), String> {
        let positive = |what: &str, size: usize| match size {
            0 => Err(format!("{what}: expected 1 or more, found 0")),
            _ => Ok(()),
        };
        match self {
            Arch::Mlp { hidden, .. } => hidden.iter().try_for_each(|&units| positive("hidden units", units)),
            Arch::Lstm { hidden, .. } => positive("hidden units", *hidden),
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
    /// An LSTM.
    Lstm(lstm::Reader),
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
        let net =
            match arch {
                Arch::Mlp { hidden, activation, output_norm } => {
                    Net::Mlp(mlp::Mlp::new(image[0] * image[1], hidden, *activation, *output_norm, norm, &mut draw))
                }
                Arch::Lstm { hidden, reads } => Net::Lstm(lstm::Reader::new(image, *hidden, *reads, norm, &mut draw)?),
                Arch::Cnn { channels } => Net::Cnn(cnn::Cnn::new(image, *channels, norm, &mut draw)),
                &Arch::Transformer { width, heads, blocks, pre_norm } => Net::Transformer(
                    transformer::Transformer::new(image, [width, heads, blocks], pre_norm, norm, &mut draw),
                ),
            };
        Ok(net.numbered())
    }

    /// The logits `[B, 10]` of images `[B, rows, columns]`.
    pub fn forward(&self, images: Tensor<3>, taps: &mut Taps) -> Tensor<2> {
        match self {
            Net::Mlp(net) => net.forward(images, taps),
            Net::Lstm(net) => net.forward(images, taps),
            Net::Cnn(net) => net.forward(images, taps),
            Net::Transformer(net) => net.forward(images, taps),
        }
    }

    /// The network for inference. For an LSTM with batch norm, the statistics of every time step are computed over
    /// these batches of training images, on a device with autodiff; other networks are unchanged.
    pub fn settled(&self, batches: impl Iterator<Item = Tensor<3>>) -> Net {
        let mut net = self.valid().train();
        for (number, images) in (1u32..).zip(batches) {
            // Mean over all batches so far.
            let keeps = match &mut net {
                Net::Lstm(reader) => reader.set_momentum(1.0 / f64::from(number)),
                _ => false,
            };
            if !keeps {
                return self.valid();
            }
            net.forward(images, &mut Taps::closed());
        }
        net.valid()
    }

    /// The logits and the hidden state h of every time step, so that the loss can be differentiated by each h; `None`
    /// if the network has no time steps. The logits are bit-identical to those of [`Net::forward`].
    pub fn forward_through_time(&self, images: Tensor<3>) -> Option<(Tensor<2>, Vec<Tensor<3>>)> {
        match self {
            Net::Lstm(net) => Some(net.forward_through_time(images)),
            _ => None,
        }
    }

    /// The named weights of its layers, in order of use.
    pub fn weights(&self) -> Vec<(String, Weight)> {
        match self {
            Net::Mlp(net) => net.weights(),
            Net::Lstm(net) => net.weights(),
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
/// Maximum number of hidden layers of an MLP.
const MOST_LAYERS: usize = 1 << 10;

/// Number of logits.
const LOGITS: usize = CLASSES;
