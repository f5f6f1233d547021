//! The findings as a table, the questions that are not supported, and suggestions for next steps.

use layernorm_lab::report::{Finding, Story, Verdict, Verdicts};
use std::path::Path;

/// Characters per line of the columns title, answer and verdicts.
const WIDTHS: [usize; 3] = [26, 58, 14];
/// Characters per line of a claim.
const CLAIM: usize = 84;

/// A table of stories: the study, its result, and its number of questions by verdict. Below it, the number of all
/// questions, and the contradicted and undecided ones.
pub fn found<'a>(stories: impl Iterator<Item = &'a Story>) -> String {
    let stories: Vec<&Story> = stories.collect();
    let mut text = row(["study", "result", "questions"]);
    for story in &stories {
        text.push('\n');
        text += &row([&story.title, &story.answer, &counts(&story.findings)]);
    }
    let all = || stories.iter().flat_map(|story| story.findings.iter().map(move |finding| (&*story.id, finding)));
    text += &format!("\n{}\n", Verdicts::of(all().map(|(_, finding)| finding)));
    for verdict in [Verdict::Contradicted, Verdict::Undecided] {
        let of: Vec<_> = all().filter(|(_, finding)| finding.verdict == verdict).collect();
        if !of.is_empty() {
            text += &format!("\n{verdict}:\n");
            text.extend(of.into_iter().map(|(study, finding)| question(study, finding)));
        }
    }
    text
}

/// Such as `3 supported, 1 undecided`.
fn counts(findings: &[Finding]) -> String {
    let Verdicts { supported, contradicted, undecided } = Verdicts::of(findings);
    let parts = [(supported, "supported"), (contradicted, "CONTRADICTED"), (undecided, "undecided")];
    let parts: Vec<String> =
        parts.into_iter().filter(|(count, _)| *count > 0).map(|(count, name)| format!("{count} {name}")).collect();
    parts.join("\n")
}

/// The line of a question: its study, the claim and the result.
fn question(study: &str, finding: &Finding) -> String {
    let lines = wrap(&format!("{}: {}", finding.claim, finding.result), CLAIM);
    let line = |(number, line): (usize, &String)| format!("  {:16}  {line}\n", if number == 0 { study } else { "" });
    lines.iter().enumerate().map(line).collect()
}

/// Where the report is.
pub fn told(path: &Path) -> String {
    format!("Report (open in a browser): {}\n", path.display())
}

/// Suggestions after a study.
pub fn next() -> &'static str {
    "Next:\n  \
     layernorm study --list                      list the studies, each of which can be run alone\n  \
     layernorm study NAME --seeds 20             run one study with more seeds\n  \
     layernorm data get mnist                    download all of MNIST, and then\n  \
     layernorm study all --full --data data/mnist --out full\n  \
     layernorm tour                              a short check and benchmark of this machine\n"
}

/// A row whose cells are wrapped; a line break in a cell is kept.
fn row(cells: [&str; 3]) -> String {
    let cells: Vec<Vec<String>> = cells
        .iter()
        .zip(WIDTHS)
        .map(|(cell, width)| cell.lines().flat_map(|line| wrap(line, width)).collect())
        .collect();
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
    use layernorm_lab::report::Evidence;

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
        assert_eq!(row(["a", "b", "1 x\n2 y"]).lines().count(), 2);
    }

    #[test]
    fn questions_are_counted_and_those_not_supported_are_listed() {
        let finding = |id: &str, verdict| Finding {
            id: id.to_owned(),
            claim: format!("Claim {id}"),
            source: None,
            evidence: Evidence::Exact { found: "1".to_owned(), expected: "0".to_owned() },
            result: "+1 (0 to 2)".to_owned(),
            verdict,
            explanation: None,
        };
        let story = |id: &str, findings| Story {
            id: id.to_owned(),
            title: format!("Title {id}"),
            question: String::new(),
            answer: "Answer.".to_owned(),
            findings,
            expectation: String::new(),
            charts: Vec::new(),
            numbers: None,
            reproduce: String::new(),
            notes: Vec::new(),
        };
        let stories = [
            story("one", vec![finding("a", Verdict::Undecided), finding("b", Verdict::Supported)]),
            story("two", vec![finding("c", Verdict::Contradicted), finding("d", Verdict::Supported)]),
        ];
        let text = found(stories.iter());
        let (table, list) = text.split_once("\n4 questions: 2 supported, 1 contradicted, 1 undecided\n").unwrap();
        assert!(table.contains("1 CONTRADICTED") && table.contains("1 undecided"), "{table}");
        assert_eq!(
            list,
            "\ncontradicted:\n  two               Claim c: +1 (0 to 2)\n\nundecided:\n  one               Claim a: +1 (0 to \
             2)\n"
        );
    }
}
