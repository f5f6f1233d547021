//! Error against scale factors of the inputs, of the initial weights, and of the test images only.

use super::{INPUT_FACTORS, NORMS, TEST_FACTORS, TEST_SHIFTS, WEIGHT_FACTORS};
use crate::models::Norm;
use crate::records::Record;
use crate::report::{Axis, Cell, Chart, Finding, Picture, Series, Story, Table};
use crate::studies::findings::{Claim, POINTS, Pair, by_seed, combined, most, one_image};
use crate::studies::tools::{self, axis, capitalized, chart, log_axis, short};
use crate::studies::trained::{Ran, Spread, error, in_percent, of_case, series, trial_error, words};

pub(super) fn story(name: &str, question: &str, runs: &[Ran], records: &[Record]) -> Story {
    let mut story = tools::story(name, "Robustness to scale", question, records);
    story.expectation =
        "Layer norm and batch norm are invariant to the scale of the weights, and layer norm also to that of a single \
         sample (Table 1 of the paper), so a badly chosen scale does less harm than without a norm."
            .to_owned();
    if runs.is_empty() {
        return story;
    }
    let [input, weights] = PARTS;
    story.charts = vec![
        errors(runs, input, "Inputs scaled by a factor", "factor for all inputs, in training and evaluation"),
        errors(runs, weights, "Initial weights scaled by a factor", "factor for the initial weights"),
        tests(
            runs,
            "scale",
            "Only the test images scaled by a factor",
            &TEST_FACTORS,
            log_axis("factor for the test images"),
        ),
        tests(
            runs,
            "shift",
            "Only the test images shifted by an offset",
            &TEST_SHIFTS,
            axis("offset added to the test images"),
        ),
    ];
    story.numbers = Some(table(runs));
    story.answer = answer(runs);
    story.findings = findings(runs);
    story.notes = vec![
        "A network without biases would be exactly invariant where Table 1 says so (see the study `invariance`); these \
         networks have biases, and ε is not 0."
            .to_owned(),
    ];
    story
}

/// What is scaled: name in the runs, description and factors.
type Part = (&'static str, &'static str, &'static [f64]);
const PARTS: [Part; 2] = [("input", "inputs", &INPUT_FACTORS), ("weights", "initial weights", &WEIGHT_FACTORS)];

/// The runs of a factor. Factor 1 is shared: it is the run with unscaled inputs.
fn runs_of<'a>(runs: &'a [Ran], case: &str, norm: Norm, factor: f64) -> Vec<&'a Ran> {
    let case = if factor == 1.0 { "input" } else { case };
    of_case(runs, &format!("{case}-{factor}-{norm}"))
}

fn percent_axis() -> Axis {
    Axis { unit: Some("%".to_owned()), low: Some(0.0), ..axis("validation error") }
}

fn errors(runs: &[Ran], (case, _, factors): Part, title: &str, x: &str) -> Chart {
    let at = |norm, factor| (factor, in_percent(error(&runs_of(runs, case, norm, factor))));
    let curve = |norm| series(words(norm), factors.iter().map(|&factor| at(norm, factor)));
    let picture = Picture::Lines { x: log_axis(x), y: percent_axis(), series: NORMS.map(curve).to_vec(), scrub: false };
    let see = "A flat line means that the scale does not matter. Bands show the range over seeds; a diverged run \
               counts as 100 %.";
    chart(case, title, see, picture)
}

fn tests(runs: &[Ran], kind: &str, title: &str, values: &[f64], x: Axis) -> Chart {
    let curve = |norm: Norm| -> Series {
        let at = |&value: &f64| (value, in_percent(trial(runs, norm, &format!("{kind}-{value}"))));
        series(words(norm), values.iter().map(at))
    };
    let y = Axis { label: "test error".to_owned(), ..percent_axis() };
    let picture = Picture::Lines { x, y, series: NORMS.map(curve).to_vec(), scrub: false };
    let see = "The networks were trained on unchanged images (factor 1, offset 0); the curves show how the error grows \
               as the test images depart from that.";
    chart(&format!("test-{kind}"), title, see, picture)
}

/// The test error of a trial, over seeds.
fn trial(runs: &[Ran], norm: Norm, name: &str) -> Option<Spread> {
    Spread::of(runs_of(runs, "input", norm, 1.0).iter().map(|ran| trial_error(ran, name)))
}

fn table(runs: &[Ran]) -> Table {
    let mut rows = Vec::new();
    for (case, what, factors) in PARTS {
        for &factor in factors {
            let mut row: Vec<Cell> = vec![what.into(), factor.into()];
            row.extend(NORMS.map(|norm| in_percent(error(&runs_of(runs, case, norm, factor))).map(|s| s.mean).into()));
            rows.push(row);
        }
    }
    let mut columns = vec!["scaled".to_owned(), "factor".to_owned()];
    columns.extend(NORMS.map(|norm| words(norm).to_owned()));
    Table { columns, rows, notes: vec!["Validation errors in percent, means over seeds.".to_owned()] }
}

/// The questions: the worst error over all factors, with layer norm and without.
fn findings(runs: &[Ran]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let images = |of: fn(&Ran) -> usize| one_image(runs.iter().map(of).filter(|&images| images > 0).min());
    for (case, what, factors) in PARTS {
        let worst = |norm| {
            let error = |ran: &Ran| Some(100.0 * ran.trained.error()?);
            let of = |&factor: &f64| by_seed(&runs_of(runs, case, norm, factor), error);
            combined(&factors.iter().map(of).collect::<Vec<_>>(), most)
        };
        let (least, largest) = (short(factors[0]), short(factors[factors.len() - 1]));
        let text = format!(
            "With {what} scaled by {least} to {largest}, layer norm lowers the worst validation error relative to no norm"
        );
        let pair = Pair {
            what: "worst validation error over all factors, layer norm − no norm".to_owned(),
            unit: POINTS,
            step: images(|ran| ran.trained.spec.validation),
            ours: worst(Norm::Layer),
            other: worst(Norm::None),
        };
        findings.extend(Claim::new(case, text).source("C11").reason(ADAM).lower(pair));
    }
    let (least, largest) = (short(TEST_FACTORS[0]), short(TEST_FACTORS[TEST_FACTORS.len() - 1]));
    for other in [Norm::None, Norm::Batch] {
        let worst = |norm| {
            let of = |factor: f64| {
                let name = format!("scale-{factor}");
                by_seed(&runs_of(runs, "input", norm, 1.0), |ran| Some(100.0 * trial_error(ran, &name)?))
            };
            combined(&TEST_FACTORS.map(of), most)
        };
        let text = format!(
            "With only the test images scaled by {least} to {largest}, layer norm lowers the worst test error relative to {}",
            words(other)
        );
        let pair = Pair {
            what: format!("worst test error over all factors, layer norm − {}", words(other)),
            unit: POINTS,
            step: images(|ran| ran.trained.spec.test),
            ours: worst(Norm::Layer),
            other: worst(other),
        };
        findings.extend(Claim::new(format!("test-scale-{other}"), text).source("C11").reason(UNAFFECTED).lower(pair));
    }
    findings
}

/// Why layer norm may not make training more robust.
const ADAM: &str = "A possible reason, not tested: Adam divides by the size of the gradient, so networks without a norm \
    also recover from a wrong scale.";
/// Why layer norm may not make tests more robust.
const UNAFFECTED: &str = "A possible reason, not tested: scaled test images change the first layer's bias relative to its \
    inputs, which layer norm does not undo.";

fn answer(runs: &[Ran]) -> String {
    let worst = |(case, _, factors): Part, norm: Norm| {
        let errors: Option<Vec<f64>> =
            factors.iter().map(|&factor| Some(error(&runs_of(runs, case, norm, factor))?.mean)).collect();
        errors.map(|errors| errors.into_iter().fold(0.0, f64::max))
    };
    let mut sentences = Vec::new();
    for part in PARTS {
        let (_, what, factors) = part;
        if let (Some(none), Some(layer)) = (worst(part, Norm::None), worst(part, Norm::Layer)) {
            let percent = |share: f64| short(100.0 * share);
            let batch = worst(part, Norm::Batch)
                .map_or(String::new(), |batch| format!(", {} % with batch norm", percent(batch)));
            let (least, most) = (factors[0], factors[factors.len() - 1]);
            sentences.push(format!(
                "{what} scaled by {} to {}: the worst error is {} % without a norm{batch}, {} % with layer norm",
                short(least),
                short(most),
                percent(none),
                percent(layer)
            ));
        }
    }
    if sentences.is_empty() {
        return "Some runs have not finished yet.".to_owned();
    }
    format!("{}.", capitalized(&sentences.join("; ")))
}
