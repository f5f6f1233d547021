//! The filters against plain loops in f64.

use super::tensor;
use crate::data::SplitMix64;
use crate::draw::attention::Window;
use burn::tensor::Device;

const SIZE: [usize; 2] = [6, 9];
const FILTERS: usize = 4;

/// F `[N, length]` as in the module's formulas.
fn bank(centre: f64, delta: f64, variance: f64, length: usize) -> Vec<Vec<f64>> {
    let row = |i: usize| {
        let mean = centre + (i as f64 - FILTERS as f64 / 2.0 - 0.5) * delta;
        let row: Vec<f64> = (1..=length).map(|a| (-(a as f64 - mean).powi(2) / (2.0 * variance)).exp()).collect();
        let sum: f64 = row.iter().sum();
        row.into_iter().map(|value| value / sum).collect()
    };
    (1..=FILTERS).map(row).collect()
}

/// Fy and Fx.
fn banks([x, y, log_variance, log_delta, _]: [f64; 5]) -> [Vec<Vec<f64>>; 2] {
    let [rows, columns] = SIZE;
    let delta = (rows.max(columns) - 1) as f64 / (FILTERS - 1) as f64 * log_delta.exp();
    [(y, rows), (x, columns)]
        .map(|(centre, length)| bank((length + 1) as f64 / 2.0 * (centre + 1.0), delta, log_variance.exp(), length))
}

/// Windows inside the image, at its edge, and wide ones.
const PARAMETERS: [[f64; 5]; 3] =
    [[0.1, -0.2, 0.3, -0.4, 0.5], [0.9, 1.1, -0.5, -1.0, -0.3], [-0.3, 0.2, 1.2, 0.6, 0.0]];

fn random(count: usize) -> Vec<f64> {
    let mut random = SplitMix64::new(3);
    (0..count).map(|_| f64::from(random.uniform() as f32)).collect()
}

fn narrow(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&value| value as f32).collect()
}

fn window() -> Window {
    Window::new(tensor(narrow(&PARAMETERS.concat()), [3, 5], &Device::flex()), FILTERS, SIZE)
}

/// An exponent −(a − μ)²/(2σ²) of size 100 has an error of some 100·2⁻²³ in f32 and contributes only if it is small
/// compared with the others; filters, and sums of at most 54 products of numbers up to 1 with weights that add to at
/// most N², stay within 2·10⁻⁵ relative to the largest.
const TOLERANCE: f64 = 2e-5;

fn close(found: &[f32], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    let largest = expected.iter().fold(0.0, |max: f64, value| max.max(value.abs()));
    for (found, expected) in found.iter().zip(expected) {
        assert!((f64::from(*found) - expected).abs() < TOLERANCE * largest, "{found}, not {expected}");
    }
}

#[test]
fn reading_is_that_of_plain_loops() {
    let [rows, columns] = SIZE;
    let pixels = random(2 * 3 * rows * columns);
    let (x, other) = pixels.split_at(3 * rows * columns);
    let image = |pixels: &[f64]| tensor(narrow(pixels), [3, rows, columns], &Device::flex());
    let found = window().read(image(x), image(other)).into_data().try_into_vec_as::<f32>().unwrap();
    let mut expected = Vec::new();
    for (number, parameters) in PARAMETERS.into_iter().enumerate() {
        let [fy, fx] = banks(parameters);
        for fy in &fy {
            for image in [x, other] {
                let image = &image[number * rows * columns..];
                for fx in &fx {
                    let product = |place: usize| fy[place / columns] * image[place] * fx[place % columns];
                    expected.push(parameters[4].exp() * (0..rows * columns).map(product).sum::<f64>());
                }
            }
        }
    }
    close(&found, &expected);
}

#[test]
fn writing_is_that_of_plain_loops() {
    let [rows, columns] = SIZE;
    let patches = random(3 * FILTERS * FILTERS);
    let written = window().write(tensor(narrow(&patches), [3, FILTERS * FILTERS], &Device::flex()));
    let found = written.into_data().try_into_vec_as::<f32>().unwrap();
    let mut expected = Vec::new();
    for (number, parameters) in PARAMETERS.into_iter().enumerate() {
        let [fy, fx] = banks(parameters);
        for (b, a) in (0..rows).flat_map(|b| (0..columns).map(move |a| (b, a))) {
            let patch = |i: usize, j: usize| patches[number * FILTERS * FILTERS + i * FILTERS + j];
            let all = (0..FILTERS).flat_map(|i| (0..FILTERS).map(move |j| (i, j)));
            let sum: f64 = all.map(|(i, j)| fy[i][b] * patch(i, j) * fx[j][a]).sum();
            expected.push((-parameters[4]).exp() * sum);
        }
    }
    close(&found, &expected);
}

#[test]
fn a_window_far_outside_is_finite() {
    let far = tensor(vec![40.0, -40.0, -3.0, 0.0, 0.0], [1, 5], &Device::flex());
    let image = tensor(vec![1.0; 54], [1, 6, 9], &Device::flex());
    let read = Window::new(far, FILTERS, SIZE).read(image.clone(), image);
    // All weights of a filter add up to 1, so an image of ones is read as ones.
    let found = read.into_data().try_into_vec_as::<f32>().unwrap();
    assert!(found.iter().all(|value| (value - 1.0).abs() < 1e-5), "{found:?}");
}
