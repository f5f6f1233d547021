//! `layernorm apply lstm`, `gru` and `rnn`: runs a recurrent network on sequences in a file.
//!
//! Check options → read weights and arrays → run the network in the arithmetic of the input's type → write the results.

mod args;
mod shape;

use super::files::{Input, Number};
use super::results::{Outputs, check_places};
use super::{FLOATS, context};
use crate::failure::Failure;
use crate::recurrent::{Cell, list};
use crate::show;
use crate::weights::{Source, Wanted};
use args::Args;
use layernorm::{Element, f16};
use layernorm_npy::DType;
use layernorm_rnn::weights::Format;
use layernorm_rnn::{Config, Network, Real, Runner, State};
use shape::Shape;

const EXAMPLES: &str = "\
Examples:
  Create a network and run it on the sequences in x.npy:
    layernorm weights init w.safetensors --cell CELL --variant paper --input 28 --hidden 128
    layernorm apply CELL --weights w.safetensors --input x.npy --output y.npy
  Run a network from a PyTorch model on sequences of different lengths, and save the final state:
    layernorm apply CELL --weights model.safetensors --prefix encoder.CELL. --variant none --batch-first \\
      --input x.npy --lengths n.npy --output y.npy --final-h h.npy";

/// The examples with the name of the cell.
fn examples(cell: Cell) -> String {
    EXAMPLES.replace("CELL", &cell.to_string())
}

/// A recurrent network.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Run an LSTM: layer-normalized (any variant in docs/RECURRENT.md) or plain.
    #[command(after_help = examples(Cell::Lstm))]
    #[command(override_usage = "layernorm apply lstm --weights W.safetensors --input X.npy --output Y.npy [OPTIONS]")]
    Lstm(Box<Args>),
    /// Run a GRU: layer-normalized (any variant in docs/RECURRENT.md) or plain.
    #[command(after_help = examples(Cell::Gru))]
    #[command(override_usage = "layernorm apply gru --weights W.safetensors --input X.npy --output Y.npy [OPTIONS]")]
    Gru(Box<Args>),
    /// Run a simple recurrent network with tanh or relu, layer-normalized or plain.
    #[command(after_help = examples(Cell::Rnn))]
    #[command(override_usage = "layernorm apply rnn --weights W.safetensors --input X.npy --output Y.npy [OPTIONS]")]
    Rnn(Box<Args>),
}

/// Computes all results, then writes them.
pub(super) fn run(command: Command) -> Result<(), Failure> {
    let (cell, args) = match command {
        Command::Lstm(args) => (Cell::Lstm, args),
        Command::Gru(args) => (Cell::Gru, args),
        Command::Rnn(args) => (Cell::Rnn, args),
    };
    if args.variant.as_deref() == Some("list") {
        return show::print(&list(cell));
    }
    let (weights, input) = args.check(cell)?;
    check_places(&args.outputs())?;
    let source = Source::read("--weights", weights)?;
    let wanted = Wanted {
        cell: Some(cell),
        variant: args.variant.as_deref(),
        format: args.format,
        prefix: &args.prefix,
        eps: args.eps,
        reverse: args.reverse,
    };
    let (format, config) = source.find(&wanted)?;
    let x = Input::read("--input", input)?;
    match x.dtype() {
        DType::F16 => apply::<f16>(&args, &source, format, &config, &x),
        DType::F32 => apply::<f32>(&args, &source, format, &config, &x),
        DType::F64 => apply::<f64>(&args, &source, format, &config, &x),
        found => Err(x.wrong_type(FLOATS, found)),
    }
}

fn apply<T: Number + Element<Acc: Real>>(
    args: &Args,
    source: &Source,
    format: Format,
    config: &Config,
    x: &Input,
) -> Result<(), Failure> {
    let shape = Shape::of(x, config, args.batch_first)?;
    let data = x.contiguous::<T>()?;
    let lengths = args.lengths.as_deref().map(|path| shape.lengths(&Input::read("--lengths", path)?)).transpose()?;
    let initial = initial::<T>(args, config, &shape)?;
    let network: Network<T::Acc> = source.load(format, config, &args.prefix)?;
    let sequences = shape.sequences(&data, lengths.as_deref());
    let output = Runner::new(context(args.threads, args.isa)?).forward(&network, &sequences, initial.as_ref())?;
    let mut files = Outputs::default();
    files.add(&args.output, &shape.output(config), Some(&output.y))?;
    files.add(&args.final_h, &shape.state(config, config.output()), Some(&output.state.h))?;
    files.add(&args.final_c, &shape.state(config, config.hidden), Some(&output.state.c))?;
    files.commit()
}

/// The initial state, if one is given; a missing part of it is 0.
fn initial<T: Number>(args: &Args, config: &Config, shape: &Shape) -> Result<Option<State<T::Acc>>, Failure> {
    if args.h0.is_none() && args.c0.is_none() {
        return Ok(None);
    }
    let read = |option, path: &Option<_>, width| match path.as_deref() {
        Some(path) => shape.read_state::<T>(&Input::read(option, path)?, config, width),
        None => shape.zero_state::<T>(config, width),
    };
    let c = if config.has_cell() { read("--c0", &args.c0, config.hidden)? } else { Vec::new() };
    Ok(Some(State { h: read("--h0", &args.h0, config.output())?, c }))
}
