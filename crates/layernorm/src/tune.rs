//! All tuning thresholds. None of them affects the results. Each was set by `layernorm bench`.

use crate::element::Element;

/// A job gets one thread per this many elements, so smaller jobs stay on the caller's thread: waking another costs
/// about as much. (The value for Miri uses threads at sizes that Miri can run.)
const ELEMENTS_PER_THREAD: usize = if cfg!(miri) { 256 } else { 16 * 1024 };

/// Outputs of at least this many bytes bypass the cache, which they would overflow anyway.
const STREAM_BYTES: usize = 8 << 20;

/// Fresh outputs of at least this many bytes are worth huge pages.
pub(crate) const LARGE_PAGE_BYTES: usize = 4 << 20;

/// Tensors of at least this many bytes are prefetched; smaller ones are in the L2 cache.
const PREFETCH_BYTES: usize = 2 << 20;

/// Bytes of input rows that forward keeps between its passes: half of a small L1 cache.
const GROUP_BYTES: usize = 16 << 10;

/// Bytes of x and dy that backward keeps between its passes; they may lie in the L2 cache.
const BACKWARD_GROUP_BYTES: usize = 64 << 10;

/// Bytes of packed rows per operand, for tensors whose rows are not contiguous: a part of the L2 cache.
const TILE_BYTES: usize = 64 << 10;

/// Memory access hints for a kernel. None of them affects the results.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// Outputs bypass the cache.
    pub(crate) stream: bool,
    /// Upcoming input rows are prefetched.
    pub(crate) prefetch: bool,
    /// Upcoming output lines are prefetched, too.
    pub(crate) prefetch_output: bool,
}

impl Memory {
    /// Chooses the hints for tensors of `rows` rows of `n` elements, with a contiguous output or not.
    pub(crate) fn of<T>(rows: usize, n: usize, contiguous: bool) -> Self {
        let bytes = rows.saturating_mul(n).saturating_mul(size_of::<T>());
        let stream = contiguous && bytes >= STREAM_BYTES;
        let prefetch = bytes >= PREFETCH_BYTES;
        Memory { stream, prefetch, prefetch_output: prefetch && !stream }
    }
}

/// Returns whether to prefetch the cache line of this element: once per line, even if a vector is only half a line.
#[inline(always)]
pub(crate) fn starts_line<T>(at: usize, lanes: usize) -> bool {
    lanes * size_of::<T>() >= 64 || (at * size_of::<T>()).is_multiple_of(64)
}

/// Returns the number of rows that forward processes together.
#[inline(always)]
pub(crate) fn rows_per_group<T: Element>(n: usize, lanes: usize) -> usize {
    let rows = GROUP_BYTES / (n * size_of::<T>()).max(1);
    if rows < 4 { rows.max(1) } else { (rows / 4 * 4).min(lanes) }
}

/// Returns the number of rows that backward processes together: a power of two, so that groups fit into chunks.
#[inline(always)]
pub(crate) fn backward_rows_per_group<T: Element>(n: usize, most: usize) -> usize {
    let rows = (BACKWARD_GROUP_BYTES / (2 * n * size_of::<T>()).max(1)).clamp(1, most);
    1 << rows.ilog2()
}

/// Returns whether rows this many elements apart map to the same L1 cache sets, so that the cache cannot hold a line
/// of each of many rows.
#[inline(always)]
pub(crate) fn rows_collide<T>(stride: isize) -> bool {
    (stride.unsigned_abs() * size_of::<T>()).is_multiple_of(4096)
}

/// Returns the number of rows that are packed together.
pub(crate) fn rows_per_tile<T: Element>(n: usize) -> usize {
    (TILE_BYTES / (n * size_of::<T>()).max(1)).clamp(1, crate::sum::CHUNK)
}

/// Returns the number of threads for a job of this size, given how many the caller allows.
pub(crate) fn threads(allowed: usize, elements: usize) -> usize {
    allowed.min(elements / ELEMENTS_PER_THREAD).max(1)
}

/// Returns whether the threads share each row in turn instead of dividing the rows among them. This pays off for few
/// chunks of rows that are long enough to make a barrier per row cheap.
pub(crate) fn share_rows(threads: usize, rows: usize, n: usize) -> bool {
    threads > 1 && rows < 2 * threads * crate::sum::CHUNK && n >= threads * ELEMENTS_PER_THREAD
}
