//! Random orders that depend only on the seed and are the same on every machine.

use std::num::NonZeroUsize;
use std::slice::Chunks;

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Steele, Lea and Flood's SplitMix64: 64 bits of state, integer arithmetic only.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The generator for a seed, as in the original code.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// One of many generators for a seed, for instance one per epoch.
    pub fn stream(seed: u64, stream: u64) -> Self {
        Self(mix(mix(seed.wrapping_add(GOLDEN)).wrapping_add(stream)))
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// A uniform number below `bound` (Lemire, 2019); 0 if `bound` is 0.
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

    /// The numbers below `len` in a random order.
    pub fn permutation(&mut self, len: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..len).collect();
        self.shuffle(&mut order);
        order
    }
}

fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// The indices of one epoch, in batches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batches {
    order: Vec<usize>,
    size: NonZeroUsize,
}

/// The batches of an epoch: every index below `len` once, in an order that depends on seed and epoch only, so that a
/// run can be resumed at any epoch.
pub fn batches(len: usize, size: NonZeroUsize, seed: u64, epoch: u64) -> Batches {
    Batches { order: SplitMix64::stream(seed, epoch).permutation(len), size }
}

impl Batches {
    /// The batches in order. The last one is smaller if the batch size does not divide the number of indices.
    pub fn iter(&self) -> Chunks<'_, usize> {
        self.order.chunks(self.size.get())
    }

    /// All indices in order.
    pub fn order(&self) -> &[usize] {
        &self.order
    }
}

impl<'a> IntoIterator for &'a Batches {
    type Item = &'a [usize];
    type IntoIter = Chunks<'a, usize>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
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

    #[test]
    fn an_epoch_has_every_index_once() {
        let size = NonZeroUsize::new(32).unwrap();
        let first = batches(100, size, 1, 0);
        assert_eq!(first.iter().map(<[usize]>::len).collect::<Vec<_>>(), [32, 32, 32, 4]);
        let mut sorted = first.order().to_vec();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..100));
        assert_eq!(first, batches(100, size, 1, 0));
        assert_ne!(first, batches(100, size, 1, 1));
        assert_ne!(first, batches(100, size, 2, 0));
        assert_ne!(batches(100, size, 1, 2), batches(100, size, 2, 1));
        assert_eq!(batches(0, size, 1, 0).iter().count(), 0);
    }
}
