//! Mean and variance of hidden units over the training.

use crate::models::Norm;
use crate::report::{Chart, Picture, Series};
use crate::studies::tools::{axis, chart, log_axis, short};
use crate::studies::trained::{Ran, Spread, events, over_steps, words};
use crate::training::events::Moments;

/// What is drawn of an event.
type Part = fn(&Moments) -> Option<f64>;

/// The drift of the last hidden layer's units: that of their mean and that of their variance.
pub(super) fn charts(groups: &[(Norm, &[&Ran])]) -> Vec<Chart> {
    let seen: Vec<(Norm, Vec<Vec<Moments>>)> =
        groups.iter().map(|(norm, runs)| (*norm, runs.iter().map(|ran| events(ran, "moments")).collect())).collect();
    let Some(layer) = seen.iter().flat_map(|(_, runs)| runs.iter().flatten()).map(|seen| seen.layer.clone()).max()
    else {
        return Vec::new();
    };
    let curves = |before: Part, after: Part| {
        let mut series = Vec::new();
        for (norm, runs) in &seen {
            let curve = |name: &str, part: Part| {
                let run = |run: &Vec<Moments>| {
                    run.iter().filter(|seen| seen.layer == layer).map(|seen| (seen.step, part(seen))).collect()
                };
                over_steps(name, &runs.iter().map(run).collect::<Vec<_>>())
            };
            series.push(curve(words(*norm), after));
            if *norm != Norm::None {
                let name = format!("{}, before it", words(*norm));
                series.push(Series { dashed: true, ..curve(&name, before) });
            }
        }
        series
    };
    let range = |part: Part, norm: Norm| {
        let runs = &seen.iter().find(|(of, _)| *of == norm)?.1;
        Spread::of(runs.iter().flatten().filter(|seen| seen.layer == layer).map(part))
    };
    let told = |before: Part, after: Part| {
        let of = |norm, part, name: &str| {
            let range = range(part, norm)?;
            Some(format!("{} to {} {name}", short(digits(range.lo)), short(digits(range.hi))))
        };
        let all = [
            of(Norm::None, after, "without a norm"),
            of(Norm::Layer, before, "before layer norm"),
            of(Norm::Layer, after, "after it"),
        ];
        all.into_iter().flatten().collect::<Vec<_>>().join(", ")
    };
    let one = |id: &str, title: &str, y, before: Part, after: Part| {
        let what = "Solid: what the nonlinearity gets; dashed: what comes into the norm, all units and images together";
        let see = match told(before, after) {
            told if told.is_empty() => format!("{what}."),
            told => format!("{what}. Over the training it goes from {told}."),
        };
        let picture = Picture::Lines { x: axis("training step"), y, series: curves(before, after), scrub: true };
        chart(id, title, see, picture)
    };
    vec![
        one(
            "drift-mean",
            &format!("How the mean drifts, {layer}"),
            axis("mean of the hidden units"),
            |seen| seen.before[0],
            |seen| seen.after[0],
        ),
        one(
            "drift-variance",
            &format!("How the variance drifts, {layer}"),
            log_axis("variance of the hidden units"),
            |seen| seen.before[1],
            |seen| seen.after[1],
        ),
    ]
}

/// Two digits after the point, or what is nearly 0 as 0.
fn digits(number: f64) -> f64 {
    let rounded = (100.0 * number).round() / 100.0;
    if rounded == 0.0 { 0.0 } else { rounded }
}
