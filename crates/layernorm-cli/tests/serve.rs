//! `layernorm serve` and `layernorm study --serve`: what they show, and to how many.
#![cfg(unix)]

mod serve_common;
mod study_common;

use serve_common::{PATIENCE, Process, Server, Viewer};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use study_common::{Place, is_finished, records, report_data};

/// Studies that take a few seconds.
const SMALL: &str = "worked-example epsilon invariance train-test --seeds 2";
const NOW: Duration = Duration::ZERO;

/// The finished runs of a folder, as a viewer names them.
fn finished(folder: &Path, number: usize) -> BTreeSet<String> {
    let name = |name: &String| format!("{number}/{}", name.strip_suffix(".jsonl").unwrap());
    records(folder).iter().filter(|(_, bytes)| is_finished(bytes)).map(|(run, _)| name(run)).collect()
}

/// The same set, and each run once.
#[track_caller]
fn same_runs(viewer: &Viewer, expected: &BTreeSet<String>) {
    assert_eq!(viewer.runs.iter().cloned().collect::<BTreeSet<_>>(), *expected);
    assert_eq!(viewer.runs.len(), expected.len(), "each run once");
}

/// Resident memory of a process in MB.
fn resident(process: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() / 1024
}

/// Number of a process's open files, among them connections.
fn open_files(process: u32) -> usize {
    std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count()
}

/// Says that it is over when it is dropped, also by a failure.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn fifty_viewers_of_another_process_miss_nothing_and_take_no_memory() {
    let place = Place::new();
    let server = Server::start(&place, "serve lab");
    assert_eq!(server.get("").status, 200);
    let (before, files) = (resident(server.child.id()), open_files(server.child.id()));
    let expected = place.succeed(&format!("study {SMALL} --out expected"));
    assert!(expected.out.contains("supported"));
    let all: BTreeSet<String> = finished(&place.path("expected"), 0);
    assert!(all.len() >= 8, "{all:?}");
    let done = |viewer: &Viewer| viewer.finished(0) as usize == all.len() && viewer.runs.len() >= all.len();
    let mut most = before;
    let (broken, ended) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let watch = |pause: Duration, first: Duration| {
            let (mut viewer, all, done) = (server.view(0), &all, &done);
            scope.spawn(move || {
                sleep(first);
                viewer.until("all runs", pause, done);
                same_runs(&viewer, all);
            })
        };
        // The lock belongs to this other process.
        let study = Process::start(&place, &format!("study {SMALL} --out lab"));
        let mut viewers: Vec<_> = (0..30).map(|_| watch(NOW, NOW)).collect();
        // Slow readers: they take nothing at first, and then a line now and then.
        viewers.extend((0..10).map(|n| watch(Duration::from_millis(20), Duration::from_millis(300 * n))));
        // Those that break off, at once or after the first event, and come back until the study ends.
        for n in 0..10 {
            let (server, broken, ended) = (&server, &broken, &ended);
            scope.spawn(move || {
                while !ended.load(Relaxed) {
                    let mut viewer = server.view(0);
                    if n % 2 == 0 {
                        viewer.next(NOW);
                    }
                    drop(viewer);
                    broken.fetch_add(1, Relaxed);
                    sleep(Duration::from_millis(20));
                }
            });
        }
        let _end = End(&ended);
        while viewers.iter().any(|viewer| !viewer.is_finished()) {
            most = most.max(resident(server.child.id()));
            sleep(Duration::from_millis(20));
        }
        study.succeed();
        viewers.into_iter().for_each(|viewer| viewer.join().unwrap());
    });
    assert_eq!(finished(&place.path("lab"), 0), all);
    let broken = broken.into_inner();
    assert!(broken > 20, "{broken} viewers broke off");
    // Connections that have ended are closed here too.
    let start = Instant::now();
    while open_files(server.child.id()) > files {
        assert!(start.elapsed() < PATIENCE, "{} open files, {files} before", open_files(server.child.id()));
        sleep(Duration::from_millis(20));
    }
    // A viewer has a message of at most 60 KB and a buffer of 16 KB, together 4 MB for 50; a report is read and made with
    // about ten times the memory of its page, here less than 1 MB. The rest is what allocators keep.
    eprintln!("resident memory: {before} MB before, at most {most} MB; {broken} viewers broke off");
    assert!(most < before + 64, "{before} MB before, {most} MB with 50 viewers");
}

#[test]
fn a_viewer_that_reconnects_continues_where_it_was() {
    let place = Place::new();
    place.succeed("study worked-example epsilon invariance --seeds 2 --out lab");
    let server = Server::start(&place, "serve lab");
    let mut whole = server.view(0);
    let all = finished(&place.path("lab"), 0);
    whole.until("the report", NOW, |viewer| viewer.findings.len() > 8 && viewer.finished(0) as usize == all.len());
    same_runs(&whole, &all);
    // Broken off after every event, with another process at work in between.
    place.succeed("study train-test --seeds 2 --out expected");
    let total = all.len() + records(&place.path("expected")).len();
    let study = Process::start(&place, "study train-test --seeds 2 --out lab");
    let (mut runs, mut last, mut broken, mut finished_runs) = (Vec::new(), 0, 0, 0);
    let start = Instant::now();
    while finished_runs < total {
        let mut viewer = server.view(last);
        viewer.last = last;
        // The last state has the highest number, so there may be nothing to read until something happens.
        last = viewer.next(NOW).id;
        broken += 1;
        finished_runs = finished_runs.max(viewer.finished(0) as usize);
        runs.extend(viewer.runs);
        assert!(start.elapsed() < PATIENCE, "{runs:?}");
    }
    study.succeed();
    assert!(broken > 5, "{broken}");
    let all = finished(&place.path("lab"), 0);
    assert_eq!(runs.iter().cloned().collect::<BTreeSet<_>>(), all);
    assert_eq!(runs.len(), all.len(), "each run once");
    // A number that this server never gave out means the start.
    let mut viewer = server.view(1_000_000_000);
    viewer.until("all runs", NOW, |viewer| viewer.runs.len() == all.len());
}

#[test]
fn studies_are_started_stopped_and_resumed() {
    let place = Place::new();
    let server = Server::start(&place, "serve lab other");
    for (path, body, status, words) in [
        ("stop", "{}", 409, "no study is running here"),
        ("resume", "{}", 409, "nothing to resume"),
        ("start", "", 400, "expected what to start"),
        ("start", "[]", 400, "expected what to start"),
        ("start", r#"{"folder":0,"studies":["epsilom"],"full":false,"seeds":null}"#, 400, "did you mean epsilon?"),
        ("start", r#"{"folder":2,"studies":["epsilon"],"full":false,"seeds":null}"#, 400, "expected a folder below 2"),
        ("start", r#"{"folder":0,"studies":["epsilon"],"full":false,"seeds":0}"#, 400, "expected from 1 to 1000 seeds"),
        ("start", r#"{"folder":0,"studies":["epsilon"],"full":false,"seeds":-1}"#, 400, "expected what to start"),
        ("start", r#"{"folder":0,"studies":["epsilon"],"full":false,"out":"/tmp"}"#, 400, "unknown field"),
    ] {
        let response = server.post(path, body);
        assert_eq!(response.status, status, "{path} {body}: {}", response.body);
        assert!(response.body.contains(words), "{path} {body}: {}", response.body);
    }
    let mut viewer = server.view(0);
    let start = r#"{"folder":1,"studies":["train-test","epsilon"],"full":false,"seeds":4}"#;
    assert_eq!(server.post("start", start).status, 202);
    let again = server.post("start", start);
    assert_eq!((again.status, again.body.contains("already running")), (409, true));
    let running = |viewer: &Viewer| {
        viewer.state["folders"][1]["running"]
            .as_array()
            .is_some_and(|runs| runs.iter().any(|run| run["words"].as_str().unwrap().contains("loss")))
    };
    viewer.until("a loss", NOW, running);
    assert_eq!(viewer.phase(), "running");
    assert_eq!(viewer.finished(0), 0);
    assert_eq!(server.post("stop", "{}").status, 202);
    viewer.until("stopped", NOW, |viewer| viewer.phase() == "stopped");
    let before = records(&place.path("other"));
    assert!(before.values().any(|bytes| !is_finished(bytes)), "stopped before the end");
    viewer.until("at rest", NOW, |viewer| viewer.state["folders"][1]["running"].as_array().unwrap().is_empty());
    assert_eq!(server.post("resume", "{}").status, 202);
    viewer.until("finished", NOW, |viewer| {
        viewer.phase() == "finished" && viewer.finished(1) > 0 && viewer.finished(1) == viewer.state["job"]["total"]
    });
    same_runs(&viewer, &finished(&place.path("other"), 1));
    assert!(place.path("other/report.html").is_file());
    // The records are those of the command.
    place.succeed("study train-test epsilon --seeds 4 --out expected");
    assert!(records(&place.path("other")) == records(&place.path("expected")), "the same bytes");
    // A folder that another process is using is named, and left alone.
    let study = Process::start(&place, "study implementations --full --jobs 1 --out lab");
    viewer.until("another process", NOW, |viewer| {
        viewer.state["folders"][0]["running"].as_array().is_some_and(|runs| !runs.is_empty())
    });
    let busy = server.post("start", r#"{"folder":0,"studies":["epsilon"],"full":false,"seeds":1}"#);
    assert_eq!(busy.status, 409);
    assert!(busy.body.contains(&format!("process {} is using this folder", study.id())), "{}", busy.body);
    viewer.until("failed", NOW, |viewer| {
        viewer.phase() == "failed" && viewer.state["job"]["message"].as_str().unwrap().contains("is using this folder")
    });
    drop(study);
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn two_folders_are_compared() {
    let place = Place::new();
    place.succeed("study epsilon --seeds 1 --out one");
    place.succeed("study epsilon worked-example --seeds 2 --out two");
    let server = Server::start(&place, "serve one two one");
    let mut viewer = server.view(0);
    viewer.until("both reports", NOW, |viewer| {
        (0..2).all(|n| {
            viewer.state["folders"][n]["report"].as_u64().unwrap_or(0) > 0
                && viewer.state["folders"][n]["verdicts"]["supported"] != 0
        })
    });
    let of = |folder: u64| {
        viewer
            .findings
            .iter()
            .filter(|finding| finding["folder"] == folder)
            .map(|finding| finding["id"].to_string())
            .collect::<BTreeSet<_>>()
    };
    assert!(of(0).len() >= 2 && of(1).is_superset(&of(0)) && of(1).len() > of(0).len(), "{:?}, {:?}", of(0), of(1));
    assert!(viewer.findings.iter().all(|finding| finding["result"].as_str().is_some_and(|result| !result.is_empty())));
    let page = |folder: u64| report_data(&server.get(&format!("?folder={folder}")).body);
    assert!(!page(0).contains("runs/worked-example.jsonl") && page(1).contains("runs/worked-example.jsonl"));
    assert!(page(0).contains(r#""folders":["one","two"]"#), "each folder once");
    // Damaged records are named, and the last report stays.
    let path = place.path("two/runs/worked-example.jsonl");
    let damaged = std::fs::read_to_string(&path).unwrap().replacen("\"sum\":\"", "\"sum\":\"0", 2);
    std::fs::write(&path, damaged).unwrap();
    viewer.until("a problem", NOW, |viewer| {
        viewer.state["folders"][1]["problem"].as_str().is_some_and(|problem| problem.contains("worked-example.jsonl"))
    });
    assert!(page(1).contains("runs/worked-example.jsonl"));
}

#[test]
fn ctrl_c_ends_the_server_with_the_status_of_its_studies() {
    let place = Place::new();
    // Nothing runs: 0, even with a viewer.
    let server = Server::start(&place, "serve lab");
    let mut viewer = server.view(0);
    viewer.next(NOW);
    assert_eq!(server.end().0, Some(0));
    // A study that was started from the page is stopped.
    let server = Server::start(&place, "serve lab");
    let mut viewer = server.view(0);
    assert_eq!(
        server.post("start", r#"{"folder":0,"studies":["implementations"],"full":true,"seeds":null}"#).status,
        202
    );
    viewer.until("running", NOW, |viewer| viewer.phase() == "running");
    let (status, said) = server.end();
    assert_eq!(status, Some(130), "{said}");
    assert!(said.contains("stopped; ") && !said.contains("error"), "{said}");
}

#[test]
fn a_study_that_serves_shows_itself_and_keeps_serving() {
    let place = Place::new();
    let mut server = Server::start(&place, "study worked-example epsilon --seeds 1 --out lab --serve");
    let mut viewer = server.view(0);
    viewer.until("finished", NOW, |viewer| {
        viewer.phase() == "finished" && viewer.finished(0) == viewer.state["job"]["total"]
    });
    same_runs(&viewer, &finished(&place.path("lab"), 0));
    let mut line = String::new();
    while !line.starts_with("Report ") {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut server.out, &mut line).unwrap() > 0, "the findings");
    }
    assert_eq!(server.get("").status, 200);
    let report = report_data(&std::fs::read_to_string(place.path("lab/report.html")).unwrap());
    assert!(report.contains("layernorm study worked-example epsilon --seeds 1 --out lab\""), "without --serve");
    let (status, said) = server.end();
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("still served"), "{said}");
    // Stopped from the page, and then ended.
    let server = Server::start(&place, "study implementations --full --jobs 1 --out long --serve");
    let mut viewer = server.view(0);
    viewer.until("running", NOW, |viewer| viewer.phase() == "running" && viewer.state["folders"][0]["unfinished"] != 0);
    assert_eq!(server.post("stop", "{}").status, 202);
    viewer.until("stopped", NOW, |viewer| viewer.phase() == "stopped");
    let (status, said) = server.end();
    assert_eq!(status, Some(130), "{said}");
    // Ctrl-C while it runs ends both.
    let server = Server::start(&place, "study implementations --full --jobs 1 --out long --serve --resume");
    let mut viewer = server.view(0);
    viewer.until("running", NOW, |viewer| viewer.phase() == "running");
    let (status, said) = server.end();
    assert_eq!(status, Some(130), "{said}");
    assert!(said.contains("--resume"), "{said}");
}
