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
    Options {
        folder: folder.to_owned(),
        studies: vec![&Fake],
        settings,
        workers,
        resume: false,
        shard: None,
        shared: false,
        tensorboard: None,
    }
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
    assert!(
        ["fake-1.jsonl", "epochs: expected 9, found null", "old-1"].iter().all(|word| error.contains(word)),
        "{error}"
    );
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
    assert_eq!(page, crate::report::html(&report).unwrap());
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

/// The folders of all shards of `seeds` runs, finished.
fn shards(place: &Path, count: usize, settings: &Settings) -> Vec<PathBuf> {
    let run_shard = |number: usize| {
        let folder = place.join(format!("part-{number}"));
        let shard = Shard::new(number, count);
        let outcome = run(Options { shard, ..options(&folder, settings.clone()) }, &Counter::default());
        assert!(outcome.failures.is_empty() && outcome.finished == outcome.total);
        folder
    };
    (1..=count).map(run_shard).collect()
}

#[test]
fn finished_runs_are_counted_shard_by_shard() {
    let place = tempfile::tempdir().unwrap();
    let all = options(&place.path().join("all"), seeds(7));
    let (whole, parts) = (Wanted::all(&all, data()), Wanted::of_shards(&all, data(), NonZeroUsize::new(3).unwrap()));
    assert_eq!((whole.len(), whole.finished(&all.folder).unwrap()), (7, 0), "there is no folder");
    let folders = shards(place.path(), 3, &seeds(7));
    for (number, (part, folder)) in parts.iter().zip(&folders).enumerate() {
        let own = files(folder).len();
        assert_eq!((part.len(), part.finished(folder).unwrap()), (own, own), "the runs that --shard selects");
        assert_eq!(part.finished(&folders[(number + 1) % 3]).unwrap(), 0);
    }
    merge(&all.folder, &folders[..2]).unwrap();
    assert_eq!(whole.finished(&all.folder).unwrap(), 5);
    let other = options(&all.folder, Settings { epochs: Some(9), ..seeds(7) });
    assert_eq!(Wanted::all(&other, data()).finished(&all.folder).unwrap(), 0, "runs with other settings");
    // More shards than runs.
    let many = Wanted::of_shards(&all, data(), NonZeroUsize::new(9).unwrap());
    assert_eq!((many.len(), many.iter().filter(|part| part.is_empty()).count()), (9, 2));
}

#[test]
fn merged_shards_have_the_bytes_of_one_session() {
    let place = tempfile::tempdir().unwrap();
    let one = place.path().join("one");
    run(options(&one, seeds(7)), &Counter::default());
    let parts = shards(place.path(), 3, &seeds(7));
    assert_eq!(parts.iter().map(|part| files(part).len()).collect::<Vec<_>>(), [3, 2, 2]);
    std::fs::write(parts[0].join("runs/fake-1.times.json"), "{}").unwrap();
    std::fs::write(parts[0].join("runs/fake-1.checkpoint"), "").unwrap();
    let all = place.path().join("all");
    let merged = merge(&all, &parts).unwrap();
    assert_eq!(merged, Merged { copied: 7, kept: 0, unfinished: vec![] });
    let mut found = files(&all);
    assert_eq!(found.remove("fake-1.times.json").as_deref(), Some(&b"{}"[..]), "times come along, checkpoints do not");
    assert_eq!(found, files(&one));
    // A shard without runs, because there are more shards than runs.
    let empty = place.path().join("empty");
    let outcome = run(Options { shard: Shard::new(9, 9), ..options(&empty, seeds(7)) }, &Counter::default());
    assert_eq!((outcome.total, outcome.stopped), (0, false));
    assert_eq!(merge(&all, &[empty]).unwrap().kept, 7);
    // Again: everything is there already. And a merged folder can be continued like any other.
    assert_eq!(merge(&all, &parts).unwrap(), Merged { copied: 0, kept: 7, unfinished: vec![] });
    assert_eq!(run(Options { resume: true, ..options(&all, seeds(8)) }, &Counter::default()).finished, 8);
}

#[test]
fn missing_and_unfinished_runs_are_named() {
    let place = tempfile::tempdir().unwrap();
    let parts = shards(place.path(), 3, &seeds(7));
    let stopped = place.path().join("stopped");
    let shard = Shard::new(3, 3);
    let watcher = Counter { patience: Some(STEPS + 3), ..Counter::default() };
    assert!(run(Options { shard, ..options(&stopped, seeds(7)) }, &watcher).stopped);
    let merged = merge(&place.path().join("all"), &[parts[0].clone(), stopped]).unwrap();
    let missing: Vec<String> = files(&parts[1]).into_keys().chain(files(&parts[2]).into_keys()).collect();
    let mut missing: Vec<String> = missing.iter().map(|name| name.replace(".jsonl", "")).collect();
    missing.sort();
    assert_eq!((merged.copied, merged.unfinished.len()), (4, 3));
    assert!(merged.unfinished.iter().all(|run| missing.contains(run)), "{:?} of {missing:?}", merged.unfinished);
}

#[test]
fn records_that_do_not_fit_together_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let (one, other, all) = (place.path().join("one"), place.path().join("other"), place.path().join("all"));
    run(options(&one, seeds(2)), &Counter::default());
    let refused = |words: &str| {
        let error = merge(&all, &[one.clone(), other.clone()]).unwrap_err();
        assert!(error.to_string().contains(words), "expected {words:?} in {error}");
        assert!(!all.join("runs").exists(), "nothing is written");
    };
    refused("expected records of finished runs, found none");
    run(options(&other, Settings { epochs: Some(9), ..seeds(1) }), &Counter::default());
    refused("different settings");
    // The same run with other results, as of another version of the program.
    std::fs::remove_dir_all(&other).unwrap();
    let header = RunPlan::computation("fake", "fake-1", FakeRun { number: 1, epochs: None, data: data().label() });
    let mut file = RunFile::open(&other.join("runs"), header.header().clone()).unwrap();
    file.event("step", json!(7)).unwrap();
    file.finish().unwrap();
    drop(file);
    refused("both are finished, with different results");
    // Shards of other plans.
    let parts = shards(place.path(), 2, &seeds(4));
    std::fs::remove_dir_all(&other).unwrap();
    run(Options { shard: Shard::new(2, 2), ..options(&other, seeds(3)) }, &Counter::default());
    let error = merge(&all, &[parts[0].clone(), other.clone()]).unwrap_err().to_string();
    assert!(error.contains("plan.json") && error.contains("different plans"), "{error}");
    // A shard that is still at work.
    let session = Session::open(options(&other, seeds(3)), data().clone()).unwrap();
    assert!(matches!(merge(&all, std::slice::from_ref(&other)), Err(Error::Busy { .. })));
    drop(session);
}

#[test]
fn sessions_that_share_a_folder_divide_the_runs() {
    let place = tempfile::tempdir().unwrap();
    let (one, all) = (place.path().join("one"), place.path().join("all"));
    run(options(&one, seeds(12)), &Counter::default());
    let watchers: Vec<Counter> = (0..4).map(|_| Counter::default()).collect();
    std::thread::scope(|scope| {
        for (number, watcher) in watchers.iter().enumerate() {
            let shard = Shard::new(number + 1, 4);
            let options = Options { shard, shared: true, ..options(&all, seeds(12)) };
            scope.spawn(move || assert_eq!(run(options, watcher).finished, 12));
        }
    });
    assert_eq!(files(&all), files(&one));
    let steps: usize = watchers.into_iter().map(|watcher| watcher.steps.into_inner()).sum();
    assert_eq!(steps, 12 * STEPS, "no run is executed twice");
    // While sessions share the folder, no other may use it, and the other way round.
    let shared = || Session::open(Options { shared: true, ..options(&all, seeds(12)) }, data().clone());
    let session = shared().unwrap();
    assert!(matches!(Session::open(options(&all, seeds(12)), data().clone()), Err(Error::Busy { .. })));
    assert!(shared().is_ok());
    drop(session);
    let session = Session::open(options(&all, seeds(12)), data().clone()).unwrap();
    assert!(matches!(shared(), Err(Error::Busy { .. })));
    drop(session);
    // Runs with different settings are never moved aside from under another session.
    let other = Settings { epochs: Some(9), ..seeds(1) };
    let error = Session::open(Options { shared: true, ..options(&all, other) }, data().clone()).err().unwrap();
    assert!(matches!(error, Error::OtherSettings { .. }), "{error}");
}

#[test]
fn a_run_that_another_session_gives_up_is_continued() {
    let place = tempfile::tempdir().unwrap();
    let (one, all) = (place.path().join("one"), place.path().join("all"));
    run(options(&one, seeds(2)), &Counter::default());
    let header = RunPlan::computation("fake", "fake-1", FakeRun { number: 1, epochs: None, data: data().label() });
    let claim = || RunFile::claim(&all.join("runs"), header.header().clone()).unwrap();
    let mut held = claim().unwrap();
    assert!(claim().is_none());
    held.event("step", json!(0)).unwrap();
    std::thread::scope(|scope| {
        let options = Options { shared: true, ..options(&all, seeds(2)) };
        let session = scope.spawn(move || {
            let watcher = Counter::default();
            (run(options, &watcher), watcher.began.into_inner().unwrap())
        });
        let second = all.join("runs/fake-2.jsonl");
        let start = std::time::Instant::now();
        while !std::fs::read_to_string(&second).is_ok_and(|text| text.contains("\"end\"")) {
            assert!(start.elapsed().as_secs() < 60, "the other run is not finished");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(!session.is_finished(), "it waits for the run that another session holds");
        drop(held);
        let (outcome, began) = session.join().unwrap();
        assert_eq!(outcome.finished, 2);
        assert_eq!(began.last(), Some(&("fake-1".to_owned(), true)), "{began:?}");
    });
    assert_eq!(files(&all), files(&one));
}
