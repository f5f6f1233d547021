//! The pages of the folders: built when someone looks and runs have finished since, and then shared by all viewers.

use super::hub::Entry;
use super::state::Counts;
use crate::failure::Failure;
use crate::study;
use axum::body::Bytes;
use layernorm_lab::report::{self, About, Finding, Report, Verdicts};
use layernorm_lab::session;
use layernorm_lab::studies::catalog;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The shortest pause between two reports of a folder.
const PAUSE: Duration = Duration::from_secs(1);
/// A report that takes t to make is made again after this many t, so that it leaves the processor to the runs.
const REST: u32 = 8;

/// A report, ready to be sent.
#[derive(Clone, Default)]
pub struct Built {
    /// Grows with every report of the folder.
    pub number: u64,
    pub page: Bytes,
    pub data: Bytes,
    /// Why the report is not that of the records.
    pub problem: Option<String>,
    pub findings: Arc<Vec<Entry>>,
    pub counts: Counts,
}

/// The reports of all folders.
pub struct Reports {
    machine: About,
    names: Vec<String>,
    folders: Vec<Slot>,
}

struct Slot {
    folder: PathBuf,
    /// Counts changes of the finished runs.
    changes: AtomicU64,
    /// Held while a report is made, so that it is made once.
    making: Mutex<Made>,
    built: Mutex<Built>,
}

#[derive(Default)]
struct Made {
    /// The changes that the report includes.
    changes: u64,
    /// When the next may be made.
    next: Option<Instant>,
}

/// What the page's script needs to show progress and controls; `page/live.js` lists the fields.
#[derive(Serialize)]
struct Live<'a> {
    events: &'static str,
    report: String,
    start: &'static str,
    stop: &'static str,
    resume: &'static str,
    folder: usize,
    number: u64,
    folders: &'a [String],
    studies: Vec<Study>,
}

#[derive(Serialize)]
struct Study {
    name: &'static str,
    question: &'static str,
    /// How long it takes, if that is so long that it is not part of `all`.
    takes: Option<&'static str>,
}

impl Reports {
    pub fn new(folders: &[PathBuf]) -> Result<Reports, Failure> {
        let slot = |folder: &PathBuf| Slot {
            folder: folder.clone(),
            changes: AtomicU64::new(1),
            making: Mutex::default(),
            built: Mutex::default(),
        };
        let names = folders.iter().map(|folder| folder.display().to_string()).collect();
        Ok(Reports { machine: study::about(String::new())?, names, folders: folders.iter().map(slot).collect() })
    }

    /// Notes that the finished runs of a folder have changed.
    pub fn changed(&self, folder: usize) {
        self.folders[folder].changes.fetch_add(1, Ordering::SeqCst);
    }

    /// The report as it is; empty if none was made yet.
    pub fn built(&self, folder: usize) -> Built {
        held(&self.folders[folder].built).clone()
    }

    /// The report of the finished runs, made now if it is out of date and the last one was not made just before.
    pub fn latest(&self, folder: usize) -> Built {
        let slot = &self.folders[folder];
        let mut made = held(&slot.making);
        let changes = slot.changes.load(Ordering::SeqCst);
        let now = Instant::now();
        if made.changes != changes && made.next.is_none_or(|next| next <= now) {
            let number = held(&slot.built).number + 1;
            let built = self.build(folder, number);
            *held(&slot.built) = built;
            *made = Made { changes, next: Some(Instant::now() + PAUSE.max(REST * now.elapsed())) };
        }
        self.built(folder)
    }

    fn build(&self, folder: usize, number: u64) -> Built {
        let command = ["layernorm", "report", &self.names[folder]].map(str::to_owned);
        let about = || About { command: study::join(&command), made: session::today(), ..self.machine.clone() };
        let made = session::assemble(&self.folders[folder].folder, about()).map_err(|error| error.to_string());
        let made = made.and_then(|report| {
            let served = report::served(&report, &self.live(folder, number)).map_err(|error| error.to_string())?;
            Ok((report, served))
        });
        match made {
            Ok((report, served)) => {
                let findings =
                    || report.stories.iter().flat_map(|story| story.findings.iter().map(|one| (&story.id, one)));
                Built {
                    number,
                    page: served.page.into(),
                    data: served.data.into(),
                    problem: None,
                    counts: Verdicts::of(findings().map(|(_, finding)| finding)).into(),
                    findings: Arc::new(findings().map(|(study, finding)| entry(folder, study, finding)).collect()),
                }
            }
            Err(problem) => self.failed(folder, number, about(), problem),
        }
    }

    /// After an error: the last report that could be made, or an empty one.
    fn failed(&self, folder: usize, number: u64, about: About, problem: String) -> Built {
        let old = self.built(folder);
        if !old.page.is_empty() {
            return Built { problem: Some(problem), ..old };
        }
        let empty = Report { title: self.names[folder].clone(), about, summary: vec![], stories: vec![], runs: vec![] };
        let (page, data) = report::served(&empty, &self.live(folder, number))
            .map_or_else(|_| Default::default(), |served| (served.page.into(), served.data.into()));
        Built { number, page, data, problem: Some(problem), ..Built::default() }
    }

    fn live(&self, folder: usize, number: u64) -> Live<'_> {
        let study = |study: &'static dyn layernorm_lab::studies::Study| Study {
            name: study.name(),
            question: study.question(),
            takes: study.takes(),
        };
        Live {
            events: "events",
            report: format!("report?folder={folder}"),
            start: "start",
            stop: "stop",
            resume: "resume",
            folder,
            number,
            folders: &self.names,
            studies: catalog::all().into_iter().map(study).collect(),
        }
    }
}

fn entry(folder: usize, study: &str, finding: &Finding) -> Entry {
    Entry::Finding {
        folder,
        study: study.to_owned(),
        id: finding.id.clone(),
        claim: finding.claim.clone(),
        verdict: Some(finding.verdict),
        result: finding.result.clone(),
    }
}

/// A panic elsewhere leaves the data valid.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
