//! Curves over the batch size, and of training at the paper's two.

use super::{NORMS, PAPER_SIZES};
use crate::models::Norm;
use crate::records::Record;
use crate::report::{Axis, Cell, Chart, Picture, Story, Table};
use crate::studies::tools::{self, axis, capitalized, chart, log_axis};
use crate::studies::trained::{
    Ran, Spread, cells, compared, curve_over, error, in_percent, of_case, series, verdict, words,
};
use std::cmp::Ordering;

/// The batch of the paper that is small.
const SMALL_BATCH: usize = 4;

pub(super) fn story(name: &str, question: &str, runs: &[Ran], records: &[Record]) -> Story {
    let mut story = tools::story(name, "Large batches and small ones", question, records);
    story.expectation =
        "Layer norm does not use the batch, so it works at any size; at small ones, up to 4, it errs less than \
                         batch norm (Ba, Kiros and Hinton, 2016, section 6.6: batches of 128 and of 4)."
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
    (story.answer, story.as_expected) = answer(runs, &sizes);
    story.notes = vec![
        "All runs have as many epochs, of whole batches: what is left over of an epoch is left out. The learning rate is the same \
         at all sizes: none was tuned."
            .to_owned(),
        "Batch norm's validation uses its running statistics (the variance divided by n − 1), as it must: there is no batch at \
         inference. At a batch of 1 every unit is its own mean, so nothing but β is left, and there is no variance to keep; many \
         libraries refuse to train so."
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

/// The sizes that there are runs of.
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
    let x = log_axis("images in a batch");
    let see = "From right to left the batch gets smaller. The line is the mean over the seeds, the band goes from the best to the \
               worst of them; the lower the better.";
    let picture = Picture::Lines { x, y, series: NORMS.map(curve).to_vec(), scrub: false };
    chart("errors", "Validation error over the batch size", see, picture)
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
        "The validation loss of {network} while it trains on batches of {size}: the lower the better, the smoother the steadier."
    );
    let series = NORMS.into_iter().filter_map(curve).collect();
    let picture = Picture::Lines { x: axis("epoch"), y: log_axis("validation loss"), series, scrub: true };
    let title = format!("Batches of {size}{}", if part == "paper" { ", 784-1000-1000-10" } else { "" });
    chart(&format!("training-{part}-{size}"), &title, see, picture)
}

fn table(runs: &[Ran]) -> Table {
    let mut rows = Vec::new();
    for (part, name) in [("small", "100-100-10"), ("paper", "1000-1000-10, as the paper's")] {
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
    let columns = ["network", "batch", "norm", "seeds", "validation error, %", "best seed", "worst seed"];
    Table { columns: columns.map(str::to_owned).to_vec(), rows, notes: Vec::new() }
}

fn answer(runs: &[Ran], sizes: &[usize]) -> (String, Option<bool>) {
    let at = |norm, size| error(&of(runs, "small", norm, size));
    let mut parts = Vec::new();
    for &size in sizes {
        if let (Some(batch), Some(layer)) = (at(Norm::Batch, size), at(Norm::Layer, size)) {
            parts.push((size, batch, layer));
        }
    }
    let Some(&(smallest, ..)) = parts.first() else {
        return ("The runs with batch norm and layer norm are not all there yet.".to_owned(), None);
    };
    let tell = |&(size, batch, layer): &(usize, Spread, Spread)| {
        format!("at batches of {size} batch norm errs on {} and layer norm on {}", batch.percent(), layer.percent())
    };
    let told = |size: usize| parts.iter().find(|part| part.0 == size).map(tell);
    let mut sentences: Vec<String> =
        [Some(smallest), Some(SMALL_BATCH), sizes.last().copied()].into_iter().flatten().filter_map(told).collect();
    sentences.dedup();
    let text = capitalized(&sentences.join("; "));
    let small = parts.iter().filter(|part| part.0 <= SMALL_BATCH);
    (format!("{text}."), verdict(Ordering::Less, small.map(|(_, batch, layer)| compared(layer, batch))))
}
