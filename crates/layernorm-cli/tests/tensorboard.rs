//! `--tensorboard`: event files of training runs and studies. `.ci/run tensorboard` shows them to TensorBoard itself.

mod study_common;

use std::fs;
use std::path::{Path, PathBuf};
use study_common::{Place, records};

const TRAIN: &str = "train --model mlp --size 16 --epochs 1";
const STUDY: &str = "study correlation invariance --seeds 1 --epochs 1";

/// All files below a folder, sorted.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(self::files(&path)),
            false => files.push(path),
        }
    }
    files.sort();
    files
}

/// How often a text occurs in a file.
fn occurs(file: &Path, text: &str) -> usize {
    fs::read(file).unwrap().windows(text.len()).filter(|window| *window == text.as_bytes()).count()
}

#[test]
fn training_writes_events_and_the_same_records() {
    let place = Place::new();
    place.succeed(&format!("{TRAIN} --out plain"));
    let said = place.succeed(&format!("{TRAIN} --out shown --tensorboard tb"));
    assert!(said.err.contains("tensorboard --logdir tb"), "{}", said.err);
    let [plain, shown] = ["plain", "shown"].map(|out| fs::read(place.path(out).join("train.jsonl")).unwrap());
    assert!(plain == shown, "the records are those without event files");
    let written = files(&place.path("tb"));
    assert_eq!(written.len(), 1);
    assert!(written[0].starts_with(place.path("tb/shown")), "{written:?}");
    // Before the first step, in the middle and at the end.
    assert_eq!(["loss/validation", "loss/training", "error/test"].map(|tag| occurs(&written[0], tag)), [3, 2, 1]);

    // The same command again writes nothing more; for a run that was trained without it, what there is.
    let bytes = fs::read(&written[0]).unwrap();
    place.succeed(&format!("{TRAIN} --out shown --tensorboard tb"));
    place.succeed(&format!("{TRAIN} --out plain --tensorboard tb"));
    let now = files(&place.path("tb"));
    assert_eq!(now.len(), 2);
    assert!(fs::read(&written[0]).unwrap() == bytes);
    assert_eq!(occurs(&now[0], "loss/validation"), 3);
}

#[test]
fn studies_and_reports_write_a_folder_for_each_run() {
    let place = Place::new();
    place.succeed(&format!("{STUDY} --out plain"));
    place.succeed(&format!("{STUDY} --out shown --tensorboard live"));
    assert!(
        records(&place.path("plain")) == records(&place.path("shown")),
        "the records are those without event files"
    );
    let live = files(&place.path("live"));
    let names: Vec<_> =
        live.iter().map(|file| file.parent().unwrap().strip_prefix(place.path("live")).unwrap()).collect();
    let expected = ["batch", "layer", "none", "rms"].map(|norm| format!("correlation/mlp-{norm}/seed-01"));
    // `invariance` trains nothing.
    assert_eq!(names, expected.each_ref().map(Path::new));

    // Finished runs, without training; twice the same.
    let told = place.succeed("report plain --tensorboard later").out;
    assert!(told.contains("4 runs that train a network for TensorBoard: tensorboard --logdir later"), "{told}");
    let later = files(&place.path("later"));
    assert_eq!(later.len(), 4);
    place.succeed("report plain --tensorboard later");
    place.succeed(&format!("{STUDY} --out plain --tensorboard later"));
    assert_eq!(files(&place.path("later")), later);
    for tag in ["loss/validation", "variance after the norm/", "correlation after the norm/", "settings", "norm"] {
        let [live, later] = [&live, &later].map(|files| files.iter().map(|file| occurs(file, tag)).collect::<Vec<_>>());
        assert_eq!(live, later, "{tag}");
    }
}

#[test]
fn a_killed_run_continues_its_curves() {
    let place = Place::new();
    let command = "train --model gru --size 32 --epochs 3 --out killed --tensorboard tb";
    let mut child = place.command(command).spawn().unwrap();
    while !place.path("killed/train.checkpoint").exists() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let before = files(&place.path("tb"));
    let seen = occurs(&before[0], "loss/validation");
    place.succeed(command);
    let after = files(&place.path("tb"));
    // A fast machine may have finished before.
    assert!(after.len() == 2 || seen == 7, "{after:?} {seen}");
    assert_eq!(after.iter().map(|file| occurs(file, "loss/validation")).sum::<usize>(), 7, "no step is written twice");
}

#[test]
fn what_cannot_be_written_is_refused_before_training() {
    let place = Place::new();
    fs::write(place.path("file"), "").unwrap();
    for command in [format!("{TRAIN} --out a"), format!("{STUDY} --out a")] {
        place.refuse(&format!("{command} --tensorboard file"), &["--tensorboard: file: "]);
        place.refuse(&format!("{command} --tensorboard file/tb"), &["--tensorboard: file/tb: "]);
        assert!(!place.path("a/runs").exists() && !place.path("a/train.jsonl").exists());
    }
    // A run of the same name with other settings is not mixed with the first.
    place.succeed(&format!("{TRAIN} --out one/net --tensorboard tb"));
    let before = files(&place.path("tb"));
    let words = ["--tensorboard: tb/net: ", "the same settings", "choose another folder"];
    place.refuse(&format!("{TRAIN} --seed 2 --out two/net --tensorboard tb"), &words);
    assert_eq!(files(&place.path("tb")), before);
    place.succeed(&format!("{STUDY} --out study --tensorboard tb"));
    let lab = records(&place.path("study"));
    place.refuse(
        &format!("{STUDY} --lr 0.5 --out study --tensorboard tb"),
        &["tb/correlation/mlp-none/seed-01", "others"],
    );
    assert!(records(&place.path("study")) == lab && !place.path("study/old-1").exists(), "nothing was moved aside");
}
