//! Every norm at its own best learning rate, at the batch sizes with runs at all rates of the grid.

use super::super::{COMMON, NORMS, Network, OTHER_RATES, TUNED_SIZES, case, case_at};
use crate::models::Norm;
use crate::report::{Chart, Finding, Picture, Tile, Tone};
use crate::studies::findings::{BySeed, Claim, POINTS, Pair, by_seed, one_image};
use crate::studies::tools::{self, chart as with_title, short};
use crate::studies::trained::{Ran, of_case, words};

/// The rates of the grid, in increasing order.
fn rates() -> Vec<f64> {
    tools::ascending(OTHER_RATES.into_iter().chain([COMMON]))
}

/// The rates of the grid in words.
pub(super) fn listed() -> String {
    tools::listed(&rates())
}

/// Validation errors in percent by seed, at one rate.
struct At {
    rate: f64,
    errors: BySeed,
    /// Mean over the seeds that have a result at every rate.
    mean: f64,
}

/// The errors of a norm at every rate; `None` if no seed has runs at all of them.
fn grid(runs: &[Ran], network: Network, norm: Norm, size: usize) -> Option<Vec<At>> {
    let errors = |rate: f64| {
        let case = if rate == COMMON { case(network, norm, size) } else { case_at(network, norm, size, rate) };
        by_seed(&of_case(runs, &case), |ran| Some(100.0 * ran.trained.error()?))
    };
    let all: Vec<(f64, BySeed)> = rates().into_iter().map(|rate| (rate, errors(rate))).collect();
    let complete = |seed: &&u64| all.iter().all(|(_, errors)| errors.contains_key(*seed));
    let seeds: Vec<u64> = all.first()?.1.keys().filter(complete).copied().collect();
    let mean = |errors: &BySeed| seeds.iter().map(|seed| errors[seed]).sum::<f64>() / seeds.len() as f64;
    let at = |(rate, errors): (f64, BySeed)| At { rate, mean: mean(&errors), errors };
    (!seeds.is_empty()).then(|| all.into_iter().map(at).collect())
}

fn best(grid: Vec<At>) -> Option<At> {
    grid.into_iter().min_by(|a, b| a.mean.total_cmp(&b.mean))
}

/// The error at every batch size, norm and rate; `None` if there are no such runs.
pub(super) fn chart(runs: &[Ran]) -> Option<Chart> {
    let (mut names, mut cells) = (Vec::new(), Vec::new());
    for size in TUNED_SIZES {
        for norm in NORMS {
            let Some(grid) = grid(runs, Network::Mlp, norm, size) else { continue };
            let lowest = grid.iter().map(|at| at.mean).fold(f64::INFINITY, f64::min);
            let tile = |at: &At| Tile {
                value: Some(at.mean),
                text: short(at.mean),
                tone: if at.mean == lowest { Tone::Good } else { Tone::None },
                hint: None,
            };
            names.push(format!("batches of {size}, {}", words(norm)));
            cells.push(grid.iter().map(tile).collect());
        }
    }
    let any = !names.is_empty();
    let picture = Picture::Grid {
        rows: names,
        columns: rates().into_iter().map(short).collect(),
        cells,
        scale: "validation error in percent, mean over seeds".to_owned(),
        tones: ["best rate of the norm", ""],
    };
    let see = "Each row is a norm at a batch size, each column a learning rate (Adam). Compare the blue cells of a batch size: \
               each norm at its best rate.";
    any.then(|| with_title("rates", "MLP: every norm at its best learning rate", see, picture))
}

/// The question about layer norm and batch norm, each at its best rate; `None` if that is the common one for both, because
/// this is asked anyway.
pub(super) fn finding(runs: &[Ran], network: Network, size: usize) -> Option<Finding> {
    let of = |norm| best(grid(runs, network, norm, size)?);
    let (layer, batch) = (of(Norm::Layer)?, of(Norm::Batch)?);
    if layer.rate == COMMON && batch.rate == COMMON {
        return None;
    }
    let title = network.title();
    let text = format!(
        "{title} with batches of {size}, each at its best rate: layer norm has a lower validation error than batch norm"
    );
    let images = of_case(runs, &case(network, Norm::Layer, size)).first().map(|ran| ran.trained.spec.validation);
    let pair = Pair {
        what: format!("validation error, layer norm at {} − batch norm at {}", short(layer.rate), short(batch.rate)),
        unit: POINTS,
        step: one_image(images),
        ours: layer.errors,
        other: batch.errors,
    };
    let reason = if size <= super::SMALL_BATCH { RATE_OF_BOTH } else { super::ACCURATE };
    Claim::new(format!("{}-best-{size}", network.id()), text).source("C3").reason(reason).lower(pair)
}

/// Why small batches may not favour layer norm even at the best rates.
const RATE_OF_BOTH: &str =
    "Each norm has its own learning rate here, so the rate is not the reason; what is, was not tested.";
