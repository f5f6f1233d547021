//! Robustness: inputs of a different scale, in training or only at test time, and initial weights that are too small or
//! too large.

mod pictures;
#[cfg(test)]
mod tests;

use super::{RunPlan, Settings, Study, tools, trained};
use crate::models::{Arch, Norm};
use crate::records::Record;
use crate::report::Story;
use crate::training::{Spec, Trial};

/// Study of scales.
pub struct Robustness;

const NORMS: [Norm; 5] = [Norm::None, Norm::Batch, Norm::Layer, Norm::Rms, Norm::Weight];
/// Factors for the inputs and for the initial weights.
const INPUT_FACTORS: [f64; 5] = [0.01, 0.1, 1.0, 10.0, 100.0];
const WEIGHT_FACTORS: [f64; 5] = [0.1, 0.3, 1.0, 3.0, 10.0];
/// Factors for the test images; training used 1.
const TEST_FACTORS: [f64; 7] = [0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0];
/// Offsets added to the test images; training used 0. The pixels have standard deviation 1.
const TEST_SHIFTS: [f64; 5] = [-2.0, -1.0, 0.0, 1.0, 2.0];

/// Epochs of the full study.
const FULL_EPOCHS: usize = 3;

impl Study for Robustness {
    fn name(&self) -> &'static str {
        "robustness"
    }

    fn question(&self) -> &'static str {
        "What if the inputs have a different scale, or the initial weights are too small or too large?"
    }

    fn plan(&self, settings: &Settings) -> Vec<RunPlan> {
        let mut plans = Vec::new();
        let units = if settings.full { 256 } else { 64 };
        for norm in NORMS {
            for seed in tools::seeds(settings) {
                let mut base = Spec::new(Arch::mlp(&[units, units, units]), norm, seed, &settings.data);
                (base.evaluations, base.test) = (5, 0);
                if settings.full {
                    [base.train, base.validation, _] = settings.all_images();
                    base.steps = FULL_EPOCHS * base.steps_of_epoch();
                }
                let base = trained::chosen(base, settings);
                let mut plan = |case: String, spec: Spec| {
                    plans.push(trained::plan(self.name(), &format!("{case}-{norm}"), spec, settings));
                };
                for factor in INPUT_FACTORS {
                    let mut spec = Spec { input_scale: factor, ..base.clone() };
                    if factor == 1.0 {
                        (spec.test, spec.trials) = (1000, trials());
                    }
                    plan(format!("input-{factor}"), spec);
                }
                for factor in WEIGHT_FACTORS.into_iter().filter(|&factor| factor != 1.0) {
                    let mut spec = base.clone();
                    spec.start.weight_scale = factor;
                    plan(format!("weights-{factor}"), spec);
                }
            }
        }
        plans
    }

    fn story(&self, records: &[Record]) -> Story {
        pictures::story(self.name(), self.question(), &trained::read(records), records)
    }
}

/// The test images with different factors and offsets, under names that [`pictures`] looks up.
fn trials() -> Vec<Trial> {
    let scaled = TEST_FACTORS.map(|scale| Trial { scale, ..Trial::plain(format!("scale-{scale}")) });
    let shifted = TEST_SHIFTS.map(|shift| Trial { shift, ..Trial::plain(format!("shift-{shift}")) });
    scaled.into_iter().chain(shifted).collect()
}
