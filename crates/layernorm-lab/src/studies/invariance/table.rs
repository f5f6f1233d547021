//! The story: Table 1 with the measured value in every cell.

use super::{Change, EPS, Invariance, Kind, NormRow, Seen};
use crate::records::Record;
use crate::report::{Cell, Chart, Finding, Picture, Story, Table, Tile, Tone};
use crate::studies::Study;
use crate::studies::findings::Claim;
use crate::studies::tools::{capitalized, chart, events, short, story as blank};

impl NormRow {
    fn name(self) -> &'static str {
        match self {
            NormRow::Batch => "batch norm",
            NormRow::Weight => "weight norm",
            NormRow::Layer => "layer norm",
        }
    }
}

impl Change {
    fn name(self) -> &'static str {
        match self {
            Change::WeightsScaled => "weights ×k",
            Change::WeightsShifted => "weights + shift",
            Change::UnitScaled => "one unit's weights ×k",
            Change::DataScaled => "data ×k",
            Change::DataShifted => "data + shift",
            Change::CaseScaled => "one sample ×k",
        }
    }
}

/// Table 1 of the paper.
pub(super) fn paper(norm: NormRow, change: Change) -> bool {
    use Change::*;
    match norm {
        NormRow::Batch => matches!(change, WeightsScaled | UnitScaled | DataScaled | DataShifted),
        NormRow::Weight => matches!(change, WeightsScaled | UnitScaled),
        NormRow::Layer => matches!(change, WeightsScaled | WeightsShifted | DataScaled | CaseScaled),
    }
}

/// The mathematical reason.
fn why(norm: NormRow, change: Change) -> &'static str {
    use Change::*;
    match (norm, change) {
        (NormRow::Weight, WeightsScaled | UnitScaled) => "kw/‖kw‖ = w/‖w‖.",
        (NormRow::Weight, WeightsShifted) => "w + c and w have different directions.",
        (NormRow::Weight, DataScaled | CaseScaled) => {
            "The direction of w does not change, so the output scales with the data."
        }
        (NormRow::Weight, DataShifted) => "Every output shifts by w·c/‖w‖.",
        (NormRow::Batch, WeightsScaled | UnitScaled) => {
            "A unit's activations, and their mean and σ over the batch, are all multiplied by k, which cancels."
        }
        (NormRow::Batch, WeightsShifted) => {
            "In sample n every activation shifts by c·xₙ, which differs between samples, so the mean over the batch \
             does not remove it."
        }
        (NormRow::Batch, DataScaled) => "All activations, means and σ are multiplied by k, which cancels.",
        (NormRow::Batch, DataShifted) => {
            "A unit's activation shifts by w·c, the same in every sample, so the mean over the batch removes it."
        }
        (NormRow::Batch, CaseScaled) => {
            "One sample changes the mean and σ that normalize all samples, and its own distance from the mean."
        }
        (NormRow::Layer, WeightsScaled | DataScaled | CaseScaled) => {
            "All activations of a sample, their mean and their σ are multiplied by k, which cancels; other samples \
             have no effect."
        }
        (NormRow::Layer, WeightsShifted) => {
            "In each sample every activation shifts by the same amount c·x, so the mean over the units removes it."
        }
        (NormRow::Layer, UnitScaled) => "One unit changes the mean and σ that normalize all units of the sample.",
        (NormRow::Layer, DataShifted) => {
            "Unit i shifts by wᵢ·c, which differs between units, so the mean over the units does not remove it."
        }
    }
}

/// A cell: all measurements of a norm and a change in one type.
struct Summary {
    kind: Kind,
    norm: NormRow,
    change: Change,
    /// The largest deviation over amounts and seeds, without ε.
    deviation: f64,
    /// The bound of the measurement with the largest ratio of deviation to bound.
    bound: f64,
    /// The largest deviation with ε.
    with_eps: Option<f64>,
    invariant: bool,
}

impl Summary {
    fn of(seen: &[Seen], kind: Kind, norm: NormRow, change: Change) -> Option<Summary> {
        let cell = || seen.iter().filter(|s| (s.case.kind, s.case.norm, s.case.change) == (kind, norm, change));
        let of_eps = |eps: f64| cell().filter(move |s| s.case.eps == eps);
        let worst =
            of_eps(0.0).filter_map(|s| s.deviation.zip(s.bound)).max_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)))?;
        let most = |eps: f64| of_eps(eps).filter_map(|s| s.deviation).max_by(f64::total_cmp);
        Some(Summary {
            kind,
            norm,
            change,
            deviation: most(0.0)?,
            bound: worst.1,
            with_eps: most(EPS[1]),
            invariant: cell().all(Seen::invariant),
        })
    }

    fn agrees(&self) -> bool {
        self.invariant == paper(self.norm, self.change)
    }

    fn tile(&self) -> Tile {
        let agrees = if self.agrees() { "the paper agrees" } else { "the paper disagrees" };
        Tile {
            value: Some(self.deviation),
            text: format!(
                "{} · {} · paper: {}",
                yes(self.invariant),
                short(self.deviation),
                yes(paper(self.norm, self.change))
            ),
            tone: if self.invariant { Tone::Good } else { Tone::Bad },
            hint: Some(format!(
                "{} The output changed by up to {} of its largest value; rounding alone can change it by {}; {agrees}.",
                why(self.norm, self.change),
                short(self.deviation),
                short(self.bound)
            )),
        }
    }
}

fn yes(invariant: bool) -> &'static str {
    if invariant { "yes" } else { "no" }
}

fn grid(seen: &[Seen], kind: Kind) -> Chart {
    let missing = || Tile { value: None, text: "not run".into(), tone: Tone::None, hint: None };
    let row = |norm| {
        let tile = |change| Summary::of(seen, kind, norm, change).map_or_else(missing, |summary| summary.tile());
        Change::ALL.map(tile).to_vec()
    };
    let (id, name) = if kind == Kind::F64 { ("f64", "double precision") } else { ("f32", "single precision") };
    chart(
        &format!("table-{id}"),
        &format!("Table 1, measured in {name} ({id})"),
        "Blue: invariant; the number is rounding error. Hatched: the output changes.",
        Picture::Grid {
            rows: NormRow::ALL.map(|norm| norm.name().to_owned()).to_vec(),
            columns: Change::ALL.map(|change| change.name().to_owned()).to_vec(),
            cells: NormRow::ALL.map(row).to_vec(),
            scale: "largest change of the output, relative to its largest value".to_owned(),
            tones: ["invariant", "changes"],
        },
    )
}

fn numbers(seen: &[Seen]) -> Table {
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for norm in NormRow::ALL {
        for change in Change::ALL {
            let [double, single] = [Kind::F64, Kind::F32].map(|kind| Summary::of(seen, kind, norm, change));
            let number = |summary: &Option<Summary>, of: fn(&Summary) -> Option<f64>| summary.as_ref().and_then(of);
            rows.push(vec![
                norm.name().into(),
                change.name().into(),
                yes(paper(norm, change)).into(),
                double.as_ref().map_or(Cell::Empty, |double| yes(double.invariant).into()),
                number(&double, |s| Some(s.deviation)).into(),
                number(&double, |s| Some(s.bound)).into(),
                number(&single, |s| Some(s.deviation)).into(),
                number(&single, |s| Some(s.bound)).into(),
                number(&double, |s| s.with_eps).into(),
            ]);
        }
    }
    let columns = ["norm", "change", "paper", "measured", "f64", "f64 limit", "f32", "f32 limit", "f64, ε"];
    Table {
        columns: columns.map(str::to_owned).to_vec(),
        rows,
        notes: vec![
            "The largest change of the output, relative to its largest value, over all k, shifts and seeds. The limits \
             are what rounding alone can cause. The last column has ε = 10⁻⁵, all others ε = 0."
                .into(),
        ],
    }
}

pub(super) fn story(question: &str, records: &[Record]) -> Story {
    let mut story = blank(Invariance.name(), "Invariances (Table 1)", question, records);
    let seen: Vec<Seen> = events(records, "change");
    story.expectation = "Table 1 of the paper: layer norm is invariant to scaling all weights, to shifting all weight \
                         vectors by the same vector, to scaling the data and to scaling a single sample, but not to \
                         scaling one unit's weights or to shifting the data."
        .to_owned();
    if seen.is_empty() {
        return story;
    }
    let cells: Vec<Summary> = [Kind::F64, Kind::F32]
        .into_iter()
        .flat_map(|kind| NormRow::ALL.into_iter().flat_map(move |norm| Change::ALL.map(|change| (kind, norm, change))))
        .filter_map(|(kind, norm, change)| Summary::of(&seen, kind, norm, change))
        .collect();
    let agree = cells.iter().filter(|cell| cell.agrees()).count();
    let of_kind = |kind: Kind| cells.iter().filter(|cell| cell.kind == kind).count();
    let still = |kind: Kind| {
        let cells = cells.iter().filter(move |cell| cell.kind == kind && cell.invariant);
        short(cells.map(|cell| cell.deviation).fold(0.0, f64::max))
    };
    let moved = cells.iter().filter(|cell| !cell.invariant).map(|cell| cell.deviation).min_by(f64::total_cmp);
    story.answer = format!(
        "{agree} of {} cells ({} in f64 and {} in f32) agree with the paper's table. Where the answer is yes, the \
         output changed by at most {} of its largest value in f64 and {} in f32{}.",
        cells.len(),
        of_kind(Kind::F64),
        of_kind(Kind::F32),
        still(Kind::F64),
        still(Kind::F32),
        moved.map_or(String::new(), |moved| format!("; where it is no, by at least {}", short(moved)))
    );
    story.findings = NormRow::ALL.into_iter().filter_map(|norm| finding(&cells, norm)).collect();
    story.charts = vec![grid(&seen, Kind::F64), grid(&seen, Kind::F32)];
    story.numbers = Some(numbers(&seen));
    story.notes = notes(&cells);
    story
}

/// Whether a row of the table, in both types, is as in the paper; `None` if a cell agrees so far but others are missing.
fn finding(cells: &[Summary], norm: NormRow) -> Option<Finding> {
    let row: Vec<&Summary> = cells.iter().filter(|cell| cell.norm == norm).collect();
    let agree = row.iter().filter(|cell| cell.agrees()).count();
    if agree == row.len() && row.len() < 2 * Change::ALL.len() {
        return None;
    }
    let list = |invariant: bool| {
        let names = Change::ALL.into_iter().filter(|&change| paper(norm, change) == invariant).map(Change::name);
        names.collect::<Vec<_>>().join(", ")
    };
    let text = format!("{} is invariant to {}, but not to {}", capitalized(norm.name()), list(true), list(false));
    let id = norm.name().replace(' ', "-");
    let (found, expected) =
        (format!("{agree} of {} cells agree", row.len()), format!("{} of {0} cells agree", row.len()));
    Some(Claim::new(id, text).source("C10").exact(agree == row.len(), found, expected))
}

fn notes(cells: &[Summary]) -> Vec<String> {
    let mut notes = vec![
        "The changes: W → kW; W → W + 1cᵀ (the same vector c is added to every unit's incoming weights); wᵢ → kwᵢ for \
         one unit; x → kx for all samples; x → x + c for all samples; x → kx for one sample. k is 2, 0.5 or 10, and c \
         is a random vector times one of these. A negative k would flip the sign of the normalized values and is not \
         considered."
            .to_owned(),
        "ε is 0 in the table, because the paper's formulas have none. With ε, scaling by k is equivalent to dividing ε \
         by k²: the last column shows how well the invariances hold with ε = 10⁻⁵."
            .to_owned(),
        "Two assumptions matter. Layer norm is invariant to a shift that changes all activations of a sample equally; \
         here, as in the paper, the data are shifted before W, so every unit shifts by a different amount. And batch \
         norm is in training mode: with running statistics it is a fixed map without the invariances to the data."
            .to_owned(),
    ];
    for cell in cells.iter().filter(|cell| !cell.agrees()) {
        notes.push(format!(
            "{}, {}: measured {}, paper {}. {}",
            cell.norm.name(),
            cell.change.name(),
            yes(cell.invariant),
            yes(paper(cell.norm, cell.change)),
            why(cell.norm, cell.change)
        ));
    }
    notes
}
