//! Mean and variance of hidden units during training.

use crate::models::Norm;
use crate::report::{Chart, Finding, Picture, Series};
use crate::studies::findings::{BySeed, Claim, Pair, collect};
use crate::studies::probed::Probed;
use crate::studies::tools::{axis, chart, log_axis, to_digits};
use crate::studies::trained::{Spread, words};
use crate::training::events::Moments;

/// The value of an event that is plotted.
type Part = fn(&Moments) -> Option<f64>;

fn last_layer(groups: &[Probed<'_, Moments>]) -> Option<String> {
    groups.iter().flat_map(Probed::all).map(|seen| seen.layer.clone()).max()
}

/// The questions: whether the inputs of the last hidden layer's nonlinearity drift less with layer norm.
pub(super) fn findings(groups: &[Probed<'_, Moments>]) -> Vec<Finding> {
    let Some(layer) = last_layer(groups) else { return Vec::new() };
    let drift = |norm: Norm, part: Part| {
        let Some(group) = groups.iter().find(|group| group.norm == norm) else { return BySeed::new() };
        let range = |seen: &Vec<Moments>| {
            let values = Spread::of(seen.iter().filter(|seen| seen.layer == layer).map(part))?;
            Some(values.hi - values.lo)
        };
        let runs = group.runs.iter().zip(&group.seen);
        collect(runs.map(|(ran, seen)| (ran.trained.spec.start.seed, range(seen))))
    };
    let log_variance: Part = |seen| seen.after[1].map(|variance| variance.max(f64::MIN_POSITIVE).log10());
    let parts: [(&str, &str, &str, Part); 2] =
        [("mean", "mean", "", |seen| seen.after[0]), ("variance", "variance", "powers of ten", log_variance)];
    let mut findings = Vec::new();
    for (id, name, unit, part) in parts {
        let text = format!(
            "During training, the {name} of the last nonlinearity's inputs drifts less with layer norm than without a norm"
        );
        let pair = Pair {
            what: format!("range of the {name} during training, layer norm − no norm"),
            unit,
            step: 0.0,
            ours: drift(Norm::Layer, part),
            other: drift(Norm::None, part),
        };
        findings.extend(Claim::new(format!("drift-{id}"), text).source("C16").reason(SCALE).lower(pair));
    }
    findings
}

/// The drift of the mean and of the variance of the last hidden layer's units.
pub(super) fn charts(groups: &[Probed<'_, Moments>]) -> Vec<Chart> {
    let Some(layer) = last_layer(groups) else { return Vec::new() };
    let curves = |before: Part, after: Part| {
        let mut series = Vec::new();
        for group in groups {
            let curve = |name: &str, part: Part| {
                group.curve(name, |seen| (seen.layer == layer).then(|| (seen.step, part(seen))))
            };
            series.push(curve(words(group.norm), after));
            if group.norm != Norm::None {
                let name = format!("before {}", words(group.norm));
                series.push(Series { dashed: true, ..curve(&name, before) });
            }
        }
        series
    };
    let range = |part: Part, norm: Norm| {
        let group = groups.iter().find(|group| group.norm == norm)?;
        Spread::of(group.all().filter(|seen| seen.layer == layer).map(part))
    };
    let told = |before: Part, after: Part| {
        let of = |norm, part, name: &str| {
            let range = range(part, norm)?;
            Some(format!("{} and {} {name}", to_digits(range.lo, 2), to_digits(range.hi, 2)))
        };
        let all = [
            of(Norm::None, after, "without a norm"),
            of(Norm::Layer, before, "before layer norm"),
            of(Norm::Layer, after, "after it"),
        ];
        all.into_iter().flatten().collect::<Vec<_>>().join(", ")
    };
    let one = |id: &str, title: &str, y, before: Part, after: Part| {
        let what = "Solid: the input of the nonlinearity; dashed: the input of the norm. Each is computed over all \
                    units and images";
        let see = match told(before, after) {
            told if told.is_empty() => format!("{what}."),
            told => format!("{what}. During training it stays between {told}."),
        };
        let picture = Picture::Lines { x: axis("training step"), y, series: curves(before, after), scrub: true };
        chart(id, title, see, picture)
    };
    vec![
        one(
            "drift-mean",
            &format!("Drift of the mean, {layer}"),
            axis("mean of the hidden units"),
            |seen| seen.before[0],
            |seen| seen.after[0],
        ),
        one(
            "drift-variance",
            &format!("Drift of the variance, {layer}"),
            log_axis("variance of the hidden units"),
            |seen| seen.before[1],
            |seen| seen.after[1],
        ),
    ]
}

/// Why inputs may drift more with layer norm.
const SCALE: &str = "A possible reason, not tested: layer norm brings the inputs to a standard deviation of 1, so the \
    same relative drift is larger than with small inputs.";
