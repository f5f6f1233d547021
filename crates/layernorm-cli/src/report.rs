//! `layernorm report`: the report of records that are there, without running anything.

use crate::failure::Failure;
use crate::{show, study};
use layernorm_lab::session::{self, REPORT};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  layernorm report lab-out          what `layernorm study` has left there, also while it still runs
  layernorm report lab-out/old-1    runs that made room for others";

/// Make the report of a folder again, from its records.
///
/// Nothing is run: DIR/runs is read, finished runs are told of, and DIR/report.html is replaced.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The folder, as given to `layernorm study --out`
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let report = session::report(&args.folder, study::about(study::command())?)?;
    show::print(&format!("{}\n{}", study::found(report.stories.iter()), study::told(&args.folder.join(REPORT))))
}
