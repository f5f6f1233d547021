//! The story of the implementations and their errors.

use super::ways::Way;
use super::{INPUTS, Implementations, Wrong};
use crate::records::Record;
use crate::report::{Chart, Picture, Series, Story, Table, Tile, Tone};
use crate::studies::Study;
use crate::studies::findings::Claim;
use crate::studies::tools::{chart, events, log_axis, short, story as blank};

/// What the colours mean, with the bounds below.
pub(super) const TONES: [&str; 2] = ["at most three bits lost", "over half of the digits lost"];
/// Errors of up to this many units count as good: three of 24 bits lost.
const GOOD: f64 = 8.0;
/// Errors above this many units count as bad: half of the digits lost.
pub(super) const BAD: f64 = 4096.0;

/// The largest error of an implementation on an input; a failure counts as larger than any number.
fn worst(wrongs: &[Wrong], way: Way, input: (f64, f64)) -> Option<&Wrong> {
    let of = wrongs.iter().filter(|wrong| wrong.way == way && (wrong.mean, wrong.spread) == input);
    of.max_by(|a, b| a.units.unwrap_or(f64::INFINITY).total_cmp(&b.units.unwrap_or(f64::INFINITY)))
}

/// An input as a formula.
pub(super) fn input_name((mean, spread): (f64, f64)) -> String {
    match (mean, spread) {
        (mean, 0.0) => format!("all {}", short(mean)),
        (0.0, 1.0) => "z".to_owned(),
        (0.0, spread) => format!("{}·z", short(spread)),
        (mean, 1.0) => format!("{} + z", short(mean)),
        (mean, spread) => format!("{} + {}·z", short(mean), short(spread)),
    }
}

fn tile(wrong: Option<&Wrong>) -> Tile {
    let hint = |wrong: &Wrong| format!("{}; largest at {} × {}", wrong.way.what(), wrong.rows, wrong.elements);
    error_tile(wrong.map(|wrong| (wrong.units, wrong.failure.as_deref())), wrong.map(hint).unwrap_or_default())
}

/// The tile of an error in units, or of a failure; `None` if it was not measured.
pub(super) fn error_tile(error: Option<(Option<f64>, Option<&str>)>, hint: String) -> Tile {
    let Some((units, failure)) = error else {
        return Tile { value: None, text: "not run".into(), tone: Tone::None, hint: None };
    };
    let tone = match units {
        Some(units) if units <= GOOD => Tone::Good,
        Some(units) if units <= BAD => Tone::None,
        _ => Tone::Bad,
    };
    let text = units.map_or_else(|| failure_text(failure).to_owned(), short);
    Tile { value: units, text, tone, hint: Some(hint) }
}

/// A recorded failure as the report shows it.
fn failure_text(failure: Option<&str>) -> &str {
    match failure {
        Some("no number") => "not finite",
        Some(other) => other,
        None => "",
    }
}

fn grid(wrongs: &[Wrong]) -> Chart {
    let row = |way: Way| INPUTS.map(|input| tile(worst(wrongs, way, input))).to_vec();
    chart(
        "errors",
        "Largest errors",
        "Blue: accurate to a few units. Hatched: half of the digits or more are lost, or the result is not finite, \
         zero where it should not be, or nonzero where it should be zero.",
        Picture::Grid {
            rows: Way::ALL.map(|way| way.name().to_owned()).to_vec(),
            columns: INPUTS.map(input_name).to_vec(),
            cells: Way::ALL.map(row).to_vec(),
            scale: "error in units in the last place of f32; z is standard normal".to_owned(),
            tones: TONES,
        },
    )
}

fn lines(wrongs: &[Wrong]) -> Chart {
    let means: Vec<f64> = INPUTS.iter().filter(|input| input.0 > 0.0 && input.1 == 1.0).map(|input| input.0).collect();
    let of = |way: Way, mean: f64| {
        worst(wrongs, way, (mean, 1.0)).and_then(|wrong| wrong.units).filter(|&units| units > 0.0)
    };
    let series = |way: Way| Series {
        name: way.name().to_owned(),
        x: means.clone(),
        y: means.iter().map(|&mean| of(way, mean)).collect(),
        ..Series::default()
    };
    chart(
        "mean",
        "Error when the mean is far from 0",
        "The error of E[x²] − E[x]² grows with the square of the mean; those of two passes and Welford grow with the \
         mean.",
        Picture::Lines {
            x: log_axis("mean of the row, in standard deviations"),
            y: log_axis("largest error, units in the last place"),
            series: Way::ALL.map(series).to_vec(),
            scrub: false,
        },
    )
}

pub(super) fn story(question: &str, records: &[Record]) -> Story {
    let mut story = blank(Implementations.name(), "Implementations of layer norm", question, records);
    story.expectation =
        "The one-pass variance E[x²] − E[x]² fails if the mean is large relative to the standard deviation. Two passes \
         and Welford's method are better, but keep the rounding error of the mean. Loops with independent partial sums are \
         vectorized by the compiler and fast; a plain loop is not."
            .to_owned();
    let wrongs: Vec<Wrong> = events(records, "error");
    if wrongs.is_empty() {
        return story;
    }
    let most = |way: Way| {
        let of = wrongs.iter().filter(move |wrong| wrong.way == way);
        of.fold((0.0f64, 0usize), |(most, failures), wrong| match wrong.units {
            Some(units) => (most.max(units), failures),
            None => (most, failures + 1),
        })
    };
    let (ours, our_failures) = most(Way::Ours);
    let told = |way: Way| {
        let (units, failures) = most(way);
        let failures = if failures > 0 { format!(" ({failures} completely wrong)") } else { String::new() };
        format!("{} {}{failures}", way.name(), short(units))
    };
    let others: Vec<String> = Way::ALL.into_iter().filter(|&way| way != Way::Ours).map(told).collect();
    story.answer = format!(
        "Over {} inputs, the largest error of this library was {} units in the last place, and {our_failures} results \
         were completely wrong. The others: {}.",
        wrongs.iter().filter(|wrong| wrong.way == Way::Ours).count(),
        short(ours),
        others.join(", ")
    );
    let described = |way: Way| {
        let (units, failures) = most(way);
        format!("largest error {} units, {failures} results completely wrong", short(units))
    };
    let lossy = |way: Way| most(way).0 > BAD || most(way).1 > 0;
    story.findings = vec![
        Claim::new("library", "This library is accurate to 8 units in the last place on every input").source("C19").exact(
            ours <= GOOD && our_failures == 0,
            described(Way::Ours),
            "at most 8 units, none completely wrong",
        ),
        Claim::new("squares", "The one-pass variance E[x²] − E[x]² loses half of the digits or more on some inputs")
            .source("C19")
            .exact(lossy(Way::Squares), described(Way::Squares), "more than 4,096 units, or completely wrong results"),
        Claim::new(
            "two-pass",
            "Two passes and Welford's method are more accurate than the one-pass variance, but lose digits on some inputs",
        )
        .source("C19")
        .exact(
            [Way::TwoPass, Way::Welford].into_iter().all(|way| {
                let between = most(way).0 > GOOD && most(way).0 <= most(Way::Squares).0;
                between && most(way).1 <= most(Way::Squares).1
            }),
            format!("two passes: {}; Welford: {}", described(Way::TwoPass), described(Way::Welford)),
            "more than 8 units, and no worse than the one-pass variance",
        ),
    ];
    story.charts = vec![grid(&wrongs), lines(&wrongs)];
    story.numbers = Some(Table {
        columns: ["implementation", "description", "largest error, units", "inputs completely wrong"]
            .map(str::to_owned)
            .to_vec(),
        rows: Way::ALL
            .map(|way| {
                let (units, failures) = most(way);
                vec![way.name().into(), way.what().into(), units.into(), (failures as f64).into()]
            })
            .to_vec(),
        notes: vec![
            "Errors are in units in the last place of the larger of |y| and a tenth of the row's largest |y|, relative \
             to a reference of 106 bits."
                .into(),
        ],
    });
    story
}
