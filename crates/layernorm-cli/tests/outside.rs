//! Unexpected surroundings: environment variables, output that cannot be written, foreign files, too little memory.
#![cfg(unix)]

mod study_common;

use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use study_common::{Place, Said};

const TRAIN: &str = "train --model mlp --size 4 --epochs 1";

#[test]
fn an_impossible_instruction_set_is_reported_once() {
    let place = Place::new();
    let other = if cfg!(target_arch = "aarch64") { "avx2" } else { "neon" };
    for arguments in
        [TRAIN, "study epsilon --seeds 1", "predict model digit.png", "verify", "bench", "report lab", "tour"]
    {
        for name in [other.into(), "garbage".into(), std::ffi::OsString::from_vec(vec![b'a', 0xff])] {
            let output = place.command(arguments).env("LAYERNORM_ISA", &name).output().unwrap();
            let said = Said::from(output);
            assert_eq!((said.status, &*said.out), (Some(2), ""), "{arguments}: {}", said.err);
            assert!(said.err.starts_with("error: ") && said.err.lines().count() == 1, "{arguments}: {}", said.err);
            assert!(!said.err.contains("panicked"), "{arguments}: {}", said.err);
        }
    }
    assert_eq!(fs::read_dir(place.path("")).unwrap().count(), 0, "nothing is written");
}

/// Runs the program from a shell, with its output redirected by `redirect`.
fn shell(place: &Place, before: &str, arguments: &str, redirect: &str) -> Said {
    let script = format!("{before} {} {arguments} {redirect}", env!("CARGO_BIN_EXE_layernorm"));
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(place.path("")).stdin(Stdio::null());
    Said::from(command.output().unwrap())
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_behind_stderr_or_stdout_causes_no_panic() {
    let place = Place::new();
    // The status is 2 even if the message cannot be printed; progress lines are lost.
    for arguments in ["report nowhere", "train --norm bach", "data get mnist --from http://127.0.0.1:1 --to x"] {
        assert_eq!(shell(&place, "", arguments, "2>/dev/full").status, Some(2), "{arguments}");
        assert_eq!(shell(&place, "", arguments, "2>&-").status, Some(2), "{arguments}");
    }
    let said = shell(&place, "", "study epsilon --seeds 1 --out quiet", "2>/dev/full");
    assert!(said.status == Some(0) && said.out.contains("quiet/report.html"), "{:?} {}", said.status, said.out);
    for arguments in ["study --list", "completions bash", "predict --help"] {
        let said = shell(&place, "", arguments, ">/dev/full");
        assert!(!said.err.contains("panicked"), "{arguments}: {}", said.err);
        // A closed pipe, as with `head`, is not an error.
        shell(&place, "{", arguments, "; echo $? > status; } | true");
        assert_eq!(fs::read_to_string(place.path("status")).unwrap(), "0\n", "{arguments}");
    }
    let said = shell(&place, "", "study --list", ">/dev/full");
    assert!(said.status == Some(2) && said.err.starts_with("error: standard output: "), "{}", said.err);
}

#[cfg(target_os = "linux")]
#[test]
fn endless_input_is_an_error() {
    let place = Place::new();
    layernorm_npy::write(place.path("x.npy"), &[2, 1, 3], &[0.0f32; 6]).unwrap();
    for arguments in [
        "weights show /dev/zero",
        "predict /dev/zero --test 0",
        "apply lstm --weights /dev/zero --input x.npy --output y.npy",
    ] {
        // A bug would take all memory of the machine.
        let said = shell(&place, "ulimit -v 8000000;", arguments, "");
        assert_eq!(said.status, Some(2), "{arguments}: {}", said.err);
        let words = "expected at most 1073741824 bytes from a pipe or device, found more";
        assert!(said.err.contains(words), "{arguments}: {}", said.err);
    }
}

#[test]
fn names_do_not_control_the_terminal() {
    let place = Place::new();
    for arguments in ["predict a\u{1b}[31mb --test 0", "weights show a\u{1b}[31mb", "report a\u{1b}[31mb"] {
        let said = Said::from(place.command(arguments).output().unwrap());
        assert_eq!(said.status, Some(2), "{arguments:?}: {}", said.err);
        assert!(said.err.contains(r"a\u{1b}[31mb") && !said.err.contains('\u{1b}'), "{arguments:?}: {:?}", said.err);
    }
}

#[test]
fn a_run_that_needs_too_much_memory_fails_before_it_starts() {
    let place = Place::new();
    // 4 GB of address space on any machine.
    let limit = "ulimit -v 4000000;";
    for arguments in [
        "train --size 16384",
        "train --model mlp --size 16384",
        "train --model transformer --size 16384",
        "train --model cnn --size 16384",
        "train --pixels --size 2048 --batch-size 256",
        "train --pixels --norm rms --size 256 --batch-size 1024",
        "train --model transformer --size 1024 --batch-size 9000",
    ] {
        let said = shell(&place, limit, arguments, "");
        assert_eq!((said.status, &*said.out), (Some(2), ""), "{arguments}: {}", said.err);
        let words = ["error: the run needs about", "GB of memory, but", "choose smaller sizes or batches"];
        assert!(words.iter().all(|word| said.err.contains(word)), "{arguments}: {}", said.err);
    }
    assert_eq!(fs::read_dir(place.path("")).unwrap().count(), 0, "nothing is written");
    let said = shell(&place, limit, TRAIN, "");
    assert_eq!(said.status, Some(0), "{}", said.err);
}

#[test]
fn links_and_foreign_files_are_left_unchanged() {
    let place = Place::new();
    let mine = place.path("mine");
    let link = |name: &str| {
        fs::create_dir_all(place.path(name).parent().unwrap()).unwrap();
        fs::write(&mine, "mine").unwrap();
        symlink(&mine, place.path(name)).unwrap();
    };
    for (arguments, name) in [
        (format!("{TRAIN} --out a"), "a/.lock"),
        (format!("{TRAIN} --out b"), "b/train.jsonl"),
        (format!("{TRAIN} --out c"), "c/model.layernorm"),
        ("study epsilon --seeds 1 --out d".to_owned(), "d/.lock"),
        ("study epsilon --seeds 1 --out e".to_owned(), "e/report.html"),
    ] {
        link(name);
        place.refuse(&arguments, &[name, "expected a regular file, found a link"]);
        assert_eq!(fs::read(&mine).unwrap(), b"mine", "{arguments}");
    }
    for (arguments, name) in [
        (format!("{TRAIN} --out f"), "f/model.layernorm.partial"),
        ("study implementations --out g".to_owned(), "g/runs/implementations-512x64.times.json.partial"),
    ] {
        link(name);
        place.succeed(&arguments);
        assert_eq!(fs::read(&mine).unwrap(), b"mine", "{arguments}");
    }
    fs::create_dir(place.path("h")).unwrap();
    fs::write(place.path("h/.lock"), "of another program").unwrap();
    place.refuse("study epsilon --out h", &["h/.lock: expected this program's lock file, found another file"]);
    assert_eq!(fs::read(place.path("h/.lock")).unwrap(), b"of another program");
    // The user's notes under the name of a run, without a newline at the end.
    fs::create_dir_all(place.path("i/runs")).unwrap();
    fs::write(place.path("i/runs/epsilon-1.jsonl"), "notes").unwrap();
    place.refuse("study epsilon --seeds 1 --out i", &["epsilon-1.jsonl, line 1: expected a record, found \"notes\""]);
    assert_eq!(fs::read(place.path("i/runs/epsilon-1.jsonl")).unwrap(), b"notes");
}
