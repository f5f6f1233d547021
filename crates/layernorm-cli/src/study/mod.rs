//! `layernorm study`: questions asked of real digits. Runs become records, records one report.
//!
//! ```text
//! arguments → studies, data → session (runs, a few at a time) → report.html → the findings in a table
//! ```

mod again;
mod bars;
pub mod interrupt;
mod lines;
mod summary;
mod view;

pub use again::command;
pub use summary::{found, told};
pub use view::{View, plain};

use crate::failure::Failure;
use crate::machine::Machine;
use crate::show;
use layernorm::Context;
use layernorm_lab::data::Dataset;
use layernorm_lab::report::About;
use layernorm_lab::session::{self, Options, Outcome, REPORT, Session};
use layernorm_lab::studies::{Settings, Study, catalog};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const OUT: &str = "lab-out";

const EXAMPLES: &str = "\
Examples:
  layernorm study                                  all studies, quick; the report is lab-out/report.html
  layernorm study --list                           the studies and what they ask
  layernorm study epsilon invariance --out eps     two of them, into another folder
  layernorm study all --full --data data/mnist     all of MNIST (`layernorm data get mnist`), the full size
  layernorm study all --full --data data/mnist --resume
                                                   the same, where it was left

What is in the folder:
  Runs that are there with the same settings are kept: finished ones are not repeated, others go on from their last record,
  also after Ctrl-C or a crash. More seeds or more studies add to what is there. Runs of the same names with other settings
  are never overwritten: they are moved to old-1/, old-2/, … in the folder, and `layernorm report` shows them as before. With
  --resume nothing is moved; runs of other settings are then an error.";

/// Run studies: what normalization does to networks, measured on real digits and told in one report.
///
/// Each study asks one question. Its runs leave records in DIR/runs, one file a run; the report is made of the records and
/// of nothing else. The same settings give the same records, to the bit, for any number of jobs.
///
/// Exit status: 0 if all is well, 1 if a run failed, 2 if the arguments or files are bad, 130 after Ctrl-C.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The studies, or all of them [default: all]
    #[arg(value_name = "NAME|all")]
    names: Vec<String>,
    /// List the studies and what they ask
    #[arg(long, exclusive = true)]
    list: bool,
    /// The full size instead of the quick one
    #[arg(long)]
    full: bool,
    /// A folder with MNIST, Fashion-MNIST or the like as idx files [default: 12,000 digits that the program carries]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Seeds for each comparison [default: the study's]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = seeds)]
    seeds: Option<usize>,
    /// Epochs of each training run [default: the study's]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = epochs)]
    epochs: Option<usize>,
    /// Cases in a batch [default: the study's]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole)]
    batch_size: Option<NonZeroUsize>,
    /// The learning rate [default: the study's]
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = learning_rate)]
    lr: Option<f64>,
    /// The folder of records and report
    #[arg(long, value_name = "DIR", default_value = OUT)]
    out: PathBuf,
    /// Runs at a time [default: as many as there are cores]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole)]
    jobs: Option<NonZeroUsize>,
    /// Go on with what is in the folder, and refuse to if it has other settings
    #[arg(long)]
    resume: bool,
}

impl Default for Args {
    fn default() -> Self {
        Args {
            names: Vec::new(),
            list: false,
            full: false,
            data: None,
            seeds: None,
            epochs: None,
            batch_size: None,
            lr: None,
            out: OUT.into(),
            jobs: None,
            resume: false,
        }
    }
}

/// More than anyone has time for.
const MOST_SEEDS: usize = 1000;
const MOST_EPOCHS: usize = 100_000;

fn seeds(text: &str) -> Result<usize, String> {
    up_to(MOST_SEEDS, text)
}

/// A number of epochs.
pub fn epochs(text: &str) -> Result<usize, String> {
    up_to(MOST_EPOCHS, text)
}

/// A whole number from 1 to the most.
pub fn up_to(most: usize, text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if (1..=most).contains(&number) => Ok(number),
        _ => Err(format!("expected a whole number from 1 to {most}")),
    }
}

/// A whole number, 1 or more.
pub fn whole(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "expected a whole number, 1 or more".to_owned())
}

/// A learning rate.
pub fn learning_rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate.is_finite() => Ok(rate),
        _ => Err("expected a number above 0, such as 0.001 or 1e-3".to_owned()),
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    if args.list {
        return show::print(&list());
    }
    let studies = session::choose(&args.names)?;
    let names: Vec<&str> = studies.iter().map(|study| study.name()).collect();
    let data = match &args.data {
        Some(folder) => Dataset::open(folder)?,
        None => Dataset::embedded()?,
    };
    let options = args.options(studies);
    let wanted = options.workers;
    let session = Session::open(options, data)?;
    if session.workers() < wanted {
        show::say(&format!("memory is enough for {} of {wanted} runs at a time", session.workers()));
    }
    let outcome = work(&session, &args.out)?;
    if outcome.stopped {
        return Err(stopped(&outcome, &args.out));
    }
    tell(&args.out, &names, &outcome)
}

impl Args {
    fn options(&self, studies: Vec<&'static dyn Study>) -> Options {
        let settings = Settings {
            full: self.full,
            seeds: self.seeds,
            epochs: self.epochs,
            batch_size: self.batch_size.map(NonZeroUsize::get),
            learning_rate: self.lr,
            ..Settings::default()
        };
        let cores = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let workers = self.jobs.unwrap_or_else(cores);
        Options { folder: self.out.clone(), studies, settings, workers, resume: self.resume }
    }
}

/// The studies and their questions.
fn list() -> String {
    let studies = catalog::all();
    let width = studies.iter().map(|study| study.name().len()).max().unwrap_or(0);
    let line = |study: &&dyn Study| format!("  {:width$}  {}\n", study.name(), study.question());
    studies.iter().map(line).collect()
}

/// Does the runs, with Ctrl-C heard and progress shown.
fn work(session: &Session, out: &Path) -> Result<Outcome, Failure> {
    let view = Arc::new(View::new());
    if let Some(aside) = session.set_aside() {
        view.say(&format!("runs of other settings were moved to {}", aside.display()));
    }
    if session.kept() > 0 {
        let words = if session.kept() == 1 { "run is" } else { "runs are" };
        view.say(&format!("{} {words} finished in {} and not repeated", session.kept(), out.display()));
    }
    interrupt::listen(&view)?;
    let outcome = session.run(&*view);
    view.clear();
    Ok(outcome)
}

/// What a user who has stopped the runs should know.
fn stopped(outcome: &Outcome, out: &Path) -> Failure {
    let failed = failures(outcome).map_or_else(String::new, |failed| format!("{failed}\n"));
    Failure::stopped(format!(
        "{failed}stopped: {} of {} runs are finished, and what is begun is kept in {}. To go on:\n  {}",
        outcome.finished,
        outcome.total,
        out.display(),
        again::resume()
    ))
}

/// The runs that failed, and why: those with the same reason in one line.
fn failures(outcome: &Outcome) -> Option<String> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for failure in &outcome.failures {
        match reasons.iter_mut().find(|(what, _)| *what == failure.what) {
            Some((_, runs)) => runs.push(&failure.run),
            None => reasons.push((&failure.what, vec![&failure.run])),
        }
    }
    let line = |(what, runs): &(&str, Vec<&str>)| match runs[..] {
        [first, _, _, ..] => format!("\n  {first} and {} others: {what}", runs.len() - 1),
        _ => format!("\n  {}: {what}", runs.join(", ")),
    };
    let lines: String = reasons.iter().map(line).collect();
    (!lines.is_empty()).then(|| format!("{} of {} runs failed:{lines}", outcome.failures.len(), outcome.total))
}

/// Makes the report, prints its findings, and says which runs failed.
fn tell(out: &Path, names: &[&str], outcome: &Outcome) -> Result<(), Failure> {
    match session::report(out, about(again::command())?) {
        Ok(report) => {
            let stories = report.stories.iter().filter(|story| names.contains(&&*story.id));
            show::print(&format!("{}\n{}\n{}", found(stories), told(&out.join(REPORT)), summary::next()))?;
        }
        // Where nothing is finished, the failures say why.
        Err(session::Error::Nothing { .. }) if !outcome.failures.is_empty() => {}
        Err(error) => return Err(error.into()),
    }
    failures(outcome).map_or(Ok(()), |failed| Err(Failure::failed(failed)))
}

/// Where a report comes from.
pub fn about(command: String) -> Result<About, Failure> {
    Ok(About {
        program: format!("layernorm {}", env!("CARGO_PKG_VERSION")),
        machine: Machine::new(&Context::new())?.words(),
        made: session::today(),
        command,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_once_a_reason() {
        let failure = |(run, what): (&str, &str)| session::Failure { run: run.to_owned(), what: what.to_owned() };
        let all = [("a", "x"), ("b", "y"), ("c", "x"), ("d", "z"), ("e", "x"), ("f", "y")];
        let outcome = Outcome { total: 9, failures: all.map(failure).to_vec(), ..Outcome::default() };
        let expected = "6 of 9 runs failed:\n  a and 2 others: x\n  b, f: y\n  d: z";
        assert_eq!(failures(&outcome).as_deref(), Some(expected));
        assert_eq!(failures(&Outcome::default()), None);
    }
}
