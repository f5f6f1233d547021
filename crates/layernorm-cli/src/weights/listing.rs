//! `layernorm weights show`: prints the format, the networks that fit the tensors, and every tensor.

use super::source::{Listed, Source, Wanted};
use crate::failure::Failure;
use crate::recurrent::{Described, formats};
use crate::show::{self, Table};
use layernorm_files::{escaped, shown};
use layernorm_rnn::weights::Format;
use serde::Serialize;
use std::path::PathBuf;

/// Show the contents of a file: its format, the variants that fit, and the names, types and shapes of its tensors.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Safetensors file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Format of the file [default: detected from the tensor names]
    #[arg(long, value_parser = formats())]
    format: Option<Format>,
    /// Show only tensors whose names start with this prefix
    #[arg(long, default_value = "", hide_default_value = true)]
    prefix: String,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    command: &'static str,
    file: String,
    /// Whether the format was given rather than detected from the names.
    format_given: bool,
    format: Option<&'static str>,
    networks: Vec<Described>,
    numbers: usize,
    tensors: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    name: String,
    dtype: String,
    shape: Vec<usize>,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let source = Source::read("FILE", &args.file)?;
    let row = |Listed { name, dtype, shape }| Row { name, dtype: format!("{dtype:?}").to_lowercase(), shape };
    let listed = source.tensors()?.into_iter().filter(|tensor| tensor.name.starts_with(&args.prefix));
    let tensors: Vec<Row> = listed.map(row).collect();
    // A file of unknown format is shown too.
    let format = source.format(args.format).ok();
    let wanted = Wanted { prefix: &args.prefix, ..Wanted::default() };
    let networks = format.map(|format| source.fits(format, &wanted)).transpose()?.unwrap_or_default();
    let report = Report {
        command: "weights show",
        file: shown(&args.file).to_string(),
        format_given: args.format.is_some(),
        format: format.map(Format::name),
        networks: networks.iter().map(Described::new).collect(),
        numbers: tensors.iter().map(Row::numbers).fold(0, usize::saturating_add),
        tensors,
    };
    if args.json { show::print_json(&report) } else { show::print(&report.render()) }
}

impl Row {
    fn numbers(&self) -> usize {
        self.shape.iter().fold(1, |count: usize, &dim| count.saturating_mul(dim))
    }
}

impl Report {
    fn render(&self) -> String {
        let mut text = format!("{}: ", self.file);
        text += &match (self.format, self.format_given) {
            (Some(format), false) => format!("format {format}, detected from the names"),
            (Some(format), true) => format!("format {format}, as given"),
            (None, _) => "unknown format".to_owned(),
        };
        let numbers = show::thousands(self.numbers as u64);
        text += &format!("; {}, {numbers} numbers\n", show::count(self.tensors.len(), "tensor"));
        for network in &self.networks {
            text += &format!("  fits {network}\n");
        }
        if self.networks.is_empty() {
            text += "  fits no variant; `layernorm weights convert` explains why\n";
        }
        let mut table = Table::new(2, ["tensor", "type", "shape", "numbers"]);
        for row in &self.tensors {
            let numbers = show::thousands(row.numbers() as u64);
            table.row([escaped(&row.name).to_string(), row.dtype.clone(), format!("{:?}", row.shape), numbers]);
        }
        format!("{text}\n{}", table.render())
    }
}
