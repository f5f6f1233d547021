//! `layernorm study` in parts: shards in folders of their own, processes that share a folder, and merging.
#![cfg(unix)]

mod study_common;

use std::process::Child;
use std::thread::sleep;
use std::time::Duration;
use study_common::{Place, is_finished, records};

/// Studies with training runs and without, short.
const STUDIES: &str = "study worked-example batch-size invariance epsilon train-test --seeds 1 --batch-size 1 --jobs 1";
const SHARDS: usize = 8;
/// The shards that are killed.
const KILLED: [usize; 3] = [2, 5, 7];

/// Starts a shard.
fn start(place: &Place, number: usize, out: &str) -> Child {
    place.command(&format!("{STUDIES} --shard {number}/{SHARDS} {out}")).spawn().unwrap()
}

/// Starts all shards, kills three of them at different times, and starts those again.
fn with_kills(place: &Place, out: impl Fn(usize) -> String) {
    let mut shards: Vec<Child> = (1..=SHARDS).map(|number| start(place, number, &out(number))).collect();
    for (turn, number) in KILLED.into_iter().enumerate() {
        sleep(Duration::from_millis(40 + 150 * turn as u64));
        // It may have ended by now.
        let _ = shards[number - 1].kill();
        shards[number - 1].wait().unwrap();
        shards[number - 1] = start(place, number, &out(number));
    }
    for (index, shard) in shards.into_iter().enumerate() {
        let output = shard.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "shard {}: {said}", index + 1);
    }
}

#[test]
fn shards_killed_and_restarted_merge_to_the_records_of_one_process() {
    let place = Place::new();
    place.succeed(&format!("{STUDIES} --out one"));
    with_kills(&place, |number| format!("--out part-{number}"));
    let parts: Vec<String> = (1..=SHARDS).map(|number| format!("part-{number}")).collect();
    for part in &parts {
        let records = records(&place.path(part));
        assert!(!records.is_empty() && records.values().all(|bytes| is_finished(bytes)), "{part}");
        assert!(!place.path(part).join("report.html").exists(), "the report is made of all shards");
    }
    let said = place.succeed(&format!("study merge all {}", parts.join(" ")));
    assert!(said.out.contains("all/report.html"), "{}", said.out);
    assert!(records(&place.path("all")) == records(&place.path("one")), "the same bytes");

    let said = place.run(&format!("study merge some {}", parts[1..].join(" ")));
    assert_eq!(said.status, Some(1), "{}", said.err);
    assert!(said.err.contains("not finished in any folder"), "{}", said.err);
}

#[test]
fn processes_that_share_a_folder_leave_the_records_of_one() {
    let place = Place::new();
    place.succeed(&format!("{STUDIES} --out one"));
    with_kills(&place, |_| "--shared --out all".to_owned());
    assert!(records(&place.path("all")) == records(&place.path("one")), "the same bytes");
    assert!(place.path("all/report.html").exists());
}

#[test]
fn bad_shards_and_folders_are_refused() {
    let place = Place::new();
    place.refuse("study epsilon --shard 9/8", &["--shard", "expected I/N with I from 1 to N"]);
    place.refuse("study merge all", &["DIR"]);
    place.refuse("study merge all nowhere", &["nowhere/runs: expected records of finished runs, found none"]);
    assert!(!place.path("nowhere").exists(), "nothing is created");
    for seeds in [1, 2] {
        place.succeed(&format!("study epsilon --seeds {seeds} --shard 1/2 --out seeds-{seeds}"));
    }
    place.refuse("study merge all seeds-1 seeds-2", &["cannot merge", "plan.json", "different plans"]);
}
