//! `layernorm study`: the estimate before long sessions, and the Python that the study `implementations` may find.

mod study_common;

use study_common::{Place, records, report_data};

#[test]
fn the_estimate_counts_runs_and_writes_nothing() {
    let place = Place::new();
    let said = place.succeed("study epsilon compare --seeds 2 --full --estimate --jobs 2 --out out");
    assert_eq!(said.err, "");
    let lines: Vec<Vec<&str>> = said.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["study", "runs", "time"]);
    let runs = |line: &[&str]| line[1].parse::<usize>().unwrap();
    let names = || lines[1..3].iter().map(|line| line[0]);
    assert!(names().eq(["epsilon", "compare"]) || names().eq(["compare", "epsilon"]), "{}", said.out);
    let all = lines[1..3].iter().map(|line| runs(line)).sum::<usize>().to_string();
    assert_eq!(lines[3][..2], [&all, "runs"]);
    assert!(said.out.contains("2 at a time") && !said.out.contains("about 1 s "), "{}", said.out);
    assert!(!place.path("out").exists());
    place.refuse("study epsilon --estimate --engine slurm", &["--estimate", "--engine"]);
    place.refuse("study compare --estimate --batch-size 99999", &["batch size"]);
}

#[test]
fn full_studies_say_how_long_they_take_and_short_ones_do_not() {
    let place = Place::new();
    let full = place.succeed("study worked-example --full --out full");
    assert!(full.err.starts_with("1 run will take about "), "{}", full.err);
    let again = place.succeed("study worked-example --full --out full");
    assert!(!again.err.contains("will take"), "{}", again.err);
    let finished = place.succeed("study worked-example --full --estimate --out full");
    assert!(finished.out.starts_with("0 runs will take"), "{}", finished.out);
    let short = place.succeed("study worked-example --out short");
    assert!(!short.err.contains("will take"), "{}", short.err);
}

#[cfg(unix)]
#[test]
fn a_python_on_the_path_changes_neither_the_records_nor_the_output() {
    use std::os::unix::fs::PermissionsExt;

    let place = Place::new();
    let with = |script: Option<&str>, out: &str| {
        let path = place.path("python3");
        let mut command = place.command(&format!("study implementations --out {out}"));
        command.env_remove("LAYERNORM_PYTHON");
        match script {
            // This test is the only one here that writes a program, so no other thread holds the file open.
            Some(script) => {
                std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
                let paths = std::env::var("PATH").unwrap_or_default();
                command.env("PATH", format!("{}:{paths}", place.path("").display()));
            }
            None => drop(command.env("LAYERNORM_PYTHON", "")),
        }
        let said: study_common::Said = command.output().unwrap().into();
        assert_eq!(said.status, Some(0), "{script:?}: {}", said.err);
        let runs: Vec<&str> = said.err.lines().filter(|line| !line.starts_with('[')).collect();
        assert!(runs.is_empty(), "{script:?}: {runs:?}");
        let stored = place.path(out).join("runs/implementations-512x64.python.json").exists();
        (records(&place.path(out)), stored)
    };
    let errors = r#"[{"mean":0.0,"spread":1.0,"units":2.0,"failure":null}]"#;
    let package = |name: &str| format!(r#"{{"package":"{name}","nanoseconds_per_element":0.5,"errors":{errors}}}"#);
    let packages = ["layernorm", "numpy"].map(package).join(",");
    let shapes = format!(r#"[{{"rows":512,"elements":64,"packages":[{packages}]}}]"#);
    let found = format!(r#"{{"python":"3.14","numpy":"2.4","torch":null,"layernorm":"0.1.0","shapes":{shapes}}}"#);
    let (without, stored) = with(None, "without");
    assert!(!stored && without.len() == 3);
    let hangs = with(Some("echo Traceback >&2; sleep 30"), "hangs");
    assert_eq!(hangs, (without.clone(), false));
    let answers = with(Some(&format!("echo '{{\"torch\": false}}'\necho '{found}'")), "answers");
    assert_eq!(answers, (without, true));
    let page = report_data(&std::fs::read_to_string(place.path("answers/report.html")).unwrap());
    assert!(page.contains("python-time") && page.contains("From Python 3.14, NumPy 2.4"));
}
