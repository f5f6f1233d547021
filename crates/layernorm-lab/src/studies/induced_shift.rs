//! Internal covariate shift (Ioffe and Szegedy, 2015): one step of the layers below moves the inputs of a layer.
//!
//! ```text
//! shift    Wasserstein-1 distance between a unit's values before and after one training step, on a fixed batch of
//!          images; the sum over the units of a layer divided by the sum of their standard deviations
//! cosine   between a layer's gradient before and after the layers below have made their step (Santurkar et al., 2018)
//! ```
//!
//! The shift is measured where a layer receives its input, after the norm and the nonlinearity of the layer below, and at
//! the summed inputs before and after each norm. Networks are compared at the same learning rate, since a larger step is
//! a larger shift. They start from weights for which the activations of the network without a norm keep their variance (He et al.,
//! 2015): with smaller ones its gradients would vanish, and so would its shift.

mod pictures;
#[cfg(test)]
mod tests;

use super::{RunPlan, Settings, Study, tools, trained};
use crate::models::{Arch, Norm};
use crate::records::Record;
use crate::report::Story;
use crate::training::{Optimizer, Probes, Spec};

/// Study of the shift that a training step induces.
pub struct InducedShift;

const NORMS: [Norm; 3] = [Norm::None, Norm::Batch, Norm::Layer];
/// Number of hidden layers.
const LAYERS: usize = 6;
/// The tested learning rates, with their names in run names. All three networks learn at both.
const RATES: [(&str, f64); 2] = [("slow", 0.01), ("fast", 0.1)];
/// Weights uniform in ±√(6/fan-in), as for ReLU in He et al. (2015).
const WEIGHT_SCALE: f64 = 2.449_489_742_783_178;
/// Epochs of the full study.
const FULL_EPOCHS: usize = 5;

fn spec(rate: f64, norm: Norm, seed: u64, settings: &Settings) -> Spec {
    let units = if settings.full { 256 } else { 64 };
    let mut spec = Spec::new(Arch::mlp(&[units; LAYERS]), norm, seed, &settings.data);
    (spec.optimizer, spec.learning_rate, spec.start.weight_scale) = (Optimizer::Sgd, rate, WEIGHT_SCALE);
    (spec.steps, spec.evaluations, spec.test) = (150, 10, 0);
    spec.probes = Probes { shift: true, ..Probes::default() };
    if settings.full {
        [spec.train, spec.validation, _] = settings.all_images();
        spec.evaluations = 25;
        spec.steps = FULL_EPOCHS * spec.steps_of_epoch();
    }
    trained::chosen(spec, settings)
}

impl Study for InducedShift {
    fn name(&self) -> &'static str {
        "induced-shift"
    }

    fn question(&self) -> &'static str {
        "How far does one step of the layers below move the input of a layer, and does a norm make it less?"
    }

    fn plan(&self, settings: &Settings) -> Vec<RunPlan> {
        let plans = |(id, rate)| {
            let spec = move |norm, seed, settings: &Settings| spec(rate, norm, seed, settings);
            trained::plans_of(self.name(), id, NORMS, tools::many_seeds(settings), settings, spec)
        };
        RATES.into_iter().flat_map(plans).collect()
    }

    fn story(&self, records: &[Record]) -> Story {
        pictures::story(self, &trained::read(records), records)
    }
}
