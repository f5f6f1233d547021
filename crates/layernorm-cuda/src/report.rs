//! How a kernel tells the host that a recurrent pass timed out: through a word in host memory that is mapped into the
//! device's address space. Reading it needs no synchronization, and a captured graph writes it just as a plain launch
//! does.

use crate::driver::call;
use crate::error::Error;
use cudarc::driver::sys;
use std::sync::atomic::{AtomicU32, Ordering};

/// The word of one device. It is never freed, because a captured graph may write it at any time.
#[derive(Debug)]
pub(crate) struct Report {
    word: &'static AtomicU32,
    /// Device address of the word.
    pub(crate) address: u64,
}

impl Report {
    /// # Safety
    /// The device's context must be current.
    pub(crate) unsafe fn new() -> Result<Report, Error> {
        let flags = sys::CU_MEMHOSTALLOC_DEVICEMAP | sys::CU_MEMHOSTALLOC_PORTABLE;
        let (mut host, mut address) = (std::ptr::null_mut(), 0);
        // SAFETY: the context is current. The driver allocates whole pages, which are aligned. The word is written here
        // before it is read, and never freed.
        unsafe {
            call!(cuMemHostAlloc(&mut host, size_of::<AtomicU32>(), flags))?;
            call!(cuMemHostGetDevicePointer_v2(&mut address, host, 0))?;
            host.cast::<u32>().write(0);
            Ok(Report { word: &*host.cast::<AtomicU32>(), address })
        }
    }

    /// Returns an error if a pass has timed out since the last call.
    pub(crate) fn take(&self, ordinal: usize) -> Result<(), Error> {
        take(self.word, ordinal)
    }
}

/// Kernels write 1 and never 0, so in the common case a plain load is enough.
fn take(word: &AtomicU32, ordinal: usize) -> Result<(), Error> {
    if word.load(Ordering::Acquire) == 0 || word.swap(0, Ordering::AcqRel) == 0 {
        return Ok(());
    }
    Err(Error::GaveUp { ordinal })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_that_gave_up_is_an_error_once() {
        let word = AtomicU32::new(0);
        assert_eq!(take(&word, 3), Ok(()));
        // What the kernel does.
        word.store(1, Ordering::Release);
        let error = take(&word, 3).unwrap_err();
        assert_eq!(error, Error::GaveUp { ordinal: 3 });
        let text = error.to_string();
        for part in ["recurrent pass on GPU 3 timed out", "NaN", "run the step again"] {
            assert!(text.contains(part), "{part:?} is not in {text:?}");
        }
        assert_eq!(take(&word, 3), Ok(()), "the next pass starts anew");
    }
}
