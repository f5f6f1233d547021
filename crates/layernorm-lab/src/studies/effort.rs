//! Approximate cost of a run, used only to estimate the remaining time.
//!
//! The unit is training a small MLP on one image, about 17 µs. Measured with `layernorm study all`: the fixed cost of a
//! step is that of 40 images, and evaluating an image costs a quarter of training on it.

use crate::data::Text;
use crate::language;
use crate::models::{Arch, Norm, Reads, RecurrentSize};
use crate::training::Spec;

/// Cost of a run that trains nothing.
pub(crate) const COMPUTATION: f64 = 9_000.0;
/// Fixed cost of a training step.
const STEP: f64 = 40.0;
/// Cost of evaluating an image, relative to training on it.
const LOOK: f64 = 0.25;
/// Fixed cost of a character of a language model.
const CHARACTER: f64 = 0.1;
/// Cost of a weight of its cells per character.
const WEIGHT: f64 = 1.0 / 130_000.0;
/// Pixels per image.
const PIXELS: usize = 784;

/// Cost of a training run.
pub(crate) fn of_training(spec: &Spec) -> f64 {
    let trained = spec.steps as f64 * (STEP + spec.batch_size as f64);
    let looks = spec.evaluations as f64 * spec.validation as f64 + (1 + spec.trials.len()) as f64 * spec.test as f64;
    (trained + LOOK * looks) * network(&spec.arch, spec.norm)
}

/// Cost of training a language model. Measured with `layernorm study language`.
pub(crate) fn of_language(spec: &language::Spec) -> f64 {
    let gates = match spec.cell {
        language::Cell::Rnn => 1.0,
        language::Cell::Gru => 3.0,
        language::Cell::Lstm => 4.0,
    };
    let hidden = spec.hidden as f64;
    let weights = gates * hidden * (Text::EMBEDDED_SYMBOLS as f64 + (2 * spec.layers - 1) as f64 * hidden);
    let trained = spec.steps as f64 * (spec.batch_size * spec.sampling.longest()) as f64;
    // Sequences that are tested by position overlap: each starts 29 characters after the one before.
    let by_position = spec.test * spec.positions / 29;
    let looks = (spec.evaluations * spec.validation + spec.test + by_position) as f64;
    (trained + LOOK * looks) * (CHARACTER + weights * WEIGHT)
}

/// A network's cost per image.
fn network(arch: &Arch, norm: Norm) -> f64 {
    match arch {
        Arch::Mlp { hidden, .. } => {
            let before = std::iter::once(&PIXELS).chain(hidden);
            let weights: f64 = before.zip(hidden).map(|(&from, &to)| from as f64 * to as f64).sum();
            (weights / 1e5).max(1.0)
        }
        Arch::Rnn(size) => recurrent([1.0, 8.0], size, norm),
        Arch::Gru(size) => recurrent([2.5, 18.0], size, norm),
        Arch::Lstm(size) => recurrent([3.0, 18.0], size, norm),
        Arch::Cnn { channels: [first, second] } => 4.0 * ((first * second) as f64 / 128.0).max(1.0),
        Arch::Transformer { width, blocks, .. } => 4.0 * *blocks as f64 * (*width as f64 / 16.0).max(1.0),
    }
}

/// Cost per image of a recurrent network: with 32 hidden units over rows, fused or as separate Burn operations.
fn recurrent([fused, separate]: [f64; 2], size: &RecurrentSize, norm: Norm) -> f64 {
    let cell = if matches!(norm, Norm::Batch | Norm::Rms) { separate } else { fused };
    let steps = if size.reads == Reads::Pixels { 28.0 } else { 1.0 };
    cell * steps * size.layers as f64 * (size.hidden as f64 / 32.0).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(change: impl FnOnce(&mut Spec)) -> f64 {
        let arch = Arch::lstm(32, Reads::Rows);
        let mut spec = Spec::new(arch, Norm::Layer, 1, "data");
        change(&mut spec);
        of_training(&spec)
    }

    #[test]
    fn more_text_is_more_effort() {
        let of = |change: fn(&mut language::Spec)| {
            let mut spec = language::Spec::new(language::Cell::Gru, Norm::Layer, 64, 1, "text");
            change(&mut spec);
            of_language(&spec)
        };
        let plain = of(|_| {});
        assert!(of(|spec| spec.steps *= 2) > 1.5 * plain && of(|spec| spec.hidden *= 2) > 2.0 * plain);
        assert!(of(|spec| spec.positions = 512) > plain && of(|spec| spec.layers = 2) > 1.5 * plain);
        assert!(
            of(|spec| spec.cell = language::Cell::Rnn) < plain && of(|spec| spec.cell = language::Cell::Lstm) > plain
        );
    }

    #[test]
    fn more_work_is_more_effort() {
        let plain = of(|_| {});
        assert!(plain > COMPUTATION);
        assert!(of(|spec| spec.steps *= 2) > 1.5 * plain);
        assert!(of(|spec| spec.batch_size *= 2) > plain);
        assert!(of(|spec| spec.norm = Norm::Batch) > 2.0 * plain);
        assert!(of(|spec| spec.arch = Arch::lstm(32, Reads::Pixels)) > 10.0 * plain);
        assert!(of(|spec| spec.arch = Arch::lstm(128, Reads::Rows)) > 2.0 * plain);
        let size = RecurrentSize { hidden: 32, reads: Reads::Rows, layers: 1 };
        assert!(of(|spec| spec.arch = Arch::Rnn(size)) < of(|spec| spec.arch = Arch::Gru(size)));
        assert!(of(|spec| spec.arch = Arch::Lstm(RecurrentSize { layers: 2, ..size })) > 1.5 * plain);
    }
}
