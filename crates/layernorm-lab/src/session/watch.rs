//! What a session tells while it goes on, and asks.

use super::Whole;
use std::time::Duration;

/// Something that happened to a run. A worker has one run at a time; workers are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event<'a> {
    /// A worker takes up a run.
    Began {
        /// The worker.
        worker: usize,
        /// The run.
        run: &'a str,
        /// Whether a part of it was done before.
        resumed: bool,
    },
    /// It has come further.
    Progress {
        /// The worker.
        worker: usize,
        /// The run.
        run: &'a str,
        /// How much of it is done, from 0 to 1.
        done: f64,
        /// What it says of itself: loss, accuracy.
        words: &'a str,
    },
    /// It is over.
    Ended {
        /// The worker.
        worker: usize,
        /// The run.
        run: &'a str,
        /// How.
        ending: &'a Ending,
        /// How long it took in this session.
        took: Duration,
    },
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its records are whole.
    Finished,
    /// It was asked to stop; what it has done is on disk.
    Stopped,
    /// It could not go on, for this reason.
    Failed(String),
}

/// Who looks on. Calls come from several threads.
pub trait Watcher: Sync {
    /// Something happened; so far is the whole session now.
    fn event(&self, event: Event<'_>, whole: &Whole);
    /// Whether to stop now.
    fn stop(&self) -> bool;
}
