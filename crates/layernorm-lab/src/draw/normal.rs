//! Normal random numbers that are the same on every machine.
//!
//! Karney's algorithm N ("Sampling exactly from the normal distribution", 2016) only compares uniform numbers, so it
//! needs no logarithm or exponential whose last bit could differ between machines, and it has the right tails. It is
//! exact but for the 53 bits of a uniform number.
//!
//! ```text
//! k with probability ∝ exp(−k/2), kept with probability exp(−k(k − 1)/2): together ∝ exp(−k²/2)
//! x uniform in [0, 1), kept with probability exp(−x(2k + x)/2): together ∝ exp(−(k + x)²/2)
//! ±(k + x)
//! ```
//!
//! An event of probability exp(−p) is an even length of the longest run p > u₁ > u₂ > … (von Neumann).

use crate::data::SplitMix64;

/// A standard normal number.
pub(super) fn normal(random: &mut SplitMix64) -> f64 {
    loop {
        let k = whole(random);
        if !(0..k * k.saturating_sub(1)).all(|_| half(random)) {
            continue;
        }
        let x = random.uniform();
        if (0..=k).all(|_| fraction(random, k as f64, x)) {
            let size = k as f64 + x;
            return if random.next_u64() >> 63 == 0 { size } else { -size };
        }
    }
}

/// `count` of them, rounded to f32.
pub(super) fn normals(random: &mut SplitMix64, count: usize) -> Vec<f32> {
    (0..count).map(|_| normal(random) as f32).collect()
}

/// k with probability exp(−k/2)·(1 − exp(−½)).
fn whole(random: &mut SplitMix64) -> u64 {
    let mut k = 0;
    while half(random) {
        k += 1;
    }
    k
}

/// True with probability exp(−½).
fn half(random: &mut SplitMix64) -> bool {
    let (mut last, mut even) = (0.5, true);
    loop {
        let next = random.uniform();
        if next >= last {
            return even;
        }
        (last, even) = (next, !even);
    }
}

/// True with probability exp(−x(2k + x)/(2k + 2)): a run below x of which each number is also kept with probability
/// (2k + x)/(2k + 2).
fn fraction(random: &mut SplitMix64, k: f64, x: f64) -> bool {
    let (mut last, mut even) = (x, true);
    loop {
        let next = random.uniform();
        if next >= last || random.uniform() >= (2.0 * k + x) / (2.0 * k + 2.0) {
            return even;
        }
        (last, even) = (next, !even);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_below_some_limits_are_those_of_the_normal_distribution() {
        let mut random = SplitMix64::new(1);
        let count = 200_000;
        let numbers: Vec<f64> = (0..count).map(|_| normal(&mut random)).collect();
        // Φ at these limits; the last one is in the tail that a sum of twelve uniform numbers lacks.
        for (limit, share) in [(-2.0, 0.022_750), (-0.5, 0.308_538), (0.0, 0.5), (1.0, 0.841_345), (3.5, 0.999_767)] {
            let below = numbers.iter().filter(|&&number| number < limit).count() as f64 / f64::from(count);
            // Five standard deviations of a share.
            let tolerance = 5.0 * (share * (1.0 - share) / f64::from(count)).sqrt();
            assert!((below - share).abs() < tolerance, "{limit}: {below}, not {share}");
        }
        let moment = |power: i32| numbers.iter().map(|number| number.powi(power)).sum::<f64>() / f64::from(count);
        // Five standard deviations: those of x² and x⁴ are √2 and √96.
        assert!((moment(2) - 1.0).abs() < 5.0 * (2.0 / f64::from(count)).sqrt(), "{}", moment(2));
        assert!((moment(4) - 3.0).abs() < 5.0 * (96.0 / f64::from(count)).sqrt(), "{}", moment(4));
    }

    #[test]
    fn numbers_are_the_same_everywhere() {
        let bits: Vec<u32> = normals(&mut SplitMix64::new(7), 4).iter().map(|number| number.to_bits()).collect();
        assert_eq!(bits, [3_179_876_999, 1_058_976_109, 1_071_608_856, 1_059_765_949]);
    }
}
