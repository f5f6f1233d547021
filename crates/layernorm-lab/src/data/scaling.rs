//! Converts grey values to network inputs.

use super::digits::Digits;

/// The input value for each of the 256 grey values.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaling {
    table: [f32; 256],
}

impl Scaling {
    /// 0 to 1: `p / 255`, rounded once.
    pub fn unit() -> Self {
        Self { table: std::array::from_fn(|pixel| pixel as f32 / 255.0) }
    }

    /// Mean 0 and variance 1 over all pixels of these images: `(p − μ) / σ`; without the division if all are equal.
    ///
    /// Sums are exact integers, so the table is the same on every machine. Compute it from the training images and use
    /// it for the others too.
    pub fn standard(digits: &Digits) -> Self {
        let (mean, deviation) = moments(digits.images());
        let divisor = if deviation > 0.0 { deviation } else { 1.0 };
        Self { table: std::array::from_fn(|pixel| ((pixel as f64 - mean) / divisor) as f32) }
    }

    /// The input value for this grey value.
    pub fn of(&self, pixel: u8) -> f32 {
        self.table[usize::from(pixel)]
    }

    /// Appends the input values for these grey values.
    pub fn extend(&self, out: &mut Vec<f32>, pixels: &[u8]) {
        out.extend(pixels.iter().map(|&pixel| self.of(pixel)));
    }
}

/// Mean and standard deviation of 1 to 2⁴⁰ bytes.
fn moments(bytes: &[u8]) -> (f64, f64) {
    let mut counts = [0u64; 256];
    bytes.iter().for_each(|&byte| counts[usize::from(byte)] += 1);
    let sum_of = |power: u32| (0u64..).zip(counts).map(|(value, count)| count * value.pow(power)).sum::<u64>();
    let (count, sum, squares) = (bytes.len() as u64, sum_of(1), sum_of(2));
    // n·Σp² − (Σp)² in integers: no cancellation.
    let spread = u128::from(count) * u128::from(squares) - u128::from(sum).pow(2);
    (sum as f64 / count as f64, (spread as f64).sqrt() / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_is_zero_to_one() {
        let unit = Scaling::unit();
        assert_eq!((unit.of(0), unit.of(51), unit.of(255)), (0.0, 0.2, 1.0));
    }

    #[test]
    fn standard_has_mean_zero_and_variance_one() {
        let digits = Digits::new(2, 2, vec![0, 10, 20, 250, 3, 3, 4, 255], vec![1, 2]).unwrap();
        let mut values = Vec::new();
        Scaling::standard(&digits).extend(&mut values, digits.images());
        let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / 8.0;
        let variance = values.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / 8.0;
        // Each value is rounded once to 24 bits and none is over 2: errors of at most 2⁻²³ each, 2⁻²¹ in a square.
        assert!(mean.abs() < 2f64.powi(-23), "{mean}");
        assert!((variance - 1.0).abs() < 2f64.powi(-21), "{variance}");
    }

    #[test]
    fn equal_pixels_become_zero() {
        let digits = Digits::new(1, 2, vec![7, 7], vec![0]).unwrap();
        let scaling = Scaling::standard(&digits);
        assert_eq!((scaling.of(7), scaling.of(9)), (0.0, 2.0));
    }
}
