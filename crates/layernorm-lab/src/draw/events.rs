//! Events of a DRAW run, and their reader.

use super::Spec;
use crate::records::Record;
use crate::report::RunRow;
use crate::training::events::Diverged;
use serde::{Deserialize, Serialize};

/// The variational bound, in nats per image. `None` is a number that is not finite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// −ln p(x|z).
    pub reconstruction: Option<f64>,
    /// The divergence of q(z) from the prior.
    pub kl: Option<f64>,
}

impl Bound {
    /// Reconstruction and KL.
    pub fn total(&self) -> Option<f64> {
        Some(self.reconstruction? + self.kl?)
    }
}

/// `evaluate`: bounds during training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluate {
    /// Number of completed steps.
    pub step: usize,
    /// Mean over the training steps since the last evaluation; `None` before the first step.
    pub train: Option<Bound>,
    /// On the validation images.
    pub validation: Bound,
}

/// `digits`: generated images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Digits {
    /// Number of completed steps.
    pub step: usize,
    /// The numbers of glimpses after which the canvas is shown, in increasing order.
    pub glimpses: Vec<usize>,
    /// For each of them, the pixels' probabilities in every image: row by row, one hexadecimal digit per pixel, from 0
    /// to f.
    pub images: Vec<Vec<String>>,
}

/// A DRAW run read from its record.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    /// The specification.
    pub spec: Spec,
    /// Rows and columns of the images that it draws.
    pub image: [usize; 2],
    /// Its evaluations, in order.
    pub evaluations: Vec<Evaluate>,
    /// Generated images, in order.
    pub digits: Vec<Digits>,
    /// The bound on the test images, if the run got that far.
    pub test: Option<Bound>,
    /// The step at which it diverged, if it did.
    pub diverged: Option<usize>,
}

/// The settings of a run that its reader needs.
#[derive(Deserialize)]
struct Settings {
    image: [usize; 2],
    draw: Spec,
}

impl Drawn {
    /// Reads a record; `None` if it is not that of a DRAW run.
    pub fn read(record: &Record) -> Option<Drawn> {
        fn all<T: for<'a> Deserialize<'a>>(record: &Record, name: &str) -> Vec<T> {
            record.named(name).filter_map(|data| T::deserialize(data).ok()).collect()
        }
        let Settings { image, draw } = Settings::deserialize(&record.header.settings).ok()?;
        Some(Drawn {
            image: draw.images.size(image),
            spec: draw,
            evaluations: all(record, "evaluate"),
            digits: all(record, "digits"),
            test: all(record, "test").pop(),
            diverged: all::<Diverged>(record, "diverged").first().map(|diverged| diverged.step),
        })
    }
}

/// A DRAW run's row in the report's table; `None` for other runs.
pub fn row(record: &Record) -> Option<RunRow> {
    let drawn = Drawn::read(record)?;
    let (spec, last) = (&drawn.spec, drawn.evaluations.last());
    Some(RunRow {
        study: record.header.study.clone(),
        model: "DRAW".to_owned(),
        norm: if spec.norms == super::Norms::None { "none" } else { "layer" }.to_owned(),
        seed: Some(spec.seed),
        lr: Some(spec.learning_rate),
        batch: Some(spec.batch_size),
        epochs: spec.steps.checked_div(spec.steps_of_epoch()),
        train_loss: last.and_then(|last| last.train?.total()),
        val_loss: last.and_then(|last| last.validation.total()),
        val_accuracy: None,
        diverged: drawn.diverged.is_some(),
        file: format!("runs/{}.jsonl", record.header.run),
    })
}
