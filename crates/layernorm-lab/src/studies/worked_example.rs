//! The worked example: one small matrix, normalized step by step by columns (batch norm) and by rows (layer norm), and
//! preprocessing steps, of real digits and others: which of them is like which norm.

mod digits;
mod habits;
#[cfg(test)]
mod tests;

use super::findings::Claim;
use super::tools::{chart, each, events, largest, refused, short, story as blank};
use super::{Computation, Error, Observer, RunPlan, Settings, Study};
use crate::records::{Record, RunFile};
use crate::report::{Chart, Highlight, Matrix, Picture, Step, Story};
use digits::Prepared;
use habits::{Habit, Tried};
use layernorm::{BatchNorm, LayerNorm};
use serde::{Deserialize, Serialize};

/// The worked example.
pub struct WorkedExample;

const SAMPLES: usize = 3;
const FEATURES: usize = 4;
/// The means of rows and columns are whole numbers; the second sample is ten times the first.
const X: [[f64; FEATURES]; SAMPLES] = [[1.0, 2.0, 3.0, 6.0], [10.0, 20.0, 30.0, 60.0], [4.0, 5.0, 3.0, 0.0]];
const GAIN: [f64; FEATURES] = [1.0, 2.0, 1.0, 0.5];
const BIAS: [f64; FEATURES] = [0.0, 0.0, 1.0, -1.0];
const EPS: f64 = 1e-5;

/// The axis of the normalization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Way {
    /// Each column: one feature of all samples.
    Columns,
    /// Each row: all features of one sample.
    Rows,
}

/// All intermediate results, row by row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Worked {
    way: Way,
    mean: Vec<f64>,
    deviation: Vec<Vec<f64>>,
    variance: Vec<f64>,
    normalized: Vec<Vec<f64>>,
    output: Vec<Vec<f64>>,
    /// The library's result.
    library: Vec<Vec<f64>>,
    /// The largest difference between the two.
    apart: f64,
}

impl Study for WorkedExample {
    fn name(&self) -> &'static str {
        "worked-example"
    }

    fn question(&self) -> &'static str {
        "What do batch norm and layer norm do to the same small matrix, and which preprocessing steps are like them?"
    }

    fn plan(&self, _settings: &Settings) -> Vec<RunPlan> {
        let example = Example { x: X, gain: GAIN, bias: BIAS, eps: EPS };
        vec![RunPlan::computation(self.name(), self.name(), example)]
    }

    fn story(&self, records: &[Record]) -> Story {
        let mut story = blank(self.name(), "Batch norm and layer norm: a worked example", self.question(), records);
        story.expectation =
            "Batch norm normalizes each column over the samples, layer norm each row over the features. Layer norm \
             therefore gives the same result for a sample and for ten times that sample; batch norm does not."
                .to_owned();
        let worked: Vec<Worked> = events(records, "worked");
        let tried: Vec<Tried> = events(records, "habit");
        let find = |way| worked.iter().find(|worked| worked.way == way && worked.whole());
        if let (Some(columns), Some(rows)) = (find(Way::Columns), find(Way::Rows)) {
            tell(&mut story, columns, rows);
        }
        let prepared: Vec<Prepared> = events(records, "digits");
        if !prepared.is_empty() {
            story.charts.extend(digits::images(&prepared));
            story.charts.push(digits::table(&prepared));
            story.findings.extend(digits::findings(&prepared));
            story.answer = format!("{} {}", story.answer, digits::answer(&prepared));
        }
        if !(tried.is_empty() && prepared.is_empty()) {
            story.charts.push(habits::quiz(digits::questions(&prepared), &tried));
        }
        story
    }
}

/// Settings of the run.
#[derive(Debug, Serialize)]
struct Example {
    x: [[f64; FEATURES]; SAMPLES],
    gain: [f64; FEATURES],
    bias: [f64; FEATURES],
    eps: f64,
}

impl Computation for Example {
    fn run(&self, file: &mut RunFile, observer: &mut dyn Observer) -> Result<(), Error> {
        each("worked", &[Way::Columns, Way::Rows], 0.0..0.5, file, observer, |&way| work(way).map_err(refused))?;
        each("habit", &Habit::ALL, 0.5..0.7, file, observer, |&habit| Ok(habits::try_out(habit)))?;
        let images = digits::embedded()?;
        each("digits", &digits::Step::ALL, 0.7..1.0, file, observer, |&step| Ok(digits::try_out(step, &images)))?;
        Ok(file.finish()?)
    }
}

/// The row or column of a number.
fn group(way: Way, sample: usize, feature: usize) -> usize {
    if way == Way::Columns { feature } else { sample }
}

/// A matrix with the values of `f`.
fn map(f: impl Fn(usize, usize) -> f64) -> Vec<Vec<f64>> {
    (0..SAMPLES).map(|sample| (0..FEATURES).map(|feature| f(sample, feature)).collect()).collect()
}

/// The mean of each row or column.
fn means(way: Way, values: &[Vec<f64>]) -> Vec<f64> {
    let groups = if way == Way::Columns { FEATURES } else { SAMPLES };
    let mean = |wanted: usize| {
        let all = (0..SAMPLES).flat_map(|sample| (0..FEATURES).map(move |feature| (sample, feature)));
        let group: Vec<f64> = all.filter(|&(s, f)| group(way, s, f) == wanted).map(|(s, f)| values[s][f]).collect();
        group.iter().sum::<f64>() / group.len() as f64
    };
    (0..groups).map(mean).collect()
}

fn work(way: Way) -> Result<Worked, layernorm::Error> {
    let x = map(|s, f| X[s][f]);
    let mean = means(way, &x);
    let deviation = map(|s, f| x[s][f] - mean[group(way, s, f)]);
    let variance = means(way, &map(|s, f| deviation[s][f] * deviation[s][f]));
    let normalized = map(|s, f| deviation[s][f] / (variance[group(way, s, f)] + EPS).sqrt());
    let output = map(|s, f| GAIN[f] * normalized[s][f] + BIAS[f]);
    let library = library(way)?;
    let apart = largest(output.iter().flatten().zip(library.iter().flatten()).map(|(a, b)| a - b));
    Ok(Worked { way, mean, deviation, variance, normalized, output, library, apart })
}

fn library(way: Way) -> Result<Vec<Vec<f64>>, layernorm::Error> {
    let x = X.as_flattened();
    let y = match way {
        Way::Columns => {
            let mut norm = BatchNorm::<f64>::new(FEATURES);
            (norm.weight, norm.bias, norm.eps) = (Some(GAIN.to_vec()), Some(BIAS.to_vec()), EPS);
            norm.forward_train(x, &[SAMPLES, FEATURES])?.0
        }
        Way::Rows => {
            let mut norm = LayerNorm::new([FEATURES]).with_eps(EPS);
            (norm.weight, norm.bias) = (Some(GAIN.to_vec()), Some(BIAS.to_vec()));
            norm.forward(x)?
        }
    };
    Ok(y.chunks(FEATURES).map(<[f64]>::to_vec).collect())
}

impl Worked {
    /// Whether all matrices have the right shape.
    fn whole(&self) -> bool {
        let fits = |m: &Vec<Vec<f64>>| m.len() == SAMPLES && m.iter().all(|row| row.len() == FEATURES);
        [&self.deviation, &self.normalized, &self.output, &self.library].into_iter().all(fits)
    }

    fn highlight(&self) -> Highlight {
        if self.way == Way::Columns { Highlight::Columns } else { Highlight::Rows }
    }

    fn matrix(&self, what: &str, rows: &[Vec<f64>]) -> Matrix {
        let of = if self.way == Way::Columns { "batch norm" } else { "layer norm" };
        Matrix { name: format!("{of}: {what}"), rows: rows.to_vec(), highlight: self.highlight() }
    }

    /// One number per column is shown as a row, one per row as a column.
    fn line(&self, what: &str, numbers: &[f64]) -> Matrix {
        let rows = match self.way {
            Way::Columns => vec![numbers.to_vec()],
            Way::Rows => numbers.iter().map(|&number| vec![number]).collect(),
        };
        self.matrix(what, &rows)
    }
}

fn steps(columns: &Worked, rows: &Worked) -> Chart {
    let step =
        |title: &str, text: &str, matrices: Vec<Matrix>| Step { title: title.into(), text: text.into(), matrices };
    let lines =
        |what: &str, of: fn(&Worked) -> &Vec<f64>| [columns, rows].map(|worked| worked.line(what, of(worked))).to_vec();
    let both = |what: &str, of: fn(&Worked) -> &Vec<Vec<f64>>| {
        [columns, rows].map(|worked| worked.matrix(what, of(worked))).to_vec()
    };
    let x = Matrix { name: "x".into(), rows: map(|s, f| X[s][f]), highlight: Highlight::None };
    let parameters = Matrix {
        name: "γ (top), β (bottom)".into(),
        rows: vec![GAIN.to_vec(), BIAS.to_vec()],
        highlight: Highlight::None,
    };
    let last: Vec<Matrix> = [parameters].into_iter().chain(both("γ·x̂ + β", |w| &w.output)).collect();
    let steps = vec![
        step(
            "Input",
            "Three samples (rows) with four features (columns). The second sample is ten times the first.",
            vec![x],
        ),
        step(
            "Means",
            "Batch norm: one mean per column, over the three samples. Layer norm: one mean per row, over the four \
             features.",
            lines("means", |w| &w.mean),
        ),
        step("Deviations", "Each number minus the mean of its column or row.", both("x − mean", |w| &w.deviation)),
        step(
            "Variances",
            "The mean of the squared deviations: the sum is divided by n, not by n − 1.",
            lines("variances", |w| &w.variance),
        ),
        step(
            "Division",
            "Each deviation is divided by sqrt(variance + ε). By rows, the first two samples are now equal: layer norm \
             ignores that one is ten times the other.",
            both("x̂", |w| &w.normalized),
        ),
        step("Gain and bias", "Every feature has its own γ and β; both norms apply them in the same way.", last),
        step(
            "Check against the library",
            "The same results from batch_norm and layer_norm of this library, in double precision.",
            both("library", |w| &w.library),
        ),
    ];
    chart(
        "steps",
        "Step by step",
        "Follow one number: by columns, it is normalized with the same feature of the other samples; by rows, with the \
         other features of its own sample.",
        Picture::Steps { steps },
    )
}

fn tell(story: &mut Story, columns: &Worked, rows: &Worked) {
    let alike = |worked: &Worked| largest((0..FEATURES).map(|f| worked.normalized[1][f] - worked.normalized[0][f]));
    let (by_rows, by_columns) = (alike(rows), alike(columns));
    let apart = columns.apart.max(rows.apart);
    story.answer = format!(
        "By rows, the results for a sample and for ten times that sample agree to within {} (the effect of ε); by \
         columns, they differ by up to {}. The steps and the library agree to within {}.",
        short(by_rows),
        short(by_columns),
        short(apart)
    );
    story.findings = vec![
        // With a variance of 3.5, ε = 10⁻⁵ changes x̂ ≤ 1.7 by 2.4·10⁻⁶; the rest is a few roundings of f64.
        Claim::new("rows", "Layer norm gives the same result for a sample and for ten times that sample")
            .source("C10")
            .exact(by_rows < 3e-6, format!("largest difference {}", short(by_rows)), "below 3·10⁻⁶, the effect of ε"),
        Claim::new("columns", "Batch norm gives different results for a sample and for ten times that sample")
            .source("C10")
            .exact(by_columns > 1.0, format!("largest difference {}", short(by_columns)), "above 1"),
        Claim::new("library", "The library computes the same numbers as the steps").exact(
            apart < 1e-14,
            format!("largest difference {}", short(apart)),
            "below 10⁻¹⁴",
        ),
    ];
    story.charts.push(steps(columns, rows));
}
