//! Follows the folders and the job, and tells the hub: runs of any process, because what counts is what is in the records.
//!
//! ```text
//! records, job → every 300 ms → finished runs, findings, state → hub
//! changed finished runs, and someone is watching → report (on a thread of its own)
//! ```

use super::Server;
use super::hub::Entry;
use super::reports::Built;
use super::state::{Folder, MOST_RUNNING, Running, State};
use layernorm_lab::session::{Live, LiveRun};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, SystemTime};

/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(300);
/// The same while nobody is watching.
const LONG_PAUSE: Duration = Duration::from_secs(2);
/// An unfinished run of another process counts as running for this long after its records changed: longer than most runs
/// take between two evaluations.
const RECENT: Duration = Duration::from_secs(120);

/// What is known of a folder.
struct Watched {
    number: usize,
    live: Live,
    /// The finished runs that the hub knows, with their studies and the times of their last changes.
    finished: BTreeMap<String, (String, SystemTime)>,
    /// The last error of reading the folder.
    problem: Option<String>,
    /// The last report that the hub knows.
    report: Built,
}

/// Watches until `end` is closed.
pub fn watch(server: &Arc<Server>, end: &Receiver<()>) {
    let watched = |(number, folder): (usize, &PathBuf)| Watched {
        number,
        live: Live::new(folder),
        finished: BTreeMap::new(),
        problem: None,
        report: Built::default(),
    };
    let mut folders: Vec<Watched> = server.folders.iter().enumerate().map(watched).collect();
    let mut waited = LONG_PAUSE;
    loop {
        if server.hub.is_watched() || waited >= LONG_PAUSE {
            waited = Duration::ZERO;
            let mut entries = Vec::new();
            let shown = folders.iter_mut().map(|folder| folder.look(server, &mut entries)).collect();
            let state = State { folders: shown, job: server.control.job() };
            server.hub.publish(entries, &state);
        }
        if !matches!(end.recv_timeout(PAUSE), Err(RecvTimeoutError::Timeout)) {
            return;
        }
        waited += PAUSE;
    }
}

/// Keeps the reports up to date while someone is watching, until `end` is closed.
pub fn report(server: &Arc<Server>, end: &Receiver<()>) {
    while matches!(end.recv_timeout(PAUSE), Err(RecvTimeoutError::Timeout)) {
        if server.hub.is_watched() {
            (0..server.folders.len()).for_each(|folder| drop(server.reports.latest(folder)));
        }
    }
}

impl Watched {
    /// Looks at the folder: adds what has changed to `entries`, and returns its state.
    fn look(&mut self, server: &Server, entries: &mut Vec<Entry>) -> Folder {
        match self.live.refresh() {
            Ok(true) => {
                self.problem = None;
                if self.add_runs(entries) {
                    server.reports.changed(self.number);
                }
            }
            Ok(false) => {}
            Err(error) => self.problem = Some(error.to_string()),
        }
        let report = server.reports.built(self.number);
        if report.number != self.report.number {
            self.add_findings(&report, entries);
        }
        self.report = report;
        let running = self.running(server);
        Folder {
            finished: self.finished.len(),
            unfinished: self.live.runs().filter(|run| !run.finished).count(),
            running,
            verdicts: self.report.counts,
            report: self.report.number,
            problem: self.problem.clone().or_else(|| self.report.problem.clone()),
        }
    }

    /// Adds the runs that have finished, and those that no longer are; returns whether there are any.
    fn add_runs(&mut self, entries: &mut Vec<Entry>) -> bool {
        let folder = self.number;
        let finished = self.live.runs().filter(|run| run.finished);
        let now: BTreeMap<String, (String, SystemTime)> =
            finished.map(|run| (run.run.clone(), (run.study.clone(), run.changed))).collect();
        let entry = |run: &String, study: &String, finished| Entry::Run {
            folder,
            study: study.clone(),
            run: run.clone(),
            finished,
        };
        let gone = self.finished.iter().filter(|(run, _)| !now.contains_key(*run));
        entries.extend(gone.map(|(run, (study, _))| entry(run, study, false)));
        let new = now.iter().filter(|(run, _)| !self.finished.contains_key(*run));
        entries.extend(new.map(|(run, (study, _))| entry(run, study, true)));
        let changed = now != self.finished;
        self.finished = now;
        changed
    }

    /// Adds the findings of a new report, and those that it no longer has.
    fn add_findings(&self, report: &Built, entries: &mut Vec<Entry>) {
        let name = |entry: &Entry| match entry {
            Entry::Finding { study, id, .. } => Some((study.clone(), id.clone())),
            Entry::Run { .. } => None,
        };
        let gone = self.report.findings.iter().filter(|old| !report.findings.iter().any(|new| name(new) == name(old)));
        entries.extend(gone.cloned().map(|mut entry| {
            if let Entry::Finding { verdict, .. } = &mut entry {
                *verdict = None;
            }
            entry
        }));
        entries.extend(report.findings.iter().cloned());
    }

    /// The runs in progress: those of this process, and those whose records have changed lately.
    fn running(&self, server: &Server) -> Vec<Running> {
        let mut running = server.control.running(self.number);
        let now = SystemTime::now();
        let recent = |run: &&LiveRun| {
            let age = now.duration_since(run.changed).unwrap_or_default();
            !run.finished && age < RECENT && !server.control.has_ended(self.number, &run.run, run.changed)
        };
        for LiveRun { run, done, words, .. } in self.live.runs().filter(recent) {
            let there = running.len();
            match running.iter_mut().find(|one| one.run == *run) {
                // The records have the latest results, the process the latest step.
                Some(own) if own.words.is_empty() => own.words.clone_from(words),
                Some(_) => {}
                None if there < MOST_RUNNING => {
                    running.push(Running { run: run.clone(), done: *done, words: words.clone() })
                }
                None => break,
            }
        }
        running
    }
}
