//! Numbers of 106 bits, each the unevaluated sum of two f64 ("double-double": Dekker 1971, Knuth's TAOCP 4.2.2).
//!
//! Every operation has a relative error below 2⁻¹⁰⁰. A sum of f32, whose significands have 24 bits, is exact as long as its terms
//! are within a factor of 2⁶⁴ of each other and there are at most 2¹⁸ of them.

use std::ops::{Add, Div, Mul, Sub};

/// hi + lo, with |lo| at most half a unit in the last place of hi.
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
    /// The nearest f64.
    pub fn to_f64(self) -> f64 {
        self.hi + self.lo
    }

    /// The square root: one Newton step in double-double precision on the f64 root.
    pub fn sqrt(self) -> Wide {
        let root = self.hi.sqrt();
        if root == 0.0 {
            return Wide::default();
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

impl Sub for Wide {
    type Output = Wide;
    fn sub(self, other: Wide) -> Wide {
        self + Wide { hi: -other.hi, lo: -other.lo }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// |a − b| as a multiple of 2⁻¹⁰⁰ of b.
    fn error(a: Wide, b: Wide) -> f64 {
        ((a - b).to_f64() / b.to_f64()).abs() * 2f64.powi(100)
    }

    #[test]
    fn operations_undo_each_other() {
        let third = Wide::from(1.0) / Wide::from(3.0);
        assert!(error(third + third + third, Wide::from(1.0)) < 1.0);
        for x in [2.0, 3.0, 1e-5, 7.25e76] {
            let x = Wide::from(x) + Wide::from(x) * third;
            assert!(error(x.sqrt() * x.sqrt(), x) < 1.0);
            assert!(error(x / third * third, x) < 1.0);
        }
        assert_eq!(Wide::default().sqrt().to_f64(), 0.0);
    }

    #[test]
    fn sums_keep_what_f64_loses() {
        // From 10²⁰ (67 bits) down to 2⁻³⁰: 97 bits in all.
        let sum = Wide::from(1e20) + 1.0 + 2f64.powi(-30) - Wide::from(1e20);
        assert_eq!(sum.to_f64(), 1.0 + 2f64.powi(-30));
    }
}
