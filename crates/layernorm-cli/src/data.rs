//! `layernorm data`: downloads datasets and verifies them.

use crate::failure::Failure;
use crate::show;
use crate::study::plain;
use clap::builder::PossibleValuesParser;
use indicatif::{ProgressBar, ProgressStyle};
use layernorm_lab::data::catalog::{self, Remote};
use layernorm_lab::data::get::{Event, Options, Outcome, get};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  layernorm data get mnist                       download to data/mnist
  layernorm data get fashion-mnist --to clothes
  layernorm study all --full --data data/mnist   run the studies on it";

/// Download datasets.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Get(Get),
}

/// Download a dataset for `layernorm study --data`.
///
/// Every file is verified against its checksum. Interrupted downloads are resumed; files that are already complete are not
/// downloaded again.
#[derive(Debug, clap::Args)]
struct Get {
    /// Dataset
    #[arg(value_name = "NAME", value_parser = names())]
    name: String,
    /// Output folder [default: data/NAME]
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Base URL of the files [default: the publisher's site and its mirrors]
    #[arg(long, value_name = "URL")]
    from: Option<String>,
}

fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(catalog::SOURCES.iter().map(|source| source.name))
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    let Command::Get(Get { name, to, from }) = args.command;
    let source = catalog::find(&name).ok_or_else(|| Failure::bad_input(format!("unknown dataset {name:?}")))?;
    let to = to.unwrap_or_else(|| Path::new("data").join(&name));
    let mut shown = Shown::new();
    let result = get(source, &to, &Options { from, ..Options::default() }, &mut |event| shown.event(event));
    shown.clear();
    result?;
    let folder = to.display();
    show::print(&format!("{name} is in {folder} ({}).\nNext:\n  layernorm study all --data {folder}\n", source.licence))
}

/// Shows progress: a bar for each file on a terminal, a line elsewhere.
struct Shown {
    plain: bool,
    bar: ProgressBar,
}

const BAR: &str = "{prefix:27} {bar:30} {bytes:>10} of {total_bytes:10} {bytes_per_sec:>12} {eta:>4} left";

impl Shown {
    fn new() -> Shown {
        Shown { plain: plain(), bar: ProgressBar::hidden() }
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Started { file, url, from } => self.start(file, url, from),
            Event::Progress { done, .. } => self.bar.set_position(done),
            Event::Finished { file, outcome } => self.finish(file, outcome),
        }
    }

    fn start(&mut self, file: &Remote, url: &str, from: u64) {
        if self.plain {
            let rest = if from > 0 { format!(" from byte {from}") } else { String::new() };
            return show::say(&format!("{url}{rest} ({} bytes)", show::thousands(file.bytes)));
        }
        self.bar.finish_and_clear();
        let style = ProgressStyle::with_template(BAR).unwrap_or_else(|_| ProgressStyle::default_bar());
        // Bytes from an earlier download do not count towards the speed.
        self.bar = ProgressBar::new(file.bytes).with_style(style).with_prefix(file.name).with_position(from);
        self.bar.reset_eta();
    }

    fn finish(&mut self, file: &Remote, outcome: Outcome) {
        self.clear();
        let words = match outcome {
            Outcome::Kept => "already complete, checksum OK",
            Outcome::Fetched => "downloaded, checksum OK",
            Outcome::Replaced => "replaced, checksum OK",
        };
        show::say(&format!("{}: {words}", file.name));
    }

    fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_is_valid() {
        assert!(ProgressStyle::with_template(BAR).is_ok());
    }
}
