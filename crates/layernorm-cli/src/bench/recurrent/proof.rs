//! Proof that what is timed is right, of some sequences of the batch.
//!
//! 1. **y** is held against a slow loop in f64 ([`Loop`]). How much it may differ is found by the loop itself: run once more
//!    with every intermediate result moved, up or down by chance, by as much as rounding in the arithmetic type can move it
//!    at most, it shows how far such errors go in this network. [`SAFETY`] times the largest such distance so far is
//!    allowed, for one throw of signs is not the worst, and the last rounding to the element type.
//! 2. **The gradients**, all of them together: their product with a random direction is the slope of Σ dy·y along it, which
//!    the slow loop gives from two runs. A term that is missing or wrong in any gradient changes it by about its own size.
//! 3. **The bits**: the whole batch, with the threads and instruction set that are timed, gives the bits of those sequences
//!    alone in plain Rust on one thread, y and dx; and a single step those of the first step.

use super::work::{Entrant, Number, Pass, Work};
use crate::dtype::Bits;
use crate::failure::Failure;
use crate::random::Random;
use crate::reference::Loop;
use layernorm::{Context, Element, Float, Isa};
use layernorm_rnn::{Config, Network, Params, Runner, Sequences, Training};
use serde::Serialize;

/// Sequences that are looked at, at most: the first and the last.
const SEQUENCES: usize = 2;

/// How much farther than one throw of signs the errors may go.
const SAFETY: f64 = 8.0;

/// How far the slope may be off, of the size that a sum of terms with random signs has. Gradients in f32 are off by about
/// 10⁻⁵ of their largest; a mistake by about 1.
const SLOPE: f64 = 1e-2;

/// The step along the direction: f64 rounds at 10⁻¹⁶, and the curvature enters by its square.
const STEP: f64 = 1e-6;

/// What was looked at.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Proof {
    /// Sequences compared, at all their steps.
    pub sequences: usize,
    /// The largest error of y as a part of what is allowed.
    pub largest_part_of_bound: f64,
    /// The error of the slope as a part of what is allowed.
    pub slope_part_of_bound: f64,
    /// Outputs whose bits were compared; none differs.
    pub outputs_compared: usize,
}

/// Some sequences of the batch, alone.
struct Part<T> {
    /// Which.
    picked: Vec<usize>,
    /// x, `[T, S, I]`.
    x: Vec<T>,
    /// dy, `[T, S, H]`.
    dy: Vec<T>,
}

/// Runs an entrant and compares what it gives.
pub fn prove<T: Number>(work: &mut Work<T>, entrant: &mut Entrant<T>) -> Result<Proof, Failure> {
    let part = Part::of(work);
    let wide = widened(&entrant.network)?;
    let config = entrant.network.config();
    let mut runner = Runner::<T::Acc>::new(Context::new().with_isa(Isa::Scalar)?.with_threads(1)?);
    let sequences = Sequences::new(&part.x, work.size.steps, part.picked.len());
    let alone = runner.train(&entrant.network, &sequences, None, Training::default())?;
    let gradients = runner.backward(&entrant.network, &part.dy, None)?;
    let mut proof =
        Proof { sequences: part.picked.len(), largest_part_of_bound: 0.0, slope_part_of_bound: 0.0, outputs_compared: 0 };
    for sequence in 0..part.picked.len() {
        let worst = check_y::<T>(config, &wide, &part.column(&part.x, sequence), &part.column(&alone.y, sequence));
        proof.largest_part_of_bound = proof.largest_part_of_bound.max(worst);
    }
    proof.slope_part_of_bound = check_slope(config, &wide, &part, gradients.params.values(), &gradients.input);
    for (what, part) in [("y", proof.largest_part_of_bound), ("the gradients", proof.slope_part_of_bound)] {
        if part > 1.0 || part.is_nan() {
            return Err(Failure::out_of_contract(format!(
                "out of contract: {what} of {}: expected an error within the bound, found {part:.3e} times as much; \
                 nothing was timed",
                entrant.name()
            )));
        }
    }
    proof.outputs_compared = check_bits(work, entrant, &part, &alone.y, &gradients.input)?;
    Ok(proof)
}

/// The same parameters in f64.
fn widened<A: Float>(network: &Network<A>) -> Result<Params<f64>, Failure> {
    let mut wide = Params::zeros(network.config())?;
    let values = network.params().values().iter().map(|value| value.to_f64());
    wide.values_mut().iter_mut().zip(values).for_each(|(to, value)| *to = value);
    Ok(wide)
}

fn wide<T: Element>(values: &[T]) -> Vec<f64> {
    values.iter().map(|value| value.widen().to_f64()).collect()
}

impl<T: Number> Part<T> {
    fn of(work: &Work<T>) -> Self {
        let batch = work.size.batch;
        let picked: Vec<usize> = if batch < SEQUENCES { vec![0] } else { vec![0, batch - 1] };
        let pick = |tensor: &[T], width: usize| {
            let rows = (0..work.size.steps).flat_map(|t| picked.iter().map(move |b| t * batch + b));
            rows.flat_map(|row| tensor[row * width..(row + 1) * width].to_vec()).collect()
        };
        let (x, dy) = (pick(work.x.get(), work.size.input), pick(work.dy.get(), work.size.hidden));
        Part { picked, x, dy }
    }

    /// One sequence of a tensor `[T, S, N]` of this part.
    fn column(&self, tensor: &[T], sequence: usize) -> Vec<f64> {
        let steps = self.x.len() / self.picked.len();
        let width = if steps == 0 { 1 } else { tensor.len() / self.rows() };
        wide(&tensor.chunks(width).skip(sequence).step_by(self.picked.len()).flatten().copied().collect::<Vec<T>>())
    }

    fn rows(&self) -> usize {
        self.rows
    }
}
