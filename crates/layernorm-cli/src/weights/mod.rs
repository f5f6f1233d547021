//! `layernorm weights`: files of recurrent networks looked at, carried from one library to another, and made.

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
  A network to try things with, and what is in the file:
    layernorm weights init w.safetensors --cell lstm --variant paper --input 28 --hidden 128
    layernorm weights show w.safetensors
  The LSTM inside a PyTorch model, as a file that describes itself:
    layernorm weights convert model.safetensors w.safetensors --to native --prefix encoder.lstm.
  Trained with Keras, to be run by ONNX:
    layernorm weights convert keras.safetensors onnx.safetensors --to onnx --cell gru --variant none";

/// Look at, convert and make weights of recurrent networks, as safetensors files.
///
/// Whose tensors a file has is seen from their names, and sizes, layers and directions from their shapes. Loading is strict:
/// a tensor that is missing, left over or of another shape is refused, and so is a variant that computes something else than
/// the library whose format it is. docs/RECURRENT.md has the formats and the variants.
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
    /// List the variants: what each normalizes, its ε, and the formats that hold its weights.
    Variants {
        /// The kind of cell [default: all three]
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
