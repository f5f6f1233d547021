//! Few rows: many threads a row, and the sums for γ and β in one launch beside dx. `bench/gpu/NOTES.md` has the measurements.

use super::{BLOCK, CHUNK, Geometry};
use crate::device::Properties;
use crate::types::Type;

/// Lanes of the canonical sum.
const LANES: usize = 256;
/// Threads of a multiprocessor that rows of this kind share.
const THREADS: usize = 2048;

/// A thread a lane of the canonical sum: for rows that are few, and neither so short that most threads have nothing nor longer
/// than a block of threads holds.
pub fn lanes(rows: usize, n: usize, properties: &Properties) -> Option<Geometry> {
    let blocks = n.div_ceil(BLOCK);
    let threads = LANES * blocks;
    let at_once = properties.multiprocessors as usize * (THREADS / threads.max(1)).max(1);
    let few = n > LANES && threads <= 1024 && rows <= at_once;
    few.then_some(Geometry { warps: threads / 32, threads, lanes: true, ..Geometry::NONE })
}

/// How the sums down the rows are spread over warps: each has a tile of columns and an aligned power of two of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Down {
    /// Columns of a thread.
    pub wide: usize,
    /// Warps of a block, each with its own chunks.
    pub high: usize,
    /// Blocks of a cluster, likewise.
    pub cluster: usize,
    /// Chunks of a warp.
    pub each: usize,
}

/// Warps of a block.
const MOST_HIGH: usize = 8;
/// Blocks of a cluster that every device with clusters has.
const MOST_CLUSTER: usize = 8;
/// Chunks of a warp; there is shared memory for the sums of so many on their way.
const MOST_EACH: usize = 16;
/// Warps a multiprocessor for which columns are taken one by one; with more, several at a time.
const WARPS: usize = 4;

/// The sums down so many rows, which can be read `whole` elements at a time; `None` if there are too many.
pub fn down(element: Type, rows: usize, n: usize, whole: usize, properties: &Properties) -> Option<Down> {
    let chunks = rows.div_ceil(CHUNK);
    let padded = chunks.next_power_of_two();
    let cluster = padded.min(if properties.clusters { MOST_CLUSTER } else { 1 });
    let high = (padded / cluster).min(MOST_HIGH);
    let each = padded / cluster / high;
    let busy = |wide: usize| n.div_ceil(32 * wide) * chunks >= WARPS * properties.multiprocessors as usize;
    let mut wide = 1;
    while 2 * wide <= whole.min(element.per_vector()) && busy(2 * wide) {
        wide *= 2;
    }
    (each <= MOST_EACH).then_some(Down { wide, high, cluster, each })
}

impl Down {
    /// Threads of a block.
    pub(crate) fn threads(&self) -> usize {
        32 * self.high
    }

    /// Columns of a block.
    pub(crate) fn tile(&self) -> usize {
        32 * self.wide
    }

    /// Sums of powers of two of chunks that a warp has on their way.
    pub(crate) fn levels(&self) -> usize {
        self.each.ilog2().max(1) as usize
    }

    /// Bytes of shared memory of a block: `Shared` in `down.cu`.
    pub(crate) fn shared(&self, element: Type) -> usize {
        let sum = element.accumulator_bytes();
        let sums = 2 * self.tile() * (self.levels() * self.high + self.high + self.cluster) + self.threads();
        self.high * CHUNK * element.line_bytes() + sums * sum + 2 * self.tile() * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::properties;

    /// The warps have all chunks, and no level of the tree is there twice.
    #[test]
    fn chunks_are_a_tree() {
        for capability in [80, 90] {
            let device = properties(capability);
            for rows in [1, 63, 64, 65, 128, 129, 4096, 5000, 8192, 65536] {
                for (element, n) in [(Type::F32, 64), (Type::Bf16, 1024), (Type::F64, 777), (Type::F16, 262_144)] {
                    for whole in [1, 2, 8] {
                        let Some(found) = down(element, rows, n, whole, &device) else {
                            assert!(rows.div_ceil(CHUNK) > MOST_EACH * MOST_HIGH, "{rows} rows of {n}: nothing");
                            continue;
                        };
                        let chunks = found.each * found.high * found.cluster;
                        assert_eq!(chunks, rows.div_ceil(CHUNK).next_power_of_two(), "{found:?}");
                        assert!(found.wide <= whole && found.wide <= element.per_vector(), "{found:?}");
                        assert!(found.shared(element) <= device.shared_per_block, "{found:?}");
                    }
                }
            }
        }
    }

    /// Few rows of some hundred to some thousand elements.
    #[test]
    fn rows_for_many_threads() {
        let device = properties(90);
        assert_eq!(lanes(64, 1024, &device).map(|found| found.threads), Some(256));
        assert_eq!(lanes(1, 4096, &device).map(|found| found.threads), Some(1024));
        assert_eq!(lanes(64, 4097, &device), None);
        assert_eq!(lanes(64, 256, &device), None);
        assert_eq!(lanes(1 << 20, 1024, &device), None);
    }
}
