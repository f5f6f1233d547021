//! The last hidden layer in three dimensions: each image is a point in the first three principal components, and the
//! separation of the classes is measured there.
//!
//! ```text
//! separation   Σ_c n_c·|m_c − m|² / Σ_i |p_i − m|²      m_c: centroid of class c, m: centroid of all points
//! ```
//!
//! 0: all classes have the same centroid; 1: every class is a single point.

mod pictures;
#[cfg(test)]
mod tests;

use super::{RunPlan, Settings, Study, trained};
use crate::models::{Arch, Norm};
use crate::records::Record;
use crate::report::Story;
use crate::training::{Probes, Spec};

/// Study of hidden activations in three dimensions.
pub struct Activations;

/// Name of the network in run names.
const ID: &str = "mlp";
const NORMS: [Norm; 3] = [Norm::None, Norm::Batch, Norm::Layer];
/// Number of images per probe.
const IMAGES: usize = 128;
/// Epochs of the full study.
const FULL_EPOCHS: usize = 10;

fn spec(norm: Norm, seed: u64, settings: &Settings) -> Spec {
    let units = if settings.full { 512 } else { 64 };
    let mut spec = Spec::new(Arch::mlp(&[units, units]), norm, seed, &settings.data);
    (spec.steps, spec.evaluations, spec.test) = (200, 10, 0);
    spec.probes = Probes { activations: IMAGES, ..Probes::default() };
    if settings.full {
        [spec.train, spec.validation, _] = settings.all_images();
        spec.evaluations = 25;
        spec.steps = FULL_EPOCHS * spec.steps_of_epoch();
    }
    trained::chosen(spec, settings)
}

impl Study for Activations {
    fn name(&self) -> &'static str {
        "activations"
    }

    fn question(&self) -> &'static str {
        "What do the activations of the last hidden layer look like in three dimensions?"
    }

    fn plan(&self, settings: &Settings) -> Vec<RunPlan> {
        trained::plans(self.name(), ID, NORMS, settings, spec)
    }

    fn story(&self, records: &[Record]) -> Story {
        pictures::story(self, &trained::read(records), records)
    }
}
