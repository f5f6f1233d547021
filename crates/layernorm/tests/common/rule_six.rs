//! Rule 6 of the numerical contract, word for word: a line (a row, or a channel of batch norm) forward and backward, extreme
//! or not.

use super::reference::{Stat, column_sum, sum, x_hat};
use layernorm::{Element, Float};

/// A line and its norm.
pub struct Line<'a, T> {
    pub x: &'a [T],
    pub centered: bool,
    pub eps: f64,
    /// Whether sums go down the line in chunks of 64 (batch norm), and not along a row.
    pub column: bool,
}

/// What forward makes of a line.
pub struct Normalized<A> {
    /// x̂ of every element.
    pub x_hat: Vec<A>,
    /// Statistics of x·2ᵏ.
    scaled: Stat<A>,
    k: i32,
    /// The statistics that are saved.
    pub saved: Stat<A>,
    /// The variance as it is without the scaling.
    pub v: A,
}

fn largest<A: Float>(values: &[A]) -> A {
    values.iter().fold(A::ZERO, |max, x| if x.abs() > max { x.abs() } else { max })
}

/// The power that brings the largest magnitude into [1, 2).
fn power<A: Float>(values: &[A]) -> i32 {
    let max = largest(values);
    if max == A::ZERO { 0 } else { -max.exponent() }
}

/// 2⁻⁶⁴ or 2⁻⁵¹², and 2³² or 2²⁵⁶.
fn limits<A: Float>() -> (A, A) {
    let half = if A::from_f64(1e-200) == A::ZERO { 64 } else { 512 };
    (A::ONE.scale(-half), A::ONE.scale(half / 2))
}

impl<T: Element> Line<'_, T> {
    fn sum(&self, term: impl Fn(usize) -> (T::Acc, T::Acc)) -> T::Acc {
        if self.column { column_sum(self.x.len(), term) } else { sum(self.x.len(), term) }
    }

    fn eps(&self) -> T::Acc {
        T::Acc::from_f64(self.eps)
    }

    fn count(&self) -> T::Acc {
        T::Acc::from_count(self.x.len())
    }

    /// Rule 3 for these numbers: statistics and v.
    fn stat(&self, x: &[T::Acc], eps: T::Acc) -> (Stat<T::Acc>, T::Acc) {
        let (zero, one) = (T::Acc::ZERO, T::Acc::ONE);
        let (mut m, mut delta) = (zero, zero);
        if self.centered {
            m = self.sum(|i| (x[i], one)) / self.count();
            delta = self.sum(|i| (x[i] - m, one)) / self.count();
        }
        let mut v = self.sum(|i| (x[i] - m, x[i] - m)) / self.count();
        if self.centered {
            v = (-delta).fma(delta, v);
            v = if v < zero { zero } else { v };
        }
        (Stat { m, delta, r: one / (v + eps).sqrt() }, v)
    }

    pub fn forward(&self) -> Normalized<T::Acc> {
        let (least, _) = limits::<T::Acc>();
        let (zero, one, eps) = (T::Acc::ZERO, T::Acc::ONE, self.eps());
        let x: Vec<T::Acc> = self.x.iter().map(|x| x.widen()).collect();
        let (stat, v) = self.stat(&x, eps);
        let plain = |stat: Stat<T::Acc>, v| Normalized {
            x_hat: x.iter().map(|&x| x_hat(x, stat)).collect(),
            scaled: stat,
            k: 0,
            saved: stat,
            v,
        };
        if (v + eps).is_finite() && v + eps >= least {
            return plain(stat, v);
        }
        assert!(x.iter().all(|x| x.is_finite()), "the tests here have finite lines");
        if self.centered && x.iter().all(|&other| other == x[0]) {
            return plain(Stat { m: x[0] + zero, delta: zero, r: one / eps.sqrt() }, zero);
        }
        let mut k = power(&x);
        if eps > zero {
            while k > 0 && eps.scale(2 * k) >= T::Acc::from_f64(4.0) {
                k -= 1;
            }
        }
        let mut scaled_eps = eps.scale(2 * k);
        if k < 0 && eps > zero && scaled_eps < T::Acc::MIN_POSITIVE {
            scaled_eps = T::Acc::MIN_POSITIVE;
        }
        let x: Vec<T::Acc> = x.iter().map(|x| x.scale(k)).collect();
        let (scaled, v) = self.stat(&x, scaled_eps);
        let saved = Stat { m: scaled.m.scale(-k), delta: scaled.delta.scale(-k), r: scaled.r.scale(k) };
        Normalized { x_hat: x.iter().map(|&x| x_hat(x, scaled)).collect(), scaled, k, saved, v: v.scale(-2 * k) }
    }

    /// dx, and the x̂ that enters dγ; γ is one an element.
    pub fn backward(&self, dy: &[T], gain: &[T::Acc]) -> (Vec<T>, Vec<T::Acc>) {
        let (least, most) = limits::<T::Acc>();
        let forward = self.forward();
        let again = forward.saved.r < least || (self.eps() < least && forward.saved.r > most);
        let (stat, k) = if again { (forward.scaled, forward.k) } else { (forward.saved, 0) };
        let x_hat: Vec<T::Acc> = self.x.iter().map(|x| x_hat(x.widen().scale(k), stat)).collect();
        let dy: Vec<T::Acc> = dy.iter().map(|dy| dy.widen()).collect();
        let means = |g: &[T::Acc]| {
            let a = if self.centered { self.sum(|i| (g[i], T::Acc::ONE)) / self.count() } else { T::Acc::ZERO };
            (a, self.sum(|i| (g[i], x_hat[i])) / self.count())
        };
        let (mut j, mut l) = (0, 0);
        let mut g: Vec<T::Acc> = dy.iter().zip(gain).map(|(&dy, &gain)| dy * gain).collect();
        let (mut a, mut b) = means(&g);
        if again || !(a + b).is_finite() {
            (j, l) = (power(&dy), power(gain));
            g = dy.iter().zip(gain).map(|(dy, gain)| dy.scale(j) * gain.scale(l)).collect();
            (a, b) = means(&g);
        }
        let dx = |i: usize| T::narrow((stat.r * (-x_hat[i]).fma(b, g[i] - a)).scale(k - j - l));
        ((0..x_hat.len()).map(dx).collect(), x_hat)
    }
}
