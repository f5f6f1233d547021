//! What γ and β are for: networks that learn them against networks in which they stay at 1 and 0, and the values that are
//! learned.
//!
//! Without γ and β, the output of a norm has mean 0 and variance 1 for every sample. In a hidden layer the next weights
//! can make up for most of that. Logits cannot: ten logits with mean 0 and variance 1 give a class a probability of at
//! most e³/(e³ + 9·e^(−1/3)) = 0.76, so the loss stays above 0.28.

use crate::models::{Arch, Norm, Reads};
use crate::records::Record;
use crate::report::{Axis, Chart, Finding, Frame, Picture, Story};
use crate::studies::findings::{Claim, Pair, by_seed, collect};
use crate::studies::tools::{axis, categories, chart, log_axis, many_seeds, rms, short};
use crate::studies::trained::{self, Ran, Spread, curve, events, of_case};
use crate::studies::{RunPlan, Settings};
use crate::training::events::Affine;
use crate::training::{Probes, Spec};

/// A network of the comparison.
#[derive(Clone, Copy)]
struct Entry {
    id: &'static str,
    title: &'static str,
    /// In a sentence.
    name: &'static str,
}

const ENTRIES: [Entry; 3] = [
    Entry { id: "mlp", title: "MLP", name: "the MLP" },
    Entry { id: "logits", title: "MLP with normalized logits", name: "the MLP whose logits are normalized too" },
    Entry { id: "lstm", title: "LSTM over rows", name: "the LSTM" },
];

/// Width and number of the bars of γ − 1 and of β; values beyond the last bar are counted in it.
const WIDTH: f64 = 0.02;
const BARS: usize = 41;
/// Epochs of the full study.
const FULL_EPOCHS: usize = 5;

impl Entry {
    fn case(&self, affine: bool) -> String {
        format!("{}-{}", if affine { "trained" } else { "fixed" }, self.id)
    }

    fn spec(&self, affine: bool, seed: u64, settings: &Settings) -> Spec {
        let units = if settings.full { 128 } else { 64 };
        let arch = match (self.id, Arch::mlp(&[units, units])) {
            ("lstm", _) => Arch::lstm(units / 2, Reads::Rows),
            ("logits", Arch::Mlp { hidden, activation, .. }) => Arch::Mlp { hidden, activation, output_norm: true },
            (_, mlp) => mlp,
        };
        let mut spec = Spec::new(arch, Norm::Layer, seed, &settings.data);
        (spec.learning_rate, spec.steps, spec.test) = (3e-3, 300, 0);
        (spec.train, spec.validation) = (8000, 1000);
        spec.start.affine = affine;
        spec.probes = Probes { affine, ..Probes::default() };
        if settings.full {
            [spec.train, spec.validation, _] = settings.all_images();
            spec.steps = FULL_EPOCHS * spec.steps_of_epoch();
        }
        trained::chosen(spec, settings)
    }
}

pub(super) fn plan(study: &str, settings: &Settings) -> Vec<RunPlan> {
    let mut plans = Vec::new();
    for entry in ENTRIES {
        for affine in [true, false] {
            let plan = |seed| trained::plan(study, &entry.case(affine), entry.spec(affine, seed, settings), settings);
            plans.extend(many_seeds(settings).map(plan));
        }
    }
    plans
}

/// Adds the results in the records to the story.
pub(super) fn tell(story: &mut Story, records: &[Record]) {
    let runs = trained::read(records);
    let ends = ENTRIES.iter().filter_map(|entry| {
        let [learned, fixed] = [true, false].map(|affine| end(&of_case(&runs, &entry.case(affine))));
        Some(format!(
            "{} with learned γ and β and {} without for {}",
            short(learned?.mean),
            short(fixed?.mean),
            entry.name
        ))
    });
    let ends: Vec<String> = ends.collect();
    // The charts and questions tell it too: the answer about the values and the initialization is enough.
    if !ends.is_empty() && story.charts.is_empty() {
        story.answer = format!("The final validation loss is {}.", ends.join(", "));
    }
    for entry in ENTRIES {
        let [learned, fixed] = [true, false].map(|affine| of_case(&runs, &entry.case(affine)));
        if learned.is_empty() && fixed.is_empty() {
            continue;
        }
        story.charts.push(losses(entry, &learned, &fixed));
        story
            .charts
            .extend([Parameter::Gain, Parameter::Bias].map(|of| of.animation(entry, &learned)).into_iter().flatten());
        story.findings.extend(power(entry, &learned, &fixed));
        story.findings.extend(moved(entry, &learned));
    }
}

fn final_loss(ran: &Ran) -> Option<f64> {
    ran.trained.last()?.loss
}

fn end(runs: &[&Ran]) -> Option<Spread> {
    Spread::of(runs.iter().map(|ran| final_loss(ran)))
}

fn losses(entry: Entry, learned: &[&Ran], fixed: &[&Ran]) -> Chart {
    let series = [("γ and β learned", learned), ("γ = 1 and β = 0", fixed)];
    let series =
        series.map(|(name, runs)| curve(name, runs, |e| e.loss)).into_iter().filter(|series| !series.x.is_empty());
    let picture = Picture::Lines {
        x: axis("training step"),
        y: log_axis("validation loss"),
        series: series.collect(),
        scrub: true,
    };
    let floor = match entry.id {
        "logits" => " Without γ, normalized logits cannot be confident: the loss stays above 0.28.",
        _ => "",
    };
    let see =
        format!("Layer norm with and without γ and β, from the same weights. Bands show the range over seeds.{floor}");
    chart(&format!("power-{}", entry.id), &format!("{}: with and without γ and β", entry.title), see, picture)
}

#[derive(Clone, Copy)]
enum Parameter {
    Gain,
    Bias,
}

impl Parameter {
    fn of(self, affine: &Affine) -> &[f64] {
        match self {
            Parameter::Gain => &affine.gain,
            Parameter::Bias => &affine.bias,
        }
    }

    /// The initial value.
    fn start(self) -> f64 {
        match self {
            Parameter::Gain => 1.0,
            Parameter::Bias => 0.0,
        }
    }

    /// Histograms of each layer during training, over the units of all seeds.
    fn animation(self, entry: Entry, runs: &[&Ran]) -> Option<Chart> {
        let all: Vec<Affine> = runs.iter().flat_map(|ran| events(ran, "affine")).collect();
        let mut layers: Vec<&str> = Vec::new();
        for affine in &all {
            if !layers.contains(&affine.layer.as_str()) {
                layers.push(&affine.layer);
            }
        }
        let mut steps: Vec<usize> = all.iter().map(|affine| affine.step).collect();
        steps.sort_unstable();
        steps.dedup();
        if all.iter().all(|affine| self.of(affine).is_empty()) {
            return None;
        }
        let shares = |step: usize, layer: &str| {
            let own = all.iter().filter(|affine| affine.step == step && affine.layer == layer);
            histogram(own.flat_map(|affine| self.of(affine)).map(|value| value - self.start()))
        };
        let frame = |&step: &usize| Frame {
            label: format!("step {step}"),
            values: layers.iter().map(|layer| shares(step, layer)).collect(),
        };
        let frames: Vec<Frame> = steps.iter().map(frame).collect();
        // At the start all units have the same value; its height would flatten all other frames.
        let later = frames.iter().skip(1).flat_map(|frame| frame.values.iter().flatten().flatten());
        let high = later.copied().reduce(f64::max).map(|high| 1.05 * high);
        let (id, symbol) = match self {
            Parameter::Gain => ("gains", "γ"),
            Parameter::Bias => ("biases", "β"),
        };
        let middle = |bar: usize| short(self.start() + WIDTH * (bar as f64 - (BARS / 2) as f64));
        let picture = Picture::Frames {
            x: categories(symbol, (0..BARS).map(middle)),
            y: Axis { low: Some(0.0), high, ..axis("units, %") },
            series: layers.iter().map(|layer| (*layer).to_owned()).collect(),
            frames,
        };
        let see = format!(
            "The distribution of {symbol} over the units of each norm, for all seeds. At the start every unit has {symbol} \
             = {}; play to see how far training moves them. The first and the last point include all values beyond.",
            short(self.start())
        );
        Some(chart(&format!("{id}-{}", entry.id), &format!("{}: learned {symbol}", entry.title), see, picture))
    }
}

/// The percentage of the values in each bar; the outermost bars include what lies beyond.
fn histogram(values: impl Iterator<Item = f64>) -> Vec<Option<f64>> {
    let mut counts = [0usize; BARS];
    let half = (BARS / 2) as f64;
    for value in values {
        counts[((value / WIDTH).round() + half).clamp(0.0, 2.0 * half) as usize] += 1;
    }
    let all: usize = counts.iter().sum();
    counts.iter().map(|&count| (all > 0).then(|| 100.0 * count as f64 / all as f64)).collect()
}

/// Whether γ and β lower the final loss.
fn power(entry: Entry, learned: &[&Ran], fixed: &[&Ran]) -> Option<Finding> {
    let pair = Pair {
        what: "final validation loss, γ and β learned − fixed".to_owned(),
        unit: "nats",
        step: 0.0,
        ours: by_seed(learned, final_loss),
        other: by_seed(fixed, final_loss),
    };
    let text = format!("Learning γ and β lowers the final validation loss of {}", entry.name);
    Claim::new(format!("power-{}", entry.id), text).source("C13").reason(ABSORBED).lower(pair)
}

/// Whether γ moves away from 1: the root mean square of γ − 1 over all units.
fn moved(entry: Entry, learned: &[&Ran]) -> Option<Finding> {
    let distance = |ran: &Ran, last: bool| {
        let all: Vec<Affine> = events(ran, "affine");
        let step = if last { all.last()?.step } else { all.first()?.step };
        let gains: Vec<f64> =
            all.iter().filter(|affine| affine.step == step).flat_map(|affine| affine.gain.clone()).collect();
        Some(rms(gains.iter().map(|gain| gain - 1.0)))
    };
    let at = |last| collect(learned.iter().map(|ran| (ran.trained.spec.start.seed, distance(ran, last))));
    let pair = Pair {
        what: "root mean square of γ − 1, after training − before it".to_owned(),
        unit: "",
        step: 0.0,
        ours: at(true),
        other: at(false),
    };
    let text = format!("Training moves γ away from 1 in {}", entry.name);
    Claim::new(format!("moved-{}", entry.id), text).source("C13").reason(START).higher(pair)
}

/// Why γ and β may not help.
const ABSORBED: &str = "A possible reason, not tested: the next layer can scale and shift its inputs by its own weights, so \
    γ and β add little power here.";
/// Why γ may not move away from 1.
const START: &str = "γ starts at exactly 1, so any training moves it away; a contradiction would be an error of the \
    measurement.";
