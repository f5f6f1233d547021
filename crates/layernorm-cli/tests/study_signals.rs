//! `layernorm study` killed, interrupted and started twice, and `layernorm train` interrupted.
#![cfg(unix)]

mod study_common;

use layernorm::parts::SplitMix64;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use study_common::{Place, Said, is_finished, records};

/// Studies whose records must survive anything, with options that keep them short.
const STUDIES: &str =
    "study worked-example batch-size invariance epsilon gain-bias train-test implementations --seeds 1 --batch-size 1";
/// A study that takes a while and has many steps.
const LONG: &str = "study implementations --full --jobs 1";

/// Random numbers that differ from test to test.
struct Random(SplitMix64);

impl Random {
    fn new() -> Random {
        let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        eprintln!("seed {seed}");
        Random(SplitMix64::new(seed))
    }

    /// From 0 to 1.
    fn next(&mut self) -> f64 {
        self.0.uniform()
    }
}

#[track_caller]
fn wait_until(what: &str, mut there: impl FnMut() -> bool) {
    let start = Instant::now();
    while !there() {
        assert!(start.elapsed() < Duration::from_secs(60), "no {what}");
        sleep(Duration::from_millis(2));
    }
}

/// Sends a signal, as a shell would.
fn signal(name: &str, child: &Child) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

/// Whether a run is in progress.
fn going_on(folder: &Path) -> bool {
    let begun = |bytes: &Vec<u8>| bytes.iter().filter(|&&b| b == b'\n').count() > 3 && !is_finished(bytes);
    records(folder).values().any(begun)
}

/// The bytes of all records in a folder.
fn size(folder: &Path) -> usize {
    records(folder).values().map(Vec::len).sum()
}

#[test]
fn a_study_killed_ten_times_ends_with_the_records_of_an_uninterrupted_one() {
    const KILLS: usize = 10;
    let place = Place::new();
    place.succeed(&format!("{STUDIES} --out unbroken"));
    let unbroken = records(&place.path("unbroken"));
    let whole = size(&place.path("unbroken"));
    assert!(unbroken.len() >= 10);

    let broken = place.path("broken");
    let mut random = Random::new();
    let (mut finished, mut bytes) = (vec![0], vec![0]);
    for kill in 0..KILLS {
        let resume = if kill > 0 { "--resume" } else { "" };
        let mut child = place.command(&format!("{STUDIES} --out broken {resume}")).spawn().unwrap();
        // At some point in each tenth of the work, plus a little, so that it may be anywhere in a step or a line.
        let point = whole as f64 * (kill as f64 + random.next()) / KILLS as f64;
        wait_until("records", || size(&broken) as f64 >= point || child.try_wait().unwrap().is_some());
        sleep(Duration::from_secs_f64(0.05 * random.next()));
        child.kill().unwrap();
        child.wait().unwrap();
        let now = records(&broken);
        for (name, bytes) in &now {
            assert!(unbroken[name].starts_with(bytes), "{name} after kill {kill}: a beginning of the unbroken one");
        }
        // A training run may go back to its last checkpoint; a finished run stays finished.
        finished.push(now.values().filter(|bytes| is_finished(bytes)).count());
        bytes.push(size(&broken));
    }
    let steps = format!("finished: {finished:?}, bytes: {bytes:?} of {whole}");
    eprintln!("{steps}");
    assert!(finished.is_sorted() && finished[KILLS] > finished[1] && finished[1] < unbroken.len(), "{steps}");
    place.succeed(&format!("{STUDIES} --out broken --resume"));
    assert!(records(&broken) == unbroken, "the same bytes, after {steps}");
    // Nothing else is left behind than in the uninterrupted folder.
    let names = |folder: &str| {
        let mut names: Vec<_> =
            fs::read_dir(place.path(folder)).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names("broken/runs"), names("unbroken/runs"));
    assert_eq!(names("broken"), names("unbroken"));
}

#[test]
fn ctrl_c_stops_cleanly_and_says_how_to_continue() {
    let place = Place::new();
    let child = place.command(&format!("{LONG} --out lab")).spawn().unwrap();
    wait_until("run", || going_on(&place.path("lab")));
    signal("-INT", &child);
    let said = Said::from(child.wait_with_output().unwrap());
    assert_eq!(said.status, Some(130), "{}", said.err);
    assert!(said.out.is_empty(), "{}", said.out);
    let program = env!("CARGO_BIN_EXE_layernorm");
    let hint = format!("{program} {LONG} --out lab --resume");
    assert_eq!(said.err.lines().last().map(str::trim), Some(&*hint), "{}", said.err);
    assert!(
        said.err.contains("stopped: ") && said.err.contains(" of 5 runs ") && !said.err.contains("error"),
        "{}",
        said.err
    );
    // The suggested command works and repeats nothing.
    let before = records(&place.path("lab"));
    let said = place.succeed(hint.strip_prefix(program).unwrap());
    assert!(said.out.contains("lab/report.html"), "{}", said.out);
    let after = records(&place.path("lab"));
    assert_eq!(after.len(), 5);
    assert!(before.iter().all(|(name, bytes)| after[name].starts_with(bytes)));
}

#[test]
fn a_request_to_terminate_ends_a_study_at_once() {
    let place = Place::new();
    let mut child = place.command(&format!("{LONG} --out lab")).spawn().unwrap();
    wait_until("run", || going_on(&place.path("lab")));
    signal("-TERM", &child);
    assert_eq!(child.wait().unwrap().signal(), Some(15));
    let entries = fs::read_dir(place.path("lab/runs")).unwrap().map(|entry| entry.unwrap().file_name());
    let names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    assert!(names.iter().all(|name| !name.starts_with(".layernorm-")), "{names:?}");
}

#[test]
fn ctrl_c_stops_a_training_run() {
    let place = Place::new();
    let mut command = place.command("train --model mlp --size 16 --epochs 10000");
    let child = command.spawn().unwrap();
    let path = place.path("trained/train.jsonl");
    let lines = || fs::read(&path).map_or(0, |bytes| bytes.iter().filter(|&&b| b == b'\n').count());
    wait_until("evaluation", || lines() > 1);
    signal("-INT", &child);
    let said = Said::from(child.wait_with_output().unwrap());
    assert_eq!(said.status, Some(130), "{}", said.err);
    assert!(said.err.contains("stopped; run the same command again to continue"), "{}", said.err);
    assert!(place.path("trained/train.checkpoint").is_file() && !is_finished(&fs::read(&path).unwrap()));
}

#[test]
fn without_arguments_it_runs_all_studies() {
    let place = Place::new();
    let mut child = place.command("").spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    // The estimate comes first.
    let first = lines.find(|line| line.starts_with('[')).unwrap();
    assert!(first.contains("/"), "a run of many: {first}");
    signal("-INT", &child);
    let rest: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest:?}");
    assert_eq!(rest.last().unwrap().trim(), format!("{} study --resume", env!("CARGO_BIN_EXE_layernorm")));
    assert!(place.path("lab-out/runs/worked-example.jsonl").is_file());
}

#[test]
fn a_folder_in_use_is_rejected_with_the_process_that_uses_it() {
    let place = Place::new();
    let mut child = place.command(&format!("{LONG} --out lab")).spawn().unwrap();
    wait_until("run", || going_on(&place.path("lab")));
    place.refuse("study epsilon --out lab", &["lab: ", &format!("process {} is using this folder", child.id())]);
    assert!(!place.path("lab/runs/epsilon-1.jsonl").exists());
    place.succeed("study epsilon --seeds 1 --out other");
    // A report may be made from the runs finished so far; here there may be none yet.
    assert!(matches!(place.run("report lab").status, Some(0 | 2)));
    child.kill().unwrap();
    child.wait().unwrap();
    place.succeed("study epsilon --seeds 1 --out lab");
}
