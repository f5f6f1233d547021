//! The current state, as viewers get it.

use layernorm_lab::report::Verdicts;
use layernorm_lab::session::Progress;
use serde::Serialize;

/// The state of all folders and of the job of this process.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct State {
    pub folders: Vec<Folder>,
    pub job: Job,
}

/// A folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Folder {
    /// Number of finished runs.
    pub finished: usize,
    /// Number of runs that have begun and are not finished, running or not.
    pub unfinished: usize,
    /// The runs in progress, up to [`MOST_RUNNING`].
    pub running: Vec<Running>,
    /// Findings by verdict.
    pub verdicts: Counts,
    /// Number of the report; a page with a lower one asks for the new one.
    pub report: u64,
    /// Why the folder cannot be read, or its report not made.
    pub problem: Option<String>,
}

/// Runs in progress that a folder lists at most.
pub const MOST_RUNNING: usize = 64;

/// A run in progress.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Running {
    pub run: String,
    /// The completed fraction; `None` if unknown.
    pub done: Option<f64>,
    /// The latest loss, or other results.
    pub words: String,
}

/// Number of findings by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub supported: usize,
    pub contradicted: usize,
    pub undecided: usize,
}

impl From<Verdicts> for Counts {
    fn from(Verdicts { supported, contradicted, undecided }: Verdicts) -> Counts {
        Counts { supported, contradicted, undecided }
    }
}

/// The studies that this process runs, ran or was asked to run last.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Job {
    pub phase: Phase,
    /// Number of its folder.
    pub folder: usize,
    /// Names of its studies.
    pub studies: Vec<String>,
    /// Ended and planned runs.
    pub ended: usize,
    pub total: usize,
    /// The completed fraction of the work.
    pub done: f64,
    /// Estimated seconds left.
    pub left: Option<u64>,
    /// What else there is to say: why it failed, which runs failed, where older runs were moved.
    pub message: String,
}

impl Job {
    pub fn set_progress(&mut self, progress: &Progress) {
        (self.ended, self.total, self.done) = (progress.ended, progress.total, progress.done);
        self.left = progress.left.map(|left| left.as_secs());
    }
}

/// What a job is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// There was none yet.
    #[default]
    Idle,
    /// Its folder is being opened.
    Opening,
    Running,
    /// Asked to stop; its runs end at their next step.
    Stopping,
    /// Stopped before its end; can be resumed.
    Stopped,
    /// All runs have ended.
    Finished,
    /// Could not start.
    Failed,
}

impl Phase {
    /// Whether it keeps its folder.
    pub fn is_active(self) -> bool {
        matches!(self, Phase::Opening | Phase::Running | Phase::Stopping)
    }
}
