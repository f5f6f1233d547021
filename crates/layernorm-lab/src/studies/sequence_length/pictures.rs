//! The story of longer sequences.

use super::{ID, SequenceLength};
use crate::models::Norm;
use crate::records::Record;
use crate::report::{Axis, Cell, Chart, Finding, Picture, Series, Story, Table};
use crate::studies::Study;
use crate::studies::findings::{BySeed, Claim, Pair, by_seed, combined, test_errors};
use crate::studies::tools::{axis, chart, log_axis, story as blank, to_digits};
use crate::studies::trained::{Ran, Spread, by_norm, cells, image, in_percent, series, trial_error, with, words};
use std::f64::consts::SQRT_2;

/// Numbers of blank rows that the answer mentions: none, a few, as many as an MNIST image has, and four times as many.
const TOLD: [usize; 4] = [0, 7, TWICE, 112];
/// With this many, MNIST sequences are twice as long.
const TWICE: usize = 28;

pub(super) fn story(study: &SequenceLength, runs: &[Ran], records: &[Record]) -> Story {
    let mut story = blank(study.name(), "Sequences longer than in training", study.question(), records);
    story.expectation = "Batch norm needs statistics for time steps that did not occur in training; layer norm does \
                         not (Ba, Kiros and Hinton, 2016, sections 1 and 3). On longer sequences, the error of layer \
                         norm should therefore be lower than that of batch norm. The paper makes no claim about \
                         networks without a norm here."
        .to_owned();
    let groups = groups(runs);
    let ([rows, _], blanks) = (image(runs), blanks(&groups));
    if blanks.is_empty() {
        return story;
    }
    story.charts = vec![curves(&groups, &blanks, rows)];
    story.numbers = Some(table(&groups, &blanks, rows));
    story.answer = answer(&groups, rows);
    story.findings = findings(&groups, rows);
    story.notes = vec![
        format!(
            "Batch norm has running statistics for {rows} time steps only; for later steps it uses those of the last \
             one. The dashed curve shows batch norm with the statistics of the test batch, as in training."
        ),
        format!(
            "The longer sequences are test images with blank rows before them. No network was trained on more than \
             {rows} steps."
        ),
        "Guessing misclassifies about 90 % of the images.".to_owned(),
    ];
    story.notes.extend(statistics(&groups, rows));
    story
}

/// The runs of a norm, tested in one of two ways.
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

    /// The error on images after `blank` blank rows, in percent.
    fn error(&self, blank: usize) -> Option<Spread> {
        in_percent(Spread::of(self.runs.iter().map(|ran| self.trial(ran, blank))))
    }

    fn trial(&self, ran: &Ran, blank: usize) -> Option<f64> {
        let mut trials = ran.trained.spec.trials.iter();
        let trial = trials.find(|trial| trial.blank_rows == blank && trial.as_in_training == self.own)?;
        trial_error(ran, &trial.name)
    }

    /// The error in percent, by seed.
    fn errors(&self, blank: usize) -> BySeed {
        by_seed(&self.runs, |ran| Some(100.0 * self.trial(ran, blank)?))
    }
}

/// The effect of running statistics, at the training length and at twice that length.
fn statistics(groups: &[Group<'_>], rows: usize) -> Option<String> {
    let error = |own: bool, blank: usize| {
        let error = groups.iter().find(|group| group.norm == Norm::Batch && group.own == own)?.error(blank)?;
        Some(error.mean)
    };
    let [own, running] = [error(true, 0)?, error(false, 0)?];
    let text = format!(
        "With {rows} steps, batch norm has a test error of {} % with its running statistics and {} % with those of the \
         test batch; the errors are {} % and {} % with {} steps.",
        to_digits(running, 1),
        to_digits(own, 1),
        to_digits(error(false, TWICE)?, 1),
        to_digits(error(true, TWICE)?, 1),
        rows + TWICE
    );
    // Well above the resolution of 500 images.
    Some(match running > own + 5.0 {
        true => {
            text + " The first rows of an image are mostly blank: variation there is rare and small, so the running \
                    statistics are poor estimates."
        }
        false => text,
    })
}

/// All tested numbers of blank rows, in increasing order.
fn blanks(groups: &[Group<'_>]) -> Vec<usize> {
    let trials = groups.iter().flat_map(|group| &group.runs).flat_map(|ran| &ran.trained.spec.trials);
    let mut blanks: Vec<usize> = trials.map(|trial| trial.blank_rows).collect();
    blanks.sort_unstable();
    blanks.dedup();
    blanks
}

fn curves(groups: &[Group<'_>], blanks: &[usize], rows: usize) -> Chart {
    let curve = |group: &Group<'_>| {
        let blanks = blanks.iter().filter(|&&blank| !group.own || group.error(blank).is_some());
        let points = blanks.map(|&blank| ((rows + blank) as f64, group.error(blank)));
        Series { dashed: group.own, ..series(&group.name(), points) }
    };
    let picture = Picture::Lines {
        x: log_axis("sequence length, time steps"),
        y: Axis { unit: Some("%".to_owned()), low: Some(0.0), high: Some(100.0), ..axis("test error") },
        series: groups.iter().map(curve).collect(),
        scrub: false,
    };
    let ours = groups.iter().filter(|group| !group.own);
    let all = ours.filter_map(|group| Some((group.norm, group.error(TWICE)?.mean)));
    let see = match all.min_by(|a, b| a.1.total_cmp(&b.1)) {
        Some((norm, error)) => format!(
            "The leftmost point is the training length, {rows} steps; a flat curve means that the length does not \
             matter. At {} steps, {} has the lowest error, {} %.",
            rows + TWICE,
            words(norm),
            to_digits(error, 1)
        ),
        None => {
            format!(
                "The leftmost point is the training length, {rows} steps; a flat curve means that the length does not \
                     matter."
            )
        }
    };
    chart("error", "Test error by sequence length", see, picture)
}

fn table(groups: &[Group<'_>], blanks: &[usize], image_rows: usize) -> Table {
    let mut rows = Vec::new();
    for group in groups {
        for &blank in blanks.iter().filter(|&&blank| !group.own || group.error(blank).is_some()) {
            let steps = (image_rows + blank) as f64;
            let mut row: Vec<Cell> = vec![group.name().into(), steps.into(), (group.runs.len() as f64).into()];
            row.extend(cells(group.error(blank)));
            rows.push(row);
        }
    }
    let columns = ["norm", "time steps", "seeds", "test error, %", "best seed", "worst seed"];
    Table { columns: columns.map(str::to_owned).to_vec(), rows, notes: Vec::new() }
}

/// The questions: layer norm against batch norm and against no norm on longer sequences, and what statistics of the test
/// batch change.
fn findings(groups: &[Group<'_>], rows: usize) -> Vec<Finding> {
    let of = |norm, own| groups.iter().find(move |group| group.norm == norm && group.own == own);
    let errors = |norm, own, blank| of(norm, own).map_or(BySeed::new(), |group| group.errors(blank));
    let layer = |blank| errors(Norm::Layer, false, blank);
    let images = groups.iter().flat_map(|group| &group.runs).map(|ran| ran.trained.spec.test).min();
    let pair = |what: &str, ours, other| test_errors(what, images, ours, other);
    let mut findings = Vec::new();
    for &blank in &TOLD[1..] {
        let text = format!("At {} time steps, layer norm has a lower test error than batch norm", rows + blank);
        let pair = pair("layer norm − batch norm", layer(blank), errors(Norm::Batch, false, blank));
        findings.extend(Claim::new(format!("batch-{blank}"), text).source("C12").lower(pair));
    }
    for &blank in &TOLD[1..] {
        let text = format!("At {} time steps, layer norm has a lower test error than no norm", rows + blank);
        let pair = pair("layer norm − no norm", layer(blank), errors(Norm::None, false, blank));
        findings.extend(Claim::new(format!("none-{blank}"), text).source("C12").lower(pair));
    }
    let rise = |norm| combined(&[TWICE, 0].map(|blank| errors(norm, false, blank)), |both| both[0] - both[1]);
    let text = format!(
        "From {rows} to {} time steps, the test error rises less with layer norm than with batch norm",
        rows + TWICE
    );
    let rises = pair("rise, layer norm − batch norm", rise(Norm::Layer), rise(Norm::Batch));
    // Each rise is a difference of two rounded errors.
    let rises = Pair { step: SQRT_2 * rises.step, ..rises };
    findings.extend(Claim::new("rise", text).source("C12").lower(rises));
    let text = format!("At {} time steps, statistics of the test batch lower batch norm's test error", rows + TWICE);
    let pair =
        pair("test batch − running statistics", errors(Norm::Batch, true, TWICE), errors(Norm::Batch, false, TWICE));
    findings.extend(Claim::new("own-statistics", text).source("C7").lower(pair));
    findings
}

fn answer(groups: &[Group<'_>], rows: usize) -> String {
    let errors = |group: &Group<'_>| {
        let errors: Vec<Spread> = TOLD.iter().map(|&blank| group.error(blank)).collect::<Option<_>>()?;
        Some((group.norm, errors))
    };
    let found: Vec<(Norm, Vec<Spread>)> = groups.iter().filter(|group| !group.own).filter_map(errors).collect();
    if found.is_empty() {
        return "Some runs have not finished yet.".to_owned();
    }
    let told = found.iter().map(|(norm, errors)| {
        let errors: Vec<String> = errors.iter().map(|error| to_digits(error.mean, 1)).collect();
        format!("{} % {}", errors.join(" → "), with(*norm))
    });
    let lengths = TOLD.map(|blank| (rows + blank).to_string()).join(" → ");
    let mut text = format!("Test error at {lengths} time steps: {}.", told.collect::<Vec<_>>().join(", "));
    let beyond = |norm| found.iter().find(|(of, _)| *of == norm).map(|(_, errors)| &errors[1..]);
    if let (Some(layer), Some(none)) = (beyond(Norm::Layer), beyond(Norm::None)) {
        text += match layer.iter().zip(none).all(|(layer, none)| layer.mean < none.mean) {
            true => {
                " On sequences longer than in training, the mean error with layer norm is lower than without a norm."
            }
            false => {
                " On sequences longer than in training, the mean error with layer norm is not always lower than without a \
                      norm."
            }
        };
    }
    text
}
