//! Every threshold in one place. None of them changes a bit of any result. Each was set by `layernorm bench`.

use crate::element::Element;

/// Below this many elements a job stays on the caller's thread: waking another costs about as much. (Miri sees threads at
/// sizes that it can bear.)
const ELEMENTS_PER_THREAD: usize = if cfg!(miri) { 256 } else { 16 * 1024 };

/// Outputs of at least this many bytes go past the cache, where nothing of them would be left anyway.
const STREAM_BYTES: usize = 8 << 20;

/// Fresh outputs of at least this many bytes are worth large pages.
pub(crate) const LARGE_PAGE_BYTES: usize = 4 << 20;

/// Tensors of at least this many bytes are asked for ahead of their use; smaller ones are in the second-level cache.
const PREFETCH_BYTES: usize = 2 << 20;

/// Bytes of input rows that forward keeps between its passes: half of a small first-level cache.
const GROUP_BYTES: usize = 16 << 10;

/// Bytes of x and dy that backward keeps between its passes; they may lie in the second-level cache.
const BACKWARD_GROUP_BYTES: usize = 64 << 10;

/// Bytes of packed rows of one operand, for tensors whose rows are not contiguous: a part of the second-level cache.
const TILE_BYTES: usize = 64 << 10;

/// What a kernel does about memory. None of it changes a bit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// Outputs go past the cache.
    pub(crate) stream: bool,
    /// Rows to come are asked for ahead.
    pub(crate) prefetch: bool,
    /// So are the places that are about to be written.
    pub(crate) prefetch_output: bool,
}

impl Memory {
    /// For tensors of `rows` rows of `n` elements, the output contiguous or not.
    pub(crate) fn of<T>(rows: usize, n: usize, contiguous: bool) -> Self {
        let bytes = rows.saturating_mul(n).saturating_mul(size_of::<T>());
        let stream = contiguous && bytes >= STREAM_BYTES;
        let prefetch = bytes >= PREFETCH_BYTES;
        Memory { stream, prefetch, prefetch_output: prefetch && !stream }
    }
}

/// Whether to ask for the cache line of this element: once a line, also where a vector is half of one.
#[inline(always)]
pub(crate) fn starts_line<T>(at: usize, lanes: usize) -> bool {
    lanes * size_of::<T>() >= 64 || (at * size_of::<T>()).is_multiple_of(64)
}

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

/// Whether rows this many elements apart fall onto the same places of a first-level cache, so that it cannot hold a line of
/// each of many.
#[inline(always)]
pub(crate) fn rows_collide<T>(stride: isize) -> bool {
    (stride.unsigned_abs() * size_of::<T>()).is_multiple_of(4096)
}

/// Rows that are packed together.
pub(crate) fn rows_per_tile<T: Element>(n: usize) -> usize {
    (TILE_BYTES / (n * size_of::<T>()).max(1)).clamp(1, crate::sum::CHUNK)
}

/// Threads for a job of this size, given how many the caller allows.
pub(crate) fn threads(allowed: usize, elements: usize) -> usize {
    allowed.min(elements / ELEMENTS_PER_THREAD).max(1)
}

/// Whether the threads share each row, in turn, instead of sharing out the rows: few chunks of rows that are long enough to
/// make two meetings a row cheap.
pub(crate) fn share_rows(threads: usize, rows: usize, n: usize) -> bool {
    threads > 1 && rows < 2 * threads * crate::sum::CHUNK && n >= threads * ELEMENTS_PER_THREAD
}
