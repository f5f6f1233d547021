//! Runs a case on every path and compares its results.

use super::analysis::{Bound, Quantity};
use super::file::File;
use crate::common::{contexts, name};
use layernorm::Context;

/// A result of this library, every value as an f64.
#[derive(Clone, Debug)]
pub struct Output {
    /// Its name in the file.
    pub tensor: &'static str,
    pub quantity: Quantity,
    pub values: Vec<f64>,
}

impl Output {
    pub fn new(tensor: &'static str, quantity: Quantity, values: Vec<f64>) -> Self {
        Output { tensor, quantity, values }
    }
}

/// What was compared, and where it went wrong.
#[derive(Default)]
pub struct Report {
    cases: usize,
    numbers: usize,
    failures: Vec<String>,
    /// The largest error as a part of its tolerance, and where.
    closest: (f64, String),
}

impl Report {
    /// Runs a case on every instruction set and several thread counts. The first result, if all have the same bits.
    pub fn run(&mut self, file: &File, run: impl Fn(&mut Context) -> Vec<Output>) -> Vec<Output> {
        self.cases += 1;
        let mut first: Option<Vec<Output>> = None;
        for mut cx in contexts() {
            let found = run(&mut cx);
            let Some(first) = &first else {
                first = Some(found);
                continue;
            };
            for (found, first) in found.iter().zip(first) {
                let bits = |output: &Output| output.values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                if bits(found) != bits(first) {
                    self.failures.push(format!("{}: {} has other bits on {}", file.name, found.tensor, name(&cx)));
                }
            }
        }
        first.expect("every machine has an instruction set")
    }

    /// |found − expected| ≤ tolerance, element by element.
    pub fn compare(&mut self, what: &str, found: &[f64], expected: &[f64], tolerance: impl Fn(usize) -> f64) {
        if found.len() != expected.len() {
            self.failures.push(format!("{what}: {} elements, expected {}", found.len(), expected.len()));
            return;
        }
        self.numbers += found.len();
        let mut worst: Option<(f64, usize)> = None;
        for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
            // 0 of a tolerance of 0 is fine, anything else of it is too much, and so is NaN.
            let error = (found - expected).abs();
            let part = if error == 0.0 { 0.0 } else { error / tolerance(i) };
            let part = if part.is_nan() { f64::INFINITY } else { part };
            if worst.is_none_or(|(most, _)| part > most) {
                worst = Some((part, i));
            }
        }
        let Some((part, i)) = worst else { return };
        if part > 1.0 {
            let (found, expected, tolerance) = (found[i], expected[i], tolerance(i));
            let off = (found - expected).abs();
            self.failures
                .push(format!("{what}[{i}]: {found:e}, expected {expected:e}: off by {off:e}, may be {tolerance:e}"));
        }
        if part > self.closest.0 {
            self.closest = (part, format!("{what}[{i}]"));
        }
    }

    /// A tolerance must be a small part of the largest expected number, or the comparison says nothing.
    pub fn says_something(&mut self, what: &str, expected: &[f64], tolerance: impl Fn(usize) -> f64, part: f64) {
        let largest = (0..expected.len()).max_by(|&i, &j| expected[i].abs().total_cmp(&expected[j].abs()));
        let Some(i) = largest else { return };
        if tolerance(i) > part * expected[i].abs() || tolerance(i).is_nan() {
            self.failures.push(format!("{what}[{i}]: {:e} is a wide tolerance for {:e}", tolerance(i), expected[i]));
        }
    }

    /// Fails if a comparison did, or if this is not the expected number of cases.
    #[track_caller]
    pub fn finish(self, cases: usize) {
        let (part, place) = &self.closest;
        println!(
            "{} cases, {} comparisons; closest to its tolerance, at {part:.3} of it: {place}",
            self.cases, self.numbers
        );
        assert!(self.failures.is_empty(), "{} failures:\n{}", self.failures.len(), self.failures.join("\n"));
        assert_eq!(self.cases, cases, "cases");
    }
}

/// The tolerance of an element from the errors of both sides.
pub fn both<'a>(ours: &'a [Bound], theirs: &'a [Bound]) -> impl Fn(usize) -> f64 + 'a {
    move |i| ours[i].error + theirs[i].error
}
