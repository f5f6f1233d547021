//! The story of activations in three dimensions.

use super::{Activations, ID, geometry};
use crate::data::CLASSES;
use crate::models::Norm;
use crate::records::Record;
use crate::report::{Axis, Cell, Chart, Finding, Panel, Picture, Story, Table};
use crate::studies::Study;
use crate::studies::findings::{Claim, Pair};
use crate::studies::probed::{Moment, Probed, probed};
use crate::studies::tools::{axis, chart, story as blank, to_digits};
use crate::studies::trained::{Ran, cells, error, in_percent, with, words};
use crate::training::events::Activations as Seen;

pub(super) fn story(study: &Activations, runs: &[Ran], records: &[Record]) -> Story {
    let mut story = blank(study.name(), "Hidden activations in three dimensions", study.question(), records);
    story.expectation =
        "Training separates the classes with every norm. There is no prediction of which norm separates them best. \
         Layer norm gives every image mean 0 and the same radius, so the activations lie on a sphere; batch norm gives \
         each unit mean 0 and variance 1 over the batch, which leaves every image its own radius."
            .to_owned();
    let groups: Vec<Group<'_>> = probed(runs, ID, "activations");
    if groups.is_empty() {
        geometry::tell(&mut story, runs);
        return story;
    }
    story.charts.extend([clouds(&groups, Moment::Start), clouds(&groups, Moment::End)].into_iter().flatten());
    story.charts.push(course(&groups));
    story.numbers = Some(table(&groups));
    story.answer = answer(&groups);
    story.findings = findings(&groups);
    geometry::tell(&mut story, runs);
    story.notes = vec![
        "Each point is one of 128 validation images: the activations of the last hidden layer, after its norm and \
         before its nonlinearity, divided by √units and projected onto their first three principal components. The \
         components are computed separately for each plot, so the orientation has no meaning. The sphere has the mean \
         radius of the images; a point inside it has the rest of its radius in the other components."
            .to_owned(),
        "Randomly assigned classes would have a separation of about 0.07: with ten classes and so few points, the \
         centroids never coincide exactly."
            .to_owned(),
        "For each seed, all networks start from the same weights and see the same batches; they differ only in the \
         norm."
            .to_owned(),
    ];
    story
}

type Group<'a> = Probed<'a, Seen>;

/// The fraction of the total variance in the three components.
fn share(seen: &Seen) -> Option<f64> {
    Some(seen.shares.iter().sum::<f64>()).filter(|share| share.is_finite())
}

/// Class separation: the fraction of the points' variance that lies between the class centroids. `None` if the points
/// do not vary.
pub(super) fn separation(seen: &Seen) -> Option<f64> {
    let place = |point: &[f64; 4]| [point[0], point[1], point[2]];
    let middle = |points: &[&[f64; 4]]| {
        let sums = points.iter().fold([0.0; 3], |sums: [f64; 3], point| {
            let p = place(point);
            [sums[0] + p[0], sums[1] + p[1], sums[2] + p[2]]
        });
        sums.map(|sum| sum / points.len().max(1) as f64)
    };
    let apart = |a: [f64; 3], b: [f64; 3]| a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
    let all: Vec<&[f64; 4]> = seen.points.iter().collect();
    let centre = middle(&all);
    let total: f64 = all.iter().map(|point| apart(place(point), centre)).sum();
    let mut classes: Vec<f64> = all.iter().map(|point| point[3]).collect();
    classes.sort_by(f64::total_cmp);
    classes.dedup();
    let between = classes.iter().map(|class| {
        let own: Vec<&[f64; 4]> = all.iter().filter(|point| point[3] == *class).copied().collect();
        own.len() as f64 * apart(middle(&own), centre)
    });
    let ratio = between.sum::<f64>() / total;
    ratio.is_finite().then_some(ratio)
}

/// The point clouds of the first seed, one panel per norm.
fn clouds(groups: &[Group<'_>], moment: Moment) -> Option<Chart> {
    let mut panels = Vec::new();
    let mut told = Vec::new();
    for group in groups {
        let Some(seen) = group.seen.first().and_then(|run| moment.of(run)) else { continue };
        if let (Some(separation), Some(share)) = (separation(seen), share(seen)) {
            told.push(format!("{} {} ({} %)", to_digits(separation, 2), with(group.norm), to_digits(100.0 * share, 0)));
        }
        let points = seen.points.iter().filter(|point| point.iter().all(|x| x.is_finite())).copied().collect();
        let sphere = group.runs.first().and_then(|ran| geometry::mean_radius(ran, moment));
        panels.push(Panel { name: words(group.norm).to_owned(), points, sphere });
    }
    if panels.is_empty() {
        return None;
    }
    let (id, title) = match moment {
        Moment::Start => ("start", "Before training"),
        Moment::End => ("end", "After training"),
    };
    let what =
        "Each point is an image; its color and shape show the digit. The more clearly the digits separate, the better";
    let see = match told.is_empty() {
        true => format!("{what}."),
        false => format!("{what}. Class separation (and variance explained): {}.", told.join(", ")),
    };
    let classes = digits();
    let axes = ["PC 1", "PC 2", "PC 3"].map(str::to_owned);
    let picture = Picture::Scatter3d { panels, classes, axes, equal: true };
    Some(chart(id, &format!("{title}, first seed"), see, picture))
}

/// Names of the classes.
pub(super) fn digits() -> Vec<String> {
    (0..CLASSES).map(|class| class.to_string()).collect()
}

fn course(groups: &[Group<'_>]) -> Chart {
    let curve = |group: &Group<'_>| group.curve(words(group.norm), |seen| Some((seen.step, separation(seen))));
    let series = groups.iter().map(curve).collect();
    let y = Axis { low: Some(0.0), high: Some(1.0), ..axis("class separation (0 to 1)") };
    let picture = Picture::Lines { x: axis("training step"), y, series, scrub: true };
    let see = "The fraction of the points' variance that lies between the classes: the earlier it rises, the earlier \
               the digits separate. Bands show the range over seeds.";
    chart("separation", "Class separation during training", see, picture)
}

fn table(groups: &[Group<'_>]) -> Table {
    let mut rows = Vec::new();
    for group in groups {
        let mut row: Vec<Cell> = vec![words(group.norm).into(), (group.runs.len() as f64).into()];
        for moment in Moment::BOTH {
            row.extend(cells(group.spread(moment, separation)));
            row.push(in_percent(group.spread(moment, share)).map(|share| share.mean).into());
        }
        row.push(in_percent(error(&group.runs)).map(|error| error.mean).into());
        rows.push(row);
    }
    let columns = [
        "norm",
        "seeds",
        "separation at the start",
        "min.",
        "max.",
        "variance in three components, %",
        "separation after training",
        "min.",
        "max.",
        "variance in three components, %",
        "validation error, %",
    ];
    Table { columns: columns.map(str::to_owned).to_vec(), rows, notes: Vec::new() }
}

/// The questions: whether training separates the classes with each norm, and whether layer norm separates them better.
fn findings(groups: &[Group<'_>]) -> Vec<Finding> {
    let pair =
        |what: &str, ours, other| Pair { what: format!("class separation, {what}"), unit: "", step: 0.0, ours, other };
    let at = |group: &Group<'_>, moment| group.by_seed(moment, separation);
    let mut findings = Vec::new();
    for group in groups {
        let text = format!("Training separates the classes {}", with(group.norm));
        let pair = pair("after training − before it", at(group, Moment::End), at(group, Moment::Start));
        findings.extend(Claim::new(format!("separated-{}", group.norm), text).reason(THREE).higher(pair));
    }
    let of = |norm| groups.iter().find(|group| group.norm == norm);
    if let (Some(layer), Some(none)) = (of(Norm::Layer), of(Norm::None)) {
        let text = "After training, the classes are separated better with layer norm than without a norm";
        let pair = pair("layer norm − no norm", at(layer, Moment::End), at(none, Moment::End));
        findings.extend(Claim::new("layer-norm", text).reason(THREE).higher(pair));
    }
    findings
}

fn answer(groups: &[Group<'_>]) -> String {
    let mut pairs = Vec::new();
    for group in groups {
        let ends = Moment::BOTH.map(|moment| group.spread(moment, separation));
        if let [Some(start), Some(end)] = ends {
            pairs.push((group.norm, start.mean, end.mean));
        }
    }
    let Some(best) = pairs.iter().max_by(|a, b| a.2.total_cmp(&b.2)) else {
        return "Some runs have not finished yet.".to_owned();
    };
    let told: Vec<String> = pairs
        .iter()
        .map(|(norm, start, end)| format!("from {} to {} {}", to_digits(*start, 2), to_digits(*end, 2), with(*norm)))
        .collect();
    format!(
        "In the first three principal components of the last hidden layer, the fraction of the variance that lies \
         between classes changes {}. After training it is largest {}.",
        told.join(", "),
        with(best.0)
    )
}

/// Why classes may not be separated better.
const THREE: &str = "A possible reason, not tested: separation is measured in three principal components, which hold only a \
    part of the variance.";
