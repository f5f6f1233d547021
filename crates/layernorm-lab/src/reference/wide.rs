//! Numbers of 106 bits, each the unevaluated sum of two f64 ("double-double": Dekker 1971, Knuth's TAOCP 4.2.2).
//!
//! Every operation has a relative error below 2⁻¹⁰⁰. A sum of f32, whose significands have 24 bits, is exact as long as its terms
//! are within a factor of 2⁶⁴ of each other and there are at most 2¹⁸ of them.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// A number hi + lo, with |lo| at most half a unit in the last place of hi.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Wide {
    hi: f64,
    lo: f64,
}

/// a + b and its rounding error.
fn two_sum(a: f64, b: f64) -> Wide {
    let hi = a + b;
    let back = hi - a;
    Wide { hi, lo: (a - (hi - back)) + (b - back) }
}

/// The same for |a| ≥ |b|.
fn quick_two_sum(a: f64, b: f64) -> Wide {
    let hi = a + b;
    Wide { hi, lo: b - (hi - a) }
}

/// a·b and its rounding error.
fn two_product(a: f64, b: f64) -> Wide {
    let hi = a * b;
    Wide { hi, lo: a.mul_add(b, -hi) }
}

impl Wide {
    /// The number 0.
    pub const ZERO: Wide = Wide { hi: 0.0, lo: 0.0 };
    /// The number 1.
    pub const ONE: Wide = Wide { hi: 1.0, lo: 0.0 };

    /// hi + lo, where |lo| must be at most half a unit in the last place of hi.
    pub const fn new(hi: f64, lo: f64) -> Wide {
        Wide { hi, lo }
    }

    /// The two parts: the nearest f64, and the rest.
    pub const fn parts(self) -> (f64, f64) {
        (self.hi, self.lo)
    }

    /// The nearest f64.
    pub fn to_f64(self) -> f64 {
        self.hi + self.lo
    }

    /// The product with a power of two, which is exact.
    pub fn scale(self, power: f64) -> Wide {
        Wide { hi: self.hi * power, lo: self.lo * power }
    }

    /// The square root: one Newton step in double-double precision on the f64 root.
    pub fn sqrt(self) -> Wide {
        let root = self.hi.sqrt();
        if root == 0.0 {
            return Wide::ZERO;
        }
        let rest = self - two_product(root, root);
        quick_two_sum(root, rest.hi / (2.0 * root))
    }
}

impl From<f64> for Wide {
    fn from(hi: f64) -> Self {
        Wide { hi, lo: 0.0 }
    }
}

impl Add for Wide {
    type Output = Wide;
    fn add(self, other: Wide) -> Wide {
        let (high, low) = (two_sum(self.hi, other.hi), two_sum(self.lo, other.lo));
        let sum = quick_two_sum(high.hi, high.lo + low.hi);
        quick_two_sum(sum.hi, low.lo + sum.lo)
    }
}

impl Add<f64> for Wide {
    type Output = Wide;
    fn add(self, other: f64) -> Wide {
        let high = two_sum(self.hi, other);
        quick_two_sum(high.hi, high.lo + self.lo)
    }
}

impl Neg for Wide {
    type Output = Wide;
    fn neg(self) -> Wide {
        Wide { hi: -self.hi, lo: -self.lo }
    }
}

impl Sub for Wide {
    type Output = Wide;
    fn sub(self, other: Wide) -> Wide {
        self + -other
    }
}

impl Mul for Wide {
    type Output = Wide;
    fn mul(self, other: Wide) -> Wide {
        let high = two_product(self.hi, other.hi);
        quick_two_sum(high.hi, high.lo + (self.hi * other.lo + self.lo * other.hi))
    }
}

impl Div for Wide {
    type Output = Wide;
    fn div(self, other: Wide) -> Wide {
        let first = self.hi / other.hi;
        let rest = self - other * Wide::from(first);
        let second = rest.hi / other.hi;
        let third = (rest - other * Wide::from(second)).hi / other.hi;
        quick_two_sum(first, second) + third
    }
}
