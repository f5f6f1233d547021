//! Shared by studies of language models: plans, their runs, and bits per character with their spread over seeds.

use super::findings::{BySeed, collect};
use super::plan::LanguageTraining;
use super::trained::{Spread, options, series};
use super::{RunPlan, Settings};
use crate::data::Text;
use crate::language::Spec;
use crate::language::events::{Evaluate, Trained};
use crate::records::Record;
use crate::report::Series;
use serde::Deserialize;

/// Number of characters in the training part of the embedded text.
pub(crate) const TRAIN: usize = 656_691;

/// Plans a run of a spec on the embedded text. Within a study, `case` and the seed identify a run.
pub(crate) fn plan(study: &str, case: &str, spec: Spec, settings: &Settings) -> RunPlan {
    // The text is always the embedded one, whatever the images are.
    let options = options(&Settings { data: String::new(), ..settings.clone() });
    let (case, seed) = (case.to_owned(), spec.start.seed);
    RunPlan::language(study, LanguageTraining { case, seed, full: settings.full, options, spec })
}

/// Replaces the study's defaults with the user's choices. Epochs are converted to steps.
pub(crate) fn chosen(mut spec: Spec, settings: &Settings) -> Spec {
    spec.batch_size = settings.batch_size.unwrap_or(spec.batch_size);
    spec.learning_rate = settings.learning_rate.unwrap_or(spec.learning_rate);
    if let Some(epochs) = settings.epochs {
        spec.steps = epochs.saturating_mul(spec.steps_of_epoch(TRAIN));
    }
    spec
}

/// A run read from its record.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    pub(crate) case: String,
    pub(crate) trained: Trained,
}

/// The settings of [`LanguageTraining`] that stories use besides the spec.
#[derive(Deserialize)]
struct Recorded {
    case: String,
}

/// Reads all runs of language models among the records.
pub(crate) fn read(records: &[Record]) -> Vec<Ran> {
    let read = |record: &Record| {
        let Recorded { case } = Recorded::deserialize(&record.header.settings).ok()?;
        Some(Ran { case, trained: Trained::read(record)? })
    };
    records.iter().filter_map(read).collect()
}

/// The runs of one case.
pub(crate) fn of_case<'a>(runs: &'a [Ran], case: &str) -> Vec<&'a Ran> {
    runs.iter().filter(|ran| ran.case == case).collect()
}

/// A value by seed.
pub(crate) fn by_seed(runs: &[&Ran], value: impl Fn(&Trained) -> Option<f64>) -> BySeed {
    collect(runs.iter().map(|ran| (ran.trained.spec.start.seed, value(&ran.trained))))
}

/// The spread of a value over seeds; `None` if a run has none.
pub(crate) fn spread(runs: &[&Ran], value: impl Fn(&Trained) -> Option<f64>) -> Option<Spread> {
    Spread::of(runs.iter().map(|ran| value(&ran.trained)))
}

/// Bits per character of guessing: the result of a diverged run.
pub(crate) fn guessing() -> f64 {
    (Text::EMBEDDED_SYMBOLS as f64).log2()
}

/// A result of a finished run; that of guessing if it diverged.
pub(crate) fn or_guessing(trained: &Trained, bits: Option<f64>) -> Option<f64> {
    if trained.diverged.is_some() { Some(guessing()) } else { bits }
}

/// The final validation bits per character.
pub(crate) fn final_bits(trained: &Trained) -> Option<f64> {
    or_guessing(trained, trained.last().and_then(|last| last.bits))
}

/// The test bits per character.
pub(crate) fn test_bits(trained: &Trained) -> Option<f64> {
    or_guessing(trained, trained.test.as_ref().and_then(|test| test.bits))
}

/// The mean of the validation bits per character during training: the lower, the faster it learned. Evaluations after
/// divergence count as guessing.
pub(crate) fn mean_bits(trained: &Trained) -> Option<f64> {
    let seen = trained.evaluations.iter().filter(|evaluation| evaluation.step > 0);
    let mut bits: Vec<f64> = seen.map(|evaluation| or_guessing(trained, evaluation.bits)).collect::<Option<_>>()?;
    if trained.diverged.is_some() {
        bits.resize(trained.spec.evaluation_steps().len() - 1, guessing());
    }
    (!bits.is_empty()).then(|| bits.iter().sum::<f64>() / bits.len() as f64)
}

/// A curve over steps: the mean over runs that differ only in the seed, with a band from minimum to maximum.
pub(crate) fn curve(name: &str, runs: &[&Ran], value: impl Fn(&Evaluate) -> Option<f64>) -> Series {
    let mut steps: Vec<usize> = runs.iter().flat_map(|ran| ran.trained.evaluations.iter().map(|e| e.step)).collect();
    steps.sort_unstable();
    steps.dedup();
    let of = |ran: &&Ran, step| value(ran.trained.evaluations.iter().find(|evaluation| evaluation.step == step)?);
    series(name, steps.into_iter().map(|step| (step as f64, Spread::of(runs.iter().map(|ran| of(ran, step))))))
}

/// Bits per character with two decimals.
pub(crate) fn two(bits: f64) -> String {
    format!("{bits:.2}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Part;

    #[test]
    fn the_training_part_has_this_length() {
        let text = Text::embedded().unwrap();
        assert_eq!(text.part(Part::Train).len(), TRAIN);
        assert!((guessing() - 6.248).abs() < 1e-3);
    }
}
