//! Reconstructs the command line, so that it can be shown and run again.

use std::ffi::OsString;

/// The user's command without the path of the program, for the report.
pub fn command() -> String {
    let mut words = words();
    words[0] = "layernorm".to_owned();
    words.retain(|word| word != "--resume" && word != "--serve");
    join(&words)
}

/// The command that continues the user's.
pub fn resume() -> String {
    join(&resuming(words()))
}

/// The command as words: the program first, and the default subcommand spelled out.
fn words() -> Vec<String> {
    named(std::env::args_os().map(lossy).collect())
}

fn lossy(word: OsString) -> String {
    word.to_string_lossy().into_owned()
}

fn named(mut words: Vec<String>) -> Vec<String> {
    if words.is_empty() {
        words.push("layernorm".to_owned());
    }
    if words.len() == 1 {
        words.push("study".to_owned());
    }
    words
}

fn resuming(mut words: Vec<String>) -> Vec<String> {
    // Only names follow `--`.
    let options = words.iter().position(|word| word == "--").unwrap_or(words.len());
    if !words[..options].iter().any(|word| word == "--resume") {
        words.insert(options, "--resume".to_owned());
    }
    words
}

/// Joins words, quoted for a shell.
pub fn join(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(words: &[&str]) -> String {
        join(&resuming(named(words.iter().map(|&word| word.to_owned()).collect())))
    }

    #[test]
    fn commands_are_resumed() {
        assert_eq!(again(&["target/release/layernorm"]), "target/release/layernorm study --resume");
        assert_eq!(again(&["layernorm", "study", "--seeds", "2"]), "layernorm study --seeds 2 --resume");
        assert_eq!(again(&["l", "study", "--resume", "epsilon"]), "l study --resume epsilon");
        assert_eq!(again(&["l", "study", "--", "epsilon"]), "l study --resume -- epsilon");
        assert_eq!(again(&[]), "layernorm study --resume");
    }

    #[test]
    fn words_survive_a_shell() {
        assert_eq!(again(&["l", "study", "--out", "my lab"]), "l study --out 'my lab' --resume");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("$HOME"), "'$HOME'");
        assert_eq!(quoted("Übung/1e-3"), "Übung/1e-3");
    }
}
