//! `layernorm study` on a terminal. Without the program `script`, which provides one, the test is reported as ignored.

mod study_common;

use libtest_mimic::{Arguments, Failed, Trial};
use std::process::{Command, ExitCode};
use study_common::{Place, Said};

fn main() -> ExitCode {
    let lacking = Command::new("script").arg("--version").output().is_err();
    let mut test = Trial::test("on_a_terminal_there_are_bars", bars).with_ignored_flag(lacking);
    if lacking {
        test = test.with_kind("there is no `script`");
    }
    libtest_mimic::run(&Arguments::from_args(), vec![test]).exit_code()
}

fn bars() -> Result<(), Failed> {
    let place = Place::new();
    let command = format!("{} study implementations --jobs 1", env!("CARGO_BIN_EXE_layernorm"));
    let terminal = Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .current_dir(place.path(""))
        .env("TERM", "xterm")
        .output();
    let said = Said::from(terminal?);
    assert_eq!(said.status, Some(0), "{}", said.out);
    for part in ["\x1b[", "of 3 runs", "implementations-512x64", "100 %", "lab-out/report.html"] {
        assert!(said.out.contains(part), "{part:?}: {:?}", said.out);
    }
    Ok(())
}
