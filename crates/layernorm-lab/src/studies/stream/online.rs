//! Errors of predictions that were made before the image was learned, by part of the stream, and each way's best rate.

use super::{INTERVALS, Order, Way};
use crate::studies::findings::{BySeed, by_seed};
use crate::studies::trained::{Ran, Spread};

/// The part of a phase that counts as the time after a change: its first quarter.
const AFTER: usize = INTERVALS / 4;

/// A part of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// All of it.
    Whole,
    /// The first images after each change of the classes.
    AfterChanges,
}

/// The share of wrong predictions in a part of the stream, from 0 to 1. After divergence, all predictions are wrong.
/// `None` if the run is not finished, or has no such part.
pub(super) fn error(ran: &Ran, part: Part) -> Option<f64> {
    let spec = &ran.trained.spec;
    let phases = spec.stream.as_ref()?.boundaries(spec.steps);
    let within = |from: usize, to: usize| match part {
        Part::Whole => true,
        Part::AfterChanges => phases
            .windows(2)
            .skip(1)
            .any(|phase| from >= phase[0] && to <= phase[0] + (phase[1] - phase[0]) * AFTER / INTERVALS),
    };
    let (mut wrong, mut all) = (0.0, 0.0);
    for (interval, error) in intervals(ran)? {
        if within(interval[0], interval[1]) {
            let steps = (interval[1] - interval[0]) as f64;
            (wrong, all) = (wrong + error * steps, all + steps);
        }
    }
    (all > 0.0).then(|| wrong / all)
}

/// First and last step of each interval, and its share of wrong predictions.
pub(super) fn intervals(ran: &Ran) -> Option<Vec<([usize; 2], f64)>> {
    let steps = ran.trained.spec.evaluation_steps();
    let seen = |step: usize| ran.trained.evaluations.iter().find(|evaluation| evaluation.step == step);
    let error = |step: usize| match (seen(step), ran.trained.diverged) {
        (Some(evaluation), _) => Some(1.0 - evaluation.train_accuracy?),
        (None, Some(_)) => Some(1.0),
        (None, None) => None,
    };
    steps.windows(2).map(|pair| Some(([pair[0], pair[1]], error(pair[1])?))).collect()
}

/// The number of images in a part of the stream.
pub(super) fn images(ran: &Ran, part: Part) -> usize {
    let spec = &ran.trained.spec;
    let all = spec.steps * spec.batch_size;
    match (part, &spec.stream) {
        (Part::AfterChanges, Some(stream)) => {
            let phases = stream.phases.len().max(1);
            all * (phases - 1) * AFTER / (phases * INTERVALS)
        }
        _ => all,
    }
}

/// The runs of a way at one rate.
#[derive(Clone, Debug)]
pub(super) struct AtRate<'a> {
    pub(super) way: Way,
    pub(super) rate: f64,
    pub(super) runs: Vec<&'a Ran>,
}

impl AtRate<'_> {
    pub(super) fn spread(&self, part: Part) -> Option<Spread> {
        Spread::of(self.runs.iter().map(|ran| error(ran, part)))
    }

    /// Errors by seed, in percent.
    pub(super) fn by_seed(&self, part: Part) -> BySeed {
        by_seed(&self.runs, |ran| Some(100.0 * error(ran, part)?))
    }
}

/// The runs of a way, by learning rate.
pub(super) fn by_rate(runs: &[Ran], way: Way, order: Order) -> Vec<AtRate<'_>> {
    let prefix = format!("{}-", way.case(order));
    let own: Vec<&Ran> = runs.iter().filter(|ran| ran.case.starts_with(&prefix)).collect();
    let mut rates: Vec<f64> = own.iter().map(|ran| ran.trained.spec.learning_rate).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    let at = |rate: f64| own.iter().copied().filter(move |ran| ran.trained.spec.learning_rate == rate).collect();
    rates.into_iter().map(|rate| AtRate { way, rate, runs: at(rate) }).collect()
}

/// The runs at the rate with the lowest mean error over the whole stream.
pub(super) fn best(runs: &[Ran], way: Way, order: Order) -> Option<AtRate<'_>> {
    let mean = |at: &AtRate<'_>| at.spread(Part::Whole).map_or(f64::INFINITY, |spread| spread.mean);
    by_rate(runs, way, order).into_iter().min_by(|a, b| mean(a).total_cmp(&mean(b)))
}
