//! Probes: measurements inside a network. They use a copy, so they do not affect training.

mod affine;
mod geometry;
mod shift;
mod weights;

use super::checkpoint::copy;
use super::evaluate::{Cases, loss, numbers};
use super::events::{Activations, Correlation, Gradients, Moments, finite};
use super::run::{Model, json};
use super::{Probes, Spec, dynamics};
use crate::models::{Net, Seen, Taps, Weight};
use crate::records::RunFile;
use crate::studies::Error;
use burn::optim::GradientsParams;
use burn::tensor::Tensor;

/// Writes the results of a run's probes at a step. `batch` has the probes' images, `next` those of the next training
/// step; both are on a device with autodiff.
pub(super) fn look(
    model: &Model,
    spec: &Spec,
    step: usize,
    batch: &Cases,
    next: &Cases,
    file: &mut RunFile,
) -> Result<(), Error> {
    let net = &model.net;
    let Probes { gradients, time, affine, shift, weights, dynamics, .. } = spec.probes;
    if gradients {
        file.event("gradients", json(&gradients_of_layers(&copy(net), step, batch)?)?)?;
    }
    if time && let Some(gradients) = gradients_of_steps(&copy(net), step, batch)? {
        file.event("time", json(&gradients)?)?;
    }
    for event in affine::of_norms(net, step, affine)? {
        file.event("affine", json(&event)?)?;
    }
    if shift && let Some(event) = shift::of_next_step(model, spec, step, batch, next)? {
        file.event("shift", json(&event)?)?;
    }
    if weights && let Some(event) = weights::of_layers(&copy(net), spec, step, batch)? {
        file.event("weights", json(&event)?)?;
    }
    if dynamics && let Some(event) = dynamics::dynamics(&copy(net), spec, step, &batch.images)? {
        file.event("dynamics", json(&event)?)?;
    }
    look_at_units(net, spec, step, batch, file)
}

/// The probes of hidden units.
fn look_at_units(net: &Net, spec: &Spec, step: usize, batch: &Cases, file: &mut RunFile) -> Result<(), Error> {
    let Probes { moments, correlation, activations, geometry, .. } = spec.probes;
    if !moments && correlation == 0 && activations == 0 && geometry == 0 {
        return Ok(());
    }
    let layers = Layer::all(net, batch)?;
    for layer in layers.iter().filter(|_| moments) {
        let of = |values: &[f32]| mean_and_variance(values).map(finite);
        let (before, after) = (of(&layer.before), of(&layer.after));
        file.event("moments", json(&Moments { step, layer: layer.name.clone(), before, after })?)?;
    }
    if correlation > 0
        && let Some(layer) = layers.first()
    {
        let units = correlation.min(layer.units);
        let of = |values: &[f32]| correlations(values, layer.units, units);
        let (before, after) = (of(&layer.before), of(&layer.after));
        file.event("correlation", json(&Correlation { step, layer: layer.name.clone(), units, before, after })?)?;
    }
    if activations > 0
        && let Some(layer) = layers.last()
    {
        file.event("activations", json(&layer.in_three_directions(step, activations, &batch.classes))?)?;
    }
    if geometry > 0
        && let Some(layer) = layers.last()
    {
        file.event("geometry", json(&geometry::of_layer(layer, step, geometry, &batch.classes))?)?;
    }
    Ok(())
}

fn gradients_of_layers(net: &Net, step: usize, batch: &Cases) -> Result<Gradients, Error> {
    let logits = net.forward(batch.images.clone(), &mut Taps::closed());
    let gradients = GradientsParams::from_grads(loss(logits, &batch.classes).backward(), net);
    let norm = |weight: Weight| match weight {
        Weight::Matrix(id) => gradients.get::<2>(id).map(length).transpose(),
        Weight::Filters(id) => gradients.get::<4>(id).map(length).transpose(),
    };
    let (places, weights): (Vec<_>, Vec<_>) = net.weights().into_iter().unzip();
    let norms = weights.into_iter().map(|weight| Ok(norm(weight)?.and_then(finite))).collect::<Result<_, Error>>()?;
    Ok(Gradients { step, places, norms })
}

fn gradients_of_steps(net: &Net, step: usize, batch: &Cases) -> Result<Option<Gradients>, Error> {
    let Some((logits, states)) = net.forward_through_time(batch.images.clone()) else { return Ok(None) };
    let gradients = loss(logits, &batch.classes).backward();
    let norm = |state: &Tensor<3>| Ok(state.grad(&gradients).map(length).transpose()?.and_then(finite));
    let norms = states.iter().map(norm).collect::<Result<_, Error>>()?;
    Ok(Some(Gradients { step, places: (1..=states.len()).map(|place| place.to_string()).collect(), norms }))
}

/// Euclidean norm.
fn length<const D: usize>(tensor: Tensor<D>) -> Result<f64, Error> {
    let numbers = numbers(tensor).map_err(Error::Run)?;
    Ok(numbers.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt())
}

/// Hidden units of a layer, `[samples, units]`.
struct Layer {
    name: String,
    units: usize,
    before: Vec<f32>,
    after: Vec<f32>,
}

impl Layer {
    /// All hidden layers for a batch, in training mode.
    fn all(net: &Net, batch: &Cases) -> Result<Vec<Layer>, Error> {
        let mut taps = Taps::open();
        copy(net).forward(batch.images.clone(), &mut taps);
        taps.seen().into_iter().map(Layer::of).collect()
    }

    fn of(seen: Seen) -> Result<Layer, Error> {
        let units = seen.after.dims()[1];
        let (before, after) = (numbers(seen.before), numbers(seen.after));
        let (before, after) = (before.map_err(Error::Run)?, after.map_err(Error::Run)?);
        Ok(Layer { name: seen.layer, units, before, after })
    }

    /// The first images' units in the first three principal components, divided by √units: a layer whose units have mean
    /// 0 and variance 1 lies on the unit sphere around the origin. If samples are positions of images, an image's units
    /// are means over its positions.
    fn in_three_directions(&self, step: usize, images: usize, classes: &[u8]) -> Activations {
        let per_image = self.after.len().checked_div(classes.len()).unwrap_or(0);
        let positions = per_image.checked_div(self.units).unwrap_or(0).max(1);
        let mut rows: Vec<Vec<f64>> = Vec::new();
        for image in self.after.chunks(per_image.max(1)).take(images) {
            let mut row = vec![0.0; self.units];
            for position in image.chunks(self.units) {
                let share = 1.0 / (positions as f64 * (self.units as f64).sqrt());
                row.iter_mut().zip(position).for_each(|(sum, &x)| *sum += f64::from(x) * share);
            }
            rows.push(row);
        }
        let (places, shares) = principal(&rows);
        let points = places.iter().zip(classes).map(|(p, &class)| [p[0], p[1], p[2], f64::from(class)]).collect();
        Activations { step, layer: self.name.clone(), points, shares }
    }
}

fn mean_and_variance(values: &[f32]) -> [f64; 2] {
    let count = values.len().max(1) as f64;
    let mean = values.iter().map(|&x| f64::from(x)).sum::<f64>() / count;
    let variance = values.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / count;
    [mean, variance]
}

/// Correlations of the first units, row by row; 0 for constant units.
fn correlations(values: &[f32], width: usize, units: usize) -> Vec<f64> {
    let columns: Vec<Vec<f64>> = (0..units)
        .map(|unit| {
            let column: Vec<f64> = values.chunks(width).map(|row| f64::from(row[unit])).collect();
            let mean = column.iter().sum::<f64>() / column.len().max(1) as f64;
            column.into_iter().map(|x| x - mean).collect()
        })
        .collect();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let lengths: Vec<f64> = columns.iter().map(|column| dot(column, column).sqrt()).collect();
    let mut all = Vec::with_capacity(units * units);
    for (a, length_a) in columns.iter().zip(&lengths) {
        for (b, length_b) in columns.iter().zip(&lengths) {
            let correlation = dot(a, b) / (length_a * length_b);
            all.push(if correlation.is_finite() { rounded(correlation) } else { 0.0 });
        }
    }
    all
}

/// Rounds to three decimals.
fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

/// Power iterations per component, enough for plotting.
const ROUNDS: usize = 60;

/// Projects the rows onto their first three principal components and returns the fraction of the variance in each. The
/// origin stays at the origin. Uses power iteration, keeping each component orthogonal to the previous ones.
fn principal(rows: &[Vec<f64>]) -> (Vec<[f64; 3]>, [f64; 3]) {
    let width = rows.first().map_or(0, Vec::len);
    let count = rows.len().max(1) as f64;
    let mean: Vec<f64> = (0..width).map(|j| rows.iter().map(|row| row[j]).sum::<f64>() / count).collect();
    let centred: Vec<Vec<f64>> = rows.iter().map(|row| row.iter().zip(&mean).map(|(x, m)| x - m).collect()).collect();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let total = centred.iter().map(|row| dot(row, row)).sum::<f64>();
    let mut directions: Vec<Vec<f64>> = Vec::new();
    let mut shares = [0.0; 3];
    for (number, share) in shares.iter_mut().enumerate() {
        // Any start works unless it happens to be orthogonal to the component.
        let mut direction: Vec<f64> = (0..width).map(|j| 1.0 / (1 + (j + number) % 7) as f64).collect();
        for _ in 0..ROUNDS {
            let mut next = vec![0.0; width];
            for row in &centred {
                let along = dot(row, &direction);
                next.iter_mut().zip(row).for_each(|(sum, x)| *sum += along * x);
            }
            for earlier in &directions {
                let along = dot(&next, earlier);
                next.iter_mut().zip(earlier).for_each(|(x, e)| *x -= along * e);
            }
            let length = dot(&next, &next).sqrt();
            if !(length > 0.0 && length.is_finite()) {
                next = vec![0.0; width];
            } else {
                next.iter_mut().for_each(|x| *x /= length);
            }
            direction = next;
        }
        let along = centred.iter().map(|row| dot(row, &direction).powi(2)).sum::<f64>();
        *share = if total > 0.0 { rounded(along / total) } else { 0.0 };
        directions.push(direction);
    }
    let place = |row: &Vec<f64>| {
        let along = |number: usize| finite(rounded(dot(row, &directions[number]))).unwrap_or(0.0);
        [along(0), along(1), along(2)]
    };
    (rows.iter().map(place).collect(), shares.map(|share| finite(share).unwrap_or(0.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correlations_are_those_of_a_textbook() {
        // Units: x, 2x + 1, −x, constant.
        let values: Vec<f32> = [1.0f32, 2.0, 4.0, 8.0].iter().flat_map(|&x| [x, 2.0 * x + 1.0, -x, 5.0]).collect();
        let found = correlations(&values, 4, 4);
        let expected = [1.0, 1.0, -1.0, 0.0, 1.0, 1.0, -1.0, 0.0, -1.0, -1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        assert_eq!(found, expected);
        assert_eq!(correlations(&values, 4, 2), [1.0; 4]);
    }

    #[test]
    fn principal_directions_are_found_in_order() {
        // Variances in the ratio 9 : 4 : 1 along three axes, none along the fourth.
        let rows: Vec<Vec<f64>> = [[3.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 1.0]]
            .into_iter()
            .flat_map(|p| [p, p.map(|x: f64| -x)])
            .map(|p| vec![p[2] + 7.0, p[0], 5.0, p[1]])
            .collect();
        let (places, shares) = principal(&rows);
        assert_eq!(shares, [0.643, 0.286, 0.071]);
        // The rows are shifted by 7 along the third component, and by 5 where they do not vary.
        let sizes: Vec<[f64; 3]> = places.iter().map(|p| p.map(f64::abs)).collect();
        assert_eq!((sizes[0], sizes[2], sizes[5]), ([3.0, 0.0, 7.0], [0.0, 2.0, 7.0], [0.0, 0.0, 6.0]));
        assert_eq!(principal(&[]).0.len(), 0);
        assert_eq!(principal(&[vec![1.0, 2.0], vec![1.0, 2.0]]).1, [0.0; 3]);
    }
}
