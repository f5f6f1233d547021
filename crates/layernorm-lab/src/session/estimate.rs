//! Estimates how long the runs of a session take, before it starts.
//!
//! ```text
//! e    cost of a run in units (`studies::effort`)
//! u    seconds per unit here: the time of a training step on this machine, divided by its cost
//! w    number of parallel runs
//!
//! time = max(u·Σe / w, u·max e)
//! ```
//!
//! All workers time steps at once, so that u includes what they lose by sharing cores, caches and memory.

use super::{Error, Options, Session, check, folder, own};
use crate::data::Dataset;
use crate::models::{Arch, Norm, Reads};
use crate::studies::{REFERENCE_UNIT, RunPlan, step_effort};
use crate::training::{self, Spec};
use std::num::NonZeroUsize;
use std::thread;
use std::time::Duration;

/// How long each worker times steps, for each of the networks below.
const SAMPLE: Duration = Duration::from_millis(300);

/// Estimated time of the runs that are still to be done.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The studies with runs to do, in order.
    pub studies: Vec<StudyEstimate>,
    /// All runs.
    pub time: Duration,
    /// Number of parallel runs.
    pub workers: NonZeroUsize,
}

/// Estimated time of a study.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StudyEstimate {
    /// Name of the study.
    pub study: String,
    /// Runs to do.
    pub runs: usize,
    /// Its share of the session's time.
    pub time: Duration,
}

impl Estimate {
    /// The estimate for a machine on which a unit takes `unit` seconds.
    pub(super) fn new(plans: &[RunPlan], workers: NonZeroUsize, unit: f64) -> Estimate {
        let seconds = |effort: f64| Duration::try_from_secs_f64(effort * unit).unwrap_or(Duration::MAX);
        let mut studies: Vec<(StudyEstimate, f64)> = Vec::new();
        for plan in plans {
            let name = &plan.header().study;
            if studies.last().is_none_or(|(last, _)| last.study != *name) {
                studies.push((StudyEstimate { study: name.clone(), runs: 0, time: Duration::ZERO }, 0.0));
            }
            if let Some((study, effort)) = studies.last_mut() {
                study.runs += 1;
                *effort += plan.effort();
            }
        }
        let all: f64 = studies.iter().map(|(_, effort)| effort).sum();
        let longest = plans.iter().map(RunPlan::effort).fold(0.0, f64::max);
        let each = workers.get() as f64;
        let shared = |(study, effort)| StudyEstimate { time: seconds(effort / each), ..study };
        Estimate { studies: studies.into_iter().map(shared).collect(), time: seconds(longest.max(all / each)), workers }
    }

    /// Number of runs to do.
    pub fn runs(&self) -> usize {
        self.studies.iter().map(|study| study.runs).sum()
    }
}

/// The networks whose steps are timed: one whose time is in Burn's operations, one in the fused recurrent kernels.
fn samples(data: &Dataset) -> [Spec; 2] {
    let mlp = Spec::new(Arch::mlp(&[100, 100]), Norm::Layer, 1, &data.label());
    [mlp.clone(), Spec { arch: Arch::lstm(32, Reads::Rows), ..mlp }].map(|spec| {
        let train = data.train.len().saturating_sub(1).min(spec.train);
        Spec { train, validation: 1, test: 0, batch_size: spec.batch_size.min(train), ..spec }
    })
}

/// Seconds per unit on this machine with this many workers; `None` if it cannot be measured.
fn calibrate(data: &Dataset, workers: NonZeroUsize) -> Option<f64> {
    let unit = |spec: &Spec| Some(training::step_time(spec, data, SAMPLE).ok()? / step_effort(spec));
    let worker = || {
        layernorm_burn::set_threads(Some(NonZeroUsize::MIN));
        let units: Vec<f64> = samples(data).iter().filter_map(unit).collect();
        (!units.is_empty()).then(|| units.iter().sum::<f64>() / units.len() as f64)
    };
    // More threads than cores would measure the same, only for longer.
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = workers.get().min(cores);
    let units: Vec<f64> = thread::scope(|scope| {
        let started: Vec<_> =
            (0..threads).filter_map(|_| thread::Builder::new().spawn_scoped(scope, worker).ok()).collect();
        started.into_iter().filter_map(|thread| thread.join().ok().flatten()).collect()
    });
    let oversubscribed = workers.get() as f64 / threads as f64;
    (!units.is_empty()).then(|| oversubscribed * units.iter().sum::<f64>() / units.len() as f64)
}

impl Session {
    /// The estimate by the reference machine's speed, which takes no time.
    pub fn rough_estimate(&self) -> Estimate {
        Estimate::new(&self.plans, self.workers, REFERENCE_UNIT)
    }

    /// The estimate for this machine, which takes up to a second.
    pub fn estimate(&self) -> Estimate {
        let unit = calibrate(&self.data, self.workers).unwrap_or(REFERENCE_UNIT);
        Estimate::new(&self.plans, self.workers, unit)
    }
}

impl Options {
    /// The estimate of a session with these options, which is not opened: nothing is written. Takes up to a second.
    ///
    /// # Errors
    /// As [`Session::open`], except for what locking and writing can cause.
    pub fn estimate(&self, data: &Dataset) -> Result<Estimate, Error> {
        let mut plans = self.plans(data);
        if let Some(shard) = self.shard {
            plans = own(plans, shard, self.shared);
        }
        let workers = check(&plans, data, self.workers)?;
        let existing = folder::runs(&self.folder)?;
        plans.retain(|plan| !existing.iter().any(|run| run.finished && run.header == *plan.header()));
        Ok(Estimate::new(&plans, workers, calibrate(data, workers).unwrap_or(REFERENCE_UNIT)))
    }
}
