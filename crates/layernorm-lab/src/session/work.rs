//! The worker pool: each worker repeatedly executes the next run. A run that fails or panics does not affect the
//! others.

use super::folder::{runs_of, tidy};
use super::tally::Tally;
use super::{Ending, Event, Failure, Outcome, Session, Watcher};
use crate::records::RunFile;
use crate::studies::{self, Observer, RunPlan};
use crate::tensorboard;
use std::any::Any;
use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Stack size, like that of a typical main thread.
const STACK: usize = 8 << 20;

/// State shared by the workers.
struct WorkerPool<'a> {
    session: &'a Session,
    watcher: &'a dyn Watcher,
    runs: PathBuf,
    start: Instant,
    queue: Mutex<Queue>,
    tally: Mutex<Tally>,
    /// How each started run ended.
    endings: Mutex<Vec<(usize, Ending)>>,
}

/// The runs that no worker has taken yet.
struct Queue {
    runs: VecDeque<usize>,
    /// How many runs in a row other sessions were executing.
    busy: usize,
}

impl Queue {
    /// Puts back a run that another session is executing. Returns whether that is so for all that are left.
    fn put_back(&mut self, number: usize) -> bool {
        self.runs.push_back(number);
        self.busy += 1;
        self.busy >= self.runs.len()
    }
}

/// What became of a run.
enum Attempt {
    Ended(Ending),
    /// Another session has finished it.
    Done,
    /// Another session is executing it.
    Busy,
}

/// Pause before looking again for runs that other sessions have given up.
const PAUSE: Duration = Duration::from_millis(200);

/// Executes all runs of a session.
pub(super) fn run(session: &Session, watcher: &dyn Watcher) -> Outcome {
    let efforts = session.plans.iter().map(RunPlan::effort);
    let pool = WorkerPool {
        session,
        watcher,
        runs: runs_of(&session.folder),
        start: Instant::now(),
        queue: Mutex::new(Queue { runs: (0..session.plans.len()).collect(), busy: 0 }),
        tally: Mutex::new(Tally::new(efforts, session.kept)),
        endings: Mutex::new(Vec::new()),
    };
    let workers = session.workers.get().min(session.plans.len());
    let threads = threads_each(workers);
    thread::scope(|scope| {
        let pool = &pool;
        let start = |worker| {
            let work = move || {
                layernorm_burn::set_threads(Some(threads));
                pool.work(worker);
            };
            thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work).is_ok()
        };
        let started = (0..workers).filter(|&worker| start(worker)).count();
        // If the system provides fewer threads, there are fewer workers; without any, the caller does the work.
        if started == 0 {
            pool.work(0);
        }
    });
    pool.outcome()
}

/// Threads per worker: the cores are divided among the workers.
fn threads_each(workers: usize) -> NonZeroUsize {
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    NonZeroUsize::new(cores / workers.max(1)).unwrap_or(NonZeroUsize::MIN)
}

impl WorkerPool<'_> {
    fn work(&self, worker: usize) {
        while !self.watcher.stop() {
            let Some(number) = held(&self.queue).runs.pop_front() else { break };
            let plan = &self.session.plans[number];
            let start = Instant::now();
            match self.attempt(worker, number, plan) {
                Attempt::Busy => {
                    let all = held(&self.queue).put_back(number);
                    if all {
                        thread::sleep(PAUSE);
                    }
                    continue;
                }
                Attempt::Done => {
                    held(&self.tally).ended(number);
                    held(&self.endings).push((number, Ending::Finished));
                }
                Attempt::Ended(ending) => {
                    if ending == Ending::Finished {
                        tidy(&self.runs, plan.run());
                    }
                    held(&self.tally).ended(number);
                    self.tell(Event::Ended { worker, run: plan.run(), ending: &ending, took: start.elapsed() });
                    held(&self.endings).push((number, ending));
                }
            }
            held(&self.queue).busy = 0;
        }
    }

    /// Executes a run and catches errors and panics.
    fn attempt(&self, worker: usize, number: usize, plan: &RunPlan) -> Attempt {
        let result = catch_unwind(AssertUnwindSafe(|| self.run(worker, number, plan)));
        Attempt::Ended(match result {
            Ok(Ok(Some(ending))) => return ending,
            Ok(Ok(None)) => Ending::Failed("the run ended without being marked as finished".to_owned()),
            Ok(Err(studies::Error::Stopped)) => Ending::Stopped,
            Ok(Err(error)) => Ending::Failed(error.to_string()),
            Err(panic) => Ending::Failed(format!("a bug in this program: {}", message(&*panic))),
        })
    }

    /// Executes a run; `None` if it ended without being finished.
    fn run(&self, worker: usize, number: usize, plan: &RunPlan) -> Result<Option<Attempt>, studies::Error> {
        let header = plan.header().clone();
        let mut file = if self.session.shared {
            let Some(file) = RunFile::claim(&self.runs, header)? else { return Ok(Some(Attempt::Busy)) };
            if file.record().finished {
                return Ok(Some(Attempt::Done));
            }
            file
        } else {
            RunFile::open(&self.runs, header)?
        };
        let resumed = !file.record().events.is_empty();
        if resumed {
            held(&self.tally).resumed(number);
        }
        if let Some(tensorboard) = &self.session.tensorboard
            && let Some(writer) = tensorboard.writer(&tensorboard::name(plan.header()), plan.header())?
        {
            file.follow(writer)?;
        }
        let run = plan.run();
        self.tell(Event::Began { worker, run, resumed });
        let mut observer = RunObserver { pool: self, worker, number, run };
        plan.execute(&self.session.data, &mut file, &mut observer)?;
        Ok(file.record().finished.then_some(Attempt::Ended(Ending::Finished)))
    }

    fn tell(&self, event: Event<'_>) {
        let progress = held(&self.tally).overall(self.start.elapsed());
        self.watcher.event(event, &progress);
    }

    fn outcome(self) -> Outcome {
        let Session { plans, kept, .. } = self.session;
        let mut endings = self.endings.into_inner().unwrap_or_else(PoisonError::into_inner);
        endings.sort_by_key(|(number, _)| *number);
        let finished = endings.iter().filter(|(_, ending)| *ending == Ending::Finished).count();
        let stopped = endings.len() < plans.len() || endings.iter().any(|(_, ending)| *ending == Ending::Stopped);
        let failure = |(number, ending): (usize, Ending)| match ending {
            Ending::Failed(what) => Some(Failure { run: plans[number].run().to_owned(), what }),
            Ending::Finished | Ending::Stopped => None,
        };
        let failures = endings.into_iter().filter_map(failure).collect();
        Outcome { finished: kept + finished, total: kept + plans.len(), failures, stopped }
    }
}

/// The session's observer of one run.
struct RunObserver<'a> {
    pool: &'a WorkerPool<'a>,
    worker: usize,
    number: usize,
    run: &'a str,
}

impl Observer for RunObserver<'_> {
    fn progress(&mut self, done: f64, words: &str) {
        held(&self.pool.tally).progress(self.number, done);
        self.pool.tell(Event::Progress { worker: self.worker, run: self.run, done, words });
    }

    fn stop(&self) -> bool {
        self.pool.watcher.stop()
    }
}

/// Locks a mutex, ignoring poisoning: a panic of another worker leaves the data valid.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The message of a panic.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("panic without a message")
}
