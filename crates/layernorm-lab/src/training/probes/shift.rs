//! Internal covariate shift: how far one training step moves what each layer of an MLP receives.
//!
//! ```text
//! X, X'        values of a unit over a fixed batch of images, before and after the step
//! W₁(X, X')    their Wasserstein-1 distance: the mean of |x₍ᵢ₎ − x'₍ᵢ₎| over both in increasing order
//! σ            the unit's standard deviation before the step
//! shift        Σ W₁ / Σ σ over the units of a layer
//!
//! G            gradient of a layer's weights on the step's batch
//! G'           the same after the layers below have been updated, and only they
//! cosine       ⟨G, G'⟩/(‖G‖‖G'‖), as in Santurkar et al. (2018)
//! ```
//!
//! The sums are divided rather than each unit, because a unit with ReLU may be 0 for all images. The input of a layer
//! depends on the layers below only, so a step of the whole network shifts it as a step of those layers does.

use super::super::checkpoint::copy;
use super::super::evaluate::{Cases, loss, numbers};
use super::super::events::{Shift, finite};
use super::super::run::Model;
use super::Layer;
use super::weights::angle;
use crate::models::{Activation, Arch, DenseLayer, Net, Taps};
use crate::studies::Error;
use crate::training::Spec;
use burn::optim::GradientsParams;

/// The effect of the next training step, on images `next`, for the images of `batch`; `None` unless the network is an
/// MLP.
pub(super) fn of_next_step(
    model: &Model,
    spec: &Spec,
    step: usize,
    batch: &Cases,
    next: &Cases,
) -> Result<Option<Shift>, Error> {
    let (net, Arch::Mlp { activation, .. }) = (copy(&model.net), &spec.arch) else { return Ok(None) };
    let layers = net.dense_layers();
    let gradients = gradients(&net, next);
    // The network after the step of the layers before this one.
    let moved = |below: usize| {
        let mut own = GradientsParams::new();
        layers[..below].iter().for_each(|layer| register(layer, &gradients, &mut own));
        model.optimizer.clone().step(spec.rate(step), copy(&net), own)
    };
    let (old, new) = (Layer::all(&net, batch)?, Layer::all(&moved(layers.len()), batch)?);
    let pairs = || old.iter().zip(&new);
    let hidden = |shifts: Vec<f64>| shifts.into_iter().map(finite).chain([None]).collect();
    let received = pairs().map(|(old, new)| {
        let of = |layer: &Layer| active(&layer.after, *activation);
        finite(shift(&of(old), &of(new), old.units))
    });
    let mut cosine = vec![None];
    for (number, layer) in layers.iter().enumerate().skip(1) {
        let id = layer.dense.weight.id;
        let later = self::gradients(&moved(number), next);
        let of = |gradients: &GradientsParams| gradients.get::<2>(id).map_or_else(|| Ok(Vec::new()), numbers);
        let (ours, other) = (of(&gradients).map_err(Error::Run)?, of(&later).map_err(Error::Run)?);
        cosine.push(angle(&ours, &other).cosine);
    }
    Ok(Some(Shift {
        step,
        input: [None].into_iter().chain(received).collect(),
        before: hidden(pairs().map(|(old, new)| shift(&old.before, &new.before, old.units)).collect()),
        after: hidden(pairs().map(|(old, new)| shift(&old.after, &new.after, old.units)).collect()),
        cosine,
        layers: layers.into_iter().map(|layer| layer.name).collect(),
    }))
}

fn gradients(net: &Net, batch: &Cases) -> GradientsParams {
    let net = copy(net);
    let logits = net.forward(batch.images.clone(), &mut Taps::closed());
    GradientsParams::from_grads(loss(logits, &batch.classes).backward(), &net)
}

/// Adds the gradients of a layer to `own`.
fn register(layer: &DenseLayer<'_>, gradients: &GradientsParams, own: &mut GradientsParams) {
    if let Some(weight) = gradients.get::<2>(layer.dense.weight.id) {
        own.register(layer.dense.weight.id, weight);
    }
    for id in layer.vectors() {
        if let Some(vector) = gradients.get::<1>(id) {
            own.register(id, vector);
        }
    }
}

/// What the next layer receives.
fn active(values: &[f32], activation: Activation) -> Vec<f32> {
    match activation {
        Activation::Relu => values.iter().map(|x| x.max(0.0)).collect(),
        Activation::Tanh => values.iter().map(|x| x.tanh()).collect(),
    }
}

/// The shift between two batches `[samples, units]`.
fn shift(old: &[f32], new: &[f32], units: usize) -> f64 {
    let column = |values: &[f32], unit: usize| {
        let mut column: Vec<f64> = values.iter().skip(unit).step_by(units.max(1)).map(|&x| f64::from(x)).collect();
        column.sort_by(f64::total_cmp);
        column
    };
    let (mut distance, mut deviation) = (0.0, 0.0);
    for unit in 0..units {
        let (old, new) = (column(old, unit), column(new, unit));
        let count = old.len().max(1) as f64;
        distance += old.iter().zip(&new).map(|(a, b)| (a - b).abs()).sum::<f64>() / count;
        let mean = old.iter().sum::<f64>() / count;
        deviation += (old.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count).sqrt();
    }
    distance / deviation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shift_is_in_units_of_the_standard_deviation() {
        // Two units over four images: ±1 and ±3, so σ = 1 and 3.
        let old = [1.0, 3.0, -1.0, -3.0, 1.0, 3.0, -1.0, -3.0];
        let moved: Vec<f32> = old.iter().map(|x| x + 2.0).collect();
        assert_eq!(shift(&old, &moved, 2), 4.0 / 4.0);
        // Twice as wide: each value moves by its own size.
        let wider: Vec<f32> = old.iter().map(|x| 2.0 * x).collect();
        assert_eq!(shift(&old, &wider, 2), (1.0 + 3.0) / 4.0);
        // The same distribution in another order is no shift.
        let permuted: Vec<f32> = old.chunks(2).rev().flatten().copied().collect();
        assert_eq!(shift(&old, &permuted, 2), 0.0);
        assert!(shift(&[0.0; 4], &[0.0; 4], 2).is_nan(), "units that do not vary have no scale");
    }
}
