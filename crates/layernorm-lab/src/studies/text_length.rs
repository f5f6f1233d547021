//! Sequences of varied lengths: an LSTM learns from pieces of 16 to 64 characters, each from a state of zero, in packed
//! batches. It is then tested on shorter and on much longer sequences.

mod pictures;
#[cfg(test)]
mod tests;

use super::{RunPlan, Settings, Study, characters, tools};
use crate::data::Text;
use crate::language::{Cell, Sampling, Spec};
use crate::models::Norm;
use crate::records::Record;
use crate::report::Story;

/// Study of texts of varied lengths.
pub struct TextLength;

const NORMS: [Norm; 2] = [Norm::None, Norm::Layer];
/// Length of the shortest piece in training.
const SHORTEST: usize = 16;
/// Length of the longest piece in training.
const LONGEST: usize = 64;
/// Length of the test sequences.
const TESTED: usize = 512;
/// Steps of the full study.
const FULL_STEPS: usize = 1_000;

fn spec(norm: Norm, seed: u64, settings: &Settings) -> Spec {
    let mut spec = Spec::new(Cell::Lstm, norm, 64, seed, Text::EMBEDDED_LABEL);
    spec.sampling = Sampling::Pieces { shortest: SHORTEST, longest: LONGEST };
    (spec.batch_size, spec.learning_rate) = (8, 1.6e-2);
    (spec.steps, spec.evaluations) = (300, 4);
    (spec.validation, spec.test, spec.positions, spec.sample) = (4_000, 8_000, TESTED, 0);
    if settings.full {
        (spec.hidden, spec.batch_size, spec.learning_rate) = (128, 32, 4e-3);
        (spec.steps, spec.test) = (FULL_STEPS, 36_000);
    }
    characters::chosen(spec, settings)
}

impl Study for TextLength {
    fn name(&self) -> &'static str {
        "text-length"
    }

    fn question(&self) -> &'static str {
        "How well does a language model trained on short pieces of varied lengths handle longer texts?"
    }

    fn plan(&self, settings: &Settings) -> Vec<RunPlan> {
        let all = NORMS.into_iter().flat_map(|norm| tools::seeds(settings).map(move |seed| (norm, seed)));
        all.map(|(norm, seed)| characters::plan(self.name(), norm.name(), spec(norm, seed, settings), settings))
            .collect()
    }

    fn story(&self, records: &[Record]) -> Story {
        pictures::story(self, &characters::read(records), records)
    }
}
