//! The range of learning rates at which training works, for each norm.

mod pictures;
#[cfg(test)]
mod tests;

use super::{RunPlan, Settings, Study, tools, trained};
use crate::models::{Arch, Norm, Reads};
use crate::records::Record;
use crate::report::Story;
use crate::training::{Optimizer, Spec};

/// Study of learning rates.
pub struct LearningRate;

/// About half a power of ten apart, for plain gradient descent: Adam normalizes the gradient's magnitude, which would
/// hide the difference.
const RATES: [f64; 8] = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0];

/// The networks: name, title and norms.
const NETWORKS: [(&str, &str, &[Norm]); 2] = [
    ("mlp", "MLP", &[Norm::None, Norm::Batch, Norm::Layer, Norm::Rms, Norm::Weight]),
    ("lstm", "LSTM", &[Norm::None, Norm::Layer, Norm::Group]),
];

/// Epochs of the full study.
const FULL_EPOCHS: usize = 3;

/// Name of a case. The rate is in scientific notation to keep the name short.
fn case(network: &str, norm: Norm, rate: f64) -> String {
    format!("{network}-{norm}-{rate:e}")
}

fn arch(network: &str, full: bool) -> Arch {
    match (network, full) {
        ("lstm", full) => Arch::lstm(if full { 128 } else { 32 }, Reads::Rows),
        (_, true) => Arch::mlp(&[256, 256, 256]),
        (_, false) => Arch::mlp(&[64, 64, 64]),
    }
}

impl Study for LearningRate {
    fn name(&self) -> &'static str {
        "learning-rate"
    }

    fn question(&self) -> &'static str {
        "Which learning rates work with each norm?"
    }

    fn plan(&self, settings: &Settings) -> Vec<RunPlan> {
        let mut plans = Vec::new();
        let rates = settings.learning_rate.map_or(RATES.to_vec(), |rate| vec![rate]);
        for (network, _, norms) in NETWORKS {
            for &norm in norms {
                for &rate in &rates {
                    for seed in tools::seeds(settings) {
                        let mut spec = Spec::new(arch(network, settings.full), norm, seed, &settings.data);
                        (spec.optimizer, spec.steps, spec.evaluations) = (Optimizer::Sgd, 80, 4);
                        spec.test = 0;
                        if settings.full {
                            [spec.train, spec.validation, _] = settings.all_images();
                            spec.steps = FULL_EPOCHS * spec.steps_of_epoch();
                        }
                        let spec = Spec { learning_rate: rate, ..trained::chosen(spec, settings) };
                        let case = case(network, norm, rate);
                        plans.push(trained::plan(self.name(), &case, spec, settings));
                    }
                }
            }
        }
        plans
    }

    fn story(&self, records: &[Record]) -> Story {
        pictures::story(self.name(), self.question(), &trained::read(records), records)
    }
}
