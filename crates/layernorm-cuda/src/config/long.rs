//! Rows that no team of threads can hold.

use super::BLOCK;
use crate::device::Properties;
use crate::types::Type;

/// A block has one row at a time and reads it once for each sum and once more to write. Its warps take 1024 elements
/// each at a time, and the blocks loop over the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Long {
    /// Threads per block.
    pub threads: usize,
    /// Maximum number of blocks per multiprocessor.
    pub blocks_per_multiprocessor: usize,
}

impl Default for Long {
    /// The layout for rows of any length and type.
    fn default() -> Self {
        Long { threads: 512, blocks_per_multiprocessor: 4 }
    }
}

impl Long {
    /// Warps per block.
    pub(crate) fn warps(&self) -> usize {
        self.threads / 32
    }

    /// Vectors per thread of the 1024 elements that a warp takes.
    pub(crate) fn vectors(&self, element: Type) -> usize {
        BLOCK / 32 / element.per_vector()
    }

    /// Blocks of a launch.
    pub(crate) fn blocks(&self, rows: usize, properties: &Properties) -> usize {
        rows.min(self.blocks_per_multiprocessor * properties.multiprocessors as usize)
    }
}
