//! Tests the page in a browser: writes a report with every chart type and checks it with `check.mjs` in headless
//! Chromium. Without Node.js or Chromium the test is ignored, and its kind says why. `LAYERNORM_SHOTS=dir` keeps
//! screenshots.

mod sample;

use layernorm_lab::report;
use libtest_mimic::{Arguments, Failed, Trial};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let lacking = lacking();
    let mut test = Trial::test("the_page_works_in_a_browser", works).with_ignored_flag(lacking.is_some());
    if let Some(lacking) = lacking {
        test = test.with_kind(format!("there is no {lacking}"));
    }
    libtest_mimic::run(&Arguments::from_args(), vec![test]).exit_code()
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page/check.mjs")
}

/// The missing requirement of the test, if any.
fn lacking() -> Option<&'static str> {
    match Command::new("node").arg(script()).arg("--find").status() {
        Err(_) => Some("Node.js"),
        // A script that fails otherwise fails the test, too.
        Ok(status) => (status.code() == Some(77)).then_some("Chromium"),
    }
}

fn works() -> Result<(), Failed> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report.html");
    report::write(&sample::report(), &path)?;
    // What the page shows is what `layernorm verify --checksum --seed 1 --cases 200` prints.
    let checksum = layernorm_web::hexadecimal(layernorm_web::checksum(1, 200)?);
    let output = Command::new("node").arg(script()).arg(&path).env("LAYERNORM_CHECKSUM", checksum).output()?;
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    eprintln!("{said}");
    if output.status.success() { Ok(()) } else { Err(said.into()) }
}
