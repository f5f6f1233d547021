//! The gradients of one network, by norm.

use super::Entry;
use crate::models::Norm;
use crate::report::Finding;
use crate::studies::findings::{BySeed, Claim, Pair, errors};
use crate::studies::probed::{Moment, Probed, probed};
use crate::studies::tools::to_digits;
use crate::studies::trained::{Ran, Spread, error, in_percent, words};
use crate::training::events::Gradients;

/// Why gradients may be preserved better without a norm, at the start and after training.
const KEPT: &str =
    "A possible reason, not tested: these initial weights already keep the gradient's scale without a norm.";
const LEARNED: &str = "A possible reason, not tested: training moves the weights of a network without a norm until gradients pass; with layer \
                       norm, learned γ and the division by σ change them too. Before training, this is a question of its own.";

/// The smallest positive number in f32.
const LEAST: f64 = 1.4e-45;

/// A network's profiles, by norm.
pub(super) struct Flow<'a> {
    pub(super) entry: Entry,
    pub(super) norms: Vec<Probed<'a, Gradients>>,
}

impl<'a> Flow<'a> {
    pub(super) fn of(entry: Entry, runs: &'a [Ran]) -> Option<Flow<'a>> {
        let norms = probed(runs, entry.id, if entry.through_time() { "time" } else { "gradients" });
        (!norms.is_empty()).then_some(Flow { entry, norms })
    }

    /// `log₁₀` of the later position's gradient minus that of the earlier one.
    fn between(&self, norm: Norm, moment: Moment, places: impl Fn(usize) -> Option<[usize; 2]>) -> Option<Spread> {
        self.with(norm)?.spread(moment, |seen| {
            let [early, late] = places(seen.norms.len())?;
            Some(log_or_least(seen, late)? - log_or_least(seen, early)?)
        })
    }

    pub(super) fn fall(&self, norm: Norm, moment: Moment) -> Option<Spread> {
        self.between(norm, moment, |places| self.entry.ends(places))
    }

    /// How far the gradient is from being preserved: |decay|, by seed.
    fn change(&self, norm: Norm, moment: Moment) -> BySeed {
        let Some(probed) = self.with(norm) else { return BySeed::new() };
        let change = |seen: &Gradients| {
            let [early, late] = self.entry.ends(seen.norms.len())?;
            Some((log_in_range(seen, late)? - log_in_range(seen, early)?).abs())
        };
        probed.by_seed(moment, change)
    }

    fn with(&self, norm: Norm) -> Option<&Probed<'a, Gradients>> {
        self.norms.iter().find(|probed| probed.norm == norm)
    }

    /// The questions: whether layer norm preserves the gradient better, at the start and at the end, and whether a
    /// deep network learns better.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let Entry { id, title, .. } = self.entry;
        let mut findings = Vec::new();
        let ends = [(Moment::Start, "start", "at the start".to_owned()), (Moment::End, "end", self.at_the_end())];
        for (moment, name, when) in ends {
            let reason = match moment {
                Moment::Start => KEPT,
                Moment::End => LEARNED,
            };
            let text = format!("{title}: {when}, the gradient changes less {} with layer norm", self.entry.way());
            let pair = Pair {
                what: "|decay| of the gradient, layer norm − no norm".to_owned(),
                unit: "powers of ten",
                step: 0.0,
                ours: self.change(Norm::Layer, moment),
                other: self.change(Norm::None, moment),
            };
            let claim = Claim::new(format!("{id}-{name}"), text).source("C5").reason(reason);
            findings.extend(claim.lower(pair));
        }
        if !self.entry.through_time() {
            let runs = |norm| self.with(norm).map_or(Vec::new(), |probed| probed.runs.clone());
            let text = format!("{title}: layer norm lowers the final validation error");
            let pair = errors("layer norm − no norm", &runs(Norm::Layer), &runs(Norm::None));
            findings.extend(Claim::new(format!("{id}-error"), text).source("C5").reason(ADAM).lower(pair));
        }
        findings
    }

    /// Training steps; 0 if there are no runs.
    pub(super) fn steps(&self) -> usize {
        self.norms.iter().flat_map(|probed| &probed.runs).next().map_or(0, |ran| ran.trained.spec.steps)
    }

    fn at_the_end(&self) -> String {
        format!("after {} steps", self.steps())
    }

    /// The gradient at the first position relative to the last, as the geometric mean over seeds.
    pub(super) fn ratio(&self, norm: Norm, moment: Moment) -> Option<f64> {
        let fall = self.between(norm, moment, |places| Some([0, places.checked_sub(1)?]))?;
        Some(10f64.powf(-fall.mean))
    }

    /// The decay with each norm, at the start and at the end, and how much the networks have learned by then.
    pub(super) fn sentence(&self) -> String {
        let of = |moment| {
            let falls = self.norms.iter().filter_map(|probed| {
                Some(format!("{} ({})", powers(self.fall(probed.norm, moment)?.mean), words(probed.norm)))
            });
            falls.collect::<Vec<_>>().join(", ")
        };
        let (start, end) = (of(Moment::Start), of(Moment::End));
        if start.is_empty() || end.is_empty() {
            return "Some measurements are missing.".to_owned();
        }
        format!(
            "Powers of ten by which the gradient decays {} (negative if it grows): {start} at the start; {end} {}.{}",
            self.entry.way(),
            self.at_the_end(),
            self.learned()
        )
    }

    /// The final validation errors, which tell whether the networks have learned anything.
    fn learned(&self) -> String {
        let errors = self.norms.iter().filter_map(|probed| {
            let error = in_percent(error(&probed.runs))?.mean;
            Some(format!("{} % ({})", to_digits(error, 1), words(probed.norm)))
        });
        let errors: Vec<String> = errors.collect();
        match errors.is_empty() {
            true => String::new(),
            false => format!(" Validation error by then: {}.", errors.join(", ")),
        }
    }
}

/// log₁₀ of the gradient at a position.
fn log(seen: &Gradients, place: usize) -> Option<f64> {
    seen.norms.get(place).copied().flatten().filter(|&norm| norm > 0.0).map(f64::log10)
}

/// The same, with a gradient of 0 replaced by the smallest positive number in f32, which gives a lower bound on the
/// decay.
fn log_or_least(seen: &Gradients, place: usize) -> Option<f64> {
    let norm = seen.norms.get(place).copied().flatten()?;
    Some(norm.max(LEAST).log10())
}

/// The same, with a gradient that is not finite replaced by the largest number in f32.
fn log_in_range(seen: &Gradients, place: usize) -> Option<f64> {
    let norm = seen.norms.get(place)?.unwrap_or(f64::from(f32::MAX));
    Some(norm.clamp(LEAST, f64::from(f32::MAX)).log10())
}

/// The geometric mean over runs of the gradient at a step and a position, to four digits.
pub(super) fn mean(runs: &[Vec<Gradients>], step: usize, place: usize) -> Option<f64> {
    let logs = runs.iter().map(|profiles| log(profiles.iter().find(|seen| seen.step == step)?, place));
    let mean = 10f64.powf(Spread::of(logs)?.mean);
    format!("{mean:.3e}").parse().ok()
}

/// Powers of ten, to one digit.
pub(super) fn powers(fall: f64) -> String {
    to_digits(fall, 1)
}

/// Why a network with vanishing or exploding gradients may still learn.
const ADAM: &str = "A possible reason, not tested: Adam divides by the size of each gradient, so layers with small or \
    large gradients still learn.";
