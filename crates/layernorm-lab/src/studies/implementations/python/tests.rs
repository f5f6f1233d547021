use super::*;
use crate::studies::Study;
use crate::studies::implementations::Implementations;
use crate::studies::tools::testing;
use std::fmt::Write as _;
use std::path::PathBuf;
use tempfile::TempDir;

const SHORT: Limits = Limits {
    first_line: Duration::from_millis(400),
    results: Duration::from_millis(600),
    with_torch: Duration::from_millis(3000),
};

/// Asks a shell that executes `script` in place of Python; also returns how long it took.
fn asked(script: &str, stop: bool) -> (Option<Found>, Duration) {
    let start = Instant::now();
    let found = ask(OsStr::new("/bin/sh"), &["-c", script].map(OsString::from), SHORT, &|| stop);
    (found, start.elapsed())
}

/// Results in which everything takes `slow` times as long as this library.
fn results(torch: bool, slow: f64) -> String {
    let errors = || {
        let input = |(mean, spread)| PackageError {
            mean,
            spread,
            units: (mean != 1e6).then_some(2.0),
            failure: (mean == 1e6).then(|| "all 0".to_owned()),
        };
        INPUTS.map(input).to_vec()
    };
    let package = |(package, nanoseconds_per_element)| Measured { package, nanoseconds_per_element, errors: errors() };
    let mut packages = vec![package((Package::Layernorm, 0.25)), package((Package::Numpy, 0.25 * slow))];
    packages.extend(torch.then(|| package((Package::Torch, 0.25 * slow))));
    let shape = |(rows, elements)| Shape { rows, elements, packages: packages.clone() };
    let found = Found {
        python: "3.11.7".to_owned(),
        numpy: "2.4.0".to_owned(),
        torch: torch.then(|| "2.15.0".to_owned()),
        layernorm: "0.1.0".to_owned(),
        shapes: SHAPES.map(shape).to_vec(),
    };
    serde_json::to_string(&found).unwrap()
}

fn good(torch: bool) -> String {
    format!("echo '{{\"torch\": {torch}}}'; sleep 1; echo '{}'", results(torch, 3.0))
}

#[test]
fn a_python_that_answers_is_understood() {
    let quick = format!("echo '{{\"torch\": false}}'; echo '{}'", results(false, 3.0));
    let (found, _) = asked(&quick, false);
    assert_eq!(serde_json::to_string(&found.unwrap()).unwrap(), results(false, 3.0));
    let (found, took) = asked(&good(true), false);
    assert_eq!(found.unwrap().torch.as_deref(), Some("2.15.0"), "PyTorch gets more time");
    assert!(took > Duration::from_secs(1));
    assert_eq!(asked(&good(false), false).0, None, "without PyTorch it has less time");
}

#[test]
fn a_python_that_hangs_fails_or_talks_nonsense_is_left_alone() {
    let mut no_time = results(false, 3.0).replace("0.75", "0");
    no_time = format!("echo '{{\"torch\": false}}'; echo '{no_time}'");
    let hello = "echo '{\"torch\": false}'";
    for script in [
        "sleep 60".to_owned(),
        "exec sleep 60".to_owned(),
        format!("{hello}; sleep 60"),
        "echo '{\"torch\": t'; sleep 60".to_owned(),
        "exit 1".to_owned(),
        "echo >&2 No module named layernorm; exit 1".to_owned(),
        "yes nonsense".to_owned(),
        format!("{hello}; yes"),
        format!("{hello}; head -c 3000000 /dev/zero"),
        format!("{hello}; echo '{{\"shapes\": []}}'"),
        no_time,
    ] {
        let (found, took) = asked(&script, false);
        assert_eq!(found, None, "{script}");
        // The limit, and time for a busy machine.
        assert!(took < SHORT.results + Duration::from_secs(2), "{script}: {took:?}");
    }
    assert_eq!(ask(OsStr::new("/nowhere/python3"), &[], SHORT, &|| false), None);
    let (found, took) = asked("sleep 60", true);
    assert!(found.is_none() && took < Duration::from_secs(2), "a stopped session does not wait");
}

/// An executable that stands for Python. Another process writes it, so that no thread here holds it open when it starts.
fn fake(folder: &TempDir, script: &str) -> PathBuf {
    let path = folder.path().join("python");
    let mut make = String::new();
    write!(make, "printf '%s' \"$1\" > '{0}' && chmod +x '{0}'", path.display()).unwrap();
    let status = Command::new("/bin/sh").args(["-c", &make, "sh", &format!("#!/bin/sh\n{script}\n")]).status().unwrap();
    assert!(status.success());
    path
}

/// The story of a folder in which this Python was asked.
fn story_with(script: &str) -> (crate::report::Story, usize) {
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    std::fs::create_dir(&runs).unwrap();
    let run = runs.join("implementations-512x64.jsonl");
    let python = fake(&folder, script);
    measure_with(python.as_os_str(), SHORT, &run, 1, &mut testing::Patience(usize::MAX)).unwrap();
    let mut story = Implementations.story(&[]);
    story.answer = "Answer.".to_owned();
    add(&mut story, &runs);
    testing::check(&story);
    (story, std::fs::read_dir(&runs).unwrap().count())
}

#[test]
fn results_are_stored_and_told() {
    // It gets the arguments of the module.
    let script = format!("test \"$1 $2 $3\" = '-m {MODULE} --json' || exit 1\n{}", good(true));
    let (story, files) = story_with(&script);
    assert_eq!((files, story.charts.len(), story.findings.len()), (1, 2, 2));
    assert!(testing::all_supported(&story), "{:?}", story.findings);
    assert!(story.answer.contains("PyTorch took 3 times as long"), "{}", story.answer);
    assert!(story.notes[0].contains("PyTorch 2.15.0"), "{:?}", story.notes);

    let slow = good(true).replace("0.75", "0.2");
    let (story, _) = story_with(&slow);
    let time = story.findings.iter().find(|finding| finding.id == "python-time").unwrap();
    assert!(
        time.result.starts_with("0 of 6 comparisons (not NumPy at 512 × 64, 0.8 times as long;"),
        "{}",
        time.result
    );

    let quick = format!("echo '{{\"torch\": false}}'; echo '{}'", results(false, 3.0));
    let (story, _) = story_with(&quick);
    assert!(story.notes[0].contains("PyTorch was not found"), "{:?}", story.notes);
}

#[test]
fn without_python_the_story_says_how_to_get_the_results() {
    let (story, files) = story_with("exit 1");
    assert_eq!((files, story.charts.len(), story.findings.len()), (0, 0, 0));
    assert!(story.notes.iter().any(|note| note.contains("pip install 'layernorm[torch]'")), "{:?}", story.notes);
    let run = Path::new("/nowhere/implementations-512x64.jsonl");
    measure_with(OsStr::new(""), SHORT, run, 1, &mut testing::Patience(usize::MAX)).unwrap();
}
