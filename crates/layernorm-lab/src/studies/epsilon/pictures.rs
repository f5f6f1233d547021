//! The story of ε.

use super::{Constant, EPS, Epsilon, Half, Spread};
use crate::records::Record;
use crate::report::{Axis, Cell, Chart, Picture, Series, Story, Table};
use crate::studies::Study;
use crate::studies::findings::Claim;
use crate::studies::tools::{chart, events, log_axis, short, story as blank};

fn name(eps: f64) -> String {
    format!("ε = {}", short(eps))
}

/// One curve per ε: the mean of `of` over seeds, against σ.
fn curves(spreads: &[Spread], of: fn(&Spread) -> f64) -> Vec<Series> {
    let mut series = Vec::new();
    for eps in EPS {
        let mut points: Vec<(f64, Vec<f64>)> = Vec::new();
        for spread in spreads.iter().filter(|spread| spread.eps == eps) {
            match points.iter_mut().find(|(sigma, _)| *sigma == spread.sigma) {
                Some((_, values)) => values.push(of(spread)),
                None => points.push((spread.sigma, vec![of(spread)])),
            }
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        series.push(Series {
            name: name(eps),
            x: points.iter().map(|(sigma, _)| *sigma).collect(),
            y: points.iter().map(|(_, values)| Some(mean(values))).collect(),
            ..Series::default()
        });
    }
    series
}

/// A dashed curve for the result without ε.
fn without(spreads: &[Spread], of: fn(f64) -> f64) -> Series {
    let mut x: Vec<f64> = spreads.iter().map(|spread| spread.sigma).collect();
    x.sort_by(f64::total_cmp);
    x.dedup();
    let y = x.iter().map(|&sigma| Some(of(sigma))).collect();
    Series { name: "without ε".into(), x, y, dashed: true, ..Series::default() }
}

fn lines(y: &str, series: Vec<Series>, log: bool) -> Picture {
    let y = Axis { log, low: (!log).then_some(0.0), ..log_axis(y) };
    Picture::Lines { x: log_axis("standard deviation σ of the row"), y, series, scrub: false }
}

fn line_charts(spreads: &[Spread]) -> Vec<Chart> {
    let mut output = curves(spreads, |spread| spread.output);
    output.push(without(spreads, |_| 1.0));
    let mut gradient = curves(spreads, |spread| spread.gradient);
    gradient.push(without(spreads, |sigma| 1.0 / sigma));
    vec![
        chart(
            "output",
            "Scale of the normalized values",
            "To the right of σ = √ε each curve approaches 1; to the left it falls with σ, because there ε, not the \
             variance of the row, sets the scale.",
            lines("standard deviation of the output", output, true),
        ),
        chart(
            "gradient",
            "Scale of the gradient",
            "Without ε, a row with a small σ multiplies its gradient by 1/σ; with ε, by at most 1/√ε.",
            lines("input gradient, relative to the output's", gradient, true),
        ),
        chart(
            "error",
            "Error in single precision",
            format!(
                "Rows with mean 0 and mean 1, down to the smallest σ that f32 can represent: no error exceeds {} units \
                 in the last place.",
                short(spreads.iter().map(|spread| spread.error).fold(0.0, f64::max))
            ),
            lines("largest error, units in the last place", curves(spreads, |spread| spread.error), false),
        ),
    ]
}

fn constant_table(constants: &[Constant]) -> Chart {
    let mut rows = Vec::new();
    for eps in EPS.into_iter().chain([0.0]) {
        let of = || constants.iter().filter(move |constant| constant.eps == eps);
        let not_finite = of().filter(|constant| constant.off.is_none()).count();
        let off = of().filter_map(|constant| constant.off).max_by(f64::total_cmp);
        let single = of().filter(|constant| constant.kind == "f32").filter_map(|constant| constant.gradient);
        rows.push(vec![
            Cell::Number(eps),
            Cell::Number(of().count() as f64),
            off.into(),
            Cell::Number(not_finite as f64),
            single.max_by(f64::total_cmp).into(),
            if eps > 0.0 { Cell::Number(1.0 / eps.sqrt()) } else { Cell::Empty },
        ]);
    }
    let columns = ["ε", "rows", "largest |y − β|", "rows not finite", "gradient factor (f32)", "1/√ε"];
    chart(
        "constant",
        "Constant rows",
        "With ε > 0, a constant row gives exactly β (0 in the third column), and its gradient is multiplied by 1/√ε. \
         With ε = 0 the result is not a number.",
        Picture::Table(Table {
            columns: columns.map(str::to_owned).to_vec(),
            rows,
            notes: vec![
                "Rows of 0, 0.1, −7.3, 10⁴ and 3·10³⁸ in f16, bf16, f32 and f64, if the type can represent the value."
                    .into(),
            ],
        }),
    )
}

fn half_table(halves: &[Half]) -> Chart {
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    let mut told: Vec<(f64, f64)> = Vec::new();
    for half in halves {
        if told.contains(&(half.eps, half.sigma)) {
            continue;
        }
        told.push((half.eps, half.sigma));
        let word = |spread: Option<f64>| spread.map_or("not finite".into(), Cell::Number);
        rows.push(vec![
            half.eps.into(),
            half.eps_f16.into(),
            half.eps_bf16.into(),
            half.sigma.into(),
            word(half.ours),
            word(half.plain),
        ]);
    }
    let columns = [
        "ε",
        "ε in f16",
        "ε in bf16",
        "σ of the row",
        "std. dev. of y, this library",
        "std. dev. of y, all arithmetic in f16",
    ];
    chart(
        "half",
        "Half precision",
        "f16 cannot represent 10⁻⁸: rounded to f16, such an ε becomes 0. The library computes in f32 and keeps it.",
        Picture::Table(Table { columns: columns.map(str::to_owned).to_vec(), rows, notes: Vec::new() }),
    )
}

pub(super) fn story(question: &str, records: &[Record]) -> Story {
    let mut story = blank(Epsilon.name(), "What ε does", question, records);
    story.expectation = "ε keeps the division finite: a constant row gives β, a row with σ² ≪ ε keeps a standard \
                         deviation below 1, and no gradient grows by more than 1/√ε. If ε is too small, gradients of \
                         nearly constant rows explode; if it is too large, rows are not normalized."
        .to_owned();
    let spreads: Vec<Spread> = events(records, "spread");
    let constants: Vec<Constant> = events(records, "constant");
    let halves: Vec<Half> = events(records, "half");
    if spreads.is_empty() || constants.is_empty() {
        return story;
    }
    let with_eps = || constants.iter().filter(|constant| constant.eps > 0.0);
    let exact = with_eps().filter(|constant| constant.off == Some(0.0)).count();
    let gap = spreads.iter().map(|spread| spread.gap).fold(0.0, f64::max);
    let error = spreads.iter().map(|spread| spread.error).fold(0.0, f64::max);
    let at = |eps: f64, sigma: f64| spreads.iter().find(|spread| (spread.eps, spread.sigma) == (eps, sigma));
    story.answer = format!(
        "{exact} of {} constant rows gave exactly β.{} In f32 the error was at most {} units in the last place, and \
         standard deviation and gradient matched the formulas to within {}.",
        with_eps().count(),
        at(1e-5, 1e-3).map_or(String::new(), |spread| format!(
            " With ε = 10⁻⁵, a row with σ = 0.001 was normalized to σ = {}, and its gradient was multiplied by {}.",
            short(spread.output),
            short(spread.gradient)
        )),
        short(error),
        short(gap)
    );
    let bounded = spreads.iter().map(|spread| spread.gradient * spread.eps.sqrt()).fold(0.0, f64::max);
    let all = with_eps().count();
    story.findings = vec![
        Claim::new("constant", "With ε > 0, a constant row gives exactly β, in every type").source("C14").exact(
            exact == all,
            format!("{exact} of {all} rows"),
            format!("{all} of {all} rows"),
        ),
        Claim::new("bound", "ε limits the growth of gradients to 1/√ε").source("C14").exact(
            bounded <= 1.0,
            format!("largest factor {} of 1/√ε", short(bounded)),
            "at most 1",
        ),
        // The formulas hold to within a few roundings of f32; one part in ten thousand is far more than that.
        Claim::new("formulas", "A row's standard deviation and gradient are scaled by 1/sqrt(σ² + ε)")
            .source("C14")
            .exact(gap < 1e-4, format!("largest relative difference {}", short(gap)), "below 10⁻⁴"),
        Claim::new("accuracy", "In f32 the result is accurate to 8 units in the last place, however small σ is")
            .source("C14")
            .exact(error < 8.0, format!("largest error {} units", short(error)), "below 8 units"),
    ];
    story.charts = line_charts(&spreads);
    story.charts.push(constant_table(&constants));
    if !halves.is_empty() {
        story.charts.push(half_table(&halves));
        let lost = |of: fn(&Half) -> Option<f64>| halves.iter().filter(|half| of(half).is_none()).count();
        let vanished = halves.iter().filter(|half| half.sigma > 0.0 && half.plain == Some(0.0)).count();
        story.notes.push(format!(
            "With all arithmetic in f16, {} of {} inputs gave NaN or infinity (ε rounded to 0) and {vanished} gave \
             zeros (squares overflow f16). With arithmetic in f32, as in this library, {} were not finite.",
            lost(|half| half.plain),
            halves.len(),
            lost(|half| half.ours)
        ));
        let [ours, plain] = [lost(|half| half.ours), lost(|half| half.plain)];
        story.findings.push(
            Claim::new("half", "With all arithmetic in f16, small ε fail; with arithmetic in f32, they do not")
                .source("C14")
                .exact(
                    plain > 0 && ours == 0,
                    format!("{plain} and {ours} of {} results are not finite", halves.len()),
                    "some and none",
                ),
        );
    }
    story.notes.push("ε = 0 is allowed. A constant row then divides 0 by 0 and gives NaN, as in IEEE 754.".into());
    story
}
