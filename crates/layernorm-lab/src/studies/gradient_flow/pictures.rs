//! The story of backpropagated gradients.

use super::flow::{Flow, mean, powers};
use super::{CHARTS, GradientFlow, LAYERS, entries};
use crate::models::Norm;
use crate::records::Record;
use crate::report::{Axis, Cell, Chart, Frame, Picture, Story, Table};
use crate::studies::Study;
use crate::studies::probed::{Moment, Probed};
use crate::studies::tools::{axis, categories, chart, log_axis, story as blank};
use crate::studies::trained::{Ran, Spread, bars, cells, error, in_percent, words};
use crate::training::events::Gradients;

/// Maximum number of positions drawn in a profile: of 784 time steps, every seventh.
const PLACES: usize = 112;

pub(super) fn story(study: &GradientFlow, runs: &[Ran], records: &[Record]) -> Story {
    let mut story = blank(study.name(), "Vanishing and exploding gradients", study.question(), records);
    story.expectation =
        "Without a norm, the gradient shrinks (or grows) by about the same factor in every layer and time step: with \
         too small weights it vanishes, and with too large ones it explodes. Layer norm keeps the scale of the summed inputs, and thus this factor, close to 1 (Ba, Kiros and Hinton, 2016, \
         section 3). At the start, when all networks have the same weights, the gradient should decay less with layer \
         norm."
            .to_owned();
    let flows: Vec<Flow<'_>> = entries(true).into_iter().filter_map(|entry| Flow::of(entry, runs)).collect();
    if flows.is_empty() {
        return story;
    }
    story.charts = CHARTS.into_iter().filter_map(|(id, title)| animation(id, title, &flows)).collect();
    story.charts.extend(overviews(&flows));
    story.numbers = Some(table(&flows));
    story.answer = answer(&flows);
    story.findings = flows.iter().flat_map(Flow::findings).collect();
    story.notes = vec![
        "Gradients are computed on one batch of up to 128 validation images, in training mode; measuring them does not \
         affect training."
            .to_owned(),
        "Each profile is the geometric mean over seeds. For each seed, all networks start from the same weights."
            .to_owned(),
        format!(
            "The layers of an MLP differ in size: the first has all pixels as input, and there are 10 logits. Its \
             decay is therefore measured between layers 2 and {LAYERS}; the table also has the ratio of the first \
             layer to the last."
        ),
        "Training is short; the table has its steps and the final validation error. Networks with an error near 90 % have \
         hardly learned anything by then."
            .to_owned(),
        "Batch norm and RMS norm run step by step in recurrent networks, which is slow; the RNN, the GRU and the \
         networks over 196 pixels are therefore compared without a norm and with layer norm."
            .to_owned(),
    ];
    if runs.iter().any(|ran| ran.trained.spec.images.permuted) {
        story.notes.push(
            "Recurrent networks read the pixels in a random order, the same for all images. In their own order, the first pixels \
             are blank in all images; batch norm would divide by a standard deviation near 0 there, and its gradients \
             would grow or overflow."
                .to_owned(),
        );
    }
    let any =
        |norm| flows.iter().flat_map(|flow| &flow.norms).flat_map(Probed::all).any(|seen| seen.norms.contains(&norm));
    if any(Some(0.0)) {
        story.notes.push(
            "Some gradients underflow f32 to 0: they count as 10⁻⁴⁵, the smallest positive number, and are not drawn."
                .to_owned(),
        );
    }
    if any(None) {
        story.notes.push("Some gradients overflow f32; they are not drawn.".to_owned());
    }
    story
}

/// The profiles of the networks of a chart during training; `None` if there are no events.
fn animation(id: &str, title: &str, flows: &[Flow<'_>]) -> Option<Chart> {
    let flows: Vec<&Flow<'_>> = flows.iter().filter(|flow| flow.entry.chart == id).collect();
    let entry = &flows.first()?.entry;
    let norms: Vec<(&Flow<'_>, &Probed<'_, Gradients>)> =
        flows.iter().flat_map(|flow| flow.norms.iter().map(move |probed| (*flow, probed))).collect();
    let all = || norms.iter().flat_map(|(_, probed)| probed.all());
    let places = &all().max_by_key(|seen| seen.places.len())?.places;
    let every = places.len().div_ceil(PLACES).max(1);
    // The last position is always kept.
    let kept: Vec<usize> = (0..places.len()).filter(|place| (places.len() - 1 - place).is_multiple_of(every)).collect();
    let mut steps: Vec<usize> = all().map(|seen| seen.step).collect();
    steps.sort_unstable();
    steps.dedup();
    let profile = |of: &Probed<'_, Gradients>, step: usize| {
        kept.iter().map(|&place| mean(&of.seen, step, place)).collect::<Vec<_>>()
    };
    let frame = |&step: &usize| Frame {
        label: format!("step {step}"),
        values: norms.iter().map(|(_, of)| profile(of, step)).collect(),
    };
    let name = |(flow, probed): &(&Flow<'_>, &Probed<'_, Gradients>)| match flows.len() {
        1 => words(probed.norm).to_owned(),
        _ => format!("{}, {}", flow.entry.arch.name(), words(probed.norm)),
    };
    let length = if entry.through_time() { "‖∂L/∂h‖ of the time step" } else { "‖∂L/∂W‖ of the layer" };
    let names = kept.iter().map(|&place| places[place].trim_start_matches("layer "));
    let picture = Picture::Frames {
        x: categories(entry.places(), names),
        y: log_axis(length),
        series: norms.iter().map(name).collect(),
        frames: steps.iter().map(frame).collect(),
    };
    let sentence = |flow: &&Flow<'_>| match flows.len() {
        1 => flow.sentence(),
        _ => format!("{}. {}", flow.entry.title, flow.sentence()),
    };
    let see = format!(
        "With a flat profile, the gradient reaches all positions; if the profile rises to the right, the gradient \
         vanishes towards the input, and if it falls, the gradient explodes. {}",
        flows.iter().map(sentence).collect::<Vec<_>>().join(" ")
    );
    Some(chart(&format!("flow-{id}"), &format!("{title}: gradients"), see, picture))
}

/// The decay in deep networks and in recurrent ones.
fn overviews(flows: &[Flow<'_>]) -> Vec<Chart> {
    let of = |through_time| flows.iter().filter(|flow| flow.entry.through_time() == through_time).collect::<Vec<_>>();
    let layers = ("falls", "Decay of the gradient through the layers of a deep MLP");
    let time = ("falls-time", "Decay of the gradient through time");
    let both = [(layers, of(false)), (time, of(true))];
    both.into_iter().filter(|(_, flows)| !flows.is_empty()).map(|(names, flows)| overview(names, &flows)).collect()
}

fn overview((id, title): (&str, &str), flows: &[&Flow<'_>]) -> Chart {
    let columns: Vec<(&Flow<'_>, Moment)> =
        flows.iter().flat_map(|flow| Moment::BOTH.map(|moment| (*flow, moment))).collect();
    let norms =
        Norm::ALL.into_iter().filter(|norm| flows.iter().any(|flow| flow.norms.iter().any(|of| of.norm == *norm)));
    let series = norms
        .map(|norm| {
            let falls: Vec<Option<Spread>> = columns.iter().map(|(flow, moment)| flow.fall(norm, *moment)).collect();
            bars(words(norm), &falls)
        })
        .collect();
    let name = |(flow, moment): &(&Flow<'_>, Moment)| {
        let when = if *moment == Moment::Start { "start" } else { "end" };
        format!("{}, {when}", flow.entry.label)
    };
    let x = categories("network, at the start or after the last step", columns.iter().map(name));
    let y = Axis { unit: Some("powers of ten".to_owned()), ..axis("decay of the gradient") };
    let see = "The closer to 0, the better the gradient is preserved through the layers or time steps; a negative \
               decay means that it grows. Whiskers show the range over seeds.";
    chart(id, title, see, Picture::Bars { x, y, series })
}

fn table(flows: &[Flow<'_>]) -> Table {
    let mut rows = Vec::new();
    for flow in flows {
        for Probed { norm, runs, .. } in &flow.norms {
            let mut row: Vec<Cell> = vec![flow.entry.title.into(), words(*norm).into(), (runs.len() as f64).into()];
            row.extend(cells(flow.fall(*norm, Moment::Start)));
            row.extend(cells(flow.fall(*norm, Moment::End)));
            row.extend(Moment::BOTH.map(|moment| Cell::from(flow.ratio(*norm, moment))));
            row.push((flow.steps() as f64).into());
            row.push(in_percent(error(runs)).map(|error| error.mean).into());
            rows.push(row);
        }
    }
    let columns = [
        "network",
        "norm",
        "seeds",
        "decay at the start, powers of ten",
        "min.",
        "max.",
        "decay at the end, powers of ten",
        "min.",
        "max.",
        "first/last layer or step at the start",
        "at the end",
        "training steps",
        "validation error, %",
    ];
    let notes = vec![
        "With a decay of 3, the gradient shrinks to a thousandth. A negative decay means that it grows.".to_owned(),
    ];
    Table { columns: columns.map(str::to_owned).to_vec(), rows, notes }
}

/// The networks of the answer: deep and recurrent, with weights that are too small and too large.
const TOLD: [&str; 4] = ["relu", "small", "large", "lstm-halved"];

fn answer(flows: &[Flow<'_>]) -> String {
    let told = |flow: &Flow<'_>| {
        let [none, layer] = [Norm::None, Norm::Layer].map(|norm| flow.fall(norm, Moment::Start));
        let title = flow.entry.title;
        Some(format!("{title}: {} without a norm and {} with layer norm", powers(none?.mean), powers(layer?.mean)))
    };
    let sentences = flows.iter().filter(|flow| TOLD.contains(&flow.entry.id)).filter_map(told).collect::<Vec<_>>();
    if sentences.is_empty() {
        return "Some runs with layer norm or without a norm have not finished yet.".to_owned();
    }
    format!(
        "Powers of ten by which the gradient decays towards the input, at the start of training (negative if it grows). \
         {}.",
        sentences.join("; ")
    )
}
