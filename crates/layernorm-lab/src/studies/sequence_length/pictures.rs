//! The story of longer sequences.

use super::{ID, ROWS, SequenceLength};
use crate::models::Norm;
use crate::records::Record;
use crate::report::{Axis, Cell, Chart, Picture, Story, Table};
use crate::studies::Study;
use crate::studies::tools::{axis, chart, log_axis, short, story as blank};
use crate::studies::trained::{Ran, Spread, by_norm, cells, in_percent, series, words};

/// How many times as long the sequences are that the answer is about.
const TIMES: [usize; 2] = [2, 5];

pub(super) fn story(study: &SequenceLength, runs: &[Ran], records: &[Record]) -> Story {
    let mut story = blank(study.name(), "Longer than in training", study.question(), records);
    story.expectation = "Layer norm needs no statistics of steps that it has not seen, batch norm does (Ba, Kiros and Hinton, \
                         2016, sections 1 and 3): so layer norm should lose less. It is not known to make memory longer."
        .to_owned();
    let groups: Vec<Group<'_>> = by_norm(runs, ID).into_iter().map(|(norm, runs)| Group { norm, runs }).collect();
    let lengths = lengths(&groups);
    if lengths.is_empty() {
        return story;
    }
    story.charts = vec![curves(&groups, &lengths)];
    story.numbers = Some(table(&groups, &lengths));
    (story.answer, story.as_expected) = answer(&groups);
    story.notes = vec![
        format!(
            "Batch norm has statistics of {ROWS} time steps and no more: for later ones it takes those of the last, which is \
             all that it can do."
        ),
        format!(
            "The longer sequences are the test images with rows of background behind them. Nothing was trained on more than \
             {ROWS} steps, and no network was told that it would have to wait."
        ),
        "A network that guesses errs in about 90 % of the images.".to_owned(),
    ];
    story
}

/// The runs of a norm.
struct Group<'a> {
    norm: Norm,
    runs: Vec<&'a Ran>,
}

impl Group<'_> {
    /// The error of sequences of this length, in percent.
    fn error(&self, length: usize) -> Option<Spread> {
        in_percent(Spread::of(self.runs.iter().map(|ran| {
            let trial = ran.trained.spec.trials.iter().find(|trial| ROWS + trial.blank_rows == length)?;
            let found = ran.trained.trials.iter().find(|found| found.name == trial.name)?;
            Some(1.0 - found.accuracy?)
        })))
    }
}

/// All lengths that were tried, rising.
fn lengths(groups: &[Group<'_>]) -> Vec<usize> {
    let trials = groups.iter().flat_map(|group| &group.runs).flat_map(|ran| &ran.trained.spec.trials);
    let mut lengths: Vec<usize> = trials.map(|trial| ROWS + trial.blank_rows).collect();
    lengths.sort_unstable();
    lengths.dedup();
    lengths
}

fn curves(groups: &[Group<'_>], lengths: &[usize]) -> Chart {
    let curve = |group: &Group<'_>| {
        series(words(group.norm), lengths.iter().map(|&length| (length as f64, group.error(length))))
    };
    let picture = Picture::Lines {
        x: log_axis("time steps of the sequence"),
        y: Axis { unit: Some("%".to_owned()), low: Some(0.0), high: Some(100.0), ..axis("test error") },
        series: groups.iter().map(curve).collect(),
        scrub: false,
    };
    let all = groups.iter().filter_map(|group| Some((group.norm, group.error(TIMES[0] * ROWS)?.mean)));
    let see = match all.min_by(|a, b| a.1.total_cmp(&b.1)) {
        Some((norm, error)) => format!(
            "On the left the length of training, {ROWS} steps: a curve that stays flat keeps what it has read. At {} steps {} \
             has the least error, {} %.",
            TIMES[0] * ROWS,
            words(norm),
            digits(error)
        ),
        None => {
            format!("On the left the length of training, {ROWS} steps: a curve that stays flat keeps what it has read.")
        }
    };
    chart("error", "The error of longer sequences", see, picture)
}

/// One digit after the point.
fn digits(number: f64) -> String {
    short((10.0 * number).round() / 10.0)
}

fn table(groups: &[Group<'_>], lengths: &[usize]) -> Table {
    let mut rows = Vec::new();
    for group in groups {
        for &length in lengths {
            let mut row: Vec<Cell> =
                vec![words(group.norm).into(), (length as f64).into(), (group.runs.len() as f64).into()];
            row.extend(cells(group.error(length)));
            rows.push(row);
        }
    }
    let columns = ["norm", "time steps", "seeds", "test error, %", "best seed", "worst seed"];
    Table { columns: columns.map(str::to_owned).to_vec(), rows, notes: Vec::new() }
}

/// What was seen, and whether layer norm lost less than batch norm.
fn answer(groups: &[Group<'_>]) -> (String, Option<bool>) {
    let errors = |group: &Group<'_>| {
        let [twice, more] = TIMES.map(|times| group.error(times * ROWS));
        Some([group.error(ROWS)?.mean, twice?.mean, more?.mean])
    };
    let found: Vec<(Norm, [f64; 3])> = groups.iter().filter_map(|group| Some((group.norm, errors(group)?))).collect();
    if found.is_empty() {
        return ("The runs are not all there yet.".to_owned(), None);
    }
    let told: Vec<String> = found
        .iter()
        .map(|(norm, [own, twice, more])| {
            format!("{} → {} → {} % with {}", digits(*own), digits(*twice), digits(*more), words(*norm))
        })
        .collect();
    let text =
        format!("Test error at {ROWS} steps, at {} and at {} times as many: {}.", TIMES[0], TIMES[1], told.join(", "));
    let lost = |norm| found.iter().find(|(of, _)| *of == norm).map(|(_, [own, twice, _])| twice - own);
    let as_expected = lost(Norm::Layer).zip(lost(Norm::Batch)).map(|(layer, batch)| layer < batch);
    (text, as_expected)
}
