//! Values without training: their distribution before and after, and what undoes the normalization.
//!
//! The rows have different means and standard deviations and a skewed distribution, to show what layer norm removes
//! (mean and standard deviation of each row) and what it keeps (the shape).

use crate::data::SplitMix64;
use crate::records::{Record, RunFile};
use crate::report::{Cell, Chart, Group, Picture, Story, Table};
use crate::studies::findings::Claim;
use crate::studies::tools::{axis, chart, each, events, largest, moments, narrow, refused, rms, short};
use crate::studies::tools::{normal, uniform, wide};
use crate::studies::{Computation, Error, Observer};
use layernorm::{BatchNorm, LayerNorm};
use serde::{Deserialize, Serialize};

const ROWS: usize = 256;
const ELEMENTS: usize = 64;
const EPS: f64 = 1e-5;
/// Range and number of bins of the histograms.
const LOW: f64 = -8.0;
const HIGH: f64 = 12.0;
const BARS: usize = 80;
/// γ and β of the histograms. The first pair gives x̂.
const SETTINGS: [(f64, f64); 6] = [(1.0, 0.0), (2.0, 0.0), (0.5, 0.0), (1.0, 3.0), (2.0, 3.0), (-1.0, 0.0)];

/// A distribution of y, or of x if γ and β are `None`.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Histogram {
    gain_bias: Option<(f64, f64)>,
    counts: Vec<u64>,
    /// Values outside the histogram's range.
    outside: u64,
    mean: f64,
    deviation: f64,
}

/// An attempt to undo the normalization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Try {
    /// Layer norm of one row, with that row's γ = σ and β = μ; every row in turn.
    EachRow,
    /// Layer norm of all rows, with γ = σ and β = μ of all values together.
    AllRows,
    /// Layer norm of all rows, with γ = σ and β = μ of each feature.
    EachFeature,
    /// Batch norm of all rows, with γ = σ and β = μ of each feature.
    BatchNorm,
}

/// The remaining difference between y and x.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Undone {
    pub(super) with: Try,
    /// The largest |y − x|, relative to the largest |x|.
    pub(super) largest: f64,
    /// The root mean square of y − x, relative to the standard deviation of x.
    pub(super) typical: f64,
}

/// Settings of the run.
#[derive(Debug, Serialize)]
pub(super) struct Distribution {
    data_seed: u64,
    rows: usize,
    elements: usize,
    eps: f64,
}

impl Distribution {
    pub(super) fn new() -> Distribution {
        Distribution { data_seed: 1, rows: ROWS, elements: ELEMENTS, eps: EPS }
    }
}

impl Computation for Distribution {
    fn run(&self, file: &mut RunFile, observer: &mut dyn Observer) -> Result<(), Error> {
        let x = rows(self.data_seed);
        let all: Vec<Option<(f64, f64)>> = [None].into_iter().chain(SETTINGS.map(Some)).collect();
        each("histogram", &all, 0.0..0.6, file, observer, |&gain_bias| histogram(&x, gain_bias).map_err(refused))?;
        let tries = [Try::EachRow, Try::AllRows, Try::EachFeature, Try::BatchNorm];
        each("undone", &tries, 0.6..1.0, file, observer, |&with| undone(&x, with).map_err(refused))?;
        Ok(file.finish()?)
    }
}

/// Rows with means around 2, standard deviations from 0.5 to 3 and a long right tail.
fn rows(seed: u64) -> Vec<f32> {
    let random = &mut SplitMix64::stream(seed, 0);
    let mut values = Vec::new();
    for _ in 0..ROWS {
        let (mean, spread) = (2.0 + normal(random), 0.5 + 2.5 * uniform(random));
        values.extend((0..ELEMENTS).map(|_| {
            let z = normal(random);
            // z + (z² − 1)/4 has variance 9/8.
            mean + spread * (z + (z * z - 1.0) / 4.0) / 1.125f64.sqrt()
        }));
    }
    narrow(&values)
}

/// Layer norm with one γ and one β per feature.
fn layer_norm(x: &[f32], gain: Vec<f32>, bias: Vec<f32>) -> Result<Vec<f64>, layernorm::Error> {
    let mut layer = LayerNorm::new([ELEMENTS]).with_eps(EPS);
    (layer.weight, layer.bias) = (Some(gain), Some(bias));
    Ok(wide(&layer.forward(x)?))
}

fn histogram(x: &[f32], gain_bias: Option<(f64, f64)>) -> Result<Histogram, layernorm::Error> {
    let values = match gain_bias {
        Some((gain, bias)) => layer_norm(x, narrow(&[gain; ELEMENTS]), narrow(&[bias; ELEMENTS]))?,
        None => wide(x),
    };
    let (mut counts, mut outside) = (vec![0; BARS], 0);
    for value in &values {
        let place = (value - LOW) / (HIGH - LOW) * BARS as f64;
        match counts.get_mut(place.floor() as usize) {
            Some(count) if place >= 0.0 => *count += 1,
            _ => outside += 1,
        }
    }
    let (mean, deviation) = moments(&values);
    Ok(Histogram { gain_bias, counts, outside, mean, deviation })
}

fn undone(x: &[f32], with: Try) -> Result<Undone, layernorm::Error> {
    let exact = wide(x);
    // The normalization divides by sqrt(σ² + ε), so γ must equal it.
    let fits = |values: &[f64]| {
        let (mean, deviation) = moments(values);
        ((deviation * deviation + EPS).sqrt(), mean)
    };
    let feature = |i: usize| fits(&exact.iter().skip(i).step_by(ELEMENTS).copied().collect::<Vec<_>>());
    let features = || -> (Vec<f64>, Vec<f64>) { (0..ELEMENTS).map(feature).unzip() };
    let same = |(gain, bias): (f64, f64)| (narrow(&[gain; ELEMENTS]), narrow(&[bias; ELEMENTS]));
    let y = match with {
        Try::EachRow => {
            let mut y = Vec::new();
            for (row, values) in x.chunks(ELEMENTS).zip(exact.chunks(ELEMENTS)) {
                let (gain, bias) = same(fits(values));
                y.extend(layer_norm(row, gain, bias)?);
            }
            y
        }
        Try::AllRows => {
            let (gain, bias) = same(fits(&exact));
            layer_norm(x, gain, bias)?
        }
        Try::EachFeature => {
            let (gain, bias) = features();
            layer_norm(x, narrow(&gain), narrow(&bias))?
        }
        Try::BatchNorm => {
            let (gain, bias) = features();
            let mut layer = BatchNorm::<f32>::new(ELEMENTS);
            (layer.weight, layer.bias, layer.eps) = (Some(narrow(&gain)), Some(narrow(&bias)), EPS);
            wide(&layer.forward_train(x, &[ROWS, ELEMENTS])?.0)
        }
    };
    let apart: Vec<f64> = y.iter().zip(&exact).map(|(y, x)| y - x).collect();
    Ok(Undone {
        with,
        largest: largest(apart.iter().copied()) / largest(exact.iter().copied()),
        typical: rms(apart.into_iter()) / moments(&exact).1,
    })
}

fn name(histogram: &Histogram) -> String {
    match histogram.gain_bias {
        None => "x".to_owned(),
        Some((1.0, 0.0)) => "x̂ (γ = 1, β = 0)".to_owned(),
        Some((gain, bias)) => format!("γ = {}, β = {}", short(gain), short(bias)),
    }
}

fn histograms<'a>(id: &str, title: &str, see: &str, of: impl Iterator<Item = &'a Histogram>) -> Chart {
    let edges = |bars: usize| (0..=bars).map(|i| LOW + (HIGH - LOW) * i as f64 / bars.max(1) as f64).collect();
    let group = |histogram: &Histogram| Group {
        name: name(histogram),
        edges: edges(histogram.counts.len()),
        counts: histogram.counts.iter().map(|&count| count as f64).collect(),
    };
    chart(id, title, see, Picture::Histograms { x: axis("value"), y: axis("count"), groups: of.map(group).collect() })
}

fn undone_table(undone: &[Undone]) -> Table {
    let words = |with: Try| match with {
        Try::EachRow => "layer norm, each row with its own γ = σ, β = μ",
        Try::AllRows => "layer norm, one γ = σ, β = μ over all values",
        Try::EachFeature => "layer norm, γ = σ, β = μ per feature, over the rows",
        Try::BatchNorm => "batch norm, γ = σ, β = μ per feature, over the rows",
    };
    let row = |undone: &Undone| -> Vec<Cell> {
        vec![words(undone.with).into(), undone.largest.into(), undone.typical.into()]
    };
    Table {
        columns: ["setting", "largest |y − x| / largest |x|", "RMS of y − x / std. dev. of x"]
            .map(str::to_owned)
            .to_vec(),
        rows: undone.iter().map(row).collect(),
        notes: vec!["σ is sqrt(variance + ε), the divisor of the normalization.".into()],
    }
}

/// Adds the results in the records to the story.
pub(super) fn tell(story: &mut Story, records: &[Record]) {
    story.expectation = "γ sets the standard deviation and β the mean of the normalized values; the shape of the \
                         distribution does not change. γ = σ and β = μ undo the normalization of the values they were \
                         computed from: a batch for batch norm, one row for layer norm."
        .to_owned();
    let all: Vec<Histogram> = events(records, "histogram");
    let tries: Vec<Undone> = events(records, "undone");
    let find = |with: Try| tries.iter().find(|undone| undone.with == with);
    let normalized = all.iter().filter(|histogram| histogram.gain_bias.is_some());
    let moved = largest(
        normalized
            .filter_map(|h| h.gain_bias.map(|(gain, bias)| (h, gain, bias)))
            .flat_map(|(histogram, gain, bias)| [histogram.mean - bias, histogram.deviation - gain.abs()]),
    );
    let (Some(row), Some(rows), Some(batch)) = (find(Try::EachRow), find(Try::AllRows), find(Try::BatchNorm)) else {
        return;
    };
    story.answer = format!(
        "γ sets the standard deviation and β the mean of the outputs, to within {}. γ = σ and β = μ undo the layer norm \
         of one row, but one γ and β for all rows leaves a difference of {} standard deviations.",
        short(moved),
        short(rows.typical)
    );
    let feature = find(Try::EachFeature);
    // Mean and standard deviation are off by rounding and by ε/(2σ²), at most 2·10⁻⁵ of γ for the narrowest row. The
    // restored values are off by about twenty roundings of f32 (2⁻²⁴).
    let restored = |claim: Claim, undone: &Undone| {
        let found = format!("largest difference {} of the largest value", short(undone.largest));
        claim.source("C13").exact(undone.largest < 2e-6, found, "below 2·10⁻⁶")
    };
    let lost = feature.map_or(f64::INFINITY, |undone| undone.typical).min(rows.typical);
    story.findings.extend([
        Claim::new("moments", "γ sets the standard deviation and β the mean of the normalized values")
            .source("C13")
            .exact(moved < 1e-4, format!("largest difference {}", short(moved)), "below 10⁻⁴"),
        restored(Claim::new("undo-row", "γ = σ and β = μ undo the layer norm of one row"), row),
        restored(Claim::new("undo-batch", "γ = σ and β = μ undo the batch norm of a batch"), batch),
        Claim::new("undo-rows", "No single γ and β undoes layer norm for all rows").source("C13").exact(
            lost > 0.1,
            format!("smallest RMS difference {} standard deviations", short(lost)),
            "above 0.1",
        ),
    ]);
    let of = |wanted: &'static [Option<(f64, f64)>]| all.iter().filter(move |h| wanted.contains(&h.gain_bias));
    story.charts.push(histograms(
        "steps",
        "Before, normalized, and with gain and bias",
        "x̂ has mean 0 and standard deviation 1, but keeps the long right tail of x; γ = 2 and β = 3 stretch and shift \
         it.",
        of(&[None, Some((1.0, 0.0)), Some((2.0, 3.0))]),
    ));
    story.charts.push(histograms(
        "settings",
        "Different gains and biases",
        "γ stretches the distribution, β shifts it and a negative γ mirrors it; none of them changes its shape.",
        of(&[Some((1.0, 0.0)), Some((2.0, 0.0)), Some((0.5, 0.0)), Some((1.0, 3.0)), Some((-1.0, 0.0))]),
    ));
    story.numbers = Some(undone_table(&tries));
    let outside: u64 = all.iter().map(|histogram| histogram.outside).sum();
    if outside > 0 {
        story.notes.push(format!("{outside} values are outside the histograms' range and are not drawn."));
    }
}
