//! Tests that say what they lack: one that cannot run here is reported as ignored, which Cargo's own harness has no way to say.

/// What became of a test.
pub enum Outcome {
    Passed,
    /// It needs something that is not here: what.
    Ignored(String),
    /// What was wrong.
    Failed(String),
}

impl From<Option<String>> for Outcome {
    fn from(wrong: Option<String>) -> Self {
        wrong.map_or(Outcome::Passed, Outcome::Failed)
    }
}

/// Runs the tests whose names have one of the command line's words in them, all without a word, and ends the program. `--list` names
/// them, as tools that list tests expect.
pub fn run<T>(tests: impl IntoIterator<Item = (String, T)>, outcome: impl Fn(T) -> Outcome) -> ! {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let list = std::env::args().any(|word| word == "--list");
    let wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word));
    let (mut passed, mut ignored, mut failed) = (0, 0, 0);
    for (name, test) in tests.into_iter().filter(|(name, _)| wanted(name)) {
        if list {
            println!("{name}: test");
            continue;
        }
        match outcome(test) {
            Outcome::Passed => {
                println!("test {name} ... ok");
                passed += 1;
            }
            Outcome::Ignored(why) => {
                println!("test {name} ... ignored, skipped: {why}");
                ignored += 1;
            }
            Outcome::Failed(wrong) => {
                println!("{wrong}\ntest {name} ... FAILED");
                failed += 1;
            }
        }
    }
    if !list {
        let word = if failed == 0 { "ok" } else { "FAILED" };
        println!("\ntest result: {word}. {passed} passed; {failed} failed; {ignored} ignored\n");
    }
    std::process::exit(i32::from(failed > 0))
}
