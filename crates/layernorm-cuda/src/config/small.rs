//! Few rows: many threads a row, and the sums for γ and β in one launch beside dx. `bench/notes/gpu-norms.md` has the measurements.

use super::{BLOCK, CHUNK, Geometry};
use crate::device::Properties;
use crate::types::Type;

/// Lanes of the canonical sum.
const LANES: usize = 256;
/// Rows of 1024 elements a multiprocessor up to which many threads a row are faster.
const ROWS: usize = 4;
/// Longer rows have more warps anyway; forward and backward.
const LONGEST: [usize; 2] = [1024, 4096];

/// A thread a lane of the canonical sum: for rows that are few, and neither so short that most threads have nothing nor longer
/// than a block of threads holds.
pub fn lanes(rows: usize, n: usize, back: bool, properties: &Properties) -> Option<Geometry> {
    let blocks = n.div_ceil(BLOCK);
    let few = rows * blocks <= ROWS * properties.multiprocessors as usize;
    let fits = n > LANES && n <= LONGEST[usize::from(back)];
    let threads = LANES * blocks;
    (few && fits).then_some(Geometry { warps: threads / 32, threads, lanes: true, overlaps: true, ..Geometry::NONE })
}

/// How the sums down the rows are spread: warps or blocks have a tile of columns and an aligned power of two of chunks each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Down {
    /// Columns of a thread.
    pub wide: usize,
    /// Warps of a block that have chunks of their own; 1 where a block has one chunk.
    pub high: usize,
    /// Blocks of a cluster, likewise.
    pub cluster: usize,
    /// Chunks of a warp.
    pub each: usize,
    /// Where a block has one chunk: its rows, at most.
    pub height: Option<usize>,
}

/// Blocks of a cluster that every device with clusters has.
const MOST_CLUSTER: usize = 8;
/// Warps of a block.
const WARPS: usize = 8;
/// Chunks of a warp, one after the other.
const MOST_EACH: usize = 16;
/// Blocks a multiprocessor up to which a whole block has a chunk; with more, a warp has, which takes fewer instructions.
const CHUNK_BLOCKS: usize = 2;
/// Warps a multiprocessor that more than 4 bytes a thread must leave; and that several chunks a warp must.
const LEAST_WARPS: [usize; 2] = [8, 4];

/// The sums down so many rows, which can be read `whole` elements at a time; `None` if there are too many.
pub fn down(element: Type, rows: usize, n: usize, whole: usize, properties: &Properties) -> Option<Down> {
    let multiprocessors = properties.multiprocessors as usize;
    let chunks = rows.div_ceil(CHUNK);
    let padded = chunks.next_power_of_two();
    let most = whole.min(element.per_vector());
    let tiles = |wide: usize| n.div_ceil(32 * wide);
    // 4 bytes a thread are whole sectors of memory for a warp.
    let narrow = (4 / element.bytes()).clamp(1, most);
    let cluster = padded.min(if properties.clusters { MOST_CLUSTER } else { 1 });
    if cluster == padded && tiles(narrow) * cluster <= CHUNK_BLOCKS * multiprocessors {
        let height = if padded > 1 { CHUNK } else { rows.next_power_of_two().clamp(WARPS, CHUNK) };
        return Some(Down { wide: narrow, high: 1, cluster, each: 1, height: Some(height) });
    }
    let mut wide = narrow;
    while 2 * wide <= most && tiles(2 * wide) * chunks >= LEAST_WARPS[0] * multiprocessors {
        wide *= 2;
    }
    let high = (padded / cluster).min(WARPS);
    let found = Down { wide, high, cluster, each: padded / cluster / high, height: None };
    let busy = tiles(wide) * cluster * high >= LEAST_WARPS[1] * multiprocessors;
    (found.each == 1 || (busy && found.each <= MOST_EACH)).then_some(found)
}

impl Down {
    /// Threads of a block.
    pub(crate) fn threads(&self) -> usize {
        32 * if self.height.is_some() { WARPS } else { self.high }
    }

    /// Blocks that a multiprocessor should hold: as many as leave the registers that they are written for.
    pub(crate) fn blocks(&self) -> usize {
        (if self.height.is_some() { 1024 } else { 512 }) / self.threads()
    }

    /// Columns of a block.
    pub(crate) fn tile(&self) -> usize {
        32 * self.wide
    }

    /// Sums of powers of two of chunks that a warp has on their way.
    pub(crate) fn levels(&self) -> usize {
        self.each.ilog2().max(1) as usize
    }

    /// Bytes of shared memory of a block: `Shared` in `down.cu` and `down_chunk.cu`.
    pub(crate) fn shared(&self, element: Type) -> usize {
        let sum = element.accumulator_bytes();
        let finish = (2 * self.tile() * self.cluster + self.threads()) * sum + 2 * self.tile() * 4;
        let own = match self.height {
            Some(height) => height * (2 * self.tile() * sum + element.line_bytes()),
            None => self.high * (CHUNK * element.line_bytes() + 2 * self.tile() * sum * (self.levels() + 1)),
        };
        own + finish
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::properties;

    /// Together they have all chunks, and no level of the tree is there twice.
    #[test]
    fn chunks_are_a_tree() {
        for capability in [80, 90] {
            let device = properties(capability);
            for rows in [1, 63, 64, 65, 128, 129, 4096, 5000, 8192, 65536] {
                for (element, n) in [(Type::F32, 64), (Type::Bf16, 1024), (Type::F64, 777), (Type::F16, 262_144)] {
                    for whole in [1, 2, 8] {
                        let Some(found) = down(element, rows, n, whole, &device) else {
                            assert!(rows > 4096 || capability == 80, "{rows} rows of {n}: nothing");
                            continue;
                        };
                        let chunks = found.each * found.high * found.cluster;
                        assert_eq!(chunks, rows.div_ceil(CHUNK).next_power_of_two(), "{found:?}");
                        assert!(found.height.is_none_or(|height| height >= rows.min(CHUNK)), "{found:?}");
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
        assert_eq!(threads(64, 1025, false), None);
        assert_eq!(threads(1, 4096, true), Some(1024));
        assert_eq!(threads(1, 4097, true), None);
        assert_eq!(threads(64, 256, false), None);
        assert_eq!(threads(1 << 20, 1024, false), None);
    }
}
