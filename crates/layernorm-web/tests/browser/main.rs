//! Runs the module of the repository in headless Chromium and Firefox, in a worker made from a blob, under the
//! Content-Security-Policy that a page needs, opened from disk: 10,000 random cases must have the bits that this machine
//! computes now. Without Node.js or the browser a test is ignored, and its kind says why.

use layernorm_web::{Cases, checksum, hexadecimal};
use libtest_mimic::{Arguments, Failed, Trial};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const CASES: u64 = 10_000;
const SEED: u64 = 1;

/// The browser as the script calls it and as people do.
const BROWSERS: [(&str, &str); 2] = [("chromium", "Chromium"), ("firefox", "Firefox")];

fn main() -> ExitCode {
    let tests = BROWSERS.map(|(browser, name)| {
        let lacking = lacking(browser, name);
        let test = Trial::test(format!("the_module_has_the_native_bits_in_{browser}"), move || works(browser));
        let test = test.with_ignored_flag(lacking.is_some());
        match lacking {
            Some(lacking) => test.with_kind(format!("there is no {lacking}")),
            None => test,
        }
    });
    // One after the other: the driver waits for answers.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    libtest_mimic::run(&arguments, tests.into()).exit_code()
}

fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn script() -> PathBuf {
    folder("tests/browser/check.mjs")
}

/// The missing requirement of the test, if any.
fn lacking(browser: &str, name: &'static str) -> Option<&'static str> {
    match Command::new("node").arg(script()).args([browser, "--find"]).status() {
        Err(_) => Some("Node.js"),
        // A script that fails otherwise fails the test, too.
        Ok(status) => (status.code() == Some(77)).then_some(name),
    }
}

fn works(browser: &str) -> Result<(), Failed> {
    let mut cases = Cases::new()?;
    let mut golden = String::new();
    for number in 0..CASES {
        golden += &hexadecimal(cases.hash(SEED, number)?);
        golden += "\n";
    }
    golden += &hexadecimal(checksum(SEED, CASES)?);
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(place.join("web-cases.txt"), golden)?;
    let output = Command::new("node")
        .arg(script())
        .arg(browser)
        .arg(place)
        .args([SEED, CASES].map(|n| n.to_string()))
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    eprintln!("{said}");
    if output.status.success() { Ok(()) } else { Err(said.into()) }
}
