//! Verifies the timed results, for some sequences of the batch.
//!
//! 1. **y** is compared with a slow loop in f64 ([`Oracle`]). The tolerance comes from the loop itself: it runs again with every
//!    intermediate result perturbed, with a random sign, by as much as rounding in the arithmetic type would, which shows how
//!    far such errors grow in this network. The tolerance is [`SAFETY`] times the largest difference so far, because one choice
//!    of signs is not the worst case, plus the final rounding to the element type.
//! 2. **The gradients** are checked together: their product with a random direction is the slope of Σ dy·y along it, which two
//!    runs of the slow loop give. This is done for [`DIRECTIONS`] directions. A missing or wrong term in any gradient changes
//!    the product by about its own size.
//! 3. **The bits**: y and dx of the whole batch, with the timed threads and instruction set, must equal those of the sequences
//!    alone in plain Rust on one thread, and a single step must equal the first step.

use super::work::{Entrant, Number, Pass, Work};
use crate::failure::Failure;
use crate::random::Random;
use layernorm::{Context, Element, Float, Isa};
use layernorm_lab::reference::cell::{Oracle, Rounding};
use layernorm_rnn::{Config, Gradients, Network, Params, Runner, Sequences, Training};
use serde::Serialize;

/// The maximum number of sequences checked: the first and the last.
const SEQUENCES: usize = 2;

/// Factor by which errors may exceed those of one random choice of signs.
const SAFETY: f64 = 8.0;

/// Tolerance of a slope, relative to the size of a sum of terms with random signs. In f32, gradients have an error of
/// about 10⁻⁵ of the largest one, and slopes of large networks one of 3·10⁻⁴; a mistake changes a slope by about 1.
/// Rounding of dx is added.
const SLOPE: f64 = 2e-3;

/// Number of directions. An error that is orthogonal to one direction is not orthogonal to all.
const DIRECTIONS: u64 = 3;

/// Step along the direction: f64 rounds at 10⁻¹⁶, and the error from curvature is quadratic in the step.
const STEP: f64 = 1e-6;

/// What was checked.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Proof {
    /// Number of sequences compared, at all steps.
    pub sequences: usize,
    /// The largest error of y as a fraction of the tolerance.
    pub largest_part_of_bound: f64,
    /// The error of the slope as a fraction of the tolerance.
    pub slope_part_of_bound: f64,
    /// Number of outputs whose bits were compared; none differs.
    pub outputs_compared: usize,
}

/// Some sequences of the batch.
struct Part<T> {
    /// Their indices.
    picked: Vec<usize>,
    steps: usize,
    /// x, `[T, S, I]`.
    x: Vec<T>,
    /// dy, `[T, S, H]`.
    dy: Vec<T>,
}

/// Runs an entrant and checks its results.
pub fn prove<T: Number>(work: &mut Work<T>, entrant: &mut Entrant<T>) -> Result<Proof, Failure> {
    let part = Part::of(work);
    let wide = widened(&entrant.network)?;
    let config = entrant.network.config();
    let mut runner = Runner::<T::Acc>::new(Context::new().with_isa(Isa::Scalar)?.with_threads(1)?);
    let sequences = Sequences::new(&part.x, work.size.steps, part.picked.len());
    let alone = runner.train(&entrant.network, &sequences, None, Training::default())?;
    let gradients = runner.backward(&entrant.network, &part.dy, None)?;
    let mut proof = Proof {
        sequences: part.picked.len(),
        largest_part_of_bound: 0.0,
        slope_part_of_bound: 0.0,
        outputs_compared: 0,
    };
    for sequence in 0..part.picked.len() {
        let worst = check_y::<T>(config, &wide, &part.column(&part.x, sequence), &part.column(&alone.y, sequence));
        proof.largest_part_of_bound = larger(proof.largest_part_of_bound, worst);
    }
    for seed in 0..DIRECTIONS {
        let slope = check_slope(config, &wide, &part, &gradients, seed);
        proof.slope_part_of_bound = larger(proof.slope_part_of_bound, slope);
    }
    for (what, part) in [("y", proof.largest_part_of_bound), ("the gradients", proof.slope_part_of_bound)] {
        if part > 1.0 || part.is_nan() {
            return Err(Failure::out_of_contract(format!(
                "outside the contract: {what} of {}: expected an error within the bound, found {part:.3e} times the \
                 bound; nothing was timed",
                entrant.name()
            )));
        }
    }
    proof.outputs_compared = check_bits(work, entrant, &part, &alone.y, &gradients.input)?;
    Ok(proof)
}

/// The parameters in f64.
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
        let steps = work.size.steps;
        let x = pick(work.x.get(), steps, batch, &picked);
        let dy = pick(work.dy.get(), steps, batch, &picked);
        Part { picked, steps, x, dy }
    }

    /// One sequence of a tensor `[T, S, N]` of this part, in f64.
    fn column(&self, tensor: &[T], sequence: usize) -> Vec<f64> {
        wide(&pick(tensor, self.steps, self.picked.len(), &[sequence]))
    }
}

/// Some sequences of a tensor `[T, B, N]`.
fn pick<T: Copy>(tensor: &[T], steps: usize, batch: usize, picked: &[usize]) -> Vec<T> {
    let width = tensor.len() / steps / batch;
    let rows = (0..steps).flat_map(|t| picked.iter().map(move |b| t * batch + b));
    rows.flat_map(|row| &tensor[row * width..(row + 1) * width]).copied().collect()
}

/// The final rounding, if the element type is narrower than the arithmetic type.
fn narrowing<T: Number>() -> f64 {
    if T::ROUNDOFF > T::ARITHMETIC { T::ROUNDOFF } else { 0.0 }
}

/// The larger of two numbers; a NaN counts as larger than everything and stays.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

/// The largest error of y in a sequence as a fraction of the tolerance; NaN if y contains one.
fn check_y<T: Number>(config: &Config, params: &Params<f64>, x: &[f64], found: &[f64]) -> f64 {
    let exact = Oracle::new(config, params).outputs(x);
    let rounding = Rounding::Usual(T::ARITHMETIC);
    let shaken = Oracle::new(config, params).rounded(rounding, x.len() as u64).outputs(x);
    let (mut distance, mut worst) = (0.0f64, 0.0f64);
    let rows = exact.chunks(config.hidden).zip(shaken.chunks(config.hidden)).zip(found.chunks(config.hidden));
    for ((exact, shaken), found) in rows {
        distance = exact.iter().zip(shaken).fold(distance, |distance, (e, s)| distance.max((e - s).abs()));
        for (exact, found) in exact.iter().zip(found) {
            let part = (found - exact).abs() / (SAFETY * distance + narrowing::<T>() * exact.abs() + T::TINY);
            worst = larger(worst, part);
        }
    }
    worst
}

/// The error of the slope along a random direction of parameters and input, as a fraction of the tolerance.
fn check_slope<T: Number>(
    config: &Config,
    params: &Params<f64>,
    part: &Part<T>,
    gradients: &Gradients<T>,
    seed: u64,
) -> f64 {
    let (dparams, dx) = (gradients.params.values(), &gradients.input);
    let mut random = Random::new(seed);
    let mut direction = |n: usize| (0..n).map(|_| 2.0 * random.uniform() - 1.0).collect::<Vec<f64>>();
    let (vparams, vx) = (direction(dparams.len()), direction(dx.len()));
    let terms = dparams.iter().map(|g| g.to_f64()).zip(&vparams).chain(wide(dx).into_iter().zip(&vx));
    let (slope, squares) = terms.fold((0.0, 0.0), |(sum, squares), (g, v)| (sum + g * v, squares + (g * v).powi(2)));
    let loss = |step: f64| {
        let mut params = params.clone();
        params.values_mut().iter_mut().zip(&vparams).for_each(|(value, v)| *value += step * v);
        let x: Vec<f64> = wide(&part.x).iter().zip(&vx).map(|(x, v)| x + step * v).collect();
        let sequence = |s: usize| {
            let y = Oracle::new(config, &params).outputs(&pick(&x, part.steps, part.picked.len(), &[s]));
            y.iter().zip(part.column(&part.dy, s)).map(|(y, dy)| y * dy).sum::<f64>()
        };
        (0..part.picked.len()).map(sequence).sum::<f64>()
    };
    let expected = (loss(STEP) - loss(-STEP)) / (2.0 * STEP);
    (slope - expected).abs() / ((SLOPE + 2.0 * narrowing::<T>()) * squares.sqrt() + T::TINY)
}

/// Runs every pass as it will be timed and compares its bits with those of the sequences alone. Returns
/// the number of outputs compared.
fn check_bits<T: Number>(
    work: &mut Work<T>,
    entrant: &mut Entrant<T>,
    part: &Part<T>,
    y: &[T],
    dx: &[T],
) -> Result<usize, Failure> {
    let (size, steps, batch) = (work.size, work.size.steps, work.size.batch);
    let mut compared = 0;
    let mut same = |pass: Pass, found: &[T], expected: &[T]| {
        compared += found.len();
        let differing = found.iter().zip(expected).filter(|(found, expected)| found.bits() != expected.bits()).count();
        if differing == 0 && found.len() == expected.len() {
            return Ok(());
        }
        Err(Failure::out_of_contract(format!(
            "outside the contract: {} of {}: expected the bits of each sequence alone in plain Rust, found {differing} of {} \
             outputs that differ; nothing was timed",
            pass.name(),
            size,
            found.len()
        )))
    };
    let nan = T::narrow(T::Acc::from_f64(f64::NAN));
    for pass in Pass::ALL {
        work.y.get_mut().fill(nan);
        entrant.gradients.input.fill(nan);
        work.call(entrant, pass)?;
        if pass == Pass::Step {
            let first = &work.y.get()[..batch * work.size.hidden];
            same(pass, &pick(first, 1, batch, &part.picked), &y[..part.picked.len() * work.size.hidden])?;
            continue;
        }
        same(pass, &pick(work.y.get(), steps, batch, &part.picked), y)?;
        if pass == Pass::Training {
            same(pass, &pick(&entrant.gradients.input, steps, batch, &part.picked), dx)?;
        }
    }
    Ok(compared)
}

#[cfg(test)]
mod tests {
    use super::super::size::Size;
    use super::*;
    use layernorm::{bf16, f16};
    use layernorm_rnn::{Kind, Variant};

    fn entrant<T: Number>(variant: Variant, size: &Size) -> (Work<T>, Entrant<T>) {
        (Work::new(*size).unwrap(), Entrant::new(variant, size, || Ok(Context::new().with_threads(2)?)).unwrap())
    }

    fn proved<T: Number>(variant: Variant, size: Size) -> Proof {
        let (mut work, mut entrant) = entrant::<T>(variant, &size);
        prove(&mut work, &mut entrant).unwrap_or_else(|failure| panic!("{} {size}: {failure}", variant.name))
    }

    #[test]
    fn every_variant_is_proved() {
        for variant in Kind::ALL.into_iter().flat_map(Variant::all) {
            for size in [Size::new(3, 7, 5, 9), Size::new(1, 1, 1, 2)] {
                let proof = proved::<f32>(*variant, size);
                assert_eq!(proof.sequences, size.batch.min(2));
            }
            proved::<f64>(*variant, Size::new(2, 5, 3, 4));
            proved::<f16>(*variant, Size::new(2, 5, 3, 4));
            proved::<bf16>(*variant, Size::new(2, 5, 3, 4));
        }
    }

    /// The proof of one network must fail for another that differs by a thousandth in one gate.
    #[test]
    fn wrong_results_are_detected() {
        let size = Size::new(2, 10, 8, 16);
        for kind in Kind::ALL {
            let variant = Variant::named(kind, "paper").unwrap();
            let (work, entrant) = entrant::<f32>(variant, &size);
            let (part, params) = (Part::of(&work), widened(&entrant.network).unwrap());
            let config = entrant.network.config();
            let x = part.column(&part.x, 0);
            let y = Oracle::new(config, &params).outputs(&x);
            assert!(check_y::<f32>(config, &params, &x, &y) <= 1.0);
            let mut other = params.clone();
            other.values_mut().iter_mut().take(8 * 16).for_each(|value| *value *= 1.001);
            let y = Oracle::new(config, &other).outputs(&x);
            assert!(check_y::<f32>(config, &params, &x, &y) > 1.0, "{kind:?}");

            let mut runner = Runner::<f32>::default();
            runner.train(&entrant.network, &Sequences::new(&part.x, 10, 2), None, Training::default()).unwrap();
            let mut gradients = runner.backward(&entrant.network, &part.dy, None).unwrap();
            let slope = |gradients: &Gradients<f32>| {
                (0..DIRECTIONS).map(|seed| check_slope(config, &params, &part, gradients, seed)).fold(0.0, larger)
            };
            assert!(slope(&gradients) <= 1.0);
            let mut wrong = gradients.clone();
            wrong.input.fill(0.0);
            assert!(slope(&wrong) > 1.0, "{kind:?}: dx");
            gradients.params.values_mut().iter_mut().step_by(2).for_each(|value| *value *= 1.1);
            assert!(slope(&gradients) > 1.0, "{kind:?}: parameters");
        }
    }
}
