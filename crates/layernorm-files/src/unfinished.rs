//! The temporary files of this process that are not in their places yet.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// The set. A set stays whole where a thread panicked.
pub(crate) fn lock() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As long as it lives, other threads wait before they make a temporary file or put one in its place.
#[must_use = "hold it until the process ends: without it, other threads go on to make files"]
#[derive(Debug)]
pub struct Halted {
    _held: MutexGuard<'static, BTreeSet<PathBuf>>,
}

/// Removes the temporary files of this process. For handlers of signals, which then end the process while they hold the
/// result:
///
/// ```no_run
/// let halted = layernorm_files::remove_unfinished();
/// std::process::exit(130);
/// # #[allow(unreachable_code)]
/// drop(halted);
/// ```
///
/// It waits for a [`commit_all`](crate::commit_all) that is renaming, so either all of its files are in place or none.
/// It must run on a thread of its own, as handlers of the crate `ctrlc` do, and not inside the signal itself: it takes a
/// lock. A [`Replacement`](crate::Replacement) whose file it removed fails at its commit.
pub fn remove_unfinished() -> Halted {
    let mut held = lock();
    for temporary in held.iter() {
        // Nothing more can be done about one that stays.
        let _ = fs::remove_file(temporary);
    }
    held.clear();
    Halted { _held: held }
}
