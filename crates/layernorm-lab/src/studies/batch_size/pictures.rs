//! Error against batch size, and training curves at the paper's two batch sizes.

use super::{NORMS, PAPER_SIZES};
use crate::models::Norm;
use crate::records::Record;
use crate::report::{Axis, Cell, Chart, Finding, Picture, Story, Table};
use crate::studies::findings::{
    Claim, POINTS, Pair, by_seed, combined, errors as pair_of_errors, mean_losses, one_image,
};
use crate::studies::tools::{self, axis, capitalized, chart, log_axis};
use crate::studies::trained::{Ran, Spread, cells, curve_over, error, in_percent, of_case, series, words};
use std::f64::consts::SQRT_2;

/// The smaller of the paper's batch sizes.
const SMALL_BATCH: usize = 4;
/// Batches up to this size count as small.
const SMALL_BATCHES: usize = 5;
/// The batch size at which training and validation loss are compared.
const USUAL_BATCH: usize = 32;

pub(super) fn story(name: &str, question: &str, runs: &[Ran], records: &[Record]) -> Story {
    let mut story = tools::story(name, "Batch size", question, records);
    story.expectation =
        "Layer norm does not use batch statistics, so it works at any batch size; with batches of up to 4 its error is \
         lower than that of batch norm (Ba, Kiros and Hinton, 2016, section 6.6: batches of 128 and 4)."
            .to_owned();
    let sizes = sizes(runs, "small");
    if sizes.is_empty() {
        return story;
    }
    story.charts.push(errors(runs, &sizes));
    for part in ["small", "paper"] {
        let shown = PAPER_SIZES.iter().filter(|size| self::sizes(runs, part).contains(size));
        story.charts.extend(shown.map(|&size| training(runs, part, size)));
    }
    story.numbers = Some(table(runs));
    story.answer = answer(runs, &sizes);
    story.findings = findings(runs, &sizes);
    story.notes = vec![
        "All runs train for the same number of epochs. Incomplete batches at the end of an epoch are dropped. The \
         learning rate is the same at all batch sizes and was not tuned."
            .to_owned(),
        "For validation, batch norm uses its running statistics (with the variance divided by n − 1), because there is \
         no batch at inference. With a batch of 1, every activation equals its own mean, so the output is β, and there \
         is no variance to track; many libraries refuse to train in this case."
            .to_owned(),
    ];
    if !self::sizes(runs, "paper").is_empty() {
        story.notes.push(
            "784-1000-1000-10: batch norm on all layers and layer norm on the hidden ones, as in section 6.6. The paper gives no \
             learning rate and plots 60 epochs (`--epochs 60`)."
                .to_owned(),
        );
    }
    story
}

/// The batch sizes with runs.
fn sizes(runs: &[Ran], part: &str) -> Vec<usize> {
    let of_part = runs.iter().filter(|ran| ran.case.starts_with(part));
    let mut sizes: Vec<usize> = of_part.map(|ran| ran.trained.spec.batch_size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn of<'a>(runs: &'a [Ran], part: &str, norm: Norm, size: usize) -> Vec<&'a Ran> {
    of_case(runs, &format!("{part}-{norm}-{size}"))
}

fn errors(runs: &[Ran], sizes: &[usize]) -> Chart {
    let curve = |norm: Norm| {
        let at = |&size: &usize| (size as f64, in_percent(error(&of(runs, "small", norm, size))));
        series(words(norm), sizes.iter().map(at))
    };
    let y = Axis { unit: Some("%".to_owned()), low: Some(0.0), ..axis("validation error") };
    let x = log_axis("batch size");
    let see = "Batches get smaller from right to left. Lines are means over seeds, bands the range from the best to \
               the worst seed. Lower is better.";
    let picture = Picture::Lines { x, y, series: NORMS.map(curve).to_vec(), scrub: false };
    chart("errors", "Validation error by batch size", see, picture)
}

fn training(runs: &[Ran], part: &str, size: usize) -> Chart {
    let curve = |norm: Norm| {
        let runs = of(runs, part, norm, size);
        (!runs.is_empty()).then(|| {
            let epoch = runs[0].trained.spec.steps_of_epoch().max(1) as f64;
            curve_over(words(norm), &runs, |step| step as f64 / epoch, |evaluation| evaluation.loss)
        })
    };
    let network = if part == "paper" { "the paper's 784-1000-1000-10" } else { "the small network" };
    let see = format!(
        "Validation loss of {network} during training with batches of {size}. Lower is better; a smooth curve means \
         stable training."
    );
    let series = NORMS.into_iter().filter_map(curve).collect();
    let picture = Picture::Lines { x: axis("epoch"), y: log_axis("validation loss"), series, scrub: true };
    let title = format!("Batches of {size}{}", if part == "paper" { ", 784-1000-1000-10" } else { "" });
    chart(&format!("training-{part}-{size}"), &title, see, picture)
}

fn table(runs: &[Ran]) -> Table {
    let mut rows = Vec::new();
    for (part, name) in [("small", "100-100-10"), ("paper", "1000-1000-10, as in the paper")] {
        for size in sizes(runs, part) {
            for norm in NORMS {
                let runs = of(runs, part, norm, size);
                if runs.is_empty() {
                    continue;
                }
                let mut row: Vec<Cell> = vec![name.into(), (size as f64).into(), words(norm).into()];
                row.push((runs.len() as f64).into());
                row.extend(cells(in_percent(error(&runs))));
                rows.push(row);
            }
        }
    }
    let columns = ["network", "batch size", "norm", "seeds", "validation error, %", "best seed", "worst seed"];
    Table { columns: columns.map(str::to_owned).to_vec(), rows, notes: Vec::new() }
}

fn answer(runs: &[Ran], sizes: &[usize]) -> String {
    let at = |norm, size| error(&of(runs, "small", norm, size));
    let mut parts = Vec::new();
    for &size in sizes {
        if let (Some(batch), Some(layer)) = (at(Norm::Batch, size), at(Norm::Layer, size)) {
            parts.push((size, batch, layer));
        }
    }
    let Some(&(smallest, ..)) = parts.first() else {
        return "Some runs with batch norm or layer norm have not finished yet.".to_owned();
    };
    let tell = |&(size, batch, layer): &(usize, Spread, Spread)| {
        format!(
            "with batches of {size}, batch norm misclassifies {} and layer norm {}",
            batch.percent(),
            layer.percent()
        )
    };
    let told = |size: usize| parts.iter().find(|part| part.0 == size).map(tell);
    let mut sentences: Vec<String> =
        [Some(smallest), Some(SMALL_BATCH), sizes.last().copied()].into_iter().flatten().filter_map(told).collect();
    sentences.dedup();
    let text = capitalized(&sentences.join("; "));
    format!("{text}.")
}

/// The questions: small batches, the dependence on the batch size, regularization, and the paper's network.
fn findings(runs: &[Ran], sizes: &[usize]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (layer_batch, layer_none) = ("layer norm − batch norm", "layer norm − no norm");
    let small = |norm, size| of(runs, "small", norm, size);
    for &size in sizes.iter().filter(|&&size| size <= SMALL_BATCHES) {
        let text = format!("With batches of {size}, layer norm has a lower validation error than batch norm");
        let pair = pair_of_errors(layer_batch, &small(Norm::Layer, size), &small(Norm::Batch, size));
        findings.extend(Claim::new(format!("small-{size}"), text).source("C3").lower(pair));
    }
    if let (Some(&least), Some(&largest)) = (sizes.first(), sizes.last())
        && least < largest
    {
        let text = format!("With batches of {least}, layer norm has a lower validation error than no norm");
        let pair = pair_of_errors(layer_none, &small(Norm::Layer, least), &small(Norm::None, least));
        findings.extend(Claim::new("smallest-none", text).source("C3").lower(pair));
        let text = format!(
            "From batches of {largest} to batches of {least}, the validation error rises less with layer norm than with \
             batch norm"
        );
        let rise = |norm| {
            let error = |ran: &Ran| Some(100.0 * ran.trained.error()?);
            combined(&[least, largest].map(|size| by_seed(&small(norm, size), error)), |both| both[0] - both[1])
        };
        let images = runs.iter().map(|ran| ran.trained.spec.validation).min();
        let what = format!("rise of the validation error, {layer_batch}");
        // Each rise is a difference of two rounded errors.
        let (step, ours, other) = (SQRT_2 * one_image(images), rise(Norm::Layer), rise(Norm::Batch));
        findings.extend(Claim::new("dependence", text).source("C3").lower(Pair {
            what,
            unit: POINTS,
            step,
            ours,
            other,
        }));
    }
    let text = format!(
        "With batches of {USUAL_BATCH}, batch norm narrows the gap between validation and training loss more than layer norm"
    );
    let gaps = |norm| by_seed(&small(norm, USUAL_BATCH), gap);
    let pair = Pair {
        what: "validation loss − training loss at the end, batch norm − layer norm".to_owned(),
        unit: "nats",
        step: 0.0,
        ours: gaps(Norm::Batch),
        other: gaps(Norm::Layer),
    };
    findings.extend(Claim::new("regularization", text).source("C15").lower(pair));
    for size in PAPER_SIZES {
        let (batch, layer) = (of(runs, "paper", Norm::Batch, size), of(runs, "paper", Norm::Layer, size));
        let text = format!(
            "784-1000-1000-10 with batches of {size}: layer norm has a lower mean validation loss during training than \
             batch norm"
        );
        findings.extend(Claim::new(format!("paper-{size}"), text).source("C20").lower(mean_losses(
            layer_batch,
            &layer,
            &batch,
        )));
    }
    findings
}

/// Final validation loss minus final training loss; `None` if the run diverged: it has no gap.
fn gap(ran: &Ran) -> Option<f64> {
    let last = ran.trained.last().filter(|_| ran.trained.diverged.is_none())?;
    Some(last.loss? - last.train_loss?)
}
