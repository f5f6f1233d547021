//! A slow, precise layer norm as the reference for f32 results, and the unit for errors.
//!
//! It uses f64 with compensated sums and computes the mean twice. For f32 input its error is about 10⁻¹⁵ of the row's
//! largest |y|, which is 10⁻⁸ of a unit in the last place of f32.

/// x̂ = (x − mean)/sqrt(variance + ε) of a row of f32.
pub(crate) fn normalized(x: &[f32], eps: f64) -> Vec<f64> {
    let count = x.len() as f64;
    let mean = sum(x.iter().map(|&x| f64::from(x))) / count;
    let rest = sum(x.iter().map(|&x| f64::from(x) - mean)) / count;
    let d = |x: f32| (f64::from(x) - mean) - rest;
    let variance = sum(x.iter().map(|&x| d(x) * d(x))) / count;
    let sigma = (variance + eps).sqrt();
    x.iter().map(|&x| d(x) / sigma).collect()
}

/// Compensated sum (Neumaier, 1974).
fn sum(terms: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut rest) = (0.0f64, 0.0);
    for term in terms {
        let next = sum + term;
        rest += if sum.abs() >= term.abs() { (sum - next) + term } else { (term - next) + sum };
        sum = next;
    }
    sum + rest
}

/// The largest error of a row, in units in the last place of the larger of |y| and a tenth of the row's largest |y|;
/// infinite if the row is completely wrong: not finite, all zero where it should not be, or nonzero where it should be
/// zero.
pub(crate) fn units(y: &[f32], reference: &[f64]) -> f64 {
    let largest = reference.iter().fold(0.0, |max: f64, y| max.max(y.abs()));
    let zero = y.iter().all(|&y| y == 0.0);
    if y.iter().any(|y| !y.is_finite()) || zero != (largest == 0.0) {
        return f64::INFINITY;
    }
    if zero {
        return 0.0;
    }
    let errors = y.iter().zip(reference).map(|(&y, &r)| (f64::from(y) - r).abs() / unit(r.abs().max(largest / 10.0)));
    errors.fold(0.0, f64::max)
}

/// The distance from an f32 of this size to the next larger one.
fn unit(size: f64) -> f64 {
    let size = size as f32;
    f64::from(f32::from_bits(size.to_bits() + 1)) - f64::from(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_can_be_done_by_hand() {
        let y = normalized(&[10_000.0, 10_001.0, 10_002.0], 0.0);
        assert!((y[2] - 1.5f64.sqrt()).abs() < 1e-15 && y[1] == 0.0 && y[0] == -y[2]);
        assert!(normalized(&[0.1; 1000], 1e-5).iter().all(|&y| y == 0.0));
        assert_eq!(normalized(&[3e38, -3e38], 1e-5), [1.0, -1.0]);
    }

    #[test]
    fn units_are_those_of_the_last_place() {
        let next = |x: f32, n: u32| f32::from_bits(x.to_bits() + n);
        assert_eq!(units(&[next(1.5, 3), -1.0], &[1.5, -1.0]), 3.0);
        assert_eq!(units(&[1.5, 2f32.powi(-26)], &[1.5, 0.0]), 1.0);
        assert_eq!(units(&[0.0, -0.0], &[0.0, 0.0]), 0.0);
        for (y, reference) in [([0.0, 0.0], [1.0, -1.0]), ([0.0, 1e-20], [0.0, 0.0]), ([0.0, f32::NAN], [1.0, -1.0])] {
            assert_eq!(units(&y, &reference), f64::INFINITY);
        }
    }
}
