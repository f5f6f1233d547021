//! Layer norm and RMS norm of a row by their mathematical definition, in [`Wide`] numbers of about 106 bits.
//!
//! They follow the formula, not the contract's order of operations. Their own rounding (a relative error below 2⁻⁹⁵ for rows of
//! up to a million elements) is negligible beside that of f32 and f64.

use super::wide::Wide;
use std::ops::Add;

fn sum(values: impl Iterator<Item = Wide>) -> Wide {
    values.fold(Wide::ZERO, Add::add)
}

/// Mean and 1/σ of a row.
#[derive(Clone, Copy, Debug)]
pub struct Stat {
    /// The mean; 0 for RMS norm.
    pub mean: Wide,
    /// 1/sqrt(variance + ε).
    pub rstd: Wide,
}

impl Stat {
    /// The statistics of a row; `centered` for layer norm, otherwise RMS norm.
    pub fn of(x: impl ExactSizeIterator<Item = f64> + Clone, centered: bool, eps: f64) -> Stat {
        let n = Wide::from(x.len() as f64);
        let mean = if centered { x.clone().fold(Wide::ZERO, Add::add) / n } else { Wide::ZERO };
        let squares = sum(x.map(|x| Wide::from(x) - mean).map(|d| d * d));
        Stat { mean, rstd: Wide::ONE / (squares / n + eps).sqrt() }
    }

    /// x̂ = (x − mean)/sqrt(variance + ε).
    pub fn x_hat(&self, x: f64) -> Wide {
        (Wide::from(x) - self.mean) * self.rstd
    }
}

/// A normalized row.
#[derive(Clone, Debug)]
pub struct Row {
    /// x̂ of every element.
    pub x_hat: Vec<Wide>,
    /// Its statistics.
    pub stat: Stat,
}

/// x̂ and the statistics of a row.
pub fn normalize(x: &[f64], centered: bool, eps: f64) -> Row {
    let stat = Stat::of(x.iter().copied(), centered, eps);
    Row { x_hat: x.iter().map(|&x| stat.x_hat(x)).collect(), stat }
}

/// y = x̂·γ + β of a row.
pub fn forward(
    x: &[f64],
    gain: impl Fn(usize) -> f64,
    bias: impl Fn(usize) -> f64,
    centered: bool,
    eps: f64,
) -> Vec<f64> {
    let row = normalize(x, centered, eps);
    let y = |(i, &x_hat): (usize, &Wide)| (x_hat * Wide::from(gain(i)) + bias(i)).to_f64();
    row.x_hat.iter().enumerate().map(y).collect()
}

/// dx of a row: (g − mean(g) − x̂·mean(g·x̂))/σ with g = dy·γ, where mean(g) counts as 0 for RMS norm.
pub fn backward(x: &[f64], dy: &[f64], gain: impl Fn(usize) -> f64, centered: bool, eps: f64) -> Vec<f64> {
    let Row { x_hat, stat } = normalize(x, centered, eps);
    let n = Wide::from(x.len() as f64);
    let g: Vec<Wide> = dy.iter().enumerate().map(|(i, &dy)| Wide::from(dy) * Wide::from(gain(i))).collect();
    let a = if centered { sum(g.iter().copied()) / n } else { Wide::ZERO };
    let b = sum(g.iter().zip(&x_hat).map(|(&g, &x_hat)| g * x_hat)) / n;
    g.iter().zip(&x_hat).map(|(&g, &x_hat)| (stat.rstd * (g - a - x_hat * b)).to_f64()).collect()
}

/// How far a correct y of a row may be from [`forward`]'s, element by element, for arithmetic of unit roundoff u (2⁻²⁴ for f32,
/// 2⁻⁵³ for f64), before it is rounded to the element type.
///
/// A canonical sum has 4 steps in a lane, 8 folds and log₂(blocks) more, so it is off by at most s = 12 + log₂(blocks)
/// roundings of the sum of magnitudes. To first order in u:
/// - each d carries one rounding of its own size. Their mean enters δ, with the roundings of that sum and of the division:
///   x̂ is off by (s + 2)·u·mean|x̂|, whatever its own size; δ removes m's own error.
/// - relative to |x̂|: the roundings of d, d − δ and the product with r (3), of the root and the quotient (2), and half of
///   those of v: its terms (1 + 2 for the two d), its sum (s), the division, δ·δ and ε (3): 5 + (s + 6)/2.
/// - γ and β: one rounding of y.
pub fn bound(x_hat: &[Wide], gain: impl Fn(usize) -> f64, y: &[f64], u: f64) -> Vec<f64> {
    let n = x_hat.len();
    let s = 12.0 + (n.div_ceil(1024) as f64).log2().ceil();
    let mean = x_hat.iter().map(|x| x.to_f64().abs()).sum::<f64>() / n as f64;
    let of = |i: usize| {
        let x_hat = x_hat[i].to_f64().abs();
        u * (gain(i).abs() * (x_hat * (5.0 + (s + 6.0) / 2.0) + mean * (s + 2.0)) + y[i].abs())
    };
    (0..n).map(of).collect()
}
