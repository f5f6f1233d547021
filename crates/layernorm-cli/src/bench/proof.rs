//! Verifies the timed results: compares some rows and columns with the reference, within the bound derived here.
//!
//! u is half a unit in the last place of 1 in the arithmetic type, w the same in the element type (w counts only if the two
//! differ). The canonical sum over a row has depth k = 4 + 8 + ⌈log₂ blocks⌉, so its error is at most k·u·Σ|term|.
//!
//! **x̂.** With deviations in units of σ: the two sums for the mean leave an error of at most (k+1)·u, because Σ|d| ≤ N·σ. The
//! relative error of v is (k+3)·u, so that of r is half of it plus 3 roundings; d − δ and the product add 3. With 2 more for
//! the reference's own rounding to f64, |Δx̂| ≤ u·(k+10)·(1+|x̂|).
//!
//! **y** = x̂·γ + β: |Δy| ≤ |γ|·|Δx̂| + (2u+w)·|y| plus the smallest positive number.
//!
//! **dx** = r·(g − a − x̂·b), with G² the mean of g²: |Δa| ≤ (k+1)·u·G. |Δb| is at most the mean of |g·Δx̂|, which is
//! below 2·(k+10)·u·G, plus (k+1)·u·G. So |Δ(x̂·b)| ≤ u·G·(1+|x̂|)·(4k+31). The roundings of g and of the differences,
//! here and in the reference, are within 8·u·(|g| + G·(1+|x̂|)), and the relative error of r is (k+5)·u. Together
//! |Δdx| ≤ r·u·(6k+45)·(|g| + G·(1+|x̂|)) + w·|dx|.
//!
//! **dγ** = Σ dy·x̂ and **dβ** = Σ dy over R rows have depth c = 64 + ⌈log₂ chunks⌉:
//! |Δdγ| ≤ Σ|dy·Δx̂| + (c+1)·u·Σ|dy·x̂| + w·|dγ|, and |Δdβ| ≤ c·u·Σ|dy| + w·|dβ|.

use super::work::{Contestant, Work};
use crate::dtype::Type;
use crate::failure::Failure;
use crate::norm::{EPS, Inputs, RowNorm};
use crate::reference::stat;
use layernorm::{Context, Element, Float};
use layernorm_lab::reference::norm::Stat;
use layernorm_lab::reference::wide::Wide;
use serde::Serialize;

/// The maximum number of rows and columns checked: the first, the last, and some between.
const SAMPLES: usize = 16;

/// What was checked.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Proof {
    /// Rows whose y and dx were compared.
    pub rows: usize,
    /// Columns whose dγ and dβ were compared.
    pub columns: usize,
    /// The largest error as a fraction of the bound.
    pub largest_part_of_bound: f64,
}

/// Runs the contestants once and compares their results with the reference.
pub fn prove<T: Type>(work: &mut Work<T>, contestants: &[Contestant], cx: &mut Context) -> Result<Proof, Failure> {
    let mut largest = Largest::default();
    let mut proof = Proof { rows: 0, columns: 0, largest_part_of_bound: 0.0 };
    if contestants.contains(&Contestant::Residual) {
        work.call(Contestant::Residual, cx)?;
        let of = work.inputs();
        let h: Vec<T> = of.x.iter().zip(of.dy).map(|(x, r)| T::narrow(x.widen() + r.widen())).collect();
        if h != work.dx.get() {
            return Err(Failure::out_of_contract(
                "outside the contract: h is not the rounded sum of x and the residual",
            ));
        }
        check_y(work.norm, &Inputs { x: &h, ..of }, work.y.get(), &mut largest);
    }
    work.call(Contestant::Forward, cx)?;
    proof.rows = check_y(work.norm, &work.inputs(), work.y.get(), &mut largest);
    if contestants.contains(&Contestant::Backward) {
        work.call(Contestant::Backward, cx)?;
        check_dx(work.norm, &work.inputs(), work.dx.get(), &mut largest);
        proof.columns = check_sums(work, &mut largest);
    }
    proof.largest_part_of_bound = largest.part;
    match largest.what {
        Some(what) if largest.part > 1.0 || largest.part.is_nan() => Err(Failure::out_of_contract(format!(
            "outside the contract: {what}: expected an error within the bound, found {:.3e} times the bound; \
             nothing was timed",
            largest.part
        ))),
        _ => Ok(proof),
    }
}

/// The largest error so far, as a fraction of the bound, and its position.
#[derive(Debug, Default)]
struct Largest {
    part: f64,
    what: Option<String>,
}

impl Largest {
    fn add(&mut self, found: f64, exact: f64, bound: f64, what: impl Fn() -> String) {
        let part = (found - exact).abs() / bound;
        // A NaN counts as larger than everything and stays.
        if part > self.part || (part.is_nan() && !self.part.is_nan()) {
            *self = Largest { part, what: Some(what()) };
        }
    }
}

/// The final rounding, if the element type is narrower than the arithmetic type.
fn narrowing<T: Type>() -> f64 {
    if T::ROUNDOFF > T::ARITHMETIC { T::ROUNDOFF } else { 0.0 }
}

/// Depth of the sum over a row.
fn depth(n: usize) -> f64 {
    12.0 + (n.div_ceil(1024) as f64).log2().ceil()
}

/// The bound on |Δx̂|.
fn x_hat_bound<T: Type>(n: usize, x_hat: f64) -> f64 {
    T::ARITHMETIC * (depth(n) + 10.0) * (1.0 + x_hat.abs())
}

/// Up to [`SAMPLES`] numbers below `count`, evenly spread.
fn samples(count: usize) -> impl Iterator<Item = usize> {
    let taken = count.min(SAMPLES);
    (0..taken).map(move |i| if taken < 2 { 0 } else { i * (count - 1) / (taken - 1) })
}

fn wide<T: Element>(x: T) -> f64 {
    x.widen().to_f64()
}

/// Compares y on some rows; returns the number of rows.
fn check_y<T: Type>(norm: RowNorm, of: &Inputs<T>, y: &[T], largest: &mut Largest) -> usize {
    let (n, u, w) = (of.n, T::ARITHMETIC, narrowing::<T>());
    let rows = samples(of.x.len() / n);
    rows.map(|row| {
        let x = &of.x[row * n..(row + 1) * n];
        let stat = stat(x, norm.centered(), EPS);
        for (i, &x) in x.iter().enumerate() {
            let (x_hat, gain) = (stat.x_hat(wide(x)).to_f64(), wide(of.gain[i]));
            let exact = x_hat * gain + wide(of.bias[i]);
            let bound = gain.abs() * x_hat_bound::<T>(n, x_hat) + (2.0 * u + w) * exact.abs() + T::TINY;
            largest.add(wide(y[row * n + i]), exact, bound, || format!("y at row {row}, column {i}"));
        }
    })
    .count()
}

/// Compares dx on some rows.
fn check_dx<T: Type>(norm: RowNorm, of: &Inputs<T>, dx: &[T], largest: &mut Largest) {
    let (n, u, w) = (of.n, T::ARITHMETIC, narrowing::<T>());
    let count = Wide::from(n as f64);
    for row in samples(of.x.len() / n) {
        let cells = row * n..(row + 1) * n;
        let (x, dy) = (&of.x[cells.clone()], &of.dy[cells.clone()]);
        let stat = stat(x, norm.centered(), EPS);
        let (rstd, x_hat) = (stat.rstd.to_f64(), |i: usize| stat.x_hat(wide(x[i])).to_f64());
        let g = |i: usize| wide(dy[i]) * wide(of.gain[i]);
        let mean = |term: &dyn Fn(usize) -> f64| ((0..n).fold(Wide::ZERO, |sum, i| sum + term(i)) / count).to_f64();
        let a = if norm.centered() { mean(&g) } else { 0.0 };
        let b = mean(&|i| g(i) * x_hat(i));
        let size = mean(&|i| g(i) * g(i)).sqrt();
        for (i, &found) in dx[cells].iter().enumerate() {
            let x_hat = x_hat(i);
            let exact = rstd * (g(i) - a - x_hat * b);
            let scale = g(i).abs() + size * (1.0 + x_hat.abs());
            let bound = rstd * u * (6.0 * depth(n) + 45.0) * scale + w * exact.abs() + T::TINY;
            largest.add(wide(found), exact, bound, || format!("dx at row {row}, column {i}"));
        }
    }
}

/// Compares dγ and dβ on some columns; returns the number of columns.
fn check_sums<T: Type>(work: &Work<T>, largest: &mut Largest) -> usize {
    let of = work.inputs();
    let (n, u, w) = (of.n, T::ARITHMETIC, narrowing::<T>());
    let rows = of.x.len() / n;
    let chunk_depth = 64.0 + (rows.div_ceil(64) as f64).log2().ceil();
    let stats: Vec<Stat> = of.x.chunks(n).map(|x| stat(x, work.norm.centered(), EPS)).collect();
    let columns = samples(n);
    columns
        .map(|column| {
            let (mut gain, mut bias) = (Wide::ZERO, Wide::ZERO);
            let (mut gain_size, mut bias_size, mut x_hat_error) = (0.0, 0.0, 0.0);
            for (row, stat) in stats.iter().enumerate() {
                let cell = row * n + column;
                let (x_hat, dy) = (stat.x_hat(wide(of.x[cell])).to_f64(), wide(of.dy[cell]));
                gain = gain + Wide::from(dy) * Wide::from(x_hat);
                bias = bias + dy;
                gain_size += (dy * x_hat).abs();
                bias_size += dy.abs();
                x_hat_error += dy.abs() * x_hat_bound::<T>(n, x_hat);
            }
            let (gain, bias) = (gain.to_f64(), bias.to_f64());
            let bound = x_hat_error + (chunk_depth + 1.0) * u * gain_size + w * gain.abs() + T::TINY;
            largest.add(wide(work.dgain.get()[column]), gain, bound, || format!("dγ at column {column}"));
            let bound = chunk_depth * u * bias_size + w * bias.abs() + T::TINY;
            largest.add(wide(work.dbias.get()[column]), bias, bound, || format!("dβ at column {column}"));
        })
        .count()
}

#[cfg(test)]
mod tests {
    use super::super::shape::Shape;
    use super::*;
    use layernorm::bf16;

    const ALL: [Contestant; 3] = [Contestant::Forward, Contestant::Residual, Contestant::Backward];

    #[test]
    fn right_results_are_proved() {
        let cx = &mut Context::new();
        for norm in [RowNorm::Layer, RowNorm::Rms] {
            for (rows, n) in [(1, 1), (2, 3), (100, 40), (3, 2000)] {
                let shape = Shape::new(rows, n);
                let proof = prove(&mut Work::<f32>::new(norm, &shape).unwrap(), &ALL, cx).unwrap();
                assert_eq!((proof.rows, proof.columns), (rows.min(SAMPLES), n.min(SAMPLES)));
                prove(&mut Work::<f64>::new(norm, &shape).unwrap(), &ALL, cx).unwrap();
                prove(&mut Work::<bf16>::new(norm, &shape).unwrap(), &ALL, cx).unwrap();
            }
        }
    }

    /// The largest error that a check finds, as a fraction of the bound; infinite for NaN.
    fn part(check: impl Fn(&mut Largest)) -> f64 {
        let mut largest = Largest::default();
        check(&mut largest);
        if largest.part.is_nan() { f64::INFINITY } else { largest.part }
    }

    #[test]
    fn wrong_results_are_detected() {
        let mut work = Work::<f32>::new(RowNorm::Layer, &Shape::new(4, 100)).unwrap();
        prove(&mut work, &ALL, &mut Context::new()).unwrap();
        for factor in [1.0001, f32::NAN] {
            let spoil = |values: &[f32]| values.iter().map(|x| x * factor).collect::<Vec<f32>>();
            let (y, dx) = (spoil(work.y.get()), spoil(work.dx.get()));
            assert!(part(|largest| _ = check_y(RowNorm::Layer, &work.inputs(), &y, largest)) > 1.0, "y · {factor}");
            assert!(part(|largest| check_dx(RowNorm::Layer, &work.inputs(), &dx, largest)) > 1.0, "dx · {factor}");
        }
        work.dgain.get_mut()[99] += 0.01;
        let mut largest = Largest::default();
        check_sums(&work, &mut largest);
        assert!(largest.part > 1.0);
        assert_eq!(largest.what.as_deref(), Some("dγ at column 99"));
    }
}
