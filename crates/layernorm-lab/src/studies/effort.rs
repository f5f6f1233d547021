//! Approximate cost of a run, used to estimate times before and during a session.
//!
//! The unit is 17 µs of one core of the machine of the measurements; [`crate::session`] measures how long it takes on
//! another one. A training step costs s + B·i, for B images, and evaluating an image ¼·i to ½·i. s has a part per operation
//! and one per weight (the optimizer; products with few images). i has a part per activation and one per product of a
//! weight. The constants are fitted to step times measured on one core of an AMD EPYC with AVX-512; the tests hold the
//! estimates against some of them.

#[cfg(test)]
mod tests;

use crate::data::Text;
use crate::models::{Arch, Norm, Reads, RecurrentSize};
use crate::training::{Images, Spec};
use crate::{draw, language};
use layernorm_rnn::Kind;

/// Seconds per unit on the machine of the measurements.
pub const UNIT: f64 = 17e-6;
/// Cost of a run that trains nothing.
pub(crate) const COMPUTATION: f64 = 9_000.0;
/// Rows and columns of an image.
const SIDE: usize = 28;
const CLASSES: usize = 10;
/// Training images used at each evaluation for the inference statistics of batch norm in a recurrent network.
const SETTLED: usize = 1000;

/// Cost of a network in microseconds.
#[derive(Clone, Copy, Debug)]
struct Cost {
    /// Fixed cost of a training step.
    step: f64,
    /// Cost of an image in it.
    image: f64,
    /// Cost of evaluating an image, relative to `image`.
    look: f64,
}

/// Cost of a training run.
pub(crate) fn of_training(spec: &Spec) -> f64 {
    let batch_of_steps = spec.norm == Norm::Batch && spec.arch.as_recurrent().is_some();
    let settled = if batch_of_steps { SETTLED.min(spec.train) } else { 0 };
    let readings = 1 + spec.trials.iter().map(|trial| 1 + trial.repeats).sum::<usize>();
    let evaluated = (spec.evaluations + 1) * (spec.validation + settled) + readings * spec.test;
    // The shift of each layer's gradient is one training step per layer.
    let layers = if let Arch::Mlp { hidden, .. } = &spec.arch { hidden.len() } else { 0 };
    let probed = if spec.probes.shift { layers + 1 } else { 0 } + usize::from(spec.probes.weights);
    (spec.steps + spec.evaluations * probed) as f64 * step(spec) + evaluated as f64 * look(spec)
}

/// Cost of a training step.
pub(crate) fn step(spec: &Spec) -> f64 {
    let cost = cost(spec);
    units(cost.step + spec.batch_size as f64 * cost.image)
}

/// Cost of evaluating an image.
fn look(spec: &Spec) -> f64 {
    let cost = cost(spec);
    units(cost.look * cost.image)
}

fn units(microseconds: f64) -> f64 {
    microseconds * 1e-6 / UNIT
}

fn cost(spec: &Spec) -> Cost {
    let side = side(spec.images);
    match &spec.arch {
        Arch::Mlp { hidden, .. } => mlp(hidden, spec.norm, side * side),
        Arch::Rnn(size) => recurrent(Kind::Rnn, size, spec.norm, side),
        Arch::Gru(size) => recurrent(Kind::Gru, size, spec.norm, side),
        Arch::Lstm(size) => recurrent(Kind::Lstm, size, spec.norm, side),
        Arch::Cnn { channels } => cnn(*channels, spec.norm, side),
        Arch::Transformer { width, blocks, .. } => transformer(*width, *blocks, spec.norm, side),
    }
}

/// Rows and columns of the images as the network sees them.
fn side(images: Images) -> usize {
    let side = if images.cropped { SIDE - 2 * (SIDE / 7) } else { SIDE };
    if images.halved { side.div_ceil(2) } else { side }
}

/// Cost of a step per weight: few weights are in the cache.
fn weights(count: f64) -> f64 {
    count * (1.2e-3 + 1.9e-3 * (count / 1e6).min(1.0))
}

fn mlp(hidden: &[usize], norm: Norm, pixels: usize) -> Cost {
    let sizes: Vec<usize> = std::iter::once(pixels).chain(hidden.iter().copied()).chain([CLASSES]).collect();
    let products: f64 = sizes.windows(2).map(|pair| (pair[0] * pair[1]) as f64).sum();
    let (layers, units) = (hidden.len() as f64, hidden.iter().sum::<usize>() as f64);
    let (norm_step, norm_unit) = if norm == Norm::None { (0.0, 0.0) } else { (25.0, 3e-3) };
    Cost {
        step: 60.0 + layers * (20.0 + norm_step) + weights(products),
        image: 0.062e-3 * products + (2e-3 + norm_unit) * units,
        look: 0.45,
    }
}

/// The cells of layer, group and weight norm and without one are fused; the others consist of many small operations.
fn recurrent(kind: Kind, size: &RecurrentSize, norm: Norm, side: usize) -> Cost {
    let (steps, inputs) = if size.reads == Reads::Pixels { (side * side, 1) } else { (side, side) };
    let gates = match kind {
        Kind::Rnn => 1,
        Kind::Gru => 3,
        Kind::Lstm => 4,
    };
    let (hidden, layers) = (size.hidden as f64, size.layers as f64);
    let products = (gates * size.hidden * (size.hidden * (2 * size.layers - 1) + inputs)) as f64;
    let steps = steps as f64;
    // Per hidden unit, per product, the factor of layer norm, and the fixed cost per step of separate operations.
    let (unit, product, layer_norm, separate) = match kind {
        Kind::Rnn => (9e-3, 4e-5, 1.25, 75.0),
        Kind::Gru => (9.5e-3, 7.5e-5, 1.35, 220.0),
        Kind::Lstm => (13.5e-3, 6.9e-5, 1.45, 240.0),
    };
    let cell = unit * hidden * layers + product * products;
    match norm {
        Norm::Batch | Norm::Rms => {
            let few = if norm == Norm::Batch { separate } else { separate / 2.0 };
            Cost { step: 100.0 + steps * few + weights(products), image: steps * 3.5 * cell, look: 0.4 }
        }
        _ => {
            let factor = match norm {
                Norm::None => 1.0,
                Norm::Weight => 1.1,
                _ => layer_norm,
            };
            Cost { step: 60.0 + 2.0 * steps * layers + weights(products), image: steps * factor * cell, look: 0.32 }
        }
    }
}

fn cnn([first, second]: [usize; 2], norm: Norm, side: usize) -> Cost {
    let places = [side.div_ceil(2).pow(2), side.div_ceil(4).pow(2)];
    let activations = (places[0] * first + places[1] * second) as f64;
    let products = (9 * (places[0] * first + places[1] * first * second)) as f64;
    let (norm_step, factor) = if norm == Norm::None { (0.0, 1.0) } else { (100.0, 1.2) };
    Cost { step: 500.0 + norm_step, image: factor * (12.9e-3 * activations + 1.23e-4 * products), look: 0.42 }
}

fn transformer(width: usize, blocks: usize, norm: Norm, side: usize) -> Cost {
    let (width, blocks, positions) = (width as f64, blocks as f64, side as f64);
    let products = 12.0 * width * width;
    let norm_step = if norm == Norm::None { 0.0 } else { 70.0 };
    let image = positions * blocks * (0.08 * width + 2.85e-5 * products);
    Cost { step: 150.0 + blocks * (200.0 + norm_step) + weights(blocks * products), image, look: 0.37 }
}

/// Cost of a DRAW run: per glimpse, that of its parameters and, with attention, of its filters. The fixed cost of a step
/// is that of 40 images, and evaluating an image costs a quarter of training on it.
pub(crate) fn of_draw(spec: &draw::Spec) -> f64 {
    let pixels = side(spec.images).pow(2);
    let filters = if spec.attention.is_some() { 0.003 * pixels as f64 } else { 0.0 };
    let glimpse = spec.parameters(pixels) / 1.7e5 + 0.4 + filters;
    let steps = spec.steps as f64 * (40.0 + spec.batch_size as f64);
    let looks = spec.evaluations as f64 * spec.validation as f64 + spec.test as f64;
    (steps + 0.25 * looks) * spec.glimpses as f64 * glimpse
}

/// Cost of training a language model, by character: a fixed part, and one for each weight of the cells. Measured with
/// `layernorm study language`.
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
    (trained + 0.25 * looks) * (0.1 + weights / 130_000.0)
}
