//! Random orders that depend only on the seed and are the same on every machine.

pub use layernorm::parts::SplitMix64;

use std::num::NonZeroUsize;
use std::slice::Chunks;

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
