//! Starts, stops and resumes studies in this process: one job at a time, on a thread of its own.
//!
//! ```text
//! request → Session::open (locks the folder) → Session::run, which asks whether to stop → report.html
//! ```

use super::state::{Job, MOST_RUNNING, Phase, Running};
use crate::failure::Failure;
use crate::study::{self, View};
use layernorm_lab::data::Dataset;
use layernorm_lab::session::{self, Ending, Event, Options, Outcome, Progress, Session, Watcher};
use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::SystemTime;

/// What to run.
#[derive(Clone)]
pub struct Request {
    /// Number of the folder.
    pub folder: usize,
    pub options: Options,
}

impl Request {
    fn names(&self) -> Vec<String> {
        self.options.studies.iter().map(|study| study.name().to_owned()).collect()
    }
}

/// Runs jobs.
pub struct Control {
    /// The folder with the data; `None` for the embedded digits.
    data: Option<PathBuf>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    job: Job,
    request: Option<Request>,
    watch: Arc<JobWatch>,
    thread: Option<JoinHandle<()>>,
    /// Unfinished runs that this process has left, by folder and name, and when.
    left: HashMap<(usize, String), SystemTime>,
}

impl Control {
    pub fn new(data: Option<PathBuf>) -> Control {
        Control { data, inner: Mutex::default() }
    }

    /// The job, as viewers see it.
    pub fn job(&self) -> Job {
        let mut inner = self.lock();
        let progress = *held(&inner.watch.progress);
        if inner.job.phase.is_active()
            && let Some(progress) = progress
        {
            inner.job.set_progress(&progress);
        }
        inner.job.clone()
    }

    /// The runs in progress of a folder.
    pub fn running(&self, folder: usize) -> Vec<Running> {
        let inner = self.lock();
        let own = inner.job.folder == folder && inner.job.phase.is_active();
        if !own {
            return Vec::new();
        }
        held(&inner.watch.running).values().take(MOST_RUNNING).cloned().collect()
    }

    /// Whether this process has left a run, and it has not changed since.
    pub fn has_ended(&self, folder: usize, run: &str, changed: SystemTime) -> bool {
        let inner = self.lock();
        let left = || held(&inner.watch.left).get(run).copied();
        let key = (folder, run.to_owned());
        let time = inner.left.get(&key).copied().max(if inner.job.folder == folder { left() } else { None });
        time.is_some_and(|time| changed <= time)
    }

    /// Starts a job, and waits until its folder is open.
    ///
    /// # Errors
    /// A text for the user, if a job is running or the folder cannot be opened, for example because another process is
    /// using it.
    pub fn start(self: &Arc<Self>, request: Request) -> Result<(), String> {
        let (opened, is_open) = mpsc::channel();
        let watch = self.begin(&request, None, Phase::Opening)?;
        let control = Arc::clone(self);
        let work = move || {
            let done = catch_unwind(AssertUnwindSafe(|| control.execute(request, &watch, &opened)));
            if done.is_err() {
                control.fail("a bug in this program ended the studies; their records are kept");
            }
        };
        let thread = thread::Builder::new().name("studies".into()).spawn(work).map_err(|error| {
            let message = format!("cannot start a thread: {error}");
            self.fail(&message);
            message
        })?;
        self.lock().thread = Some(thread);
        is_open.recv().unwrap_or_else(|_| Err("the studies ended before they began".to_owned()))
    }

    /// Starts the last job again, with the runs that are left.
    ///
    /// # Errors
    /// Those of [`start`](Self::start), and if there was no job.
    pub fn resume(self: &Arc<Self>) -> Result<(), String> {
        let last = self.lock().request.clone();
        let mut request = last.ok_or("there is nothing to resume: no study was started from this page")?;
        request.options.resume = true;
        self.start(request)
    }

    /// Asks the job to stop; its runs end at their next step. Returns whether there is one.
    pub fn stop(&self) -> bool {
        let mut inner = self.lock();
        let active = inner.job.phase.is_active();
        if active {
            inner.job.phase = Phase::Stopping;
            inner.watch.stop.store(true, Ordering::SeqCst);
        }
        active
    }

    /// Waits until the job's thread has ended.
    pub fn join(&self) {
        let thread = self.lock().thread.take();
        // A panic has been caught and told.
        thread.into_iter().for_each(|thread| drop(thread.join()));
    }

    /// A job that the caller executes: events go to the view too.
    ///
    /// # Errors
    /// A text for the user, if another job is running.
    pub fn attach(&self, request: &Request, session: &Session, view: Arc<View>) -> Result<Arc<JobWatch>, String> {
        let watch = self.begin(request, Some(view), Phase::Running)?;
        self.opened(session, &watch);
        Ok(watch)
    }

    fn begin(&self, request: &Request, view: Option<Arc<View>>, phase: Phase) -> Result<Arc<JobWatch>, String> {
        let mut inner = self.lock();
        if inner.job.phase.is_active() {
            return Err("studies are already running here; stop them first".to_owned());
        }
        let before = inner.job.folder;
        let left: Vec<_> = held(&inner.watch.left).drain().collect();
        inner.left.extend(left.into_iter().map(|(run, time)| ((before, run), time)));
        inner.job = Job { phase, folder: request.folder, studies: request.names(), ..Job::default() };
        inner.request = Some(request.clone());
        inner.watch = Arc::new(JobWatch { view, ..JobWatch::default() });
        Ok(Arc::clone(&inner.watch))
    }

    fn execute(&self, request: Request, watch: &JobWatch, opened: &mpsc::Sender<Result<(), String>>) {
        let folder = request.options.folder.clone();
        let session = match self.open(request) {
            Ok(session) => session,
            Err(failure) => {
                self.fail(&failure.message);
                // The receiver may have given up waiting.
                let _ = opened.send(Err(failure.message));
                return;
            }
        };
        self.opened(&session, watch);
        let _ = opened.send(Ok(()));
        let outcome = session.run(watch);
        let command = study::join(&["layernorm".to_owned(), "report".to_owned(), folder.display().to_string()]);
        let report = study::about(command).and_then(|about| Ok(session::report(&folder, about)?));
        drop(session);
        let problem = report.err().filter(|_| outcome.finished > 0).map(|failure| failure.message);
        self.ended(&outcome, problem);
    }

    fn open(&self, request: Request) -> Result<Session, Failure> {
        let data = match &self.data {
            Some(folder) => Dataset::open(folder)?,
            None => Dataset::embedded()?,
        };
        Ok(Session::open(request.options, data)?)
    }

    fn opened(&self, session: &Session, watch: &JobWatch) {
        let total = session.kept() + session.rough_estimate().runs();
        let done = if total == session.kept() { 1.0 } else { 0.0 };
        held(&watch.progress).get_or_insert(Progress { ended: session.kept(), total, done, left: None });
        let mut inner = self.lock();
        if inner.job.phase == Phase::Opening {
            inner.job.phase = Phase::Running;
        }
        if let Some(aside) = session.set_aside() {
            inner.job.message = format!("Runs with different settings were moved to {}.", aside.display());
        }
    }

    /// Notes how the job has ended, and what else went wrong.
    pub fn ended(&self, outcome: &Outcome, problem: Option<String>) {
        let mut inner = self.lock();
        inner.job.phase = if outcome.stopped { Phase::Stopped } else { Phase::Finished };
        (inner.job.ended, inner.job.total, inner.job.left) = (outcome.finished, outcome.total, None);
        inner.job.done = outcome.finished as f64 / outcome.total.max(1) as f64;
        if let Some(message) = study::failures(outcome).or(problem) {
            inner.job.message = message;
        }
    }

    fn fail(&self, message: &str) {
        let mut inner = self.lock();
        inner.job.phase = Phase::Failed;
        inner.job.message = message.to_owned();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        held(&self.inner)
    }
}

/// A panic elsewhere leaves the data valid.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Receives the events of a job's session, and tells it to stop.
#[derive(Default)]
pub struct JobWatch {
    progress: Mutex<Option<Progress>>,
    /// By worker.
    running: Mutex<BTreeMap<usize, Running>>,
    /// Unfinished runs that were left, and when.
    left: Mutex<HashMap<String, SystemTime>>,
    stop: AtomicBool,
    /// Also told, and also asked whether to stop.
    view: Option<Arc<View>>,
}

impl Watcher for JobWatch {
    fn event(&self, event: Event<'_>, progress: &Progress) {
        *held(&self.progress) = Some(*progress);
        let mut running = held(&self.running);
        match event {
            Event::Began { worker, run, .. } => {
                running.insert(worker, Running { run: run.to_owned(), done: Some(0.0), words: String::new() });
            }
            Event::Progress { worker, run, done, words } => {
                let done = done.is_finite().then_some(done);
                running.insert(worker, Running { run: run.to_owned(), done, words: words.to_owned() });
            }
            Event::Ended { worker, run, ending, .. } => {
                running.remove(&worker);
                if *ending != Ending::Finished {
                    held(&self.left).insert(run.to_owned(), SystemTime::now());
                }
            }
        }
        drop(running);
        if let Some(view) = &self.view {
            view.event(event, progress);
        }
    }

    fn stop(&self) -> bool {
        self.stop.load(Ordering::SeqCst) || self.view.as_ref().is_some_and(|view| view.stop())
    }
}

/// The number of parallel runs: as many as there are cores.
pub fn cores() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}
