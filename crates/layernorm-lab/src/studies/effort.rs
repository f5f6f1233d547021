//! Approximate cost of a run, used only to estimate the remaining time.
//!
//! The unit is training a small MLP on one image, about 17 µs. Measured with `layernorm study all`: the fixed cost of a
//! step is that of 40 images, and evaluating an image costs a quarter of training on it.

use crate::models::{Arch, Norm, Reads};
use crate::training::Spec;

/// Cost of a run that trains nothing.
pub(crate) const COMPUTATION: f64 = 9_000.0;
/// Fixed cost of a training step.
const STEP: f64 = 40.0;
/// Cost of evaluating an image, relative to training on it.
const LOOK: f64 = 0.25;
/// Pixels per image.
const PIXELS: usize = 784;

/// Cost of a training run.
pub(crate) fn of_training(spec: &Spec) -> f64 {
    let trained = spec.steps as f64 * (STEP + spec.batch_size as f64);
    let looks = spec.evaluations as f64 * spec.validation as f64 + (1 + spec.trials.len()) as f64 * spec.test as f64;
    (trained + LOOK * looks) * network(&spec.arch, spec.norm)
}

/// A network's cost per image.
fn network(arch: &Arch, norm: Norm) -> f64 {
    match arch {
        Arch::Mlp { hidden, .. } => {
            let before = std::iter::once(&PIXELS).chain(hidden);
            let weights: f64 = before.zip(hidden).map(|(&from, &to)| from as f64 * to as f64).sum();
            (weights / 1e5).max(1.0)
        }
        Arch::Lstm { hidden, reads } => {
            // These two norms run each time step as separate Burn operations.
            let cell = if matches!(norm, Norm::Batch | Norm::Rms) { 18.0 } else { 3.0 };
            let steps = if *reads == Reads::Pixels { 28.0 } else { 1.0 };
            cell * steps * (*hidden as f64 / 32.0).max(1.0)
        }
        Arch::Cnn { channels: [first, second] } => 4.0 * ((first * second) as f64 / 128.0).max(1.0),
        Arch::Transformer { width, blocks, .. } => 4.0 * *blocks as f64 * (*width as f64 / 16.0).max(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(change: impl FnOnce(&mut Spec)) -> f64 {
        let arch = Arch::Lstm { hidden: 32, reads: Reads::Rows };
        let mut spec = Spec::new(arch, Norm::Layer, 1, "data");
        change(&mut spec);
        of_training(&spec)
    }

    #[test]
    fn more_work_is_more_effort() {
        let plain = of(|_| {});
        assert!(plain > COMPUTATION);
        assert!(of(|spec| spec.steps *= 2) > 1.5 * plain);
        assert!(of(|spec| spec.batch_size *= 2) > plain);
        assert!(of(|spec| spec.norm = Norm::Batch) > 2.0 * plain);
        assert!(of(|spec| spec.arch = Arch::Lstm { hidden: 32, reads: Reads::Pixels }) > 10.0 * plain);
        assert!(of(|spec| spec.arch = Arch::Lstm { hidden: 128, reads: Reads::Rows }) > 2.0 * plain);
    }
}
