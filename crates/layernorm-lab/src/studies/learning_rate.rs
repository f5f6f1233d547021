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

/// A network of this study.
struct Network {
    /// Start of the names of its cases.
    id: &'static str,
    title: &'static str,
    norms: &'static [Norm],
    optimizer: Optimizer,
    /// About half a power of ten apart.
    rates: &'static [f64],
    /// A rate works if the final validation error is below this; guessing has an error of 0.9.
    learnt: f64,
}

/// Plain gradient descent where it learns at all: Adam normalizes the gradient's magnitude, which hides a part of the
/// difference. Over 196 pixels, gradient descent learns too slowly for a study of this size.
const NETWORKS: [Network; 3] = [
    Network {
        id: "mlp",
        title: "MLP",
        norms: &[Norm::None, Norm::Batch, Norm::Layer, Norm::Rms],
        optimizer: Optimizer::Sgd,
        rates: RATES,
        learnt: 0.5,
    },
    Network {
        id: "lstm",
        title: "LSTM",
        norms: &[Norm::None, Norm::Layer],
        optimizer: Optimizer::Sgd,
        rates: RATES,
        learnt: 0.5,
    },
    Network {
        id: "pixels",
        title: "LSTM over 196 pixels",
        norms: &[Norm::None, Norm::Layer],
        optimizer: Optimizer::Adam,
        rates: &[3e-3, 1e-2, 3e-2, 1e-1],
        learnt: 0.75,
    },
];
const RATES: &[f64] = &[0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0];

/// Epochs of the full study.
const FULL_EPOCHS: usize = 3;

/// Name of a case. The rate is in scientific notation to keep the name short.
fn case(network: &str, norm: Norm, rate: f64) -> String {
    format!("{network}-{norm}-{rate:e}")
}

impl Network {
    fn arch(&self, full: bool) -> Arch {
        match (self.id, full) {
            ("lstm", full) => Arch::lstm(if full { 128 } else { 32 }, Reads::Rows),
            ("pixels", full) => Arch::lstm(if full { 64 } else { 32 }, Reads::Pixels),
            (_, true) => Arch::mlp(&[256, 256, 256]),
            (_, false) => Arch::mlp(&[64, 64, 64]),
        }
    }

    fn spec(&self, norm: Norm, rate: f64, seed: u64, settings: &Settings) -> Spec {
        let mut spec = Spec::new(self.arch(settings.full), norm, seed, &settings.data);
        (spec.optimizer, spec.steps, spec.evaluations, spec.test) = (self.optimizer, 80, 4, 0);
        if self.id == "pixels" {
            // 14×14 pixels.
            spec.images.halved = true;
            (spec.batch_size, spec.validation, spec.evaluations) = (32, 250, 2);
        }
        if settings.full {
            [spec.train, spec.validation, _] = settings.all_images();
            let epochs = if self.id == "pixels" { 1 } else { FULL_EPOCHS };
            spec.steps = epochs * spec.steps_of_epoch();
        }
        Spec { learning_rate: rate, ..trained::chosen(spec, settings) }
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
        for network in &NETWORKS {
            let rates = settings.learning_rate.map_or(network.rates.to_vec(), |rate| vec![rate]);
            for &norm in network.norms {
                for &rate in &rates {
                    let case = case(network.id, norm, rate);
                    let of = |seed| network.spec(norm, rate, seed, settings);
                    plans.extend(
                        tools::seeds(settings).map(|seed| trained::plan(self.name(), &case, of(seed), settings)),
                    );
                }
            }
        }
        plans
    }

    fn story(&self, records: &[Record]) -> Story {
        pictures::story(self.name(), self.question(), &trained::read(records), records)
    }
}
