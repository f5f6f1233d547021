//! Studies: questions, the runs that answer them, and the stories that the report tells of their records.
//!
//! A study plans runs; a run writes events into its file; a story is made of the records of the study's runs and of nothing
//! else, so that old records can be shown again without training.

pub mod activations;
pub mod batch_size;
pub mod catalog;
pub mod compare;
pub mod correlation;
mod effort;
pub mod epsilon;
mod exact;
pub mod gain_bias;
pub mod gradient_flow;
pub mod implementations;
pub mod invariance;
pub mod learning_rate;
mod probed;
pub mod robustness;
pub mod sequence_length;
pub(crate) mod tools;
pub mod train_test;
mod trained;
pub mod worked_example;

use crate::data::Dataset;
use crate::records::{self, Record, RunFile};
use crate::report::Story;
use serde_json::Value;
use std::path::Path;

/// What the user chose. A setting that is `None` is the study's own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// The full size instead of the quick one.
    pub full: bool,
    /// Seeds for each comparison.
    pub seeds: Option<usize>,
    /// Epochs of each training run.
    pub epochs: Option<usize>,
    /// Cases in a batch.
    pub batch_size: Option<usize>,
    /// The learning rate.
    pub learning_rate: Option<f64>,
    /// What data it is, as [`Dataset::label`] says: part of what decides a training run's numbers.
    pub data: String,
    /// How many images it has to train and to test with; 0: as many as the embedded ones.
    pub images: [usize; 2],
    /// Rows and columns of an image; 0: those of the embedded ones.
    pub image: [usize; 2],
}

impl Settings {
    /// What the full size trains, validates and tests on: all that there is, a fifth of the training images held back.
    pub(crate) fn all_images(&self) -> [usize; 3] {
        let [train, test] = if self.images == [0, 0] { [10_000, 2_000] } else { self.images };
        [train - train / 5, train / 5, test]
    }
}

/// A run that a study wants.
#[derive(Clone, Debug, PartialEq)]
pub struct RunPlan {
    /// Its name, which is also its file's.
    pub run: String,
    /// Everything that decides its numbers.
    pub settings: Value,
}

/// Why a run ended before its time.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Its records could not be written.
    Records(records::Error),
    /// It was asked to stop; what it has done is on disk.
    Stopped,
    /// Something is wrong with its settings or data.
    Run(String),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Records(error) => error.fmt(f),
            Error::Stopped => f.write_str("stopped; the same command goes on from here"),
            Error::Run(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {}

impl From<records::Error> for Error {
    fn from(error: records::Error) -> Self {
        Error::Records(error)
    }
}

/// What a run tells while it goes on, and asks.
pub trait Observer {
    /// So much of the run is done, 0 to 1, with a few words about it (loss, accuracy).
    fn progress(&mut self, done: f64, words: &str);
    /// Whether to stop now.
    fn stop(&self) -> bool;
}

/// A study.
pub trait Study: Sync {
    /// Its name, as the command takes it.
    fn name(&self) -> &'static str;
    /// What it asks, in a line.
    fn question(&self) -> &'static str;
    /// The runs that answer it.
    fn plan(&self, settings: &Settings) -> Vec<RunPlan>;
    /// How much work a run is beside the others, roughly: the time left is reckoned with it.
    fn effort(&self, plan: &RunPlan) -> f64 {
        effort::effort(plan)
    }
    /// Does a run, or what is left of it: `file` holds what was done before. What is here trains, as the plan's spec says;
    /// studies that do something else leave the data alone.
    fn run(
        &self,
        plan: &RunPlan,
        data: &Dataset,
        file: &mut RunFile,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        trained::run(plan, data, file, observer)
    }
    /// What its records show. They are those of this study's runs, finished ones only.
    fn story(&self, records: &[Record]) -> Story;
    /// Adds what lies beside the records in their folder to the story: what differs from run to run and so cannot be in them,
    /// like times.
    fn add_measured(&self, _story: &mut Story, _runs: &Path) {}
}
