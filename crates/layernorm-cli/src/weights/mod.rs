//! `layernorm weights`: shows, converts and creates files of recurrent networks.

mod convert;
mod init;
mod listing;
mod source;

pub use source::{Source, Wanted};

use crate::failure::Failure;
use crate::recurrent::{Cell, list};
use crate::show;

const EXAMPLES: &str = "\
Examples:
  Create a network and show its file:
    layernorm weights init w.safetensors --cell lstm --variant paper --input 28 --hidden 128
    layernorm weights show w.safetensors
  Convert the LSTM of a PyTorch model to a self-describing file:
    layernorm weights convert model.safetensors w.safetensors --to native --prefix encoder.lstm.
  Convert a GRU from Keras to ONNX:
    layernorm weights convert keras.safetensors onnx.safetensors --to onnx --cell gru --variant none";

/// Show, convert and create weights of recurrent networks (safetensors).
///
/// The format is detected from the tensor names, and sizes, layers and directions from the shapes. Loading is strict: a
/// missing, extra or misshapen tensor is an error, and so is a variant that the format's library does not implement.
/// docs/RECURRENT.md describes the formats and the variants.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Show(listing::Args),
    Convert(convert::Args),
    Init(init::Args),
    /// List the variants: what each normalizes, its ε, and the formats that can store its weights.
    Variants {
        /// Kind of cell [default: all three]
        #[arg(value_enum)]
        cell: Option<Cell>,
    },
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    match args.command {
        Command::Show(args) => listing::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Init(args) => init::run(&args),
        Command::Variants { cell } => {
            let cells = Cell::ALL.into_iter().filter(|each| cell.is_none_or(|cell| cell == *each));
            show::print(&cells.map(list).collect::<Vec<_>>().join("\n"))
        }
    }
}
