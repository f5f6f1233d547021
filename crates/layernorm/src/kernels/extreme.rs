//! Rule 6: rows whose sums leave the range of numbers although every element is finite. Plain Rust for all instruction
//! sets, so that there is one answer; speed does not matter here.
//!
//! **Forward.** A row is *extreme* if sum(x), sum(d), sum(d·d) or v + ε is not finite (it is enough to look at v + ε: each
//! of the others makes it so). If an element is NaN or infinite, the whole row is NaN. Else let k = −⌊log₂ max|x|⌋; the
//! row is done again with x′ = x·2ᵏ and ε′ = ε·2²ᵏ, where ε′ is not let below the smallest normal number unless ε = 0
//! (so that a constant row gives β). x̂ is that of the scaled row. What is saved is m = m′·2⁻ᵏ, δ = δ′·2⁻ᵏ and r = r′·2ᵏ,
//! each rounded once.
//!
//! **Backward.** A row is extreme if r < 2⁻⁶⁴ (f64: 2⁻⁵¹²), which only a scaled row can have, or if sum(g) or sum(g·x̂) is
//! not finite. In the first case m′, δ′ and r′ are computed again from x; else k = 0. If dy and γ are finite, then
//! g′ = (dy·2ʲ)·(γ·2ˡ) with the powers that bring max|dy| and max|γ| into [1, 2), a and b are those of g′, and
//! dx = (r′·fma(−x̂, b, g′ − a))·2ᵏ⁻ʲ⁻ˡ. If they are not, the formula's own NaN and infinities stand.
//!
//! Weight norm has no ε, so its rows count as extreme also when sum(v·v) < 2⁻⁶⁴ (2⁻⁵¹²).

use super::{RowNorm, Stat};
use crate::element::{Element, Float};
use crate::sum::{BLOCK, CHUNK, LANES, PairTree};

/// (v + ε, r) from δ and sum(d·d).
#[inline(always)]
pub(crate) fn inverse_deviation<A: Float>(norm: &RowNorm<A>, delta: A, square_sum: A) -> (A, A) {
    let square = square_sum / norm.count;
    let mean_square = if norm.centered {
        let v = (-delta).fma(delta, square);
        // A NaN stays a NaN.
        if v < A::ZERO { A::ZERO } else { v }
    } else {
        square
    };
    let variance = mean_square + norm.eps;
    (variance, A::ONE / variance.sqrt())
}

/// Whether a forward row with this v + ε must be done by rule 6.
#[inline(always)]
pub(crate) fn is_extreme<A: Float>(norm: &RowNorm<A>, variance: A) -> bool {
    !variance.is_finite() || (norm.rescale_small && variance < A::LEAST_RSTD)
}

/// Whether the saved r of a row says that rule 6 scaled it.
#[inline(always)]
pub(crate) fn was_scaled<A: Float>(norm: &RowNorm<A>, r: A) -> bool {
    r < A::LEAST_RSTD || (norm.rescale_small && r * r * A::LEAST_RSTD > A::ONE)
}

/// The canonical sum of a(i)·b(i), word for word as the contract has it. A sum of a(i) alone is that with b = 1.
pub(crate) fn plain_sum<A: Float>(n: usize, term: impl Fn(usize) -> (A, A)) -> A {
    let mut tree = PairTree::new();
    for start in (0..n).step_by(BLOCK) {
        let mut lane = [A::ZERO; LANES];
        for i in start..n.min(start + BLOCK) {
            let (a, b) = term(i);
            lane[i % LANES] = a.fma(b, lane[i % LANES]);
        }
        let mut s = LANES / 2;
        while s > 0 {
            for l in 0..s {
                lane[l] = lane[l] + lane[l + s];
            }
            s /= 2;
        }
        tree.push(lane[0]);
    }
    tree.finish()
}

/// The canonical sum down the rows of a(row)·b(row), with a scaled by the power of its largest and the result scaled back;
/// `None` if a term is not finite.
pub(crate) fn column_sum<A: Float>(rows: usize, a: impl Fn(usize) -> A, b: impl Fn(usize) -> A) -> Option<A> {
    let j = power(largest(rows, &a)?);
    let mut tree = PairTree::new();
    for start in (0..rows).step_by(CHUNK) {
        let mut sum = A::ZERO;
        for row in start..rows.min(start + CHUNK) {
            let b = b(row);
            if !b.is_finite() {
                return None;
            }
            sum = a(row).scale(j).fma(b, sum);
        }
        tree.push(sum);
    }
    Some(tree.finish().scale(-j))
}

/// The largest magnitude of n numbers, or `None` if one of them is not finite.
fn largest<A: Float>(n: usize, value: impl Fn(usize) -> A) -> Option<A> {
    (0..n).try_fold(A::ZERO, |max, i| {
        let x = value(i).abs();
        x.is_finite().then_some(if x > max { x } else { max })
    })
}

/// The power that brings a largest magnitude into [1, 2); 0 for zero.
fn power<A: Float>(max: A) -> i32 {
    if max == A::ZERO { 0 } else { -max.exponent() }
}

/// A row scaled by 2ᵏ, with the statistics of the scaled row.
pub(crate) struct Scaled<A> {
    k: i32,
    stat: Stat<A>,
}

impl<A: Float> Scaled<A> {
    /// The row scaled by the power of its largest element; `None` if an element is not finite.
    ///
    /// # Safety
    /// x has n elements.
    unsafe fn new<T: Element<Acc = A>>(x: *const T, n: usize, norm: &RowNorm<A>) -> Option<Self> {
        // SAFETY: i < n in all of them.
        let value = |i: usize| unsafe { *x.add(i) }.widen();
        let k = power(largest(n, value)?);
        let x = |i: usize| value(i).scale(k);
        let mut eps = norm.eps.scale(2 * k);
        if norm.eps > A::ZERO && eps < A::MIN_POSITIVE {
            eps = A::MIN_POSITIVE;
        }
        let mean = |sum: A| if norm.centered { sum / norm.count } else { A::ZERO };
        let m = mean(plain_sum(n, |i| (x(i), A::ONE)));
        let d = |i: usize| x(i) - m;
        let delta = mean(plain_sum(n, |i| (d(i), A::ONE)));
        let square = plain_sum(n, |i| (d(i), d(i)));
        let (_, r) = inverse_deviation(&RowNorm { eps, ..*norm }, delta, square);
        Some(Scaled { k, stat: Stat { m, delta, r } })
    }

    /// The row as it is, with the statistics that were saved.
    fn unscaled(stat: Stat<A>) -> Self {
        Scaled { k: 0, stat }
    }

    /// The row that a backward pass meets: scaled again if its r says that it was.
    ///
    /// # Safety
    /// x has n elements.
    pub(crate) unsafe fn again<T: Element<Acc = A>>(x: *const T, n: usize, norm: &RowNorm<A>, stat: Stat<A>) -> Self {
        let scaled = if was_scaled(norm, stat.r) {
            // SAFETY: the caller's promise.
            unsafe { Scaled::new(x, n, norm) }
        } else {
            None
        };
        scaled.unwrap_or(Scaled::unscaled(stat))
    }

    /// x̂ of an element.
    pub(crate) fn x_hat(&self, x: A) -> A {
        let x = if self.k == 0 { x } else { x.scale(self.k) };
        ((x - self.stat.m) - self.stat.delta) * self.stat.r
    }
}

/// Writes an extreme row and gives the statistics to save.
///
/// # Safety
/// x and y have n elements, γ and β one for every `span` of them.
#[cold]
#[inline(never)]
pub(crate) unsafe fn forward<T: Element>(
    x: *const T,
    y: *mut T,
    n: usize,
    norm: &RowNorm<T::Acc>,
    gain: *const T::Acc,
    bias: *const T::Acc,
    span: usize,
) -> Stat<T::Acc> {
    // SAFETY: the caller's promise, i < n.
    unsafe {
        let Some(row) = Scaled::new(x, n, norm) else {
            let nan = T::Acc::from_f64(f64::NAN);
            for i in 0..n {
                *y.add(i) = T::narrow(nan);
            }
            return Stat { m: nan, delta: nan, r: nan };
        };
        for i in 0..n {
            let x_hat = row.x_hat((*x.add(i)).widen());
            *y.add(i) = T::narrow(x_hat.fma(*gain.add(i / span), *bias.add(i / span)));
        }
        let Stat { m, delta, r } = row.stat;
        Stat { m: m.scale(-row.k), delta: delta.scale(-row.k), r: r.scale(row.k) }
    }
}

/// A row of a backward pass, for the extreme ones.
pub(crate) struct ExtremeRow<T: Element> {
    pub(crate) x: *const T,
    pub(crate) dy: *const T,
    pub(crate) n: usize,
    /// γ of element i is at `i / span`.
    pub(crate) gain: *const T::Acc,
    pub(crate) span: usize,
    pub(crate) stat: Stat<T::Acc>,
}

impl<T: Element> ExtremeRow<T> {
    /// Gives x̂, dy and dx of every element to `sink(i, x̂, dy, dx)`.
    ///
    /// # Safety
    /// The pointers are valid for n elements (γ: one for every `span`).
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn backward(
        &self,
        norm: &RowNorm<T::Acc>,
        mut sink: impl FnMut(usize, T::Acc, T::Acc, T::Acc),
    ) {
        let n = self.n;
        // SAFETY: i < n in all of them.
        let x = |i: usize| unsafe { *self.x.add(i) }.widen();
        // SAFETY: as above.
        let dy = |i: usize| unsafe { *self.dy.add(i) }.widen();
        // SAFETY: as above.
        let gain = |i: usize| unsafe { *self.gain.add(i / self.span) };
        // SAFETY: the caller's promise.
        let row = unsafe { Scaled::again(self.x, n, norm, self.stat) };
        let (j, l) = match (largest(n, dy), largest(n, gain)) {
            (Some(dy), Some(gain)) => (power(dy), power(gain)),
            _ => (0, 0),
        };
        let g = |i: usize| dy(i).scale(j) * gain(i).scale(l);
        let a = if norm.centered { plain_sum(n, |i| (g(i), T::Acc::ONE)) / norm.count } else { T::Acc::ZERO };
        let b = plain_sum(n, |i| (g(i), row.x_hat(x(i)))) / norm.count;
        for i in 0..n {
            let x_hat = row.x_hat(x(i));
            let dx = row.stat.r * (-x_hat).fma(b, g(i) - a);
            sink(i, x_hat, dy(i), dx.scale(row.k - j - l));
        }
    }
}
