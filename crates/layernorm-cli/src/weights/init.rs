//! `layernorm weights init`: a new network.

use crate::apply::check_places;
use crate::failure::Failure;
use crate::recurrent::{Cell, dtypes, formats};
use clap::ValueEnum;
use layernorm_rnn::weights::{self, Dtype, Format};
use layernorm_rnn::{Config, Direction, Init, Network, Slot};
use std::path::PathBuf;

/// Make a new network, with the starting values of the library that its variant comes from.
///
/// The same seed gives the same numbers on every machine. The file describes itself, so that `layernorm apply` needs
/// nothing else.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file to write; it is replaced whole or not at all
    #[arg(value_name = "OUT")]
    file: PathBuf,
    /// The kind of cell
    #[arg(long, value_enum)]
    cell: Cell,
    /// The variant; `layernorm weights variants` lists them
    #[arg(long, value_name = "NAME", default_value = "paper")]
    variant: String,
    /// I, the numbers of the input at a step
    #[arg(long, value_name = "I")]
    input: usize,
    /// H, the hidden units
    #[arg(long, value_name = "H")]
    hidden: usize,
    /// Layers
    #[arg(long, value_name = "L", default_value_t = 1)]
    layers: usize,
    /// One cell each way in every layer
    #[arg(long, conflicts_with = "reverse")]
    bidirectional: bool,
    /// From the last step to the first
    #[arg(long)]
    reverse: bool,
    /// Project h to so many numbers (lstm)
    #[arg(long, value_name = "P")]
    projection: Option<usize>,
    /// ε of all norms [default: the variant's]
    #[arg(long, allow_hyphen_values = true, value_name = "E")]
    eps: Option<f64>,
    /// The seed of the starting values
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Whose starting values [default: those of the variant's own library]
    #[arg(long, value_enum, value_name = "SCHEME")]
    init: Option<Start>,
    /// The format to write
    #[arg(long, value_parser = formats(), default_value = "native")]
    format: Format,
    /// The type of the numbers
    #[arg(long, value_parser = dtypes(), default_value = "f32")]
    dtype: Dtype,
}

/// Whose starting values.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Start {
    /// Xavier's W, orthogonal U, gate by gate
    Paper,
    /// The paper's authors' Theano code
    Theano,
    /// The authors' Torch module
    Draw,
    /// PyTorch's fastrnns: all normal
    Fastrnns,
    /// Uniform by fan-in, as nn.Linear
    Torchaudio,
    /// Glorot's W, orthogonal U, forget bias 1
    Keras,
    /// Xavier's W, orthogonal U, gate by gate, forget bias 1
    Haste,
    /// tf.contrib: Glorot's uniform of W and U as one matrix
    Contrib,
    /// DreamerV3: truncated normal of W and U as one matrix
    Dreamer,
    /// torch.nn: uniform in ±1/sqrt(H)
    Torch,
}

impl Start {
    fn init(self) -> Init {
        match self {
            Start::Paper => Init::paper(),
            Start::Theano => Init::theano(),
            Start::Draw => Init::draw(),
            Start::Fastrnns => Init::fastrnns(),
            Start::Torchaudio => Init::torchaudio(),
            Start::Keras => Init::keras(),
            Start::Haste => Init::haste(),
            Start::Contrib => Init::contrib(),
            Start::Dreamer => Init::dreamer(),
            Start::Torch => Init::torch(),
        }
    }
}

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    check_places(&[("OUT", &args.file)])?;
    let config = args.config()?;
    check_memory(&config)?;
    let init = args.init.map_or_else(|| Init::for_variant(&config.variant), Start::init);
    // In f64, so that a file of either type has the same numbers, rounded once.
    let network = Network::<f64>::new(config, init, args.seed)?;
    Ok(weights::save(&network, args.format, args.dtype, &args.file)?)
}

/// An error, before anything is allocated, if the machine has not the memory that the network needs on its way to the file:
/// its numbers, those under the format's names, and the file's bytes.
fn check_memory(config: &Config) -> Result<(), Failure> {
    let count = |layer: usize| {
        let shapes = Slot::ALL.iter().filter_map(|slot| slot.shape(config, layer));
        shapes.map(|shape| shape.iter().fold(1u64, |n, &dim| n.saturating_mul(dim as u64))).fold(0, u64::saturating_add)
    };
    // All layers but the first are alike.
    let inner = count(1).saturating_mul(config.layers as u64 - 1);
    let numbers = count(0).saturating_add(inner).saturating_mul(config.directions() as u64);
    let need = numbers.saturating_mul(3 * size_of::<f64>() as u64);
    match layernorm_lab::memory::available() {
        Some(available) if need > available => Err(Failure::bad_input(format!(
            "memory: expected {} MB for a network of {numbers} numbers, found {} MB available",
            need / 1_000_000,
            available / 1_000_000
        ))),
        _ => Ok(()),
    }
}

impl Args {
    fn config(&self) -> Result<Config, Failure> {
        let mut variant = self.cell.variant(&self.variant)?;
        if let Some(eps) = self.eps {
            variant = variant.with_eps(eps);
        }
        let direction = match (self.bidirectional, self.reverse) {
            (true, _) => Direction::Both,
            (_, true) => Direction::Reverse,
            _ => Direction::Forward,
        };
        let config = Config::new(variant, self.input, self.hidden).with_layers(self.layers).with_direction(direction);
        let config = Config { projection: self.projection, ..config };
        config.check()?;
        Ok(config)
    }
}
