//! Sessions of a fake study that can fail, panic and be slow.

use super::*;
use crate::records::{Record, RunFile};
use crate::report::{About, Story};
use crate::studies::tools::testing::data;
use crate::studies::{self, Computation, Observer, catalog, tools};
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs that write a few events. Runs 101, 102 and 103 fail, panic, and end without being marked as finished.
struct Fake;

const STEPS: usize = 20;

impl Study for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }
    fn question(&self) -> &'static str {
        "?"
    }
    fn plan(&self, settings: &Settings) -> Vec<RunPlan> {
        let bad = settings.full.then_some(101..=103).into_iter().flatten();
        let numbers = (1..=settings.seeds.unwrap_or(3)).chain(bad);
        let plan = |number| {
            let settings = FakeRun { number, epochs: settings.epochs, data: settings.data.clone() };
            RunPlan::computation("fake", &format!("fake-{number}"), settings)
        };
        numbers.map(plan).collect()
    }
    fn story(&self, records: &[Record]) -> Story {
        tools::story("fake", "Fake", "?", records)
    }
}

#[derive(Debug, Serialize)]
struct FakeRun {
    number: usize,
    epochs: Option<usize>,
    data: String,
}

impl Computation for FakeRun {
    fn run(&self, file: &mut RunFile, observer: &mut dyn Observer) -> Result<(), studies::Error> {
        let number = self.number;
        let steps: Vec<usize> = (0..STEPS).collect();
        tools::each("step", &steps, 0.0..1.0, file, observer, |&step| match (number, step) {
            (101, 3) => Err(studies::Error::Run("no good".to_owned())),
            (102, 3) => panic!("no {}", "way"),
            _ => Ok(step * number),
        })?;
        if number != 103 {
            file.finish()?;
        }
        Ok(())
    }
}

/// Counts events, and stops after a number of steps.
#[derive(Default)]
struct Counter {
    patience: Option<usize>,
    steps: AtomicUsize,
    began: Mutex<Vec<(String, bool)>>,
    seen: Mutex<Vec<Progress>>,
}

impl Watcher for Counter {
    fn event(&self, event: Event<'_>, progress: &Progress) {
        match event {
            Event::Began { run, resumed, .. } => self.began.lock().unwrap().push((run.to_owned(), resumed)),
            Event::Progress { .. } => {
                self.steps.fetch_add(1, Ordering::SeqCst);
            }
            Event::Ended { .. } => self.seen.lock().unwrap().push(*progress),
        }
    }
    fn stop(&self) -> bool {
        self.patience.is_some_and(|patience| self.steps.load(Ordering::SeqCst) >= patience)
    }
}

fn options(folder: &Path, settings: Settings) -> Options {
    let workers = NonZeroUsize::MIN;
    Options { folder: folder.to_owned(), studies: vec![&Fake], settings, workers, resume: false }
}

fn seeds(seeds: usize) -> Settings {
    Settings { seeds: Some(seeds), ..Settings::default() }
}

fn run(options: Options, watcher: &Counter) -> Outcome {
    Session::open(options, data().clone()).unwrap().run(watcher)
}

/// Every file of `runs`, by name.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = folder.join("runs").read_dir().unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())).collect()
}

fn about() -> About {
    About { program: "p".into(), machine: "m".into(), made: today(), command: "c".into() }
}

#[test]
fn any_number_of_workers_gives_the_same_bytes() {
    let mut all = Vec::new();
    for workers in [1, 2, 7] {
        let folder = tempfile::tempdir().unwrap();
        let workers = NonZeroUsize::new(workers).unwrap();
        let watcher = Counter::default();
        let outcome = run(Options { workers, ..options(folder.path(), seeds(5)) }, &watcher);
        assert_eq!(outcome, Outcome { finished: 5, total: 5, failures: vec![], stopped: false });
        assert_eq!(watcher.steps.into_inner(), 5 * STEPS);
        let seen = watcher.seen.into_inner().unwrap();
        assert_eq!(seen.len(), 5);
        assert!(seen.iter().any(|progress| (progress.ended, progress.total, progress.done) == (5, 5, 1.0)), "{seen:?}");
        all.push(files(folder.path()));
    }
    assert_eq!(all[0].len(), 5);
    assert!(all.iter().all(|files| *files == all[0]));
}

#[test]
fn a_run_that_fails_or_panics_does_not_affect_others() {
    let folder = tempfile::tempdir().unwrap();
    let workers = NonZeroUsize::new(2).unwrap();
    let settings = Settings { full: true, ..seeds(4) };
    let outcome = run(Options { workers, ..options(folder.path(), settings.clone()) }, &Counter::default());
    assert_eq!((outcome.finished, outcome.total, outcome.stopped), (4, 7, false));
    let words = ["no good", "a bug in this program: no way", "without being marked"];
    assert_eq!(outcome.failures.len(), words.len());
    for (failure, (run, word)) in
        outcome.failures.iter().zip(["fake-101", "fake-102", "fake-103"].into_iter().zip(words))
    {
        assert!(failure.run == run && failure.what.contains(word), "{failure:?}");
    }
    // Again: finished runs are kept, failed ones are resumed and fail again.
    let watcher = Counter::default();
    assert_eq!(run(options(folder.path(), settings), &watcher).failures, outcome.failures);
    let began = watcher.began.into_inner().unwrap();
    assert_eq!(began, ["fake-101", "fake-102", "fake-103"].map(|run| (run.to_owned(), true)));
}

#[test]
fn a_stopped_session_resumes() {
    let unbroken = tempfile::tempdir().unwrap();
    run(options(unbroken.path(), seeds(3)), &Counter::default());
    let folder = tempfile::tempdir().unwrap();
    let (mut sessions, mut steps) = (0, 0);
    loop {
        let watcher = Counter { patience: Some(7), ..Counter::default() };
        let workers = NonZeroUsize::new(1 + sessions % 2).unwrap();
        let outcome = run(Options { workers, resume: true, ..options(folder.path(), seeds(3)) }, &watcher);
        sessions += 1;
        steps += watcher.steps.into_inner();
        assert!(outcome.failures.is_empty());
        if !outcome.stopped {
            break;
        }
        assert!(outcome.finished < 3);
    }
    assert!(sessions > 5);
    assert_eq!(steps, 3 * STEPS, "nothing is repeated");
    assert_eq!(files(folder.path()), files(unbroken.path()));
}

#[test]
fn finished_runs_are_not_touched_and_more_seeds_add_to_them() {
    let folder = tempfile::tempdir().unwrap();
    run(options(folder.path(), seeds(2)), &Counter::default());
    let (before, time) = (files(folder.path()), |name: &str| {
        folder.path().join("runs").join(name).metadata().unwrap().modified().unwrap()
    });
    let times: Vec<_> = before.keys().map(|name| time(name)).collect();
    // As left by a run that was killed right after its last line.
    std::fs::write(folder.path().join("runs/fake-1.checkpoint"), "").unwrap();
    let watcher = Counter::default();
    let session = Session::open(options(folder.path(), seeds(3)), data().clone()).unwrap();
    assert_eq!((session.kept(), session.set_aside()), (2, None));
    assert_eq!(session.run(&watcher).finished, 3);
    assert_eq!(watcher.began.into_inner().unwrap(), [("fake-3".to_owned(), false)]);
    drop(session);
    // With fewer seeds, the other runs stay in place.
    assert_eq!(run(options(folder.path(), seeds(1)), &Counter::default()).total, 1);
    let after = files(folder.path());
    assert_eq!(after.len(), 3);
    assert!(before.iter().all(|(name, bytes)| after[name] == *bytes));
    assert_eq!(before.keys().map(|name| time(name)).collect::<Vec<_>>(), times);
}

#[test]
fn runs_with_other_settings_are_moved_aside_or_rejected() {
    let folder = tempfile::tempdir().unwrap();
    run(options(folder.path(), seeds(3)), &Counter::default());
    // A run's files are moved with it; those of others stay.
    let runs = folder.path().join("runs");
    for name in ["fake-1.times.json", "fake-10.times.json", "other.txt"] {
        std::fs::write(runs.join(name), name).unwrap();
    }
    let stranger = Header::new("stranger", "stranger-1", json!({"seed": 1}));
    RunFile::open(&runs, stranger).unwrap().finish().unwrap();
    let before = files(folder.path());

    let other = Settings { epochs: Some(9), ..seeds(1) };
    let resume = Options { resume: true, ..options(folder.path(), other.clone()) };
    let error = Session::open(resume, data().clone()).err().unwrap().to_string();
    assert!(["fake-1.jsonl", "\"epochs\":9", "old-1"].iter().all(|word| error.contains(word)), "{error}");
    assert_eq!(files(folder.path()), before);

    let session = Session::open(options(folder.path(), other.clone()), data().clone()).unwrap();
    let aside = folder.path().join("old-1");
    assert_eq!((session.kept(), session.set_aside()), (0, Some(&*aside)));
    drop(session);
    let kept = ["fake-10.times.json", "other.txt", "stranger-1.jsonl"];
    assert_eq!(files(folder.path()).into_keys().collect::<Vec<_>>(), kept);
    let moved = files(&aside);
    assert_eq!(moved.keys().collect::<Vec<_>>(), ["fake-1.jsonl", "fake-1.times.json", "fake-2.jsonl", "fake-3.jsonl"]);
    assert!(moved.iter().all(|(name, bytes)| before[name] == *bytes));

    // And back again: the second time uses another folder.
    assert_eq!(run(options(folder.path(), other), &Counter::default()).finished, 1);
    let session = Session::open(options(folder.path(), seeds(3)), data().clone()).unwrap();
    assert_eq!(session.set_aside(), Some(&*folder.path().join("old-2")));
    assert_eq!(files(&aside), moved);
}

#[test]
fn a_folder_has_one_session_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::open(options(folder.path(), seeds(1)), data().clone()).unwrap();
    let error = Session::open(options(folder.path(), seeds(1)), data().clone()).err().unwrap();
    assert!(matches!(error, Error::Busy { .. }));
    assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
    drop(session);
    assert!(Session::open(options(folder.path(), seeds(1)), data().clone()).is_ok());
}

#[test]
fn damaged_and_misplaced_records_are_named() {
    let folder = tempfile::tempdir().unwrap();
    run(options(folder.path(), seeds(2)), &Counter::default());
    let runs = folder.path().join("runs");
    let bytes = std::fs::read(runs.join("fake-1.jsonl")).unwrap();
    let refused = |words: &[&str]| {
        let session = Session::open(options(folder.path(), seeds(2)), data().clone()).err().unwrap().to_string();
        let report = report(folder.path(), about()).unwrap_err().to_string();
        assert!(words.iter().all(|word| session.contains(word) && report.contains(word)), "{session}\n{report}");
    };
    std::fs::write(runs.join("fake-1.jsonl"), [&bytes[..99], b"\n", &bytes[99..]].concat()).unwrap();
    refused(&["fake-1.jsonl", "line", "move the file"]);
    std::fs::write(runs.join("fake-1.jsonl"), &bytes).unwrap();
    std::fs::write(runs.join("fake-1 (copy).jsonl"), &bytes).unwrap();
    refused(&["fake-1 (copy).jsonl", "twice"]);
}

#[test]
fn the_report_has_finished_runs_in_study_order() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(report(folder.path(), about()), Err(Error::Nothing { .. })));
    let names = ["epsilon", "worked-example"].map(str::to_owned);
    let studies = choose(&names).unwrap();
    let outcome = run(Options { studies, ..options(folder.path(), seeds(1)) }, &Counter::default());
    assert!(outcome.failures.is_empty() && outcome.finished == outcome.total);
    run(options(folder.path(), seeds(1)), &Counter { patience: Some(3), ..Counter::default() });

    let report = report(folder.path(), about()).unwrap();
    let ids: Vec<&str> = report.stories.iter().map(|story| &*story.id).collect();
    assert_eq!(ids, ["worked-example", "epsilon"]);
    assert_eq!(report.summary[0].what, report.stories[0].title);
    assert_eq!(report.runs.len(), outcome.total, "unfinished runs are not reported");
    assert!(report.runs.iter().all(|run| folder.path().join(&run.file).is_file()));
    let page = std::fs::read_to_string(folder.path().join(REPORT)).unwrap();
    assert!(report.stories.iter().all(|story| page.contains(&story.title)));
}

#[test]
fn times_beside_the_records_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let study = catalog::all().into_iter().find(|study| study.name() == "implementations").unwrap();
    let plan = study.plan(&Settings::default()).remove(0);
    let mut file = RunFile::open(&folder.path().join("runs"), plan.header().clone()).unwrap();
    file.finish().unwrap();
    assert!(report(folder.path(), about()).unwrap().stories[0].charts.iter().all(|chart| chart.id != "time"));
    let times = json!({"rows": 512, "elements": 64, "instruction_set": "scalar", "ways": []});
    std::fs::write(file.path().with_extension("times.json"), times.to_string()).unwrap();
    assert!(report(folder.path(), about()).unwrap().stories[0].charts.iter().any(|chart| chart.id == "time"));
}
