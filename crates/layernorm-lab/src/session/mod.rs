//! A session: the runs of some studies, a few at a time, and the report of all that lies in the folder.
//!
//! ```text
//! names → studies → plans → what is there already? → the rest, N at a time → runs/<run>.jsonl → report.html
//! ```
//!
//! A run is the work of one thread, writes one file and knows no other run: its bytes are the same for any number of
//! workers. What a folder holds:
//!
//! ```text
//! runs/<run>.jsonl   the records of a run
//! report.html        what they show
//! old-<n>/runs/      records that made room for runs of the same names with other settings
//! .lock              held by the one session that may write here
//! ```
//!
//! Runs that are there with the same settings are never repeated: finished ones are kept, others go on from their last
//! line. Runs of other settings are never overwritten and never mixed with the new ones: they are set aside, or, where
//! the user wants to go on with what is there, refused.

mod aside;
mod choose;
mod date;
mod error;
mod folder;
mod lock;
mod report;
mod tally;
#[cfg(test)]
mod tests;
mod watch;
mod work;

pub use choose::choose;
pub use date::today;
pub use error::Error;
pub use lock::Lock;
pub use report::{REPORT, report};
pub use tally::Whole;
pub use watch::{Ending, Event, Watcher};

use crate::data::Dataset;
use crate::memory;
use crate::records::Header;
use crate::studies::{RunPlan, Settings, Study};
use crate::training::Spec;
use serde::Deserialize;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// What to run, and where.
#[derive(Clone)]
pub struct Options {
    /// The folder of records and report; it is made where it is not there.
    pub folder: PathBuf,
    /// The studies, in the order in which they run.
    pub studies: Vec<&'static dyn Study>,
    /// What the user chose. The data's label is filled in by [`Session::open`].
    pub settings: Settings,
    /// Runs at a time, if there is memory for them.
    pub workers: NonZeroUsize,
    /// Whether runs of other settings in the folder are an error. Else they are set aside.
    pub resume: bool,
}

/// A folder that is this session's alone, and the runs that it still lacks.
pub struct Session {
    folder: PathBuf,
    data: Dataset,
    workers: NonZeroUsize,
    jobs: Vec<Job>,
    kept: usize,
    set_aside: Option<PathBuf>,
    /// Held until the session is dropped.
    _lock: Lock,
}

/// A run to be done.
struct Job {
    study: &'static dyn Study,
    plan: RunPlan,
}

impl Job {
    fn header(&self) -> Header {
        Header::new(self.study.name(), &self.plan.run, self.plan.settings.clone())
    }
}

/// Looks at all runs before anything is written: the first that cannot be, and how many there are; then whether there is memory
/// for the largest. Gives how many may go on at a time.
fn check(jobs: &[Job], data: &Dataset, workers: NonZeroUsize) -> Result<NonZeroUsize, Error> {
    let spec = |job: &Job| Spec::deserialize(&job.plan.settings["spec"]).ok();
    let wrong = |job: &Job| Some((job.plan.run.clone(), spec(job)?.check(data).err()?.to_string()));
    let mut wrong = jobs.iter().filter_map(wrong);
    if let Some((run, what)) = wrong.next() {
        return Err(Error::Unfit { run, what, others: wrong.count() });
    }
    let bytes: Vec<f64> = jobs.iter().filter_map(|job| Some(spec(job)?.memory(data))).collect();
    let largest = bytes.iter().copied().fold(0.0, f64::max);
    memory::check(largest, "the largest of the runs").map_err(|what| Error::Memory { what })?;
    Ok(memory::at_a_time(bytes, workers))
}

/// What became of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Runs that are finished, those of earlier sessions too.
    pub finished: usize,
    /// Runs that the studies want.
    pub total: usize,
    /// Runs that failed, in the order of the plan.
    pub failures: Vec<Failure>,
    /// Whether the user ended it early.
    pub stopped: bool,
}

/// A run that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its name.
    pub run: String,
    /// What is wrong.
    pub what: String,
}

impl Session {
    /// Takes a folder: locks it, looks at what is there, and sets aside what has other settings.
    ///
    /// # Errors
    /// [`Error::Busy`] where another process has it, [`Error::Records`] where a record cannot be read,
    /// [`Error::OtherSettings`] where the user wants to go on with runs of other settings, [`Error::Unfit`] where runs do not
    /// fit the data or the settings, [`Error::Memory`] where there is too little for them, [`Error::Io`].
    pub fn open(options: Options, data: Dataset) -> Result<Session, Error> {
        let Options { folder, studies, mut settings, workers, resume } = options;
        settings.data = data.label();
        settings.images = [data.train.len(), data.test.len()];
        settings.image = [data.train.rows(), data.train.columns()];
        let lock = Lock::take(&folder)?;
        let plan = |study: &'static dyn Study| {
            study.plan(&settings).into_iter().map(move |plan| Job { study, plan }).collect::<Vec<_>>()
        };
        let jobs: Vec<Job> = studies.into_iter().flat_map(plan).collect();
        let workers = check(&jobs, &data, workers)?;
        let total = jobs.len();
        folder::remove_unfinished(&folder);
        let there = folder::runs(&folder)?;
        let wanted: Vec<Header> = jobs.iter().map(Job::header).collect();
        let set_aside = aside::make_room(&folder, &there, &wanted, resume)?;
        there
            .iter()
            .filter(|run| run.finished)
            .for_each(|run| folder::tidy(&folder::runs_of(&folder), &run.header.run));
        let finished = |job: &Job| there.iter().any(|run| run.finished && run.header == job.header());
        let jobs: Vec<Job> = jobs.into_iter().filter(|job| !finished(job)).collect();
        Ok(Session { folder, data, workers, kept: total - jobs.len(), jobs, set_aside, _lock: lock })
    }

    /// Runs at a time: fewer than were asked for where there is no memory for them.
    pub fn workers(&self) -> NonZeroUsize {
        self.workers
    }

    /// Runs that are finished already.
    pub fn kept(&self) -> usize {
        self.kept
    }

    /// Where runs of other settings went, if there were any.
    pub fn set_aside(&self) -> Option<&std::path::Path> {
        self.set_aside.as_deref()
    }

    /// Does the runs that are left. One that fails, or panics, is part of the outcome, and the others go on.
    pub fn run(&self, watcher: &dyn Watcher) -> Outcome {
        work::run(self, watcher)
    }
}
