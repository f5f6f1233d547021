//! A session: executes the runs of some studies in parallel, and makes the report of the folder.
//!
//! ```text
//! names → studies → plans → existing runs? → the rest, N in parallel → runs/<run>.jsonl → report.html
//! ```
//!
//! A run is executed by one worker, writes one file and is independent of other runs, so its bytes are the same for any
//! number of workers. Contents of a folder:
//!
//! ```text
//! runs/<run>.jsonl   the records of a run
//! report.html        the report
//! old-<n>/runs/      records with different settings, moved aside
//! .lock              lock of the session that is using the folder
//! plan.json          in the folder of a shard: all runs of all shards
//! ```
//!
//! A session may have a part of the runs ([`Shard`]), with a folder of its own, and [`merge`] unites the folders. Or
//! several sessions share a folder: each locks the file of a run before it executes it, and continues with the runs of
//! sessions that were killed. Either way the records are those of one session with all runs.
//!
//! Existing runs with the same settings are not repeated: finished ones are kept, unfinished ones are resumed. Runs
//! with different settings are never overwritten or mixed with new ones: they are moved aside or, with `resume`, cause
//! an error.

mod aside;
mod choose;
mod date;
mod error;
mod estimate;
mod folder;
mod live;
mod lock;
mod merge;
mod plan_file;
mod report;
mod shard;
mod show;
mod tally;
#[cfg(test)]
mod tests;
mod wanted;
mod watch;
mod work;

pub use choose::choose;
pub use date::today;
pub use error::Error;
pub use estimate::{Estimate, StudyEstimate};
pub use live::{Live, LiveRun};
pub use lock::Lock;
pub use merge::{Merged, merge};
pub use report::{REPORT, assemble, report};
pub use shard::Shard;
pub use show::show_in_tensorboard;
pub use tally::Progress;
pub use wanted::Wanted;
pub use watch::{Ending, Event, Watcher};

use crate::data::Dataset;
use crate::memory;
use crate::records::Header;
use crate::studies::{RunPlan, Settings, Study};
use crate::tensorboard;
use plan_file::PlanFile;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Options of a session.
#[derive(Clone)]
pub struct Options {
    /// Folder for records and report, created if it does not exist.
    pub folder: PathBuf,
    /// The studies, in order of execution.
    pub studies: Vec<&'static dyn Study>,
    /// The user's settings. [`Session::open`] fills in the data's label.
    pub settings: Settings,
    /// Number of parallel runs, if memory allows.
    pub workers: NonZeroUsize,
    /// Whether runs with different settings in the folder are an error. Otherwise they are moved aside.
    pub resume: bool,
    /// Which of the runs to execute; `None` means all. In a shared folder these come first, then all others.
    pub shard: Option<Shard>,
    /// Whether other sessions may use the folder at the same time. Implies `resume`.
    pub shared: bool,
    /// Folder for TensorBoard's event files, if wanted. It also gets the runs that are already finished.
    pub tensorboard: Option<PathBuf>,
}

impl Options {
    /// The runs of all shards.
    fn plans(&self, data: &Dataset) -> Vec<RunPlan> {
        let mut settings = self.settings.clone();
        settings.data = data.label();
        settings.images = [data.train.len(), data.test.len()];
        settings.image = [data.train.rows(), data.train.columns()];
        self.studies.iter().flat_map(|study| study.plan(&settings)).collect()
    }
}

/// A locked folder, and the runs that are still to be done.
pub struct Session {
    folder: PathBuf,
    data: Dataset,
    workers: NonZeroUsize,
    plans: Vec<RunPlan>,
    kept: usize,
    set_aside: Option<PathBuf>,
    shared: bool,
    tensorboard: Option<tensorboard::Folder>,
    /// Held while the session exists.
    _lock: Lock,
}

/// Checks all runs before anything is written: whether each is possible, and whether there is memory for the largest.
/// Returns the number of parallel runs.
fn check(plans: &[RunPlan], data: &Dataset, workers: NonZeroUsize) -> Result<NonZeroUsize, Error> {
    let wrong = |plan: &RunPlan| Some((plan.run().to_owned(), plan.check(data).err()?.to_string()));
    let mut wrong = plans.iter().filter_map(wrong);
    if let Some((run, what)) = wrong.next() {
        return Err(Error::Unfit { run, what, others: wrong.count() });
    }
    let bytes: Vec<f64> = plans.iter().filter_map(|plan| plan.memory(data)).collect();
    let largest = bytes.iter().copied().fold(0.0, f64::max);
    memory::check(largest, "the largest run").map_err(|what| Error::Memory { what })?;
    Ok(memory::at_a_time(bytes, workers))
}

/// The runs of a shard; in a shared folder followed by all others.
fn own(plans: Vec<RunPlan>, shard: Shard, shared: bool) -> Vec<RunPlan> {
    let efforts: Vec<f64> = plans.iter().map(RunPlan::effort).collect();
    let selected = shard.select(&efforts);
    let (own, others): (Vec<_>, Vec<_>) = plans.into_iter().zip(selected).partition(|(_, own)| *own);
    own.into_iter().chain(others.into_iter().filter(|_| shared)).map(|(plan, _)| plan).collect()
}

/// Result of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Finished runs, including those of earlier sessions.
    pub finished: usize,
    /// All planned runs.
    pub total: usize,
    /// Failed runs, in the order of the plan.
    pub failures: Vec<Failure>,
    /// Whether the user stopped it early.
    pub stopped: bool,
}

/// A run that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Name of the run.
    pub run: String,
    /// The error.
    pub what: String,
}

impl Session {
    /// Opens a folder: locks it, reads its runs, and moves those with different settings aside.
    ///
    /// # Errors
    /// [`Error::Busy`] if another process uses the folder, [`Error::NoLocks`] if it cannot be shared, [`Error::Records`]
    /// if a record cannot be read, [`Error::OtherSettings`] if `resume` is set and runs have different settings, [`Error::Unfit`] if runs do not
    /// fit the data or the settings, [`Error::Memory`] if there is too little memory, [`Error::Tensorboard`] if event files cannot
    /// be written, [`Error::Io`].
    pub fn open(options: Options, data: Dataset) -> Result<Session, Error> {
        let mut plans = options.plans(&data);
        let Options { folder, workers, resume, shard, shared, tensorboard, .. } = options;
        let lock = if shared { Lock::share(&folder) } else { Lock::take(&folder) }?;
        if let Some(shard) = shard {
            let all = PlanFile::new(&plans);
            plans = own(plans, shard, shared);
            if !shared {
                all.write(&folder)?;
            }
        }
        let workers = check(&plans, &data, workers)?;
        if !shared {
            folder::remove_unfinished(&folder);
        }
        let existing = folder::runs(&folder)?;
        let wanted: Vec<&Header> = plans.iter().map(RunPlan::header).collect();
        let tensorboard = tensorboard.map(|path| show::open(&path, &wanted)).transpose()?;
        let set_aside = aside::make_room(&folder, &existing, &wanted, resume || shared)?;
        let finished = || existing.iter().filter(|run| run.finished);
        finished().for_each(|run| folder::tidy(&folder::runs_of(&folder), &run.header.run));
        let (kept, plans): (Vec<_>, Vec<_>) =
            plans.into_iter().partition(|plan| finished().any(|run| run.header == *plan.header()));
        if let Some(tensorboard) = &tensorboard {
            show::write(tensorboard, kept.iter().map(|plan| folder::path(&folder, plan.run())))?;
        }
        let kept = kept.len();
        Ok(Session { folder, data, workers, kept, plans, set_aside, shared, tensorboard, _lock: lock })
    }

    /// Number of parallel runs: fewer than requested if memory is short.
    pub fn workers(&self) -> NonZeroUsize {
        self.workers
    }

    /// Number of runs that were already finished.
    pub fn kept(&self) -> usize {
        self.kept
    }

    /// Where runs with different settings were moved, if there were any.
    pub fn set_aside(&self) -> Option<&std::path::Path> {
        self.set_aside.as_deref()
    }

    /// Executes the remaining runs. A run that fails or panics is reported in the outcome; the others continue.
    pub fn run(&self, watcher: &dyn Watcher) -> Outcome {
        work::run(self, watcher)
    }
}
