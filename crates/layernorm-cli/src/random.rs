//! Seeded random numbers, the same on every machine: no library function is used whose last bit could differ.

use layernorm::parts::SplitMix64;
use layernorm::{Element, Float};

/// A generator of normal numbers.
#[derive(Debug)]
pub struct Random(SplitMix64);

impl Random {
    /// A generator with this seed.
    pub fn new(seed: u64) -> Self {
        Random(SplitMix64::new(seed))
    }

    /// Uniform in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        self.0.uniform()
    }

    /// Mean 0, variance 1, normal except in the far tails: a sum of twelve uniform numbers, each of variance 1/12.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }

    /// `n` elements: `f` of normal numbers, rounded to the type.
    pub fn normals<T: Element>(&mut self, n: usize, f: impl Fn(f64) -> f64) -> Vec<T> {
        (0..n).map(|_| T::narrow(T::Acc::from_f64(f(self.normal())))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_near_normal_and_repeat() {
        let numbers: Vec<f64> = Random::new(1).normals(10_000, |z| z);
        let mean = numbers.iter().sum::<f64>() / 1e4;
        let variance = numbers.iter().map(|z| (z - mean) * (z - mean)).sum::<f64>() / 1e4;
        // Four standard deviations of each: 1/√10⁴ and √(2/10⁴).
        assert!(mean.abs() < 0.04 && (variance - 1.0).abs() < 0.06, "{mean} {variance}");
        assert_eq!(numbers, Random::new(1).normals::<f64>(10_000, |z| z));
    }
}
