//! The story of weight growth.

use super::{EffectiveRate, ID, RATE};
use crate::models::Norm;
use crate::records::Record;
use crate::report::{Axis, Cell, Chart, Finding, Picture, Story, Table};
use crate::studies::Study;
use crate::studies::findings::{BySeed, Claim, Pair, combined};
use crate::studies::probed::{Moment, Probed, probed};
use crate::studies::tools::{axis, chart, largest, log_axis, short, story as blank, to_digits};
use crate::studies::trained::{Ran, Spread, cells, error, in_percent, with, words};
use crate::training::events::{Angle, Weights};

/// Largest |cosine| that rounding errors explain: each number of the gradient is a sum over 128 images with a relative
/// error of up to 128·6·10⁻⁸.
const ROUNDING: f64 = 1e-5;

pub(super) fn story(study: &EffectiveRate, runs: &[Ran], records: &[Record]) -> Story {
    let mut story = blank(study.name(), "Growing weights and the effective learning rate", study.question(), records);
    story.expectation =
        "With a norm, the outputs do not depend on the scale of the weights W before it. The gradient is then \
         orthogonal to W, every step of gradient descent increases ‖W‖, and the same learning rate η turns W less and \
         less: the effective learning rate η/‖W‖² falls (Ba, Kiros and Hinton, 2016, section 5.2)."
            .to_owned();
    let groups: Vec<Group<'_>> = probed(runs, ID, "weights");
    if groups.is_empty() {
        return story;
    }
    story.charts = vec![growth(&groups), rates(&groups), cosines(&groups), turns(&groups)];
    story.numbers = Some(table(&groups));
    story.answer = answer(&groups);
    story.findings = findings(&groups);
    story.notes = vec![
        format!(
            "All networks train with plain gradient descent at a learning rate of {} (unless chosen otherwise), from \
             the same weights for each seed. Values are means over the hidden layers; the layer of the logits has no \
             norm after it and is left out.",
            short(RATE)
        ),
        "W stands for the parameters that can be rescaled together: the weight matrix with batch norm and weight norm \
         (v there), the weight matrix and the bias b with layer norm, because layer norm does not remove b. Without a \
         norm, both count."
            .to_owned(),
        "ε is 10⁻¹⁰ instead of the usual 10⁻⁵, which would add a small dependence on the weights' scale.".to_owned(),
    ];
    story
}

type Group<'a> = Probed<'a, Weights>;

/// The hidden layers' parameters that can be rescaled together.
fn angles(norm: Norm, seen: &Weights) -> &[Angle] {
    let all = if matches!(norm, Norm::Batch | Norm::Weight) { &seen.weight } else { &seen.with_bias };
    &all[..all.len().saturating_sub(1)]
}

/// The mean over the hidden layers.
fn mean(norm: Norm, seen: &Weights, of: impl Fn(&Angle) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = angles(norm, seen).iter().map(of).collect::<Option<_>>()?;
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn length(norm: Norm, seen: &Weights) -> Option<f64> {
    mean(norm, seen, |angle| angle.length)
}

/// η/‖W‖², in powers of ten.
fn effective(norm: Norm, seen: &Weights) -> Option<f64> {
    mean(norm, seen, |angle| Some((seen.rate / angle.length?.powi(2)).log10())).filter(|rate| rate.is_finite())
}

/// |cos(W, ∂L/∂W)|, the largest of the hidden layers.
fn cosine(norm: Norm, seen: &Weights) -> Option<f64> {
    let all: Vec<f64> = angles(norm, seen).iter().map(|angle| angle.cosine).collect::<Option<_>>()?;
    (!all.is_empty()).then(|| largest(all))
}

/// The angle by which a step turns W, in degrees: the part of the gradient that is orthogonal to W counts.
fn turn(norm: Norm, seen: &Weights) -> Option<f64> {
    mean(norm, seen, |angle| {
        let across = angle.gradient? * (1.0 - angle.cosine?.powi(2)).max(0.0).sqrt();
        Some((seen.rate * across / angle.length?).atan().to_degrees())
    })
}

/// Curves over training, one per norm.
fn lines(groups: &[Group<'_>], y: Axis, value: impl Fn(Norm, &Weights) -> Option<f64>) -> Picture {
    let curve = |group: &Group<'_>| group.curve(words(group.norm), |seen| Some((seen.step, value(group.norm, seen))));
    Picture::Lines { x: axis("training step"), y, series: groups.iter().map(curve).collect(), scrub: true }
}

fn growth(groups: &[Group<'_>]) -> Chart {
    let see = "With every norm the curve only rises: the gradient is orthogonal to the weights, so each step lengthens \
               them. Mean over the hidden layers; bands show the range over seeds.";
    chart("growth", "Length of the weights during training", see, lines(groups, axis("‖W‖"), length))
}

fn rates(groups: &[Group<'_>]) -> Chart {
    let see = "The learning rate divided by ‖W‖². The learning rate itself is constant; where the curve falls, the \
               norm has lowered the step as a schedule would. Without a norm the ratio has no such meaning: there the \
               scale of the weights matters.";
    let value = |norm, seen: &Weights| effective(norm, seen).map(|rate| 10f64.powf(rate));
    chart("rates", "Effective learning rate during training", see, lines(groups, log_axis("η/‖W‖²"), value))
}

fn cosines(groups: &[Group<'_>]) -> Chart {
    let see = "The largest |cosine| of the angle between a layer's weights and their gradient. In exact arithmetic it is \
               0 with every norm; what remains are rounding errors. Without a norm it is not 0.";
    let picture = lines(groups, log_axis("|cosine| of weights and gradient"), cosine);
    chart("cosines", "Angle between weights and gradient", see, picture)
}

fn turns(groups: &[Group<'_>]) -> Chart {
    let see = "The angle by which the next step turns the weights of a layer, for the gradient of a fixed batch. It \
               falls for two reasons: the weights grow, and the gradient shrinks as the loss falls.";
    let y = Axis { unit: Some("degrees".to_owned()), ..log_axis("angle of a step") };
    chart("turns", "How far one step turns the weights", see, lines(groups, y, turn))
}

fn table(groups: &[Group<'_>]) -> Table {
    let mut rows = Vec::new();
    for group in groups {
        let norm = group.norm;
        let mut row: Vec<Cell> = vec![words(norm).into(), (group.runs.len() as f64).into()];
        for moment in Moment::BOTH {
            row.push(group.spread(moment, |seen| length(norm, seen)).map(|spread| spread.mean).into());
        }
        row.extend(cells(ratio(group)));
        row.push(group.spread(Moment::End, |seen| cosine(norm, seen)).map(|spread| spread.hi).into());
        row.push(in_percent(error(&group.runs)).map(|error| error.mean).into());
        rows.push(row);
    }
    let columns = [
        "norm",
        "seeds",
        "‖W‖ at the start",
        "‖W‖ after training",
        "effective rate, end/start",
        "min.",
        "max.",
        "largest |cosine| after training",
        "validation error, %",
    ];
    Table { columns: columns.map(str::to_owned).to_vec(), rows, notes: Vec::new() }
}

/// The effective learning rate after training relative to that at the start.
fn ratio(group: &Group<'_>) -> Option<Spread> {
    let of = |run: &Vec<Weights>| {
        let [start, end] = Moment::BOTH.map(|moment| effective(group.norm, moment.of(run)?));
        Some(10f64.powf(end? - start?))
    };
    Spread::of(group.seen.iter().map(of))
}

/// A value at a moment, by seed.
fn at(group: &Group<'_>, moment: Moment, value: impl Fn(Norm, &Weights) -> Option<f64>) -> BySeed {
    group.by_seed(moment, |seen| value(group.norm, seen))
}

/// A value after training and before it.
fn change(group: &Group<'_>, what: &str, unit: &'static str, value: fn(Norm, &Weights) -> Option<f64>) -> Pair {
    let [other, ours] = Moment::BOTH.map(|moment| at(group, moment, value));
    Pair { what: format!("{what}, after training − before it"), unit, step: 0.0, ours, other }
}

/// The questions: whether the weights grow and the effective learning rate falls with each norm, whether the weights
/// grow more with layer norm than without a norm, and whether the gradient is orthogonal to the weights.
fn findings(groups: &[Group<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for group in groups.iter().filter(|group| group.norm != Norm::None) {
        let (norm, name) = (group.norm, words(group.norm));
        let claim = |id: &str, text: String| Claim::new(format!("{id}-{norm}"), text).source("C18");
        let grow = claim("growth", format!("The weights grow during training with {name}"));
        findings.extend(grow.reason(ORTHOGONAL).higher(change(group, "‖W‖", "", length)));
        let fall = claim("rate", format!("The effective learning rate falls during training with {name}"));
        findings.extend(fall.reason(ORTHOGONAL).lower(change(
            group,
            "effective learning rate",
            "powers of ten",
            effective,
        )));
    }
    let growth = |norm| {
        let group = groups.iter().find(|group| group.norm == norm)?;
        let ends = Moment::BOTH.map(|moment| at(group, moment, length));
        Some(combined(&ends, |ends| ends[1] - ends[0]))
    };
    if let (Some(ours), Some(other)) = (growth(Norm::Layer), growth(Norm::None)) {
        let what = "growth of ‖W‖, layer norm − no norm".to_owned();
        let claim = Claim::new("growth-more", "The weights grow more with layer norm than without a norm")
            .source("C18")
            .reason(
                "A possible reason, not tested: with layer norm, weights grow only because steps are orthogonal to them; without a norm, \
                 they also grow to make predictions more confident.",
            );
        findings.extend(claim.higher(Pair { what, unit: "", step: 0.0, ours, other }));
    }
    findings.extend(groups.iter().filter_map(orthogonal));
    findings
}

/// Whether the gradient is orthogonal to the weights; without a norm, the question is whether it is not.
fn orthogonal(group: &Group<'_>) -> Option<Finding> {
    let norm = group.norm;
    let all: Vec<f64> = group.all().map(|seen| cosine(norm, seen)).collect::<Option<_>>()?;
    let most = largest(all.iter().copied());
    if all.is_empty() || !most.is_finite() {
        return None;
    }
    let found = format!("largest |cosine| {}", short(most));
    let claim = Claim::new(
        format!("orthogonal-{norm}"),
        match norm {
            Norm::None => "Without a norm, the gradient is not orthogonal to the weights".to_owned(),
            _ => format!("The gradient is orthogonal to the weights with {}", words(norm)),
        },
    )
    .source("C18");
    Some(match norm {
        Norm::None => claim.exact(most > ROUNDING, found, format!("above {}", short(ROUNDING))),
        _ => claim.exact(most < ROUNDING, found, format!("below {}, the level of rounding errors", short(ROUNDING))),
    })
}

fn answer(groups: &[Group<'_>]) -> String {
    let told: Vec<String> = groups
        .iter()
        .filter_map(|group| {
            let [start, end] = Moment::BOTH.map(|moment| group.spread(moment, |seen| length(group.norm, seen)));
            let ratio = ratio(group)?;
            Some(format!(
                "from {} to {} {} (η/‖W‖² times {})",
                to_digits(start?.mean, 2),
                to_digits(end?.mean, 2),
                with(group.norm),
                to_digits(ratio.mean, 2)
            ))
        })
        .collect();
    if told.is_empty() {
        return "Some runs have not finished yet.".to_owned();
    }
    let grows = |group: &Group<'_>| {
        let [start, end] = Moment::BOTH.map(|moment| group.spread(moment, |seen| length(group.norm, seen)));
        start.zip(end).is_none_or(|(start, end)| end.mean > start.mean)
    };
    let verb = if groups.iter().all(grows) { "grows" } else { "changes" };
    format!("At a constant learning rate, the weight norm ‖W‖ of the hidden layers {verb} {}.", told.join(", "))
}

/// Why the weights may not grow.
const ORTHOGONAL: &str = "A possible reason, not tested: the gradient is orthogonal only to what can be rescaled without changing the \
    outputs. With layer norm that is W and b together, so W alone can shrink.";
