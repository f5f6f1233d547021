//! Memory in whole cache lines, and huge pages for fresh outputs. The first touch of each page of newly allocated
//! memory costs a page fault; with 4 KiB pages that takes several times as long as a norm. Where the system has huge
//! pages, they are requested.

use crate::kernels::Rows;
use crate::tune;
use std::mem::MaybeUninit;

/// A cache line. Memory allocated in whole cache lines is aligned to them.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct CacheLine(#[allow(dead_code, reason = "only its size and alignment matter")] [u8; 64]);

impl CacheLine {
    /// A cache line of zeros.
    pub const ZERO: CacheLine = CacheLine([0; 64]);
}

/// Requests huge pages for rows without gaps between them. This is a hint: nothing happens where it cannot be met.
///
/// # Safety
/// The rows are live memory.
pub(crate) unsafe fn ask_for_large<T>(rows: Option<Rows<*mut T>>, count: usize, n: usize) {
    let bytes = count.saturating_mul(n).saturating_mul(size_of::<T>());
    if let Some(rows) = rows
        && bytes >= tune::LARGE_PAGE_BYTES
        && (count == 1 || rows.stride == n as isize)
    {
        // SAFETY: the rows occupy these bytes.
        unsafe { advise(rows.ptr.cast(), bytes) };
    }
}

/// Requests huge pages for memory that is kept and reused: fewer pages also mean fewer TLB misses.
pub fn large_pages<T>(memory: &mut [MaybeUninit<T>]) {
    let bytes = size_of_val(memory);
    if bytes >= tune::LARGE_PAGE_BYTES {
        // SAFETY: the slice occupies these bytes.
        unsafe { advise(memory.as_mut_ptr().cast(), bytes) };
    }
}

#[cfg(target_os = "linux")]
unsafe fn advise(start: *mut u8, bytes: usize) {
    /// A multiple of the page size of every supported system.
    const PAGE: usize = 64 << 10;
    let skip = start.addr().next_multiple_of(PAGE) - start.addr();
    let len = bytes.saturating_sub(skip) / PAGE * PAGE;
    // SAFETY: at most the end of the caller's memory.
    let from = unsafe { start.add(skip.min(bytes)) };
    // Miri does not know the call.
    if !cfg!(miri) && len > 0 {
        // SAFETY: the range lies within the caller's live memory, and the advice does not change its contents. A refusal
        // is not an error.
        unsafe { libc::madvise(from.cast(), len, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
unsafe fn advise(_start: *mut u8, _bytes: usize) {}
