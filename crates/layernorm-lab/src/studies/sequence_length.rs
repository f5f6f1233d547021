//! Sequences that are longer at test time than in training: an LSTM learns to read images row by row, and is then
//! tested on images preceded by blank rows, so that the image comes later than in training. Batch norm is tested with
//! its running statistics, which do not cover the additional steps, and with those of the test batch, to separate the
//! effect of the statistics.

mod pictures;
#[cfg(test)]
mod tests;

use super::{RunPlan, Settings, Study, trained};
use crate::models::{Arch, Norm, Reads};
use crate::records::Record;
use crate::report::Story;
use crate::training::{Spec, Trial};

/// Study of longer sequences.
pub struct SequenceLength;

/// Name of the network in run names.
const ID: &str = "lstm";
/// Blank rows before the image.
const BLANK: [usize; 6] = [0, 7, 14, 28, 56, 112];
/// The same in the full study.
const FULL_BLANK: [usize; 9] = [0, 7, 14, 28, 56, 112, 224, 448, 784];
/// How many of them are also tested with the statistics of the test batch, which is slow.
const OWN: usize = 4;
/// Epochs of the full study.
const FULL_EPOCHS: usize = 3;
/// Its test images, at most: sequences have up to 812 steps.
const FULL_TEST: usize = 1000;

fn spec(norm: Norm, seed: u64, settings: &Settings) -> Spec {
    let arch = Arch::lstm(if settings.full { 128 } else { 32 }, Reads::Rows);
    let mut spec = Spec::new(arch, norm, seed, &settings.data);
    (spec.learning_rate, spec.batch_size, spec.steps) = (3e-3, 64, 200);
    (spec.validation, spec.test, spec.evaluations) = (250, 500, 2);
    let mut blank = &BLANK[..];
    if settings.full {
        [spec.train, spec.validation, spec.test] = settings.all_images();
        spec.test = spec.test.min(FULL_TEST);
        (spec.batch_size, spec.evaluations) = (64, 5);
        spec.steps = FULL_EPOCHS * spec.steps_of_epoch();
        blank = &FULL_BLANK;
    }
    let trial = |&blank_rows: &usize| Trial { blank_rows, ..Trial::plain(format!("{blank_rows} blank rows")) };
    spec.trials = blank.iter().map(trial).collect();
    spec = trained::chosen(spec, settings);
    if norm == Norm::Batch {
        let own = BLANK[..OWN].iter().map(|blank_rows| Trial {
            name: format!("{blank_rows} blank rows, the batch's own statistics"),
            batch: spec.batch_size,
            as_in_training: true,
            ..trial(blank_rows)
        });
        spec.trials.extend(own);
    }
    spec
}

impl Study for SequenceLength {
    fn name(&self) -> &'static str {
        "sequence-length"
    }

    fn question(&self) -> &'static str {
        "How well does a recurrent network handle sequences longer than those it was trained on?"
    }

    fn plan(&self, settings: &Settings) -> Vec<RunPlan> {
        let arch = spec(Norm::None, 1, settings).arch;
        let quick = |norm: &Norm| settings.full || matches!(norm, Norm::None | Norm::Batch | Norm::Layer | Norm::Group);
        let norms = Norm::ALL.into_iter().filter(|&norm| arch.refuses(norm).is_none()).filter(quick);
        trained::plans(self.name(), ID, norms, settings, spec)
    }

    fn story(&self, records: &[Record]) -> Story {
        pictures::story(self, &trained::read(records), records)
    }
}
