//! Few rows: many threads a row, and the sums for γ and β in one launch beside dx. `bench/gpu/NOTES.md` has the measurements.

use super::{BLOCK, CHUNK, Geometry};
use crate::device::Properties;
use crate::types::Type;

/// Lanes of the canonical sum.
const LANES: usize = 256;
/// Rows of 1024 elements a multiprocessor up to which many threads a row are faster.
const ROWS: usize = 3;
/// Longer rows have more warps anyway; forward and backward.
const LONGEST: [usize; 2] = [2048, 4096];

/// A thread a lane of the canonical sum: for rows that are few, and neither so short that most threads have nothing nor longer
/// than a block of threads holds.
pub fn lanes(rows: usize, n: usize, back: bool, properties: &Properties) -> Option<Geometry> {
    if std::env::var("LN_LANES").as_deref() == Ok("0") { return None; }
    let most: usize = std::env::var("LN_ROWS").map_or(ROWS, |v| v.parse().unwrap());
    let blocks = n.div_ceil(BLOCK);
    let few = rows * blocks <= most * properties.multiprocessors as usize;
    let fits = n > LANES && n <= LONGEST[usize::from(back)];
    let threads = LANES * blocks;
    (few && fits).then_some(Geometry { warps: threads / 32, threads, lanes: true, overlaps: true, ..Geometry::NONE })
}

/// How the sums down the rows are spread over blocks: each has a tile of columns and an aligned power of two of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Down {
    /// Columns of a thread.
    pub wide: usize,
    /// Rows of a chunk; fewer than 64 only if there is but one.
    pub height: usize,
    /// Blocks of a cluster, each with its own chunks.
    pub cluster: usize,
    /// Chunks of a block.
    pub each: usize,
}

/// Blocks of a cluster that every device with clusters has.
const MOST_CLUSTER: usize = 8;
/// Chunks of a block, one after the other: a few, or more if there is a block for every multiprocessor.
const MOST_EACH: [usize; 2] = [8, 64];
/// Bytes of shared memory for the rows of a chunk, so that a multiprocessor holds several blocks.
const MOST_ROWS: usize = 64 << 10;
/// Blocks a multiprocessor that wider tiles must leave.
const BLOCKS: usize = 2;

/// The sums down so many rows, which can be read `whole` elements at a time; `None` if there are too many.
pub fn down(element: Type, rows: usize, n: usize, whole: usize, properties: &Properties) -> Option<Down> {
    if std::env::var("LN_DOWN").as_deref() == Ok("0") { return None; }
    let blocks_wanted: usize = std::env::var("LN_BLOCKS").map_or(BLOCKS, |v| v.parse().unwrap());
    let padded = rows.div_ceil(CHUNK).next_power_of_two();
    let cluster = padded.min(if properties.clusters { MOST_CLUSTER } else { 1 });
    let height = if padded > 1 { CHUNK } else { rows.next_power_of_two().clamp(WARPS, CHUNK) };
    let shape = |wide| Down { wide, height, cluster, each: padded / cluster };
    // 4 bytes a thread make whole sectors of memory; more only where there are blocks enough, and room.
    let good = |wide: usize| {
        let blocks = n.div_ceil(32 * wide) * cluster;
        let rows = 2 * height * 32 * wide * element.accumulator_bytes();
        wide * element.bytes() <= 4
            || (blocks >= blocks_wanted * properties.multiprocessors as usize && rows <= MOST_ROWS)
    };
    let mut wide = 1;
    while 2 * wide <= whole.min(element.per_vector()) && good(2 * wide) {
        wide *= 2;
    }
    let busy = n.div_ceil(32 * wide) * cluster >= properties.multiprocessors as usize;
    Some(shape(wide)).filter(|shape| shape.each <= MOST_EACH[usize::from(busy)])
}

/// Warps of a block.
const WARPS: usize = 8;

impl Down {
    /// Threads of a block.
    pub(crate) const THREADS: usize = 32 * WARPS;

    /// Columns of a block.
    pub(crate) fn tile(&self) -> usize {
        32 * self.wide
    }

    /// Sums of powers of two of chunks that a block has on their way.
    pub(crate) fn levels(&self) -> usize {
        self.each.ilog2().max(1) as usize
    }

    /// Bytes of shared memory of a block: `Shared` in `down.cu`.
    pub(crate) fn shared(&self, element: Type) -> usize {
        let sums = 2 * self.tile() * (self.height + self.levels() + self.cluster) + Self::THREADS;
        self.height * element.line_bytes() + sums * element.accumulator_bytes() + 2 * self.tile() * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::properties;

    /// The blocks have all chunks, and no level of the tree is there twice.
    #[test]
    fn chunks_are_a_tree() {
        for capability in [80, 90] {
            let device = properties(capability);
            for rows in [1, 63, 64, 65, 128, 129, 4096, 5000, 8192, 65536] {
                for (element, n) in [(Type::F32, 64), (Type::Bf16, 1024), (Type::F64, 777), (Type::F16, 262_144)] {
                    for whole in [1, 2, 8] {
                        let Some(found) = down(element, rows, n, whole, &device) else {
                            assert!(rows.div_ceil(CHUNK) > MOST_EACH[0], "{rows} rows of {n}: nothing");
                            continue;
                        };
                        let chunks = found.each * found.cluster;
                        assert_eq!(chunks, rows.div_ceil(CHUNK).next_power_of_two(), "{found:?}");
                        assert!(found.height >= rows.min(CHUNK), "{found:?}");
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
        let threads = |rows, n, back| lanes(rows, n, back, &device).map(|found| found.threads);
        assert_eq!(threads(64, 1024, false), Some(256));
        assert_eq!(threads(1, 4096, true), Some(1024));
        assert_eq!(threads(1, 4097, true), None);
        assert_eq!(threads(64, 256, false), None);
        assert_eq!(threads(1 << 20, 1024, false), None);
    }
}
