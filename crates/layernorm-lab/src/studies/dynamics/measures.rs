//! What is measured in a network, by norm, and the questions that it answers.

use super::Entry;
use crate::models::Norm;
use crate::report::Finding;
use crate::studies::findings::{BySeed, Claim, POINTS, Pair, collect, combined};
use crate::studies::probed::{Moment, Probed, probed};
use crate::studies::tools::{moments, rms, to_digits};
use crate::studies::trained::{Ran, Spread};
use crate::training::events::{Dynamics, GateDynamics};

/// A network's states, by norm.
pub(super) struct Network<'a> {
    pub(super) entry: Entry,
    pub(super) norms: Vec<Probed<'a, Dynamics>>,
}

/// The spread of all pre-activations at each time step: the root mean square of the gates' standard deviations.
pub(super) fn spreads(seen: &Dynamics) -> Vec<Option<f64>> {
    by_step(seen, |gates| rms(gates.into_iter()), |gate, step| gate.deviation.get(step).copied()?)
}

/// The share of saturated pre-activations at each time step.
pub(super) fn saturated(seen: &Dynamics) -> Vec<Option<f64>> {
    by_step(seen, |gates| moments(&gates).0, |gate, step| gate.saturated.get(step).copied()?)
}

/// Combines a value of all gates at each time step; `None` if one is missing.
fn by_step(
    seen: &Dynamics,
    combine: impl Fn(Vec<f64>) -> f64,
    of: impl Fn(&GateDynamics, usize) -> Option<f64>,
) -> Vec<Option<f64>> {
    let at = |step: usize| seen.gates.iter().map(|gate| of(gate, step)).collect::<Option<Vec<f64>>>().map(&combine);
    (0..seen.hidden.len()).map(at).collect()
}

/// Mean over the time steps.
pub(super) fn mean(values: &[Option<f64>]) -> Option<f64> {
    let values: Vec<f64> = values.iter().copied().collect::<Option<_>>()?;
    (!values.is_empty()).then(|| moments(&values).0)
}

/// Standard deviation over the time steps relative to the mean.
pub(super) fn variation(values: &[Option<f64>]) -> Option<f64> {
    let values: Vec<f64> = values.iter().copied().collect::<Option<_>>()?;
    let (mean, deviation) = moments(&values);
    (mean > 0.0).then(|| deviation / mean)
}

/// Mean over the time steps of |log₁₀ end/start|.
fn change(start: &[Option<f64>], end: &[Option<f64>]) -> Option<f64> {
    let logs = start.iter().zip(end).map(|(start, end)| {
        let ratio = (*end)? / (*start)?;
        (ratio > 0.0).then(|| ratio.log10().abs())
    });
    mean(&logs.collect::<Vec<_>>())
}

impl<'a> Network<'a> {
    pub(super) fn of(entry: Entry, runs: &'a [Ran]) -> Option<Network<'a>> {
        let norms: Vec<Probed<'a, Dynamics>> = probed(runs, entry.id, "dynamics");
        norms.iter().any(|norm| norm.all().next().is_some()).then_some(Network { entry, norms })
    }

    fn by_seed(&self, norm: Norm, moment: Moment, of: impl Fn(&Dynamics) -> Option<f64>) -> BySeed {
        self.norms.iter().find(|probed| probed.norm == norm).map_or(BySeed::new(), |probed| probed.by_seed(moment, of))
    }

    /// How much training changes the spread of the pre-activations, by seed.
    fn change(&self, norm: Norm) -> BySeed {
        let Some(probed) = self.norms.iter().find(|probed| probed.norm == norm) else { return BySeed::new() };
        let runs = probed.runs.iter().zip(&probed.seen);
        collect(runs.map(|(ran, seen)| {
            let [start, end] = Moment::BOTH.map(|moment| moment.of(seen).map(spreads));
            (ran.trained.spec.start.seed, change(&start.unwrap_or_default(), &end.unwrap_or_default()))
        }))
    }

    /// The spread over seeds of a value at a moment.
    pub(super) fn spread(&self, norm: Norm, moment: Moment, of: impl Fn(&Dynamics) -> Option<f64>) -> Option<Spread> {
        self.norms.iter().find(|probed| probed.norm == norm)?.spread(moment, of)
    }

    /// The questions, all about layer norm against no norm.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let Entry { id, title, .. } = self.entry;
        let pair = |what: &str, unit, of: &dyn Fn(Norm) -> BySeed| Pair {
            what: format!("{what}, layer norm − no norm"),
            unit,
            step: 0.0,
            ours: of(Norm::Layer),
            other: of(Norm::None),
        };
        let percent = |values: BySeed| combined(&[values], |value| 100.0 * value[0]);
        let claim = |name: &str, text: String| Claim::new(format!("{id}-{name}"), text).source("C6");
        let mut findings = Vec::new();
        for (moment, name, when) in [(Moment::Start, "start", "at the start"), (Moment::End, "end", "after training")] {
            let norms = pair("variation of ‖h‖", "% of the mean", &|norm| {
                percent(self.by_seed(norm, moment, |seen| variation(&seen.hidden)))
            });
            let text = format!("{title}: {when}, ‖h‖ varies less over the time steps with layer norm");
            findings.extend(claim(&format!("hidden-{name}"), text).reason(TRANSIENT).lower(norms));
            let gates = pair("variation of the spread of the pre-activations", "% of the mean", &|norm| {
                percent(self.by_seed(norm, moment, |seen| variation(&spreads(seen))))
            });
            let text = format!(
                "{title}: {when}, the spread of the pre-activations varies less over the time steps with layer norm"
            );
            findings.extend(claim(&format!("gates-{name}"), text).reason(TRANSIENT).lower(gates));
        }
        let training = pair("change of the spread of the pre-activations", "powers of ten", &|norm| self.change(norm));
        let text = format!("{title}: training changes the spread of the pre-activations less with layer norm");
        let reason = "A possible reason, not tested: layer norm fixes the spread of the sums, but training changes γ; \
                      saturated units without a norm have small gradients and hardly change.";
        findings.extend(claim("training", text).reason(reason).lower(training));
        let share = pair("saturated gates after training", POINTS, &|norm| {
            percent(self.by_seed(norm, Moment::End, |seen| mean(&saturated(seen))))
        });
        let text = format!("{title}: after training, fewer gates are saturated with layer norm");
        findings.extend(claim("saturated", text).reason(self.start_of_gates()).lower(share));
        findings
    }

    /// Why more gates may be saturated with layer norm.
    fn start_of_gates(&self) -> String {
        let share = |norm, moment| Some(100.0 * self.spread(norm, moment, |seen| mean(&saturated(seen)))?.mean);
        let spread = |norm| Some(self.spread(norm, Moment::Start, |seen| mean(&spreads(seen)))?.mean);
        let all = || {
            let digits = |number: f64| to_digits(number, 2);
            Some(format!(
                "With γ = 1, layer norm starts with a spread of the pre-activations of {} (without a norm: {}), and {} % \
                 of the gates are saturated at the start (without a norm: {} %).",
                digits(spread(Norm::Layer)?),
                digits(spread(Norm::None)?),
                digits(share(Norm::Layer, Moment::Start)?),
                digits(share(Norm::None, Moment::Start)?),
            ))
        };
        all().unwrap_or_else(|| "Some measurements are missing.".to_owned())
    }
}

/// Why a quantity may vary more with layer norm.
const TRANSIENT: &str = "A possible reason, not tested: the state starts at zero; layer norm gives it its full size within a \
    few steps, and without a norm it hardly changes.";
