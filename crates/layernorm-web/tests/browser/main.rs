//! Runs the module of the repository in headless Chromium, in a worker made from a blob, under the Content-Security-Policy
//! that a page needs, opened from disk: 10,000 random cases must have the bits that this machine computes now. Without
//! Node.js or Chromium the test is ignored, and its kind says why.

use layernorm_web::{Cases, checksum, hexadecimal};
use libtest_mimic::{Arguments, Failed, Trial};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const CASES: u64 = 10_000;
const SEED: u64 = 1;

fn main() -> ExitCode {
    let lacking = lacking();
    let mut test =
        Trial::test("the_module_has_the_native_bits_in_a_browser", works).with_ignored_flag(lacking.is_some());
    if let Some(lacking) = lacking {
        test = test.with_kind(format!("there is no {lacking}"));
    }
    libtest_mimic::run(&Arguments::from_args(), vec![test]).exit_code()
}

fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn script() -> PathBuf {
    folder("tests/browser/check.mjs")
}

/// The missing requirement of the test, if any.
fn lacking() -> Option<&'static str> {
    match Command::new("node").arg(script()).arg("--find").status() {
        Err(_) => Some("Node.js"),
        Ok(status) => (!status.success()).then_some("Chromium"),
    }
}

fn works() -> Result<(), Failed> {
    let mut cases = Cases::new()?;
    let mut golden = String::new();
    for number in 0..CASES {
        golden += &hexadecimal(cases.hash(SEED, number)?);
        golden += "\n";
    }
    golden += &hexadecimal(checksum(SEED, CASES)?);
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(place.join("web-cases.txt"), golden)?;
    let output = Command::new("node").arg(script()).arg(place).args([SEED, CASES].map(|n| n.to_string())).output()?;
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    eprintln!("{said}");
    if output.status.success() { Ok(()) } else { Err(said.into()) }
}
