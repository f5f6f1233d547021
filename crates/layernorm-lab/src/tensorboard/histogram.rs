//! Histograms as TensorBoard stores them: rows of left edge, right edge and count.

/// The number of buckets that TensorBoard's own writers use.
const BUCKETS: usize = 30;

/// The histogram of the finite numbers: buckets of equal width from the smallest to the largest number, which the last
/// bucket includes. Equal numbers are in one bucket of width 1.
pub(super) fn histogram(numbers: impl IntoIterator<Item = f64>) -> Vec<[f64; 3]> {
    let numbers: Vec<f64> = numbers.into_iter().filter(|number| number.is_finite()).collect();
    let (lo, hi) = numbers.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), &x| (lo.min(x), hi.max(x)));
    let width = (hi - lo) / BUCKETS as f64;
    if numbers.is_empty() || !width.is_finite() {
        return Vec::new();
    }
    if width == 0.0 {
        return vec![[lo - 0.5, lo + 0.5, numbers.len() as f64]];
    }
    let edge = |number: usize| if number == BUCKETS { hi } else { lo + width * number as f64 };
    let mut buckets: Vec<[f64; 3]> = (0..BUCKETS).map(|number| [edge(number), edge(number + 1), 0.0]).collect();
    for x in numbers {
        buckets[(((x - lo) / width) as usize).min(BUCKETS - 1)][2] += 1.0;
    }
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finite_number_is_in_its_bucket() {
        let numbers: Vec<f64> = (0..=60).map(f64::from).chain([f64::NAN, f64::INFINITY]).collect();
        let buckets = histogram(numbers);
        assert_eq!((buckets.len(), buckets[0], buckets[29]), (30, [0.0, 2.0, 2.0], [58.0, 60.0, 3.0]));
        assert_eq!(buckets.iter().map(|bucket| bucket[2]).sum::<f64>(), 61.0);
        assert!(buckets.windows(2).all(|pair| pair[0][1] == pair[1][0]));
    }

    #[test]
    fn equal_numbers_and_none() {
        assert_eq!(histogram([1.0; 7]), [[0.5, 1.5, 7.0]]);
        assert_eq!(histogram([f64::NAN]), Vec::<[f64; 3]>::new());
        // The difference is not a finite number, or so small that a bucket has no width.
        assert_eq!(histogram([f64::MAX, f64::MIN]), Vec::<[f64; 3]>::new());
        assert_eq!(histogram([0.0, 5e-324]).iter().map(|bucket| bucket[2]).sum::<f64>(), 2.0);
    }
}
