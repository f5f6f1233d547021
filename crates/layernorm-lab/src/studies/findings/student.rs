//! Student's t interval of a mean, and the probability of such a t by chance.

use std::f64::consts::FRAC_2_PI;

/// 97.5 % quantiles of Student's t for 1 to 30 degrees of freedom, rounded to four decimals.
const TABLE: [f64; 30] = [
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281, 2.2010, 2.1788, 2.1604, 2.1448,
    2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860, 2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484,
    2.0452, 2.0423,
];

/// The 97.5 % quantile of the normal distribution.
const NORMAL: f64 = 1.959_963_984_540_054;

/// The 97.5 % quantile of Student's t, to within 5·10⁻⁵. Above the table it is Fisher's expansion in 1/ν; the first
/// omitted term is below 10⁻⁵.
///
/// ```text
/// z + (z³ + z)/4ν + (5z⁵ + 16z³ + 3z)/96ν² + (3z⁷ + 19z⁵ + 17z³ − 15z)/384ν³
/// ```
pub(crate) fn quantile(freedom: usize) -> f64 {
    if let Some(&value) = freedom.checked_sub(1).and_then(|place| TABLE.get(place)) {
        return value;
    }
    let (z, v) = (NORMAL, freedom as f64);
    let [z3, z5, z7] = [3, 5, 7].map(|power| z.powi(power));
    z + (z3 + z) / (4.0 * v)
        + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * v * v)
        + (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * z) / (384.0 * v * v * v)
}

/// Half the width of the 95 % interval of a mean of `count` values with this standard deviation; infinite for fewer
/// than two values.
pub(crate) fn half_width(deviation: f64, count: usize) -> f64 {
    match count {
        0 | 1 => f64::INFINITY,
        _ => quantile(count - 1) * deviation / (count as f64).sqrt(),
    }
}

/// The probability that |t| is at least this large if there is no effect.
///
/// ```text
/// θ = atan(|t|/√ν)
/// p = 1 − (2/π)·(θ + sin θ·cos θ·(1 + 2/3·cos² θ + (2·4)/(3·5)·cos⁴ θ + …))    ν odd; without the sum for ν = 1
/// p = 1 − sin θ·(1 + 1/2·cos² θ + (1·3)/(2·4)·cos⁴ θ + …)                       ν even
/// ```
///
/// Each sum ends with the power ν − 3 or ν − 2.
pub(crate) fn two_sided(t: f64, freedom: usize) -> f64 {
    let angle = (t.abs() / (freedom as f64).sqrt()).atan();
    let (sin, cos) = angle.sin_cos();
    let odd = freedom % 2 == 1;
    let first = if odd { 3 } else { 2 };
    let (mut term, mut sum) = (1.0, 1.0);
    for power in (first..freedom.saturating_sub(1)).step_by(2) {
        let power = power as f64;
        term *= (power - 1.0) / power * cos * cos;
        sum += term;
    }
    let within = match (odd, freedom) {
        (true, 1) => angle * FRAC_2_PI,
        (true, _) => (angle + sin * cos * sum) * FRAC_2_PI,
        (false, _) => sin * sum,
    };
    (1.0 - within).max(0.0)
}

/// The standard deviation with divisor n − 1; 0 for fewer than two values.
pub(crate) fn deviation(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    if values.len() < 2 { 0.0 } else { (squares / (count - 1.0)).sqrt() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NIST/SEMATECH e-Handbook of Statistical Methods, table 1.3.6.7.2, column 0.975.
    #[test]
    fn quantiles_are_those_of_the_published_table() {
        let published = [
            (1, 12.706),
            (2, 4.303),
            (3, 3.182),
            (4, 2.776),
            (5, 2.571),
            (9, 2.262),
            (10, 2.228),
            (20, 2.086),
            (29, 2.045),
            (30, 2.042),
            (31, 2.040),
            (32, 2.037),
            (40, 2.021),
            (50, 2.009),
            (60, 2.000),
            (80, 1.990),
            (100, 1.984),
        ];
        for (freedom, value) in published {
            assert!((quantile(freedom) - value).abs() < 5.5e-4, "{freedom}: {}", quantile(freedom));
        }
        assert!((quantile(1_000_000) - NORMAL).abs() < 1e-5);
        assert!((1..200).all(|freedom| quantile(freedom + 1) < quantile(freedom)), "table and expansion fit together");
    }

    /// At the quantiles of the table, both tails together have 5 %; and a value of R's `2 * pt(-3.5, 4)`.
    #[test]
    fn tails_fit_the_quantiles() {
        for freedom in 1..=60 {
            let p = two_sided(quantile(freedom), freedom);
            assert!((p - 0.05).abs() < 2e-5, "{freedom}: {p}");
        }
        assert!((two_sided(-3.5, 4) - 0.024_896).abs() < 1e-5, "{}", two_sided(-3.5, 4));
        assert_eq!([two_sided(0.0, 4), two_sided(f64::INFINITY, 4)], [1.0, 0.0]);
    }

    #[test]
    fn the_interval_of_a_mean() {
        // Mean 3, deviation √2.5, t = 2.7764: 3 ± 1.9632.
        let values = [1.0, 2.0, 3.0, 4.0, 5.0];
        assert!((deviation(&values) - 2.5f64.sqrt()).abs() < 1e-15);
        assert!((half_width(deviation(&values), 5) - 1.9632).abs() < 1e-4);
        assert_eq!(half_width(deviation(&[7.0; 4]), 4), 0.0);
        assert_eq!((half_width(1.0, 1), half_width(1.0, 0)), (f64::INFINITY, f64::INFINITY));
        assert_eq!((deviation(&[]), deviation(&[3.0])), (0.0, 0.0));
    }
}
