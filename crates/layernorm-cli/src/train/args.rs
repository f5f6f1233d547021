//! The arguments of `layernorm train`, and the run that they specify.

use crate::failure::Failure;
use crate::study;
use clap::ValueEnum;
use layernorm_lab::data::{Dataset, Part, Text};
use layernorm_lab::language::{self, Cell};
use layernorm_lab::models::{Arch, Norm, Reads, RecurrentSize, Start};
use layernorm_lab::training::{Images, Optimizer, Spec};
use std::num::NonZeroUsize;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  layernorm train                                     an LSTM with layer norm on the embedded digits
  layernorm train --model gru --layers 2 --out gru    two stacked GRUs with layer norm
  layernorm train --model mlp --layers 6 --norm layer --eps 1e-3 --no-affine --out mlp
  layernorm train --model cnn --norm batch --epochs 5 --out cnn
  layernorm train --data data/mnist --epochs 3        the LSTM on all of MNIST
  layernorm train --pixels --permute --norm batch     784 pixels, one by one, in an order that mixes digit and background
  layernorm train --text --out plays                  a language model: an LSTM on six plays by Shakespeare
  layernorm train --text my.txt --model gru --size 256 --epochs 20 --out mine
  layernorm train --norm none --out plain --tensorboard tb
                                                      watch it with `tensorboard --logdir tb`
  layernorm predict trained/model.layernorm --test 7  classify test image 7
  layernorm generate plays/model.layernorm            generate text

If a run was stopped (Ctrl-C, a crash), run the same command again to continue it. A run that needs more memory than is
available fails before it starts.";

/// Train one network on images or on a text and save it.
///
/// The RNN, GRU and LSTM read an image row by row, the Transformer all rows at once, and the CNN and MLP the whole
/// image. With --text, an RNN, GRU or LSTM learns to predict the next character, with Adam and gradients clipped at a norm
/// of 1; its result is in bits per character. The same arguments give the same records, bit for bit.
///
/// Exit status: 0 on success, 1 if training diverged, 2 if the arguments or files are invalid, 130 after Ctrl-C.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Network
    #[arg(long, value_enum, default_value_t = Model::Lstm)]
    model: Model,
    /// Normalization: none, batch, layer, rms, group, instance or weight; none or layer with --text
    #[arg(long, value_name = "NAME", default_value = "layer", value_parser = norm)]
    norm: Norm,
    /// Hidden units of each layer of the RNN, GRU, LSTM or MLP, width of the Transformer, or channels of the CNN's second
    /// layer [default: 128; MLP 1000, Transformer 64, CNN 32]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = size)]
    size: Option<usize>,
    /// Layers of the RNN, GRU or LSTM, hidden layers of the MLP, or blocks of the Transformer [default: 1; MLP and
    /// Transformer 2]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = layers)]
    layers: Option<usize>,
    /// Read 784 pixels one by one instead of 28 rows (RNN, GRU, LSTM)
    #[arg(long)]
    pixels: bool,
    /// Use only the middle of the images, without the outer seventh on each side, which is blank in MNIST
    #[arg(long, conflicts_with = "text")]
    crop: bool,
    /// Reduce images to half of their rows and columns
    #[arg(long, conflicts_with = "text")]
    halve: bool,
    /// Put the pixels into a random order, the same for all images (permuted MNIST). Use it with --pixels --norm batch,
    /// whose gradients overflow if the first pixels are the same in all images
    #[arg(long, conflicts_with = "text")]
    permute: bool,
    /// Post-norm: normalize after each residual connection instead of before each sublayer (Transformer)
    #[arg(long)]
    post_norm: bool,
    /// ε of the norm [default: 1e-5]
    #[arg(long, value_name = "X", allow_hyphen_values = true, value_parser = epsilon)]
    eps: Option<f64>,
    /// Initial gain γ of the norm [default: 1]; multiplied by 0.1 for batch norm in a GRU or LSTM
    #[arg(long, value_name = "X", allow_hyphen_values = true, value_parser = number)]
    gain: Option<f64>,
    /// Initial bias β of the norm [default: 0]
    #[arg(long, value_name = "X", allow_hyphen_values = true, value_parser = number)]
    bias: Option<f64>,
    /// Do not train γ and β of the norm: they stay 1 and 0
    #[arg(long, conflicts_with_all = ["gain", "bias"])]
    no_affine: bool,
    /// Factor for all initial weights, but not for biases: 0 or more; with 0 all weights start at zero
    #[arg(long, value_name = "X", default_value = "1", allow_hyphen_values = true, value_parser = weight_scale)]
    weight_scale: f64,
    /// Optimizer
    #[arg(long, value_enum, default_value_t = How::Adam)]
    optimizer: How,
    /// Initial learning rate; decays linearly to a tenth unless --constant-lr is given
    #[arg(long, value_name = "X", default_value = "0.002", allow_hyphen_values = true, value_parser = study::learning_rate)]
    lr: f64,
    /// Keep the learning rate constant
    #[arg(long)]
    constant_lr: bool,
    /// Batch size: number of images, or of streams of text [default: 64; text 32]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = study::whole)]
    batch_size: Option<NonZeroUsize>,
    /// Number of epochs [default: 3; text 5]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = study::epochs)]
    epochs: Option<usize>,
    /// Number of training steps, instead of epochs
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = study::epochs, conflicts_with = "epochs")]
    steps: Option<usize>,
    /// Random seed for weights and batch order
    #[arg(long, value_name = "N", default_value = "1", allow_negative_numbers = true, value_parser = seed)]
    seed: u64,
    /// Folder with MNIST, Fashion-MNIST or similar idx files [default: 12,000 embedded digits]
    #[arg(long, value_name = "DIR")]
    pub(super) data: Option<PathBuf>,
    /// Train a language model on a UTF-8 text file; without FILE, on six embedded plays by Shakespeare
    #[arg(long, value_name = "FILE", num_args = 0..=1, conflicts_with = "data")]
    pub(super) text: Option<Option<PathBuf>>,
    /// Output folder for records and model
    #[arg(long, value_name = "DIR", default_value = "trained")]
    pub(super) out: PathBuf,
    /// Write event files for TensorBoard into a folder, live; the run has the name of the output folder
    #[arg(long, value_name = "DIR")]
    pub(super) tensorboard: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Model {
    Mlp,
    Rnn,
    Gru,
    Lstm,
    Cnn,
    Transformer,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum How {
    Adam,
    Sgd,
}

/// Upper limit for --size, far above what these networks need.
const MAX_UNITS: usize = 16_384;
/// Upper limit for --layers, far above what these networks need.
const MAX_LAYERS: usize = 1_024;
/// Upper limit on the number of validations in a run.
const MAX_EVALUATIONS: usize = 200;
/// Number of validations of a language model.
const TEXT_EVALUATIONS: usize = 20;
/// Most characters of a validation.
const TEXT_VALIDATION: usize = 20_000;
/// Number of attention heads of the Transformer.
const HEADS: usize = 4;

/// Below this, 1/√ε and its powers in the gradient can exceed the range of f32.
const SMALL_EPSILON: f64 = 1e-12;
/// Initial values above this are the likely cause if training diverges.
const LARGE: f64 = 100.0;

fn size(text: &str) -> Result<usize, String> {
    study::up_to(MAX_UNITS, text)
}

fn layers(text: &str) -> Result<usize, String> {
    study::up_to(MAX_LAYERS, text)
}

fn norm(name: &str) -> Result<Norm, String> {
    let names = Norm::ALL.map(Norm::name).join(", ");
    Norm::named(name).ok_or_else(|| format!("expected one of {names}"))
}

fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("expected a whole number from 0 to {}", u64::MAX))
}

fn epsilon(text: &str) -> Result<f64, String> {
    let range = "expected a finite number, 0 or more, such as 1e-5";
    study::in_f32(text).filter(|&epsilon| epsilon >= 0.0).ok_or_else(|| study::with_range(range))
}

fn weight_scale(text: &str) -> Result<f64, String> {
    let range = "expected a finite number, 0 or more, such as 0.5";
    study::in_f32(text).filter(|&scale| scale >= 0.0).ok_or_else(|| study::with_range(range))
}

fn number(text: &str) -> Result<f64, String> {
    study::in_f32(text).ok_or_else(|| study::with_range("expected a finite number, such as 0.5"))
}

impl Args {
    /// Rejects options that do not apply to the network or the norm.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let refuse = |what: String| Err(Failure::bad_input(what));
        let arch = self.arch();
        if self.text.is_some() {
            self.check_text(&arch)?;
        }
        if self.pixels && arch.as_recurrent().is_none() {
            return refuse("--pixels works only with --model rnn, gru or lstm".to_owned());
        }
        if self.post_norm && self.model != Model::Transformer {
            return refuse("--post-norm works only with --model transformer".to_owned());
        }
        if self.layers.is_some() && self.model == Model::Cnn {
            return refuse("--layers does not work with --model cnn, which has two convolutions".to_owned());
        }
        if let (Model::Transformer, Some(size)) = (self.model, self.size.filter(|size| !size.is_multiple_of(HEADS))) {
            return refuse(format!("--size: expected a multiple of {HEADS} for a Transformer, found {size}"));
        }
        let given = [
            ("--eps", self.eps.is_some()),
            ("--gain", self.gain.is_some()),
            ("--bias", self.bias.is_some()),
            ("--no-affine", self.no_affine),
        ];
        if let (Norm::None | Norm::Weight, Some((option, _))) = (self.norm, given.iter().find(|(_, given)| *given)) {
            let norm = self.norm;
            return refuse(format!(
                "{option} works only with --norm batch, layer, rms, group or instance, found {norm}"
            ));
        }
        if self.bias.is_some() && !arch.has_norm_bias(self.norm) {
            return refuse(format!("--bias: {} norm has no β in this network, {}", self.norm, arch.name()));
        }
        Ok(())
    }

    /// Rejects what does not apply to text.
    fn check_text(&self, arch: &Arch) -> Result<(), Failure> {
        let wrong = if arch.as_recurrent().is_none() {
            format!("--text works only with --model rnn, gru or lstm, found {}", arch.name())
        } else if !matches!(self.norm, Norm::None | Norm::Layer) {
            format!("--text works only with --norm none or layer, found {}", self.norm)
        } else if self.pixels {
            "--pixels does not work with --text: a character is read at a time".to_owned()
        } else if matches!(self.optimizer, How::Sgd) {
            "--optimizer sgd does not work with --text, which uses Adam".to_owned()
        } else {
            return Ok(());
        };
        Err(Failure::bad_input(wrong))
    }

    fn arch(&self) -> Arch {
        let size = |usual: usize| self.size.unwrap_or(usual);
        let layers = |usual: usize| self.layers.unwrap_or(usual);
        let reads = if self.pixels { Reads::Pixels } else { Reads::Rows };
        let recurrent = RecurrentSize { hidden: size(128), reads, layers: layers(1) };
        match self.model {
            Model::Mlp => Arch::mlp(&vec![size(1000); layers(2)]),
            Model::Rnn => Arch::Rnn(recurrent),
            Model::Gru => Arch::Gru(recurrent),
            Model::Lstm => Arch::Lstm(recurrent),
            Model::Cnn => Arch::Cnn { channels: [size(32).div_ceil(2), size(32)] },
            Model::Transformer => {
                Arch::Transformer { width: size(64), heads: HEADS, blocks: layers(2), pre_norm: !self.post_norm }
            }
        }
    }

    /// The run on this data.
    pub(super) fn spec(&self, data: &Dataset) -> Spec {
        let mut spec = Spec::new(self.arch(), self.norm, self.seed, &data.label());
        spec.start = self.start();
        spec.images = Images { cropped: self.crop, halved: self.halve, permuted: self.permute };
        // A twelfth of the training images is held out for validation: 5,000 of MNIST's 60,000.
        spec.validation = (data.train.len() / 12).max(1);
        spec.train = data.train.len() - spec.validation.min(data.train.len());
        spec.test = data.test.len();
        (spec.batch_size, spec.learning_rate) = (self.batch_size.map_or(64, NonZeroUsize::get), self.lr);
        spec.final_rate = self.final_rate();
        spec.optimizer = match self.optimizer {
            How::Adam => Optimizer::Adam,
            How::Sgd => Optimizer::Sgd,
        };
        let epochs = self.epochs.unwrap_or(3);
        spec.steps = self.steps.unwrap_or(epochs.saturating_mul(spec.steps_of_epoch()));
        spec.evaluations = epochs.saturating_mul(2).min(MAX_EVALUATIONS);
        spec
    }

    /// The run on this text.
    pub(super) fn text_spec(&self, text: &Text) -> language::Spec {
        let cell = match self.model {
            Model::Rnn => Cell::Rnn,
            Model::Gru => Cell::Gru,
            _ => Cell::Lstm,
        };
        let mut spec = language::Spec::new(cell, self.norm, self.size.unwrap_or(128), self.seed, &text.label());
        (spec.layers, spec.start) = (self.layers.unwrap_or(1), self.start());
        (spec.batch_size, spec.learning_rate) = (self.batch_size.map_or(32, NonZeroUsize::get), self.lr);
        spec.final_rate = self.final_rate();
        spec.steps = self.steps.unwrap_or_else(|| {
            self.epochs.unwrap_or(5).saturating_mul(spec.steps_of_epoch(text.part(Part::Train).len()))
        });
        spec.evaluations = TEXT_EVALUATIONS;
        spec.validation = text.part(Part::Validation).len().min(TEXT_VALIDATION);
        spec.test = text.part(Part::Test).len();
        spec
    }

    fn start(&self) -> Start {
        let usual = Start::new(self.seed);
        Start {
            weight_scale: self.weight_scale,
            gain: self.gain.unwrap_or(usual.gain),
            bias: self.bias.unwrap_or(usual.bias),
            epsilon: self.eps.unwrap_or(usual.epsilon),
            affine: !self.no_affine,
            ..usual
        }
    }

    /// What may help if training diverges.
    pub(super) fn remedy(&self) -> String {
        let far = |value: Option<f64>| value.is_some_and(|value| value.abs() > LARGE);
        let large = [("--weight-scale", Some(self.weight_scale)), ("--gain", self.gain), ("--bias", self.bias)];
        if self.eps.is_some_and(|epsilon| epsilon < SMALL_EPSILON) {
            "equal inputs of the norm have a variance of 0, and dividing by √(0 + ε) overflows; try a larger --eps, such as 1e-5"
                .to_owned()
        } else if let Some((option, _)) = large.into_iter().find(|(_, value)| far(*value)) {
            format!("try a smaller {option}")
        } else if self.norm == Norm::Batch && self.pixels && !self.permute {
            "with batch norm, gradients overflow if the first pixels are the same in all images; try --permute, or a \
             smaller --lr"
                .to_owned()
        } else if self.norm == Norm::None {
            "try a smaller --lr, or a norm".to_owned()
        } else {
            "try a smaller --lr".to_owned()
        }
    }

    fn final_rate(&self) -> f64 {
        if self.constant_lr { 1.0 } else { 0.1 }
    }
}
