//! Few rows: one thread per lane of the canonical sum, so that even a single row occupies many threads.

use super::{BLOCK, LANES, Schedule, Turns};
use crate::device::Properties;

/// Rows of 1024 elements per multiprocessor up to which many threads per row are faster.
const MAX_ROWS: usize = 4;
/// Maximum row length. Longer rows have more warps anyway.
const MAX_FORWARD: usize = 1024;
const MAX_BACKWARD: usize = 4096;

/// One thread per lane: a thread block per row, with 256 threads per 1024 elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadPerLane {
    /// Blocks of the canonical sum per row.
    pub sum_blocks: usize,
}

impl ThreadPerLane {
    /// Layout of a forward pass; `None` if there are too many rows, or if they are too short or too long.
    pub fn forward(rows: usize, n: usize, properties: &Properties) -> Option<Self> {
        ThreadPerLane::new(rows, n, MAX_FORWARD, properties)
    }

    /// Layout of a backward pass, likewise.
    pub fn backward(rows: usize, n: usize, properties: &Properties) -> Option<Self> {
        ThreadPerLane::new(rows, n, MAX_BACKWARD, properties)
    }

    fn new(rows: usize, n: usize, longest: usize, properties: &Properties) -> Option<Self> {
        let sum_blocks = n.div_ceil(BLOCK);
        let few = rows * sum_blocks <= MAX_ROWS * properties.multiprocessors as usize;
        // Shorter rows would leave most threads idle.
        let fits = n > LANES && n <= longest;
        (few && fits).then_some(ThreadPerLane { sum_blocks })
    }

    /// Threads per thread block.
    pub fn threads(&self) -> usize {
        LANES * self.sum_blocks
    }

    /// Whether every thread has all of its elements in a row of n.
    pub(crate) fn is_full(&self, n: usize) -> bool {
        n == self.sum_blocks * BLOCK
    }

    pub(crate) fn schedule(&self) -> Schedule {
        Schedule {
            threads: self.threads(),
            teams: 1,
            team_blocks: 1,
            min_blocks: 1,
            overlaps: true,
            turns: Turns::OneLine,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::properties;

    /// Few rows of a few hundred to a few thousand elements.
    #[test]
    fn rows_for_many_threads() {
        let device = properties(90);
        let forward = |rows, n| ThreadPerLane::forward(rows, n, &device).map(|shape| shape.threads());
        let backward = |rows, n| ThreadPerLane::backward(rows, n, &device).map(|shape| shape.threads());
        assert_eq!(forward(64, 1024), Some(256));
        assert_eq!(forward(64, 1025), None);
        assert_eq!(backward(1, 4096), Some(1024));
        assert_eq!(backward(1, 4097), None);
        assert_eq!(forward(64, 256), None);
        assert_eq!(forward(1 << 20, 1024), None);
    }
}
