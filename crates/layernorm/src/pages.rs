//! Memory in cache lines, and large pages for fresh outputs. Memory that was just allocated costs a fault for every page that is first touched, and with
//! pages of 4 KiB that takes several times as long as a norm. Where the system has larger pages, it is asked for them.

use crate::kernels::Rows;
use crate::tune;
use std::mem::MaybeUninit;

/// A cache line: memory that is kept in whole ones is aligned to them.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct CacheLine(#[allow(dead_code, reason = "only its size and alignment matter")] [u8; 64]);

impl CacheLine {
    /// All zeros.
    pub const ZERO: CacheLine = CacheLine([0; 64]);
}

/// Asks for large pages for rows that follow each other without a gap. A hint: nothing happens where it cannot be met.
///
/// # Safety
/// The rows are memory that is alive.
pub(crate) unsafe fn ask_for_large<T>(rows: Option<Rows<*mut T>>, count: usize, n: usize) {
    let bytes = count.saturating_mul(n).saturating_mul(size_of::<T>());
    if let Some(rows) = rows
        && bytes >= tune::LARGE_PAGE_BYTES
        && (count == 1 || rows.stride == n as isize)
    {
        // SAFETY: the rows fill these bytes.
        unsafe { advise(rows.ptr.cast(), bytes) };
    }
}

/// The same for memory that is kept and used again: fewer pages also means fewer that a processor has to look up.
pub fn large_pages<T>(memory: &mut [MaybeUninit<T>]) {
    let bytes = size_of_val(memory);
    if bytes >= tune::LARGE_PAGE_BYTES {
        // SAFETY: the slice has these bytes.
        unsafe { advise(memory.as_mut_ptr().cast(), bytes) };
    }
}

#[cfg(target_os = "linux")]
unsafe fn advise(start: *mut u8, bytes: usize) {
    /// Page sizes of all supported systems divide this.
    const PAGE: usize = 64 << 10;
    let skip = start.addr().next_multiple_of(PAGE) - start.addr();
    let len = bytes.saturating_sub(skip) / PAGE * PAGE;
    // SAFETY: the range lies inside the caller's memory, which is alive; the advice does not change what it holds. A refusal
    // is no error.
    unsafe { libc::madvise(start.add(skip).cast(), len, libc::MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
unsafe fn advise(_start: *mut u8, _bytes: usize) {}
