//! The temporary files of this process that are not in place yet.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Locks the set. It stays valid if a thread panicked.
pub(crate) fn lock() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// While it lives, other threads wait before they create a temporary file or rename one into place.
#[must_use = "hold it until the process ends: without it, other threads continue to create files"]
#[derive(Debug)]
pub struct Halted {
    _held: MutexGuard<'static, BTreeSet<PathBuf>>,
}

/// Removes the temporary files of this process. For signal handlers, which must exit the process while they hold the
/// returned guard:
///
/// ```no_run
/// let halted = layernorm_files::remove_unfinished();
/// std::process::exit(130);
/// # #[allow(unreachable_code)]
/// drop(halted);
/// ```
///
/// It waits for a [`commit_all`](crate::commit_all) that is renaming, so that either all of its files are in place or none.
/// Call it from a thread that waits for signals, and not from the signal handler itself: it takes a lock. A
/// [`Replacement`](crate::Replacement) whose file was removed fails when it is committed.
pub fn remove_unfinished() -> Halted {
    let mut held = lock();
    for temporary in held.iter() {
        // If the file cannot be removed, nothing more can be done.
        let _ = fs::remove_file(temporary);
    }
    held.clear();
    Halted { _held: held }
}
