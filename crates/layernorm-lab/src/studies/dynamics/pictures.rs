//! The story of hidden-state dynamics.

use super::measures::{Network, mean, saturated, spreads, variation};
use super::{HiddenDynamics, entries};
use crate::models::Norm;
use crate::records::Record;
use crate::report::{Axis, Cell, Chart, Frame, Picture, Story, Table};
use crate::studies::Study;
use crate::studies::probed::{Moment, Probed};
use crate::studies::tools::{axis, categories, chart, story as blank, to_digits};
use crate::studies::trained::{Ran, Spread, bars, cells, error, in_percent, words};
use crate::training::events::{Dynamics, GateDynamics};

pub(super) fn story(study: &HiddenDynamics, runs: &[Ran], records: &[Record]) -> Story {
    let mut story = blank(study.name(), "Dynamics of hidden states", study.question(), records);
    story.expectation =
        "In a standard RNN, the summed inputs of the units tend to grow or shrink at every time step. Layer norm is \
         invariant to their scale, which makes the hidden-to-hidden dynamics much more stable (Ba, Kiros and Hinton, \
         2016, section 3.1). With layer norm, ‖h‖ and the spread of the pre-activations should vary less over the time \
         steps and change less in training, and fewer gates should be saturated."
            .to_owned();
    let networks: Vec<Network<'_>> = entries(true).into_iter().filter_map(|entry| Network::of(entry, runs)).collect();
    if networks.is_empty() {
        return story;
    }
    story.charts = charts(&networks);
    story.numbers = Some(table(&networks));
    story.answer = answer(&networks);
    story.findings = networks.iter().flat_map(Network::findings).collect();
    story.notes = vec![
        "States are those of up to 128 validation images, in training mode: batch norm uses their statistics.".to_owned(),
        "The pixels of all images are permuted in the same way, so that every row has the same kind of content; in an \
         original image the first rows are blank."
            .to_owned(),
        "A gate is saturated if its sigmoid is below 0.05 or above 0.95 (|a| > 2.94), or if the absolute value of its \
         tanh is above 0.95 (|a| > 1.83)."
            .to_owned(),
        "γ of the norms starts at 1, for batch norm in an LSTM at 0.1, as published (Cooijmans et al., 2016). The bias \
         of the LSTM's forget gate starts at 1 more."
            .to_owned(),
    ];
    story
}

/// A value of each time step.
type Profile = fn(&Dynamics) -> Vec<Option<f64>>;

/// A quantity that is drawn over the time steps.
struct Quantity {
    id: &'static str,
    title: &'static str,
    label: &'static str,
    see: &'static str,
    /// The profiles drawn for each norm, with the end of their names.
    profiles: &'static [(&'static str, Profile)],
}

const HIDDEN: Quantity = Quantity {
    id: "hidden",
    title: "norm of the hidden state",
    label: "mean ‖h‖",
    see: "A flat profile means that the hidden state keeps its size over time. Play the animation to see what training \
          changes.",
    profiles: &[("", |seen| seen.hidden.clone())],
};
const SPREAD: Quantity = Quantity {
    id: "spread",
    title: "spread of the pre-activations",
    label: "standard deviation of a",
    see: "A flat profile means that the gates see inputs of the same size at every time step; a profile that stays in \
          place during training means that training does not change it.",
    profiles: &[("", spreads)],
};
const CELL: Quantity = Quantity {
    id: "cell",
    title: "cell state c",
    label: "c: mean and standard deviation",
    see: "Each norm has two curves: the spread of c over images and units, and its mean, which stays near 0. c sums over \
          time, so its spread can grow. Layer norm and batch norm leave c itself as it is and normalize it for the output.",
    profiles: &[
        (", spread", |seen| seen.cell.iter().map(|c| c[1]).collect()),
        (", mean", |seen| seen.cell.iter().map(|c| c[0]).collect()),
    ],
};
const SATURATED: Quantity = Quantity {
    id: "saturated",
    title: "saturated gates",
    label: "saturated pre-activations",
    see: "The gradient hardly passes through a saturated gate. The lower the curve, the more gates can still learn.",
    profiles: &[("", |seen| saturated(seen).into_iter().map(|share| share.map(|share| 100.0 * share)).collect())],
};

const MEAN: Quantity = Quantity {
    id: "mean",
    title: "mean pre-activation",
    label: "mean of a",
    see: "Mean over images and units. A mean far from 0 saturates many units of the gate; a profile that is not flat means \
          that the gate's inputs drift over the time steps. The bias of the forget gate starts at 1 more.",
    profiles: &[],
};
/// The mean of each gate.
const MEANS: [&[(&str, Profile)]; 4] =
    [&[("", gate_mean::<0>)], &[("", gate_mean::<1>)], &[("", gate_mean::<2>)], &[("", gate_mean::<3>)]];

fn gate_mean<const GATE: usize>(seen: &Dynamics) -> Vec<Option<f64>> {
    seen.gates.get(GATE).map_or(Vec::new(), |gate| gate.mean.clone())
}

fn charts(networks: &[Network<'_>]) -> Vec<Chart> {
    let groups = [("lstm", "LSTM"), ("rnn", "RNN")];
    let mut charts = Vec::new();
    for (id, title) in groups {
        let of: Vec<&Network<'_>> = networks.iter().filter(|network| network.entry.id.starts_with(id)).collect();
        let quantities = [HIDDEN, SPREAD, CELL, SATURATED].into_iter();
        charts.extend(quantities.filter_map(|quantity| animation(&quantity, id, title, &of)));
        charts.extend(means(id, title, &of));
    }
    charts.extend(gates(networks));
    charts
}

/// The mean pre-activation of each gate.
fn means(id: &str, title: &str, networks: &[&Network<'_>]) -> Vec<Chart> {
    let first = networks.iter().flat_map(|network| &network.norms).flat_map(Probed::all).next();
    let single = first.is_some_and(|seen| seen.gates.len() == 1);
    let gates = first.map_or(&[][..], |seen| seen.gates.as_slice()).iter().zip(MEANS);
    let of = |(gate, profiles): (&GateDynamics, _)| {
        let quantity = Quantity { profiles, ..MEAN };
        let title = if single { title.to_owned() } else { format!("{title}, {}", gate.gate) };
        animation(&quantity, &format!("{id}-{}", gate.gate), &title, networks)
    };
    gates.filter_map(of).collect()
}

/// The profiles of a quantity during training; `None` if the networks do not have it.
fn animation(quantity: &Quantity, id: &str, title: &str, networks: &[&Network<'_>]) -> Option<Chart> {
    let norms: Vec<(&Network<'_>, &Probed<'_, Dynamics>)> =
        networks.iter().flat_map(|network| network.norms.iter().map(move |probed| (*network, probed))).collect();
    let all = || norms.iter().flat_map(|(_, probed)| probed.all());
    let profiles = || quantity.profiles.iter();
    let places = all().flat_map(|seen| profiles().map(|(_, of)| of(seen).len())).max().filter(|&places| places > 0)?;
    let mut steps: Vec<usize> = all().map(|seen| seen.step).collect();
    steps.sort_unstable();
    steps.dedup();
    let at = |probed: &Probed<'_, Dynamics>, of: &Profile, step: usize| -> Vec<Option<f64>> {
        let seen = |run: &Vec<Dynamics>| run.iter().find(|seen| seen.step == step).map(of);
        let runs: Vec<Option<Vec<Option<f64>>>> = probed.seen.iter().map(seen).collect();
        let mean = |place: usize| {
            let values = runs.iter().map(|run| run.as_ref()?.get(place).copied()?);
            format!("{:.3e}", Spread::of(values)?.mean).parse().ok()
        };
        (0..places).map(mean).collect()
    };
    let frame = |&step: &usize| Frame {
        label: format!("step {step}"),
        values: norms.iter().flat_map(|(_, probed)| profiles().map(|(_, of)| at(probed, of, step))).collect(),
    };
    let name = |network: &Network<'_>, probed: &Probed<'_, Dynamics>| match network.entry.weight_scale {
        1.0 => words(probed.norm).to_owned(),
        scale => format!("weights × {scale}, {}", words(probed.norm)),
    };
    let series = norms.iter().flat_map(|(network, probed)| {
        let name = name(network, probed);
        profiles().map(move |(end, _)| format!("{name}{end}"))
    });
    let unit = (quantity.id == "saturated").then(|| "%".to_owned());
    let low = (!["cell", "mean"].contains(&quantity.id)).then_some(0.0);
    let picture = Picture::Frames {
        x: categories("time step (row of the permuted image)", (1..=places).map(|place| place.to_string())),
        y: Axis { unit, low, ..axis(quantity.label) },
        series: series.collect(),
        frames: steps.iter().map(frame).collect(),
    };
    Some(chart(&format!("{}-{id}", quantity.id), &format!("{title}: {}", quantity.title), quantity.see, picture))
}

/// Saturation of each gate of the LSTM, at the start and after training.
fn gates(networks: &[Network<'_>]) -> Option<Chart> {
    let network = networks.iter().find(|network| network.entry.id == "lstm")?;
    let first = network.norms.iter().flat_map(Probed::all).next()?;
    let names: Vec<String> = first.gates.iter().map(|gate| gate.gate.clone()).collect();
    let columns: Vec<(usize, Moment)> =
        (0..names.len()).flat_map(|gate| Moment::BOTH.map(|moment| (gate, moment))).collect();
    let share = |norm: Norm, (gate, moment): &(usize, Moment)| {
        network.spread(norm, *moment, |seen| Some(100.0 * mean(&seen.gates.get(*gate)?.saturated)?))
    };
    let of = |probed: &Probed<'_, Dynamics>| {
        let shares: Vec<Option<Spread>> = columns.iter().map(|column| share(probed.norm, column)).collect();
        bars(words(probed.norm), &shares)
    };
    let name = |(gate, moment): &(usize, Moment)| {
        format!("{}, {}", names[*gate], if *moment == Moment::Start { "start" } else { "end" })
    };
    let picture = Picture::Bars {
        x: categories("gate, at the start or end of training", columns.iter().map(name)),
        y: Axis { unit: Some("%".to_owned()), low: Some(0.0), ..axis("saturated pre-activations") },
        series: network.norms.iter().map(of).collect(),
    };
    let see = "Share of saturated units of each gate, as a mean over images and time steps. Whiskers show the range over \
               seeds.";
    Some(chart("gates", "LSTM: saturation by gate", see, picture))
}

/// A number with its name.
type Told = (&'static str, fn(&Dynamics) -> Option<f64>);

/// What the table and the answer tell of a network.
const TOLD: [Told; 4] = [
    ("variation of ‖h‖, %", |seen| Some(100.0 * variation(&seen.hidden)?)),
    ("spread of a", |seen| mean(&spreads(seen))),
    ("variation of the spread of a, %", |seen| Some(100.0 * variation(&spreads(seen))?)),
    ("saturated, %", |seen| Some(100.0 * mean(&saturated(seen))?)),
];

fn table(networks: &[Network<'_>]) -> Table {
    let mut columns: Vec<String> = ["network", "norm", "seeds"].map(str::to_owned).to_vec();
    for (what, _) in TOLD {
        for when in ["at the start", "after training"] {
            columns.extend([format!("{what}, {when}"), "min.".to_owned(), "max.".to_owned()]);
        }
    }
    columns.push("validation error, %".to_owned());
    let mut rows = Vec::new();
    for network in networks {
        for Probed { norm, runs, .. } in &network.norms {
            let mut row: Vec<Cell> = vec![network.entry.title.into(), words(*norm).into(), (runs.len() as f64).into()];
            for (_, of) in TOLD {
                row.extend(Moment::BOTH.iter().flat_map(|moment| cells(network.spread(*norm, *moment, of))));
            }
            row.push(in_percent(error(runs)).map(|error| error.mean).into());
            rows.push(row);
        }
    }
    let notes = vec![
        "Variation: standard deviation over the time steps, relative to the mean. Spread of a: standard deviation of \
         the pre-activations over images and units, mean over the time steps."
            .to_owned(),
    ];
    Table { columns, rows, notes }
}

fn answer(networks: &[Network<'_>]) -> String {
    let mut sentences = Vec::new();
    for network in networks {
        let of = |norm, (_, value): Told| Some(to_digits(network.spread(norm, Moment::End, value)?.mean, 1));
        let both = |told| Some(format!("{} % and {} %", of(Norm::None, told)?, of(Norm::Layer, told)?));
        let (Some(hidden), Some(gates), Some(saturated)) = (both(TOLD[0]), both(TOLD[2]), both(TOLD[3])) else {
            continue;
        };
        sentences.push(format!(
            "{}: ‖h‖ varies by {hidden} over the time steps, the spread of the pre-activations by {gates}, and \
             {saturated} of the gates are saturated",
            network.entry.title
        ));
    }
    if sentences.is_empty() {
        return "Some runs with layer norm or without a norm have not finished yet.".to_owned();
    }
    format!("After training, without a norm and with layer norm, respectively. {}.", sentences.join("; "))
}
