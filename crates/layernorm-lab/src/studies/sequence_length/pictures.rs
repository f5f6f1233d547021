//! The story of longer sequences.

use super::{BLANK, ID, REPEATS, SequenceLength};
use crate::models::Norm;
use crate::records::Record;
use crate::report::{Axis, Cell, Chart, Finding, Picture, Series, Story, Table};
use crate::studies::Study;
use crate::studies::findings::{BySeed, Claim, Pair, by_seed, combined, test_errors};
use crate::studies::tools::{axis, chart, log_axis, story as blank, to_digits};
use crate::studies::trained::{Ran, Spread, by_norm, cells, image, in_percent, series, trial_error, with, words};
use crate::training::Trial;
use std::f64::consts::SQRT_2;

/// A sequence as in training, or longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Length {
    /// The image is read again, so many more times.
    Again(usize),
    /// The image comes after so many blank rows.
    Delayed(usize),
}

/// The training length and twice that length.
const TRAINED: Length = Length::Again(0);
const TWICE: Length = Length::Again(1);

impl Length {
    fn of(trial: &Trial) -> Length {
        if trial.blank_rows > 0 { Length::Delayed(trial.blank_rows) } else { Length::Again(trial.repeats) }
    }

    /// Time steps, for images with this many rows.
    fn steps(self, rows: usize) -> usize {
        match self {
            Length::Again(repeats) => rows * (1 + repeats),
            Length::Delayed(blank) => rows + blank,
        }
    }

    /// The start of a claim.
    fn at(self, rows: usize) -> String {
        let steps = self.steps(rows);
        match self {
            TRAINED => format!("At the training length, {steps} time steps"),
            _ => format!("At {steps} time steps ({})", self.words()),
        }
    }

    fn words(self) -> String {
        match self {
            TRAINED => "as in training".to_owned(),
            Length::Again(repeats) => format!("the image read {} times", repeats + 1),
            Length::Delayed(blank) => format!("{blank} blank rows before the image"),
        }
    }
}

pub(super) fn story(study: &SequenceLength, runs: &[Ran], records: &[Record]) -> Story {
    let mut story = blank(study.name(), "Sequences longer than in training", study.question(), records);
    story.expectation = "Batch norm needs statistics for time steps that did not occur in training; layer norm does \
                         not (Ba, Kiros and Hinton, 2016, sections 1 and 3). On longer sequences, the error of layer \
                         norm should therefore be lower than that of batch norm. The paper makes no claim about \
                         networks without a norm here."
        .to_owned();
    let groups = groups(runs);
    let ([rows, _], lengths) = (image(runs), lengths(&groups));
    if lengths.is_empty() {
        return story;
    }
    story.charts = [again(&groups, &lengths, rows), delayed(&groups, &lengths, rows)].into_iter().flatten().collect();
    story.numbers = Some(table(&groups, &lengths, rows));
    story.answer = answer(&groups, rows);
    story.findings = findings(&groups, &lengths, rows);
    story.notes = vec![
        "The pixels of all images are permuted in the same way, so that every row has the same kind of content. In an \
         original image the first rows are blank, and batch norm's statistics of these steps are poor."
            .to_owned(),
        format!(
            "No network was trained on more than {rows} steps. Longer sequences read the same image again, or have \
             blank rows before it."
        ),
        format!(
            "Batch norm has running statistics for {rows} time steps only; for later steps it uses those of the last \
             one. The dashed curve shows batch norm with the statistics of the test batch, as in training. Batch norm is \
             not tested with blank rows, in which nothing varies over the batch."
        ),
        "Random guessing has an error of about 90 %.".to_owned(),
    ];
    story.notes.extend(statistics(&groups, rows));
    story
}

/// The runs of a norm, tested in one of two ways.
#[derive(Clone)]
struct Group<'a> {
    norm: Norm,
    /// With the statistics of the test batch.
    own: bool,
    runs: Vec<&'a Ran>,
}

fn groups(runs: &[Ran]) -> Vec<Group<'_>> {
    let mut groups = Vec::new();
    for (norm, runs) in by_norm(runs, ID) {
        let own = runs.iter().any(|ran| ran.trained.spec.trials.iter().any(|trial| trial.as_in_training));
        groups.push(Group { norm, own: false, runs: runs.clone() });
        if own {
            groups.push(Group { norm, own, runs });
        }
    }
    groups
}

impl Group<'_> {
    fn name(&self) -> String {
        format!("{}{}", words(self.norm), if self.own { ", test batch statistics" } else { "" })
    }

    /// The error on sequences of a length, in percent.
    fn error(&self, length: Length) -> Option<Spread> {
        in_percent(Spread::of(self.runs.iter().map(|ran| self.trial(ran, length))))
    }

    fn trial(&self, ran: &Ran, length: Length) -> Option<f64> {
        let mut trials = ran.trained.spec.trials.iter();
        let trial = trials.find(|trial| Length::of(trial) == length && trial.as_in_training == self.own)?;
        trial_error(ran, &trial.name)
    }

    /// The error in percent, by seed.
    fn errors(&self, length: Length) -> BySeed {
        by_seed(&self.runs, |ran| Some(100.0 * self.trial(ran, length)?))
    }
}

/// The effect of running statistics, at the training length and at twice that length.
fn statistics(groups: &[Group<'_>], rows: usize) -> Option<String> {
    let error = |own: bool, length: Length| {
        let error = groups.iter().find(|group| group.norm == Norm::Batch && group.own == own)?.error(length)?;
        Some(to_digits(error.mean, 1))
    };
    Some(format!(
        "With {rows} steps, batch norm has a test error of {} % with its running statistics and {} % with those of the \
         test batch; the errors are {} % and {} % with {} steps.",
        error(false, TRAINED)?,
        error(true, TRAINED)?,
        error(false, TWICE)?,
        error(true, TWICE)?,
        TWICE.steps(rows)
    ))
}

/// All tested lengths: images read again, in increasing order, then images after blank rows.
fn lengths(groups: &[Group<'_>]) -> Vec<Length> {
    let trials = groups.iter().flat_map(|group| &group.runs).flat_map(|ran| &ran.trained.spec.trials);
    let mut lengths: Vec<Length> = trials.map(Length::of).collect();
    lengths.sort_unstable();
    lengths.dedup();
    lengths
}

/// The error of each group at these lengths; `None` if no group has been tested at more than one.
fn curves(groups: &[Group<'_>], lengths: &[Length], rows: usize, x: Axis) -> Option<Picture> {
    let curve = |group: &Group<'_>| {
        let tested = lengths.iter().filter(|&&length| group.error(length).is_some());
        let points = tested.map(|&length| (length.steps(rows) as f64, group.error(length)));
        let series = Series { dashed: group.own, ..series(&group.name(), points) };
        (series.x.len() > 1).then_some(series)
    };
    let series: Vec<Series> = groups.iter().filter_map(curve).collect();
    let y = Axis { unit: Some("%".to_owned()), low: Some(0.0), high: Some(100.0), ..axis("test error") };
    (!series.is_empty()).then_some(Picture::Lines { x, y, series, scrub: false })
}

/// The norm with the lowest error at a length.
fn lowest(groups: &[Group<'_>], length: Length, rows: usize) -> String {
    let ours = groups.iter().filter(|group| !group.own);
    let all = ours.filter_map(|group| Some((group.norm, group.error(length)?.mean)));
    let lowest = all.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(norm, error)| {
        let steps = length.steps(rows);
        format!(" At {steps} steps, {} has the lowest error, {} %.", words(norm), to_digits(error, 1))
    });
    lowest.unwrap_or_default()
}

fn again(groups: &[Group<'_>], lengths: &[Length], rows: usize) -> Option<Chart> {
    let lengths: Vec<Length> = lengths.iter().copied().filter(|length| matches!(length, Length::Again(_))).collect();
    let see = format!(
        "The leftmost point is the training length, {rows} steps; a flat curve means that the length does not matter.{}",
        lowest(groups, TWICE, rows)
    );
    let picture = curves(groups, &lengths, rows, axis("sequence length, time steps"))?;
    Some(chart("error", "Test error if the image is read again", see, picture))
}

fn delayed(groups: &[Group<'_>], lengths: &[Length], rows: usize) -> Option<Chart> {
    let groups: Vec<Group<'_>> = groups.iter().filter(|group| group.norm != Norm::Batch).cloned().collect();
    let delays = lengths.iter().copied().filter(|length| matches!(length, Length::Delayed(_)));
    let lengths: Vec<Length> = [TRAINED].into_iter().chain(delays).collect();
    let see = format!(
        "The leftmost point is the training length, {rows} steps; further right, blank rows come first. A flat curve \
         means that the network waits for the image.{}",
        lengths.get(1).map_or(String::new(), |&first| lowest(&groups, first, rows))
    );
    let picture = curves(&groups, &lengths, rows, log_axis("sequence length, time steps"))?;
    Some(chart("delay", "Test error if blank rows come before the image", see, picture))
}

fn table(groups: &[Group<'_>], lengths: &[Length], image_rows: usize) -> Table {
    let mut rows = Vec::new();
    for group in groups {
        for &length in lengths.iter().filter(|&&length| group.error(length).is_some()) {
            let steps = length.steps(image_rows) as f64;
            let mut row: Vec<Cell> = vec![group.name().into(), steps.into(), length.words().into()];
            row.push((group.runs.len() as f64).into());
            row.extend(cells(group.error(length)));
            rows.push(row);
        }
    }
    let columns = ["norm", "time steps", "sequence", "seeds", "test error, %", "best seed", "worst seed"];
    Table { columns: columns.map(str::to_owned).to_vec(), rows, notes: Vec::new() }
}

/// The questions: layer norm against batch norm on images that are read again, layer norm against no norm on these and
/// after blank rows, and what statistics of the test batch change.
fn findings(groups: &[Group<'_>], lengths: &[Length], rows: usize) -> Vec<Finding> {
    let of = |norm, own| groups.iter().find(move |group| group.norm == norm && group.own == own);
    let errors = |norm, own, length| of(norm, own).map_or(BySeed::new(), |group| group.errors(length));
    let layer = |length| errors(Norm::Layer, false, length);
    let images = groups.iter().flat_map(|group| &group.runs).map(|ran| ran.trained.spec.test).min();
    let pair = |what: &str, ours, other| test_errors(what, images, ours, other);
    let mut findings = Vec::new();
    for repeats in REPEATS {
        let length = Length::Again(repeats);
        let text = format!("{}, layer norm has a lower test error than batch norm", length.at(rows));
        let pair = pair("layer norm − batch norm", layer(length), errors(Norm::Batch, false, length));
        let reason = if length == TRAINED {
            "Batch norm is done as published here, with statistics for every time step and γ = 0.1 at the start; the \
             sources claim nothing about this length."
        } else {
            FITS
        };
        let claim = Claim::new(format!("batch-read-{}", 1 + repeats), text);
        // The sources claim nothing about the training length.
        let claim = if length == TRAINED { claim } else { claim.source("C12") };
        findings.extend(claim.reason(reason).lower(pair));
    }
    for &length in lengths.iter().filter(|&&length| length != TRAINED) {
        let id = match length {
            Length::Again(repeats) if REPEATS.contains(&repeats) => format!("none-read-{}", 1 + repeats),
            Length::Delayed(blank) if BLANK.contains(&blank) => format!("none-{blank}"),
            _ => continue,
        };
        let text = format!("{}, layer norm has a lower test error than no norm", length.at(rows));
        let pair = pair("layer norm − no norm", layer(length), errors(Norm::None, false, length));
        findings.extend(Claim::new(id, text).source("C12").reason(KEEPS).lower(pair));
    }
    let rise = |norm| combined(&[TWICE, TRAINED].map(|length| errors(norm, false, length)), |both| both[0] - both[1]);
    let twice = TWICE.steps(rows);
    let text =
        format!("From {rows} to {twice} time steps, the test error rises less with layer norm than with batch norm");
    let rises = pair("rise, layer norm − batch norm", rise(Norm::Layer), rise(Norm::Batch));
    // Each rise is a difference of two rounded errors.
    let rises = Pair { step: SQRT_2 * rises.step, ..rises };
    findings.extend(Claim::new("rise", text).source("C12").reason(FITS).lower(rises));
    let text = format!("At {twice} time steps, statistics of the test batch lower batch norm's test error");
    let pair =
        pair("test batch − running statistics", errors(Norm::Batch, true, TWICE), errors(Norm::Batch, false, TWICE));
    findings.extend(Claim::new("own-statistics", text).source("C7").reason(NOISY).lower(pair));
    findings
}

/// Why batch norm may do well beyond the training length.
const FITS: &str = "A possible reason, not tested: the image is read again, and the statistics of the last trained step, \
    which batch norm uses from there on, still fit.";
/// Why a network without a norm may do better.
const KEEPS: &str = "A possible reason, not tested: an LSTM without a norm can keep its state unchanged over further \
    steps, while layer norm rescales it at every step.";
/// Why statistics of the test batch may not help.
const NOISY: &str =
    "A possible reason, not tested: the statistics of one test batch are noisier than the running ones.";

fn answer(groups: &[Group<'_>], rows: usize) -> String {
    let told = |group: &Group<'_>| {
        let errors = REPEATS.iter().map(|&repeats| Some(to_digits(group.error(Length::Again(repeats))?.mean, 1)));
        let errors: Vec<String> = errors.collect::<Option<_>>()?;
        Some(format!("{} % {}", errors.join(" → "), with(group.norm)))
    };
    let found: Vec<String> = groups.iter().filter(|group| !group.own).filter_map(told).collect();
    if found.is_empty() {
        return "Some runs have not finished yet.".to_owned();
    }
    let steps: Vec<String> = REPEATS.iter().map(|&repeats| Length::Again(repeats).steps(rows).to_string()).collect();
    let mut text = format!(
        "Test error at {} time steps, reading the image up to {} times: {}.",
        steps.join(" → "),
        REPEATS.len(),
        found.join(", ")
    );
    let after = |norm| groups.iter().find(|group| group.norm == norm)?.error(Length::Delayed(BLANK[0]));
    if let (Some(layer), Some(none)) = (after(Norm::Layer), after(Norm::None)) {
        text += &format!(
            " After {} blank rows: {} % {}, {} % {}.",
            BLANK[0],
            to_digits(none.mean, 1),
            with(Norm::None),
            to_digits(layer.mean, 1),
            with(Norm::Layer)
        );
    }
    text
}
