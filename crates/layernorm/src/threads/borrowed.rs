//! Runs work on another library's threads. Two pools in one process compete for the cores: the threads of an OpenMP
//! library, which PyTorch uses, spin for milliseconds after each of its operations, on the very cores that our
//! threads would need.

use super::barrier::BreakOnDrop;
use super::{Barrier, lock};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

/// `fork(members, work)` calls `work(present)` on `present` threads at the same time, including the caller's, and
/// returns when all calls have returned. `present` may be less than `members`. The work does not panic.
pub type Fork = fn(members: usize, work: &(dyn Fn(usize) + Sync));

static FORK: OnceLock<Fork> = OnceLock::new();
static GIVEN_BACK: AtomicBool = AtomicBool::new(false);

/// Runs all work on these threads from now on. Can be set once per process: returns false if threads are already
/// borrowed.
///
/// ```compile_fail,E0133
/// // A fork that calls the work too often, or passes its threads different numbers.
/// layernorm::parts::use_threads(|members, work| (0..2 * members).for_each(|_| work(members)));
/// ```
///
/// # Safety
/// `fork` does what `Fork` says: all threads run at the same time, each calls the work once with their number, and
/// none calls it after `fork` has returned.
pub unsafe fn use_threads(fork: Fork) -> bool {
    super::watch_for_forks();
    FORK.set(fork).is_ok()
}

/// Stops borrowing: this process has been forked, and the threads are its parent's.
#[cfg(target_os = "linux")]
pub(super) fn give_back() {
    GIVEN_BACK.store(true, Ordering::Relaxed);
}

pub(super) fn fork() -> Option<Fork> {
    FORK.get().copied().filter(|_| !GIVEN_BACK.load(Ordering::Relaxed))
}

/// First panic on any of the threads.
#[derive(Default)]
struct Panic(Mutex<Option<Box<dyn Any + Send>>>);

impl Panic {
    fn caught(&self, work: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
            lock(&self.0).get_or_insert(panic);
        }
    }

    /// Resumes the panic in the caller's thread.
    fn resume(self) {
        if let Some(panic) = self.0.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            resume_unwind(panic);
        }
    }
}

pub(super) fn run(fork: Fork, members: usize, tasks: usize, work: &(dyn Fn(usize) + Sync)) {
    let (next, panic) = (AtomicUsize::new(0), Panic::default());
    fork(members, &|_| {
        panic.caught(|| {
            while let task = next.fetch_add(1, Ordering::Relaxed)
                && task < tasks
            {
                work(task);
            }
        });
    });
    panic.resume();
}

pub(super) fn team(fork: Fork, members: usize, work: &(dyn Fn(usize, &Barrier) + Sync)) -> bool {
    let (next, panic, called) = (AtomicUsize::new(0), Panic::default(), AtomicBool::new(false));
    let barrier = Barrier::new(members);
    fork(members, &|present| {
        // All threads see the same number: either all members are present and work, or none does.
        if present == members {
            called.store(true, Ordering::Relaxed);
            panic.caught(|| {
                let breaks = BreakOnDrop(&barrier);
                work(next.fetch_add(1, Ordering::Relaxed), &barrier);
                std::mem::forget(breaks);
            });
        }
    });
    panic.resume();
    called.into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scoped(members: usize, work: &(dyn Fn(usize) + Sync)) {
        std::thread::scope(|scope| {
            (1..members).for_each(|_| {
                scope.spawn(|| work(members));
            });
            work(members);
        });
    }

    fn one_too_few(members: usize, work: &(dyn Fn(usize) + Sync)) {
        (1..members).for_each(|_| work(members - 1));
    }

    #[test]
    fn every_task_runs_once_on_however_many_there_are() {
        for fork in [scoped as Fork, one_too_few] {
            for (members, tasks) in [(2, 1), (2, 7), (5, 100)] {
                let hits: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
                run(fork, members, tasks, &|task| {
                    hits[task].fetch_add(1, Ordering::Relaxed);
                });
                assert!(hits.iter().all(|hit| hit.load(Ordering::Relaxed) == 1), "{members} threads, {tasks} tasks");
            }
        }
    }

    #[test]
    fn a_team_is_whole_or_not_called() {
        let seen = AtomicUsize::new(0);
        let work = |member: usize, barrier: &Barrier| {
            seen.fetch_add(1 << (8 * member), Ordering::Relaxed);
            barrier.wait();
            assert_eq!(seen.load(Ordering::Relaxed), 0x01_01_01, "all members arrive before any continues");
        };
        assert!(team(scoped, 3, &work));
        assert!(!team(one_too_few, 3, &work));
    }

    #[test]
    fn a_panic_reaches_the_caller_and_leaves_nobody_waiting() {
        assert!(catch_unwind(|| run(scoped, 2, 4, &|task| assert!(task != 2, "task 2"))).is_err());
        let caught = catch_unwind(|| {
            team(scoped, 2, &|member, barrier| {
                barrier.wait();
                assert!(member != 1, "member 1");
                barrier.wait();
            })
        });
        assert!(caught.is_err());
    }
}
