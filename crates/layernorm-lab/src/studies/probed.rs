//! Probe events of a network's runs, by norm.

use super::findings::{BySeed, collect};
use super::trained::{Ran, Spread, by_norm, events, series};
use crate::models::Norm;
use crate::report::Series;
use serde::de::DeserializeOwned;

/// The runs of a norm, with the events of one probe in each run.
pub(crate) struct Probed<'a, T> {
    pub(crate) norm: Norm,
    pub(crate) runs: Vec<&'a Ran>,
    pub(crate) seen: Vec<Vec<T>>,
}

/// The first or the last probe event of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    Start,
    End,
}

impl Moment {
    pub(crate) const BOTH: [Moment; 2] = [Moment::Start, Moment::End];

    pub(crate) fn of<T>(self, run: &[T]) -> Option<&T> {
        match self {
            Moment::Start => run.first(),
            Moment::End => run.last(),
        }
    }
}

/// Events of a given name from a network's runs.
pub(crate) fn probed<'a, T: DeserializeOwned>(runs: &'a [Ran], id: &str, event: &str) -> Vec<Probed<'a, T>> {
    let of = |(norm, runs): (Norm, Vec<&'a Ran>)| {
        let seen = runs.iter().map(|ran| events(ran, event)).collect();
        Probed { norm, runs, seen }
    };
    by_norm(runs, id).into_iter().map(of).collect()
}

impl<T> Probed<'_, T> {
    /// The spread over seeds of a value at a moment.
    pub(crate) fn spread(&self, moment: Moment, of: impl Fn(&T) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.seen.iter().map(|run| of(moment.of(run)?)))
    }

    /// A value at a moment, by seed.
    pub(crate) fn by_seed(&self, moment: Moment, of: impl Fn(&T) -> Option<f64>) -> BySeed {
        let runs = self.runs.iter().zip(&self.seen);
        collect(runs.map(|(ran, seen)| (ran.trained.spec.start.seed, moment.of(seen).and_then(&of))))
    }

    /// A curve over training steps: the mean over seeds, with a band from minimum to maximum. `at` gives an event's
    /// step and value.
    pub(crate) fn curve(&self, name: &str, at: impl Fn(&T) -> Option<(usize, Option<f64>)>) -> Series {
        let runs: Vec<Vec<(usize, Option<f64>)>> =
            self.seen.iter().map(|run| run.iter().filter_map(&at).collect()).collect();
        let mut steps: Vec<usize> = runs.iter().flatten().map(|(step, _)| *step).collect();
        steps.sort_unstable();
        steps.dedup();
        let spread = |step: usize| Spread::of(runs.iter().map(|run| run.iter().find(|(of, _)| *of == step)?.1));
        series(name, steps.into_iter().map(|step| (step as f64, spread(step))))
    }

    /// All events of all runs.
    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        self.seen.iter().flatten()
    }
}
