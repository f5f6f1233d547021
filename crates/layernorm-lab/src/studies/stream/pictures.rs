//! Online error over the stream, by part of it and by learning rate.

use super::online::{AtRate, Part, best, by_rate, error, images, intervals};
use super::{BATCH, Order, PHASES, Way};
use crate::models::Norm;
use crate::records::Record;
use crate::report::{Axis, Cell, Chart, Finding, Picture, Series, Story, Table};
use crate::studies::findings::{Claim, POINTS, Pair, one_image};
use crate::studies::tools::{self, axis, categories, chart, log_axis, short};
use crate::studies::trained::{Ran, Spread, bars, cells, in_percent, series, words};

/// The last whole word about a way: its norm, and the batch size if it is not 1.
fn name(way: Way) -> String {
    match way.batch {
        1 => words(way.norm).to_owned(),
        batch => format!("{}, batches of {batch}", words(way.norm)),
    }
}

/// The ways with runs.
fn ways(runs: &[Ran]) -> Vec<Way> {
    let mut ways: Vec<Way> = Vec::new();
    for ran in runs {
        let way = Way::of(ran.trained.spec.norm, ran.trained.spec.batch_size);
        if !ways.contains(&way) {
            ways.push(way);
        }
    }
    ways.sort_by_key(|way| (way.batch, way.norm));
    ways
}

pub(super) fn story(study: &str, question: &str, runs: &[Ran], records: &[Record]) -> Story {
    let mut story = tools::story(study, "Streams", question, records);
    story.expectation = "Batch norm needs batches whose statistics match those at test time. A stream has neither: images \
                         come one at a time, and their distribution changes. Layer norm normalizes each image by itself, \
                         so it suits online learning (Ba, Kiros and Hinton, 2016, section 1)."
        .to_owned();
    let best: Vec<AtRate<'_>> = ways(runs).into_iter().filter_map(|way| best(runs, way, Order::Changing)).collect();
    if best.is_empty() {
        return story;
    }
    story.charts = vec![over_time(&best), parts(runs, &best), rates(runs)];
    story.numbers = Some(table(runs, &best));
    story.answer = answer(&best);
    story.findings = findings(runs, &best);
    story.notes = vec![
        "Every image is predicted before the network learns it, in inference mode: batch norm uses its running \
         statistics. Error rates are shares of such predictions, so no image is tested after it was learned."
            .to_owned(),
        format!(
            "SGD with the best learning rate of each norm and batch size: that with the lowest error over the changing \
             stream, of {} with single images and of {} with batches. On the shuffled stream only the middle rate was \
             run. A diverged run counts as wrong from then on.",
            list(super::SINGLE),
            list(super::SEVERAL)
        ),
        "With a single image, batch norm's output in training is β whatever the image is, so the layers below learn \
         nothing; only β and the output layer's biases do."
            .to_owned(),
    ];
    for (grid, several) in [(super::SINGLE, false), (super::SEVERAL, true)] {
        let of = best.iter().filter(|at| (at.way.batch > 1) == several);
        story.notes.extend(tools::at_an_end(of.map(|at| (name(at.way), at.rate)), grid));
    }
    story
}

fn list(rates: &[f64]) -> String {
    rates.iter().map(|&rate| short(rate)).collect::<Vec<_>>().join(", ")
}

fn percent_axis(label: &str) -> Axis {
    Axis { unit: Some("%".to_owned()), low: Some(0.0), ..axis(label) }
}

fn over_time(best: &[AtRate<'_>]) -> Chart {
    let curve = |at: &AtRate<'_>| -> Series {
        let all: Vec<Vec<([usize; 2], f64)>> = at.runs.iter().filter_map(|ran| intervals(ran)).collect();
        let count = all.iter().map(Vec::len).min().unwrap_or(0);
        let point = |number: usize| {
            let end = all[0][number].0[1] * at.way.batch;
            (end as f64, in_percent(Spread::of(all.iter().map(|run| Some(run[number].1)))))
        };
        series(&name(at.way), (0..count).map(point))
    };
    let phase = best[0].runs.first().map_or(0, |ran| images(ran, Part::Whole) / PHASES);
    let see = format!(
        "The classes change every {} images, between 0–4 and 5–9: the error jumps there and falls again. What matters is \
         how high it jumps and how fast it falls. Every point is the \
         error in the images since the last one.",
        tools::short(phase as f64)
    );
    let y = percent_axis("error of predictions before learning");
    let picture = Picture::Lines { x: axis("images seen"), y, series: best.iter().map(curve).collect(), scrub: true };
    chart("online", "Online error while the classes change", see, picture)
}

fn parts(runs: &[Ran], best: &[AtRate<'_>]) -> Chart {
    let shuffled = |at: &AtRate<'_>| super::online::best(runs, at.way, Order::Shuffled)?.spread(Part::Whole);
    let of = |part| best.iter().map(|at| in_percent(at.spread(part))).collect::<Vec<_>>();
    let series = vec![
        bars("whole stream", &of(Part::Whole)),
        bars("first quarter of each phase after a change", &of(Part::AfterChanges)),
        bars("shuffled stream, no changes", &best.iter().map(|at| in_percent(shuffled(at))).collect::<Vec<_>>()),
    ];
    // Longer labels would be cut off.
    let label = |way: Way| if way.batch == 1 { name(way) } else { format!("{}, {}", words(way.norm), way.batch) };
    let x = categories("norm, and batch size if it is not 1", best.iter().map(|at| label(at.way)));
    let see = "Lower is better. The second bar shows the recovery after a change of the classes; the third shows the \
               same networks on a stream without changes. Whiskers are the range over seeds.";
    chart("parts", "Recovery after a change", see, Picture::Bars { x, y: percent_axis("online error"), series })
}

fn rates(runs: &[Ran]) -> Chart {
    let curve = |way: Way| {
        let points = by_rate(runs, way, Order::Changing).into_iter();
        series(&name(way), points.map(|at| (at.rate, in_percent(at.spread(Part::Whole)))))
    };
    let series = ways(runs).into_iter().map(curve).collect();
    let see = "The lowest point of each curve is the learning rate that the other figures use. A flat curve means that \
               the rate hardly matters.";
    let (x, y) = (log_axis("learning rate"), percent_axis("online error, changing stream"));
    chart("rates", "Error by learning rate", see, Picture::Lines { x, y, series, scrub: false })
}

fn table(runs: &[Ran], best: &[AtRate<'_>]) -> Table {
    let row = |at: &AtRate<'_>| {
        let mut row: Vec<Cell> = vec![words(at.way.norm).into(), (at.way.batch as f64).into(), at.rate.into()];
        row.push((at.runs.len() as f64).into());
        row.extend(cells(in_percent(at.spread(Part::Whole))));
        let shuffled = super::online::best(runs, at.way, Order::Shuffled).and_then(|at| at.spread(Part::Whole));
        let means = [in_percent(at.spread(Part::AfterChanges)), in_percent(shuffled)];
        row.extend(means.map(|spread| Cell::from(spread.map(|spread| spread.mean))));
        row
    };
    let columns = [
        "norm",
        "batch size",
        "best rate",
        "seeds",
        "online error, %",
        "best seed",
        "worst seed",
        "after changes, %",
        "shuffled stream, %",
    ];
    Table { columns: columns.map(str::to_owned).to_vec(), rows: best.iter().map(row).collect(), notes: Vec::new() }
}

fn answer(best: &[AtRate<'_>]) -> String {
    let tell = |at: &AtRate<'_>| Some(format!("{} with {}", at.spread(Part::Whole)?.percent(), name(at.way)));
    let told: Vec<String> = best.iter().filter_map(tell).collect();
    if told.is_empty() {
        return "Some runs have not finished yet.".to_owned();
    }
    format!("Error on the changing stream, each image predicted before it is learned: {}.", told.join("; "))
}

/// The questions: single images, batches against single images, and recovery after changes.
fn findings(runs: &[Ran], best: &[AtRate<'_>]) -> Vec<Finding> {
    let of = |norm, batch| best.iter().find(|at| at.way == Way::of(norm, batch));
    let shuffled = |norm| super::online::best(runs, Way::of(norm, 1), Order::Shuffled);
    let after = "in the first quarter of each phase after a change of the classes";
    let claims = [
        (
            "batch",
            "On a stream with batch size 1, layer norm's error is lower than batch norm's".to_owned(),
            pair(of(Norm::Layer, 1), of(Norm::Batch, 1), Part::Whole),
        ),
        (
            "none",
            "On a stream with batch size 1, layer norm's error is lower than without a norm".to_owned(),
            pair(of(Norm::Layer, 1), of(Norm::None, 1), Part::Whole),
        ),
        (
            "collected",
            format!(
                "Layer norm with batch size 1 has a lower error on the stream than batch norm with batches of {BATCH}"
            ),
            pair(of(Norm::Layer, 1), of(Norm::Batch, BATCH), Part::Whole),
        ),
        (
            "several",
            format!("With batches of {BATCH}, layer norm's error on the stream is lower than batch norm's"),
            pair(of(Norm::Layer, BATCH), of(Norm::Batch, BATCH), Part::Whole),
        ),
        (
            "recovery-none",
            format!("With batch size 1, layer norm recovers faster than without a norm: lower error {after}"),
            pair(of(Norm::Layer, 1), of(Norm::None, 1), Part::AfterChanges),
        ),
        (
            "recovery-batch",
            format!("With batches of {BATCH}, layer norm recovers faster than batch norm: lower error {after}"),
            pair(of(Norm::Layer, BATCH), of(Norm::Batch, BATCH), Part::AfterChanges),
        ),
        (
            "shuffled-none",
            "With batch size 1 and all classes in random order, layer norm's error is lower than without a norm"
                .to_owned(),
            pair(shuffled(Norm::Layer).as_ref(), shuffled(Norm::None).as_ref(), Part::Whole),
        ),
    ];
    let claims = claims.into_iter();
    claims.filter_map(|(id, text, pair)| Claim::new(id, text).source("C17").reason(reason(id)).lower(pair?)).collect()
}

/// Why a claim may be contradicted.
fn reason(id: &str) -> &'static str {
    if id == "several" {
        "The sources' claim is about single images; batches of this size give batch norm usable statistics."
    } else {
        "A possible reason, not tested: the stream is short, so the network that learns most from its first images is ahead."
    }
}

/// Errors of two ways in a part of the stream, in percentage points.
fn pair(ours: Option<&AtRate<'_>>, other: Option<&AtRate<'_>>, part: Part) -> Option<Pair> {
    let (ours, other) = (ours?, other?);
    let counted = ours.runs.iter().chain(&other.runs).filter(|ran| error(ran, part).is_some());
    let what = format!("online error, {} − {}", name(ours.way), name(other.way));
    let step = one_image(counted.map(|ran| images(ran, part)).min());
    Some(Pair { what, unit: POINTS, step, ours: ours.by_seed(part), other: other.by_seed(part) })
}
