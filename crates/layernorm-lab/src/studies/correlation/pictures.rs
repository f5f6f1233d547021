//! The story of hidden units: heatmaps, the mean |correlation|, and the answer.

use super::{Correlation, ID, drift};
use crate::models::Norm;
use crate::records::Record;
use crate::report::{Axis, Cell, Chart, Finding, Map, Picture, Series, Story, Table};
use crate::studies::Study;
use crate::studies::findings::{BySeed, Claim, Pair};
use crate::studies::probed::{Moment, Probed, probed};
use crate::studies::tools::{axis, chart, largest, short, story as blank, to_digits};
use crate::studies::trained::{Ran, cells, error, in_percent, with, words};
use crate::training::events::Correlation as Seen;

/// Correlations are recorded to three digits, so equal ones differ by at most one unit in the last digit.
const SAME: f64 = 0.0011;

pub(super) fn story(study: &Correlation, runs: &[Ran], records: &[Record]) -> Story {
    let mut story = blank(study.name(), "Correlation of hidden units", study.question(), records);
    story.expectation = "Batch norm shifts and scales each unit separately, so it does not change correlations over \
                         its batch. Layer norm shifts and scales each image separately, so it can change them. Neither \
                         is designed to remove correlations."
        .to_owned();
    let groups: Vec<Group<'_>> = probed(runs, ID, "correlation");
    if groups.is_empty() {
        return story;
    }
    story.charts.extend([maps(&groups, Moment::Start), maps(&groups, Moment::End)].into_iter().flatten());
    story.charts.push(course(&groups));
    story.charts.extend(drift::charts(&probed(runs, ID, "moments")));
    story.numbers = Some(table(&groups));
    story.answer = answer(&groups);
    story.findings = findings(&groups);
    story.findings.extend(drift::findings(&probed(runs, ID, "moments")));
    story.notes = vec![
        "Correlations are computed over 128 validation images, for the first units of the first hidden layer, after \
         the matrix product and before the ReLU. Two independent units would have a |correlation| of 0.07 by chance."
            .to_owned(),
        "For each seed, all networks start from the same weights and see the same batches; they differ only in the \
         norm."
            .to_owned(),
    ];
    story
}

type Group<'a> = Probed<'a, Seen>;

/// Before or after the norm.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Before,
    After,
}

fn values(seen: &Seen, side: Side) -> &[f64] {
    match side {
        Side::Before => &seen.before,
        Side::After => &seen.after,
    }
}

/// The mean |correlation| of two different units; `None` if the matrix is incomplete.
fn size(seen: &Seen, side: Side) -> Option<f64> {
    let (all, units) = (values(seen, side), seen.units);
    if units < 2 || Some(all.len()) != units.checked_mul(units) {
        return None;
    }
    let off = all.iter().enumerate().filter(|(place, _)| place / units != place % units);
    Some(off.map(|(_, value)| value.abs()).sum::<f64>() / (units * (units - 1)) as f64)
}

/// The largest change of a correlation by the norm, at any step of any run.
fn change(group: &Group<'_>) -> Option<f64> {
    let change = |seen: &Seen| largest(seen.before.iter().zip(&seen.after).map(|(before, after)| after - before));
    group.all().map(change).max_by(f64::total_cmp)
}

/// The matrices of the first seed: first those before the norms, then those after them. At the start all of the former
/// are equal, so only one is shown.
fn maps(groups: &[Group<'_>], moment: Moment) -> Option<Chart> {
    let mut maps: Vec<Map> = Vec::new();
    let mut sizes = Vec::new();
    for side in [Side::Before, Side::After] {
        for group in groups {
            let name = match (group.norm, side) {
                (Norm::None, Side::Before) => "no norm".to_owned(),
                (Norm::None, Side::After) => "no norm (unchanged)".to_owned(),
                (norm, Side::Before) => format!("before {}", words(norm)),
                (norm, Side::After) => format!("after {}", words(norm)),
            };
            let again = group.norm == Norm::None && side == Side::After;
            let known = moment == Moment::Start && (again || side == Side::Before && !maps.is_empty());
            let Some(seen) = group.seen.first().and_then(|run| moment.of(run)).filter(|_| !known) else { continue };
            let Some(size) = size(seen, side) else { continue };
            if !again {
                sizes.push(format!("{} {name}", to_digits(size, 2)));
            }
            let values = values(seen, side).to_vec();
            maps.push(Map { name, rows: seen.units, columns: seen.units, values, labels: None });
        }
    }
    if maps.is_empty() {
        return None;
    }
    let (id, title, when) = match moment {
        Moment::Start => ("maps-start", "Correlations at the start", "All networks have the same weights here. "),
        Moment::End => ("maps-end", "Correlations after training", ""),
    };
    let see = format!(
        "Orange: two units are positively correlated; blue: negatively. {when}Mean |correlation| off the diagonal: {}.",
        sizes.join(", ")
    );
    let picture = Picture::Heatmaps { maps, low: -1.0, high: 1.0, scale: "correlation".to_owned() };
    Some(chart(id, &format!("{title}, first seed"), see, picture))
}

/// Whether the norm changes correlations.
fn changes(group: &Group<'_>) -> bool {
    change(group).is_some_and(|change| change > SAME)
}

fn course(groups: &[Group<'_>]) -> Chart {
    let mut series = Vec::new();
    for group in groups {
        let curve = |name: &str, side| group.curve(name, |seen| Some((seen.step, size(seen, side))));
        series.push(curve(words(group.norm), Side::After));
        if changes(group) {
            let before = curve(&format!("before {}", words(group.norm)), Side::Before);
            series.push(Series { dashed: true, ..before });
        }
    }
    let y = Axis { low: Some(0.0), ..axis("mean |correlation| of two units") };
    let see = "Mean |correlation| after each norm during training, with the range over seeds. Dashed: before the norm, \
               where the norm changes it.";
    chart(
        "course",
        "Correlations during training",
        see,
        Picture::Lines { x: axis("training step"), y, series, scrub: true },
    )
}

fn table(groups: &[Group<'_>]) -> Table {
    let mut rows = Vec::new();
    for group in groups {
        let mut row: Vec<Cell> = vec![words(group.norm).into(), (group.runs.len() as f64).into()];
        for (moment, side) in [
            (Moment::Start, Side::Before),
            (Moment::Start, Side::After),
            (Moment::End, Side::Before),
            (Moment::End, Side::After),
        ] {
            row.extend(cells(group.spread(moment, |seen| size(seen, side))));
        }
        row.push(change(group).into());
        row.push(in_percent(error(&group.runs)).map(|error| error.mean).into());
        rows.push(row);
    }
    let columns = [
        "norm",
        "seeds",
        "start, before the norm",
        "min.",
        "max.",
        "start, after the norm",
        "min.",
        "max.",
        "end, before the norm",
        "min.",
        "max.",
        "end, after the norm",
        "min.",
        "max.",
        "largest change by the norm",
        "validation error, %",
    ];
    let notes = vec!["Mean |correlation| of two different units, over seeds.".to_owned()];
    Table { columns: columns.map(str::to_owned).to_vec(), rows, notes }
}

/// The questions: what each norm does to correlations.
fn findings(groups: &[Group<'_>]) -> Vec<Finding> {
    let of = |norm| groups.iter().find(|group| group.norm == norm);
    let mut findings = Vec::new();
    if let Some(change) = of(Norm::Batch).and_then(change) {
        let text = "Batch norm leaves every correlation of two hidden units unchanged";
        findings.push(Claim::new("batch-norm", text).source("C8").exact(
            change <= SAME,
            format!("largest change {}", short(change)),
            "at most 0.001, the rounding of the records",
        ));
    }
    let sizes = |norm, moment, side| {
        of(norm).map_or(BySeed::new(), |group| group.by_seed(moment, |seen: &Seen| size(seen, side)))
    };
    let pair = |what: &str, ours, other| Pair {
        what: format!("mean |correlation|, {what}"),
        unit: "",
        step: 0.0,
        ours,
        other,
    };
    for (moment, name, when) in [(Moment::Start, "start", "at the start"), (Moment::End, "end", "after training")] {
        let layer = |side| sizes(Norm::Layer, moment, side);
        let text = format!("Layer norm reduces the mean |correlation| of its input's units, {when}");
        let pair = pair("after layer norm − before it", layer(Side::After), layer(Side::Before));
        findings.extend(Claim::new(format!("reduced-{name}"), text).source("C8").reason(MEAN).lower(pair));
    }
    let end = |norm| sizes(norm, Moment::End, Side::After);
    let text = "After training, hidden units are less correlated with layer norm than without a norm";
    let pair = pair("layer norm − no norm", end(Norm::Layer), end(Norm::None));
    findings.extend(Claim::new("trained", text).source("C8").reason(LEARNED).lower(pair));
    findings
}

/// Why layer norm may not reduce correlations.
const MEAN: &str = "Subtracting the mean over the units removes what all units share; where they share nothing, it adds \
    a small negative correlation.";
/// Why hidden units may be more correlated after training.
const LEARNED: &str = "A possible reason, not tested: units that learn the same classes become correlated, and layer norm \
    makes them learn faster.";

fn answer(groups: &[Group<'_>]) -> String {
    let of = |norm| groups.iter().find(|group| group.norm == norm);
    let changed = |norm| of(norm).and_then(change);
    let (Some(batch), Some(layer)) = (changed(Norm::Batch), changed(Norm::Layer)) else {
        return "Some runs with batch norm or layer norm have not finished yet.".to_owned();
    };
    let leaves = match batch <= SAME {
        true => "leaves every correlation unchanged".to_owned(),
        false => format!("changes correlations by up to {}", short(batch)),
    };
    let mut text = format!("Batch norm {leaves}; layer norm changes individual ones by up to {}.", to_digits(layer, 2));
    let sizes = |moment| {
        let all = groups.iter().filter_map(|group| {
            let size = group.spread(moment, |seen| size(seen, Side::After))?;
            Some(format!("{} {}", to_digits(size.mean, 2), with(group.norm)))
        });
        all.collect::<Vec<_>>().join(", ")
    };
    let [start, end] = Moment::BOTH.map(sizes);
    if !start.is_empty() && !end.is_empty() {
        text += &format!(" The mean |correlation| after the norm is {start} at the start and {end} after training.");
    }
    text
}
