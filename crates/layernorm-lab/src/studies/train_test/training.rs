//! Trained networks, evaluated in inference mode and in training mode, with batches of several sizes.

use crate::models::{Arch, Norm};
use crate::records::Record;
use crate::report::{Axis, Finding, Picture, Story};
use crate::studies::findings::{Claim, POINTS, Pair, by_seed, most, one_image};
use crate::studies::tools::{axis, categories, chart, seeds, short};
use crate::studies::trained::{self, Ran, Spread, bars, in_percent, of_case, trial_error, words};
use crate::studies::{RunPlan, Settings};
use crate::training::{Spec, Trial};

/// Prefix of these runs' names.
pub(super) const TRAINING: &str = "train-test-asked-";

const NORMS: [Norm; 2] = [Norm::Batch, Norm::Layer];
/// Batch sizes for evaluation; training used batches of 64.
const SIZES: [usize; 4] = [1, 4, 16, 64];

/// The evaluations: title, and the trial with its batch size and mode.
fn ways() -> Vec<(String, Trial)> {
    let way = |title: String, batch: usize, as_in_training: bool| {
        let name = format!("{}-{batch}", if as_in_training { "training" } else { "inference" });
        (title, Trial { batch, as_in_training, ..Trial::plain(name) })
    };
    let inference = [1, 64].map(|size| way(format!("inference mode, batch {size}"), size, false));
    let training = SIZES.map(|size| way(format!("training mode, batch {size}"), size, true));
    inference.into_iter().chain(training).collect()
}

/// Epochs of the full study.
const FULL_EPOCHS: usize = 3;

pub(super) fn plan(study: &str, settings: &Settings) -> Vec<RunPlan> {
    let mut plans = Vec::new();
    for norm in NORMS {
        for seed in seeds(settings) {
            let units = if settings.full { 256 } else { 64 };
            let mut spec = Spec::new(Arch::mlp(&[units, units]), norm, seed, &settings.data);
            spec.test = 500;
            if settings.full {
                [spec.train, spec.validation, spec.test] = settings.all_images();
                spec.steps = FULL_EPOCHS * spec.steps_of_epoch();
            }
            spec.trials = ways().into_iter().map(|(_, trial)| trial).collect();
            plans.push(trained::plan(study, &format!("asked-{norm}"), trained::chosen(spec, settings), settings));
        }
    }
    plans
}

/// Adds chart and findings; returns the answer.
pub(super) fn tell(story: &mut Story, records: &[Record]) -> Option<String> {
    let runs = trained::read(records);
    let errors = |norm: Norm| -> Vec<Option<Spread>> {
        let runs = of_case(&runs, &format!("asked-{norm}"));
        ways().iter().map(|(_, trial)| Spread::of(runs.iter().map(|ran| trial_error(ran, &trial.name)))).collect()
    };
    let series = NORMS.map(|norm| bars(words(norm), &errors(norm).into_iter().map(in_percent).collect::<Vec<_>>()));
    let (batch, layer) = (errors(Norm::Batch), errors(Norm::Layer));
    let (&Some(usual), &Some(alone), Some(&Some(ours))) = (batch.first()?, batch.get(ALONE)?, layer.first()) else {
        return None;
    };
    let y = Axis { unit: Some("%".to_owned()), low: Some(0.0), ..axis("test error") };
    let x = categories("mode and batch size", ways().into_iter().map(|(title, _)| title));
    story.charts.push(chart(
        "asked",
        "The same networks, evaluated in different modes",
        "Layer norm's bars all have the same height, because training and inference are the same computation. In \
         training mode, the result of batch norm depends on the other images of the batch; with a batch of one, no \
         information is left.",
        Picture::Bars { x, y, series: series.to_vec() },
    ));
    let same = layer.iter().all(|spread| spread.is_some_and(|spread| spread == ours));
    let words = format!(
        "A trained network with batch norm misclassifies {} in inference mode and {} in training mode with one image \
         at a time; with layer norm it misclassifies {}, {} in all {} evaluations.",
        usual.percent(),
        alone.percent(),
        ours.percent(),
        if same { "the same" } else { "not the same" },
        layer.len()
    );
    story.findings.extend(findings(&runs));
    Some(words)
}

/// The evaluation in training mode with one image.
const ALONE: usize = 2;

/// The questions: batch norm in training mode with few images, and layer norm in every mode.
fn findings(runs: &[Ran]) -> Vec<Finding> {
    let errors = |norm: Norm, as_in_training: bool, size: usize| {
        let ways = ways();
        let way = ways.iter().find(|(_, trial)| trial.as_in_training == as_in_training && trial.batch == size);
        let name = way.map_or("", |(_, trial)| trial.name.as_str());
        by_seed(&of_case(runs, &format!("asked-{norm}")), |ran| Some(100.0 * trial_error(ran, name)?))
    };
    let step = one_image(runs.iter().map(|ran| ran.trained.spec.test).min());
    let mut findings = Vec::new();
    for size in [1, 4] {
        let text = format!(
            "A trained network with batch norm misclassifies more test images in training mode, with batches of {size}, \
             than in inference mode"
        );
        let pair = Pair {
            what: "test error, training mode − inference mode".to_owned(),
            unit: POINTS,
            step,
            ours: errors(Norm::Batch, true, size),
            other: errors(Norm::Batch, false, 64),
        };
        findings.extend(Claim::new(format!("batch-norm-mode-{size}"), text).source("C4").reason(FEW).higher(pair));
    }
    let layer = of_case(runs, &format!("asked-{}", Norm::Layer));
    let apart = |ran: &&Ran| {
        let errors: Option<Vec<f64>> = ways().iter().map(|(_, trial)| trial_error(ran, &trial.name)).collect();
        errors.map(|errors| most(&errors) - errors.iter().copied().fold(f64::INFINITY, f64::min))
    };
    if let Some(apart) = layer.iter().map(apart).collect::<Option<Vec<f64>>>().filter(|apart| !apart.is_empty()) {
        let text = "A trained network with layer norm misclassifies the same number of test images in every mode and at \
                    every batch size";
        let apart = 100.0 * most(&apart);
        findings.push(Claim::new("layer-norm-mode", text).source("C4").exact(
            apart == 0.0,
            format!("errors differ by {} percentage points", short(apart)),
            "0",
        ));
    }
    findings
}

/// Why training mode may not do harm.
const FEW: &str = "A possible reason, not tested: the statistics of so few images would have to be closer to those of \
    all images than the running ones are.";
