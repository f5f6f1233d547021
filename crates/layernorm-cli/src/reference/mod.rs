//! A slow and precise normalization to check results against, and the unit of errors.
//!
//! It follows the formula, not the contract's order of operations. Sums, division and square root use [`Wide`] numbers of 106
//! bits; the result is rounded to f64 at the end. For f32 inputs the error of the reference is about 2⁻⁵³ of |y|, which is
//! 2⁻²⁹ of a unit in the last place of f32: far below the last digit of any table here.

mod cell;
mod units;
mod wide;

pub use cell::Loop;
pub use units::{Distance, distance};
pub use wide::Wide;

use layernorm::{Element, Float};

/// Mean and 1/σ of a row.
#[derive(Clone, Copy, Debug)]
pub struct Stat {
    mean: Wide,
    rstd: Wide,
}

impl Stat {
    /// The statistics of a row. `eps` is first rounded to the arithmetic type, as in the library.
    pub fn of<T: Element>(x: &[T], centered: bool, eps: f64) -> Stat {
        let count = Wide::from(x.len() as f64);
        let eps = T::Acc::from_f64(eps).to_f64();
        let sum = x.iter().fold(Wide::default(), |sum, x| sum + x.widen().to_f64());
        let mean = if centered { sum / count } else { Wide::default() };
        let squares = x.iter().fold(Wide::default(), |sum, x| {
            let d = Wide::from(x.widen().to_f64()) - mean;
            sum + d * d
        });
        let sigma = (squares / count + eps).sqrt();
        Stat { mean, rstd: Wide::from(1.0) / sigma }
    }

    /// x̂ = (x − mean)/σ.
    pub fn x_hat<T: Element>(&self, x: T) -> f64 {
        ((Wide::from(x.widen().to_f64()) - self.mean) * self.rstd).to_f64()
    }

    /// 1/σ.
    pub fn rstd(&self) -> f64 {
        self.rstd.to_f64()
    }
}

/// x̂ of a row.
pub fn normalized<T: Element>(x: &[T], centered: bool, eps: f64) -> Vec<f64> {
    let stat = Stat::of(x, centered, eps);
    x.iter().map(|&x| stat.x_hat(x)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_computed_by_hand() {
        // Mean 10⁴ + 1, deviations −1, 0, 1, variance 2/3.
        let y = normalized(&[10_000f32, 10_001.0, 10_002.0], true, 0.0);
        assert!((y[2] - 1.5f64.sqrt()).abs() < 1e-15 && y[1] == 0.0 && y[0] == -y[2]);
        assert!(normalized(&[0.1f32; 1000], true, 1e-5).iter().all(|&y| y == 0.0));
        let huge = normalized(&[3e38f32, -3e38], true, 1e-5);
        assert_eq!(huge, [1.0, -1.0]);
        assert_eq!(normalized(&[3f32, -3.0], false, 0.0), [1.0, -1.0]);
    }
}
