//! The story of varied lengths.

use super::{LONGEST, NORMS, SHORTEST, TESTED, TextLength};
use crate::language::events::{Positions, Trained};
use crate::models::Norm;
use crate::records::Record;
use crate::report::{Cell, Chart, Finding, Picture, Story, Table};
use crate::studies::Study;
use crate::studies::characters::{Ran, by_seed, of_case, or_guessing, spread, two};
use crate::studies::findings::{BySeed, Claim, Pair, combined};
use crate::studies::tools::{axis, chart, log_axis, short, story as blank};
use crate::studies::trained::{Spread, cells, series, with, words};

pub(super) fn story(study: &TextLength, runs: &[Ran], records: &[Record]) -> Story {
    let mut story = blank(study.name(), "Texts of varied lengths", study.question(), records);
    story.expectation =
        "Layer norm computes its statistics from the current step alone, so it needs no special treatment \
                         of sequences whose lengths vary, or that are longer than in training (Ba, Kiros and Hinton, \
                         2016, sections 1 and 3)."
            .to_owned();
    let groups: Vec<Group<'_>> = NORMS
        .map(|norm| Group { norm, runs: of_case(runs, norm.name()) })
        .into_iter()
        .filter(|group| !group.runs.is_empty())
        .collect();
    let ends = ends(&groups);
    if ends.is_empty() {
        return story;
    }
    story.charts = vec![by_position(&groups, &ends), by_length(&groups, &ends)];
    story.numbers = Some(table(&groups, &ends));
    story.answer = answer(&groups);
    story.findings = findings(&groups);
    story.notes = notes(&groups);
    story
}

struct Group<'a> {
    norm: Norm,
    runs: Vec<&'a Ran>,
}

/// Bits per character at the positions after `from` up to `to`; those of guessing if the run diverged.
fn between(trained: &Trained, from: usize, to: usize) -> Option<f64> {
    or_guessing(trained, trained.positions.as_ref().and_then(|positions| positions.between(from, to)))
}

impl Group<'_> {
    fn spread(&self, from: usize, to: usize) -> Option<Spread> {
        spread(&self.runs, |trained| between(trained, from, to))
    }

    fn bits(&self, from: usize, to: usize) -> BySeed {
        by_seed(&self.runs, |trained| between(trained, from, to))
    }

    /// How much worse the characters beyond the trained length are predicted than those just before it.
    fn rise(&self) -> BySeed {
        combined(&[self.bits(LONGEST, TESTED), self.bits(LONGEST / 2, LONGEST)], |both| both[0] - both[1])
    }
}

/// The last positions of the recorded ranges.
fn ends(groups: &[Group<'_>]) -> Vec<usize> {
    let all = groups.iter().flat_map(|group| &group.runs).filter_map(|ran| ran.trained.positions.as_ref());
    let complete = |positions: &&Positions| positions.of_length(TESTED).is_some() && positions.ends.contains(&LONGEST);
    all.filter(complete).map(|positions| positions.ends.clone()).next().unwrap_or_default()
}

/// The ranges of positions, each as its limits.
fn ranges(ends: &[usize]) -> impl Iterator<Item = (usize, usize)> {
    std::iter::once(0).chain(ends.iter().copied()).zip(ends.iter().copied())
}

fn by_position(groups: &[Group<'_>], ends: &[usize]) -> Chart {
    let curve = |group: &Group<'_>| {
        series(words(group.norm), ranges(ends).map(|(from, to)| (to as f64, group.spread(from, to))))
    };
    let (x, y) = (log_axis("position in the sequence, up to"), axis("bits per character"));
    let picture = Picture::Lines { x, y, series: groups.iter().map(curve).collect(), scrub: false };
    let see = format!(
        "Each point is the mean over a range of positions: 1 to 8, 9 to 16, 17 to 32, and so on. Curves fall while the \
         network collects context. Positions beyond {LONGEST} did not occur in training: a curve that rises there means \
         that the state leaves the range that the network knows."
    );
    chart("position", "Test text: bits per character by position", see, picture)
}

fn by_length(groups: &[Group<'_>], ends: &[usize]) -> Chart {
    let curve = |group: &Group<'_>| {
        series(words(group.norm), ends.iter().map(|&length| (length as f64, group.spread(0, length))))
    };
    let (x, y) = (log_axis("length of the sequence, characters"), axis("bits per character"));
    let picture = Picture::Lines { x, y, series: groups.iter().map(curve).collect(), scrub: false };
    let see = format!(
        "The mean over whole sequences that start from a state of zero. Training used lengths from {SHORTEST} to \
         {LONGEST}; lower is better."
    );
    chart("length", "Test text: bits per character by sequence length", see, picture)
}

fn table(groups: &[Group<'_>], ends: &[usize]) -> Table {
    let mut rows = Vec::new();
    for group in groups {
        for (from, to) in ranges(ends) {
            let positions = format!("{} to {to}", from + 1);
            let mut row: Vec<Cell> = vec![words(group.norm).into(), positions.into(), (group.runs.len() as f64).into()];
            row.extend(cells(group.spread(from, to)));
            row.push(group.spread(0, to).map_or(Cell::Empty, |bits| bits.mean.into()));
            rows.push(row);
        }
    }
    let columns =
        ["norm", "positions", "seeds", "bits per character", "best seed", "worst seed", "whole sequence up to there"];
    Table { columns: columns.map(str::to_owned).to_vec(), rows, notes: Vec::new() }
}

/// The questions: layer norm against none on short, trained and long sequences, and whether length itself does harm.
fn findings(groups: &[Group<'_>]) -> Vec<Finding> {
    let of = |norm| groups.iter().find(|group| group.norm == norm);
    let (Some(none), Some(layer)) = (of(Norm::None), of(Norm::Layer)) else { return Vec::new() };
    let pair = |what: String, ours, other| Pair { what, unit: "bits per character", step: 0.0, ours, other };
    let mut findings = Vec::new();
    for (id, length, kind) in [("short", 8, "shorter than in training"), ("long", TESTED, "longer than in training")] {
        let text = format!(
            "On sequences of {length} characters, {kind}, layer norm needs fewer bits per character than no norm"
        );
        let pair = pair("layer norm − no norm".to_owned(), layer.bits(0, length), none.bits(0, length));
        findings.extend(Claim::new(id, text).source("C12").reason(RATE).lower(pair));
    }
    let ranges = format!("positions {} to {TESTED} − {} to {LONGEST}", LONGEST + 1, LONGEST / 2 + 1);
    let text = "Beyond the trained length, bits per character rise less, or fall more, with layer norm than without a \
                norm";
    let rises = pair(format!("{ranges}, layer norm − no norm"), layer.rise(), none.rise());
    findings.extend(Claim::new("rise", text).source("C12").reason(LEARNED).lower(rises));
    for group in [layer, none] {
        let (from, to) = (LONGEST / 2, LONGEST);
        let name = words(group.norm);
        let text = format!(
            "{} characters beyond the trained length are predicted better than those at positions {} to {to}",
            if group.norm == Norm::None { "Without a norm,".to_owned() } else { format!("With {name},") },
            from + 1
        );
        let pair = pair(format!("{ranges}, {name}"), group.bits(LONGEST, TESTED), group.bits(from, to));
        findings.extend(Claim::new(format!("{}-beyond", group.norm), text).source("C12").reason(UNSEEN).lower(pair));
    }
    findings
}

/// Why no norm may be better.
const RATE: &str = "A possible reason, not tested: both networks train at one learning rate, which need not suit both.";
/// Why the bits may rise more with layer norm.
const LEARNED: &str = "A possible reason, not tested: a network that predicts better at the trained positions has more to \
    lose beyond them.";
/// Why characters beyond the trained length may be predicted worse.
const UNSEEN: &str = "A possible reason, not tested: in training, no state was this far from the start of its piece.";

fn answer(groups: &[Group<'_>]) -> String {
    let lengths = [8, LONGEST, TESTED];
    let told = |group: &Group<'_>| {
        let bits: Option<Vec<String>> = lengths.iter().map(|&to| Some(two(group.spread(0, to)?.mean))).collect();
        Some(format!("{} {}", bits?.join(" → "), with(group.norm)))
    };
    let told: Vec<String> = groups.iter().filter_map(told).collect();
    if told.is_empty() {
        return "Some runs have not finished yet.".to_owned();
    }
    let lengths = lengths.map(|length| length.to_string()).join(" → ");
    format!("Bits per character on sequences of {lengths} characters: {}.", told.join(", "))
}

fn notes(groups: &[Group<'_>]) -> Vec<String> {
    let mut notes = vec![
        "Every test sequence has 512 characters and starts from a state of zero; its first n characters are a test \
         sequence of length n. Sequences start every 29 characters, so that all positions are measured on the same text."
            .to_owned(),
        "Batch norm is not tested here: in a recurrent network it needs statistics for every time step, so positions \
         beyond 64 would have none, and pieces of different lengths would leave few samples for the last steps. The \
         study sequence-length measures that."
            .to_owned(),
    ];
    if let Some(ran) = groups.iter().flat_map(|group| &group.runs).next() {
        let spec = &ran.trained.spec;
        notes.push(format!(
            "LSTM, {} hidden units. Adam at {}, gradients clipped at a norm of {}, {} steps of {} pieces with {SHORTEST} \
             to {LONGEST} characters at random places of the six plays. Shorter pieces are padded, and the padding is \
             neither read nor counted in the loss.",
            spec.hidden,
            short(spec.learning_rate),
            short(spec.clip),
            spec.steps,
            spec.batch_size
        ));
    }
    notes
}
