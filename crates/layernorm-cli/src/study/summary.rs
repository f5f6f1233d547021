//! The findings as a table, and suggestions for next steps.

use layernorm_lab::report::Story;
use std::path::Path;

/// Characters per line of the columns title, answer and verdict.
const WIDTHS: [usize; 3] = [26, 58, 11];

/// A table of stories: the study, its result, and whether that was expected.
pub fn found<'a>(stories: impl Iterator<Item = &'a Story>) -> String {
    let mut text = row(["study", "result", "as expected"]);
    for story in stories {
        let verdict = match story.as_expected {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "undecided",
        };
        text.push('\n');
        text += &row([&story.title, &story.answer, verdict]);
    }
    text
}

/// Where the report is.
pub fn told(path: &Path) -> String {
    format!("Report (open in a browser): {}\n", path.display())
}

/// Suggestions after a study.
pub fn next() -> &'static str {
    "Next:\n  \
     layernorm study --list                      list the studies, each of which can be run alone\n  \
     layernorm study NAME --seeds 5              run one study with more seeds\n  \
     layernorm data get mnist                    download all of MNIST, and then\n  \
     layernorm study all --full --data data/mnist --out full\n  \
     layernorm tour                              a short check and benchmark of this machine\n"
}

/// A row whose cells are wrapped.
fn row(cells: [&str; 3]) -> String {
    let cells: Vec<Vec<String>> = cells.iter().zip(WIDTHS).map(|(cell, width)| wrap(cell, width)).collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    let line = |number: usize| {
        let cell =
            |(cell, width): (&Vec<String>, usize)| format!("  {:width$}", cell.get(number).map_or("", String::as_str));
        let line: String = cells.iter().zip(WIDTHS).map(cell).collect();
        format!("{}\n", line.trim_end())
    };
    (0..height).map(line).collect()
}

/// Wraps text at spaces into lines of at most `width` characters; a longer word stays whole.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_wrapped() {
        assert_eq!(wrap("one two  three", 7), ["one two", "three"]);
        assert_eq!(wrap("ππ ππ", 5), ["ππ ππ"]);
        assert_eq!(wrap("a very-long-word", 4), ["a", "very-long-word"]);
        let text = row(["short", &"word ".repeat(20), "yes"]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("  short ") && lines[0].ends_with("  yes"), "{text}");
        assert!(lines[1].trim_start().starts_with("word"), "{text}");
    }
}
