//! The story of the induced shift.

use super::{InducedShift, RATES};
use crate::models::Norm;
use crate::records::Record;
use crate::report::{Axis, Cell, Chart, Finding, Frame, Picture, Story, Table};
use crate::studies::Study;
use crate::studies::findings::{BySeed, Claim, Pair, collect, combined};
use crate::studies::probed::{Probed, probed};
use crate::studies::tools::{axis, capitalized, categories, chart, log_axis, short, story as blank};
use crate::studies::trained::{Ran, Spread, bars, cells, error, in_percent, with, words};
use crate::training::events::Shift;

pub(super) fn story(study: &InducedShift, runs: &[Ran], records: &[Record]) -> Story {
    let mut story = blank(study.name(), "Internal covariate shift", study.question(), records);
    story.expectation =
        "Each step changes all layers at once, so every layer sees its inputs move; this internal covariate shift is \
         said to slow training, and norms to reduce it (Ioffe and Szegedy, 2015). Santurkar et al. (2018) measured \
         that batch norm hardly reduces it, or even increases it."
            .to_owned();
    let paces: Vec<Pace<'_>> = RATES.iter().filter_map(|(id, _)| Pace::of(id, runs)).collect();
    if paces.is_empty() {
        return story;
    }
    story.charts =
        paces.iter().flat_map(|pace| [Some(pace.course()), Some(pace.directions()), pace.layers()]).flatten().collect();
    story.charts.extend(removed(&paces));
    story.numbers = Some(table(&paces));
    story.answer = answer(&paces);
    story.findings = paces.iter().flat_map(Pace::findings).chain(removals(&paces)).collect();
    story.notes = vec![
        "At each evaluation the network makes its next training step on a copy. The shift is the Wasserstein-1 distance \
         between a unit's values before and after that step, for up to 128 validation images; summed over the units of \
         a layer and divided by the sum of their standard deviations. 0.1 means that values move by a tenth of a \
         standard deviation."
            .to_owned(),
        "The shift during training is the mean over all layers that receive hidden units and all evaluations, the start \
         included. At each learning rate, all networks start from the same weights and see the same batches for each \
         seed."
            .to_owned(),
        "The cosine compares the gradient of a layer's weights on the step's own batch before and after the layers \
         below, and only they, have made the step. 1: its direction is unchanged."
            .to_owned(),
    ];
    story
}

type Group<'a> = Probed<'a, Shift>;

/// The networks with one learning rate.
struct Pace<'a> {
    id: &'static str,
    rate: f64,
    groups: Vec<Group<'a>>,
}

/// What is measured at every layer.
#[derive(Clone, Copy)]
enum Kind {
    Input,
    Before,
    After,
    Cosine,
}

impl Kind {
    fn of(self, seen: &Shift) -> &[Option<f64>] {
        match self {
            Kind::Input => &seen.input,
            Kind::Before => &seen.before,
            Kind::After => &seen.after,
            Kind::Cosine => &seen.cosine,
        }
    }

    /// The mean over the layers that have a value.
    fn mean(self, seen: &Shift) -> Option<f64> {
        let values: Vec<f64> = self.of(seen).iter().copied().flatten().collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    /// The mean over training, by seed.
    fn by_seed(self, group: &Group<'_>) -> BySeed {
        let runs = group.runs.iter().zip(&group.seen);
        collect(runs.map(|(ran, seen)| (ran.trained.spec.start.seed, self.over(seen))))
    }

    /// The mean over training, with its spread over seeds.
    fn spread(self, group: &Group<'_>) -> Option<Spread> {
        Spread::of(group.seen.iter().map(|seen| self.over(seen)))
    }

    /// The mean over the probes of a run.
    fn over(self, seen: &[Shift]) -> Option<f64> {
        let means: Vec<f64> = seen.iter().map(|seen| self.mean(seen)).collect::<Option<_>>()?;
        (!means.is_empty()).then(|| means.iter().sum::<f64>() / means.len() as f64)
    }

    fn lines(self, groups: &[Group<'_>], y: Axis) -> Picture {
        let curve = |group: &Group<'_>| group.curve(words(group.norm), |seen| Some((seen.step, self.mean(seen))));
        Picture::Lines { x: axis("training step"), y, series: groups.iter().map(curve).collect(), scrub: true }
    }
}

const UNIT: &str = "standard deviations";

impl<'a> Pace<'a> {
    fn of(id: &'static str, runs: &'a [Ran]) -> Option<Pace<'a>> {
        let groups: Vec<Group<'_>> = probed(runs, id, "shift");
        let rate = groups.first()?.runs.first()?.trained.spec.learning_rate;
        Some(Pace { id, rate, groups })
    }

    /// A chart of this learning rate.
    fn chart(&self, id: &str, title: &str, see: &str, picture: Picture) -> Chart {
        let title = format!("{title}, learning rate {}", short(self.rate));
        chart(&format!("{id}-{}", self.id), &title, see, picture)
    }

    fn course(&self) -> Chart {
        let y = Axis { unit: Some(UNIT.to_owned()), ..log_axis("shift of a layer's input") };
        let see = "How far one training step moves what a layer receives, averaged over the layers. The lower, the \
                   steadier the inputs. Bands show the range over seeds.";
        self.chart("inputs", "Shift of the layers' inputs by one step", see, Kind::Input.lines(&self.groups, y))
    }

    fn directions(&self) -> Chart {
        let y = Axis { high: Some(1.0), ..axis("cosine between the gradient before and after") };
        let see = "Whether a layer's gradient still points in the same direction after the layers below have made their \
                   step; 1 means that it does. Averaged over the layers.";
        self.chart("directions", "Change of a layer's gradient", see, Kind::Cosine.lines(&self.groups, y))
    }

    /// Profiles over the layers, animated over training: the mean over seeds.
    fn layers(&self) -> Option<Chart> {
        let groups = &self.groups;
        let names = &groups.iter().flat_map(Probed::all).next()?.layers;
        let mut steps: Vec<usize> = groups.iter().flat_map(Probed::all).map(|seen| seen.step).collect();
        steps.sort_unstable();
        steps.dedup();
        let value = |group: &Group<'_>, step: usize, place: usize| {
            let of = |run: &Vec<Shift>| run.iter().find(|seen| seen.step == step)?.input.get(place).copied().flatten();
            Spread::of(group.seen.iter().map(of)).map(|spread| spread.mean)
        };
        let profile = |group, step| (1..names.len()).map(|place| value(group, step, place)).collect();
        let frame = |&step: &usize| Frame {
            label: format!("step {step}"),
            values: groups.iter().map(|group| profile(group, step)).collect(),
        };
        let picture = Picture::Frames {
            x: categories("layer that receives the input", names.iter().skip(1).map(|name| name.replace("layer ", ""))),
            y: Axis { unit: Some(UNIT.to_owned()), ..log_axis("shift of the layer's input") },
            series: groups.iter().map(|group| words(group.norm).to_owned()).collect(),
            frames: steps.iter().map(frame).collect(),
        };
        let see = "The first layer is left out: it receives the images, which do not move. A profile that rises to the \
                   right means that small changes below add up.";
        Some(self.chart("layers", "Shift by layer", see, picture))
    }

    /// The questions: for each norm, whether inputs and gradients move less than without a norm.
    fn findings(&self) -> Vec<Finding> {
        let Some(none) = self.groups.iter().find(|group| group.norm == Norm::None) else { return Vec::new() };
        let mut findings = Vec::new();
        for group in self.groups.iter().filter(|group| group.norm != Norm::None) {
            let (name, rate) = (words(group.norm), short(self.rate));
            let claim = |id: &str, text: String| {
                Claim::new(format!("{id}-{}-{}", group.norm, self.id), format!("Learning rate {rate}: {text}"))
                    .source("C16")
            };
            let pair = |quantity: &str, unit, kind: Kind| Pair {
                what: format!("{quantity}, {name} − no norm"),
                unit,
                step: 0.0,
                ours: kind.by_seed(group),
                other: kind.by_seed(none),
            };
            let text = format!("with {name}, one step shifts the inputs of the next layers less than without a norm");
            findings.extend(claim("input", text).reason(LARGER).lower(pair("shift of the inputs", UNIT, Kind::Input)));
            let text = format!(
                "with {name}, updating the layers below changes the direction of a layer's gradient less than without a \
                 norm"
            );
            findings.extend(claim("gradient", text).reason(LARGER).higher(pair(
                "cosine of the gradients",
                "",
                Kind::Cosine,
            )));
        }
        findings
    }
}

/// Why a step may shift more with a norm.
const LARGER: &str = "A possible reason, not tested: with a norm, the gradients at the start are larger, so a step at the \
    same learning rate moves the weights further.";
/// Why a norm may not remove part of the shift.
const DIRECTION: &str = "The norm removes a common change of mean and scale; what is left counts for more where the units' \
    standard deviations after the norm are smaller.";

/// The groups with a norm, with their learning rate.
fn normed<'a, 'b>(paces: &'b [Pace<'a>]) -> impl Iterator<Item = (f64, &'b Group<'a>)> {
    let all = paces.iter().flat_map(|pace| pace.groups.iter().map(|group| (pace.rate, group)));
    all.filter(|(_, group)| group.norm != Norm::None)
}

/// The shift before and after the norm.
fn removed(paces: &[Pace<'_>]) -> Option<Chart> {
    let names: Vec<String> =
        normed(paces).map(|(rate, group)| format!("{}, {}", words(group.norm), short(rate))).collect();
    let part = |kind: Kind, name: &str| {
        let spreads: Vec<Option<Spread>> = normed(paces).map(|(_, group)| kind.spread(group)).collect();
        bars(name, &spreads)
    };
    let picture = || Picture::Bars {
        x: categories("norm and learning rate", names.clone()),
        y: Axis { unit: Some(UNIT.to_owned()), low: Some(0.0), ..axis("shift by one step") },
        series: vec![part(Kind::Before, "before the norm"), part(Kind::After, "after the norm")],
    };
    let see = "The shift of the summed inputs of the hidden layers before and after their norm, each in standard \
               deviations of its own units. Where the second bar is lower, the norm removes part of the shift.";
    (!names.is_empty()).then(|| chart("removed", "What the norm removes", see, picture()))
}

/// The question for each norm: whether it removes part of the shift, as the mean over the learning rates.
fn removals(paces: &[Pace<'_>]) -> Vec<Finding> {
    let mut norms: Vec<Norm> = normed(paces).map(|(_, group)| group.norm).collect();
    norms.sort();
    norms.dedup();
    let finding = |norm: Norm| {
        let own = || normed(paces).map(|(_, group)| group).filter(|group| group.norm == norm);
        let of = |kind: Kind| {
            let cases: Vec<BySeed> = own().map(|group| kind.by_seed(group)).collect();
            combined(&cases, |values| values.iter().sum::<f64>() / values.len() as f64)
        };
        let what = "shift, after the norm − before it".to_owned();
        let pair = Pair { what, unit: UNIT, step: 0.0, ours: of(Kind::After), other: of(Kind::Before) };
        let text = format!("{} removes part of the shift of its input", capitalized(words(norm)));
        Claim::new(format!("removed-{norm}"), text).source("C16").reason(DIRECTION).lower(pair)
    };
    norms.into_iter().filter_map(finding).collect()
}

fn table(paces: &[Pace<'_>]) -> Table {
    let mut rows = Vec::new();
    for (pace, group) in paces.iter().flat_map(|pace| pace.groups.iter().map(move |group| (pace, group))) {
        let mut row: Vec<Cell> = vec![pace.rate.into(), words(group.norm).into(), (group.runs.len() as f64).into()];
        row.extend(cells(Kind::Input.spread(group)));
        for kind in [Kind::Before, Kind::After] {
            row.push(kind.spread(group).map(|spread| spread.mean).into());
        }
        row.extend(cells(Kind::Cosine.spread(group)));
        row.push(in_percent(error(&group.runs)).map(|error| error.mean).into());
        rows.push(row);
    }
    let columns = [
        "learning rate",
        "norm",
        "seeds",
        "shift of the layers' inputs",
        "min.",
        "max.",
        "shift before the norm",
        "shift after the norm",
        "cosine of the gradients",
        "min.",
        "max.",
        "validation error, %",
    ];
    let notes = vec!["Shifts are in standard deviations. Means over layers and training.".to_owned()];
    Table { columns: columns.map(str::to_owned).to_vec(), rows, notes }
}

fn answer(paces: &[Pace<'_>]) -> String {
    let mut sentences = Vec::new();
    for pace in paces {
        let told = pace.groups.iter().filter_map(|group| {
            let (input, cosine) = (Kind::Input.spread(group)?, Kind::Cosine.spread(group)?);
            Some(format!("{} {} (cosine {})", short(input.mean), with(group.norm), short(cosine.mean)))
        });
        let told: Vec<String> = told.collect();
        if !told.is_empty() {
            sentences.push(format!("{} at a learning rate of {}", told.join(", "), short(pace.rate)));
        }
    }
    if sentences.is_empty() {
        return "Some runs have not finished yet.".to_owned();
    }
    format!(
        "One training step moves the inputs of a layer, in standard deviations, by {}. The cosine compares a layer's \
         gradient before and after the step of the layers below.",
        sentences.join("; ")
    )
}
