//! `layernorm weights init`: creates a network.

use crate::apply::check_places;
use crate::failure::Failure;
use crate::recurrent::{Cell, dtypes, formats};
use clap::ValueEnum;
use layernorm_rnn::weights::{self, Dtype, Format};
use layernorm_rnn::{Config, Direction, Init, Network, Slot};
use std::path::PathBuf;

/// Create a network with the initialization of its variant's library.
///
/// The same seed gives the same numbers on every machine. A native file describes itself, so `layernorm apply` needs no other
/// information.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// File to write; replaced atomically
    #[arg(value_name = "OUT")]
    file: PathBuf,
    /// Kind of cell
    #[arg(long, value_enum)]
    cell: Cell,
    /// Variant; `layernorm weights variants` lists them
    #[arg(long, value_name = "NAME", default_value = "paper")]
    variant: String,
    /// Input size I
    #[arg(long, value_name = "I")]
    input: usize,
    /// Hidden size H
    #[arg(long, value_name = "H")]
    hidden: usize,
    /// Number of layers
    #[arg(long, value_name = "L", default_value_t = 1)]
    layers: usize,
    /// Bidirectional: one cell in each direction in every layer
    #[arg(long, conflicts_with = "reverse")]
    bidirectional: bool,
    /// Run from the last step to the first
    #[arg(long)]
    reverse: bool,
    /// Projection size of h (lstm)
    #[arg(long, value_name = "P")]
    projection: Option<usize>,
    /// ε of all norms [default: the variant's]
    #[arg(long, allow_hyphen_values = true, value_name = "E")]
    eps: Option<f64>,
    /// Random seed of the initialization
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Initialization [default: that of the variant's library]
    #[arg(long, value_enum, value_name = "SCHEME")]
    init: Option<Start>,
    /// Format to write
    #[arg(long, value_parser = formats(), default_value = "native")]
    format: Format,
    /// Type of the numbers
    #[arg(long, value_parser = dtypes(), default_value = "f32")]
    dtype: Dtype,
}

/// A library's initialization.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Start {
    /// Xavier uniform W, orthogonal U, per gate
    Paper,
    /// Theano code of the paper's authors
    Theano,
    /// Torch module of the paper's authors
    Draw,
    /// PyTorch's fastrnns: normal
    Fastrnns,
    /// Uniform by fan-in, as in nn.Linear
    Torchaudio,
    /// Glorot uniform W, orthogonal U, forget bias 1
    Keras,
    /// Xavier uniform W, orthogonal U, per gate, forget bias 1
    Haste,
    /// tf.contrib: Glorot uniform on W and U as one matrix
    Contrib,
    /// DreamerV3: truncated normal on W and U as one matrix
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
    // In f64, so that files of all types have the same numbers, rounded once.
    let network = Network::<f64>::new(config, init, args.seed)?;
    Ok(weights::save(&network, args.format, args.dtype, &args.file)?)
}

/// Fails, before anything is allocated, if there is not enough memory for the network, the tensors of the format and the
/// bytes of the file.
fn check_memory(config: &Config) -> Result<(), Failure> {
    let count = |layer: usize| {
        let shapes = Slot::ALL.iter().filter_map(|slot| slot.shape(config, layer));
        shapes.map(|shape| shape.iter().fold(1u64, |n, &dim| n.saturating_mul(dim as u64))).fold(0, u64::saturating_add)
    };
    // All layers except the first have the same shapes.
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
