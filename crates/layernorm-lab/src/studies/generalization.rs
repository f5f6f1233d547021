//! Generalization: training against test loss, by norm and batch size.
//!
//! MLPs overfit few images. Each is trained for the same number of epochs with a learning rate proportional to the batch
//! size (SGD), so that without batch statistics the batch size hardly changes the course of training. What is left is the
//! effect of batch norm's noise: in a batch, every image is normalized with statistics that depend on the others.
//!
//! ```text
//! gap = test loss − training loss      both in inference mode, with the final weights
//! noise = training loss in training mode − training loss in inference mode
//! ```

mod pictures;
#[cfg(test)]
mod tests;

use super::{RunPlan, Settings, Study, tools, trained};
use crate::models::{Arch, Norm};
use crate::records::Record;
use crate::report::Story;
use crate::training::{Optimizer, Spec, Trial};

/// Study of generalization.
pub struct Generalization;

const NORMS: [Norm; 3] = [Norm::None, Norm::Batch, Norm::Layer];
const SIZES: [usize; 3] = [8, 32, 128];
/// The learning rate per image of a batch.
const RATE: f64 = 0.01 / 8.0;

/// Trials on the training images: in inference mode and in training mode.
const SETTLED: &str = "training images";
const NOISY: &str = "training images, training mode";

fn spec(norm: Norm, size: usize, seed: u64, settings: &Settings) -> Spec {
    let (hidden, images, epochs) = if settings.full { (256, 4096, 40) } else { (64, 512, 20) };
    let mut spec = Spec::new(Arch::mlp(&[hidden, hidden]), norm, seed, &settings.data);
    let [train, validation, test] = if settings.full { settings.all_images() } else { [images, 50, 1000] };
    [spec.train, spec.validation, spec.test] = [images.min(train), validation, test];
    (spec.optimizer, spec.batch_size) = (Optimizer::Sgd, size);
    spec.learning_rate = settings.learning_rate.unwrap_or(RATE * size as f64);
    spec.steps = settings.epochs.unwrap_or(epochs).saturating_mul(spec.steps_of_epoch());
    spec.evaluations = 4;
    let on_training = |name: &str| Trial { on_training_images: true, ..Trial::plain(name) };
    spec.trials = vec![on_training(SETTLED), Trial { as_in_training: true, batch: size, ..on_training(NOISY) }];
    spec
}

impl Study for Generalization {
    fn name(&self) -> &'static str {
        "generalization"
    }

    fn question(&self) -> &'static str {
        "Which norm narrows the gap between training and test loss, and does the batch size matter?"
    }

    fn plan(&self, settings: &Settings) -> Vec<RunPlan> {
        let sizes = settings.batch_size.map_or(SIZES.to_vec(), |size| vec![size]);
        let mut plans = Vec::new();
        for seed in tools::many_seeds(settings) {
            for norm in NORMS {
                let plan = |&size: &usize| {
                    let case = format!("{norm}-{size}");
                    trained::plan(self.name(), &case, spec(norm, size, seed, settings), settings)
                };
                plans.extend(sizes.iter().map(plan));
            }
        }
        plans
    }

    fn story(&self, records: &[Record]) -> Story {
        pictures::story(self.name(), self.question(), &trained::read(records), records)
    }
}
