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
    /// How an LSTM reads the images; `None` for an MLP.
    reads: Option<Reads>,
    /// Whether images are reduced to 14×14 pixels.
    halved: bool,
    /// Whether it is only in the full study.
    only_full: bool,
    norms: &'static [Norm],
    optimizer: Optimizer,
    /// About half a power of ten apart.
    rates: &'static [f64],
    /// A rate works if the final validation error is below this; guessing has an error of 0.9.
    learnt: f64,
}

/// Plain gradient descent where it learns at all: Adam normalizes the gradient's magnitude, which hides a part of the
/// difference. Over pixels, gradient descent learns too slowly for a study of this size.
const NETWORKS: [Network; 4] = [
    Network {
        id: "mlp",
        title: "MLP",
        reads: None,
        halved: false,
        only_full: false,
        norms: &[Norm::None, Norm::Batch, Norm::Layer, Norm::Rms],
        optimizer: Optimizer::Sgd,
        rates: RATES,
        learnt: 0.5,
    },
    Network {
        id: "lstm",
        title: "LSTM",
        reads: Some(Reads::Rows),
        halved: false,
        only_full: false,
        norms: &[Norm::None, Norm::Layer],
        optimizer: Optimizer::Sgd,
        rates: RATES,
        learnt: 0.5,
    },
    Network {
        id: "pixels",
        title: "LSTM over 196 pixels",
        reads: Some(Reads::Pixels),
        halved: true,
        only_full: false,
        norms: &[Norm::None, Norm::Layer],
        optimizer: Optimizer::Adam,
        rates: PIXEL_RATES,
        learnt: 0.75,
    },
    Network {
        id: "all-pixels",
        title: "LSTM over 784 pixels",
        reads: Some(Reads::Pixels),
        halved: false,
        only_full: true,
        norms: &[Norm::None, Norm::Layer],
        optimizer: Optimizer::Adam,
        rates: PIXEL_RATES,
        learnt: 0.75,
    },
];
const RATES: &[f64] = &[0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0];
/// The rates of Adam.
const PIXEL_RATES: &[f64] = &[3e-3, 1e-2, 3e-2, 1e-1, 3e-1];

/// Epochs of the full study.
const FULL_EPOCHS: usize = 2;
/// Steps of the networks over pixels in the full study, and their validation images.
const FULL_PIXEL_STEPS: usize = 150;
const FULL_PIXEL_VALIDATION: usize = 1000;

/// Name of a case. The rate is in scientific notation to keep the name short.
fn case(network: &str, norm: Norm, rate: f64) -> String {
    format!("{network}-{norm}-{rate:e}")
}

impl Network {
    fn arch(&self, full: bool) -> Arch {
        match self.reads {
            Some(Reads::Rows) => Arch::lstm(if full { 128 } else { 32 }, Reads::Rows),
            Some(Reads::Pixels) => Arch::lstm(if full { 64 } else { 32 }, Reads::Pixels),
            None => Arch::mlp(&[if full { 256 } else { 64 }; 3]),
        }
    }

    /// Whether its sequences are long, so that it trains for few steps.
    fn over_pixels(&self) -> bool {
        self.reads == Some(Reads::Pixels)
    }

    fn spec(&self, norm: Norm, rate: f64, seed: u64, settings: &Settings) -> Spec {
        let mut spec = Spec::new(self.arch(settings.full), norm, seed, &settings.data);
        (spec.optimizer, spec.steps, spec.evaluations, spec.test) = (self.optimizer, 80, 4, 0);
        spec.images.halved = self.halved;
        if self.over_pixels() {
            (spec.batch_size, spec.validation, spec.evaluations) = (32, 250, 2);
        }
        if settings.full {
            [spec.train, spec.validation, _] = settings.all_images();
            spec.steps = FULL_EPOCHS * spec.steps_of_epoch();
            if self.over_pixels() {
                spec.steps = spec.steps.min(FULL_PIXEL_STEPS);
                spec.validation = spec.validation.min(FULL_PIXEL_VALIDATION);
            }
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
        for network in NETWORKS.iter().filter(|network| settings.full || !network.only_full) {
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
