//! `layernorm report`: creates a report from existing records, without running anything.

use crate::failure::Failure;
use crate::{show, study};
use layernorm_lab::session::{self, REPORT};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  layernorm report lab-out          the records of `layernorm study`, even while it is running
  layernorm report lab-out/old-1    older runs that were moved aside
  layernorm report lab-out --tensorboard tb
                                    also event files for TensorBoard, with all runs that train a network";

/// Regenerate the report of a folder from its records.
///
/// Does not train: reads DIR/runs, reports finished runs and replaces DIR/report.html.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Folder given to `layernorm study --out`
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Write event files for TensorBoard into a folder: what it lacks of the records
    #[arg(long, value_name = "DIR")]
    tensorboard: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let report = session::report(&args.folder, study::about(study::command())?)?;
    let mut told = format!("{}\n{}", study::found(report.stories.iter()), study::told(&args.folder.join(REPORT)));
    if let Some(path) = &args.tensorboard {
        let runs = session::show_in_tensorboard(&args.folder, path)?;
        let words = if runs == 1 { "run that trains" } else { "runs that train" };
        told += &format!("{runs} {words} a network for TensorBoard: {}\n", study::tensorboard(path));
    }
    show::print(&told)
}
