//! Error against batch size, and training curves at the paper's two batch sizes.

mod best;

use super::{COMMON, LEAST_STEPS, NORMS, Network, PAPER_SIZES, TUNED_SIZES, case};
use crate::models::Norm;
use crate::records::Record;
use crate::report::{Axis, Cell, Chart, Finding, Picture, Story, Table};
use crate::studies::findings::{
    Claim, POINTS, Pair, by_seed, combined, errors as pair_of_errors, mean_losses, one_image,
};
use crate::studies::tools::{self, axis, chart, log_axis, short};
use crate::studies::trained::{Ran, cells, curve_over, error, in_percent, of_case, series, words};
use std::f64::consts::SQRT_2;

/// The smaller of the paper's batch sizes.
const SMALL_BATCH: usize = 4;
/// From this batch size on, batch norm should be better for CNNs.
const USUAL_BATCH: usize = 32;

pub(super) fn story(name: &str, question: &str, runs: &[Ran], records: &[Record]) -> Story {
    let mut story = tools::story(name, "Batch size", question, records);
    story.expectation =
        "Layer norm does not use batch statistics, so it works at any batch size; with batches of up to 4 its error is \
         lower than that of batch norm (Ba, Kiros and Hinton, 2016, section 6.6: batches of 128 and 4)."
            .to_owned();
    let shown: Vec<Network> = Network::ALL.into_iter().filter(|&network| !sizes(runs, network).is_empty()).collect();
    if shown.is_empty() {
        return story;
    }
    story
        .charts
        .extend(shown.iter().filter(|&&network| network != Network::Paper).map(|&network| errors(runs, network)));
    for network in shown.iter().copied().filter(|network| matches!(network, Network::Mlp | Network::Paper)) {
        let sizes = sizes(runs, network);
        story
            .charts
            .extend(PAPER_SIZES.iter().filter(|size| sizes.contains(size)).map(|&size| training(runs, network, size)));
    }
    story.numbers = Some(table(runs));
    story.charts.extend(best::chart(runs));
    story.answer = answer(runs);
    story.findings = shown.iter().flat_map(|&network| findings(runs, network)).collect();
    story.notes = vec![
        format!(
            "All runs of a network train for the same number of epochs, those of the CNN and the LSTM for at least \
             {LEAST_STEPS} steps. Incomplete batches at the end of an epoch are dropped. Unless “best rate” is mentioned, \
             the learning rate is the same at all batch sizes and was not tuned."
        ),
        format!(
            "MLP with batches of {} and {}: the best rate of a norm is the one of {} at which the mean validation error is \
             lowest. If it is {COMMON} for both sides of a comparison, the question is not asked twice.",
            TUNED_SIZES[0],
            TUNED_SIZES[1],
            best::listed()
        ),
        "The LSTM reads the rows of the image's middle, because the first rows of whole images are blank, which harms \
         batch norm. With batch norm it starts with γ = 0.1 and has statistics for every time step (Cooijmans et al., \
         2016)."
            .to_owned(),
        "For validation, batch norm uses its running statistics (with the variance divided by n − 1), because there is \
         no batch at inference. With a batch of 1, every activation equals its own mean, so the output is β, and there \
         is no variance to track; many libraries refuse to train in this case."
            .to_owned(),
    ];
    if shown.contains(&Network::Paper) {
        story.notes.push(
            "784-1000-1000-10: batch norm on all layers and layer norm on the hidden ones, as in section 6.6. The paper gives no \
             learning rate and plots 60 epochs."
                .to_owned(),
        );
    }
    story
}

/// The batch sizes with runs.
fn sizes(runs: &[Ran], network: Network) -> Vec<usize> {
    let start = format!("{}-", network.id());
    let of_network = runs.iter().filter(|ran| ran.case.starts_with(&start));
    let mut sizes: Vec<usize> = of_network.map(|ran| ran.trained.spec.batch_size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn of(runs: &[Ran], network: Network, norm: Norm, size: usize) -> Vec<&Ran> {
    of_case(runs, &case(network, norm, size))
}

fn errors(runs: &[Ran], network: Network) -> Chart {
    let sizes = sizes(runs, network);
    let curve = |norm: Norm| {
        let at = |&size: &usize| (size as f64, in_percent(error(&of(runs, network, norm, size))));
        series(words(norm), sizes.iter().map(at))
    };
    let y = Axis { unit: Some("%".to_owned()), low: Some(0.0), ..axis("validation error") };
    let x = log_axis("batch size");
    let see = "Batches get smaller from right to left. Lines are means over seeds, bands the range from the best to \
               the worst seed. Lower is better.";
    let picture = Picture::Lines { x, y, series: network.norms().map(curve).collect(), scrub: false };
    let id = if network == Network::Mlp { "errors".to_owned() } else { format!("errors-{}", network.id()) };
    chart(&id, &format!("{}: validation error by batch size", network.title()), see, picture)
}

fn training(runs: &[Ran], network: Network, size: usize) -> Chart {
    let curve = |norm: Norm| {
        let runs = of(runs, network, norm, size);
        (!runs.is_empty()).then(|| {
            let epoch = runs[0].trained.spec.steps_of_epoch().max(1) as f64;
            curve_over(words(norm), &runs, |step| step as f64 / epoch, |evaluation| evaluation.loss)
        })
    };
    let title = network.title();
    let see = format!(
        "Validation loss of the network ({title}) during training with batches of {size}. Lower is better; a smooth \
         curve means stable training."
    );
    let series = NORMS.into_iter().filter_map(curve).collect();
    let picture = Picture::Lines { x: axis("epoch"), y: log_axis("validation loss"), series, scrub: true };
    chart(&format!("training-{}-{size}", network.id()), &format!("{title}, batches of {size}"), see, picture)
}

fn table(runs: &[Ran]) -> Table {
    let mut rows = Vec::new();
    for network in Network::ALL {
        for size in sizes(runs, network) {
            for norm in NORMS {
                let runs = of(runs, network, norm, size);
                if runs.is_empty() {
                    continue;
                }
                let mut row: Vec<Cell> = vec![network.title().into(), (size as f64).into(), words(norm).into()];
                row.push((runs.len() as f64).into());
                row.extend(cells(in_percent(error(&runs))));
                rows.push(row);
            }
        }
    }
    let columns = ["network", "batch size", "norm", "seeds", "validation error, %", "best seed", "worst seed"];
    Table { columns: columns.map(str::to_owned).to_vec(), rows, notes: Vec::new() }
}

fn answer(runs: &[Ran]) -> String {
    let told = Network::ALL.into_iter().filter_map(|network| {
        let sizes = sizes(runs, network);
        let tell = |size: usize| {
            let at = |norm| error(&of(runs, network, norm, size));
            let (batch, layer) = (at(Norm::Batch)?, at(Norm::Layer)?);
            Some(format!(
                "with batches of {size}, the error is {} with batch norm and {} with layer norm",
                batch.percent(),
                layer.percent()
            ))
        };
        let mut told = vec![*sizes.first()?, SMALL_BATCH, *sizes.last()?];
        told.retain(|size| sizes.contains(size));
        told.dedup();
        let sentences: Vec<String> = told.into_iter().filter_map(tell).collect();
        (!sentences.is_empty()).then(|| format!("{}: {}.", network.title(), sentences.join("; ")))
    });
    let told: Vec<String> = told.collect();
    if told.is_empty() {
        return "Some runs with batch norm or layer norm have not finished yet.".to_owned();
    }
    told.join(" ")
}

/// Why large batches may favour batch norm.
const ACCURATE: &str = "Batches of this size give batch norm accurate statistics; the sources claim an advantage of layer norm for \
                        small batches only.";

/// Why small batches may not favour layer norm.
const RATE: &str = "A possible reason, tested only for the MLP with batches of 4: the learning rate is the same for all batch sizes, and one \
                    that suits large batches is large for the noisy gradients of small ones, with any norm.";

/// Why the network of the paper may behave otherwise here.
fn fewer(runs: &[&Ran]) -> String {
    let images = runs.first().map_or(0, |ran| ran.trained.spec.train);
    format!(
        "A possible reason, not tested: the paper does not give its learning rate, initialization and nonlinearity, and trains on \
         all images of MNIST; these runs use {} of them.",
        short(images as f64)
    )
}

/// The questions about a network: small batches, large batches and the dependence on the batch size; for the paper's
/// network, how fast it learns.
fn findings(runs: &[Ran], network: Network) -> Vec<Finding> {
    let (id, title, sizes) = (network.id(), network.title(), sizes(runs, network));
    let layer_batch = "layer norm − batch norm";
    let at = |norm, size| of(runs, network, norm, size);
    let mut findings = Vec::new();
    if network == Network::Paper {
        for size in sizes {
            let text = format!(
                "{title} with batches of {size}: layer norm has a lower mean validation loss during training than batch norm"
            );
            let pair = mean_losses(layer_batch, &at(Norm::Layer, size), &at(Norm::Batch, size));
            let reason = fewer(&at(Norm::Layer, size));
            findings.extend(Claim::new(format!("{id}-{size}"), text).source("C20").reason(reason).lower(pair));
        }
        return findings;
    }
    let expects_batch_norm = |size| network == Network::Cnn && size >= USUAL_BATCH;
    for &size in sizes.iter().filter(|&&size| !expects_batch_norm(size)) {
        let text = format!("{title} with batches of {size}: layer norm has a lower validation error than batch norm");
        let pair = pair_of_errors(layer_batch, &at(Norm::Layer, size), &at(Norm::Batch, size));
        let reason = if size >= USUAL_BATCH { ACCURATE } else { RATE };
        findings.extend(Claim::new(format!("{id}-{size}"), text).source("C3").reason(reason).lower(pair));
    }
    for &size in sizes.iter().filter(|&&size| expects_batch_norm(size)) {
        let text = format!("{title} with batches of {size}: batch norm has a lower validation error than layer norm");
        let pair = pair_of_errors("batch norm − layer norm", &at(Norm::Batch, size), &at(Norm::Layer, size));
        let reason = "The sources' claim (section 6.7 of the paper) is about large CNNs that train for a long time; this one \
                      is small and trains for few steps.";
        findings.extend(Claim::new(format!("{id}-{size}"), text).source("C3").reason(reason).lower(pair));
    }
    for &size in sizes.iter().filter(|&&size| size <= SMALL_BATCH) {
        let text = format!("{title} with batches of {size}: group norm has a lower validation error than batch norm");
        let pair = pair_of_errors("group norm − batch norm", &at(Norm::Group, size), &at(Norm::Batch, size));
        findings.extend(Claim::new(format!("{id}-group-{size}"), text).source("C3").reason(RATE).lower(pair));
    }
    findings.extend(sizes.iter().filter_map(|&size| best::finding(runs, network, size)));
    // The MLP was the only network once, and its questions keep their names.
    let named = |name: &str| if network == Network::Mlp { name.to_owned() } else { format!("{id}-{name}") };
    if let (Some(&least), Some(&largest)) = (sizes.first(), sizes.last())
        && least < largest
    {
        let text = format!("{title} with batches of {least}: layer norm has a lower validation error than no norm");
        let pair = pair_of_errors("layer norm − no norm", &at(Norm::Layer, least), &at(Norm::None, least));
        let reason = "A possible reason, not tested: at this learning rate, single images change a network with layer norm \
                      more than one without.";
        findings.extend(Claim::new(named("smallest-none"), text).source("C3").reason(reason).lower(pair));
        let text = format!(
            "{title}: from batches of {largest} to batches of {least}, the validation error rises less with layer norm \
             than with batch norm"
        );
        let pair = rises(runs, network, [least, largest]);
        findings.extend(Claim::new(named("dependence"), text).source("C3").reason(RATE).lower(pair));
    }
    findings
}

/// How much the error rises from the largest to the smallest batches.
fn rises(runs: &[Ran], network: Network, [least, largest]: [usize; 2]) -> Pair {
    let rise = |norm| {
        let error = |ran: &Ran| Some(100.0 * ran.trained.error()?);
        let of_size = |size| by_seed(&of(runs, network, norm, size), error);
        combined(&[least, largest].map(of_size), |both| both[0] - both[1])
    };
    let images = of(runs, network, Norm::Layer, least).first().map(|ran| ran.trained.spec.validation);
    let what = "rise of the validation error, layer norm − batch norm".to_owned();
    // Each rise is a difference of two rounded errors.
    let step = SQRT_2 * one_image(images);
    Pair { what, unit: POINTS, step, ours: rise(Norm::Layer), other: rise(Norm::Batch) }
}
