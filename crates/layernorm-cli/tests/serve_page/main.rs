//! Tests the served page in a browser: `check.mjs` starts and stops studies in headless Chromium. Without Node.js or
//! Chromium the test is ignored, and its kind says why. `LAYERNORM_SHOTS=dir` keeps screenshots.

#[path = "../serve_common/mod.rs"]
mod serve_common;
#[path = "../study_common/mod.rs"]
mod study_common;

use libtest_mimic::{Arguments, Failed, Trial};
use serve_common::Server;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use study_common::Place;

fn main() -> ExitCode {
    let lacking = lacking();
    let mut test = Trial::test("the_served_page_works_in_a_browser", works).with_ignored_flag(lacking.is_some());
    if let Some(lacking) = lacking {
        test = test.with_kind(format!("there is no {lacking}"));
    }
    libtest_mimic::run(&Arguments::from_args(), vec![test]).exit_code()
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/serve_page/check.mjs")
}

/// The missing requirement of the test, if any.
fn lacking() -> Option<&'static str> {
    match Command::new("node").arg(script()).arg("--find").status() {
        Err(_) => Some("Node.js"),
        Ok(status) => (!status.success()).then_some("Chromium"),
    }
}

fn works() -> Result<(), Failed> {
    let place = Place::new();
    place.succeed("study epsilon --seeds 1 --out other");
    let server = Server::start(&place, "serve lab other");
    let other = Server::start(&place, "serve other");
    let output = Command::new("node").arg(script()).arg(server.url()).arg(other.url()).output()?;
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    eprintln!("{said}");
    if output.status.success() { Ok(()) } else { Err(said.into()) }
}
