//! The story of backpropagated gradients.

use super::{Entry, GradientFlow, LAYERS, entries};
use crate::models::Norm;
use crate::records::Record;
use crate::report::{Axis, Cell, Chart, Finding, Frame, Picture, Story, Table};
use crate::studies::Study;
use crate::studies::findings::{BySeed, Claim, Pair, errors};
use crate::studies::probed::{Moment, Probed, probed};
use crate::studies::tools::{axis, categories, chart, log_axis, story as blank, to_digits};
use crate::studies::trained::{Ran, Spread, bars, cells, error, in_percent, words};
use crate::training::events::Gradients;

/// Maximum number of positions drawn in a profile: of 784 time steps, every seventh.
const PLACES: usize = 112;

/// The smallest positive number in f32.
const LEAST: f64 = 1.4e-45;

pub(super) fn story(study: &GradientFlow, runs: &[Ran], records: &[Record]) -> Story {
    let mut story = blank(study.name(), "Vanishing and exploding gradients", study.question(), records);
    story.expectation =
        "Without a norm, the gradient shrinks (or grows) by about the same factor in every layer and time step. Layer \
         norm keeps the scale of the summed inputs, and thus this factor, close to 1 (Ba, Kiros and Hinton, 2016, \
         section 3). At the start, when all networks have the same weights, the gradient should decay less with layer \
         norm."
            .to_owned();
    let flows: Vec<Flow<'_>> = entries(true).into_iter().filter_map(|entry| Flow::of(entry, runs)).collect();
    if flows.is_empty() {
        return story;
    }
    story.charts = flows.iter().filter_map(Flow::animation).collect();
    story.charts.push(overview(&flows));
    story.numbers = Some(table(&flows));
    story.answer = answer(&flows);
    story.findings = flows.iter().flat_map(Flow::findings).collect();
    story.notes = vec![
        "Gradients are computed on one batch of up to 128 validation images, in training mode; measuring them does not \
         affect training."
            .to_owned(),
        "Each profile is the geometric mean over seeds. For each seed, all networks start from the same weights."
            .to_owned(),
        format!(
            "The layers of an MLP differ in size: the first has all pixels as input, and there are 10 logits. Its \
             decay is therefore measured between layers 2 and {LAYERS}; the table also has the ratio of the first \
             layer to the last."
        ),
    ];
    let any =
        |norm| flows.iter().flat_map(|flow| &flow.norms).flat_map(Probed::all).any(|seen| seen.norms.contains(&norm));
    if any(Some(0.0)) {
        story.notes.push(
            "Some gradients underflow f32 to 0: they count as 10⁻⁴⁵, the smallest positive number, and are not drawn."
                .to_owned(),
        );
    }
    if any(None) {
        story.notes.push("Some gradients overflow f32; they are not drawn.".to_owned());
    }
    let grows = |flow: &Flow<'_>| {
        let fall = flow.fall(Norm::Batch, Moment::End);
        flow.entry.through_time() && fall.is_some_and(|fall| fall.hi < 0.0)
    };
    if flows.iter().any(grows) {
        story.notes.push(
            "The first rows of an image are blank, so activations hardly vary over the batch there. Batch norm divides \
             by their small standard deviation (at least √ε), which increases the gradients of these time steps."
                .to_owned(),
        );
    }
    story
}

/// A network's profiles, by norm.
struct Flow<'a> {
    entry: Entry,
    norms: Vec<Probed<'a, Gradients>>,
}

impl<'a> Flow<'a> {
    fn of(entry: Entry, runs: &'a [Ran]) -> Option<Flow<'a>> {
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

    fn fall(&self, norm: Norm, moment: Moment) -> Option<Spread> {
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

    /// The questions: whether layer norm preserves the gradient better, at the start and after training, and whether a
    /// deep network learns better.
    fn findings(&self) -> Vec<Finding> {
        let Entry { id, title, .. } = self.entry;
        let mut findings = Vec::new();
        for (moment, name, when) in [(Moment::Start, "start", "at the start"), (Moment::End, "end", "after training")] {
            let text = format!("{title}: {when}, the gradient changes less {} with layer norm", self.entry.way());
            let pair = Pair {
                what: "|decay| of the gradient, layer norm − no norm".to_owned(),
                unit: "powers of ten",
                step: 0.0,
                ours: self.change(Norm::Layer, moment),
                other: self.change(Norm::None, moment),
            };
            let claim = Claim::new(format!("{id}-{name}"), text).source("C5").reason(self.course());
            findings.extend(claim.lower(pair));
        }
        if !self.entry.through_time() {
            let runs = |norm| self.with(norm).map_or(Vec::new(), |probed| probed.runs.clone());
            let text = format!("{title}: layer norm lowers the final validation error");
            let pair = errors("layer norm − no norm", &runs(Norm::Layer), &runs(Norm::None));
            findings.extend(Claim::new(format!("{id}-error"), text).source("C5").lower(pair));
        }
        findings
    }

    /// How training changes the decay, for a claim that is contradicted.
    fn course(&self) -> String {
        let of = |norm| {
            let [start, end] = Moment::BOTH.map(|moment| self.fall(norm, moment));
            Some(format!("from {} to {}", powers(start?.mean), powers(end?.mean)))
        };
        match (of(Norm::None), of(Norm::Layer)) {
            (Some(none), Some(layer)) => {
                format!("Training changes the decay {none} powers of ten without a norm and {layer} with layer norm.")
            }
            _ => "Some gradients overflow.".to_owned(),
        }
    }

    /// The gradient at the first position relative to the last, as the geometric mean over seeds.
    fn ratio(&self, norm: Norm, moment: Moment) -> Option<f64> {
        let fall = self.between(norm, moment, |places| Some([0, places.checked_sub(1)?]))?;
        Some(10f64.powf(-fall.mean))
    }

    /// The profiles during training; `None` if there are no events.
    fn animation(&self) -> Option<Chart> {
        let all = || self.norms.iter().flat_map(Probed::all);
        let places = &all().max_by_key(|seen| seen.places.len())?.places;
        let every = places.len().div_ceil(PLACES).max(1);
        // The last position is always kept.
        let kept: Vec<usize> =
            (0..places.len()).filter(|place| (places.len() - 1 - place).is_multiple_of(every)).collect();
        let mut steps: Vec<usize> = all().map(|seen| seen.step).collect();
        steps.sort_unstable();
        steps.dedup();
        let frame = |&step: &usize| Frame {
            label: format!("step {step}"),
            values: self
                .norms
                .iter()
                .map(|of| kept.iter().map(|&place| mean(&of.seen, step, place)).collect())
                .collect(),
        };
        let length =
            if self.entry.through_time() { "‖∂L/∂h‖ of the time step" } else { "‖∂L/∂W‖ of the layer" };
        let names = kept.iter().map(|&place| places[place].trim_start_matches("layer "));
        let picture = Picture::Frames {
            x: categories(self.entry.places(), names),
            y: log_axis(length),
            series: self.norms.iter().map(|probed| words(probed.norm).to_owned()).collect(),
            frames: steps.iter().map(frame).collect(),
        };
        let see = format!(
            "With a flat profile, the gradient reaches all positions; if the profile rises to the right, the gradient \
             vanishes towards the input. {}",
            self.sentence()
        );
        Some(chart(&format!("flow-{}", self.entry.id), &format!("{}: gradients", self.entry.title), see, picture))
    }

    /// The decay with each norm, at the start and after training.
    fn sentence(&self) -> String {
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
            "Powers of ten by which the gradient decays {} (negative if it grows): {start} at the start; {end} after \
             training.",
            self.entry.way()
        )
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
fn mean(runs: &[Vec<Gradients>], step: usize, place: usize) -> Option<f64> {
    let logs = runs.iter().map(|profiles| log(profiles.iter().find(|seen| seen.step == step)?, place));
    let mean = 10f64.powf(Spread::of(logs)?.mean);
    format!("{mean:.3e}").parse().ok()
}

/// Powers of ten, to one digit.
fn powers(fall: f64) -> String {
    to_digits(fall, 1)
}

fn overview(flows: &[Flow<'_>]) -> Chart {
    let columns: Vec<(&Flow<'_>, Moment)> =
        flows.iter().flat_map(|flow| Moment::BOTH.map(|moment| (flow, moment))).collect();
    let norms =
        Norm::ALL.into_iter().filter(|norm| flows.iter().any(|flow| flow.norms.iter().any(|of| of.norm == *norm)));
    let series = norms
        .map(|norm| {
            let falls: Vec<Option<Spread>> = columns.iter().map(|(flow, moment)| flow.fall(norm, *moment)).collect();
            bars(words(norm), &falls)
        })
        .collect();
    let name = |(flow, moment): &(&Flow<'_>, Moment)| {
        let when = if *moment == Moment::Start { "start" } else { "end" };
        format!("{}, {when}", flow.entry.id)
    };
    let x = categories(
        "network (deep MLP with ReLU or tanh, LSTM over rows or pixels), at the start or end of training",
        columns.iter().map(name),
    );
    let y = Axis { unit: Some("powers of ten".to_owned()), ..axis("decay of the gradient") };
    let see = "The closer to 0, the better the gradient is preserved through the layers or time steps; a negative \
               decay means that it grows. Whiskers show the range over seeds.";
    chart("falls", "Decay of the gradient", see, Picture::Bars { x, y, series })
}

fn table(flows: &[Flow<'_>]) -> Table {
    let mut rows = Vec::new();
    for flow in flows {
        for Probed { norm, runs, .. } in &flow.norms {
            let mut row: Vec<Cell> = vec![flow.entry.title.into(), words(*norm).into(), (runs.len() as f64).into()];
            row.extend(cells(flow.fall(*norm, Moment::Start)));
            row.extend(cells(flow.fall(*norm, Moment::End)));
            row.extend(Moment::BOTH.map(|moment| Cell::from(flow.ratio(*norm, moment))));
            row.push(in_percent(error(runs)).map(|error| error.mean).into());
            rows.push(row);
        }
    }
    let columns = [
        "network",
        "norm",
        "seeds",
        "decay at the start, powers of ten",
        "min.",
        "max.",
        "decay after training, powers of ten",
        "min.",
        "max.",
        "first/last layer or step at the start",
        "after training",
        "validation error, %",
    ];
    let notes = vec![
        "With a decay of 3, the gradient shrinks to a thousandth. A negative decay means that it grows.".to_owned(),
    ];
    Table { columns: columns.map(str::to_owned).to_vec(), rows, notes }
}

fn answer(flows: &[Flow<'_>]) -> String {
    let mut sentences = Vec::new();
    for flow in flows {
        let pair = |moment| Some([flow.fall(Norm::None, moment)?.mean, flow.fall(Norm::Layer, moment)?.mean]);
        let (Some(start), Some(end)) = (pair(Moment::Start), pair(Moment::End)) else { continue };
        sentences.push(format!(
            "{}, {}: {} without a norm and {} with layer norm at the start, {} and {} after training",
            flow.entry.title,
            flow.entry.way(),
            powers(start[0]),
            powers(start[1]),
            powers(end[0]),
            powers(end[1])
        ));
    }
    if sentences.is_empty() {
        return "Some runs with layer norm or without a norm have not finished yet.".to_owned();
    }
    format!("Powers of ten by which the gradient decays (negative if it grows). {}.", sentences.join("; "))
}
