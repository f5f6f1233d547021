//! Numbers that carry a bound of their rounding error: running error analysis, as in section 3.3 of Higham's Accuracy and
//! Stability of Numerical Algorithms.

use std::ops::{Add, Mul, Neg, Sub};

/// A number of a computation in arithmetic of `P` bits: what exact arithmetic gives, and how far the computed number can
/// be from it. The only assumption is IEEE rounding to nearest, without underflow: an operation whose exact result is z
/// gives z(1 + t), |t| ≤ 2⁻ᴾ.
#[derive(Clone, Copy, Debug)]
pub struct Num<const P: u32> {
    /// The exact result.
    value: f64,
    /// How far the exact result may be from `value`, where it depends on a computed number that was taken as given.
    slack: f64,
    /// How far the computed result may be from the exact one.
    error: f64,
}

impl<const P: u32> Num<P> {
    /// Half a unit in the last place of 1: the largest relative error of a rounding.
    pub const UNIT: f64 = 1.0 / (1u64 << P) as f64;

    /// A number that was not computed.
    pub fn exact(value: f64) -> Self {
        Num { value, slack: 0.0, error: 0.0 }
    }

    /// A number that was rounded to `P` bits.
    pub fn rounded(value: f64) -> Self {
        Num::exact(value).round()
    }

    pub fn value(self) -> f64 {
        self.value
    }

    pub fn error(self) -> f64 {
        self.error
    }

    /// The exact result is no larger.
    fn size(self) -> f64 {
        self.value.abs() + self.slack
    }

    /// One more rounding, of this unit.
    fn round_to(self, unit: f64) -> Self {
        Num { error: self.error + unit * (self.size() + self.error), ..self }
    }

    fn round(self) -> Self {
        self.round_to(Self::UNIT)
    }

    /// Rounded to the type it is stored in; unit 0 is the type of the arithmetic.
    pub fn stored(self, unit: f64) -> Self {
        self.round_to(unit)
    }

    /// A further relative error.
    pub fn blurred(self, relative: f64) -> Self {
        self.round_to(relative)
    }

    /// Takes the computed number for the exact one: what follows from it is compared with what follows exactly from it.
    pub fn as_given(self) -> Self {
        Num { slack: self.slack + self.error, error: 0.0, ..self }
    }

    /// For a result that does not depend on what [`Num::as_given`] took as given.
    pub fn settled(self) -> Self {
        Num { slack: 0.0, ..self }
    }

    fn plus_unrounded(self, other: Self) -> Self {
        Num { value: self.value + other.value, slack: self.slack + other.slack, error: self.error + other.error }
    }

    fn times_unrounded(self, other: Self) -> Self {
        Num {
            value: self.value * other.value,
            slack: self.value.abs() * other.slack + other.value.abs() * self.slack + self.slack * other.slack,
            error: self.size() * other.error + other.size() * self.error + self.error * other.error,
        }
    }

    /// self·a + b, rounded once.
    pub fn fma(self, a: Self, b: Self) -> Self {
        self.times_unrounded(a).plus_unrounded(b).round()
    }

    /// A sum in which no term is rounded more than `depth` times: off by depth·2⁻ᴾ·Σ|term|, to first order.
    pub fn sum(terms: impl Iterator<Item = Self>, depth: usize) -> Self {
        let relative = depth as f64 * Self::UNIT / (1.0 - depth as f64 * Self::UNIT);
        terms.fold(Num::exact(0.0), |sum, term| sum.plus_unrounded(term.blurred(relative)))
    }

    /// A sum of products, the rounding of a product counted in `depth`.
    pub fn dot(pairs: impl Iterator<Item = (Self, Self)>, depth: usize) -> Self {
        Num::sum(pairs.map(|(a, b)| a.times_unrounded(b)), depth)
    }

    /// Divided by a count.
    pub fn over(self, count: f64) -> Self {
        self.times_unrounded(Num::exact(1.0 / count)).round()
    }

    /// 1/√self, in two roundings.
    pub fn inverse_root(self) -> Self {
        self.monotone(f64::sqrt).monotone(|x| 1.0 / x)
    }

    /// A function whose slope is steepest towards 0, of a positive number, and its rounding.
    fn monotone(self, f: impl Fn(f64) -> f64) -> Self {
        assert!(self.slack == 0.0 && self.error < self.value, "a bound that says nothing: {self:?}");
        let value = f(self.value);
        Num { value, slack: 0.0, error: (f(self.value - self.error) - value).abs() }.round()
    }
}

impl<const P: u32> Add for Num<P> {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        self.plus_unrounded(other).round()
    }
}

impl<const P: u32> Neg for Num<P> {
    type Output = Self;
    fn neg(self) -> Self {
        Num { value: -self.value, ..self }
    }
}

impl<const P: u32> Sub for Num<P> {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl<const P: u32> Mul for Num<P> {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        self.times_unrounded(other).round()
    }
}
