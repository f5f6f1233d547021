//! Errors of f32 results in units in the last place: the measure of the contract.

/// The unit in the last place of an f32 of this magnitude: the distance to the next larger one.
pub fn unit(size: f64) -> f64 {
    let exponent = ((size.to_bits() >> 52 & 0x7FF) as i32 - 1023).max(-126);
    2f64.powi(exponent - 23)
}

/// The largest error of a row, each in the unit of the larger of |y| and a tenth of the row's largest |y|. Infinite if the row
/// is completely wrong: not finite, all zero where it should not be, or nonzero where it should be all zero.
pub fn units(y: &[f32], reference: &[f64]) -> f64 {
    let largest = reference.iter().fold(0.0, |max: f64, y| max.max(y.abs()));
    let zero = y.iter().all(|&y| y == 0.0);
    if y.iter().any(|y| !y.is_finite()) || zero != (largest == 0.0) {
        return f64::INFINITY;
    }
    let errors = y.iter().zip(reference).map(|(&y, &r)| (f64::from(y) - r).abs() / unit(r.abs().max(largest / 10.0)));
    // A NaN must not be mistaken for a small error.
    errors.fold(0.0, |max, error| if error.is_nan() { f64::INFINITY } else { max.max(error) })
}
