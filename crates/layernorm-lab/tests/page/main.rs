//! The page in a browser: a report with every kind of chart is written and `check.mjs` looks at it in headless Chromium.
//! Without Node.js or Chromium this is reported as skipped. `LAYERNORM_SHOTS=dir` keeps screenshots.

mod sample;

use std::path::Path;
use std::process::Command;

use layernorm_lab::report;

/// What `check.mjs` exits with where there is no browser.
const SKIPPED: i32 = 77;

#[test]
fn the_page_works_in_a_browser() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report.html");
    report::write(&sample::report(), &path).expect("the sample is written");

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page/check.mjs");
    let Ok(output) = Command::new("node").arg(script).arg(&path).output() else {
        eprintln!("skipped: no Node.js here");
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    eprintln!("{said}");
    if output.status.code() != Some(SKIPPED) {
        assert!(output.status.success(), "{said}");
    }
}
