//! What norms do to the hidden units of a layer: their correlations, and the drift of mean and variance during
//! training.
//!
//! ```text
//! correlation of two units over some images       cov(a, b)/sqrt(var(a)·var(b)), before and after the norm
//! batch norm     each unit is shifted and scaled separately: correlations do not change
//! layer norm     each image is shifted and scaled separately: correlations can change
//! ```

mod drift;
mod pictures;
#[cfg(test)]
mod tests;

use super::{RunPlan, Settings, Study, trained};
use crate::models::{Arch, Norm};
use crate::records::Record;
use crate::report::Story;
use crate::training::{Probes, Spec};

/// Study of correlations between hidden units.
pub struct Correlation;

/// Name of the network in run names.
const ID: &str = "mlp";
const NORMS: [Norm; 4] = [Norm::None, Norm::Batch, Norm::Layer, Norm::Rms];
/// Number of units of the first layer that are probed.
const UNITS: usize = 24;
/// Epochs of the full study.
const FULL_EPOCHS: usize = 10;

fn spec(norm: Norm, seed: u64, settings: &Settings) -> Spec {
    let units = if settings.full { 512 } else { 128 };
    let mut spec = Spec::new(Arch::mlp(&[units, units]), norm, seed, &settings.data);
    (spec.steps, spec.evaluations, spec.test) = (250, 25, 0);
    spec.probes = Probes { moments: true, correlation: UNITS, ..Probes::default() };
    if settings.full {
        [spec.train, spec.validation, _] = settings.all_images();
        spec.steps = FULL_EPOCHS * spec.steps_of_epoch();
    }
    trained::chosen(spec, settings)
}

impl Study for Correlation {
    fn name(&self) -> &'static str {
        "correlation"
    }

    fn question(&self) -> &'static str {
        "How are hidden units correlated before and after a norm, and how do they drift during training?"
    }

    fn plan(&self, settings: &Settings) -> Vec<RunPlan> {
        trained::plans(self.name(), ID, NORMS, settings, spec)
    }

    fn story(&self, records: &[Record]) -> Story {
        pictures::story(self, &trained::read(records), records)
    }
}
