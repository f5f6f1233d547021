//! What ε does: y = (x − μ)/sqrt(σ² + ε) for rows of any standard deviation, down to constant ones, and its gradient.
//!
//! ```text
//! std. dev. of y   σ/sqrt(σ² + ε)      ≈ 1 if σ² ≫ ε, ≈ σ/√ε if σ² ≪ ε
//! gradient of x    ≈ 1/sqrt(σ² + ε)    at most 1/√ε, reached by a constant row
//! ```

mod pictures;
#[cfg(test)]
mod tests;

use super::tools::{self, each, largest, moments, narrow, normals, refused, rms, units_off, wide};
use super::{Computation, Error, Observer, RunPlan, Settings, Study};
use crate::data::SplitMix64;
use crate::records::{Record, RunFile};
use crate::report::Story;
use layernorm::{Element, LayerNorm, bf16, f16};
use serde::{Deserialize, Serialize};

/// Study of ε.
pub struct Epsilon;

/// Tested values of ε.
const EPS: [f64; 4] = [1e-3, 1e-5, 1e-8, 1e-12];
/// Elements per row. Not a power of two, so that the mean is rounded.
const ELEMENTS: usize = 200;
/// Rows per standard deviation.
const ROWS: usize = 8;
/// The values of constant rows.
const CONSTANTS: [f64; 5] = [0.0, 0.1, -7.3, 1e4, 3e38];
/// Standard deviations tested in half precision.
const HALF_SPREADS: [f64; 5] = [0.0, 1e-4, 1e-2, 1.0, 300.0];

/// The standard deviations: 1, 2 and 5 times every power of ten from 10⁻⁶ to 10.
fn spreads() -> Vec<f64> {
    let powers = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0];
    powers.into_iter().flat_map(|power| [power, 2.0 * power, 5.0 * power]).chain([10.0]).collect()
}

/// Rows of one standard deviation, in f32.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Spread {
    eps: f64,
    /// The requested standard deviation.
    sigma: f64,
    /// The standard deviation of y, relative to that without ε.
    output: f64,
    /// The RMS of the gradient of x, relative to that of the gradient of y.
    gradient: f64,
    /// The largest relative deviation of these two from the formulas.
    gap: f64,
    /// The largest error of y in units in the last place, for rows around 0 and around 1.
    error: f64,
}

/// A constant row.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Constant {
    kind: String,
    value: f64,
    eps: f64,
    /// The largest |y − β|; `None` if y is not finite.
    off: Option<f64>,
    /// The RMS of the gradient of x, relative to that of the gradient of y.
    gradient: Option<f64>,
}

/// A row in f16: computed by the library in f32, and by the formula with every number rounded to f16.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Half {
    eps: f64,
    sigma: f64,
    /// ε rounded to f16.
    eps_f16: f64,
    /// ε rounded to bf16.
    eps_bf16: f64,
    /// The standard deviation of y; `None` if y is not finite.
    ours: Option<f64>,
    /// The same for the formula in f16.
    plain: Option<f64>,
}

impl Study for Epsilon {
    fn name(&self) -> &'static str {
        "epsilon"
    }

    fn question(&self) -> &'static str {
        "What does ε do to values and gradients when a row has little or no variance?"
    }

    fn plan(&self, settings: &Settings) -> Vec<RunPlan> {
        let plan = |seed| {
            let settings = Measurement { seed, eps: EPS, elements: ELEMENTS, rows: ROWS };
            RunPlan::computation(self.name(), &format!("epsilon-{seed}"), settings)
        };
        tools::seeds(settings).map(plan).collect()
    }

    fn story(&self, records: &[Record]) -> Story {
        pictures::story(self.question(), records)
    }
}

/// Settings of a run.
#[derive(Debug, Serialize)]
struct Measurement {
    seed: u64,
    eps: [f64; EPS.len()],
    elements: usize,
    rows: usize,
}

impl Computation for Measurement {
    fn run(&self, file: &mut RunFile, observer: &mut dyn Observer) -> Result<(), Error> {
        let seed = self.seed;
        let both = |others: &[f64], eps: &[f64]| -> Vec<(f64, f64)> {
            eps.iter().flat_map(|&eps| others.iter().map(move |&other| (eps, other))).collect()
        };
        each("spread", &both(&spreads(), &EPS), 0.0..0.6, file, observer, |&(eps, sigma)| spread(eps, sigma, seed))?;
        let with_none: Vec<f64> = EPS.into_iter().chain([0.0]).collect();
        each("constant", &kinds(&both(&CONSTANTS, &with_none)), 0.6..0.8, file, observer, |&(kind, eps, value)| {
            match kind {
                "f16" => constant::<f16>(eps, value, seed),
                "bf16" => constant::<bf16>(eps, value, seed),
                "f32" => constant::<f32>(eps, value, seed),
                _ => constant::<f64>(eps, value, seed),
            }
        })?;
        each("half", &both(&HALF_SPREADS, &EPS), 0.8..1.0, file, observer, |&(eps, sigma)| half(eps, sigma, seed))?;
        Ok(file.finish()?)
    }
}

/// Each case in every type that can represent the value.
fn kinds(questions: &[(f64, f64)]) -> Vec<(&'static str, f64, f64)> {
    let holds = |kind: &str, value: f64| kind != "f16" || value.abs() < 65504.0;
    let kinds = ["f16", "bf16", "f32", "f64"];
    let each = |&(eps, value): &(f64, f64)| kinds.map(|kind| (kind, eps, value));
    questions.iter().flat_map(each).filter(|&(kind, _, value)| holds(kind, value)).collect()
}

/// Rows of mean `mean` and standard deviation `sigma`, up to rounding.
fn rows(seed: u64, mean: f64, sigma: f64) -> Vec<f64> {
    let random = &mut SplitMix64::stream(seed, 0);
    let row = |_| {
        let z = normals(random, ELEMENTS);
        let (middle, spread) = moments(&z);
        z.into_iter().map(move |z| mean + sigma * ((z - middle) / spread)).collect::<Vec<_>>()
    };
    (0..ROWS).flat_map(row).collect()
}

/// The gradient of y, the same for all cases.
fn gradient_of_output(seed: u64, count: usize) -> Vec<f64> {
    normals(&mut SplitMix64::stream(seed, 1), count)
}

fn norm<T: Element>(eps: f64) -> LayerNorm<T> {
    LayerNorm::new([ELEMENTS]).with_eps(eps)
}

fn spread(eps: f64, sigma: f64, seed: u64) -> Result<Spread, Error> {
    let x: Vec<f32> = narrow(&rows(seed, 0.0, sigma));
    let dy: Vec<f32> = narrow(&gradient_of_output(seed, x.len()));
    let layer = norm::<f32>(eps);
    let (y, saved) = layer.forward_train(&x).map_err(refused)?;
    let dx = layer.backward(&x, &dy, &saved).map_err(refused)?.input;
    let output = rms(wide(&y).into_iter());
    // The backward pass removes the mean of dy and its component along x̂; the rest passes through.
    let through: Vec<f64> = dy.chunks(ELEMENTS).zip(y.chunks(ELEMENTS)).flat_map(|(dy, y)| left(dy, y)).collect();
    let gradient = rms(wide(&dx).into_iter()) / rms(wide(&dy).into_iter());
    let expected = 1.0 / (sigma * sigma + eps).sqrt();
    let gradient_gap = rms(wide(&dx).into_iter()) / (rms(through.into_iter()) * expected) - 1.0;
    let gap = largest([output / (sigma * expected) - 1.0, gradient_gap]);
    let around_one: Vec<f32> = narrow(&rows(seed, 1.0, sigma));
    let mut error = 0.0f64;
    for x in [&x, &around_one] {
        let y = layer.forward(x).map_err(refused)?;
        for (x, y) in x.chunks(ELEMENTS).zip(y.chunks(ELEMENTS)) {
            error = error.max(units_off(x, y, eps));
        }
    }
    Ok(Spread { eps, sigma, output, gradient, gap, error })
}

/// dy without its mean and its component along x̂, as in the backward pass: g − a − x̂·b.
fn left(dy: &[f32], x_hat: &[f32]) -> Vec<f64> {
    let count = dy.len() as f64;
    let pairs = || dy.iter().zip(x_hat).map(|(&dy, &x_hat)| (f64::from(dy), f64::from(x_hat)));
    let a = pairs().map(|(dy, _)| dy).sum::<f64>() / count;
    let b = pairs().map(|(dy, x_hat)| dy * x_hat).sum::<f64>() / count;
    pairs().map(|(dy, x_hat)| dy - a - x_hat * b).collect()
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

fn constant<T: Element>(eps: f64, value: f64, seed: u64) -> Result<Constant, Error> {
    let mut layer = norm::<T>(eps);
    let bias: Vec<T> = narrow(&normals(&mut SplitMix64::stream(seed, 2), ELEMENTS));
    let x: Vec<T> = narrow(&[value; ELEMENTS]);
    let dy = narrow::<T>(&gradient_of_output(seed, ELEMENTS));
    layer.bias = Some(bias.clone());
    let (y, saved) = layer.forward_train(&x).map_err(refused)?;
    let dx = layer.backward(&x, &dy, &saved).map_err(refused)?.input;
    let off = largest(wide(&y).iter().zip(wide(&bias)).map(|(y, bias)| y - bias));
    let gradient = rms(wide(&dx).into_iter()) / rms(wide(&dy).into_iter());
    Ok(Constant { kind: T::NAME.to_owned(), value, eps, off: finite(off), gradient: finite(gradient) })
}

fn half(eps: f64, sigma: f64, seed: u64) -> Result<Half, Error> {
    let x: Vec<f16> = narrow(&rows(seed, if sigma == 0.0 { 0.5 } else { 0.0 }, sigma));
    let ours = norm::<f16>(eps).forward(&x).map_err(refused)?;
    let plain: Vec<f16> = x.chunks(ELEMENTS).flat_map(|x| plain_f16(x, eps)).collect();
    let spread = |y: &[f16]| finite(rms(wide(y).into_iter()));
    let (eps_f16, eps_bf16) = (f16::from_f64(eps).to_f64(), bf16::from_f64(eps).to_f64());
    Ok(Half { eps, sigma, eps_f16, eps_bf16, ours: spread(&ours), plain: spread(&plain) })
}

/// The formula with all arithmetic in f16.
fn plain_f16(x: &[f16], eps: f64) -> Vec<f16> {
    let count = f16::from_f64(x.len() as f64);
    let sum = |terms: &mut dyn Iterator<Item = f16>| terms.fold(f16::ZERO, |sum, term| sum + term);
    let mean = sum(&mut x.iter().copied()) / count;
    let variance = sum(&mut x.iter().map(|&x| (x - mean) * (x - mean))) / count;
    let sigma = f16::from_f32((variance + f16::from_f64(eps)).to_f32().sqrt());
    x.iter().map(|&x| (x - mean) / sigma).collect()
}
