//! `layernorm study`, `report` and `data`: what they print, write and reject.

mod study_common;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use study_common::{Place, is_finished, records, report_data};

#[test]
fn the_list_has_names_and_questions() {
    let said = Place::new().succeed("study --list");
    for name in ["worked-example", "compare", "invariance", "epsilon", "gain-bias", "train-test", "implementations"] {
        let line = said.out.lines().find(|line| line.trim_start().starts_with(name));
        assert!(line.is_some_and(|line| line.ends_with('?')), "{name}: {}", said.out);
    }
    let long = said.out.lines().find(|line| line.contains("draw-paper"));
    assert!(long.is_some_and(|line| line.contains("? (not part of `all`; about ")), "{}", said.out);
}

#[test]
fn help_shows_examples_and_says_what_happens_to_old_runs() {
    let place = Place::new();
    for (command, words) in [
        ("study --help", &["Examples:", "--resume", "old-1", "130"][..]),
        ("report --help", &["Examples:", "old-1"]),
        ("data --help", &["Examples:", "get"]),
        ("data get --help", &["mnist", "fashion-mnist", "checksum"]),
        ("--help", &["study", "report", "data", "tour"]),
    ] {
        let help = place.succeed(command).out;
        assert!(words.iter().all(|word| help.contains(word)), "{command}: {help}");
    }
}

#[test]
fn bad_arguments_are_refused_before_anything_is_written() {
    let place = Place::new();
    for (arguments, words) in [
        ("epsilom", &["epsilom", "did you mean epsilon?", "worked-example", "implementations"][..]),
        ("epsilon nothing-like-it", &["nothing-like-it", "expected one or more of"]),
        ("--seeds 0", &["expected a whole number from 1 to 1000"]),
        ("--seeds 99999999999999", &["expected a whole number from 1 to 1000"]),
        ("--epochs 0", &["expected a whole number from 1 to 100000"]),
        ("--batch-size -3", &["expected a whole number, 1 or more"]),
        ("--jobs 0", &["expected a whole number, 1 or more"]),
        ("--lr 0", &["expected a number above 0"]),
        ("--lr -0.1", &["expected a number above 0"]),
        ("--lr NaN", &["expected a number above 0"]),
        ("--lr inf", &["expected a number above 0"]),
        ("--lr fast", &["expected a number above 0"]),
        ("--lr 1e40", &["expected a number above 0", "f32"]),
        ("--lr 1e-46", &["expected a number above 0", "f32"]),
        ("--data nowhere", &["nowhere", "cannot open the folder"]),
        ("--list --full", &["--list"]),
        ("epsilon --array 0-3", &["--array works only with --engine slurm"]),
        ("epsilon --engine local --array 0-3", &["--array works only with --engine slurm"]),
        ("epsilon --sbatch-args --partition=cpu", &["--sbatch-args works only with --engine slurm"]),
        ("epsilon --estimate --array 0-3", &["--array works only with --engine slurm"]),
        ("epsilon --engine slurm --array 3-0", &["expected FIRST-LAST"]),
        ("epsilon --engine slurm --jobs 2", &["--jobs does not work with --engine slurm", "--cpus-per-task"]),
    ] {
        place.refuse(&format!("study {arguments}"), words);
    }
    assert_eq!(fs::read_dir(place.path("")).unwrap().count(), 0);
    fs::write(place.path("file"), "").unwrap();
    place.refuse("study epsilon --out file", &["file: "]);
    fs::create_dir(place.path("empty")).unwrap();
    place.refuse("study epsilon --data empty", &["empty", "train-images-idx3-ubyte"]);
}

#[test]
fn two_studies_leave_records_and_a_report_and_are_not_repeated() {
    let place = Place::new();
    let command = "study epsilon worked-example --seeds 2 --out out";
    let first = place.succeed(command);
    // Plain lines if stderr is not a terminal, one per run.
    assert!(!first.err.contains(['\r', '\x1b']), "{:?}", first.err);
    for run in ["epsilon-1", "epsilon-2", "worked-example"] {
        assert_eq!(
            first.err.lines().filter(|line| line.starts_with('[') && line.contains(run)).count(),
            1,
            "{}",
            first.err
        );
    }
    assert!(first.err.contains("[3/3]"), "{}", first.err);
    for part in
        ["worked example", "What ε does", "12 questions: 12 supported, 0 contradicted", "out/report.html", "Next:"]
    {
        assert!(first.out.contains(part), "{part}: {}", first.out);
    }
    let page = fs::read_to_string(place.path("out/report.html")).unwrap();
    assert!(report_data(&page).contains(&format!("layernorm {command}")), "the report says how it was made");
    let before = records(&place.path("out"));
    assert_eq!(before.keys().collect::<Vec<_>>(), ["epsilon-1.jsonl", "epsilon-2.jsonl", "worked-example.jsonl"]);
    assert!(before.values().all(|bytes| is_finished(bytes)));
    let times = || {
        let time = |name: &String| place.path("out/runs").join(name).metadata().unwrap().modified().unwrap();
        before.keys().map(time).collect::<Vec<_>>()
    };
    let when = times();

    for command in [command.to_owned(), format!("{command} --resume")] {
        let again = place.succeed(&command);
        assert_eq!(again.out, first.out);
        assert!(again.err.contains("3 runs are already finished in out") && !again.err.contains('['), "{}", again.err);
        assert_eq!((&records(&place.path("out")), times()), (&before, when.clone()));
    }
    // The number of jobs does not change any byte.
    for jobs in [1, 2, 5] {
        place.succeed(&format!("study epsilon worked-example --seeds 2 --out jobs-{jobs} --jobs {jobs}"));
        assert_eq!(records(&place.path(&format!("jobs-{jobs}"))), before);
    }
    // Another study is added; its table shows only that study.
    let more = place.succeed("study invariance --seeds 1 --out out");
    assert!(more.out.contains("Table 1") && !more.out.contains("What ε does"), "{}", more.out);
    let all = place.succeed("report out");
    assert!(all.out.contains("Table 1") && all.out.contains("What ε does"), "{}", all.out);
}

#[test]
fn runs_with_other_settings_are_moved_aside_and_can_be_shown() {
    let place = Place::new();
    place.succeed("study batch-size --batch-size 100 --epochs 1 --seeds 2 --out out");
    let one = records(&place.path("out"));
    let two = "study batch-size --batch-size 100 --epochs 2 --seeds 1 --out out";
    let said = place.run(&format!("{two} --resume"));
    let words = ["batch-size-", "options: expected \"--epochs 2 --batch-size 100\", found", "--resume", "old-1"];
    assert_eq!(said.status, Some(2), "{}", said.err);
    assert!(words.iter().all(|word| said.err.contains(word)) && !said.err.contains('{'), "{}", said.err);
    assert_eq!(said.err.matches("choose another folder").count(), 1, "{}", said.err);
    assert_eq!(records(&place.path("out")), one);
    let said = place.succeed(two);
    assert!(said.err.contains("were moved to out/old-1"), "{}", said.err);
    assert_eq!(records(&place.path("out/old-1")), one);
    let after = records(&place.path("out"));
    assert_eq!(2 * after.len(), one.len(), "no seed of the old ones is mixed with the new ones");
    assert!(after.iter().all(|(name, bytes)| one[name] != *bytes));
    place.succeed("report out/old-1");
    assert!(place.path("out/old-1/report.html").is_file());
}

#[test]
fn a_setting_that_does_not_fit_the_data_is_reported_once() {
    let place = Place::new();
    let words = [
        "batch-size-lstm-none-1000000-1",
        "batch size: expected 1 to 300, found 1000000",
        "9 others cannot run either",
    ];
    place.refuse("study batch-size --batch-size 1000000 --epochs 1 --seeds 1", &words);
    assert!(!place.path("lab-out/runs").exists(), "nothing is left behind");
}

#[test]
fn a_failed_run_is_reported_at_the_end_and_the_others_continue() {
    let place = Place::new();
    // A folder in place of a file that the run writes.
    fs::create_dir_all(place.path("lab-out/runs/implementations-512x64.times.json")).unwrap();
    let said = place.run("study worked-example implementations");
    assert_eq!(said.status, Some(1), "{}", said.err);
    let end = said.err.split("error: ").last().unwrap();
    assert!(end.starts_with("1 of 4 runs failed:\n  implementations-512x64: "), "{}", said.err);
    assert!(said.out.contains("worked example") && place.path("lab-out/report.html").is_file());
    // Once it can write the file, the run continues.
    fs::remove_dir(place.path("lab-out/runs/implementations-512x64.times.json")).unwrap();
    let said = place.succeed("study worked-example implementations");
    assert!(
        said.err.contains("3 runs are already finished") && said.err.contains("implementations-512x64"),
        "{}",
        said.err
    );
}

#[test]
fn a_damaged_record_is_named() {
    let place = Place::new();
    place.succeed("study epsilon --seeds 1");
    let path = place.path("lab-out/runs/epsilon-1.jsonl");
    let bytes = fs::read(&path).unwrap();
    let middle = bytes.iter().position(|&b| b == b'\n').unwrap() + 5;
    for (what, damaged) in [
        ("line 2", [&bytes[..middle], b"\xff", &bytes[middle + 1..]].concat()),
        ("line 1", [b"{}\n", &bytes[..]].concat()),
        ("version 7", b"{\"record\":\"start\",\"version\":7}\n".to_vec()),
    ] {
        fs::write(&path, &damaged).unwrap();
        place.refuse("study epsilon --seeds 1", &["epsilon-1.jsonl", what]);
        place.refuse("report lab-out", &["epsilon-1.jsonl", what]);
        assert_eq!(fs::read(&path).unwrap(), damaged, "it is left as it is");
    }
    // A truncated last line is not damage: the run continues from the line before.
    fs::write(&path, &bytes[..bytes.len() - 9]).unwrap();
    place.succeed("study epsilon --seeds 1");
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn a_report_needs_records() {
    let place = Place::new();
    place.refuse("report nowhere", &["nowhere", "layernorm study"]);
    place.refuse("report", &["DIR"]);
    assert!(!place.path("nowhere").exists());
}

#[test]
fn a_failed_download_is_an_error_with_the_address() {
    let place = Place::new();
    place.refuse("data get cifar", &["possible values: mnist, fashion-mnist"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/files", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let length = stream.read(&mut request).unwrap();
        stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
        String::from_utf8_lossy(&request[..length]).into_owned()
    });
    place.refuse(
        &format!("data get mnist --to here --from {address}"),
        &["here/train-images-idx3-ubyte.gz", &address, "404"],
    );
    assert!(server.join().unwrap().starts_with("GET /files/train-images-idx3-ubyte.gz "));
    assert_eq!(fs::read_dir(place.path("here")).unwrap().count(), 0, "nothing half-written");
}
