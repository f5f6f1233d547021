//! The map of learning rates: each cell shows the error, or that training diverged.

use super::{NETWORKS, Network, case};
use crate::models::Norm;
use crate::records::Record;
use crate::report::{Axis, Chart, Finding, Picture, Story, Tile, Tone};
use crate::studies::findings::{BySeed, Claim, POINTS, Pair, by_seed, combined, one_image};
use crate::studies::tools::{self, axis, chart, log_axis, short};
use crate::studies::trained::{Ran, error, in_percent, of_case, series, words};
use crate::training::Optimizer;

pub(super) fn story(name: &str, question: &str, runs: &[Ran], records: &[Record]) -> Story {
    let mut story = tools::story(name, "Which learning rates work", question, records);
    story.expectation =
        "With a norm, higher learning rates work: scaling up the weights does not change the output and reduces the \
         gradient, so steps that are too large correct themselves (Ba, Kiros and Hinton, 2016, section 5.2)."
            .to_owned();
    let lines: Vec<Line<'_>> = lines(runs);
    if lines.is_empty() {
        return story;
    }
    story.charts.push(map(&lines));
    story.charts.extend(NETWORKS.iter().filter_map(|network| curves(&lines, network)));
    story.answer = answer(&lines);
    story.findings = findings(&lines);
    story.notes = vec![
        "MLP and LSTM: plain gradient descent without momentum. Adam normalizes the gradient's magnitude, which would \
         hide the difference. LSTMs over pixels (196: images of 14×14) use Adam, because gradient descent learns too slowly \
         there."
            .to_owned(),
        "A learning rate works if the final validation error is below 50 % (75 % for LSTMs over pixels, which train for \
         few steps). Guessing has an error of 90 %."
            .to_owned(),
        "“diverged”: the loss became NaN or infinite in every seed; “diverged 2 of 5”: in two of five.".to_owned(),
    ];
    story
}

/// A network with a norm: the runs of each rate.
struct Line<'a> {
    network: &'static Network,
    norm: Norm,
    rates: Vec<(f64, Vec<&'a Ran>)>,
}

impl Line<'_> {
    /// The final errors of each rate, by seed.
    fn errors(&self) -> Vec<BySeed> {
        self.rates.iter().map(|(_, runs)| by_seed(runs, |ran| ran.trained.error())).collect()
    }

    /// The errors in percent at the rate with the lowest mean, by seed.
    fn best_errors(&self) -> BySeed {
        let mean = |errors: &BySeed| errors.values().sum::<f64>() / errors.len() as f64;
        let all = self.errors().into_iter().filter(|errors| !errors.is_empty());
        let best = all.min_by(|a, b| mean(a).total_cmp(&mean(b))).unwrap_or_default();
        best.into_iter().map(|(seed, error)| (seed, 100.0 * error)).collect()
    }

    /// The lowest and the highest rate at which it learns in every seed.
    fn limits(&self) -> Option<(f64, f64)> {
        let mut rates = self.rates.iter().filter(|(_, runs)| self.network.learns(runs)).map(|(rate, _)| *rate);
        let first = rates.next()?;
        Some((first, rates.next_back().unwrap_or(first)))
    }
}

impl Network {
    /// Whether every seed learns.
    fn learns(&self, runs: &[&Ran]) -> bool {
        runs.iter().all(|ran| ran.trained.error().is_some_and(|error| error < self.learnt))
    }

    /// Position of the highest rate that works, from 1; 0 if none works. Steps of the grid, about √10 each.
    fn highest(&self, errors: &[f64]) -> f64 {
        errors.iter().rposition(|&error| error < self.learnt).map_or(0.0, |place| (place + 1) as f64)
    }

    /// How many rates work.
    fn number(&self, errors: &[f64]) -> f64 {
        errors.iter().filter(|&&error| error < self.learnt).count() as f64
    }
}

fn lines(runs: &[Ran]) -> Vec<Line<'_>> {
    let mut rates: Vec<f64> = runs.iter().map(|ran| ran.trained.spec.learning_rate).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    let mut lines = Vec::new();
    for network in &NETWORKS {
        for &norm in network.norms {
            let of = |&rate: &f64| (rate, of_case(runs, &case(network.id, norm, rate)));
            let rates: Vec<_> = rates.iter().map(of).filter(|(_, runs)| !runs.is_empty()).collect();
            if !rates.is_empty() {
                lines.push(Line { network, norm, rates });
            }
        }
    }
    lines
}

fn map(lines: &[Line<'_>]) -> Chart {
    let mut rates: Vec<f64> = lines.iter().flat_map(|line| line.rates.iter().map(|(rate, _)| *rate)).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    let cell = |line: &Line<'_>, rate: f64| match line.rates.iter().find(|(of, _)| *of == rate) {
        Some((_, runs)) => tile(line.network, runs),
        None => Tile { value: None, text: "–".to_owned(), tone: Tone::None, hint: None },
    };
    let cells = lines.iter().map(|line| rates.iter().map(|&rate| cell(line, rate)).collect()).collect();
    let picture = Picture::Grid {
        rows: lines.iter().map(|line| format!("{}, {}", line.network.title, words(line.norm))).collect(),
        columns: rates.iter().map(|&rate| short(rate)).collect(),
        cells,
        scale: "outcome over all seeds".to_owned(),
        tones: ["learns in every seed", "does not learn, or diverges"],
    };
    let see = "Each row is a network with a norm, each column a learning rate, about √10 times the previous one. The \
               further right a row stays blue, the higher the learning rates it tolerates.";
    chart("map", "Map of learning rates", see, picture)
}

fn tile(network: &Network, runs: &[&Ran]) -> Tile {
    let diverged = runs.iter().filter(|ran| ran.trained.diverged.is_some()).count();
    let error = error(runs);
    let text = match (diverged, error) {
        (0, Some(error)) => format!("{:.0} %", 100.0 * error.mean),
        (0, None) => "–".to_owned(),
        (all, _) if all == runs.len() => "diverged".to_owned(),
        (some, _) => format!("diverged {some} of {}", runs.len()),
    };
    let hint = error.map(|error| format!("validation error {}, {} seeds", error.percent(), runs.len()));
    Tile {
        value: error.map(|error| error.mean),
        text,
        tone: if network.learns(runs) { Tone::Good } else { Tone::Bad },
        hint,
    }
}

fn curves(lines: &[Line<'_>], network: &Network) -> Option<Chart> {
    let Network { id, title, .. } = network;
    let of_network: Vec<_> = lines.iter().filter(|line| line.network.id == *id).collect();
    let curve = |line: &&Line<'_>| {
        series(words(line.norm), line.rates.iter().map(|(rate, runs)| (*rate, in_percent(error(runs)))))
    };
    let picture = Picture::Lines {
        x: log_axis("learning rate"),
        y: Axis { unit: Some("%".to_owned()), low: Some(0.0), high: Some(100.0), ..axis("validation error") },
        series: of_network.iter().map(curve).collect(),
        scrub: false,
    };
    let see = "Lower is better, and so is a wider range of learning rates with low error. A diverged run counts as 100 \
               %.";
    let chart = chart(&format!("errors-{id}"), &format!("{title}: error by learning rate"), see, picture);
    (!of_network.is_empty()).then_some(chart)
}

fn answer(lines: &[Line<'_>]) -> String {
    let range = |line: &Line<'_>| match line.limits() {
        None => format!("none with {}", words(line.norm)),
        Some((least, most)) if least == most => format!("{} with {}", short(least), words(line.norm)),
        Some((least, most)) => format!("{} to {} with {}", short(least), short(most), words(line.norm)),
    };
    let mut sentences = Vec::new();
    for Network { id, title, .. } in &NETWORKS {
        let of = |norm| lines.iter().find(|line| line.network.id == *id && line.norm == norm);
        let (Some(none), Some(layer)) = (of(Norm::None), of(Norm::Layer)) else { continue };
        let batch = of(Norm::Batch).map_or(String::new(), |line| format!(", {}", range(line)));
        sentences.push(format!("{title}: {}, {}{batch}", range(none), range(layer)));
    }
    if sentences.is_empty() {
        return "Some runs with layer norm or without a norm have not finished yet.".to_owned();
    }
    format!("Learning rates at which every seed learns. {}.", sentences.join(". "))
}

/// The questions: the range of learning rates with and without a norm, its upper end, and the error at the best rate.
/// They need more than one rate.
fn findings(lines: &[Line<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for network in &NETWORKS {
        let Network { id: network_id, title, norms, .. } = network;
        let of = |norm| {
            lines.iter().find(|line| line.network.id == *network_id && line.norm == norm && line.rates.len() > 1)
        };
        let Some(none) = of(Norm::None) else { continue };
        for norm in [Norm::Layer, Norm::Batch].into_iter().filter(|norm| norms.contains(norm)) {
            let Some(line) = of(norm).filter(|line| same_rates(line, none)) else { continue };
            let (name, with) = (words(norm), format!("{} − no norm", words(norm)));
            let claim = |id: &str, text: &str, source| {
                let reason = if id == "best" { BEST } else { why(network) };
                Claim::new(format!("{network_id}-{norm}-{id}"), format!("{title}: {text}"))
                    .source(source)
                    .reason(reason)
            };
            let pair = |what: &str, unit, step, of: &dyn Fn(&[f64]) -> f64| Pair {
                what: format!("{what}, {with}"),
                unit,
                step,
                ours: combined(&line.errors(), of),
                other: combined(&none.errors(), of),
            };
            let text = format!("{name} raises the highest learning rate that works");
            findings.extend(claim("highest", &text, "C2").higher(pair(
                "highest rate that works, in steps of the grid (×√10), counted from 0 if none works",
                "grid steps",
                1.0,
                &|errors| network.highest(errors),
            )));
            let text = format!("{name} increases the number of learning rates that work");
            findings.extend(
                claim("range", &text, "C2")
                    .higher(pair("rates that work", "rates", 1.0, &|errors| network.number(errors))),
            );
            // After so few steps, an LSTM over pixels is far from its lowest error at every rate.
            if network.over_pixels() {
                continue;
            }
            let text = format!("with each at its best learning rate, {name} lowers the validation error");
            let step = one_image(line.rates.iter().flat_map(|(_, runs)| runs).map(|r| r.trained.spec.validation).min());
            findings.extend(claim("best", &text, "C1").lower(Pair {
                what: format!("error at the rate with the lowest mean error, {with}"),
                unit: POINTS,
                step,
                ours: line.best_errors(),
                other: none.best_errors(),
            }));
        }
    }
    findings
}

/// Why a norm may not widen the range of learning rates.
fn why(network: &Network) -> &'static str {
    match network.optimizer {
        Optimizer::Adam => ADAM,
        Optimizer::Sgd => SATURATED,
    }
}

const ADAM: &str = "A possible reason, not tested: Adam divides by the size of the gradient, so its steps stay bounded \
    at high rates, with a norm or without one.";
const SATURATED: &str = "A possible reason, not tested: over so few steps, a network with a norm needs higher rates to learn \
    enough, which moves its range up instead of widening it.";
const BEST: &str = "A possible reason, not tested: at its own best rate, this small network learns these few images as \
    well without the norm.";

fn same_rates(a: &Line<'_>, b: &Line<'_>) -> bool {
    a.rates.iter().map(|(rate, _)| rate).eq(b.rates.iter().map(|(rate, _)| rate))
}
