//! Common implementations of layer norm compared with this library's: errors and times.
//!
//! Errors are stored in the records. Times differ from run to run, and NumPy and PyTorch from machine to machine, so they
//! are stored in files beside the records, `<run>.times.json` and `<run>.python.json`, which [`Study::add_measured`] adds
//! to the story.

mod pictures;
mod python;
#[cfg(test)]
mod tests;
mod times;
mod ways;

use super::tools::{each, narrow, normals, refused, units_off};
use super::{Computation, Error, Observer, RunPlan, Settings, Study};
use crate::data::SplitMix64;
use crate::records::{Record, RunFile};
use crate::report::Story;
use layernorm::Context;
use serde::{Deserialize, Serialize};
use std::path::Path;
use ways::Way;

/// Study of layer norm implementations.
pub struct Implementations;

/// ε of every implementation.
const EPS: f64 = 1e-5;
/// Rows, and elements per row.
const SHAPES: [(usize, usize); 3] = [(512, 64), (64, 1024), (16, 8192)];
/// Additional shapes of the full study.
const LARGE_SHAPES: [(usize, usize); 2] = [(4096, 1024), (16, 262_144)];
/// Mean and standard deviation of the inputs.
const INPUTS: [(f64, f64); 11] = [
    (0.0, 1.0),
    (1.0, 1.0),
    (1e1, 1.0),
    (1e2, 1.0),
    (1e3, 1.0),
    (1e4, 1.0),
    (1e5, 1.0),
    (1e6, 1.0),
    (100.0, 0.01),
    (0.0, 1e20),
    (0.1, 0.0),
];

/// The error of one implementation on one kind of input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Wrong {
    way: Way,
    mean: f64,
    spread: f64,
    rows: usize,
    elements: usize,
    /// The largest error in units in the last place; `None` if a row is completely wrong.
    units: Option<f64>,
    /// How it is wrong.
    failure: Option<String>,
}

impl Study for Implementations {
    fn name(&self) -> &'static str {
        "implementations"
    }

    fn question(&self) -> &'static str {
        "How do common implementations of layer norm differ in accuracy and speed?"
    }

    fn plan(&self, settings: &Settings) -> Vec<RunPlan> {
        let large = LARGE_SHAPES.into_iter().filter(|_| settings.full);
        let plan = |(rows, elements)| {
            let comparison = Comparison { data_seed: 1, rows, elements, eps: EPS, full: settings.full };
            RunPlan::computation(self.name(), &format!("implementations-{rows}x{elements}"), comparison)
        };
        SHAPES.into_iter().chain(large).map(plan).collect()
    }

    fn story(&self, records: &[Record]) -> Story {
        pictures::story(self.question(), records)
    }

    fn add_measured(&self, story: &mut Story, runs: &Path) {
        times::add(story, runs);
        if !story.findings.is_empty() {
            python::add(story, runs);
        }
    }
}

/// Settings of a run.
#[derive(Debug, Serialize)]
struct Comparison {
    data_seed: u64,
    rows: usize,
    elements: usize,
    eps: f64,
    full: bool,
}

impl Computation for Comparison {
    fn run(&self, file: &mut RunFile, observer: &mut dyn Observer) -> Result<(), Error> {
        let Comparison { data_seed: seed, rows, elements, .. } = *self;
        let questions: Vec<(Way, (f64, f64))> =
            INPUTS.into_iter().flat_map(|input| Way::ALL.map(|way| (way, input))).collect();
        each("error", &questions, 0.0..0.9, file, observer, |&(way, input)| wrong(way, input, (rows, elements), seed))?;
        times::measure(file.path(), &input((0.0, 1.0), rows, elements, seed), elements, observer)?;
        if (rows, elements) == SHAPES[0] {
            observer.progress(0.95, "NumPy and PyTorch, if installed");
            python::measure(file.path(), seed, observer)?;
        }
        Ok(file.finish()?)
    }

    fn effort(&self) -> f64 {
        // Mostly the references, plus the times.
        0.8 * (self.rows.min(16) * self.elements) as f64 + 30_000.0
    }
}

/// Rows of the given mean and standard deviation.
fn input((mean, spread): (f64, f64), rows: usize, elements: usize, seed: u64) -> Vec<f32> {
    let z = normals(&mut SplitMix64::stream(seed, elements as u64), rows * elements);
    narrow(&z.iter().map(|z| mean + spread * z).collect::<Vec<_>>())
}

fn wrong(way: Way, of: (f64, f64), (rows, elements): (usize, usize), seed: u64) -> Result<Wrong, Error> {
    // A few rows are enough to find the largest errors.
    let x = input(of, rows.min(16), elements, seed);
    let mut y = vec![f32::NAN; x.len()];
    way.run(&x, elements, &mut y, &mut Context::new()).map_err(refused)?;
    let (mut units, mut failure) = (0.0f64, None);
    for (x, y) in x.chunks(elements).zip(y.chunks(elements)) {
        let error = units_off(x, y, EPS);
        units = units.max(error);
        if error.is_infinite() {
            failure = Some(failed(y).to_owned());
        }
    }
    let (mean, spread) = of;
    Ok(Wrong { way, mean, spread, rows, elements, units: units.is_finite().then_some(units), failure })
}

/// Describes a row that is completely wrong.
fn failed(y: &[f32]) -> &'static str {
    match y {
        y if y.iter().any(|y| !y.is_finite()) => "no number",
        y if y.iter().all(|&y| y == 0.0) => "all 0",
        _ => "not 0",
    }
}
