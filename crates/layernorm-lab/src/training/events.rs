//! Events of a training run, and how they are read. Non-finite numbers are written as `null`.

use super::Spec;
use crate::records::Record;
use crate::report::RunRow;
use serde::{Deserialize, Serialize};

/// `evaluate`: loss and accuracy at a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluate {
    /// Number of completed steps.
    pub step: usize,
    /// Mean training loss since the last evaluation; `None` before the first step.
    pub train_loss: Option<f64>,
    /// Accuracy on them, from 0 to 1.
    pub train_accuracy: Option<f64>,
    /// Mean loss on the validation images.
    pub loss: Option<f64>,
    /// Accuracy on them, from 0 to 1.
    pub accuracy: Option<f64>,
}

/// `test`, or `trial` with a name: loss and accuracy on the test images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Test {
    /// The trial's name; empty for the test itself.
    #[serde(default)]
    pub name: String,
    /// Mean loss.
    pub loss: Option<f64>,
    /// Accuracy, from 0 to 1.
    pub accuracy: Option<f64>,
}

/// `gradients`: ‖∂L/∂W‖ of each layer, where L is the mean loss of one batch. `time`: ‖∂L/∂h‖ of each time step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gradients {
    /// Number of completed steps.
    pub step: usize,
    /// Names of the layers, or numbers of the time steps from 1.
    pub places: Vec<String>,
    /// The norms.
    pub norms: Vec<Option<f64>>,
}

/// `moments`: mean and variance of all hidden units of a layer over some images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moments {
    /// Number of completed steps.
    pub step: usize,
    /// The layer.
    pub layer: String,
    /// Mean and variance before the norm.
    pub before: [Option<f64>; 2],
    /// Mean and variance after the norm.
    pub after: [Option<f64>; 2],
}

/// `correlation`: correlations of the first hidden units of a layer over some images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Correlation {
    /// Number of completed steps.
    pub step: usize,
    /// The layer.
    pub layer: String,
    /// Number of units.
    pub units: usize,
    /// Before the norm, row by row, rounded to three decimals; 0 for constant units.
    pub before: Vec<f64>,
    /// The same after the norm.
    pub after: Vec<f64>,
}

/// `activations`: the last hidden layer for some images, in the first three principal components.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Activations {
    /// Number of completed steps.
    pub step: usize,
    /// The layer.
    pub layer: String,
    /// x, y, z and the class of each image.
    pub points: Vec<[f64; 4]>,
    /// The fraction of the variance in each component.
    pub shares: [f64; 3],
}

/// `diverged`: the loss became NaN or infinite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Diverged {
    /// Number of steps completed before.
    pub step: usize,
}

/// The number, or `None` if it is not finite.
pub(crate) fn finite(number: f64) -> Option<f64> {
    number.is_finite().then_some(number)
}

/// A training run read from its record.
#[derive(Clone, Debug, PartialEq)]
pub struct Trained {
    /// The specification.
    pub spec: Spec,
    /// Its evaluations, in order.
    pub evaluations: Vec<Evaluate>,
    /// The test result, if the run got that far.
    pub test: Option<Test>,
    /// Its trials.
    pub trials: Vec<Test>,
    /// The step at which it diverged, if it did.
    pub diverged: Option<usize>,
}

impl Trained {
    /// Reads a record; `None` if it is not that of a training run.
    pub fn read(record: &Record) -> Option<Trained> {
        let spec = Spec::deserialize(&record.header.settings["spec"]).ok()?;
        Some(Trained::of(spec, record))
    }

    /// Reads the events of a training run with this specification.
    pub(crate) fn of(spec: Spec, record: &Record) -> Trained {
        let all = |name| record.named(name);
        Trained {
            spec,
            evaluations: all("evaluate").filter_map(|data| Evaluate::deserialize(data).ok()).collect(),
            test: all("test").filter_map(|data| Test::deserialize(data).ok()).last(),
            trials: all("trial").filter_map(|data| Test::deserialize(data).ok()).collect(),
            diverged: all("diverged").filter_map(|data| Some(Diverged::deserialize(data).ok()?.step)).next(),
        }
    }

    /// The last evaluation.
    pub fn last(&self) -> Option<&Evaluate> {
        self.evaluations.last()
    }

    /// The final validation error, from 0 to 1; 1 if the run diverged.
    pub fn error(&self) -> Option<f64> {
        if self.diverged.is_some() {
            return Some(1.0);
        }
        Some(1.0 - self.last()?.accuracy?)
    }
}

/// A training run's row in the report's table; `None` for other runs.
pub fn row(record: &Record) -> Option<RunRow> {
    let trained = Trained::read(record)?;
    let (spec, last) = (&trained.spec, trained.last());
    Some(RunRow {
        study: record.header.study.clone(),
        model: spec.arch.name().to_owned(),
        norm: spec.norm.name().to_owned(),
        seed: Some(spec.start.seed),
        lr: Some(spec.learning_rate),
        batch: Some(spec.batch_size),
        epochs: spec.steps.checked_div(spec.steps_of_epoch()),
        train_loss: last.and_then(|last| last.train_loss),
        val_loss: last.and_then(|last| last.loss),
        val_accuracy: last.and_then(|last| last.accuracy),
        diverged: trained.diverged.is_some(),
        file: format!("runs/{}.jsonl", record.header.run),
    })
}
