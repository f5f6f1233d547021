//! The bound during training and its two parts, and generated digits.

use crate::draw::events::{Bound, Digits, Evaluate};
use crate::draw::{Drawn, Norms};
use crate::records::Record;
use crate::report::{Axis, Cell, Chart, Finding, Picture, Series, Sheets, Story, Table};
use crate::studies::findings::{BySeed, Claim, Pair, collect};
use crate::studies::tools::{self, axis, chart, short};
use crate::studies::trained::{Spread, cells, series};
use std::f64::consts::LN_2;

const ALL: [Norms; 3] = [Norms::None, Norms::Cell, Norms::All];

pub(super) fn story(name: &str, title: &str, question: &str, records: &[Record]) -> Story {
    let mut story = tools::story(name, title, question, records);
    story.expectation =
        "In section 6.4 of the paper, DRAW with layer norm on the cells of its LSTMs converges almost twice as fast in \
         the first 100 epochs, and after 200 epochs its test bound is 82.09 nats instead of 82.36."
            .to_owned();
    let runs: Vec<Drawn> = records.iter().filter_map(Drawn::read).collect();
    let Some(first) = runs.first() else { return story };
    story.charts = vec![
        curves(&runs, ["bound", "Validation bound during training", "validation bound"], BOUND, Bound::total),
        curves(&runs, ["reconstruction", "Reconstruction", "−ln p(x|z)"], RECONSTRUCTION, |bound| {
            bound.reconstruction
        }),
        curves(&runs, ["kl", "KL divergence", "KL divergence"], KL, |bound| bound.kl),
    ];
    story.charts.extend(by_glimpse(&runs));
    story.charts.extend(by_step(&runs));
    story.numbers = Some(table(&runs));
    story.answer = answer(&runs);
    story.findings = findings(&runs);
    story.notes = notes(first);
    story
}

const BOUND: &str = "An upper bound of −ln p(x), the nats per image that the network needs to describe a validation image. \
                     Lower is better. Lines are means over seeds, bands the range from the best to the worst seed.";
const RECONSTRUCTION: &str = "The first part of the bound: −ln p(x|z), the nats needed to encode the image given the canvas. It \
                              falls as the drawings become more accurate.";
const KL: &str = "The second part of the bound: what the latent variables z say about the image beyond the prior, summed \
                  over all glimpses. It rises as the network learns to use them.";

/// The display name of a condition. The page gives layer norm its colour.
fn words(norms: Norms) -> &'static str {
    match norms {
        Norms::None => "no norm",
        Norms::Cell => "layer norm on the cell",
        Norms::All => "layer norm on gates and cell",
    }
}

fn of(runs: &[Drawn], norms: Norms) -> Vec<&Drawn> {
    runs.iter().filter(|run| run.spec.norms == norms).collect()
}

/// The conditions that have runs.
fn conditions(runs: &[Drawn]) -> Vec<Norms> {
    ALL.into_iter().filter(|&norms| runs.iter().any(|run| run.spec.norms == norms)).collect()
}

fn curves(runs: &[Drawn], [id, title, label]: [&str; 3], see: &str, value: fn(&Bound) -> Option<f64>) -> Chart {
    let curve = |norms| curve(words(norms), &of(runs, norms), value);
    let y = Axis { unit: Some("nats per image".to_owned()), ..axis(label) };
    let series = conditions(runs).into_iter().map(curve).collect();
    chart(id, title, see, Picture::Lines { x: axis("epoch"), y, series, scrub: id == "bound" })
}

/// A part of the validation bound over epochs, from the first evaluation after the start: before training the bound is
/// so much larger that the rest would be invisible.
fn curve(name: &str, runs: &[&Drawn], value: fn(&Bound) -> Option<f64>) -> Series {
    let epoch = runs.first().map_or(1, |run| run.spec.steps_of_epoch()).max(1) as f64;
    let mut steps: Vec<usize> = runs.iter().flat_map(|run| run.evaluations.iter().map(|found| found.step)).collect();
    steps.sort_unstable();
    steps.dedup();
    let at = |step: usize| {
        let find = |run: &&Drawn| value(&run.evaluations.iter().find(|found| found.step == step)?.validation);
        (step as f64 / epoch, Spread::of(runs.iter().map(find)))
    };
    series(name, steps.into_iter().filter(|&step| step > 0).map(at))
}

/// A moment of a run: its name and its images.
type Moment = (String, Vec<String>);

/// Digits of the trained networks after each glimpse.
fn by_glimpse(runs: &[Drawn]) -> Option<Chart> {
    let moments = |run: &Drawn| -> Vec<Moment> {
        let last = run.digits.last().filter(|digits| digits.step == run.spec.steps);
        let frames = last.into_iter().flat_map(|digits| digits.glimpses.iter().zip(&digits.images));
        frames
            .map(|(glimpse, images)| (format!("glimpse {glimpse} of {}", run.spec.glimpses), images.clone()))
            .collect()
    };
    let see = "Digits drawn by the trained networks from random z, glimpse by glimpse: press Play. All networks draw from \
               the same random numbers.";
    images("digits", "Generated digits, glimpse by glimpse", see, runs, moments)
}

/// Digits after the last glimpse, at every evaluation.
fn by_step(runs: &[Drawn]) -> Option<Chart> {
    let moment = |digits: &Digits| Some((format!("step {}", digits.step), digits.images.last()?.clone()));
    let moments = |run: &Drawn| run.digits.iter().filter_map(moment).collect();
    let see = "The same digits after the last glimpse, as training proceeds. At the start, every canvas is close to the \
               mean of the training images.";
    images("training", "Generated digits during training", see, runs, moments)
}

/// A chart with one panel per condition: the moments of its run with the smallest seed.
fn images(id: &str, title: &str, see: &str, runs: &[Drawn], moments: impl Fn(&Drawn) -> Vec<Moment>) -> Option<Chart> {
    let drawn =
        |norms| of(runs, norms).into_iter().filter(|run| !run.digits.is_empty()).min_by_key(|run| run.spec.seed);
    let drawn: Vec<&Drawn> = conditions(runs).into_iter().filter_map(drawn).collect();
    let all: Vec<Vec<Moment>> = drawn.iter().map(|run| moments(run)).collect();
    let longest = all.iter().max_by_key(|moments| moments.len()).filter(|moments| !moments.is_empty())?;
    let images = |number: usize| {
        let of = |moments: &Vec<Moment>| moments.get(number).map_or_else(Vec::new, |(_, images)| images.clone());
        all.iter().map(of).collect()
    };
    let sheets = |(number, (label, _)): (usize, &Moment)| Sheets { label: label.clone(), images: images(number) };
    let [rows, columns] = drawn.first()?.image;
    let picture = Picture::Images {
        rows,
        columns,
        panels: drawn.iter().map(|run| words(run.spec.norms).to_owned()).collect(),
        frames: longest.iter().enumerate().map(sheets).collect(),
        scale: "probability of ink".to_owned(),
    };
    Some(chart(id, title, see, picture))
}

/// The bound of a network that guesses every pixel; larger bounds, and those after divergence, count as this one.
fn guessing(run: &Drawn) -> f64 {
    run.image.iter().product::<usize>() as f64 * LN_2
}

/// Reads a result of a run; `None` if there is none.
type Measure = fn(&Drawn) -> Option<f64>;

/// The validation bounds after the start, one per planned evaluation.
fn bounds(run: &Drawn) -> Option<Vec<f64>> {
    let seen = run.evaluations.iter().filter(|found| found.step > 0).map(|found| found.validation.total());
    match run.diverged {
        None => seen.collect::<Option<Vec<f64>>>().filter(|bounds| !bounds.is_empty()),
        Some(_) => {
            let mut bounds: Vec<f64> = seen.map(|bound| bound.unwrap_or(guessing(run)).min(guessing(run))).collect();
            bounds.resize(bounds.len().max(run.spec.evaluations), guessing(run));
            Some(bounds)
        }
    }
}

/// The mean validation bound during training: the lower, the faster the network learned.
fn mean(run: &Drawn) -> Option<f64> {
    let bounds = bounds(run)?;
    Some(bounds.iter().sum::<f64>() / bounds.len() as f64)
}

/// The last validation bound.
fn last(run: &Drawn) -> Option<f64> {
    bounds(run)?.last().copied()
}

/// The bound on the test images.
fn test(run: &Drawn) -> Option<f64> {
    run.diverged.map(|_| guessing(run)).or_else(|| run.test?.total())
}

fn by_seed(runs: &[&Drawn], value: Measure) -> BySeed {
    collect(runs.iter().map(|run| (run.spec.seed, value(run))))
}

fn findings(runs: &[Drawn]) -> Vec<Finding> {
    let questions: [(&str, &str, &str, Measure); 3] = [
        ("mean", "lowers the mean validation bound during training", "mean validation bound during training", mean),
        ("final", "lowers the validation bound at the end of training", "final validation bound", last),
        ("test", "lowers the bound on the test images", "test bound", test),
    ];
    let ours = [
        (Norms::Cell, "cell", "DRAW: layer norm on the cell"),
        (Norms::All, "all", "DRAW: layer norm on gates and cell"),
    ];
    let ask = |(norms, short, subject): (Norms, &'static str, &'static str)| {
        questions.into_iter().filter_map(move |(id, text, what, value)| {
            let pair = Pair {
                what: format!("{what}, {} − no norm", words(norms)),
                unit: "nats",
                step: 0.0,
                ours: by_seed(&of(runs, norms), value),
                other: by_seed(&of(runs, Norms::None), value),
            };
            Claim::new(format!("{short}-{id}"), format!("{subject} {text}")).source("C21").reason(SMALL).lower(pair)
        })
    };
    ours.into_iter().flat_map(ask).collect()
}

/// Why layer norm may not help.
const SMALL: &str = "The learning rate was tuned without a norm only. Another possible reason, not tested: with few \
    glimpses, there is little time over which the cell could drift.";

fn spread(runs: &[&Drawn], value: Measure) -> Option<Spread> {
    Spread::of(runs.iter().map(|run| value(run)))
}

fn answer(runs: &[Drawn]) -> String {
    let tell = |norms| {
        let found = spread(&of(runs, norms), last)?;
        let range =
            if found.count > 1 { format!(" ({} to {})", short(found.lo), short(found.hi)) } else { String::new() };
        Some(format!("{} nats{range} with {}", short(found.mean), words(norms)))
    };
    let told: Vec<String> = conditions(runs).into_iter().filter_map(tell).collect();
    if told.is_empty() {
        return "No run has finished yet.".to_owned();
    }
    format!("After training, the validation bound is {}.", told.join(", and "))
}

fn table(runs: &[Drawn]) -> Table {
    let row = |norms: Norms| {
        let runs = of(runs, norms);
        let last_of =
            |part: fn(&Evaluate) -> Option<f64>| Spread::of(runs.iter().map(|run| part(run.evaluations.last()?)));
        let middle = |spread: Option<Spread>| Cell::from(spread.map(|spread| spread.mean));
        let mut row: Vec<Cell> = vec![words(norms).into(), (runs.len() as f64).into()];
        row.extend(cells(spread(&runs, last)));
        row.push(middle(last_of(|found| found.validation.reconstruction)));
        row.push(middle(last_of(|found| found.validation.kl)));
        row.push(middle(last_of(|found| found.train?.total())));
        row.push(middle(spread(&runs, test)));
        row
    };
    let columns = [
        "norm",
        "seeds",
        "validation bound, nats",
        "best seed",
        "worst seed",
        "reconstruction",
        "KL",
        "training bound",
        "test bound",
    ];
    let rows = conditions(runs).into_iter().map(row).collect();
    Table { columns: columns.map(str::to_owned).to_vec(), rows, notes: Vec::new() }
}

fn notes(Drawn { spec, image: [rows, columns], .. }: &Drawn) -> Vec<String> {
    let halved = if spec.images.halved { ", means of 2×2," } else { "" };
    let attention = match spec.attention {
        None => "without attention".to_owned(),
        Some([read, write]) => format!("with attention of {read}×{read} (read) and {write}×{write} (write) filters"),
    };
    let epochs = spec.steps as f64 / spec.steps_of_epoch().max(1) as f64;
    vec![
        format!(
            "DRAW with {} glimpses, LSTMs of {} units and {} latent variables per glimpse, {attention}; Adam at {}, batches \
             of {}, {} epochs of {} images. The paper: 28×28 pixels, 64 glimpses, 256 units, 200 epochs (`layernorm study \
             draw-paper`).",
            spec.glimpses, spec.hidden, spec.latent, short(spec.learning_rate), spec.batch_size, short(epochs), spec.train
        ),
        format!(
            "Images have {rows}×{columns} pixels{halved} and are binary: each pixel was sampled once, with its grey value as probability. All runs have \
             the same images. The canvas starts at the log-odds of each pixel in the training images."
        ),
        "Runs with the same seed have the same weights, batches and noise. Bounds use one sample of z per image, the same \
         at every evaluation."
            .to_owned(),
        "All norms have the same learning rate. That of the quick study was tuned for the network without a norm only, \
         which may favour it: it is the best of 0.003, 0.006 and 0.01 by the final validation bound of seeds 1 and 2. \
         Those of the larger studies were not tuned."
            .to_owned(),
    ]
}
