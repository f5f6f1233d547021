//! Shared by studies that train: plans from specs, their runs, and curves with their spread over seeds.

use super::plan::Training;
use super::{RunPlan, Settings};
use crate::data::catalog::EMBEDDED_NAME;
use crate::models::Norm;
use crate::records::Record;
use crate::report::{Bars, Cell, Series};
use crate::training::Spec;
use crate::training::events::{Evaluate, Trained};
use serde::Deserialize;

/// Rows and columns of an embedded image.
const EMBEDDED_IMAGE: [usize; 2] = [28, 28];

/// Plans a run of a spec. Within a study, `case` and the seed identify a run.
pub(crate) fn plan(study: &str, case: &str, spec: Spec, settings: &Settings) -> RunPlan {
    let training = Training {
        case: case.to_owned(),
        seed: spec.start.seed,
        full: settings.full,
        options: options(settings),
        image: image_of(settings),
        spec,
    };
    RunPlan::training(study, training)
}

/// Rows and columns of the data's images.
pub(crate) fn image_of(settings: &Settings) -> [usize; 2] {
    if settings.image == [0, 0] { EMBEDDED_IMAGE } else { settings.image }
}

/// The user's other choices as command-line options.
pub(crate) fn options(settings: &Settings) -> String {
    let part = |name: &str, value: Option<String>| value.map(|value| format!("--{name} {value}"));
    let parts = [
        part("epochs", settings.epochs.map(|epochs| epochs.to_string())),
        part("batch-size", settings.batch_size.map(|size| size.to_string())),
        part("lr", settings.learning_rate.map(|rate| rate.to_string())),
        part("data", (!settings.data.is_empty() && settings.data != EMBEDDED_NAME).then(|| "DIR".to_owned())),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Replaces the study's defaults with the user's choices. Epochs are converted to steps.
pub(crate) fn chosen(mut spec: Spec, settings: &Settings) -> Spec {
    spec.batch_size = settings.batch_size.unwrap_or(spec.batch_size);
    spec.learning_rate = settings.learning_rate.unwrap_or(spec.learning_rate);
    if let Some(epochs) = settings.epochs {
        spec.steps = epochs.saturating_mul(spec.steps_of_epoch());
    }
    spec
}

/// A run read from its record.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    pub(crate) case: String,
    /// Rows and columns of its images, if the record has them.
    image: Option<[usize; 2]>,
    pub(crate) trained: Trained,
    pub(crate) record: Record,
}

/// The settings of [`Training`] that stories use.
#[derive(Deserialize)]
struct Recorded {
    case: String,
    image: Option<[usize; 2]>,
    spec: Spec,
}

/// Reads all training runs among the records.
pub(crate) fn read(records: &[Record]) -> Vec<Ran> {
    let read = |record: &Record| {
        let Recorded { case, image, spec } = Recorded::deserialize(&record.header.settings).ok()?;
        Some(Ran { case, image, trained: Trained::of(spec, record), record: record.clone() })
    };
    records.iter().filter_map(read).collect()
}

/// All events of a name in a run.
pub(crate) fn events<T: for<'a> Deserialize<'a>>(ran: &Ran, name: &str) -> Vec<T> {
    ran.record.named(name).filter_map(|data| T::deserialize(data).ok()).collect()
}

/// Mean, minimum and maximum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) mean: f64,
    pub(crate) lo: f64,
    pub(crate) hi: f64,
    pub(crate) count: usize,
}

impl Spread {
    /// The spread of some numbers; `None` if there are no numbers or one is missing.
    pub(crate) fn of(values: impl IntoIterator<Item = Option<f64>>) -> Option<Spread> {
        let values: Vec<f64> = values.into_iter().collect::<Option<_>>()?;
        let count = values.len();
        let mean = values.iter().sum::<f64>() / count as f64;
        let (lo, hi) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), &x| (lo.min(x), hi.max(x)));
        (count > 0 && mean.is_finite()).then_some(Spread { mean, lo, hi, count })
    }

    /// Formats fractions, for example as `3.4 % (3.1 to 3.9)`.
    pub(crate) fn percent(&self) -> String {
        let percent = |share: f64| super::tools::short(100.0 * share);
        match self.count {
            1 => format!("{} %", percent(self.mean)),
            _ => format!("{} % ({} to {})", percent(self.mean), percent(self.lo), percent(self.hi)),
        }
    }
}

/// The display name of a norm. The page assigns a colour to each.
pub(crate) fn words(norm: Norm) -> &'static str {
    match norm {
        Norm::None => "no norm",
        Norm::Batch => "batch norm",
        Norm::Layer => "layer norm",
        Norm::Rms => "RMS norm",
        Norm::Group => "group norm",
        Norm::Instance => "instance norm",
        Norm::Weight => "weight norm",
    }
}

/// A norm as part of a sentence.
pub(crate) fn with(norm: Norm) -> String {
    match norm {
        Norm::None => "without a norm".to_owned(),
        norm => format!("with {}", words(norm)),
    }
}

/// A curve over steps: the mean over runs that differ only in the seed, with a band from minimum to maximum. There is a
/// gap where a run has diverged.
pub(crate) fn curve(name: &str, runs: &[&Ran], value: impl Fn(&Evaluate) -> Option<f64>) -> Series {
    curve_over(name, runs, |step| step as f64, value)
}

/// [`curve`] with the steps converted to another unit.
pub(crate) fn curve_over(
    name: &str,
    runs: &[&Ran],
    x: impl Fn(usize) -> f64,
    value: impl Fn(&Evaluate) -> Option<f64>,
) -> Series {
    let mut steps: Vec<usize> = runs.iter().flat_map(|ran| ran.trained.evaluations.iter().map(|e| e.step)).collect();
    steps.sort_unstable();
    steps.dedup();
    let at = |step: usize| {
        Spread::of(runs.iter().map(|ran| {
            let evaluation = ran.trained.evaluations.iter().find(|evaluation| evaluation.step == step)?;
            value(evaluation)
        }))
    };
    let spreads: Vec<(usize, Option<Spread>)> = steps.into_iter().map(|step| (step, at(step))).collect();
    // There is no training loss before the first step, so the curve begins after it.
    let from = spreads.iter().position(|(_, spread)| spread.is_some()).unwrap_or(spreads.len());
    series(name, spreads[from..].iter().map(|&(step, spread)| (x(step), spread)))
}

/// A curve of points with their spread; without a band if there is only one seed.
pub(crate) fn series(name: &str, points: impl IntoIterator<Item = (f64, Option<Spread>)>) -> Series {
    let (x, spreads): (Vec<f64>, Vec<Option<Spread>>) = points.into_iter().unzip();
    let part = |of: fn(&Spread) -> f64| spreads.iter().map(|spread| spread.as_ref().map(of)).collect::<Vec<_>>();
    let several = spreads.iter().flatten().any(|spread| spread.count > 1);
    Series {
        name: name.to_owned(),
        x,
        y: part(|spread| spread.mean),
        lo: several.then(|| part(|spread| spread.lo)),
        hi: several.then(|| part(|spread| spread.hi)),
        dashed: false,
    }
}

/// Bars with their spread.
pub(crate) fn bars(name: &str, spreads: &[Option<Spread>]) -> Bars {
    let part = |of: fn(&Spread) -> f64| spreads.iter().map(|spread| spread.as_ref().map(of)).collect::<Vec<_>>();
    Bars {
        name: name.to_owned(),
        values: part(|spread| spread.mean),
        lo: Some(part(|spread| spread.lo)),
        hi: Some(part(|spread| spread.hi)),
    }
}

/// A spread as three cells: mean, minimum, maximum.
pub(crate) fn cells(spread: Option<Spread>) -> [Cell; 3] {
    match spread {
        Some(spread) => [spread.mean.into(), spread.lo.into(), spread.hi.into()],
        None => [Cell::Empty, Cell::Empty, Cell::Empty],
    }
}

/// Rows and columns of the runs' images.
pub(crate) fn image(runs: &[Ran]) -> [usize; 2] {
    runs.iter().find_map(|ran| ran.image).unwrap_or(EMBEDDED_IMAGE)
}

/// Converts fractions to percent.
pub(crate) fn in_percent(spread: Option<Spread>) -> Option<Spread> {
    spread.map(|s| Spread { mean: 100.0 * s.mean, lo: 100.0 * s.lo, hi: 100.0 * s.hi, count: s.count })
}

/// The runs of one case.
pub(crate) fn of_case<'a>(runs: &'a [Ran], case: &str) -> Vec<&'a Ran> {
    runs.iter().filter(|ran| ran.case == case).collect()
}

/// The case name of a network with a norm.
pub(crate) fn case(id: &str, norm: Norm) -> String {
    format!("{id}-{norm}")
}

/// Plans a run for each norm and each seed of a network.
pub(crate) fn plans(
    study: &str,
    id: &str,
    norms: impl IntoIterator<Item = Norm>,
    settings: &Settings,
    spec: impl Fn(Norm, u64, &Settings) -> Spec,
) -> Vec<RunPlan> {
    plans_of(study, id, norms, super::tools::seeds(settings), settings, spec)
}

/// The same with these seeds.
pub(crate) fn plans_of(
    study: &str,
    id: &str,
    norms: impl IntoIterator<Item = Norm>,
    seeds: impl Iterator<Item = u64> + Clone,
    settings: &Settings,
    spec: impl Fn(Norm, u64, &Settings) -> Spec,
) -> Vec<RunPlan> {
    let all = norms.into_iter().flat_map(|norm| seeds.clone().map(move |seed| (norm, seed)));
    all.map(|(norm, seed)| plan(study, &case(id, norm), spec(norm, seed, settings), settings)).collect()
}

/// The runs of a network, grouped by norm.
pub(crate) fn by_norm<'a>(runs: &'a [Ran], id: &str) -> Vec<(Norm, Vec<&'a Ran>)> {
    let all = Norm::ALL.into_iter().map(|norm| (norm, of_case(runs, &case(id, norm))));
    all.filter(|(_, runs)| !runs.is_empty()).collect()
}

/// The test error of a trial, from 0 to 1; 1 if the run diverged or the result is not a number. `None` if the trial has
/// not been made.
pub(crate) fn trial_error(ran: &Ran, name: &str) -> Option<f64> {
    if ran.trained.diverged.is_some() {
        return Some(1.0);
    }
    let trial = ran.trained.trials.iter().find(|trial| trial.name == name)?;
    Some(1.0 - trial.accuracy.unwrap_or(0.0))
}

/// The spread of the final validation error over runs.
pub(crate) fn error(runs: &[&Ran]) -> Option<Spread> {
    Spread::of(runs.iter().map(|ran| ran.trained.error()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_needs_all_values() {
        let spread = Spread::of([Some(0.1), Some(0.3), Some(0.2)]).unwrap();
        assert_eq!((spread.lo, spread.hi, spread.count), (0.1, 0.3, 3));
        assert!((spread.mean - 0.2).abs() < 1e-15);
        assert_eq!(spread.percent(), "20 % (10 to 30)");
        assert_eq!(Spread::of([Some(0.1), None]), None);
        assert_eq!(Spread::of([]), None);
    }
}
