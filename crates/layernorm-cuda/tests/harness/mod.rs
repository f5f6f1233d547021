//! Shared by tests that may lack something: a GPU, NVRTC, a C++ compiler. libtest-mimic is the standard harness as a
//! library: it catches panics, has the same command line, and allows a test to be ignored at run time. The reason is
//! shown as the test's kind: `test [no GPU: …] name ... ignored`.
use libtest_mimic::{Arguments, Failed, Trial};

/// A test; ignored if something is `missing`, for the given reason.
pub fn test(
    name: impl Into<String>,
    missing: Option<&str>,
    run: impl FnOnce() -> Result<(), String> + Send + 'static,
) -> Trial {
    let trial = Trial::test(name, move || run().map_err(Failed::from));
    match missing {
        Some(why) => trial.with_ignored_flag(true).with_kind(first_line(why)),
        None => trial,
    }
}

fn first_line(why: &str) -> String {
    why.lines().next().unwrap_or_default().to_owned()
}

/// Runs the tests that the command line selects, and exits. `alone`: one after the other, because each of them uses all
/// cores or the only GPU. Tests that cannot run stay ignored, whatever `--ignored` and `--include-ignored` say.
pub fn run(tests: Vec<Trial>, alone: bool) -> ! {
    let mut arguments = Arguments::from_args();
    if alone {
        arguments.test_threads.get_or_insert(1);
    }
    (arguments.ignored, arguments.include_ignored) = (false, false);
    libtest_mimic::run(&arguments, tests).exit()
}
