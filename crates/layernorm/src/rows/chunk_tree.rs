//! Tree that folds the sums of chunks of rows.

use crate::element::Float;

/// Slot of the array that rows are added to; the other slots are the heights of the tree.
const CURRENT: usize = usize::BITS as usize;

/// Folds the sums of consecutive chunks as [`crate::sum::PairTree`] folds numbers: with one array of sums per height
/// of the tree. It swaps pointers instead of copying arrays.
pub(super) struct ChunkTree<A> {
    slots: [*mut A; CURRENT + 1],
    len: usize,
    count: usize,
}

impl<A: Float> ChunkTree<A> {
    pub(super) fn new(memory: *mut A, slots: usize, len: usize) -> Self {
        let mut pointers = [std::ptr::null_mut(); CURRENT + 1];
        for (i, slot) in pointers[..slots].iter_mut().enumerate() {
            *slot = memory.wrapping_add(i * len);
        }
        // The last slot is the one that rows are added to.
        pointers.swap(slots - 1, CURRENT);
        ChunkTree { slots: pointers, len, count: 0 }
    }

    /// Returns the array for the rows of the next chunk, set to zero.
    pub(super) unsafe fn start(&mut self) -> *mut A {
        let current = self.slots[CURRENT];
        // SAFETY: the slot has `len` elements.
        (0..self.len).for_each(|i| unsafe { *current.add(i) = A::ZERO });
        current
    }

    /// Completes the chunk.
    pub(super) unsafe fn push(&mut self) {
        let height = self.count.trailing_ones() as usize;
        let current = self.slots[CURRENT];
        for &left in &self.slots[..height] {
            // SAFETY: both have `len` elements.
            unsafe { add_to(current, left, self.len) };
        }
        self.slots.swap(height, CURRENT);
        self.count += 1;
    }

    /// Folds the remaining sums and writes the result to `to`.
    pub(super) unsafe fn finish(self, to: *mut A) {
        let mut taken = (0..CURRENT).filter(|height| self.count >> height & 1 == 1);
        // SAFETY: all have `len` elements; `to` may be one of them.
        unsafe {
            match taken.next() {
                None => (0..self.len).for_each(|i| *to.add(i) = A::ZERO),
                Some(lowest) => {
                    let right = self.slots[lowest];
                    taken.for_each(|height| add_to(right, self.slots[height], self.len));
                    std::ptr::copy(right, to, self.len);
                }
            }
        }
    }
}

/// Computes right = left + right, element by element.
pub(super) unsafe fn add_to<A: Float>(right: *mut A, left: *const A, len: usize) {
    // SAFETY: the caller guarantees `len` valid elements of both, which do not overlap.
    let (right, left) = unsafe { (std::slice::from_raw_parts_mut(right, len), std::slice::from_raw_parts(left, len)) };
    for (right, left) in right.iter_mut().zip(left) {
        *right = *left + *right;
    }
}
