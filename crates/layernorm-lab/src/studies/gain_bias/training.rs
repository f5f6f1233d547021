//! Initial values of γ and β, and their effect on training.

use crate::models::{Arch, Norm};
use crate::records::Record;
use crate::report::{Chart, Finding, Picture, Series, Story};
use crate::studies::findings::{Claim, errors};
use crate::studies::tools::{axis, chart, log_axis, many_seeds, short, to_digits};
use crate::studies::trained::{self, Ran, curve, error, of_case};
use crate::studies::{RunPlan, Settings};
use crate::training::Spec;

/// Prefix of these runs' names.
pub(super) const TRAINING: &str = "gain-bias-start-";

/// Tested initial values: γ with β = 0, then β with γ = 1.
const GAINS: [f64; 5] = [0.03, 0.3, 1.0, 3.0, 10.0];
const BIASES: [f64; 4] = [-2.0, -1.0, 1.0, 2.0];

fn starts() -> impl Iterator<Item = (f64, f64)> {
    GAINS.into_iter().map(|gain| (gain, 0.0)).chain(BIASES.into_iter().map(|bias| (1.0, bias)))
}

fn case(gain: f64, bias: f64) -> String {
    format!("start-{gain}-{bias}")
}

/// Epochs of the full study.
const FULL_EPOCHS: usize = 3;

pub(super) fn plan(study: &str, settings: &Settings) -> Vec<RunPlan> {
    let units = if settings.full { 256 } else { 64 };
    let mut plans = Vec::new();
    for (gain, bias) in starts() {
        for seed in many_seeds(settings) {
            let mut spec = Spec::new(Arch::mlp(&[units, units, units]), Norm::Layer, seed, &settings.data);
            if settings.full {
                [spec.train, spec.validation, spec.test] = settings.all_images();
                spec.steps = FULL_EPOCHS * spec.steps_of_epoch();
            }
            (spec.start.gain, spec.start.bias) = (gain, bias);
            plans.push(trained::plan(study, &case(gain, bias), trained::chosen(spec, settings), settings));
        }
    }
    plans
}

/// Adds the results in the records to the story.
pub(super) fn tell(story: &mut Story, records: &[Record]) {
    let runs = trained::read(records);
    let usual = error(&of_case(&runs, &case(1.0, 0.0)));
    let worst = starts().filter_map(|(gain, bias)| Some((gain, bias, error(&of_case(&runs, &case(gain, bias)))?)));
    let worst = worst.max_by(|a, b| a.2.mean.total_cmp(&b.2.mean));
    let (Some(usual), Some((gain, bias, error))) = (usual, worst) else { return };
    let words = format!(
        "The error after training is {} % from γ = 1 and β = 0, and {} % with the worst initialization tested, γ = {} and \
         β = {}.",
        to_digits(100.0 * usual.mean, 1),
        to_digits(100.0 * error.mean, 1),
        short(gain),
        short(bias)
    );
    story.findings.extend(findings(&runs));
    // The answer about the values comes first, if there is one.
    story.answer = if story.charts.is_empty() { words } else { format!("{} {words}", story.answer) };
    let gains = GAINS.into_iter().map(|gain| (format!("γ = {}", short(gain)), case(gain, 0.0)));
    let biases = [-2.0, -1.0, 0.0, 1.0, 2.0].map(|bias| (format!("β = {}", short(bias)), case(1.0, bias)));
    story.charts.push(curves(&runs, "gains", "Training with different initial gains", gains));
    story.charts.push(curves(&runs, "biases", "Training with different initial biases", biases));
}

/// The questions: whether the usual initialization is better than the extreme ones.
fn findings(runs: &[Ran]) -> Vec<Finding> {
    let usual = of_case(runs, &case(1.0, 0.0));
    let extremes = [(GAINS[0], 0.0), (GAINS[GAINS.len() - 1], 0.0), (1.0, BIASES[0]), (1.0, BIASES[BIASES.len() - 1])];
    let mut findings = Vec::new();
    for (gain, bias) in extremes {
        let start = if bias == 0.0 { format!("γ = {}", short(gain)) } else { format!("β = {}", short(bias)) };
        let usual_start = if bias == 0.0 { "γ = 1" } else { "β = 0" };
        let text =
            format!("Training from {start} ends with a higher validation error than training from {usual_start}");
        let pair = errors(format!("{start} − {usual_start}"), &of_case(runs, &case(gain, bias)), &usual);
        findings.extend(Claim::new(case(gain, bias), text).source("C13").reason(RECOVERS).higher(pair));
    }
    findings
}

fn curves(runs: &[Ran], id: &str, title: &str, of: impl IntoIterator<Item = (String, String)>) -> Chart {
    let series = of.into_iter().map(|(name, case)| curve(&name, &of_case(runs, &case), |e| e.loss));
    let series: Vec<Series> = series.filter(|series| !series.x.is_empty()).collect();
    let see = "Validation loss of an MLP with layer norm. All norms start at these values and learn from there; the \
               curves show how long a bad initialization matters.";
    let picture = Picture::Lines { x: axis("training step"), y: log_axis("validation loss"), series, scrub: true };
    chart(&format!("start-{id}"), title, see, picture)
}

/// Why an extreme initialization may not do harm.
const RECOVERS: &str = "A possible reason, not tested: γ and β are trained too, and large initial values act like a higher \
    learning rate.";
