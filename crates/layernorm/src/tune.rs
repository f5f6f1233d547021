//! Every threshold in one place. None of them changes a bit of any result. Each was set by `layernorm bench`.

use crate::element::Element;

/// Below this many elements a job stays on the caller's thread: waking another costs about as much.
pub(crate) const ELEMENTS_PER_THREAD: usize = 16 * 1024;

/// Outputs of at least this many bytes go past the cache, where nothing of them would be left anyway.
pub(crate) const STREAM_BYTES: usize = 8 << 20;

/// Bytes of input rows that forward keeps between its passes: half of a small first-level cache.
const GROUP_BYTES: usize = 16 << 10;

/// Bytes of x and dy that backward keeps between its passes; they may lie in the second-level cache.
const BACKWARD_GROUP_BYTES: usize = 64 << 10;

/// Bytes of packed rows of one operand, for tensors whose rows are not contiguous: a part of the second-level cache.
const TILE_BYTES: usize = 64 << 10;

/// Rows that forward takes together.
#[inline(always)]
pub(crate) fn rows_per_group<T: Element>(n: usize, lanes: usize) -> usize {
    let rows = GROUP_BYTES / (n * size_of::<T>()).max(1);
    if rows < 4 { rows.max(1) } else { (rows / 4 * 4).min(lanes) }
}

/// Rows that backward takes together: a power of two, so that groups fit into chunks.
#[inline(always)]
pub(crate) fn backward_rows_per_group<T: Element>(n: usize, most: usize) -> usize {
    let rows = (BACKWARD_GROUP_BYTES / (2 * n * size_of::<T>()).max(1)).clamp(1, most);
    1 << rows.ilog2()
}

/// Rows that are packed together.
pub(crate) fn rows_per_tile<T: Element>(n: usize) -> usize {
    (TILE_BYTES / (n * size_of::<T>()).max(1)).clamp(1, crate::sum::CHUNK)
}

/// Threads for a job of this size, given how many the caller allows.
pub(crate) fn threads(allowed: usize, elements: usize) -> usize {
    allowed.min(elements / ELEMENTS_PER_THREAD).max(1)
}
