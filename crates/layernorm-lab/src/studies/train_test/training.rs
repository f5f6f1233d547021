//! Trained networks, evaluated in inference mode and in training mode, with batches of several sizes.

use crate::models::{Arch, Norm};
use crate::records::Record;
use crate::report::{Axis, Picture, Story};
use crate::studies::tools::{axis, categories, chart, seeds};
use crate::studies::trained::{self, Ran, Spread, bars, in_percent, of_case, words};
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

/// Adds the chart; returns the answer and whether it is as expected.
pub(super) fn tell(story: &mut Story, records: &[Record]) -> Option<(String, bool)> {
    let runs = trained::read(records);
    let errors = |norm: Norm| -> Vec<Option<Spread>> {
        let runs = of_case(&runs, &format!("asked-{norm}"));
        ways().iter().map(|(_, trial)| Spread::of(runs.iter().map(|ran| asked(ran, &trial.name)))).collect()
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
    Some((words, same && alone.mean > usual.mean))
}

/// The evaluation in training mode with one image.
const ALONE: usize = 2;

fn asked(ran: &Ran, trial: &str) -> Option<f64> {
    Some(1.0 - ran.trained.trials.iter().find(|found| found.name == trial)?.accuracy?)
}
