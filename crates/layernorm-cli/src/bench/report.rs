//! The results of a measurement, as text and as JSON.

use super::Op;
use super::proof::Proof;
use super::race::Timing;
use super::shape::Shape;
use super::work::Contestant;
use crate::dtype::Dtype;
use crate::machine::Machine;
use crate::show::Table;
use serde::Serialize;

/// All shapes of one run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// `bench`.
    pub command: &'static str,
    /// The machine it ran on.
    pub machine: Machine,
    /// Which operation.
    pub op: Op,
    /// The element type.
    pub dtype: Dtype,
    /// Where results are written: to preallocated memory, as opposed to newly allocated memory.
    pub memory: &'static str,
    /// Seconds to measure each shape.
    pub seconds_per_shape: f64,
    /// The shapes.
    pub shapes: Vec<ShapeReport>,
}

/// One shape.
#[derive(Debug, Serialize)]
pub struct ShapeReport {
    /// The shape.
    pub shape: Shape,
    /// What was verified before timing.
    pub proof: Proof,
    /// One per contestant.
    pub results: Vec<Measured>,
}

/// One contestant.
#[derive(Debug, Serialize)]
pub struct Measured {
    /// Its name.
    pub what: &'static str,
    /// Microseconds of the best round.
    pub best_us: f64,
    /// Microseconds of the median round.
    pub median_us: f64,
    /// Number of rounds.
    pub rounds: usize,
    /// Bytes that must be moved.
    pub bytes: u64,
    /// GB/s (10⁹ of these bytes per second) in the best round.
    pub gb_per_s: f64,
    /// Its best time as a multiple of the copy's.
    pub times_copy: f64,
    /// The contestant that moves the same tensors.
    pub peer: Option<&'static str>,
    /// Its best time as a multiple of the peer's.
    pub times_peer: Option<f64>,
}

impl ShapeReport {
    /// Builds the report from the timings, in the order of the contestants. `bytes` is the size of one tensor.
    pub fn new(shape: Shape, bytes: u64, proof: Proof, contestants: &[Contestant], timings: &[Timing]) -> Self {
        let best = |contestant: Contestant| {
            contestants.iter().zip(timings).find(|(c, _)| **c == contestant).map(|(_, timing)| timing.best)
        };
        let result = |(&contestant, timing): (&Contestant, &Timing)| {
            let bytes = contestant.tensors() as u64 * bytes;
            let peer = contestant.peer().and_then(|peer| best(peer).map(|best| (peer.name(), timing.best / best)));
            Measured {
                what: contestant.name(),
                best_us: timing.best * 1e6,
                median_us: timing.median * 1e6,
                rounds: timing.rounds,
                bytes,
                gb_per_s: bytes as f64 / timing.best / 1e9,
                times_copy: timing.best / best(Contestant::Copy).unwrap_or(timing.best),
                peer: peer.map(|(name, _)| name),
                times_peer: peer.map(|(_, ratio)| ratio),
            }
        };
        let results = contestants.iter().zip(timings).map(result).collect();
        ShapeReport { shape, proof, results }
    }

    /// The result of a contestant.
    pub fn result(&self, contestant: Contestant) -> Option<&Measured> {
        self.results.iter().find(|result| result.what == contestant.name())
    }
}

impl Report {
    /// The table as text.
    pub fn render(&self) -> String {
        let mut table = Table::new(2, ["shape", "what", "best µs", "median µs", "GB/s", "× copy", "× its peer"]);
        for shape in &self.shapes {
            let width = shape.results.iter().filter_map(|result| Some(result.peer?.len())).max().unwrap_or(0);
            for (i, result) in shape.results.iter().enumerate() {
                let Measured { best_us, median_us, gb_per_s, times_copy, .. } = result;
                let peer = result.peer.zip(result.times_peer);
                table.row([
                    if i == 0 { shape.shape.to_string() } else { String::new() },
                    result.what.to_owned(),
                    format!("{best_us:.1}"),
                    format!("{median_us:.1}"),
                    format!("{gb_per_s:.1}"),
                    format!("{times_copy:.2}"),
                    peer.map_or(String::new(), |(name, ratio)| format!("{ratio:.2} {name:<width$}")),
                ]);
            }
            table.row([]);
        }
        format!("{}\n{}\n\n{}", self.machine, self.caption(), table.render().trim_end_matches('\n').to_owned() + "\n")
    }

    fn caption(&self) -> String {
        let proof = self.shapes.iter().map(|shape| shape.proof.largest_part_of_bound).fold(0.0, f64::max);
        let (moved, peers) = match self.op {
            Op::Residual => (
                "forward x and y; residual forward x, the residual, h and y",
                "The peer of forward is scale, which moves the same tensors; the peer of residual forward is forward.",
            ),
            _ => (
                "forward x and y; backward x, dy and dx",
                "The peer moves the same tensors: scale for forward, triad for backward.",
            ),
        };
        format!(
            "{} of {} over the last axis, with γ, β and saved statistics, into preallocated memory: all buffers are\n\
             allocated and written before the first round and reused in every round. Measurements alternate; ratios\n\
             compare best times. GB/s counts the bytes that must move ({moved}).\n\
             copy is memcpy, scale is y = a·x, triad is z = a·x + y, all over as many bytes of f32.\n\
             {peers}\n\
             Verified before timing: no error is above {:.0}% of the derived bound.",
            self.op.title(),
            self.dtype,
            (100.0 * proof).ceil(),
        )
    }
}
