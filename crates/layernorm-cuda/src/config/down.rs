//! Sums down the rows, for γ and β. `bench/notes/gpu-norms.md` has the measurements.

use super::{CHUNK, PORTABLE_CLUSTER, Request, Strategy};
use crate::device::Properties;
use crate::types::Type;

/// Where a backward pass over rows computes the sums for γ and β.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sums {
    /// The pass that computes dx leaves partial sums, which a second launch folds.
    Fused,
    /// A second launch computes them from the rows.
    Down(Down),
    /// For too many rows: a second launch computes the sums of chunks, and a third one folds them.
    Chunks,
}

impl Sums {
    /// The fastest way after a pass with this strategy, as measured. x and dy can be read `whole` elements at a time.
    pub(crate) fn choose(strategy: &Strategy, request: &Request, whole: usize, properties: &Properties) -> Sums {
        let Request { element, rows, n, .. } = *request;
        if strategy.partial_sums(rows).is_some() {
            return Sums::Fused;
        }
        Down::new(element, rows, n, whole, properties).map_or(Sums::Chunks, Sums::Down)
    }
}

/// How the sums for γ and β are distributed in one launch, which overlaps with dx: each warp or block has a tile of
/// columns and an aligned power-of-two number of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Down {
    /// Columns per thread.
    pub thread_columns: usize,
    /// Warps per block that have their own chunks; 1 if a block has one chunk.
    pub chunk_warps: usize,
    /// Blocks per cluster that have their own chunks.
    pub cluster: usize,
    /// Chunks per warp.
    pub warp_chunks: usize,
    /// If a block has one chunk: its maximum number of rows.
    pub block_rows: Option<usize>,
}

/// Warps per block.
const WARPS: usize = 8;
/// Maximum number of chunks that a warp takes one after the other.
const MAX_WARP_CHUNKS: usize = 16;
/// Blocks per multiprocessor up to which a whole block takes a chunk. Above that a warp does, which takes fewer
/// instructions.
const CHUNK_BLOCKS: usize = 2;
/// Minimum warps per multiprocessor for more than 4 bytes per thread.
const MIN_WARPS_FOR_COLUMNS: usize = 8;
/// Minimum warps per multiprocessor for several chunks per warp.
const MIN_WARPS_FOR_CHUNKS: usize = 4;

impl Down {
    /// Layout of the sums down `rows` rows, which can be read `whole` elements at a time; `None` if there are too many
    /// rows.
    pub fn new(element: Type, rows: usize, n: usize, whole: usize, properties: &Properties) -> Option<Self> {
        let multiprocessors = properties.multiprocessors as usize;
        let chunks = rows.div_ceil(CHUNK);
        let padded = chunks.next_power_of_two();
        let max_columns = whole.min(element.per_vector());
        let tiles = |columns: usize| n.div_ceil(32 * columns);
        // With 4 bytes per thread, a warp reads whole memory sectors.
        let narrow = (4 / element.bytes()).clamp(1, max_columns);
        let cluster = padded.min(if properties.clusters { PORTABLE_CLUSTER } else { 1 });
        if cluster == padded && tiles(narrow) * cluster <= CHUNK_BLOCKS * multiprocessors {
            let rows = if padded > 1 { CHUNK } else { rows.next_power_of_two().clamp(WARPS, CHUNK) };
            return Some(Down {
                thread_columns: narrow,
                chunk_warps: 1,
                cluster,
                warp_chunks: 1,
                block_rows: Some(rows),
            });
        }
        let mut thread_columns = narrow;
        while 2 * thread_columns <= max_columns
            && tiles(2 * thread_columns) * chunks >= MIN_WARPS_FOR_COLUMNS * multiprocessors
        {
            thread_columns *= 2;
        }
        let chunk_warps = (padded / cluster).min(WARPS);
        let warp_chunks = padded / cluster / chunk_warps;
        let busy = tiles(thread_columns) * cluster * chunk_warps >= MIN_WARPS_FOR_CHUNKS * multiprocessors;
        (warp_chunks == 1 || (busy && warp_chunks <= MAX_WARP_CHUNKS)).then_some(Down {
            thread_columns,
            chunk_warps,
            cluster,
            warp_chunks,
            block_rows: None,
        })
    }

    /// Threads per block.
    pub(crate) fn threads(&self) -> usize {
        32 * if self.block_rows.is_some() { WARPS } else { self.chunk_warps }
    }

    /// Resident blocks per multiprocessor that leave the number of registers the kernels are written for.
    pub(crate) fn blocks(&self) -> usize {
        (if self.block_rows.is_some() { 1024 } else { 512 }) / self.threads()
    }

    /// Columns per block.
    pub(crate) fn tile(&self) -> usize {
        32 * self.thread_columns
    }

    /// Number of partial sums, each over a power-of-two number of chunks, that a warp carries along.
    pub(crate) fn levels(&self) -> usize {
        self.warp_chunks.ilog2().max(1) as usize
    }

    /// Shared memory per block in bytes: `Shared` in `down.cu` and `down_chunk.cu`.
    pub(crate) fn shared(&self, element: Type) -> usize {
        let sum = element.accumulator_bytes();
        let finish = (2 * self.tile() * self.cluster + self.threads()) * sum + 2 * self.tile() * 4;
        let own = match self.block_rows {
            Some(rows) => rows * (2 * self.tile() * sum + element.line_bytes()),
            None => self.chunk_warps * (CHUNK * element.line_bytes() + 2 * self.tile() * sum * (self.levels() + 1)),
        };
        own + finish
    }
}

/// Columns and threads per block that folds the sums of chunks. Each thread folds about eight sums of a column.
pub(crate) fn finish_shape(columns: usize, parts: usize) -> (usize, usize) {
    let high = parts.div_ceil(8).next_power_of_two();
    if high == 1 {
        return (256, 256);
    }
    // For few columns or many sums: narrower blocks, so that there are more of them.
    let wide = match (columns, high) {
        (0..=64, 17..) => 2,
        (0..=256, 17..) => 4,
        (0..=512, _) | (0..=2047, 17..) => 8,
        _ => 32,
    };
    (wide, (wide * high).min(512))
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
                        let Some(found) = Down::new(element, rows, n, whole, &device) else {
                            assert!(rows > 4096 || capability == 80, "{rows} rows of {n}: nothing");
                            continue;
                        };
                        let chunks = found.warp_chunks * found.chunk_warps * found.cluster;
                        assert_eq!(chunks, rows.div_ceil(CHUNK).next_power_of_two(), "{found:?}");
                        assert!(found.block_rows.is_none_or(|most| most >= rows.min(CHUNK)), "{found:?}");
                        assert!(
                            found.thread_columns <= whole && found.thread_columns <= element.per_vector(),
                            "{found:?}"
                        );
                        assert!(found.shared(element) <= device.shared_per_block, "{found:?}");
                    }
                }
            }
        }
    }
}
