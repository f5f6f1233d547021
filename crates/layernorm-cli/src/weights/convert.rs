//! `layernorm weights convert`: from one library's tensors to another's.

use super::source::{Source, Wanted};
use crate::apply::check_places;
use crate::failure::Failure;
use crate::recurrent::{Cell, dtypes, formats};
use crate::show;
use layernorm_files::shown;
use layernorm_rnn::weights::{self, Dtype, Format, Rounding};
use std::path::PathBuf;

/// Write a network in the format of another library, or as a file that describes itself.
///
/// The new file has exactly the same numbers, or nothing is written: --lossy allows rounding. Numbers are rounded by a --dtype
/// that is narrower, and where two biases become one (or one takes up a constant such as tf.contrib's forget_bias) and the sum
/// does not fit the type. A format whose library computes something else than the network's variant is refused.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file to read
    #[arg(value_name = "IN")]
    from_file: PathBuf,
    /// The file to write; it is replaced whole or not at all
    #[arg(value_name = "OUT")]
    to_file: PathBuf,
    /// The format to write
    #[arg(long, value_parser = formats())]
    to: Format,
    /// Whose tensors IN has [default: seen from their names]
    #[arg(long, value_parser = formats())]
    from: Option<Format>,
    /// The kind of cell [default: the one that the tensors fit]
    #[arg(long, value_enum)]
    cell: Option<Cell>,
    /// The variant, such as paper [default: the one that the tensors fit]
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// Only look at tensors whose names begin with this, and use all of them
    #[arg(long, default_value = "", hide_default_value = true)]
    prefix: String,
    /// ε of all norms, which other libraries' files do not say [default: the variant's]
    #[arg(long, allow_hyphen_values = true, value_name = "E")]
    eps: Option<f64>,
    /// The network goes from the last step to the first, which other libraries' files do not say
    #[arg(long)]
    reverse: bool,
    /// The type of the numbers [default: the widest in IN]
    #[arg(long, value_parser = dtypes())]
    dtype: Option<Dtype>,
    /// Write the file even if numbers have to be rounded, and print by how much
    #[arg(long)]
    lossy: bool,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    check_places(&[("OUT", &args.to_file)])?;
    let source = Source::read("IN", &args.from_file)?;
    let wanted = Wanted {
        cell: args.cell,
        variant: args.variant.as_deref(),
        format: args.from,
        prefix: &args.prefix,
        eps: args.eps,
        reverse: args.reverse,
    };
    let (format, config) = source.find(&wanted)?;
    // In f64, so that no number of any file changes on the way.
    let network = source.load::<f64>(format, &config, &args.prefix)?;
    let dtype = args.dtype.map_or_else(|| source.widest(), Ok)?;
    let read = source.rounding(&network, format, &args.prefix)?;
    let written = weights::rounding(&network, args.to, dtype)?;
    let rounding = match (read, written) {
        (Some(read), Some(written)) => Some(read.and_then(written)),
        (read, written) => read.or(written),
    };
    let out = shown(&args.to_file);
    match &rounding {
        Some(rounding) if !args.lossy => {
            return Err(Failure::bad_input(format!(
                "OUT: {out}: expected the same numbers in format {} as {}, found {}; --lossy writes them all the same",
                args.to.name(),
                dtype.name(),
                in_words(rounding)
            )));
        }
        _ => weights::save(&network, args.to, dtype, &args.to_file)?,
    }
    rounding.map_or(Ok(()), |rounding| show::print(&format!("{out}: {}\n", in_words(&rounding))))
}

fn in_words(rounding: &Rounding) -> String {
    let Rounding { largest, tensor, numbers } = rounding;
    let s = if *numbers == 1 { "" } else { "s" };
    format!("{numbers} number{s} rounded, by at most {largest:.1e} (in {tensor:?})")
}
