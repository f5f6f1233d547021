//! The laboratory's slow and precise norms for rows of any type, and the errors against them.
//!
//! For f32 inputs the error of the reference, rounded to f64, is about 2⁻⁵³ of |y|, which is 2⁻²⁹ of a unit in the last place of
//! f32: far below the last digit of any table here.

mod units;

pub use units::{Distance, distance};

use layernorm::{Element, Float};
use layernorm_lab::reference::norm::Stat;

/// The statistics of a row. `eps` is first rounded to the arithmetic type, as in the library.
pub fn stat<T: Element>(x: &[T], centered: bool, eps: f64) -> Stat {
    Stat::of(x.iter().map(|x| x.widen().to_f64()), centered, T::Acc::from_f64(eps).to_f64())
}

/// x̂ of a row.
pub fn normalized<T: Element>(x: &[T], centered: bool, eps: f64) -> Vec<f64> {
    let stat = stat(x, centered, eps);
    x.iter().map(|x| stat.x_hat(x.widen().to_f64()).to_f64()).collect()
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
