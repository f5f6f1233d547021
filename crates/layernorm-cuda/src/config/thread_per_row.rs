//! Many short rows: one thread per row.

use super::{Schedule, Turns};
use crate::device::Properties;
use crate::types::Type;

/// Minimum rows per thread for persistent blocks to pay off.
const MIN_TURNS: usize = 4;

/// One thread per row, for contiguous rows of 64, 128 or 256 bytes. Warps copy tiles of rows into shared memory, and
/// persistent blocks loop over the tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadPerRow {
    /// Vectors of 16 bytes per row.
    pub vectors: usize,
    /// Rows per thread that are buffered in shared memory.
    pub buffered_rows: usize,
    /// Threads per block.
    pub threads: usize,
    /// Minimum resident blocks per multiprocessor. This limits the registers per thread.
    pub min_blocks: usize,
    /// How many waves of resident blocks are launched if there are enough rows.
    pub waves: usize,
}

impl ThreadPerRow {
    /// With the given buffer and blocks, in one wave; `None` if no kernel exists for rows of n elements.
    pub fn new(element: Type, n: usize, buffered_rows: usize, threads: usize, min_blocks: usize) -> Option<Self> {
        let bytes = n * element.bytes();
        let fits = element != Type::F64 && [64, 128, 256].contains(&bytes);
        fits.then_some(ThreadPerRow { vectors: bytes / 16, buffered_rows, threads, min_blocks, waves: 1 })
    }

    /// The fastest buffer and blocks, in one wave; `None` if no kernel exists. Three blocks per multiprocessor leave
    /// enough registers; two tiles of rows per warp fit in shared memory.
    pub fn supported(element: Type, n: usize, properties: &Properties) -> Option<Self> {
        ThreadPerRow::new(element, n, 2, 128, 3).filter(|_| properties.capability >= 90)
    }

    /// Layout of a forward pass, if there are enough rows.
    pub fn forward(element: Type, rows: usize, n: usize, properties: &Properties) -> Option<Self> {
        let shape = ThreadPerRow::supported(element, n, properties)?;
        let turns = rows / (shape.threads * shape.min_blocks * properties.multiprocessors as usize);
        // The lengths that were faster this way on an H200; f16 has not been measured.
        let longest = match element {
            Type::Bf16 => 128,
            Type::F32 => 32,
            _ => 0,
        };
        (n <= longest && turns >= MIN_TURNS).then_some(ThreadPerRow { waves: 4, ..shape })
    }

    /// Shared memory of the buffered rows in bytes.
    pub fn buffer_bytes(&self) -> usize {
        self.buffered_rows * self.vectors * 16 * self.threads
    }

    pub(crate) fn schedule(&self) -> Schedule {
        let ThreadPerRow { threads, min_blocks, waves, .. } = *self;
        let turns = Turns::Persistent { waves, clusters: false };
        Schedule { threads, teams: threads, team_blocks: 1, min_blocks, overlaps: false, turns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::properties;

    /// Used only for rows of 2ᵏ whole vectors, and only if there are enough rows to give every multiprocessor several
    /// tiles.
    #[test]
    fn a_thread_a_row() {
        let (device, many) = (properties(90), 1 << 20);
        for element in Type::ALL {
            for n in 1..=300 {
                let bytes = n * element.bytes();
                let wanted = match element {
                    Type::F32 => [16, 32].contains(&n),
                    Type::Bf16 => [32, 64, 128].contains(&n),
                    _ => false,
                };
                let found = ThreadPerRow::forward(element, many, n, &device);
                assert_eq!(found.is_some(), wanted, "{element:?} N={n}");
                if let Some(found) = found {
                    assert_eq!(found.vectors * 16, bytes);
                    // Besides its rows, a block has at most 4 KiB; the system reserves another 1 KiB.
                    let block = found.buffer_bytes() + (5 << 10);
                    assert!(found.min_blocks * block <= device.shared_per_multiprocessor, "{found:?}");
                }
                let few = ThreadPerRow::forward(element, 100_000, n, &device);
                assert_eq!(few, None, "{element:?} N={n}: few rows");
                let old = ThreadPerRow::forward(element, many, n, &properties(80));
                assert_eq!(old, None, "{element:?} N={n}: no bulk copies");
            }
        }
    }
}
