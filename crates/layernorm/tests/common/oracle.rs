//! What the mathematics gives: slow, obvious, in double-double arithmetic (a pair of f64, about 106 bits), so that its own
//! rounding (relative error below 2⁻⁹⁵ for the sizes here) is nothing beside that of f32 and f64.

use std::ops::{Add, Mul, Neg, Sub};

/// An unevaluated sum of two f64, |lo| ≤ ulp(hi)/2.
#[derive(Clone, Copy, Debug)]
pub struct Wide {
    hi: f64,
    lo: f64,
}

impl Wide {
    pub const ZERO: Wide = Wide { hi: 0.0, lo: 0.0 };

    pub fn new(x: f64) -> Wide {
        Wide { hi: x, lo: 0.0 }
    }

    pub fn value(self) -> f64 {
        self.hi + self.lo
    }

    fn quick(hi: f64, lo: f64) -> Wide {
        let sum = hi + lo;
        Wide { hi: sum, lo: lo - (sum - hi) }
    }

    /// One Newton step from the f64 quotient.
    pub fn over(self, b: Wide) -> Wide {
        let q = Wide::new(self.hi / b.hi);
        let rest = self - q * b;
        q + Wide::new(rest.value() / b.hi)
    }

    /// One Newton step from the f64 root.
    pub fn sqrt(self) -> Wide {
        if self.hi <= 0.0 {
            return Wide::new(self.hi.sqrt());
        }
        let s = Wide::new(self.hi.sqrt());
        s + Wide::new((self - s * s).value() / (2.0 * s.hi))
    }
}

impl Add for Wide {
    type Output = Wide;
    fn add(self, b: Wide) -> Wide {
        let sum = self.hi + b.hi;
        let part = sum - self.hi;
        let error = (self.hi - (sum - part)) + (b.hi - part);
        Wide::quick(sum, error + self.lo + b.lo)
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
    fn sub(self, b: Wide) -> Wide {
        self + -b
    }
}

impl Mul for Wide {
    type Output = Wide;
    fn mul(self, b: Wide) -> Wide {
        let product = self.hi * b.hi;
        let error = self.hi.mul_add(b.hi, -product);
        Wide::quick(product, error + self.hi * b.lo + self.lo * b.hi)
    }
}

fn sum(values: impl Iterator<Item = Wide>) -> Wide {
    values.fold(Wide::ZERO, Add::add)
}

/// Normalized values and 1/σ of a row.
pub struct Row {
    pub x_hat: Vec<Wide>,
    pub rstd: Wide,
    pub mean: Wide,
}

/// (x − mean)/sqrt(var + ε); not centred: x/sqrt(mean square + ε).
pub fn normalize(x: &[f64], centered: bool, eps: f64) -> Row {
    let n = Wide::new(x.len() as f64);
    let mean = if centered { sum(x.iter().map(|&x| Wide::new(x))).over(n) } else { Wide::ZERO };
    let d: Vec<Wide> = x.iter().map(|&x| Wide::new(x) - mean).collect();
    let variance = sum(d.iter().map(|&d| d * d)).over(n) + Wide::new(eps);
    let rstd = Wide::new(1.0).over(variance.sqrt());
    Row { x_hat: d.into_iter().map(|d| d * rstd).collect(), rstd, mean }
}

/// y of a row.
pub fn forward(
    x: &[f64],
    gain: impl Fn(usize) -> f64,
    bias: impl Fn(usize) -> f64,
    centered: bool,
    eps: f64,
) -> Vec<f64> {
    let row = normalize(x, centered, eps);
    let y = |(i, &x_hat): (usize, &Wide)| (x_hat * Wide::new(gain(i)) + Wide::new(bias(i))).value();
    row.x_hat.iter().enumerate().map(y).collect()
}

/// dx of a row.
pub fn backward(x: &[f64], dy: &[f64], gain: impl Fn(usize) -> f64, centered: bool, eps: f64) -> Vec<f64> {
    let row = normalize(x, centered, eps);
    let n = Wide::new(x.len() as f64);
    let g: Vec<Wide> = dy.iter().enumerate().map(|(i, &dy)| Wide::new(dy) * Wide::new(gain(i))).collect();
    let a = if centered { sum(g.iter().copied()).over(n) } else { Wide::ZERO };
    let b = sum(g.iter().zip(&row.x_hat).map(|(&g, &x_hat)| g * x_hat)).over(n);
    g.iter().zip(&row.x_hat).map(|(&g, &x_hat)| (row.rstd * (g - a - x_hat * b)).value()).collect()
}

/// The largest error in units in the last place of f32, each unit that of the larger of |y| and a tenth of the row's largest
/// |y|: the measure of the contract.
pub fn units(found: &[f32], expected: &[f64]) -> f64 {
    let tenth = expected.iter().fold(0.0f64, |max, y| max.max(y.abs())) / 10.0;
    found.iter().zip(expected).fold(0.0, |worst: f64, (&found, &expected)| {
        let error = (f64::from(found) - expected).abs();
        let size = expected.abs().max(tenth).max(f64::from(f32::MIN_POSITIVE));
        let unit = 2f64.powi(size.log2().floor() as i32 - 23);
        // A NaN must not be mistaken for a small error.
        if error.is_nan() { f64::INFINITY } else { worst.max(error / unit) }
    })
}

/// How far a correct y of a row may be from the oracle's, element by element, for arithmetic of unit roundoff u (2⁻²⁴ for f32,
/// 2⁻⁵³ for f64), before it is rounded to the element type.
///
/// A canonical sum has 4 steps in a lane, 8 folds and log₂(blocks) more, so it is off by at most s = 12 + log₂(blocks)
/// roundings of the sum of magnitudes. To first order in u:
/// - each d carries one rounding of its own size. Their mean enters δ, with the roundings of that sum and of the division:
///   x̂ is off by (s + 2)·u·mean|x̂|, whatever its own size; and m's own error is what δ takes away.
/// - relative to |x̂|: the roundings of d, d − δ and the product with r (3), of the root and the quotient (2), and half of
///   those of v: its terms (1 + 2 for the two d), its sum (s), the division, δ·δ and ε (3): 5 + (s + 6)/2.
/// - γ and β: one rounding of y.
pub fn bound(x_hat: &[Wide], gain: impl Fn(usize) -> f64, y: &[f64], u: f64) -> Vec<f64> {
    let n = x_hat.len();
    let s = 12.0 + (n.div_ceil(1024) as f64).log2().ceil();
    let mean = x_hat.iter().map(|x| x.value().abs()).sum::<f64>() / n as f64;
    let of = |i: usize| {
        let x_hat = x_hat[i].value().abs();
        u * (gain(i).abs() * (x_hat * (5.0 + (s + 6.0) / 2.0) + mean * (s + 2.0)) + y[i].abs())
    };
    (0..n).map(of).collect()
}
