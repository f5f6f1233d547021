//! The geometry of the last hidden layer: radius and mean of each image, and three units in space.

use super::pictures::digits;
use super::{ID, THREE};
use crate::models::Norm;
use crate::report::{Chart, Finding, Group as Hill, Panel, Picture, Story};
use crate::studies::findings::{BySeed, Claim, Pair, collect};
use crate::studies::probed::{Moment, Probed, probed};
use crate::studies::tools::{axis, chart, largest, moments, short};
use crate::studies::trained::{Ran, Spread, events, with, words};
use crate::training::events::{Geometry, Sizes};

type Group<'a> = Probed<'a, Geometry>;

/// Largest deviation from the circle that rounding errors and ε explain: the variance of three units is above 10⁻⁶.
const TOLERANCE: f64 = 1e-3;
/// Number of bars of a histogram.
const BARS: usize = 100;

/// Adds the geometry in the records to the story.
pub(super) fn tell(story: &mut Story, runs: &[Ran]) {
    let (wide, three): (Vec<Group<'_>>, Vec<Group<'_>>) =
        (probed(runs, ID, "geometry"), probed(runs, THREE, "geometry"));
    story.charts.extend([common_scale(&three), circle(&three)].into_iter().flatten());
    story.charts.extend(hills(&wide, Quantity::Radius));
    story.charts.extend(hills(&wide, Quantity::Mean));
    story.findings.extend(findings(&wide));
    story.findings.extend(on_circle(&three));
    let told: Vec<String> = wide
        .iter()
        .filter_map(|group| {
            let spread = Spread::of(group.seen.iter().map(|run| spread(&Moment::End.of(run)?.after)))?;
            Some(format!("{} % {}", short(100.0 * spread.mean), with(group.norm)))
        })
        .collect();
    if !told.is_empty() {
        let words = format!(
            "After training, the standard deviation of the images' radius, relative to its mean, is {}.",
            told.join(", ")
        );
        let first = if story.charts.iter().any(|chart| chart.id == "end") {
            format!("{} ", story.answer)
        } else {
            String::new()
        };
        story.answer = first + &words;
    }
}

/// The mean radius of a run's images after the norm.
pub(super) fn mean_radius(ran: &Ran, moment: Moment) -> Option<f64> {
    let seen: Vec<Geometry> = events(ran, "geometry");
    let radius: Vec<f64> = moment.of(&seen)?.after.radius.iter().copied().collect::<Option<_>>()?;
    (!radius.is_empty()).then(|| moments(&radius).0)
}

/// The standard deviation of the radius over images, relative to its mean.
fn spread(sizes: &Sizes) -> Option<f64> {
    let radius: Vec<f64> = sizes.radius.iter().copied().collect::<Option<_>>()?;
    let (mean, deviation) = moments(&radius);
    Some(deviation / mean).filter(|spread| spread.is_finite())
}

#[derive(Clone, Copy, PartialEq)]
enum Quantity {
    Radius,
    Mean,
}

impl Quantity {
    fn of(self, sizes: &Sizes) -> &[Option<f64>] {
        match self {
            Quantity::Radius => &sizes.radius,
            Quantity::Mean => &sizes.mean,
        }
    }
}

/// Histograms of all seeds after training, before and after each norm, in one scale.
fn hills(groups: &[Group<'_>], quantity: Quantity) -> Option<Chart> {
    let of = |group: &Group<'_>, part: fn(&Geometry) -> &Sizes| -> Vec<f64> {
        let last = group.seen.iter().filter_map(|run| run.last());
        last.flat_map(|seen| quantity.of(part(seen)).iter().copied().flatten()).collect()
    };
    let mut all: Vec<(String, Vec<f64>)> = Vec::new();
    for group in groups {
        if group.norm != Norm::None {
            all.push((format!("{}, before it", words(group.norm)), of(group, |seen| &seen.before)));
        }
        all.push((words(group.norm).to_owned(), of(group, |seen| &seen.after)));
    }
    let (low, high) =
        all.iter().flat_map(|(_, values)| values).fold((0f64, 0f64), |(low, high), &x| (low.min(x), high.max(x)));
    if high <= low {
        return None;
    }
    let edges: Vec<f64> = (0..=BARS).map(|n| low + (high - low) * n as f64 / BARS as f64).collect();
    let hill = |(name, values): (String, Vec<f64>)| {
        let mut counts = vec![0.0; BARS];
        for value in &values {
            let bar = ((value - low) / (high - low) * BARS as f64) as usize;
            counts[bar.min(BARS - 1)] += 100.0 / values.len() as f64;
        }
        Hill { name, edges: edges.clone(), counts }
    };
    let groups = all.into_iter().filter(|(_, values)| !values.is_empty()).map(hill).collect();
    let (id, title, label, see) = match quantity {
        Quantity::Radius => (
            "radius",
            "Radius of each image's activations after training",
            "radius ‖h‖/√units",
            "The narrower the histogram, the closer the images are to one sphere. Layer norm gives every image radius 1 (γ and β \
             then change it a little); batch norm only makes the mean square 1 over the batch. All plots have the same \
             scale and all seeds.",
        ),
        Quantity::Mean => (
            "mean",
            "Mean of each image's activations after training",
            "mean of h",
            "Layer norm gives every image mean 0, to which β adds a little; without a norm and with batch norm the mean \
             differs from image to image.",
        ),
    };
    Some(chart(id, title, see, Picture::Histograms { x: axis(label), y: axis("images, %"), groups }))
}

/// A cloud of three units after training, of the first seed, with the sphere of radius √3.
fn cloud(group: &Group<'_>, name: &str, part: fn(&Geometry) -> &Sizes) -> Option<Panel> {
    let points = part(group.seen.first()?.last()?).points.clone();
    (!points.is_empty()).then(|| Panel { name: name.to_owned(), points, sphere: Some(3f64.sqrt()) })
}

fn space(id: &str, title: &str, see: &str, panels: Vec<Panel>) -> Option<Chart> {
    let axes = ["unit 1", "unit 2", "unit 3"].map(str::to_owned);
    let picture = || Picture::Scatter3d { panels: panels.clone(), classes: digits(), axes, equal: true };
    (!panels.is_empty()).then(|| chart(id, title, see, picture()))
}

/// Three units after each norm, in one scale.
fn common_scale(groups: &[Group<'_>]) -> Option<Chart> {
    let panels = groups.iter().filter_map(|group| cloud(group, words(group.norm), |seen| &seen.after)).collect();
    let see = "The activations of a last hidden layer of three units, without γ and β, after training (first seed). \
               Without a norm the cloud grows as the network learns. Batch norm gives the cloud as a whole the scale of \
               the sphere, layer norm every single point.";
    space("three", "Three hidden units with each norm", see, panels)
}

/// Three units before and after layer norm.
fn circle(groups: &[Group<'_>]) -> Option<Chart> {
    let layer = groups.iter().find(|group| group.norm == Norm::Layer)?;
    let before = cloud(layer, "before layer norm", |seen| &seen.before);
    let after = cloud(layer, "after layer norm", |seen| &seen.after);
    let see = "The same three units before and after layer norm. Subtracting the mean moves every point to the plane of \
               mean 0, dividing by the standard deviation to the sphere of radius √3: what remains is a circle, along \
               which the digits arrange themselves. Rotate until you see it edge-on.";
    space("circle", "Three hidden units before and after layer norm", see, before.into_iter().chain(after).collect())
}

/// The questions: whether layer norm makes the radii equal, compared with no norm, batch norm, and its own input.
fn findings(groups: &[Group<'_>]) -> Vec<Finding> {
    let of = |norm| groups.iter().find(|group| group.norm == norm);
    let by = |group: &Group<'_>, part: fn(&Geometry) -> &Sizes| -> BySeed {
        let runs = group.runs.iter().zip(&group.seen);
        collect(runs.map(|(ran, seen)| {
            let spread = seen.last().and_then(|seen| spread(part(seen)));
            (ran.trained.spec.start.seed, spread.map(|spread| 100.0 * spread))
        }))
    };
    let Some(layer) = of(Norm::Layer) else { return Vec::new() };
    let after: fn(&Geometry) -> &Sizes = |seen| &seen.after;
    let mut others: Vec<(&str, String, &str, BySeed)> = Vec::new();
    for (norm, than) in [(Norm::None, "without a norm"), (Norm::Batch, "with batch norm")] {
        if let Some(group) = of(norm) {
            others.push((norm.name(), format!("layer norm − {}", words(norm)), than, by(group, after)));
        }
    }
    others.push(("input", "after layer norm − before it".to_owned(), "before it", by(layer, |seen| &seen.before)));
    let finding = |(id, what, than, other): (&str, String, &str, BySeed)| {
        let text = format!("After layer norm, the radius of the images varies less than {than}");
        let what = format!("standard deviation of the radius relative to its mean, {what}");
        let pair = Pair { what, unit: "%", step: 0.0, ours: by(layer, after), other };
        Claim::new(format!("radius-{id}"), text).source("C9").reason(GAINS).lower(pair)
    };
    others.into_iter().filter_map(finding).collect()
}

/// Why the radius may vary more after layer norm.
const GAINS: &str = "A possible reason, not tested: the radius is measured after γ and β, which differ between units and \
    so make it vary.";

/// Whether all images lie on the circle with layer norm, at all times and with all seeds.
fn on_circle(groups: &[Group<'_>]) -> Option<Finding> {
    let layer = groups.iter().find(|group| group.norm == Norm::Layer)?;
    let mut off = Vec::new();
    for seen in layer.all() {
        for (radius, mean) in seen.after.radius.iter().zip(&seen.after.mean) {
            off.push((*radius)? - 1.0);
            off.push((*mean)?);
        }
    }
    if off.is_empty() {
        return None;
    }
    let most = largest(off.iter().copied());
    let text =
        "With layer norm without γ and β, three hidden units lie on a circle: mean 0 and radius √3 for every image";
    let found = format!("largest deviation {} (of radius/√3 from 1, and of the mean from 0)", short(most));
    Some(Claim::new("circle", text).source("C9").exact(most < TOLERANCE, found, format!("below {}", short(TOLERANCE))))
}
