//! The last hidden layer in space: images as points in the three directions in which they vary most, and how far the classes
//! lie apart there.
//!
//! ```text
//! separation   Σ_c n_c·|m_c − m|² / Σ_i |p_i − m|²      m_c: the middle of class c, m: that of all points
//! ```
//!
//! 0: all classes have one middle; 1: every class is a point.

mod pictures;
#[cfg(test)]
mod tests;

use super::{RunPlan, Settings, Study, trained};
use crate::models::{Arch, Norm};
use crate::records::Record;
use crate::report::Story;
use crate::training::{Probes, Spec};

/// The study of activations in space.
pub struct Activations;

/// What the network is called.
const ID: &str = "mlp";
const NORMS: [Norm; 3] = [Norm::None, Norm::Batch, Norm::Layer];
/// As many images as the probes look at.
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
        "What does the last hidden layer make of the images, seen in three dimensions?"
    }

    fn plan(&self, settings: &Settings) -> Vec<RunPlan> {
        trained::plans(self.name(), ID, NORMS, settings, spec)
    }

    fn story(&self, records: &[Record]) -> Story {
        pictures::story(self, &trained::read(records), records)
    }
}
