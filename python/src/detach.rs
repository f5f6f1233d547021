//! Releases the interpreter's lock (GIL) during calls.

use pyo3::ffi::{PyEval_SaveThread, PyThreadState};
use pyo3::prelude::*;

unsafe extern "C-unwind" {
    /// Declared here because PyO3 declares it as never unwinding. Before Python 3.14 it unwinds the thread if the interpreter is
    /// shutting down.
    fn PyEval_RestoreThread(state: *mut PyThreadState);
}

/// Blocks a thread forever, as Python 3.14 does with threads that return to an interpreter that is shutting down. Unwinding
/// (`pthread_exit`) would abort the process at the first Rust frame that catches panics.
struct Stop;

impl Drop for Stop {
    fn drop(&mut self) {
        loop {
            std::thread::park();
        }
    }
}

/// Guard of a thread that has released the lock; dropping it acquires the lock again.
struct Detached(*mut PyThreadState);

impl Drop for Detached {
    fn drop(&mut self) {
        let stop = Stop;
        // SAFETY: the state is this thread's, saved when it released the lock.
        unsafe { PyEval_RestoreThread(self.0) };
        std::mem::forget(stop);
    }
}

/// Runs a call without the interpreter's lock. `Python::detach` does the same, but aborts the process if a daemon thread is
/// inside a call when the interpreter shuts down.
///
/// The call must neither use nor drop Python objects: PyO3 does not know that the lock is released.
pub fn detached<R: Send>(_py: Python<'_>, call: impl FnOnce() -> R + Send) -> R {
    // SAFETY: `_py` proves that this thread holds the lock, and `Detached` acquires it again.
    let _lock = Detached(unsafe { PyEval_SaveThread() });
    call()
}
