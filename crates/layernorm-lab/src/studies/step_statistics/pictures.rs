//! The story of batch norm's statistics by time step.

use super::{ID, REPEATS, StepStatistics};
use crate::models::Norm;
use crate::records::Record;
use crate::report::{Axis, Cell, Chart, Finding, Picture, Series, Story, Table};
use crate::studies::Study;
use crate::studies::findings::{BySeed, Claim, Pair, by_seed, collect, combined, test_errors};
use crate::studies::tools::{axis, chart, log_axis, story as blank, to_digits};
use crate::studies::trained::{Ran, Spread, by_norm, cells, events, image, series, trial_error, words};
use crate::training::events::{NormStatistics, Statistics, UnitStatistics};
use std::f64::consts::SQRT_2;

pub(super) fn story(study: &StepStatistics, runs: &[Ran], records: &[Record]) -> Story {
    let mut story = blank(study.name(), "Batch norm's statistics by time step", study.question(), records);
    story.expectation =
        "Batch norm in a recurrent network needs different statistics for different time steps, and has none for \
         sequences longer than those of training; layer norm does not have this problem (Ba, Kiros and Hinton, 2016, \
         sections 1 and 3.1). The statistics of the first steps should differ from those of the last, statistics per \
         step should give a lower error than shared ones, and past the training length the error of batch norm should \
         rise more than that of layer norm."
            .to_owned();
    let found = Found::of(runs);
    if found.groups.is_empty() {
        return story;
    }
    story.charts = found.charts();
    story.numbers = Some(found.table());
    story.answer = found.answer();
    story.findings = found.findings();
    let steps = found.steps;
    story.notes = vec![
        format!(
            "All networks are trained on {steps} time steps: the rows of images reduced to half of their size, with all \
             pixels permuted in the same way. Longer sequences read the same image again."
        ),
        "Shared statistics are the mean and the variance of all steps together, of the same trained network: training \
         always uses the statistics of the batch at each step."
            .to_owned(),
        "h is 0 before the first step, so the variance of U h is 0 there and is not drawn. The statistics of U h are \
         compared from the second step on."
            .to_owned(),
        "Running statistics for inference are computed over 1,000 training images.".to_owned(),
    ];
    story
}

/// The runs of a norm, tested in one of two ways.
struct Group<'a> {
    norm: Norm,
    shared: bool,
    runs: Vec<&'a Ran>,
}

impl Group<'_> {
    fn name(&self) -> String {
        match (self.norm, self.shared) {
            (Norm::Batch, false) => "batch norm, statistics per step".to_owned(),
            (Norm::Batch, true) => "batch norm, shared statistics".to_owned(),
            (norm, _) => words(norm).to_owned(),
        }
    }

    fn trial(&self, ran: &Ran, repeats: usize) -> Option<f64> {
        let mut trials = ran.trained.spec.trials.iter();
        let trial = trials.find(|trial| trial.repeats == repeats && trial.shared_statistics == self.shared)?;
        Some(100.0 * trial_error(ran, &trial.name)?)
    }

    fn error(&self, repeats: usize) -> Option<Spread> {
        Spread::of(self.runs.iter().map(|ran| self.trial(ran, repeats)))
    }
}

/// Everything that was found.
struct Found<'a> {
    groups: Vec<Group<'a>>,
    /// The statistics of each run with batch norm, by seed.
    statistics: Vec<(u64, Statistics)>,
    /// Time steps in training.
    steps: usize,
}

impl<'a> Found<'a> {
    fn of(runs: &'a [Ran]) -> Found<'a> {
        let (mut groups, mut statistics) = (Vec::new(), Vec::new());
        let size = image(runs);
        let mut steps = size[0];
        for (norm, runs) in by_norm(runs, ID) {
            if let Some(ran) = runs.first() {
                steps = ran.trained.spec.images.size(size)[0];
            }
            for ran in &runs {
                let seed = ran.trained.spec.start.seed;
                statistics.extend(events(ran, "statistics").into_iter().map(|found: Statistics| (seed, found)));
            }
            let ways = if norm == Norm::Batch { &[false, true][..] } else { &[false] };
            groups.extend(ways.iter().map(|&shared| Group { norm, shared, runs: runs.clone() }));
        }
        Found { groups, statistics, steps }
    }

    fn group(&self, norm: Norm, shared: bool) -> Option<&Group<'a>> {
        self.groups.iter().find(|group| group.norm == norm && group.shared == shared)
    }

    fn errors(&self, norm: Norm, shared: bool, repeats: usize) -> BySeed {
        self.group(norm, shared).map_or(BySeed::new(), |group| by_seed(&group.runs, |ran| group.trial(ran, repeats)))
    }

    /// The statistics of a norm with each seed.
    fn norms(&self, of: &str) -> impl Iterator<Item = (u64, &NormStatistics)> {
        self.statistics
            .iter()
            .filter_map(move |(seed, all)| Some((*seed, all.norms.iter().find(|norm| norm.of == of)?)))
    }

    /// A number of each step as a curve: the mean over seeds, with a band from minimum to maximum. Zeros are left out.
    fn by_step(&self, of: &str, value: impl Fn(&NormStatistics) -> &Vec<Option<f64>>) -> Series {
        let at = |step: usize| {
            let values = self.norms(of).map(|(_, norm)| value(norm).get(step).copied()?.filter(|&value| value > 0.0));
            Spread::of(values)
        };
        series(of, (0..self.steps).map(|step| ((step + 1) as f64, at(step))))
    }

    fn charts(&self) -> Vec<Chart> {
        let x = || axis("time step");
        let lines = |y, series| Picture::Lines { x: x(), y, series, scrub: false };
        let mut charts = Vec::new();
        if !self.statistics.is_empty() {
            let normalized = ["W x", "U h", "c"];
            let variances = normalized.map(|of| self.by_step(of, |norm| &norm.variance)).to_vec();
            let see = "A flat curve means that all steps could share their statistics. Each curve is the mean over the \
                       units; the band shows the range over seeds. The cell c starts at 0 and fills up; W x depends \
                       only on the input.";
            let y = log_axis("running variance, mean over the units");
            charts.push(chart("variance", "Running variance by time step", see, lines(y, variances)));
            let means = normalized.map(|of| self.by_step(of, |norm| &norm.mean_size)).to_vec();
            let see = "Mean over the units of the absolute running mean. The means of W x differ from step to step \
                       because the rows have different pixels.";
            charts.push(chart("mean", "Running mean by time step", see, lines(axis("|running mean|"), means)));
            charts.extend(self.units().map(|series| {
                let see = "Running means of the cell state c for the first units of the network with the first seed: \
                           each unit has its own course.";
                chart("units", "Running mean of c: some units", see, lines(axis("running mean of c"), series))
            }));
        }
        charts.push(self.error_chart());
        charts
    }

    /// The running means of some units of c.
    fn units(&self) -> Option<Vec<Series>> {
        let (_, norm) = self.norms("c").next()?;
        let of = |(number, unit): (usize, &UnitStatistics)| Series {
            name: format!("unit {}", number + 1),
            x: (1..=unit.mean.len()).map(|step| step as f64).collect(),
            y: unit.mean.clone(),
            ..Series::default()
        };
        Some(norm.units.iter().enumerate().map(of).collect())
    }

    fn error_chart(&self) -> Chart {
        let curve = |group: &Group<'_>| {
            let points = REPEATS.iter().map(|&repeats| ((self.steps * (1 + repeats)) as f64, group.error(repeats)));
            Series { dashed: group.shared, ..series(&group.name(), points) }
        };
        let picture = Picture::Lines {
            x: axis("sequence length, time steps"),
            y: Axis { unit: Some("%".to_owned()), low: Some(0.0), ..axis("test error") },
            series: self.groups.iter().map(curve).collect(),
            scrub: false,
        };
        let see = format!(
            "The leftmost point is the training length, {} steps: compare batch norm with its two kinds of statistics \
             there. To the right, the image is read two, three and four times; a flat curve means that the length does \
             not matter.",
            self.steps
        );
        chart("error", "Test error by sequence length", see, picture)
    }

    fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (id, of, first, name) in [("variance-recurrent", "U h", 1, "second"), ("variance-cell", "c", 0, "first")] {
            let at = |place: &dyn Fn(usize) -> Option<usize>| {
                collect(self.norms(of).map(|(seed, norm)| {
                    let variance = place(norm.variance.len()).and_then(|step| norm.variance.get(step).copied()?);
                    (seed, variance.filter(|&variance| variance > 0.0).map(f64::log10))
                }))
            };
            let pair = Pair {
                what: format!("log₁₀ of the running variance of {of}, {name} step − last step"),
                unit: "powers of ten",
                step: 0.0,
                ours: at(&|_| Some(first)),
                other: at(&|steps| steps.checked_sub(1)),
            };
            let text = format!("The running variance of {of} is smaller at the {name} time step than at the last");
            findings.extend(Claim::new(id, text).source("C7").reason(EARLY).lower(pair));
        }
        let images = self.groups.iter().flat_map(|group| &group.runs).map(|ran| ran.trained.spec.test).min();
        let pair = |what: &str, ours, other| test_errors(what, images, ours, other);
        let of = |shared| self.errors(Norm::Batch, shared, 0);
        let text = "At the training length, statistics per time step give a lower test error than shared ones";
        let shared = pair("batch norm, per step − shared", of(false), of(true));
        findings.extend(Claim::new("shared", text).source("C7").reason(POOLED).lower(shared));
        let text = format!(
            "At the training length, {} time steps, layer norm has a lower test error than batch norm",
            self.steps
        );
        let trained = pair("layer norm − batch norm", self.errors(Norm::Layer, false, 0), of(false));
        let reason = "Batch norm is done as published here, with statistics for every time step and γ = 0.1 at the start; the \
                      sources claim nothing about this length.";
        findings.extend(Claim::new("trained-length", text).reason(reason).lower(trained));
        let rise = |norm, repeats| {
            combined(&[repeats, 0].map(|repeats| self.errors(norm, false, repeats)), |both| both[0] - both[1])
        };
        for repeats in &REPEATS[1..] {
            let length = self.steps * (1 + repeats);
            let text = format!(
                "From {} to {length} time steps, the test error rises more with batch norm than with layer norm",
                self.steps
            );
            let rises = pair("rise, batch norm − layer norm", rise(Norm::Batch, *repeats), rise(Norm::Layer, *repeats));
            // Each rise is a difference of two rounded errors.
            let rises = Pair { step: SQRT_2 * rises.step, ..rises };
            findings
                .extend(Claim::new(format!("longer-{}", 1 + repeats), text).source("C7").reason(FITS).higher(rises));
        }
        findings
    }

    fn table(&self) -> Table {
        let mut rows = Vec::new();
        for group in &self.groups {
            for repeats in REPEATS {
                let steps = (self.steps * (1 + repeats)) as f64;
                let mut row: Vec<Cell> = vec![group.name().into(), steps.into(), (group.runs.len() as f64).into()];
                row.extend(cells(group.error(repeats)));
                rows.push(row);
            }
        }
        let columns = ["norm", "time steps", "seeds", "test error, %", "best seed", "worst seed"];
        Table { columns: columns.map(str::to_owned).to_vec(), rows, notes: Vec::new() }
    }

    fn answer(&self) -> String {
        let told = self.groups.iter().filter_map(|group| {
            let errors = REPEATS.iter().map(|&repeats| Some(to_digits(group.error(repeats)?.mean, 1)));
            let errors = errors.collect::<Option<Vec<String>>>()?;
            Some(format!("{}: {} %", group.name(), errors.join(" → ")))
        });
        let told: Vec<String> = told.collect();
        if told.is_empty() {
            return "Some runs have not finished yet.".to_owned();
        }
        let lengths: Vec<String> = REPEATS.iter().map(|repeats| (self.steps * (1 + repeats)).to_string()).collect();
        format!("Test error at {} time steps (training: {}). {}.", lengths.join(" → "), self.steps, told.join("; "))
    }
}

/// Why the variance may not grow over time.
const EARLY: &str = "A possible reason, not tested: with γ = 0.1, the state reaches its usual size within the first \
    steps.";
/// Why shared statistics may do.
const POOLED: &str = "A possible reason, not tested: shared statistics are averages over more values, and those of the \
    steps differ little after the first ones.";
/// Why batch norm may do well beyond the training length.
const FITS: &str = "A possible reason, not tested: the image is read again, and the statistics of the last trained step, \
    which batch norm uses from there on, still fit.";
