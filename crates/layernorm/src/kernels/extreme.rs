//! Rule 6: rows whose sums overflow, or whose squares underflow, although every element is finite. Plain Rust for all
//! instruction sets, so that there is one result; speed does not matter here.
//!
//! **Forward.** A row is *large* if v + ε is not finite (a non-finite sum(x), sum(d) or sum(d·d) makes it so) and
//! *small* if v + ε < 2⁻⁶⁴ (f64: 2⁻⁵¹²), which only a small ε allows ([`RowNorm::rescale_small`]). Either is extreme.
//!
//! - If an element is NaN or infinite, the whole row is NaN.
//! - A row of a centred norm whose elements are all equal is *constant*: m is that element, δ = v = 0 and k = 0.
//! - Any other row is recomputed with x′ = x·2ᵏ and ε·2²ᵏ, where k = −⌊log₂ max|x|⌋, or less: an ε > 0 is scaled into
//!   [1, 4) at most. With k < 0, an ε > 0 is kept from falling below the smallest normal number.
//!
//! x̂ is that of the scaled row. The saved statistics are m = m′·2⁻ᵏ, δ = δ′·2⁻ᵏ and r = r′·2ᵏ, each rounded once.
//!
//! **Backward.** A row is extreme if r < 2⁻⁶⁴ (f64: 2⁻⁵¹²), which only a large row can have, if it may have been
//! small and r > 2³² (2²⁵⁶), or if sum(g) or sum(g·x̂) is not finite. In the first two cases m′, δ′ and r′ are
//! recomputed from x; otherwise k = 0. If dy and γ are finite, then g′ = (dy·2ʲ)·(γ·2ˡ) with the powers that bring
//! max|dy| and max|γ| into [1, 2), a and b are those of g′, and dx = (r′·fma(−x̂, b, g′ − a))·2ᵏ⁻ʲ⁻ˡ. Otherwise the
//! result is the NaN or infinity that the formula itself gives.
//!
//! **Sums for γ and β.** If a sum is not finite although every dy and x̂ in it is finite, it is recomputed with dy
//! scaled by the power of two that brings the largest |dy| of the column into [1, 2), and scaled back.
//!
//! **Batch norm** follows the same rule with columns in place of rows.

use super::{RowNorm, Stat, Stats};
use crate::element::Float;
use crate::sum::{BLOCK, CHUNK, LANES, PairTree};

/// Computes v from δ and sum(d·d).
#[inline(always)]
pub(crate) fn mean_square<A: Float>(norm: &RowNorm<A>, delta: A, square_sum: A) -> A {
    let square = square_sum / norm.count;
    if !norm.centered {
        return square;
    }
    let v = (-delta).fma(delta, square);
    // A NaN stays a NaN.
    if v < A::ZERO { A::ZERO } else { v }
}

/// Computes (v + ε, r) from δ and sum(d·d).
#[inline(always)]
pub(crate) fn inverse_deviation<A: Float>(norm: &RowNorm<A>, delta: A, square_sum: A) -> (A, A) {
    let variance = mean_square(norm, delta, square_sum) + norm.eps;
    (variance, A::ONE / (variance.sqrt() + norm.eps_outside))
}

/// Returns whether a forward row with this v + ε must be computed by rule 6.
#[inline(always)]
pub(crate) fn is_extreme<A: Float>(norm: &RowNorm<A>, variance: A) -> bool {
    !variance.is_finite() || (norm.rescale_small && variance < A::LEAST_VARIANCE)
}

/// Returns whether the saved r of a row shows that rule 6 scaled it.
#[inline(always)]
pub(crate) fn was_scaled<A: Float>(norm: &RowNorm<A>, r: A) -> bool {
    r < A::LEAST_RSTD || (norm.rescale_small && r > A::MOST_RSTD)
}

/// Corrects b of rule 4 for an r with an ε outside the root: the root changes faster than r, so b has more weight.
#[inline(always)]
pub(crate) fn steepened<A: Float>(eps_outside: A, r: A, b: A) -> A {
    if eps_outside == A::ZERO {
        return b;
    }
    let root = A::ONE / r - eps_outside;
    // A row without deviation has x̂ = 0, and therefore b = 0.
    if root > A::ZERO { b / (r * root) } else { A::ZERO }
}

/// What is normalized together, which determines the canonical sum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Line {
    /// A row: lanes of blocks, folded.
    Row,
    /// A column: chunks of 64, folded.
    Column,
}

impl Line {
    /// Computes the canonical sum of a(i)·b(i), following the contract literally. A sum of a(i) alone has b = 1.
    pub(crate) fn sum<A: Float>(self, n: usize, term: impl Fn(usize) -> (A, A)) -> A {
        let mut tree = PairTree::new();
        let fma = |acc: A, i: usize| {
            let (a, b) = term(i);
            a.fma(b, acc)
        };
        match self {
            Line::Column => {
                for start in (0..n).step_by(CHUNK) {
                    tree.push((start..n.min(start + CHUNK)).fold(A::ZERO, fma));
                }
            }
            Line::Row => {
                for start in (0..n).step_by(BLOCK) {
                    let mut lane = [A::ZERO; LANES];
                    (start..n.min(start + BLOCK)).for_each(|i| lane[i % LANES] = fma(lane[i % LANES], i));
                    let mut s = LANES / 2;
                    while s > 0 {
                        (0..s).for_each(|l| lane[l] = lane[l] + lane[l + s]);
                        s /= 2;
                    }
                    tree.push(lane[0]);
                }
            }
        }
        tree.finish()
    }
}

/// Computes the sum of a(i)·b(i) along a line, with a scaled by the power of its largest element and the result
/// scaled back. Returns `None` if a term is not finite.
pub(crate) fn scaled_sum<A: Float>(line: Line, n: usize, a: impl Fn(usize) -> A, b: impl Fn(usize) -> A) -> Option<A> {
    largest(n, &b)?;
    let j = power(largest(n, &a)?);
    Some(line.sum(n, |i| (a(i).scale(j), b(i))).scale(-j))
}

/// Computes [`scaled_sum`] down a column.
pub(crate) fn column_sum<A: Float>(n: usize, a: impl Fn(usize) -> A, b: impl Fn(usize) -> A) -> Option<A> {
    scaled_sum(Line::Column, n, a, b)
}

/// Returns the largest magnitude of n numbers, or `None` if one of them is not finite.
fn largest<A: Float>(n: usize, value: impl Fn(usize) -> A) -> Option<A> {
    (0..n).try_fold(A::ZERO, |max, i| {
        let x = value(i).abs();
        x.is_finite().then_some(if x > max { x } else { max })
    })
}

/// Returns the power that brings a largest magnitude into [1, 2); 0 for zero.
fn power<A: Float>(max: A) -> i32 {
    if max == A::ZERO { 0 } else { -max.exponent() }
}

/// Returns whether n numbers are all equal.
fn is_constant<A: Float>(n: usize, value: impl Fn(usize) -> A) -> bool {
    (1..n).all(|i| value(i) == value(0))
}

/// Returns the power by which to scale a line whose largest magnitude is `max`: the one that brings it into [1, 2),
/// or less, so that neither ε becomes too large.
fn scaling_power<A: Float>(norm: &RowNorm<A>, max: A) -> i32 {
    let mut k = power(max);
    if norm.eps > A::ZERO {
        // ε·2²ᵏ in [1, 4).
        k = k.min(-norm.eps.exponent().div_euclid(2));
    }
    if norm.eps_outside > A::ZERO {
        k = k.min(power(norm.eps_outside));
    }
    k
}

/// Returns ε of a line that is scaled by 2ᵏ.
fn scaled_eps<A: Float>(eps: A, k: i32) -> A {
    let scaled = eps.scale(2 * k);
    if k < 0 && eps > A::ZERO && scaled < A::MIN_POSITIVE { A::MIN_POSITIVE } else { scaled }
}

/// A line scaled by 2ᵏ, with the statistics of the scaled line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scaled<A> {
    k: i32,
    stat: Stat<A>,
    /// v of the scaled line.
    v: A,
}

impl<A: Float> Scaled<A> {
    /// Scales the line by the power of its largest element. Returns `None` if an element is not finite.
    pub(crate) fn new(line: Line, n: usize, value: impl Fn(usize) -> A, norm: &RowNorm<A>) -> Option<Self> {
        let max = largest(n, &value)?;
        if norm.centered && is_constant(n, &value) {
            return Some(Scaled::constant(value(0), norm));
        }
        let k = scaling_power(norm, max);
        let x = |i: usize| value(i).scale(k);
        let mean = |sum: A| if norm.centered { sum / norm.count } else { A::ZERO };
        let m = mean(line.sum(n, |i| (x(i), A::ONE)));
        let d = |i: usize| x(i) - m;
        let delta = mean(line.sum(n, |i| (d(i), A::ONE)));
        let square = line.sum(n, |i| (d(i), d(i)));
        let v = mean_square(norm, delta, square);
        let r = A::ONE / ((v + scaled_eps(norm.eps, k)).sqrt() + norm.eps_outside.scale(k));
        Some(Scaled { k, stat: Stat { m, delta, r }, v })
    }

    /// Creates a line of equal elements, whose mean is known without a sum.
    fn constant(element: A, norm: &RowNorm<A>) -> Self {
        let r = A::ONE / (norm.eps.sqrt() + norm.eps_outside);
        // −0 + 0 is 0, which is what a sum of zeros gives.
        Scaled { k: 0, stat: Stat { m: element + A::ZERO, delta: A::ZERO, r }, v: A::ZERO }
    }

    /// Returns the line for a backward pass: scaled again if its r shows that forward scaled it, otherwise as saved.
    pub(crate) fn again(line: Line, n: usize, value: impl Fn(usize) -> A, norm: &RowNorm<A>, stat: Stat<A>) -> Self {
        let scaled = if was_scaled(norm, stat.r) { Scaled::new(line, n, value, norm) } else { None };
        scaled.unwrap_or(Scaled { k: 0, stat, v: A::ZERO })
    }

    /// Computes x̂ of an element.
    pub(crate) fn x_hat(&self, x: A) -> A {
        let x = if self.k == 0 { x } else { x.scale(self.k) };
        ((x - self.stat.m) - self.stat.delta) * self.stat.r
    }

    /// Returns v of the unscaled line.
    pub(crate) fn variance(&self) -> A {
        self.v.scale(-2 * self.k)
    }

    /// Returns the statistics of the unscaled line.
    pub(crate) fn unscaled(&self) -> Stat<A> {
        let Stat { m, delta, r } = self.stat;
        Stat { m: m.scale(-self.k), delta: delta.scale(-self.k), r: r.scale(self.k) }
    }
}

/// Returns the statistics of a line with an element that is not finite.
pub(crate) fn no_number<A: Float>() -> Stat<A> {
    let nan = A::from_f64(f64::NAN);
    Stat { m: nan, delta: nan, r: nan }
}

/// Sets the statistics of `lines` lines without elements, which have no mean.
pub(crate) fn no_numbers<A: Float>(stats: Option<Stats<A>>, lines: usize) {
    if let Some(stats) = stats {
        // SAFETY: the statistics were checked to have this many elements.
        (0..lines).for_each(|line| unsafe { stats.set(line, no_number()) });
    }
}

/// A line of a backward pass.
pub(crate) struct ExtremeLine<'a, A> {
    pub(crate) line: Line,
    pub(crate) n: usize,
    pub(crate) x: &'a dyn Fn(usize) -> A,
    pub(crate) dy: &'a dyn Fn(usize) -> A,
    pub(crate) gain: &'a dyn Fn(usize) -> A,
    pub(crate) stat: Stat<A>,
}

impl<A: Float> ExtremeLine<'_, A> {
    /// Passes x̂, dy and dx of every element to `sink(i, x̂, dy, dx)`.
    #[cold]
    #[inline(never)]
    pub(crate) fn backward(&self, norm: &RowNorm<A>, sink: &mut dyn FnMut(usize, A, A, A)) {
        let Self { line, n, x, dy, gain, stat } = *self;
        let scaled = Scaled::again(line, n, x, norm, stat);
        let (j, l) = match (largest(n, dy), largest(n, gain)) {
            (Some(dy), Some(gain)) => (power(dy), power(gain)),
            _ => (0, 0),
        };
        let g = |i: usize| dy(i).scale(j) * gain(i).scale(l);
        let a = if norm.centered { line.sum(n, |i| (g(i), A::ONE)) / norm.count } else { A::ZERO };
        let b = line.sum(n, |i| (g(i), scaled.x_hat(x(i)))) / norm.count;
        let b = steepened(norm.eps_outside.scale(scaled.k), scaled.stat.r, b);
        for i in 0..n {
            let x_hat = scaled.x_hat(x(i));
            let dx = scaled.stat.r * (-x_hat).fma(b, g(i) - a);
            sink(i, x_hat, dy(i), dx.scale(scaled.k - j - l));
        }
    }
}
