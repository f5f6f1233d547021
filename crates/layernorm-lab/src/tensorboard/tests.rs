use super::protobuf::{event, read_event};
use super::read::{self, Entry};
use super::writer::Writer;
use super::{Error, Folder, frame, name, name_of_folder, protobuf};
use crate::models::{Arch, Norm};
use crate::records::{Header, Record, RunFile};
use crate::training::Spec;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// A run of a study.
fn header(norm: Norm) -> Header {
    let spec = Spec::new(Arch::mlp(&[4]), norm, 3, "digits");
    Header::new("compare", "compare-mlp-3", json!({"case": "mlp", "seed": 3, "spec": spec}))
}

fn evaluate(step: usize, loss: Option<f64>) -> (&'static str, Value) {
    let train_loss = (step > 0).then_some(0.5);
    (
        "evaluate",
        json!({"step": step, "train_loss": train_loss, "train_accuracy": null, "loss": loss, "accuracy": 0.75}),
    )
}

/// The events of a run: two at each evaluation, and one without a step at the end.
fn events() -> Vec<(&'static str, Value)> {
    let at = |step: usize| {
        let gradients = json!({"step": step, "places": ["layer 1", "logits"], "norms": [step as f64, null]});
        [("gradients", gradients), evaluate(step, Some(2.0 / (1 + step) as f64))]
    };
    let test = ("test", json!({"name": "", "loss": 0.25, "accuracy": 0.9}));
    // An event without values comes between others.
    let statistics = ("statistics", json!({"norms": []}));
    [0, 10, 20].into_iter().flat_map(at).chain([statistics, test]).collect()
}

/// A place with a folder for records and one for TensorBoard.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn folder(&self) -> Folder {
        Folder::open(&self.path("tb")).unwrap()
    }

    fn run(&self) -> PathBuf {
        self.path("tb/compare/mlp/seed-03")
    }

    fn shown(&self) -> Vec<Entry> {
        read::all(&self.run()).unwrap()
    }

    fn files(&self) -> Vec<PathBuf> {
        read::files(&self.run()).unwrap()
    }

    /// The records, followed by a writer.
    fn followed(&self) -> RunFile {
        let mut file = RunFile::open(&self.path("runs"), header(Norm::Layer)).unwrap();
        file.follow(writer(&self.folder())).unwrap();
        file
    }
}

fn writer(folder: &Folder) -> Writer {
    let header = header(Norm::Layer);
    folder.writer(&name(&header), &header).unwrap().unwrap()
}

fn add(file: &mut RunFile, events: &[(&str, Value)]) {
    events.iter().for_each(|(name, data)| file.event(name, data.clone()).unwrap());
}

fn record(events: &[(&str, Value)], finished: bool) -> Record {
    let mut record = Record::new(header(Norm::Layer));
    record.events =
        events.iter().map(|(name, data)| crate::records::Event { name: (*name).into(), data: data.clone() }).collect();
    record.finished = finished;
    record
}

/// What is shown of a record that is written at once.
fn whole(events: &[(&str, Value)], finished: bool) -> Vec<Entry> {
    let place = Place::new();
    assert!(place.folder().write("compare/mlp/seed-03", &record(events, finished), UNIX_EPOCH).unwrap());
    place.shown()
}

#[test]
fn a_run_is_shown_while_it_is_written() {
    let (place, events) = (Place::new(), events());
    let mut file = place.followed();
    for done in 0..events.len() {
        assert_eq!(place.shown(), whole(&events[..done], false), "{done}");
        add(&mut file, &events[done..=done]);
    }
    file.finish().unwrap();
    let shown = place.shown();
    assert_eq!(shown, whole(&events, true));
    let steps: Vec<u64> = shown.iter().map(|entry| entry.step).collect();
    // Settings, two events at each of three steps, the test and the end; nothing for the statistics.
    assert_eq!(steps, [0, 0, 0, 10, 10, 20, 20, 20, 20]);
    assert_eq!(place.files().len(), 1);
}

#[test]
fn a_resumed_run_writes_what_is_missing() {
    let events = events();
    for killed in 0..=events.len() {
        for kept in 0..=killed {
            let place = Place::new();
            add(&mut place.followed(), &events[..killed]);
            let before = place.shown();
            let mut file = place.followed();
            // As after a kill: the events after the last checkpoint are removed and come again.
            file.rewind(kept).unwrap();
            assert_eq!(place.shown(), before, "nothing that comes again is removed");
            add(&mut file, &events[kept..]);
            file.finish().unwrap();
            assert_eq!(place.shown(), whole(&events, true), "{killed} {kept}");
            assert_eq!(place.files().len(), 2);
            // The second file begins with the version and the start of a session.
            let bytes = fs::read(&place.files()[1]).unwrap();
            let mut bytes = &bytes[..];
            let mut next = || frame::next(&mut bytes).unwrap().unwrap();
            assert!(next().ends_with(b"brain.Event:2"));
            assert!(read_event(&next()).unwrap().start);
        }
    }
}

#[test]
fn other_results_replace_those_of_the_same_steps() {
    let (place, first) = (Place::new(), events());
    add(&mut place.followed(), &first);
    let mut other = first.clone();
    other[3] = evaluate(10, Some(7.0));
    let mut file = place.followed();
    file.rewind(2).unwrap();
    add(&mut file, &other[2..]);
    file.finish().unwrap();
    assert_eq!(place.shown(), whole(&other, true));
    assert_ne!(place.shown(), whole(&first, true));
}

#[test]
fn a_truncated_or_damaged_file_is_completed() {
    let (all, shown) = (record(&events(), true), whole(&events(), true));
    let place = Place::new();
    let write = || assert!(place.folder().write("compare/mlp/seed-03", &all, UNIX_EPOCH).unwrap());
    write();
    let path = place.files().remove(0);
    let bytes = fs::read(&path).unwrap();
    for end in (0..bytes.len()).step_by(7) {
        place.files().iter().for_each(|file| fs::remove_file(file).unwrap());
        fs::write(&path, &bytes[..end]).unwrap();
        write();
        assert_eq!(place.shown(), shown, "{end}");
        let mut damaged = bytes.clone();
        damaged[end] ^= 1;
        place.files().iter().for_each(|file| fs::remove_file(file).unwrap());
        fs::write(&path, &damaged).unwrap();
        write();
        assert_eq!(place.shown(), shown, "{end}, damaged");
    }
}

#[test]
fn nothing_is_written_twice_and_times_are_those_of_the_record() {
    let place = Place::new();
    let (all, folder) = (record(&events(), true), place.folder());
    let changed = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    for _ in 0..3 {
        assert!(folder.write("compare/mlp/seed-03", &all, changed).unwrap());
    }
    assert_eq!(place.files().len(), 1);
    let bytes = fs::read(&place.files()[0]).unwrap();
    let mut bytes = &bytes[..];
    let mut count = 0;
    while let Some(message) = frame::next(&mut bytes).unwrap() {
        assert_eq!(message[..9], [&[9][..], &1.7e9f64.to_le_bytes()].concat());
        count += 1;
    }
    assert_eq!(count, 2 + whole(&events(), true).len());
}

#[test]
fn runs_with_other_settings_are_not_mixed() {
    let place = Place::new();
    add(&mut place.followed(), &events());
    let (name, other) = (name(&header(Norm::Layer)), header(Norm::None));
    let error = place.folder().writer(&name, &other).unwrap_err();
    assert!(matches!(&error, Error::Taken { folder } if *folder == place.run()), "{error}");
    let words = error.to_string();
    assert!(words.contains("seed-03") && words.contains("choose another folder"), "{words}");
    // Event files of another program.
    let summary = protobuf::summary(&[protobuf::value("loss", "scalars", None, &protobuf::scalar(1.0))]);
    let foreign = frame::framed(&event(1.0, 0, &protobuf::What::Summary(&summary)));
    fs::create_dir_all(place.path("tb/other")).unwrap();
    fs::write(place.path("tb/other/events.out.tfevents.1.host"), foreign).unwrap();
    assert!(matches!(place.folder().check("other", &header(Norm::Layer)), Err(Error::Taken { .. })));
}

#[test]
fn runs_that_train_nothing_have_no_folder() {
    let place = Place::new();
    let header = Header::new("epsilon", "epsilon", json!({"seed": 1}));
    assert!(!place.folder().check("epsilon", &header).unwrap());
    assert!(place.folder().writer("epsilon", &header).unwrap().is_none());
    assert!(!place.folder().write("epsilon", &Record::new(header), UNIX_EPOCH).unwrap());
    assert_eq!(fs::read_dir(place.path("tb")).unwrap().count(), 0);
}

#[test]
fn names_are_folders_and_stay_inside() {
    let of = |study: &str, settings: Value| name(&Header::new(study, "run-1", settings));
    assert_eq!(of("compare", json!({"case": "lstm-layer-5e-4", "seed": 12})), "compare/lstm-layer-5e-4/seed-12");
    assert_eq!(of("train", json!({})), "train/run-1");
    assert_eq!(of("../..", json!({"case": "../a\\b", "seed": 1})), "_.._../_.._a_b/seed-01");
    assert_eq!(of("/", json!({"case": "", "seed": -1})), "_/_/seed--1");
    let place = Place::new();
    fs::create_dir(place.path("my run")).unwrap();
    assert_eq!(name_of_folder(&place.path("my run")), "my_run");
    assert_eq!(name_of_folder(&place.path("my run/.")), "my_run");
    assert_eq!(name_of_folder(Path::new("/")), "_");
}

#[test]
fn errors_name_the_place() {
    let place = Place::new();
    fs::write(place.path("file"), "").unwrap();
    let error = Folder::open(&place.path("file")).unwrap_err().to_string();
    assert!(error.contains("--tensorboard") && error.contains("file"), "{error}");
    // The folder of the run cannot be created when the first event comes.
    let mut writer = writer(&place.folder());
    fs::write(place.path("tb/compare"), "").unwrap();
    let error = writer.write(&record(&events(), false)).unwrap_err().to_string();
    assert!(error.contains("seed-03"), "{error}");
    // The record keeps the event whose copy failed.
    fs::remove_file(place.path("tb/compare")).unwrap();
    let mut file = place.followed();
    add(&mut file, &events()[..2]);
    assert_eq!(file.record().events.len(), 2);
}

/// Values that are not finite, missing, or of another version.
#[test]
fn unusual_events_are_shown_or_left_out() {
    let diverged = [evaluate(0, None), ("diverged", json!({"step": 4}))];
    let shown = whole(&diverged, true);
    assert_eq!(shown.iter().map(|entry| entry.step).collect::<Vec<_>>(), [0, 0, 4, 4]);
    let nan = protobuf::value("loss/training", "scalars", None, &protobuf::scalar(f64::NAN));
    assert_eq!(shown[2].summary, protobuf::summary(&[nan]));
    let later = [
        ("evaluate", json!({"step": "ten"})),
        ("gradients", json!(null)),
        ("activations", json!({"step": 1, "layer": "a", "points": [], "shares": [0, 0, 0]})),
        ("correlation", json!({"step": 1, "layer": "a", "units": 3, "before": [1], "after": []})),
        ("new", json!({"step": 3})),
    ];
    assert_eq!(whole(&later, false).len(), 1, "the settings alone");
}
