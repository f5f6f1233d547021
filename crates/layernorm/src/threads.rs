//! A small thread pool that lives as long as the process; a forked process starts its own. Submitting a job allocates
//! nothing, and idle threads start within microseconds.
//!
//! An idle helper spins briefly before it sleeps, so that closely spaced calls (the steps of a stream) find it awake.
//!
//! One job runs at a time. A caller that finds the pool busy does the whole job alone: by the numerical contract the
//! result is the same, and deadlocks are impossible.
//!
//! A process that already has a thread pool can lend it instead: see [`borrowed`].

mod barrier;
pub mod borrowed;
mod shared;

pub use barrier::Barrier;
pub use shared::Shared;

use barrier::BreakOnDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Maximum number of threads that work on a job, including the caller's.
pub const MAX_THREADS: usize = 256;

/// A job: calls `work(task)` for every task, on whichever thread takes it.
#[derive(Clone, Copy)]
struct Job {
    /// Borrowed from the caller's stack; valid until the caller has withdrawn the job and seen `running` fall to 0.
    work: *const (dyn Fn(usize) + Sync),
    next: *const AtomicUsize,
    tasks: usize,
}

// SAFETY: `work` is Sync, `next` is atomic, and both outlive every thread's use of them (see `run`).
unsafe impl Send for Job {}

#[derive(Default)]
struct State {
    job: Option<Job>,
    /// Helpers that may still join the job.
    wanted: usize,
    /// Helpers that have joined the job and not yet left it.
    running: usize,
    /// Number of helper threads.
    helpers: usize,
    /// Number of helpers that are asleep.
    sleeping: usize,
    /// Whether the caller is asleep.
    caller_sleeps: bool,
    panic: Option<Box<dyn std::any::Any + Send>>,
}

#[derive(Default)]
struct Pool {
    /// Held by the caller whose job is running.
    turn: Mutex<()>,
    state: Mutex<State>,
    /// Signals a new job.
    work: Condvar,
    /// Signals that a helper has left the job.
    left: Condvar,
    /// Number of jobs so far; polled by spinning helpers.
    jobs: AtomicUsize,
    /// Number of helpers in the job; polled by a spinning caller.
    running: AtomicUsize,
}

/// Number of polls before a thread sleeps: some tens of microseconds. (Under Miri a single poll takes that long.)
const LOOKS: usize = if cfg!(miri) { 4 } else { 4096 };

/// Spins until `done`, but not for long.
fn look_out(done: impl Fn() -> bool) {
    for _ in 0..LOOKS {
        if done() {
            return;
        }
        std::hint::spin_loop();
    }
}

static POOL: AtomicPtr<Pool> = AtomicPtr::new(std::ptr::null_mut());

fn pool() -> &'static Pool {
    // SAFETY: a pool stored here is never freed.
    if let Some(pool) = unsafe { POOL.load(Ordering::Acquire).as_ref() } {
        return pool;
    }
    watch_for_forks();
    let new = Box::into_raw(Box::<Pool>::default());
    match POOL.compare_exchange(std::ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: as above.
        Ok(_) => unsafe { &*new },
        Err(other) => {
            // SAFETY: no other thread has seen `new`, and `other` is a pool stored here.
            unsafe {
                drop(Box::from_raw(new));
                &*other
            }
        }
    }
}

/// Registers a fork handler: a forked process has none of its parent's threads, so it starts with a new pool and
/// borrows no threads.
#[cfg(target_os = "linux")]
fn watch_for_forks() {
    extern "C" fn in_child() {
        POOL.store(std::ptr::null_mut(), Ordering::Release);
        borrowed::give_back();
    }
    static ONCE: std::sync::Once = std::sync::Once::new();
    // SAFETY: the handler that runs in the child only stores to atomics. A failure (out of memory) changes nothing.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(in_child));
    });
}

#[cfg(not(target_os = "linux"))]
fn watch_for_forks() {}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Panics reach the caller through `State::panic`; the state itself is consistent at every unlock.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Job {
    fn work(self) {
        // SAFETY: the caller of `run` keeps both alive until every helper has left.
        let (work, next) = unsafe { (&*self.work, &*self.next) };
        loop {
            let task = next.fetch_add(1, Ordering::Relaxed);
            if task >= self.tasks {
                return;
            }
            work(task);
        }
    }
}

fn help() {
    let pool = pool();
    let mut state = lock(&pool.state);
    loop {
        if state.wanted > 0
            && let Some(job) = state.job
        {
            state.wanted -= 1;
            state.running += 1;
            pool.running.store(state.running, Ordering::Release);
            drop(state);
            let outcome = catch_unwind(AssertUnwindSafe(|| job.work()));
            state = lock(&pool.state);
            state.panic = state.panic.take().or(outcome.err());
            state.running -= 1;
            pool.running.store(state.running, Ordering::Release);
            if state.running == 0 && state.caller_sleeps {
                pool.left.notify_one();
            }
            let jobs = pool.jobs.load(Ordering::Acquire);
            drop(state);
            look_out(|| pool.jobs.load(Ordering::Acquire) != jobs);
            state = lock(&pool.state);
        } else {
            state.sleeping += 1;
            state = pool.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.sleeping -= 1;
        }
    }
}

/// Calls `work(member, barrier)` once on each of `members` threads at the same time. Every call must wait at the
/// barrier the same number of times, and at least once. Returns `false`, without calling `work`, if the threads are
/// not available now, or if `members` is 0 or more than [`MAX_THREADS`].
pub fn team(members: usize, work: &(dyn Fn(usize, &Barrier) + Sync)) -> bool {
    if !(1..=MAX_THREADS).contains(&members) {
        return false;
    }
    if let Some(fork) = borrowed::fork() {
        return borrowed::team(fork, members, work);
    }
    let Ok(turn) = pool().turn.try_lock() else { return false };
    if !enough_helpers(members - 1) {
        return false;
    }
    let barrier = Barrier::new(members);
    // No thread takes a second task before all tasks are taken: each waits for the others in its first.
    run_job(turn, members - 1, members, &|member| {
        let breaks = BreakOnDrop(&barrier);
        work(member, &barrier);
        std::mem::forget(breaks);
    });
    true
}

/// Starts helpers until there are this many. Returns whether there are.
fn enough_helpers(helpers: usize) -> bool {
    let mut state = lock(&pool().state);
    while state.helpers < helpers {
        if std::thread::Builder::new().name("layernorm".into()).spawn(help).is_err() {
            return false;
        }
        state.helpers += 1;
    }
    true
}

/// Calls `work(task)` for `task` in `0..tasks`, on up to `threads` threads, including the caller's.
pub fn run(threads: usize, tasks: usize, work: &(dyn Fn(usize) + Sync)) {
    let helpers = threads.min(tasks).saturating_sub(1).min(MAX_THREADS - 1);
    if helpers > 0
        && let Some(fork) = borrowed::fork()
    {
        return borrowed::run(fork, helpers + 1, tasks, work);
    }
    let turn = if helpers == 0 { None } else { pool().turn.try_lock().ok() };
    match turn {
        Some(turn) => {
            // If no more threads can be started, the job runs on those that exist.
            enough_helpers(helpers);
            run_job(turn, helpers, tasks, work);
        }
        None => (0..tasks).for_each(work),
    }
}

fn run_job(turn: MutexGuard<'_, ()>, helpers: usize, tasks: usize, work: &(dyn Fn(usize) + Sync)) {
    let pool = pool();
    let next = AtomicUsize::new(0);
    // SAFETY: only the lifetime is erased; this function returns only when no helper can use the reference any more.
    let work = unsafe { std::mem::transmute::<&(dyn Fn(usize) + Sync), &'static (dyn Fn(usize) + Sync)>(work) };
    let job = Job { work, next: &next, tasks };
    {
        let mut state = lock(&pool.state);
        state.job = Some(job);
        state.wanted = helpers;
        pool.jobs.fetch_add(1, Ordering::Release);
        if state.helpers - state.sleeping < helpers {
            if helpers == 1 { pool.work.notify_one() } else { pool.work.notify_all() }
        }
    }
    let mine = catch_unwind(AssertUnwindSafe(|| job.work()));
    let mut state = lock(&pool.state);
    state.job = None;
    state.wanted = 0;
    if state.running > 0 {
        drop(state);
        look_out(|| pool.running.load(Ordering::Acquire) == 0);
        state = lock(&pool.state);
    }
    while state.running > 0 {
        state.caller_sleeps = true;
        state = pool.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.caller_sleeps = false;
    }
    let panic = state.panic.take().or(mine.err());
    drop(state);
    drop(turn);
    if let Some(panic) = panic {
        resume_unwind(panic);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_runs_once_at_any_thread_count() {
        for threads in [1, 2, 3, 8] {
            for tasks in [0, 1, 2, 7, 100] {
                let hits: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
                run(threads, tasks, &|task| {
                    hits[task].fetch_add(1, Ordering::Relaxed);
                });
                assert!(hits.iter().all(|hit| hit.load(Ordering::Relaxed) == 1), "{threads} threads, {tasks} tasks");
            }
        }
    }

    #[test]
    fn a_job_inside_a_job_and_jobs_side_by_side_end() {
        const ROUNDS: usize = if cfg!(miri) { 3 } else { 50 };
        let total = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        run(3, 5, &|_| {
                            run(2, 2, &|_| {
                                total.fetch_add(1, Ordering::Relaxed);
                            })
                        });
                    }
                });
            }
        });
        assert_eq!(total.into_inner(), 4 * ROUNDS * 5 * 2);
    }

    #[test]
    fn a_team_meets_as_often_as_it_likes() {
        for members in [2, 3, 5] {
            let counts: Vec<AtomicUsize> = (0..members).map(|_| AtomicUsize::new(0)).collect();
            let rounds = if cfg!(miri) { 5 } else { 200 };
            let work = |member: usize, barrier: &Barrier| {
                for round in 1..rounds {
                    counts[member].store(round, Ordering::Relaxed);
                    barrier.wait();
                    assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) >= round));
                    barrier.wait();
                }
            };
            let total = || counts.iter().map(|count| count.load(Ordering::Relaxed)).sum::<usize>();
            // Another test may hold the pool: then nothing was called, so try again.
            while !team(members, &work) {
                assert_eq!(total(), 0);
                std::thread::yield_now();
            }
            assert_eq!(total(), members * (rounds - 1));
        }
    }

    #[test]
    fn a_team_of_nobody_or_of_too_many_is_not_called() {
        let helpers = || lock(&pool().state).helpers;
        for members in [0, MAX_THREADS + 1, usize::MAX] {
            assert!(!team(members, &|_, _| panic!("called")), "{members} members");
        }
        assert!(helpers() < MAX_THREADS, "{} threads were started", helpers());
    }

    #[test]
    fn a_member_that_panics_leaves_nobody_waiting() {
        // Another test may hold the pool: then try again.
        let caught = catch_unwind(|| {
            while !team(2, &|member, barrier| {
                barrier.wait();
                assert!(member != 1, "member 1");
                barrier.wait();
            }) {
                std::thread::yield_now();
            }
        });
        assert!(caught.is_err());
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        let caught = catch_unwind(|| run(2, 4, &|task| assert!(task != 2, "task 2")));
        assert!(caught.is_err());
        run(2, 4, &|_| {});
    }
}
