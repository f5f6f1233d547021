//! The last hidden layer in three dimensions: each image is a point in the first three principal components, and the
//! separation of the classes is measured there.
//!
//! ```text
//! separation   Σ_c n_c·|m_c − m|² / Σ_i |p_i − m|²      m_c: centroid of class c, m: centroid of all points
//! ```
//!
//! 0: all classes have the same centroid; 1: every class is a single point.
//!
//! The geometry of a layer's units h, before and after its norm:
//!
//! ```text
//! radius       ‖h‖/√units                     after layer norm without γ and β: 1 for every image, up to ε
//! mean         Σ h/units                      after layer norm without γ and β: 0
//! spread       standard deviation of the radius over images, divided by its mean
//! ```
//!
//! A second network has a last hidden layer of three units without γ and β, so that nothing has to be projected: with
//! layer norm its points lie on a circle, where the sphere of radius √3 meets the plane of mean 0.

mod geometry;
mod pictures;
#[cfg(test)]
mod tests;

use super::{RunPlan, Settings, Study, trained};
use crate::models::{Activation, Arch, Norm};
use crate::records::Record;
use crate::report::Story;
use crate::training::{Probes, Spec};

/// Study of hidden activations in three dimensions.
pub struct Activations;

/// Name of the network in run names.
const ID: &str = "mlp";
/// Name of the network whose last hidden layer has three units.
const THREE: &str = "three";
/// Small, because the variance of three units may be small, and ε would move those images off the circle.
const EPSILON: f64 = 1e-10;
const NORMS: [Norm; 3] = [Norm::None, Norm::Batch, Norm::Layer];
/// Number of images per probe.
const IMAGES: usize = 128;
/// Epochs of the full study.
const FULL_EPOCHS: usize = 10;

fn spec(norm: Norm, seed: u64, settings: &Settings) -> Spec {
    let units = if settings.full { 512 } else { 64 };
    let mut spec = Spec::new(Arch::mlp(&[units, units]), norm, seed, &settings.data);
    (spec.steps, spec.evaluations, spec.test) = (200, 10, 0);
    spec.probes = Probes { activations: IMAGES, geometry: IMAGES, ..Probes::default() };
    if settings.full {
        [spec.train, spec.validation, _] = settings.all_images();
        spec.evaluations = 25;
        spec.steps = FULL_EPOCHS * spec.steps_of_epoch();
    }
    trained::chosen(spec, settings)
}

/// tanh, which keeps the sign of each of the three units.
fn spec_of_three(norm: Norm, seed: u64, settings: &Settings) -> Spec {
    let mut spec = spec(norm, seed, settings);
    spec.arch = Arch::Mlp { hidden: vec![64, 3], activation: Activation::Tanh, output_norm: false };
    (spec.start.affine, spec.start.epsilon, spec.evaluations) = (false, EPSILON, 4);
    spec.learning_rate = settings.learning_rate.unwrap_or(3e-3);
    spec.probes = Probes { geometry: IMAGES, ..Probes::default() };
    spec
}

impl Study for Activations {
    fn name(&self) -> &'static str {
        "activations"
    }

    fn question(&self) -> &'static str {
        "What do the activations of the last hidden layer look like in three dimensions, and are they spherical?"
    }

    fn plan(&self, settings: &Settings) -> Vec<RunPlan> {
        let three = trained::plans(self.name(), THREE, NORMS, settings, spec_of_three);
        trained::plans(self.name(), ID, NORMS, settings, spec).into_iter().chain(three).collect()
    }

    fn story(&self, records: &[Record]) -> Story {
        pictures::story(self, &trained::read(records), records)
    }
}
