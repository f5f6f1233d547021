//! Batch size: the same images, in batches of 1 to 128.
//!
//! Networks without a norm, with batch norm and with layer norm train for the same number of epochs at every batch
//! size. The full study adds the network of the paper's section 6.6, 784-1000-1000-10, in which batch norm also
//! normalizes the logits and layer norm does not.

mod pictures;
#[cfg(test)]
mod tests;

use super::{RunPlan, Settings, Study, tools, trained};
use crate::models::{Activation, Arch, Norm};
use crate::records::Record;
use crate::report::Story;
use crate::training::Spec;

/// Study of batch sizes.
pub struct BatchSize;

/// The batch sizes: the paper's (4 and 128), others' (5 and 50), a single sample, and one in between.
const SIZES: [usize; 6] = [1, 4, 5, 32, 50, 128];
/// The paper's batch sizes.
const PAPER_SIZES: [usize; 2] = [4, 128];
const NORMS: [Norm; 3] = [Norm::None, Norm::Batch, Norm::Layer];

/// Hidden layers of this study's network and of the paper's.
const SMALL: &[usize] = &[100, 100];
const PAPER: &[usize] = &[1000, 1000];

/// Epochs of the quick and the full study; the full study trains the paper's network for as many (the paper plots 60:
/// `--epochs 60`).
const QUICK_EPOCHS: usize = 3;
const FULL_EPOCHS: usize = 5;

fn spec(hidden: &[usize], norm: Norm, size: usize, seed: u64, settings: &Settings) -> Spec {
    let output_norm = hidden == PAPER && norm == Norm::Batch;
    let arch = Arch::Mlp { hidden: hidden.to_vec(), activation: Activation::Relu, output_norm };
    let mut spec = Spec::new(arch, norm, seed, &settings.data);
    spec.batch_size = size;
    [spec.train, spec.validation, spec.test] = if settings.full { settings.all_images() } else { [1500, 1000, 1000] };
    spec.evaluations = 15;
    let epochs = settings.epochs.unwrap_or(if settings.full { FULL_EPOCHS } else { QUICK_EPOCHS });
    spec.steps = epochs * spec.steps_of_epoch();
    spec.learning_rate = settings.learning_rate.unwrap_or(spec.learning_rate);
    spec
}

impl Study for BatchSize {
    fn name(&self) -> &'static str {
        "batch-size"
    }

    fn question(&self) -> &'static str {
        "How does each norm depend on the batch size?"
    }

    fn plan(&self, settings: &Settings) -> Vec<RunPlan> {
        let mut plans = Vec::new();
        let sizes = settings.batch_size.map_or(SIZES.to_vec(), |size| vec![size]);
        for seed in tools::seeds(settings) {
            for norm in NORMS {
                for &size in &sizes {
                    let spec = spec(SMALL, norm, size, seed, settings);
                    plans.push(trained::plan(self.name(), &format!("small-{norm}-{size}"), spec, settings));
                }
                for size in PAPER_SIZES.into_iter().filter(|_| settings.full && norm != Norm::None) {
                    let spec = spec(PAPER, norm, size, seed, settings);
                    plans.push(trained::plan(self.name(), &format!("paper-{norm}-{size}"), spec, settings));
                }
            }
        }
        plans
    }

    fn story(&self, records: &[Record]) -> Story {
        pictures::story(self.name(), self.question(), &trained::read(records), records)
    }
}
