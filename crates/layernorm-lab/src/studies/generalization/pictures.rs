//! Training and test loss by batch size, and their difference.

use super::{NOISY, NORMS, SETTLED, SIZES};
use crate::models::Norm;
use crate::records::Record;
use crate::report::{Axis, Cell, Chart, Finding, Picture, Story, Table};
use crate::studies::findings::{BySeed, Claim, Pair, by_seed, combined};
use crate::studies::tools::{self, axis, capitalized, categories, chart, log_axis, short};
use crate::studies::trained::{Ran, Spread, bars, in_percent, of_case, series, words};

/// The batch size that is not part of the id of the question about layer norm and no norm.
const USUAL: usize = 32;

pub(super) fn story(name: &str, question: &str, runs: &[Ran], records: &[Record]) -> Story {
    let mut story = tools::story(name, "Generalization", question, records);
    story.expectation = "Batch statistics are noise: an image is normalized differently in every batch. This noise \
                         regularizes, the more the smaller the batch (Ioffe and Szegedy, 2015; Luo et al., 2019). Layer \
                         norm has no such noise, so it does not regularize in this way."
        .to_owned();
    let sizes = sizes(runs);
    if sizes.is_empty() {
        return story;
    }
    story.charts = vec![losses(runs, &sizes), gaps(runs, &sizes), noise(runs, &sizes)];
    story.numbers = Some(table(runs, &sizes));
    story.answer = answer(runs, &sizes);
    story.findings = findings(runs, &sizes);
    story.notes = vec![
        "Both losses are measured at the end of training, with the final weights and in inference mode, so that the \
         training loss is not raised by the noise. Weight decay, dropout and augmentation are not used."
            .to_owned(),
        "All runs train for the same number of epochs with SGD, with a learning rate proportional to the batch size \
         (0.01 for batches of 8 unless --lr is given), not tuned for each norm."
            .to_owned(),
    ];
    story
}

fn sizes(runs: &[Ran]) -> Vec<usize> {
    let mut sizes: Vec<usize> = runs.iter().map(|ran| ran.trained.spec.batch_size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn of(runs: &[Ran], norm: Norm, size: usize) -> Vec<&Ran> {
    of_case(runs, &format!("{norm}-{size}"))
}

/// The loss of a trial; `None` if the run diverged: it has no gap.
fn trial(ran: &Ran, name: &str) -> Option<f64> {
    ran.trained.trials.iter().find(|trial| trial.name == name)?.loss
}

fn test_loss(ran: &Ran) -> Option<f64> {
    ran.trained.test.as_ref()?.loss
}

fn gap(ran: &Ran) -> Option<f64> {
    Some(test_loss(ran)? - trial(ran, SETTLED)?)
}

/// How much training mode raises the training loss.
fn noise_of(ran: &Ran) -> Option<f64> {
    Some(trial(ran, NOISY)? - trial(ran, SETTLED)?)
}

fn spread(runs: &[Ran], norm: Norm, size: usize, value: impl Fn(&Ran) -> Option<f64>) -> Option<Spread> {
    Spread::of(of(runs, norm, size).into_iter().map(value))
}

fn losses(runs: &[Ran], sizes: &[usize]) -> Chart {
    let curves = |norm: Norm| {
        let curve = |what: &str, value: fn(&Ran) -> Option<f64>| {
            let name = format!("{}, {what}", words(norm));
            series(&name, sizes.iter().map(|&size| (size as f64, spread(runs, norm, size, value))))
        };
        let mut training = curve("training loss", |ran| trial(ran, SETTLED));
        training.dashed = true;
        [curve("test loss", test_loss), training]
    };
    let series = NORMS.into_iter().flat_map(curves).collect();
    let see = "Two curves per norm: the test loss above, the training loss below. The distance between them is the gap. \
               A flat curve means that the batch size does not matter.";
    let (x, y) = (log_axis("batch size"), Axis { unit: Some("nats".to_owned()), ..log_axis("final loss") });
    chart("losses", "Training and test loss by batch size", see, Picture::Lines { x, y, series, scrub: false })
}

fn by_size(runs: &[Ran], sizes: &[usize], value: fn(&Ran) -> Option<f64>, y: Axis) -> Picture {
    let of_norm = |norm| {
        let spreads: Vec<_> = sizes.iter().map(|&size| spread(runs, norm, size, value)).collect();
        bars(words(norm), &spreads)
    };
    let x = categories("batch size", sizes.iter().map(usize::to_string));
    Picture::Bars { x, y: Axis { unit: Some("nats".to_owned()), ..y }, series: NORMS.map(of_norm).to_vec() }
}

fn gaps(runs: &[Ran], sizes: &[usize]) -> Chart {
    let see = "A lower bar means less overfitting. If batch norm's noise regularizes, its bars are lower than the others, \
               and lowest for small batches. Whiskers are the range over seeds.";
    chart("gaps", "Gap between test and training loss", see, by_size(runs, sizes, gap, axis("test − training loss")))
}

fn noise(runs: &[Ran], sizes: &[usize]) -> Chart {
    let see = "The loss on the training images with the statistics of random batches, minus the loss of the same network \
               with its running statistics. Without batch statistics the two are the same.";
    let y = axis("training loss, training mode − inference mode");
    chart("noise", "The noise of batch statistics", see, by_size(runs, sizes, noise_of, y))
}

fn table(runs: &[Ran], sizes: &[usize]) -> Table {
    let row = |(norm, size): (Norm, usize)| -> Vec<Cell> {
        let mean =
            |value: &dyn Fn(&Ran) -> Option<f64>| Cell::from(spread(runs, norm, size, value).map(|spread| spread.mean));
        let error = |ran: &Ran| Some(1.0 - ran.trained.test.as_ref()?.accuracy?);
        vec![
            words(norm).into(),
            (size as f64).into(),
            (of(runs, norm, size).len() as f64).into(),
            mean(&|ran| trial(ran, SETTLED)),
            mean(&|ran| trial(ran, NOISY)),
            mean(&test_loss),
            mean(&gap),
            Cell::from(in_percent(spread(runs, norm, size, error)).map(|spread| spread.mean)),
        ]
    };
    let cases = NORMS.into_iter().flat_map(|norm| sizes.iter().map(move |&size| (norm, size)));
    let columns = [
        "norm",
        "batch size",
        "seeds",
        "training loss",
        "training loss, training mode",
        "test loss",
        "gap",
        "test error, %",
    ];
    Table { columns: columns.map(str::to_owned).to_vec(), rows: cases.map(row).collect(), notes: Vec::new() }
}

fn answer(runs: &[Ran], sizes: &[usize]) -> String {
    let tell = |norm: Norm| {
        let gap = |&size: &usize| Some(short(spread(runs, norm, size, gap)?.mean));
        let gaps: Vec<String> = sizes.iter().map(gap).collect::<Option<_>>()?;
        Some(format!("{} with {}", gaps.join(", "), words(norm)))
    };
    let told: Vec<String> = NORMS.into_iter().filter_map(tell).collect();
    if told.is_empty() {
        return "Some runs have not finished yet.".to_owned();
    }
    let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
    capitalized(&format!(
        "the gap between test and training loss for batches of {} is {} (nats).",
        sizes.join(", "),
        told.join("; ")
    ))
}

/// The questions: the gaps of batch norm, layer norm and no norm against each other, and how they depend on the batch
/// size.
fn findings(runs: &[Ran], sizes: &[usize]) -> Vec<Finding> {
    let gaps = |norm, size| by_seed(&of(runs, norm, size), gap);
    let pair = |what: &str, ours: BySeed, other: BySeed| Pair {
        what: format!("test loss − training loss, {what}"),
        unit: "nats",
        step: 0.0,
        ours,
        other,
    };
    let mut findings = Vec::new();
    for &size in sizes {
        let text = format!(
            "With batches of {size}, the gap between test and training loss is smaller with batch norm \
                            than with layer norm"
        );
        let pair = pair("batch norm − layer norm", gaps(Norm::Batch, size), gaps(Norm::Layer, size));
        let reason = parts(runs, size);
        findings.extend(Claim::new(format!("gap-{size}"), text).source("C15").reason(reason).lower(pair));
    }
    for &size in sizes {
        let text =
            format!("With batches of {size}, layer norm does not regularize: its gap is larger than without a norm");
        let layer = pair("layer norm − no norm", gaps(Norm::Layer, size), gaps(Norm::None, size));
        // The oldest of these questions has no size in its id.
        let id = if size == USUAL { "layer-none".to_owned() } else { format!("layer-none-{size}") };
        findings.extend(Claim::new(id, text).source("C15").reason(BOUNDED).higher(layer));
        let text = format!("With batches of {size}, batch norm regularizes: its gap is smaller than without a norm");
        let batch = pair("batch norm − no norm", gaps(Norm::Batch, size), gaps(Norm::None, size));
        let claim = Claim::new(format!("batch-none-{size}"), text).source("C15");
        findings.extend(claim.reason(FASTER).lower(batch));
    }
    let (Some(&least), Some(&most)) = (sizes.first(), sizes.last()) else { return findings };
    if least == most {
        return findings;
    }
    let text = format!(
        "Batch norm's gap is larger with batches of {most} than with batches of {least}: less noise \
                        regularizes less"
    );
    let grown = pair(&format!("batches of {most} − {least}"), gaps(Norm::Batch, most), gaps(Norm::Batch, least));
    findings.extend(Claim::new("batch-grows", text).source("C15").reason(LATER).higher(grown));
    let moved = |norm| combined(&[gaps(norm, least), gaps(norm, most)], |both| (both[1] - both[0]).abs());
    let text = format!(
        "From batches of {least} to batches of {most}, the gap changes less with layer norm than with \
                        batch norm"
    );
    let change =
        pair("absolute change with the batch size, layer norm − batch norm", moved(Norm::Layer), moved(Norm::Batch));
    findings.extend(Claim::new("layer-independent", text).source("C15").reason(STEPS).lower(change));
    let noise = |size| by_seed(&of(runs, Norm::Batch, size), noise_of);
    let text = format!(
        "Batch norm's noise, which raises the training loss in training mode, is larger with batches of \
                        {least} than with batches of {most}"
    );
    let what = format!("training mode − inference mode, batches of {least} − {most}");
    let pair = Pair { what, unit: "nats", step: 0.0, ours: noise(least), other: noise(most) };
    findings.extend(Claim::new("noise", text).source("C15").reason(ESTIMATES).higher(pair));
    findings
}

const STEPS: &str = "A possible reason, not tested: smaller batches also mean more steps per epoch, which changes the gap \
    with any norm.";
const ESTIMATES: &str = "A possible reason, not tested: the running statistics, which inference uses, lag behind the weights \
    and add an error of their own.";
/// Why batch norm's gap may be the larger one.
const FASTER: &str = "A possible reason, not tested: once a network fits the training images almost perfectly, the gap is nearly \
                      the test loss, which grows as wrong predictions become more confident; batch norm's noise does not \
                      prevent that.";
/// Why layer norm's gap may be the smaller one.
const BOUNDED: &str = "A possible reason, not tested: layer norm bounds the activations of every image, and with them how confident \
                       wrong predictions become, without any noise.";
/// Why the gap may be larger with small batches.
const LATER: &str = "A possible reason, not tested: running statistics of small batches differ more from those seen in training, which \
                     raises the test loss more than the noise lowers it.";

/// The losses whose differences are the gaps of batch norm and layer norm.
fn parts(runs: &[Ran], size: usize) -> String {
    let of = |norm, value: fn(&Ran) -> Option<f64>| Some(short(spread(runs, norm, size, value)?.mean));
    let training = |ran: &Ran| trial(ran, SETTLED);
    let both = |value: fn(&Ran) -> Option<f64>| {
        Some(format!("{} with batch norm and {} with layer norm", of(Norm::Batch, value)?, of(Norm::Layer, value)?))
    };
    let why = FASTER;
    match (both(test_loss), both(training)) {
        (Some(test), Some(training)) => {
            format!("The test loss is {test}, the training loss {training}. {why}")
        }
        _ => why.to_owned(),
    }
}

/// The quick study asks the question without a size in its id.
const _: () = assert!(SIZES[1] == USUAL);
