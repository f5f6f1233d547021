//! Canonical sums: their order depends only on the number of elements (or rows).
//!
//! Along a row, element i belongs to block ⌊i/1024⌋ and, within it, to lane i mod 256. A lane adds its four elements
//! in order, the lanes of a block are folded high bit first ([`crate::kernels::reduce`]), and the blocks are folded
//! as a balanced tree of adjacent pairs, padded with zeros to a power of two: [`PairTree`].
//!
//! Down the rows, 64 rows form a chunk and are added in order; the chunks are folded as the same kind of tree.

use crate::element::Float;

/// Elements per block of a row.
pub(crate) const BLOCK: usize = 1024;
/// Lanes per block.
pub(crate) const LANES: usize = 256;
/// Rows per chunk, for sums down the rows.
pub(crate) const CHUNK: usize = 64;

/// Folds a sequence of numbers as a balanced tree of adjacent pairs. A sum that waits for its right neighbour is
/// stored at its height in the tree; the bits of `count` tell which heights are occupied. Sums start at +0.0 and so
/// are never −0.0; therefore the padding need not be added.
pub(crate) struct PairTree<A> {
    waiting: [A; usize::BITS as usize],
    count: usize,
}

impl<A: Float> PairTree<A> {
    #[inline(always)]
    pub(crate) const fn new() -> Self {
        PairTree { waiting: [A::ZERO; usize::BITS as usize], count: 0 }
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, mut sum: A) {
        let height = self.count.trailing_ones() as usize;
        for &left in &self.waiting[..height] {
            sum = left + sum;
        }
        self.waiting[height] = sum;
        self.count += 1;
    }

    #[inline(always)]
    pub(crate) fn finish(self) -> A {
        let mut taken = (0..usize::BITS as usize).filter(|height| self.count >> height & 1 == 1);
        let Some(lowest) = taken.next() else { return A::ZERO };
        taken.fold(self.waiting[lowest], |right, height| self.waiting[height] + right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Follows the rule literally: pads with zeros to a power of two, then adds adjacent pairs until one sum is left.
    fn padded(mut sums: Vec<f32>) -> f32 {
        sums.resize(sums.len().next_power_of_two(), 0.0);
        while sums.len() > 1 {
            sums = sums.chunks(2).map(|pair| pair[0] + pair[1]).collect();
        }
        sums[0]
    }

    #[test]
    fn tree_is_that_of_padded_adjacent_pairs() {
        for n in 1..300 {
            let sums: Vec<f32> = (0..n).map(|i| 1.0 / (i as f32 + 0.3) * if i % 3 == 0 { -7.0 } else { 1.0 }).collect();
            let mut tree = PairTree::new();
            sums.iter().for_each(|&sum| tree.push(sum));
            assert_eq!(tree.finish().to_bits(), padded(sums).to_bits(), "{n}");
        }
        assert_eq!(PairTree::<f64>::new().finish(), 0.0);
    }
}
