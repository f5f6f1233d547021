//! Sequences that are longer at test time than in training: an LSTM learns to read images row by row, and is then tested
//!
//! - on images that are read again, up to four times in all. Batch norm is tested with its running statistics, which do
//!   not cover the additional steps, and with those of the test batch, to separate the effect of the statistics.
//! - on images preceded by blank rows, so that the image comes later than in training. Batch norm is not: nothing varies
//!   over the batch in blank rows.
//!
//! The pixels of all images are permuted in the same way, so that every row has the same kind of content. The first rows
//! of an original image are blank, which harms batch norm's statistics of the trained steps.

mod pictures;
#[cfg(test)]
mod tests;

use super::{RunPlan, Settings, Study, trained};
use crate::models::{Arch, Norm, Reads};
use crate::records::Record;
use crate::report::Story;
use crate::training::{Images, Spec, Trial};

/// Study of longer sequences.
pub struct SequenceLength;

/// Name of the network in run names.
const ID: &str = "lstm";
/// How many more times the image is read.
const REPEATS: [usize; 4] = [0, 1, 2, 3];
/// The same in the full study.
const FULL_REPEATS: [usize; 6] = [0, 1, 2, 3, 7, 15];
/// How many of them are also tested with the statistics of the test batch, which is slow.
const OWN: usize = 3;
/// Blank rows before the image: a few, as many as an MNIST image has, and four times as many.
const BLANK: [usize; 3] = [7, 28, 112];
/// The same in the full study.
const FULL_BLANK: [usize; 6] = [7, 14, 28, 56, 112, 448];
/// Epochs of the full study.
const FULL_EPOCHS: usize = 3;
/// Its test images, at most: sequences have up to 476 steps.
const FULL_TEST: usize = 1000;

fn spec(norm: Norm, seed: u64, settings: &Settings) -> Spec {
    let arch = Arch::lstm(if settings.full { 128 } else { 32 }, Reads::Rows);
    let mut spec = Spec::new(arch, norm, seed, &settings.data);
    (spec.learning_rate, spec.batch_size, spec.steps) = (3e-3, 64, 200);
    (spec.validation, spec.test, spec.evaluations) = (250, 500, 2);
    spec.images = Images { permuted: true, ..Images::default() };
    let (mut repeats, mut blank) = (&REPEATS[..], &BLANK[..]);
    if settings.full {
        [spec.train, spec.validation, spec.test] = settings.all_images();
        spec.test = spec.test.min(FULL_TEST);
        (spec.batch_size, spec.evaluations) = (64, 5);
        spec.steps = FULL_EPOCHS * spec.steps_of_epoch();
        (repeats, blank) = (&FULL_REPEATS, &FULL_BLANK);
    }
    let again = |&repeats: &usize| Trial { repeats, ..Trial::plain(format!("read {} times", repeats + 1)) };
    let delayed = |&blank_rows: &usize| Trial { blank_rows, ..Trial::plain(format!("{blank_rows} blank rows")) };
    spec.trials = repeats.iter().map(again).collect();
    spec = trained::chosen(spec, settings);
    if norm == Norm::Batch {
        let own = REPEATS[..OWN].iter().map(|repeats| Trial {
            name: format!("read {} times, the batch's own statistics", repeats + 1),
            batch: spec.batch_size,
            as_in_training: true,
            ..again(repeats)
        });
        spec.trials.extend(own);
    } else {
        spec.trials.extend(blank.iter().map(delayed));
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
