//! Every norm at its own best learning rate.

use super::super::{COMMON, OTHERS, case};
use super::{Group, against_favourite};
use crate::models::Norm;
use crate::report::{Chart, Finding, Picture, Tile, Tone};
use crate::studies::findings::{Claim, Pair, by_seed, errors, mean_loss, mean_losses};
use crate::studies::tools::{self, chart as with_title, short};
use crate::studies::trained::{Ran, Spread, of_case, words};

/// A norm's runs at every rate.
pub(super) type Grid<'a> = Vec<(f64, Vec<&'a Ran>)>;

/// The rates of the grid, in increasing order.
fn rates() -> Vec<f64> {
    tools::ascending(OTHERS.into_iter().chain([COMMON]))
}

/// The rates of the grid in words.
pub(super) fn listed() -> String {
    tools::listed(&rates())
}

/// A norm's runs at every rate; `None` if there are none at some rate.
pub(super) fn grid<'a>(runs: &'a [Ran], id: &str, norm: Norm) -> Option<Grid<'a>> {
    let all: Vec<_> = rates().into_iter().map(|rate| (rate, of_case(runs, &case(id, norm, rate)))).collect();
    all.iter().all(|(_, runs)| !runs.is_empty()).then_some(all)
}

/// The mean over seeds of the mean validation loss during training.
fn loss(runs: &[&Ran]) -> Option<f64> {
    Some(Spread::of(runs.iter().map(|ran| mean_loss(ran)))?.mean)
}

/// The best rate of a norm, with its runs; `None` if a run is missing.
fn best<'a, 'b>(group: &'b Group<'a>, norm: Norm) -> Option<(f64, &'b [&'a Ran])> {
    let (_, rates) = group.tuned.iter().find(|(of, _)| *of == norm)?;
    let losses = rates.iter().map(|(rate, runs)| Some((loss(runs)?, *rate, &runs[..]))).collect::<Option<Vec<_>>>()?;
    let (_, rate, runs) = losses.into_iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
    Some((rate, runs))
}

/// A note about best rates at an end of the grid.
pub(super) fn at_an_end(groups: &[Group<'_>]) -> Option<String> {
    let of = |group: &Group<'_>, norm: Norm| {
        best(group, norm).map(|(rate, _)| (format!("{}, {}", group.title, words(norm)), rate))
    };
    let all = groups.iter().flat_map(|group| group.tuned.iter().filter_map(move |(norm, _)| of(group, *norm)));
    tools::at_an_end(all, &rates())
}

/// The loss of every network and norm at every rate; `None` if no norm was trained at all of them.
pub(super) fn chart(groups: &[Group<'_>]) -> Option<Chart> {
    let mut names = Vec::new();
    let mut cells = Vec::new();
    for group in groups {
        for (norm, rates) in &group.tuned {
            names.push(format!("{}, {}", group.title, words(*norm)));
            let lowest = best(group, *norm).map(|(rate, _)| rate);
            cells.push(rates.iter().map(|(rate, runs)| tile(runs, lowest == Some(*rate))).collect());
        }
    }
    let picture = Picture::Grid {
        rows: names,
        columns: rates().into_iter().map(short).collect(),
        cells,
        scale: "mean validation loss during training".to_owned(),
        tones: ["best rate of the norm", ""],
    };
    let see = "Each row is a network with a norm, each column a learning rate (Adam). Compare the blue cells of a \
               network: each norm at its best rate.";
    let any = groups.iter().any(|group| !group.tuned.is_empty());
    any.then(|| with_title("rates", "Every norm at its best learning rate", see, picture))
}

fn tile(runs: &[&Ran], best: bool) -> Tile {
    let spread = Spread::of(runs.iter().map(|ran| mean_loss(ran)));
    let text = spread.map_or("–".to_owned(), |spread| short(spread.mean));
    let hint = spread.map(|spread| format!("{} to {} over {} seeds", short(spread.lo), short(spread.hi), spread.count));
    Tile { value: spread.map(|spread| spread.mean), text, tone: if best { Tone::Good } else { Tone::None }, hint }
}

/// The questions about layer norm and no norm, each at its best rate. If that is the common rate for both, only the number
/// of steps is asked: the other differences are those of the questions at the common rate.
pub(super) fn findings(group: &Group<'_>) -> Vec<Finding> {
    let (Some((layer_rate, layer)), Some((none_rate, none))) = (best(group, Norm::Layer), best(group, Norm::None))
    else {
        return Vec::new();
    };
    let Group { id, title, goal, .. } = group;
    let change = format!("layer norm at {} − no norm at {}", short(layer_rate), short(none_rate));
    let claim = |name: &str, text: String| {
        Claim::new(format!("{id}-best-{name}"), format!("{title}, each at its best rate: {text}"))
            .source("C1")
            .reason(group.why_not())
    };
    let steps = Pair {
        what: format!("steps to a validation loss of {goal}, {change}"),
        unit: "steps",
        step: layer.iter().map(|ran| spacing(ran)).fold(0.0, f64::max),
        ours: by_seed(layer, |ran| steps_to(ran, *goal)),
        other: by_seed(none, |ran| steps_to(ran, *goal)),
    };
    let faster = claim("faster", "layer norm lowers the mean validation loss during training".to_owned());
    let sooner = claim("sooner", format!("layer norm reaches a validation loss of {goal} in fewer steps"));
    let better = claim("better", "layer norm lowers the final validation error".to_owned());
    let mut claims = vec![sooner.lower(steps)];
    if layer_rate != COMMON || none_rate != COMMON {
        claims.push(faster.lower(mean_losses(&change, layer, none)));
        claims.push(better.lower(errors(&change, layer, none)));
    }
    claims.into_iter().flatten().collect()
}

/// Steps between two evaluations: how exactly the step is known at which a loss is reached.
fn spacing(ran: &Ran) -> f64 {
    let spec = &ran.trained.spec;
    spec.steps as f64 / spec.evaluations.max(1) as f64
}

/// The question about layer norm and batch norm, each at its best rate: the sources expect layer norm to win in recurrent
/// networks and batch norm in the others.
pub(super) fn batch_norm(group: &Group<'_>) -> Option<Finding> {
    let [winner, loser] = group.favourite_first();
    let ((ours_rate, ours), (other_rate, other)) = (best(group, winner)?, best(group, loser)?);
    let [winner, loser] = [winner, loser].map(words);
    let change = format!("{winner} at {} − {loser} at {}", short(ours_rate), short(other_rate));
    let text = format!(
        "{}, each at its best rate: {winner} has a lower mean validation loss during training than {loser}",
        group.title
    );
    let claim = Claim::new(format!("{}-best-batch-norm", group.id), text).source("C1").reason(against_favourite(group));
    let other_runs = ours_rate != COMMON || other_rate != COMMON;
    other_runs.then(|| claim.lower(mean_losses(change, ours, other)))?
}

/// The step at which the validation loss first reaches `goal`, interpolated between evaluations. If it never does, the
/// length of the run. `None` if the run is not finished.
pub(super) fn steps_to(ran: &Ran, goal: f64) -> Option<f64> {
    let trained = &ran.trained;
    let points: Vec<(f64, f64)> =
        trained.evaluations.iter().filter_map(|seen| Some((seen.step as f64, seen.loss?))).collect();
    let crossing = points.windows(2).find_map(|pair| {
        let [(early, above), (late, below)] = [pair[0], pair[1]];
        (above > goal && below <= goal).then(|| early + (late - early) * (above - goal) / (above - below))
    });
    let finished = trained.diverged.is_some() || trained.last().is_some_and(|last| last.step == trained.spec.steps);
    crossing.or(finished.then_some(trained.spec.steps as f64))
}
