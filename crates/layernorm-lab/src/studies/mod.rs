//! Studies: questions, the runs that answer them, and the sections of the report made from their records.
//!
//! A study plans runs ([`RunPlan`]), which train a network or compute something else ([`Computation`]). A run writes
//! events to its file. A story is made from the records of the study's runs, so old records can be shown again without
//! training. [`Study::add_measured`] adds times, which are stored beside the records.

pub mod activations;
pub mod batch_size;
pub mod catalog;
mod characters;
pub mod compare;
pub mod correlation;
pub mod depth;
pub mod draw;
pub mod dynamics;
pub mod effective_rate;
mod effort;
pub mod epsilon;
mod findings;
pub mod gain_bias;
pub mod generalization;
pub mod gradient_flow;
pub mod implementations;
pub mod induced_shift;
pub mod invariance;
pub mod language;
pub mod learning_rate;
mod plan;
mod probed;
pub mod robustness;
pub mod sequence_length;
pub mod step_statistics;
pub mod stream;
pub mod text_length;
pub(crate) mod tools;
pub mod train_test;
mod trained;
pub mod which_norm;
pub mod worked_example;

pub use effort::UNIT as REFERENCE_UNIT;
pub(crate) use effort::step as step_effort;
pub(crate) use plan::Common;
pub use plan::{Computation, RunPlan};

use crate::records::{self, Record};
use crate::report::Story;
use crate::tensorboard;
use std::path::Path;

/// The user's settings. `None` means the study's default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Run the full-size study instead of the quick one.
    pub full: bool,
    /// Number of seeds per comparison.
    pub seeds: Option<usize>,
    /// Epochs per training run.
    pub epochs: Option<usize>,
    /// Batch size.
    pub batch_size: Option<usize>,
    /// The learning rate.
    pub learning_rate: Option<f64>,
    /// The dataset's [`label`](crate::data::Dataset::label): part of what determines the results of a training run.
    pub data: String,
    /// Number of training and test images; 0 means those of the embedded dataset.
    pub images: [usize; 2],
    /// Rows and columns of an image; 0 means those of the embedded dataset.
    pub image: [usize; 2],
}

impl Settings {
    /// Numbers of training, validation and test images in the full study: the whole dataset, with a fifth of the
    /// training images held out for validation.
    pub(crate) fn all_images(&self) -> [usize; 3] {
        let [train, test] = if self.images == [0, 0] { [10_000, 2_000] } else { self.images };
        [train - train / 5, train / 5, test]
    }
}

/// Why a run did not finish.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The records could not be written.
    Records(records::Error),
    /// The run was asked to stop; its progress is on disk.
    Stopped,
    /// The settings or the data are invalid.
    Run(String),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Records(error) => error.fmt(f),
            Error::Stopped => f.write_str("stopped; run the same command again to continue"),
            Error::Run(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {}

impl From<tensorboard::Error> for Error {
    fn from(error: tensorboard::Error) -> Self {
        Error::Records(error.into())
    }
}

impl From<records::Error> for Error {
    fn from(error: records::Error) -> Self {
        Error::Records(error)
    }
}

/// Receives a run's progress and can stop it.
pub trait Observer {
    /// The completed fraction of the run, from 0 to 1, with a short status (loss, accuracy).
    fn progress(&mut self, done: f64, words: &str);
    /// Whether to stop now.
    fn stop(&self) -> bool;
}

/// A study.
pub trait Study: Sync {
    /// Name on the command line.
    fn name(&self) -> &'static str;
    /// The question, in one line.
    fn question(&self) -> &'static str;
    /// The runs that answer it.
    fn plan(&self, settings: &Settings) -> Vec<RunPlan>;
    /// Makes the story from the records of this study's finished runs.
    fn story(&self, records: &[Record]) -> Story;
    /// For a study that takes so long that it only runs if it is named, not with `all`: how long.
    fn takes(&self) -> Option<&'static str> {
        None
    }
    /// Adds measurements stored beside the records to the story: those that differ from run to run, such as times.
    fn add_measured(&self, _story: &mut Story, _runs: &Path) {}
}
