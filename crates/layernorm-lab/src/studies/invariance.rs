//! The paper's Table 1, measured: which changes to weights and data leave a layer's output unchanged.
//!
//! ```text
//! a = W x                            W [H, D], x [B, D]
//! batch norm    y = γ·(a − μ)/σ + β  μ and σ of one unit over the samples of the batch
//! weight norm   y = γ·(w·x)/‖w‖ + β  w one row of W
//! layer norm    y = γ·(a − μ)/σ + β  μ and σ of one sample over the units of the layer
//! ```
//! The output counts as invariant if it changes by no more than rounding and ε can explain; `Layer::slack` derives this
//! bound.

mod table;
#[cfg(test)]
mod tests;

use super::tools::{self, each, largest, moments, narrow, normals, refused, wide};
use super::{Computation, Error, Observer, RunPlan, Settings, Study};
use crate::data::SplitMix64;
use crate::records::{Record, RunFile};
use crate::report::Story;
use layernorm::{BatchNorm, Context, Float, LayerNorm, View, ViewMut, weight_norm};
use serde::{Deserialize, Serialize};

/// Table 1 of the paper.
pub struct Invariance;

/// Number of units.
const UNITS: usize = 40;
/// Number of inputs.
const INPUTS: usize = 24;
/// Batch size.
const CASES: usize = 32;
/// Scale factors k. A shift is a vector of normal numbers times one of these.
const AMOUNTS: [f64; 3] = [2.0, 0.5, 10.0];
/// Without ε, and with the usual value.
const EPS: [f64; 2] = [0.0, 1e-5];

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum NormRow {
    Batch,
    Weight,
    Layer,
}

/// A column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Change {
    /// W → kW.
    WeightsScaled,
    /// W → W + 1cᵀ: the same vector c is added to every unit's incoming weights.
    WeightsShifted,
    /// wᵢ → k wᵢ for one unit i.
    UnitScaled,
    /// x → kx for every sample.
    DataScaled,
    /// x → x + c: the same vector c for every sample.
    DataShifted,
    /// x → kx for one sample.
    CaseScaled,
}

impl NormRow {
    const ALL: [NormRow; 3] = [NormRow::Batch, NormRow::Weight, NormRow::Layer];
}

impl Change {
    const ALL: [Change; 6] = [
        Change::WeightsScaled,
        Change::WeightsShifted,
        Change::UnitScaled,
        Change::DataScaled,
        Change::DataShifted,
        Change::CaseScaled,
    ];
}

/// The type used for the computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    F64,
    F32,
}

/// One change of one layer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Case {
    norm: NormRow,
    change: Change,
    kind: Kind,
    amount: f64,
    eps: f64,
}

/// The measured effect.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Seen {
    #[serde(flatten)]
    case: Case,
    /// The largest |y′ − y|, relative to the largest |y|.
    deviation: Option<f64>,
    /// An upper bound on the effect of rounding and ε alone.
    bound: Option<f64>,
}

impl Seen {
    fn invariant(&self) -> bool {
        self.deviation.zip(self.bound).is_some_and(|(deviation, bound)| deviation <= bound)
    }
}

impl Study for Invariance {
    fn name(&self) -> &'static str {
        "invariance"
    }

    fn question(&self) -> &'static str {
        "Which changes to the weights and the data leave the output of a normalized layer unchanged?"
    }

    fn plan(&self, settings: &Settings) -> Vec<RunPlan> {
        let plan = |seed| {
            let settings = Measurement { seed, units: UNITS, inputs: INPUTS, cases: CASES, amounts: AMOUNTS, eps: EPS };
            RunPlan::computation(self.name(), &format!("invariance-{seed}"), settings)
        };
        tools::seeds(settings).map(plan).collect()
    }

    fn story(&self, records: &[Record]) -> Story {
        table::story(self.question(), records)
    }
}

/// Settings of a run.
#[derive(Debug, Serialize)]
struct Measurement {
    seed: u64,
    units: usize,
    inputs: usize,
    cases: usize,
    amounts: [f64; AMOUNTS.len()],
    eps: [f64; EPS.len()],
}

impl Computation for Measurement {
    fn run(&self, file: &mut RunFile, observer: &mut dyn Observer) -> Result<(), Error> {
        each("change", &cases(), 0.0..1.0, file, observer, |case| match case.kind {
            Kind::F64 => measure::<f64>(*case, self.seed),
            Kind::F32 => measure::<f32>(*case, self.seed),
        })?;
        Ok(file.finish()?)
    }
}

/// All cases measured for one seed.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for norm in NormRow::ALL {
        for change in Change::ALL {
            for kind in [Kind::F64, Kind::F32] {
                // Weight norm has no ε.
                let eps = if norm == NormRow::Weight { &EPS[..1] } else { &EPS[..] };
                for &eps in eps {
                    cases.extend(AMOUNTS.map(|amount| Case { norm, change, kind, amount, eps }));
                }
            }
        }
    }
    cases
}

/// A layer and its data, as f64 values that the tested type represents exactly.
#[derive(Clone, Debug)]
struct Layer {
    /// W, `[H, D]`.
    weights: Vec<f64>,
    /// x, `[B, D]`.
    data: Vec<f64>,
    /// γ, `[H]`.
    gain: Vec<f64>,
    /// β, `[H]`.
    bias: Vec<f64>,
}

fn rounded<T: Float>(values: &[f64]) -> Vec<f64> {
    wide(&narrow::<T>(values))
}

impl Layer {
    fn new<T: Float>(seed: u64) -> Layer {
        let random = &mut SplitMix64::stream(seed, 0);
        let scaled = |values: Vec<f64>, by: f64, plus: f64| -> Vec<f64> {
            rounded::<T>(&values.iter().map(|value| value * by + plus).collect::<Vec<_>>())
        };
        Layer {
            weights: scaled(normals(random, UNITS * INPUTS), 0.2, 0.0),
            data: scaled(normals(random, CASES * INPUTS), 1.0, 0.3),
            gain: scaled(normals(random, UNITS), 0.2, 1.0),
            bias: scaled(normals(random, UNITS), 0.2, 0.0),
        }
    }

    /// The layer after a change.
    fn changed<T: Float>(&self, change: Change, amount: f64, seed: u64) -> Layer {
        let shift = normals(&mut SplitMix64::stream(seed, 1), INPUTS);
        let mut layer = self.clone();
        let scale = |values: &mut [f64]| values.iter_mut().for_each(|value| *value *= amount);
        let add = |values: &mut [f64]| {
            values.iter_mut().enumerate().for_each(|(i, value)| *value += amount * shift[i % INPUTS]);
        };
        match change {
            Change::WeightsScaled => scale(&mut layer.weights),
            Change::WeightsShifted => add(&mut layer.weights),
            Change::UnitScaled => scale(&mut layer.weights[..INPUTS]),
            Change::DataScaled => scale(&mut layer.data),
            Change::DataShifted => add(&mut layer.data),
            Change::CaseScaled => scale(&mut layer.data[..INPUTS]),
        }
        Layer { weights: rounded::<T>(&layer.weights), data: rounded::<T>(&layer.data), ..layer }
    }

    /// y, `[B, H]`, by the library's kernels.
    fn output<T: Float>(&self, norm: NormRow, eps: f64) -> Result<Vec<f64>, layernorm::Error> {
        let [weights, data, gain, bias] =
            [&self.weights, &self.data, &self.gain, &self.bias].map(|values| narrow::<T>(values));
        let y = match norm {
            NormRow::Layer => {
                let mut layer = LayerNorm::new([UNITS]).with_eps(eps);
                (layer.weight, layer.bias) = (Some(gain), Some(bias));
                layer.forward(&product(&weights, &data))?
            }
            NormRow::Batch => {
                let mut layer = BatchNorm::new(UNITS);
                (layer.weight, layer.bias, layer.eps) = (Some(gain), Some(bias), eps);
                layer.forward_train(&product(&weights, &data), &[CASES, UNITS])?.0
            }
            NormRow::Weight => {
                let (shape, mut directions) = ([UNITS, INPUTS], vec![T::ZERO; weights.len()]);
                let to = ViewMut::new(&mut directions, &shape)?;
                let (v, g) = (View::new(&weights, &shape)?, View::new(&gain, &[UNITS])?);
                weight_norm::forward(v, g, to, None, Some(0), &mut Context::new())?;
                let mut y = product(&directions, &data);
                y.iter_mut().enumerate().for_each(|(i, y)| *y = *y + bias[i % UNITS]);
                y
            }
        };
        Ok(wide(&y))
    }

    /// The maximum change of y due to rounding (unit `u`) and ε.
    ///
    /// An activation is a sum of D products. Its error is at most A = (D + 2)·u·Σ|w·x|, where the 2 accounts for
    /// rounding the changed weights and data. It changes x̂ by (2 + |x̂|)·A/σ, because it enters a − μ twice and σ
    /// once. The norm adds (s + 10)·u·(1 + |x̂|), where s is the longest chain of additions in its sum: 12 along a row,
    /// CASES + 2 over the batch. ε scales x̂ by 1/sqrt(1 + ε/σ²), which is at least 1 − ε/(2σ²). Weight norm has only
    /// the products and the length of w: (D + 2 + 12 + 10)·u·Σ|w·x|.
    fn slack(&self, norm: NormRow, u: f64, eps: f64) -> f64 {
        let gain = largest(self.gain.iter().copied());
        let mut weights = self.weights.clone();
        if norm == NormRow::Weight {
            weights.chunks_mut(INPUTS).zip(&self.gain).for_each(|(w, gain)| {
                let length = w.iter().map(|w| w * w).sum::<f64>().sqrt();
                w.iter_mut().for_each(|w| *w *= gain / length);
            });
        }
        let a = product(&weights, &self.data);
        let absolute = |values: &[f64]| values.iter().map(|value| value.abs()).collect::<Vec<_>>();
        let size = largest(product(&absolute(&weights), &absolute(&self.data)));
        let terms = (INPUTS + 2) as f64;
        if norm == NormRow::Weight {
            return (terms + 22.0) * u * size + u * largest(self.bias.iter().copied());
        }
        let together: Vec<Vec<f64>> = match norm {
            NormRow::Layer => a.chunks(UNITS).map(<[f64]>::to_vec).collect(),
            _ => (0..UNITS).map(|unit| a.iter().skip(unit).step_by(UNITS).copied().collect()).collect(),
        };
        let moved = together.iter().map(|values| {
            let (mean, sigma) = moments(values);
            let x_hat = largest(values.iter().map(|a| (a - mean) / sigma));
            let chain = if norm == NormRow::Layer { 12.0 } else { (CASES + 2) as f64 };
            (2.0 + x_hat) * terms * u * size / sigma
                + (chain + 10.0) * u * (1.0 + x_hat)
                + x_hat * eps / (2.0 * sigma * sigma)
        });
        gain * largest(moved) + 2.0 * u * (gain * (CASES.max(UNITS) as f64).sqrt() + largest(self.bias.iter().copied()))
    }
}

/// a = W x, `[B, H]`, each sum in sequential order.
fn product<T: Float>(weights: &[T], data: &[T]) -> Vec<T> {
    let dot = |w: &[T], x: &[T]| w.iter().zip(x).fold(T::ZERO, |sum, (&w, &x)| sum + w * x);
    data.chunks(INPUTS).flat_map(|x| weights.chunks(INPUTS).map(move |w| dot(w, x))).collect()
}

fn measure<T: Float>(case: Case, seed: u64) -> Result<Seen, Error> {
    let u = if case.kind == Kind::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) } / 2.0;
    let before = Layer::new::<T>(seed);
    let after = before.changed::<T>(case.change, case.amount, seed);
    let y = before.output::<T>(case.norm, case.eps).map_err(refused)?;
    let changed = after.output::<T>(case.norm, case.eps).map_err(refused)?;
    let size = largest(y.iter().copied());
    let deviation = largest(y.iter().zip(&changed).map(|(y, changed)| changed - y)) / size;
    let bound = (before.slack(case.norm, u, case.eps) + after.slack(case.norm, u, case.eps)) / size;
    Ok(Seen { case, deviation: Some(deviation), bound: Some(bound) })
}
