//! Implicit early stopping (Ba, Kiros and Hinton, 2016, section 5.2): growing weights lower the effective learning rate.
//!
//! ```text
//! θ             the parameters of a layer whose common scale does not change the outputs
//! ⟨θ, g⟩ = 0    g = ∂L/∂θ is orthogonal to θ
//! ‖θ‖²          grows by η²·‖g‖² in every step of plain gradient descent
//! η/‖θ‖²        the effective learning rate: a step turns θ/‖θ‖ as a step at this rate would turn a θ of length 1,
//!               because g is inversely proportional to ‖θ‖
//! ```
//!
//! With batch norm and weight norm θ is the weight matrix W (with weight norm v). Layer norm sees the bias b: only W and
//! b together can be rescaled, so θ has both. No norm follows the logits, so the study leaves their layer out; without a
//! norm no layer is scale-invariant.

mod pictures;
#[cfg(test)]
mod tests;

use super::{RunPlan, Settings, Study, trained};
use crate::models::{Arch, Norm};
use crate::records::Record;
use crate::report::Story;
use crate::training::{Optimizer, Probes, Spec};

/// Study of weight growth and effective learning rates.
pub struct EffectiveRate;

/// Name of the network in run names.
const ID: &str = "mlp";
const NORMS: [Norm; 4] = [Norm::None, Norm::Batch, Norm::Layer, Norm::Weight];
/// Number of hidden layers.
const LAYERS: usize = 3;
/// High enough that the weights grow visibly, and low enough that the network without a norm learns.
const RATE: f64 = 0.3;
/// Small, so that the outputs do not depend on the weights' scale beyond rounding errors.
const EPSILON: f64 = 1e-10;
/// Epochs of the full study.
const FULL_EPOCHS: usize = 10;

fn spec(norm: Norm, seed: u64, settings: &Settings) -> Spec {
    let units = if settings.full { 256 } else { 64 };
    let mut spec = Spec::new(Arch::mlp(&[units; LAYERS]), norm, seed, &settings.data);
    (spec.optimizer, spec.learning_rate, spec.start.epsilon) = (Optimizer::Sgd, RATE, EPSILON);
    (spec.steps, spec.evaluations, spec.train, spec.test) = (400, 10, 8000, 0);
    spec.probes = Probes { weights: true, ..Probes::default() };
    if settings.full {
        [spec.train, spec.validation, _] = settings.all_images();
        spec.evaluations = 25;
        spec.steps = FULL_EPOCHS * spec.steps_of_epoch();
    }
    trained::chosen(spec, settings)
}

impl Study for EffectiveRate {
    fn name(&self) -> &'static str {
        "effective-rate"
    }

    fn question(&self) -> &'static str {
        "Do the weights grow during training with a norm, and does that lower the effective learning rate?"
    }

    fn plan(&self, settings: &Settings) -> Vec<RunPlan> {
        trained::plans(self.name(), ID, NORMS, settings, spec)
    }

    fn story(&self, records: &[Record]) -> Story {
        pictures::story(self, &trained::read(records), records)
    }
}
