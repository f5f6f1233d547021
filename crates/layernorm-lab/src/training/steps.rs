//! The loop of a training run: evaluations when they are due, checkpoints, progress, and the end of a run that diverges.

use super::events::Diverged;
use super::run::json;
use crate::records::RunFile;
use crate::studies::{Error, Observer};
use std::time::{Duration, Instant};

/// Interval between checkpoints, which limits the work lost if a run is killed.
pub(super) const CHECKPOINT_EVERY: Duration = Duration::from_secs(2);

/// A network in training, with everything that changes from step to step.
pub(crate) trait Steps {
    /// Number of completed steps.
    fn done(&self) -> usize;

    /// Executes one training step; returns whether the loss was finite. If not, nothing changes.
    fn step(&mut self) -> Result<bool, Error>;

    /// Writes an evaluation, as an event `evaluate`; returns a short status.
    fn evaluate(&mut self, file: &mut RunFile) -> Result<String, Error>;

    /// Notes how many events the file has, for the next checkpoint.
    fn note_events(&mut self, events: usize);

    /// Writes a checkpoint.
    fn save(&self, file: &RunFile) -> Result<(), Error>;
}

/// Executes the steps that are left of `steps`, and writes the evaluations that are due before a step or at the end;
/// returns whether the loss stayed finite.
///
/// # Errors
/// [`Error::Stopped`] if the observer asked to stop; no checkpoint has been written then.
pub(crate) fn execute(
    network: &mut impl Steps,
    steps: usize,
    evaluations: &[usize],
    file: &mut RunFile,
    observer: &mut dyn Observer,
) -> Result<bool, Error> {
    let (mut saved, mut words) = (Instant::now(), String::new());
    loop {
        let done = network.done();
        let evaluated = |data: &serde_json::Value| data["step"] == done;
        if evaluations.contains(&done) && !file.record().named("evaluate").any(evaluated) {
            words = network.evaluate(file)?;
        }
        network.note_events(file.record().events.len());
        if done == steps {
            return Ok(true);
        }
        observer.progress(done as f64 / steps as f64, &words);
        if observer.stop() {
            return Err(Error::Stopped);
        }
        if saved.elapsed() >= CHECKPOINT_EVERY {
            network.save(file)?;
            saved = Instant::now();
        }
        if !network.step()? {
            file.event("diverged", json(&Diverged { step: done })?)?;
            return Ok(false);
        }
    }
}
