//! Few rows: many threads per row, and the sums for γ and β in one launch that overlaps with dx.
//! `bench/notes/gpu-norms.md` has the measurements.

use super::{BLOCK, CHUNK, Geometry};
use crate::device::Properties;
use crate::types::Type;

/// Lanes of the canonical sum.
const LANES: usize = 256;
/// Rows of 1024 elements per multiprocessor up to which many threads per row are faster.
const ROWS: usize = 4;
/// Maximum row length, forward and backward. Longer rows have more warps anyway.
const LONGEST: [usize; 2] = [1024, 4096];

/// One thread per lane of the canonical sum. Used for few rows that are long enough to occupy most threads, and short
/// enough for one thread block.
pub fn lanes(rows: usize, n: usize, back: bool, properties: &Properties) -> Option<Geometry> {
    let blocks = n.div_ceil(BLOCK);
    let few = rows * blocks <= ROWS * properties.multiprocessors as usize;
    let fits = n > LANES && n <= LONGEST[usize::from(back)];
    let threads = LANES * blocks;
    (few && fits).then_some(Geometry { warps: threads / 32, threads, lanes: true, overlaps: true, ..Geometry::NONE })
}

/// How the sums down the rows are distributed: each warp or block has a tile of columns and an aligned power-of-two
/// number of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Down {
    /// Columns per thread.
    pub wide: usize,
    /// Warps per block that have their own chunks; 1 if a block has one chunk.
    pub high: usize,
    /// Blocks per cluster, likewise.
    pub cluster: usize,
    /// Chunks per warp.
    pub each: usize,
    /// If a block has one chunk: its maximum number of rows.
    pub height: Option<usize>,
}

/// Cluster size that every device with clusters supports.
const MOST_CLUSTER: usize = 8;
/// Warps per block.
const WARPS: usize = 8;
/// Maximum number of chunks that a warp takes one after the other.
const MOST_EACH: usize = 16;
/// Blocks per multiprocessor up to which a whole block takes a chunk. Above that a warp does, which takes fewer
/// instructions.
const CHUNK_BLOCKS: usize = 2;
/// Minimum warps per multiprocessor for more than 4 bytes per thread, and for several chunks per warp.
const LEAST_WARPS: [usize; 2] = [8, 4];

/// Layout of the sums down `rows` rows, which can be read `whole` elements at a time; `None` if there are too many
/// rows.
pub fn down(element: Type, rows: usize, n: usize, whole: usize, properties: &Properties) -> Option<Down> {
    let multiprocessors = properties.multiprocessors as usize;
    let chunks = rows.div_ceil(CHUNK);
    let padded = chunks.next_power_of_two();
    let most = whole.min(element.per_vector());
    let tiles = |wide: usize| n.div_ceil(32 * wide);
    // With 4 bytes per thread, a warp reads whole memory sectors.
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
    /// Threads per block.
    pub(crate) fn threads(&self) -> usize {
        32 * if self.height.is_some() { WARPS } else { self.high }
    }

    /// Resident blocks per multiprocessor that leave the number of registers the kernels are written for.
    pub(crate) fn blocks(&self) -> usize {
        (if self.height.is_some() { 1024 } else { 512 }) / self.threads()
    }

    /// Columns per block.
    pub(crate) fn tile(&self) -> usize {
        32 * self.wide
    }

    /// Number of partial sums, each over a power of two of chunks, that a warp carries along.
    pub(crate) fn levels(&self) -> usize {
        self.each.ilog2().max(1) as usize
    }

    /// Shared memory per block in bytes: `Shared` in `down.cu` and `down_chunk.cu`.
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

    /// Together the blocks cover all chunks, and each level of the tree exists once.
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

    /// Few rows of a few hundred to a few thousand elements.
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
