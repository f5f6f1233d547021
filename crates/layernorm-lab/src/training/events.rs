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
    /// Mean training loss since the last evaluation; `None` before the first step. On a stream, that of predictions
    /// made before each update, in inference mode.
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

/// `geometry`: size of the hidden units h of each image in the last hidden layer, before and after its norm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Geometry {
    /// Number of completed steps.
    pub step: usize,
    /// The layer.
    pub layer: String,
    /// Number of its units.
    pub units: usize,
    /// Before the norm.
    pub before: Sizes,
    /// After the norm.
    pub after: Sizes,
}

/// Radius ‖h‖/√units and mean of h for each image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sizes {
    /// ‖h‖/√units of each image.
    pub radius: Vec<Option<f64>>,
    /// The mean of h of each image.
    pub mean: Vec<Option<f64>>,
    /// h and the class of each image, if the layer has three units.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<[f64; 4]>,
}

/// `affine`: γ and β of a norm, unit by unit, rounded to three decimals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Affine {
    /// Number of completed steps.
    pub step: usize,
    /// The layer, or the norm in a recurrent network.
    pub layer: String,
    /// γ.
    pub gain: Vec<f64>,
    /// β; empty if the norm has none.
    pub bias: Vec<f64>,
}

/// `shift`: what the next training step does to the layers of an MLP. All lists have one entry per layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shift {
    /// Number of completed steps.
    pub step: usize,
    /// The layers: the hidden ones and the logits.
    pub layers: Vec<String>,
    /// The shift of the layer's input distribution; `None` for the first layer, whose input is the image.
    pub input: Vec<Option<f64>>,
    /// The shift of the summed inputs of the layer before its norm; `None` for the logits.
    pub before: Vec<Option<f64>>,
    /// The shift after its norm; `None` for the logits.
    pub after: Vec<Option<f64>>,
    /// The cosine between the layer's gradient before and after the step of the layers below; `None` for the first.
    pub cosine: Vec<Option<f64>>,
}

/// `weights`: the length of each layer's weights, and the angle between weights and gradient.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Weights {
    /// Number of completed steps.
    pub step: usize,
    /// The learning rate of the next step.
    pub rate: f64,
    /// The layers: the hidden ones and the logits.
    pub layers: Vec<String>,
    /// ‖W‖ and ‖∂L/∂W‖; with weight norm, W is v.
    pub weight: Vec<Angle>,
    /// The same for W and b together.
    pub with_bias: Vec<Angle>,
}

/// Parameters and their gradient.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Angle {
    /// ‖W‖.
    pub length: Option<f64>,
    /// ‖∂L/∂W‖.
    pub gradient: Option<f64>,
    /// ⟨W, ∂L/∂W⟩/(‖W‖‖∂L/∂W‖).
    pub cosine: Option<f64>,
}

/// `dynamics`: the states of a recurrent network at each time step, over some images, to five digits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Dynamics {
    /// Number of completed steps.
    pub step: usize,
    /// Mean norm of the hidden state h.
    pub hidden: Vec<Option<f64>>,
    /// Mean and standard deviation of the cell state c; empty without one.
    pub cell: Vec<[Option<f64>; 2]>,
    /// The gates.
    pub gates: Vec<GateDynamics>,
}

/// The pre-activations of a gate at each time step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GateDynamics {
    /// Its name.
    pub gate: String,
    /// Means.
    pub mean: Vec<Option<f64>>,
    /// Standard deviations.
    pub deviation: Vec<Option<f64>>,
    /// Share whose sigmoid is below 0.05 or above 0.95, or whose |tanh| is above 0.95.
    pub saturated: Vec<Option<f64>>,
}

/// `statistics`: running statistics of batch norm at each time step, for inference.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Statistics {
    /// The norms of the cell; empty without batch norm.
    pub norms: Vec<NormStatistics>,
}

/// Running statistics of a batch norm at each time step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NormStatistics {
    /// What is normalized.
    pub of: String,
    /// Mean over the units of |running mean|.
    pub mean_size: Vec<Option<f64>>,
    /// Mean over the units of the running variance.
    pub variance: Vec<Option<f64>>,
    /// The first units.
    pub units: Vec<UnitStatistics>,
}

/// Running statistics of a unit at each time step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UnitStatistics {
    /// Means.
    pub mean: Vec<Option<f64>>,
    /// Variances.
    pub variance: Vec<Option<f64>>,
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
