//! Which norm for what: what the findings of the other studies say about pairs of options.
//!
//! `SITUATIONS` lists, for each situation, the findings that compare two options in it. A supported finding counts for its
//! first option, a contradicted one for its second, an undecided one for neither. Every pair is shown with these counts.
//!
//! ```text
//! a rather than b    some findings count for a, none for b
//! mixed              some count for each
//! undecided          none counts for either
//! ```
//!
//! The answer names only pairs of which most findings count for one option and none for the other.
//!
//! This is not a study with runs: the story is made from the other stories when the report is assembled. Studies that a
//! report does not have are named as missing.

mod situations;
#[cfg(test)]
mod tests;

use crate::report::{Cell, Chart, Finding, Link, Picture, Story, Table, Verdict};
use situations::{Bearing, SITUATIONS, Situation};

/// Id of the story.
pub const ID: &str = "which-norm";

/// A bearing with its finding, if the report has it.
struct Evidence<'a> {
    bearing: &'a Bearing,
    finding: Option<&'a Finding>,
}

/// Two options of a situation, and how many findings count for each.
#[derive(Debug, PartialEq)]
struct Pair {
    options: [&'static str; 2],
    wins: [usize; 2],
    comparisons: usize,
}

/// The story, made from the findings of the other stories; `None` if none of them bears on a situation.
pub fn story(stories: &[Story]) -> Option<Story> {
    let all: Vec<(&Situation, Vec<Evidence<'_>>)> =
        SITUATIONS.iter().map(|situation| (situation, evidence(situation, stories))).collect();
    if !all.iter().flat_map(|(_, evidence)| evidence).any(|evidence| evidence.finding.is_some()) {
        return None;
    }
    Some(Story {
        id: ID.to_owned(),
        title: "Which norm for what".to_owned(),
        question: "Which norm suits which situation, according to the studies of this report?".to_owned(),
        answer: answer(&all),
        findings: Vec::new(),
        expectation: "Batch norm for images with large batches; layer norm for small batches, recurrent networks and \
                      streams; layer norm or RMS norm before each sublayer in Transformers."
            .to_owned(),
        charts: vec![table(&all)],
        numbers: None,
        reproduce: "layernorm study all".to_owned(),
        notes: vec![
            "“A rather than B (2 of 5)”: of five comparisons, two are decided for A and none for B. The answer names only pairs \
             in which more than half are decided for the same option. Every question of the studies that compares two options in \
             a situation counts, whatever its verdict. Norms that are not named were not compared. The \
             networks and images are small and train briefly: on other tasks the order may differ."
                .to_owned(),
        ],
    })
}

fn evidence<'a>(situation: &'a Situation, stories: &'a [Story]) -> Vec<Evidence<'a>> {
    situation.bearings.iter().map(|bearing| Evidence { bearing, finding: find(bearing, stories) }).collect()
}

/// The finding of a bearing, if the report has it. A report may lack it although it has the study: the study's runs may not
/// be complete, and some questions are asked only if their runs differ from those of others. That every finding exists is
/// tested.
fn find<'a>(bearing: &Bearing, stories: &'a [Story]) -> Option<&'a Finding> {
    let story = stories.iter().find(|story| story.id == bearing.study)?;
    story.findings.iter().find(|finding| finding.id == bearing.finding)
}

impl Evidence<'_> {
    /// The better and the worse option, if the finding decides.
    fn decided(&self) -> Option<[&'static str; 2]> {
        let Bearing { better, worse, .. } = *self.bearing;
        match self.finding?.verdict {
            Verdict::Supported => Some([better, worse]),
            Verdict::Contradicted => Some([worse, better]),
            Verdict::Undecided => None,
        }
    }

    /// The finding with its verdict, as a link.
    fn link(&self) -> Option<Link> {
        let finding = self.finding?;
        let text = format!("{}: {}", finding.verdict, finding.claim);
        Some(Link { text, view: format!("{}/q-{}", self.bearing.study, finding.id) })
    }
}

/// The pairs of options that are compared, in the order in which they first occur.
fn pairs(evidence: &[Evidence<'_>]) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = Vec::new();
    for found in evidence.iter().filter(|found| found.finding.is_some()) {
        let Bearing { better, worse, .. } = *found.bearing;
        let known = pairs.iter().position(|pair| pair.options.contains(&better) && pair.options.contains(&worse));
        let place = known.unwrap_or_else(|| {
            pairs.push(Pair { options: [better, worse], wins: [0, 0], comparisons: 0 });
            pairs.len() - 1
        });
        let pair = &mut pairs[place];
        pair.comparisons += 1;
        if let Some([winner, _]) = found.decided() {
            pair.wins[usize::from(winner != pair.options[0])] += 1;
        }
    }
    pairs
}

impl Pair {
    /// The counts in words.
    fn words(&self) -> String {
        let Pair { options: [a, b], wins, comparisons } = self;
        match wins {
            [0, 0] => format!("{a} or {b}: undecided (0 of {comparisons})"),
            [won, 0] => format!("{a} rather than {b} ({won} of {comparisons})"),
            [0, won] => format!("{b} rather than {a} ({won} of {comparisons})"),
            [first, second] => format!("{a} or {b}: mixed ({first} and {second} of {comparisons})"),
        }
    }

    /// Whether more than half of the comparisons are decided, all for the same option.
    fn is_clear(&self) -> bool {
        let [first, second] = self.wins;
        first.min(second) == 0 && 2 * first.max(second) > self.comparisons
    }
}

/// The pairs of a situation in words.
fn words(situation: &Situation, evidence: &[Evidence<'_>]) -> String {
    if situation.bearings.is_empty() {
        return "not measured".to_owned();
    }
    let pairs: Vec<String> = pairs(evidence).iter().map(Pair::words).collect();
    if pairs.is_empty() { "no evidence in this report".to_owned() } else { pairs.join("; ") }
}

fn table(all: &[(&Situation, Vec<Evidence<'_>>)]) -> Chart {
    let row =
        |(situation, evidence): &(&Situation, Vec<Evidence<'_>>)| {
            let mut links: Vec<Link> = evidence.iter().filter_map(Evidence::link).collect();
            links.extend(missing(evidence).into_iter().map(|study| Link {
                text: format!("not in this report: layernorm study {study}"),
                view: String::new(),
            }));
            links.extend(situation.remark.map(|remark| Link { text: remark.to_owned(), view: String::new() }));
            vec![situation.name.into(), words(situation, evidence).into(), Cell::Links(links)]
        };
    let columns = ["situation", "result", "evidence"];
    let rows = all.iter().map(row).collect();
    let table = Table { columns: columns.map(str::to_owned).to_vec(), rows, notes: Vec::new() };
    Chart {
        id: "situations".to_owned(),
        title: "Comparisons and their evidence".to_owned(),
        see: "Each result counts the findings beside it; every link leads to the finding with its numbers.".to_owned(),
        picture: Picture::Table(table),
    }
}

/// The studies whose findings are missing altogether, each once.
fn missing(evidence: &[Evidence<'_>]) -> Vec<&'static str> {
    let there = |study: &str| evidence.iter().any(|other| other.bearing.study == study && other.finding.is_some());
    let mut studies: Vec<&'static str> = Vec::new();
    for Evidence { bearing, .. } in evidence {
        if !there(bearing.study) && !studies.contains(&bearing.study) {
            studies.push(bearing.study);
        }
    }
    studies
}

/// The situations with clear pairs, in one sentence each.
fn answer(all: &[(&Situation, Vec<Evidence<'_>>)]) -> String {
    let tell = |(situation, evidence): &(&Situation, Vec<Evidence<'_>>)| {
        let clear: Vec<String> = pairs(evidence).iter().filter(|pair| pair.is_clear()).map(Pair::words).collect();
        (!clear.is_empty()).then(|| format!("{}: {}", situation.name, clear.join("; ")))
    };
    let told: Vec<String> = all.iter().filter_map(tell).collect();
    match told.is_empty() {
        true => "The findings of this report do not decide for any situation.".to_owned(),
        false => format!("{}.", told.join(". ")),
    }
}
