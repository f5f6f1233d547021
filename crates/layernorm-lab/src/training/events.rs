//! What a training run writes, and how it is read again. A number that is not finite is written as `null`.

use super::Spec;
use crate::records::Record;
use crate::report::RunRow;
use serde::{Deserialize, Serialize};

/// `evaluate`: how well the network does at a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluate {
    /// Steps done.
    pub step: usize,
    /// Mean loss of the batches since the last evaluation; `None` before the first step.
    pub train_loss: Option<f64>,
    /// Their accuracy, 0 to 1.
    pub train_accuracy: Option<f64>,
    /// Mean loss of the validation images.
    pub loss: Option<f64>,
    /// Their accuracy, 0 to 1.
    pub accuracy: Option<f64>,
}

/// `test`, and with a name `trial`: how well it does on the test images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Test {
    /// The trial's name; empty for the test itself.
    #[serde(default)]
    pub name: String,
    /// Mean loss.
    pub loss: Option<f64>,
    /// Accuracy, 0 to 1.
    pub accuracy: Option<f64>,
}

/// `gradients`: ‖∂L/∂W‖ of each layer, L being the mean loss of one batch. `time`: ‖∂L/∂h‖ of each time step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gradients {
    /// Steps done.
    pub step: usize,
    /// The layers' names, or the numbers of the time steps from 1.
    pub places: Vec<String>,
    /// The norms.
    pub norms: Vec<Option<f64>>,
}

/// `moments`: of all hidden units of a layer over some images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moments {
    /// Steps done.
    pub step: usize,
    /// Which layer.
    pub layer: String,
    /// Mean and variance before the norm.
    pub before: [Option<f64>; 2],
    /// And after it.
    pub after: [Option<f64>; 2],
}

/// `correlation`: of the first hidden units of a layer, over some images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Correlation {
    /// Steps done.
    pub step: usize,
    /// Which layer.
    pub layer: String,
    /// How many units.
    pub units: usize,
    /// Row by row; 0 for units that do not vary. To three digits.
    pub before: Vec<f64>,
    /// After the norm.
    pub after: Vec<f64>,
}

/// `activations`: the last hidden layer of some images, in the three directions in which they vary most.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Activations {
    /// Steps done.
    pub step: usize,
    /// Which layer.
    pub layer: String,
    /// x, y, z and the class of each image.
    pub points: Vec<[f64; 4]>,
    /// The share of all variance that lies in each direction.
    pub shares: [f64; 3],
}

/// `diverged`: the loss is no longer a number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Diverged {
    /// Steps done before.
    pub step: usize,
}

/// A number, or nothing where it is not finite.
pub(super) fn finite(number: f64) -> Option<f64> {
    number.is_finite().then_some(number)
}

/// What a training run's record says, read.
#[derive(Clone, Debug, PartialEq)]
pub struct Trained {
    /// What the run was.
    pub spec: Spec,
    /// Its evaluations, in order.
    pub evaluations: Vec<Evaluate>,
    /// Its test, if it came so far.
    pub test: Option<Test>,
    /// Its trials.
    pub trials: Vec<Test>,
    /// Where it diverged, if it did.
    pub diverged: Option<usize>,
}

impl Trained {
    /// Reads a record; `None` if it is not of a training run.
    pub fn read(record: &Record) -> Option<Trained> {
        let spec = Spec::deserialize(&record.header.settings["spec"]).ok()?;
        let all = |name| record.named(name);
        Some(Trained {
            spec,
            evaluations: all("evaluate").filter_map(|data| Evaluate::deserialize(data).ok()).collect(),
            test: all("test").filter_map(|data| Test::deserialize(data).ok()).last(),
            trials: all("trial").filter_map(|data| Test::deserialize(data).ok()).collect(),
            diverged: all("diverged").filter_map(|data| Some(Diverged::deserialize(data).ok()?.step)).next(),
        })
    }

    /// The last evaluation.
    pub fn last(&self) -> Option<&Evaluate> {
        self.evaluations.last()
    }

    /// The last validation error, 0 to 1; 1 if the run diverged.
    pub fn error(&self) -> Option<f64> {
        if self.diverged.is_some() {
            return Some(1.0);
        }
        Some(1.0 - self.last()?.accuracy?)
    }
}

/// A training run's line in the report's table; `None` if the record is of another kind.
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
