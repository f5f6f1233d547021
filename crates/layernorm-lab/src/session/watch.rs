//! Progress events of a session, and its stop request.

use super::Progress;
use std::time::Duration;

/// An event of a run. A worker has one run at a time; workers are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event<'a> {
    /// A worker starts a run.
    Began {
        /// The worker.
        worker: usize,
        /// The run.
        run: &'a str,
        /// Whether it was partly done before.
        resumed: bool,
    },
    /// The run has made progress.
    Progress {
        /// The worker.
        worker: usize,
        /// The run.
        run: &'a str,
        /// The completed fraction, from 0 to 1.
        done: f64,
        /// A short status: loss, accuracy.
        words: &'a str,
    },
    /// The run has ended.
    Ended {
        /// The worker.
        worker: usize,
        /// The run.
        run: &'a str,
        /// How it ended.
        ending: &'a Ending,
        /// How long it took in this session.
        took: Duration,
    },
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its records are complete.
    Finished,
    /// It was asked to stop; its progress is on disk.
    Stopped,
    /// It failed, for this reason.
    Failed(String),
}

/// Receives the events of a session. Called from several threads.
pub trait Watcher: Sync {
    /// An event, with the progress of the whole session.
    fn event(&self, event: Event<'_>, progress: &Progress);
    /// Whether to stop now.
    fn stop(&self) -> bool;
}
