//! Which norm for what: recommendations that follow from the findings of the other studies.
//!
//! `SITUATIONS` lists, for each situation, the findings that compare two options in it. A supported finding counts as a
//! win of its first option over the second, a contradicted one as the reverse, an undecided one as neither.
//!
//! ```text
//! recommended    wins at least once and never loses
//! advised against    loses at least once and never wins
//! mixed          all others that win or lose: the evidence disagrees
//! ```
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

/// What the evidence says about a situation.
#[derive(Debug, PartialEq)]
struct Advice {
    /// Options that win and never lose.
    recommended: Vec<&'static str>,
    /// Options that lose and never win.
    against: Vec<&'static str>,
    /// Options that win and lose.
    mixed: Vec<&'static str>,
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
            "A norm is recommended if it wins at least one of the comparisons linked as evidence and loses none; an \
             undecided comparison counts for neither side. Norms that are not named were not compared, or the \
             comparison is undecided. The networks and images are small: on other tasks the order may differ."
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

/// Counts wins and losses.
fn advice(evidence: &[Evidence<'_>]) -> Advice {
    let decided: Vec<[&'static str; 2]> = evidence.iter().filter_map(Evidence::decided).collect();
    let wins = |option: &str| decided.iter().filter(|pair| pair[0] == option).count();
    let losses = |option: &str| decided.iter().filter(|pair| pair[1] == option).count();
    let mut options: Vec<&'static str> = decided.iter().flatten().copied().collect();
    options.sort_by_key(|option| (std::cmp::Reverse(wins(option)), losses(option), *option));
    options.dedup();
    let of = |won: bool, lost: bool| {
        let fits = |option: &&&'static str| (wins(option) > 0, losses(option) > 0) == (won, lost);
        options.iter().filter(fits).copied().collect()
    };
    Advice { recommended: of(true, false), against: of(false, true), mixed: of(true, true) }
}

/// The recommendation in words.
fn words(situation: &Situation, evidence: &[Evidence<'_>]) -> String {
    let Advice { recommended, against, mixed } = advice(evidence);
    if situation.bearings.is_empty() {
        return "not measured".to_owned();
    }
    if evidence.iter().all(|evidence| evidence.finding.is_none()) {
        return "no evidence in this report".to_owned();
    }
    if recommended.is_empty() && mixed.is_empty() {
        return "undecided".to_owned();
    }
    let mut parts = Vec::new();
    if !recommended.is_empty() {
        parts.push(recommended.join(" or "));
    }
    if !against.is_empty() {
        parts.push(format!("rather than {}", against.join(" or ")));
    }
    let text = parts.join(" ");
    match (mixed.is_empty(), text.is_empty()) {
        (true, _) => text,
        (false, true) => format!("mixed evidence: {}", mixed.join(", ")),
        (false, false) => format!("{text}; mixed evidence: {}", mixed.join(", ")),
    }
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
    let columns = ["situation", "recommendation", "evidence"];
    let rows = all.iter().map(row).collect();
    let table = Table { columns: columns.map(str::to_owned).to_vec(), rows, notes: Vec::new() };
    Chart {
        id: "situations".to_owned(),
        title: "Recommendations and their evidence".to_owned(),
        see:
            "Each recommendation follows from the findings beside it; every link leads to the finding with its numbers."
                .to_owned(),
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

/// The situations that have a recommendation, in one sentence each.
fn answer(all: &[(&Situation, Vec<Evidence<'_>>)]) -> String {
    let tell = |(situation, evidence): &(&Situation, Vec<Evidence<'_>>)| {
        let clear = !advice(evidence).recommended.is_empty();
        clear.then(|| format!("{}: {}", situation.name, words(situation, evidence)))
    };
    let told: Vec<String> = all.iter().filter_map(tell).collect();
    match told.is_empty() {
        true => "The findings of this report do not decide for any situation.".to_owned(),
        false => format!("{}.", told.join(". ")),
    }
}
