//! The results of a measurement of recurrent networks, as text and as JSON.

use super::proof::Proof;
use super::size::Size;
use super::work::Pass;
use crate::bench::race::Timing;
use crate::dtype::Dtype;
use crate::machine::Machine;
use crate::recurrent::Cell;
use crate::show::{Table, significant};
use serde::Serialize;

/// All sizes of one run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// `bench`.
    pub command: &'static str,
    /// The machine it ran on.
    pub machine: Machine,
    /// The cell.
    pub op: Cell,
    /// The element type.
    pub dtype: Dtype,
    /// Seconds to measure each size.
    pub seconds_per_shape: f64,
    /// One per size.
    pub shapes: Vec<SizeReport>,
}

/// One size.
#[derive(Debug, Serialize)]
pub struct SizeReport {
    /// The sizes.
    pub shape: Size,
    /// What was verified for each variant before timing.
    pub proofs: Vec<Proved>,
    /// One per variant and pass.
    pub results: Vec<Measured>,
}

/// The proof of one variant.
#[derive(Debug, Serialize)]
pub struct Proved {
    /// The variant.
    pub variant: &'static str,
    /// What was checked.
    #[serde(flatten)]
    pub proof: Proof,
}

/// One variant and pass.
#[derive(Debug, Serialize)]
pub struct Measured {
    /// The pass.
    pub what: &'static str,
    /// The variant.
    pub variant: &'static str,
    /// Microseconds of the best round.
    pub best_us: f64,
    /// Microseconds of the median round.
    pub median_us: f64,
    /// Number of rounds.
    pub rounds: usize,
    /// Microseconds per step of all sequences, in the best round.
    pub us_per_step: f64,
    /// GFLOP/s of the matrix products in the best round.
    pub gflop_per_s: f64,
    /// Its best time as a multiple of the variant `none`'s.
    pub times_plain: f64,
}

impl SizeReport {
    /// Builds the report from the timings: for each pass the variants in order. `gates` has the number of gates per variant.
    pub fn new(shape: Size, proofs: Vec<Proved>, gates: &[usize], timings: &[Timing]) -> Self {
        let count = proofs.len().max(1);
        let plain = proofs.iter().position(|proof| proof.variant == "none");
        let result = |(i, timing): (usize, &Timing)| {
            let (pass, entrant) = (Pass::ALL[i / count], i % count);
            let steps = pass.steps(&shape);
            let operations = Size { steps, ..shape }.operations(gates[entrant]) * pass.products();
            let plain = plain.map_or(timing.best, |plain| timings[i - entrant + plain].best);
            Measured {
                what: pass.name(),
                variant: proofs[entrant].variant,
                best_us: timing.best * 1e6,
                median_us: timing.median * 1e6,
                rounds: timing.rounds,
                us_per_step: timing.best * 1e6 / steps as f64,
                gflop_per_s: operations / timing.best / 1e9,
                times_plain: timing.best / plain,
            }
        };
        let results = timings.iter().enumerate().map(result).collect();
        SizeReport { shape, proofs, results }
    }
}

impl Report {
    /// The table as text.
    pub fn render(&self) -> String {
        let headings = ["B×T×I×H", "what", "variant", "best µs", "median µs", "µs/step", "GFLOP/s", "× none"];
        let mut table = Table::new(3, headings);
        for size in &self.shapes {
            let (mut shape, mut pass) = (size.shape.to_string(), "");
            for result in &size.results {
                let what = if result.what == pass { "" } else { result.what };
                pass = result.what;
                table.row([
                    std::mem::take(&mut shape),
                    what.to_owned(),
                    result.variant.to_owned(),
                    significant(result.best_us),
                    significant(result.median_us),
                    significant(result.us_per_step),
                    format!("{:.1}", result.gflop_per_s),
                    format!("{:.2}", result.times_plain),
                ]);
            }
            table.row([]);
        }
        format!("{}\n{}\n\n{}", self.machine, self.caption(), table.render().trim_end_matches('\n').to_owned() + "\n")
    }

    fn caption(&self) -> String {
        let proofs = || self.shapes.iter().flat_map(|size| &size.proofs).map(|proved| proved.proof);
        let y = proofs().map(|proof| proof.largest_part_of_bound).fold(0.0, f64::max);
        let slope = proofs().map(|proof| proof.slope_part_of_bound).fold(0.0, f64::max);
        let outputs: usize = proofs().map(|proof| proof.outputs_compared).sum();
        format!(
            "{} of {}, one layer: B sequences of T steps, I inputs, H hidden units, into preallocated memory. A training step is\n\
             forward and backward, with the gradients of input, parameters and state. One step advances all sequences\n\
             by one step, as in streaming. Variants take turns; ratios compare best times with the variant none, which\n\
             has no norms. GFLOP/s counts only the products with W and U, and backward as two forward passes.\n\
             Verified before timing: y against a slow loop in f64, with errors of at most {:.0}% of the tolerance\n\
             for rounding; the gradients against its slope, {:.0}% of the tolerance; {outputs} outputs have the same\n\
             bits as each sequence alone in plain Rust.",
            self.op.to_string().to_uppercase(),
            self.dtype,
            (100.0 * y).ceil(),
            (100.0 * slope).ceil(),
        )
    }
}
