//! `layernorm weights convert`: converts weights from one format to another.

use super::source::{Source, Wanted};
use crate::apply::check_places;
use crate::failure::Failure;
use crate::recurrent::{Cell, dtypes, formats};
use crate::show;
use layernorm_files::shown;
use layernorm_rnn::weights::{self, Dtype, Format, Rounding};
use std::path::PathBuf;

/// Convert weights to the format of another library or to a self-describing file.
///
/// The new file has exactly the same numbers, or nothing is written; --lossy allows rounding. Rounding happens with a narrower
/// --dtype, and when two biases are merged (or a bias absorbs a constant such as tf.contrib's forget_bias) and the sum does
/// not fit the type. Fails if the format's library does not implement the network's variant.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// File to read
    #[arg(value_name = "IN")]
    from_file: PathBuf,
    /// File to write; replaced atomically
    #[arg(value_name = "OUT")]
    to_file: PathBuf,
    /// Format to write
    #[arg(long, value_parser = formats())]
    to: Format,
    /// Format of IN [default: detected from the tensor names]
    #[arg(long, value_parser = formats())]
    from: Option<Format>,
    /// Kind of cell [default: the one that fits the tensors]
    #[arg(long, value_enum)]
    cell: Option<Cell>,
    /// Variant, such as paper [default: the one that fits the tensors]
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// Use only the tensors whose names start with this prefix
    #[arg(long, default_value = "", hide_default_value = true)]
    prefix: String,
    /// ε of all norms, which other libraries' files do not store [default: the variant's]
    #[arg(long, allow_hyphen_values = true, value_name = "E")]
    eps: Option<f64>,
    /// The network runs from the last step to the first, which other libraries' files do not store
    #[arg(long)]
    reverse: bool,
    /// Type of the numbers [default: the widest in IN]
    #[arg(long, value_parser = dtypes())]
    dtype: Option<Dtype>,
    /// Write the file even if numbers must be rounded, and print the rounding error
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
    // In f64, so that loading changes no number.
    let network = source.load::<f64>(format, &config, &args.prefix)?;
    let dtype = args.dtype.map_or_else(|| source.widest(), Ok)?;
    let read = source.rounding(&network, format, &args.prefix)?;
    let written = weights::rounding(&network, args.to, dtype)?;
    let rounding = match (read, written) {
        (Some(read), Some(written)) => Some(read.and_then(written)),
        (read, written) => read.or(written),
    };
    let out = shown(&args.to_file);
    if let Some(Rounding { largest: f64::INFINITY, tensor, .. }) = &rounding {
        let dtype = dtype.name();
        return Err(Failure::bad_input(format!(
            "OUT: {out}: expected numbers that fit {dtype}, found larger ones in {tensor:?}"
        )));
    }
    match &rounding {
        Some(rounding) if !args.lossy => {
            return Err(Failure::bad_input(format!(
                "OUT: {out}: expected the same numbers in format {} as {}, found {}; --lossy allows rounding",
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
