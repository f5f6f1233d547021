//! Random numbers for data, tests and masks. They use integer arithmetic only, so they depend on the seed and not on
//! the machine.

/// SplitMix64 (Steele, Lea and Flood, 2014): a generator with 64 bits of state.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The odd number closest to 2⁶⁴ divided by the golden ratio: the step of the state from number to number.
    pub const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

    /// Returns the generator for a seed, as in the original code.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns one of many generators for a seed, for instance one per epoch.
    pub fn stream(seed: u64, stream: u64) -> Self {
        Self(Self::mix(Self::mix(seed.wrapping_add(Self::GOLDEN)).wrapping_add(stream)))
    }

    /// Applies the generator's finalizer: a bijection on 64 bits.
    #[inline]
    pub fn mix(mut bits: u64) -> u64 {
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Returns the next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(Self::GOLDEN);
        Self::mix(self.0)
    }

    /// Returns a uniform number in 0..1, with 53 bits.
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a uniform number below `bound` (Lemire, 2019); 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // This many of the 2⁶⁴ values are rejected, so that all results are equally likely.
        let surplus = bound.wrapping_neg().checked_rem(bound).unwrap_or(0);
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            if product as u64 >= surplus {
                return (product >> 64) as u64;
            }
        }
    }

    /// Shuffles the items (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }

    /// Returns the numbers below `len` in a random order.
    pub fn permutation(&mut self, len: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..len).collect();
        self.shuffle(&mut order);
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_the_published_numbers() {
        let mut random = SplitMix64::new(1234567);
        let expected = [6457827717110365317u64, 3203168211198807973, 9817491932198370423, 4593380528125082431];
        assert_eq!(expected.map(|_| random.next_u64()), expected);
    }

    #[test]
    fn orders_are_pinned() {
        assert_eq!(SplitMix64::new(0).permutation(10), [4, 9, 2, 5, 1, 7, 6, 0, 3, 8]);
        assert_eq!(SplitMix64::new(0).below(0), 0);
        assert_eq!(SplitMix64::new(0).below(1), 0);
    }

    #[test]
    fn below_is_even() {
        let mut random = SplitMix64::new(7);
        let mut counts = [0u32; 6];
        (0..60_000).for_each(|_| counts[random.below(6) as usize] += 1);
        // Six standard deviations of a binomial with n = 60,000 and p = 1/6: 6·√(60,000·5/36) = 548.
        assert!(counts.iter().all(|&count| count.abs_diff(10_000) < 548), "{counts:?}");
    }
}
