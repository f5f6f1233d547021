//! `layernorm study`: runs studies on real digits. Runs write records, and a report is made from the records.
//!
//! ```text
//! arguments → studies, data → session (runs, several in parallel) → report.html → table of findings
//! ```

mod again;
mod bars;
mod estimate;
pub mod interrupt;
mod lines;
mod merge;
mod served;
mod slurm;
mod summary;
mod view;

pub use again::{command, join};
pub use summary::{found, told};
pub use view::{View, plain};

use crate::failure::Failure;
use crate::machine::Machine;
use crate::show;
use layernorm::Context;
use layernorm_lab::data::Dataset;
use layernorm_lab::report::{About, Story};
use layernorm_lab::session::{self, Options, Outcome, REPORT, Session, Shard, Watcher};
use layernorm_lab::studies::{Settings, Study, catalog, which_norm};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The default output folder.
pub const OUT: &str = "lab-out";

const EXAMPLES: &str = "\
Examples:
  layernorm study                                  all studies, quick; the report is lab-out/report.html
  layernorm study --list                           the studies and their questions
  layernorm study epsilon invariance --out eps     two studies, into another folder
  layernorm study all --full --data data/mnist     full-size studies on all of MNIST (`layernorm data get mnist`)
  layernorm study all --full --data data/mnist --resume
                                                   continue it
  layernorm study all --full --estimate            only say how long it would take
  layernorm study compare --tensorboard tb         watch the runs with `tensorboard --logdir tb`
  layernorm study compare --serve                  watch the runs in the report, in a browser

Existing runs in the folder:
  Runs with the same settings are kept: finished runs are not repeated, and others continue from their last record, even
  after Ctrl-C or a crash. More seeds or studies add runs. Runs with the same names but different settings are never
  overwritten: they are moved to old-1/, old-2/, … in the folder, and `layernorm report` can still show them. With
  --resume nothing is moved, and runs with different settings are an error.

Several machines:
  layernorm study all --shard 3/8 --out part-3     the third of eight parts, in a folder of its own
  layernorm study merge all part-1 part-2 …        the union of the parts, and its report
  layernorm study all --shared --out /net/lab      any number of processes with the same command share one folder: each
                                                   run is executed once, and runs of killed processes are continued
  layernorm study all --engine slurm --array 0-63 --out /net/lab
                                                   an array job of 64 shards and a job that merges them";

/// Run studies of what normalization does to networks trained on real digits, and write one report.
///
/// Each study asks one question. Each run writes its records to DIR/runs, one file per run. The report is made from the records,
/// and from measured times stored beside them. The same settings give the same records, bit for bit, for any number of jobs.
///
/// Exit status: 0 on success, 1 if a run failed, 2 if the arguments or files are invalid, 130 after Ctrl-C.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Studies to run [default: all]
    #[arg(value_name = "NAME|all")]
    names: Vec<String>,
    /// List the studies and their questions
    #[arg(long, exclusive = true)]
    list: bool,
    /// Run the full-size studies instead of the quick ones
    #[arg(long)]
    full: bool,
    /// Folder with MNIST, Fashion-MNIST or similar idx files [default: 12,000 embedded digits]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Number of seeds per comparison [default: 5]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = seeds)]
    seeds: Option<usize>,
    /// Number of epochs per training run [default: the study's]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = epochs)]
    epochs: Option<usize>,
    /// Batch size [default: the study's]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole)]
    batch_size: Option<NonZeroUsize>,
    /// Learning rate [default: the study's]
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = learning_rate)]
    lr: Option<f64>,
    /// Output folder for records and report
    #[arg(long, value_name = "DIR", default_value = OUT)]
    out: PathBuf,
    /// Write event files for TensorBoard into a folder, live: one run per study, case and seed. Runs that train no network
    /// are left out
    #[arg(long, value_name = "DIR")]
    tensorboard: Option<PathBuf>,
    /// Number of parallel runs [default: number of cores]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole)]
    jobs: Option<NonZeroUsize>,
    /// Show the report live at a local address, as `layernorm serve` does, and keep serving it after the runs until Ctrl-C
    #[arg(long, conflicts_with = "estimate")]
    serve: bool,
    /// Print the number of runs and how long they would take on this machine, and exit
    #[arg(long, conflicts_with = "engine")]
    estimate: bool,
    /// Continue the runs in the folder; fail if their settings differ
    #[arg(long)]
    resume: bool,
    /// Run part I of N (parts take about equally long)
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Share the folder with other processes that run the same command; with --shard, that part comes first
    #[arg(long)]
    shared: bool,
    /// Where to execute the runs
    #[arg(long, value_enum, default_value_t = Engine::Local, conflicts_with_all = ["shard", "shared", "resume"])]
    engine: Engine,
    /// With --engine slurm: indices of the array job, one shard each [default: 0-7]
    #[arg(long, value_name = "FIRST-LAST")]
    array: Option<slurm::Array>,
    /// With --engine slurm: arguments for sbatch, such as "--partition=cpu --cpus-per-task=4"
    #[arg(long, value_name = "ARGUMENTS", allow_hyphen_values = true)]
    sbatch_args: Option<String>,
}

/// Where the runs are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Engine {
    /// In this process.
    Local,
    /// In an array job of Slurm, on machines that share the output folder.
    Slurm,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Merge(merge::Args),
}

impl Default for Args {
    fn default() -> Self {
        Args {
            command: None,
            names: Vec::new(),
            list: false,
            full: false,
            data: None,
            seeds: None,
            epochs: None,
            batch_size: None,
            lr: None,
            out: OUT.into(),
            tensorboard: None,
            jobs: None,
            serve: false,
            estimate: false,
            resume: false,
            shard: None,
            shared: false,
            engine: Engine::Local,
            array: None,
            sbatch_args: None,
        }
    }
}

/// Upper limit for --seeds, far above what is practical.
pub const MAX_SEEDS: usize = 1000;
const MAX_EPOCHS: usize = 100_000;

fn seeds(text: &str) -> Result<usize, String> {
    up_to(MAX_SEEDS, text)
}

/// Parses a number of epochs.
pub fn epochs(text: &str) -> Result<usize, String> {
    up_to(MAX_EPOCHS, text)
}

/// Parses a whole number from 1 to `most`.
pub fn up_to(most: usize, text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if (1..=most).contains(&number) => Ok(number),
        _ => Err(format!("expected a whole number from 1 to {most}")),
    }
}

/// Parses a whole number, 1 or more.
pub fn whole(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "expected a whole number, 1 or more".to_owned())
}

/// Parses a number that f32, in which networks compute, can hold: one that is finite there and does not become 0.
pub fn in_f32(text: &str) -> Option<f64> {
    let number = text.parse::<f64>().ok()?;
    let rounded = number as f32;
    (rounded.is_finite() && (rounded == 0.0) == (number == 0.0)).then_some(number)
}

/// An error with the range of f32.
pub fn with_range(expected: &str) -> String {
    format!("{expected}; networks compute in f32, which holds numbers from 1.4e-45 to 3.4e38")
}

/// Parses a learning rate.
pub fn learning_rate(text: &str) -> Result<f64, String> {
    let range = "expected a number above 0, such as 0.001 or 1e-3";
    in_f32(text).filter(|&rate| rate > 0.0).ok_or_else(|| with_range(range))
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    if let Some(Command::Merge(args)) = &args.command {
        return merge::run(args);
    }
    if args.list {
        return show::print(&list());
    }
    args.check_engine()?;
    let studies = session::choose(&args.names)?;
    let names: Vec<&str> = studies.iter().map(|study| study.name()).collect();
    let data = match &args.data {
        Some(folder) => Dataset::open(folder)?,
        None => Dataset::embedded()?,
    };
    let options = args.options(studies);
    if args.estimate {
        return show::print(&(estimate::words(&options.estimate(&data)?) + "\n"));
    }
    if args.engine == Engine::Slurm {
        if args.full {
            show::say(&estimate::words(&options.estimate(&data)?));
        }
        let outcome = slurm::run(&args, &options, &data)?;
        return tell(&args.out, &names, &outcome);
    }
    if args.serve {
        return served::run(&args, options, data, &names);
    }
    let session = open(&args, options, data)?;
    let outcome = work(&session, &args.out, None)?;
    finish(&args, &names, &outcome)
}

/// Opens the session and says what the user should know before it runs.
fn open(args: &Args, options: Options, data: Dataset) -> Result<Session, Failure> {
    let wanted = options.workers;
    let session = Session::open(options, data)?;
    if let Some(path) = &args.tensorboard {
        say_tensorboard(path);
    }
    if session.workers() < wanted {
        show::say(&format!("memory allows {} of {wanted} parallel runs", session.workers()));
    }
    if let Some(estimate) = estimate::before(&session, args.full) {
        show::say(&estimate);
    }
    Ok(session)
}

/// Tells how the runs ended.
fn finish(args: &Args, names: &[&str], outcome: &Outcome) -> Result<(), Failure> {
    if outcome.stopped {
        return Err(stopped(outcome, &args.out));
    }
    match args.shard {
        Some(shard) if !args.shared => tell_shard(shard, &args.out, outcome),
        _ => tell(&args.out, names, outcome),
    }
}

/// Says that a shard is complete; the report is made of all shards.
fn tell_shard(shard: Shard, out: &Path, outcome: &Outcome) -> Result<(), Failure> {
    if let Some(failed) = failures(outcome) {
        return Err(Failure::failed(failed));
    }
    show::print(&format!(
        "Shard {shard} is complete: {} in {}.\n\nNext, when all shards are complete:\n  \
         layernorm study merge OUT {} …\n",
        show::count(outcome.total, "run"),
        out.display(),
        out.display()
    ))
}

impl Args {
    /// Rejects options that the engine does not use.
    fn check_engine(&self) -> Result<(), Failure> {
        let slurm = self.engine == Engine::Slurm;
        let wrong = if !slurm && self.array.is_some() {
            "--array works only with --engine slurm"
        } else if !slurm && self.sbatch_args.is_some() {
            "--sbatch-args works only with --engine slurm"
        } else if slurm && self.serve {
            "--serve does not work with --engine slurm; run `layernorm serve` with the output folder beside it"
        } else if slurm && self.jobs.is_some() {
            "--jobs does not work with --engine slurm: a task executes one run at a time on each of its CPUs; set their \
             number with --sbatch-args \"--cpus-per-task=N\""
        } else {
            return Ok(());
        };
        Err(Failure::bad_input(wrong))
    }

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
        let (resume, shard, shared) = (self.resume, self.shard, self.shared);
        let (folder, tensorboard) = (self.out.clone(), self.tensorboard.clone());
        Options { folder, studies, settings, workers, resume, shard, shared, tensorboard }
    }
}

/// The studies and their questions.
fn list() -> String {
    let studies = catalog::all();
    let width = studies.iter().map(|study| study.name().len()).max().unwrap_or(0);
    let line = |study: &&dyn Study| {
        let alone = study.takes().map_or(String::new(), |time| format!(" (not part of `all`; {time})"));
        format!("  {:width$}  {}{alone}\n", study.name(), study.question())
    };
    studies.iter().map(line).collect()
}

/// Executes the runs, with a handler for Ctrl-C and progress on stderr; the watcher, if given, passes events on to its view.
fn work(session: &Session, out: &Path, watcher: Option<(&Arc<View>, &dyn Watcher)>) -> Result<Outcome, Failure> {
    let view = watcher.map_or_else(|| Arc::new(View::new()), |(view, _)| Arc::clone(view));
    if let Some(aside) = session.set_aside() {
        view.say(&format!("runs with different settings were moved to {}", aside.display()));
    }
    if session.kept() > 0 {
        let words = if session.kept() == 1 { "run is" } else { "runs are" };
        view.say(&format!("{} {words} already finished in {}", session.kept(), out.display()));
    }
    interrupt::listen(&view);
    let outcome = session.run(watcher.map_or(&*view, |(_, watcher)| watcher));
    view.clear();
    Ok(outcome)
}

/// The message after the user stopped the runs.
fn stopped(outcome: &Outcome, out: &Path) -> Failure {
    let failed = failures(outcome).map_or_else(String::new, |failed| format!("{failed}\n"));
    Failure::stopped(format!(
        "{failed}stopped: {}; unfinished runs are kept in {}. To continue:\n  {}",
        finished_of(outcome.finished, outcome.total),
        out.display(),
        again::resume()
    ))
}

/// Such as `3 of 12 runs are finished`.
fn finished_of(finished: usize, total: usize) -> String {
    format!("{finished} of {} {} finished", show::count(total, "run"), if finished == 1 { "is" } else { "are" })
}

/// The failed runs and the reasons; runs with the same reason share a line.
pub fn failures(outcome: &Outcome) -> Option<String> {
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
    (!lines.is_empty())
        .then(|| format!("{} of {} failed:{lines}", outcome.failures.len(), show::count(outcome.total, "run")))
}

/// Makes the report, prints its findings and lists the failed runs.
fn tell(out: &Path, names: &[&str], outcome: &Outcome) -> Result<(), Failure> {
    match session::report(out, about(again::command())?) {
        Ok(report) => {
            let several = names.len() > 1;
            let chosen = |story: &&Story| names.contains(&&*story.id) || (several && story.id == which_norm::ID);
            let stories = report.stories.iter().filter(chosen);
            show::print(&format!("{}\n{}\n{}", found(stories), told(&out.join(REPORT)), summary::next()))?;
        }
        // If no run is finished, the failures explain why.
        Err(session::Error::Nothing { .. }) if !outcome.failures.is_empty() => {}
        Err(error) => return Err(error.into()),
    }
    failures(outcome).map_or(Ok(()), |failed| Err(Failure::failed(failed)))
}

/// Says how to look at the event files of a folder.
pub fn say_tensorboard(folder: &Path) {
    show::say(&format!("event files for TensorBoard: {}", tensorboard(folder)));
}

/// The command that shows a folder in TensorBoard.
pub fn tensorboard(folder: &Path) -> String {
    again::join(&["tensorboard".to_owned(), "--logdir".to_owned(), folder.display().to_string()])
}

/// The origin of a report: program, machine and command.
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
    fn failures_are_grouped_by_reason() {
        let failure = |(run, what): (&str, &str)| session::Failure { run: run.to_owned(), what: what.to_owned() };
        let all = [("a", "x"), ("b", "y"), ("c", "x"), ("d", "z"), ("e", "x"), ("f", "y")];
        let outcome = Outcome { total: 9, failures: all.map(failure).to_vec(), ..Outcome::default() };
        let expected = "6 of 9 runs failed:\n  a and 2 others: x\n  b, f: y\n  d: z";
        assert_eq!(failures(&outcome).as_deref(), Some(expected));
        assert_eq!(failures(&Outcome::default()), None);
    }
}
