//! Four networks, each with every norm that it supports: how fast they learn, and their final error.

mod pictures;
#[cfg(test)]
mod tests;

use super::trained::{self, Ran};
use super::{RunPlan, Settings, Study, tools};
use crate::models::{Arch, Norm, Reads};
use crate::records::Record;
use crate::report::Story;
use crate::training::Spec;

/// Study that compares norms.
pub struct Compare;

/// A network of the comparison.
pub(super) struct Entry {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    arch: Arch,
    steps: usize,
}

/// The networks of the quick or the full study.
pub(super) fn entries(full: bool) -> Vec<Entry> {
    let of = |id, title, arch, steps| Entry { id, title, arch, steps };
    let transformer = |pre_norm| match full {
        true => Arch::Transformer { width: 64, heads: 4, blocks: 2, pre_norm },
        false => Arch::Transformer { width: 16, heads: 2, blocks: 2, pre_norm },
    };
    let (units, hidden, channels) = if full { (256, 128, [16, 32]) } else { (100, 32, [8, 16]) };
    let lstm = Arch::lstm(hidden, Reads::Rows);
    let mut entries = vec![
        of("mlp", "MLP", Arch::mlp(&[units, units, units]), 150),
        of("lstm", "LSTM over rows", lstm, 250),
        of("cnn", "CNN", Arch::Cnn { channels }, 120),
        of("transformer", "Transformer, post-norm", transformer(false), 150),
        of("transformer-pre", "Transformer, pre-norm", transformer(true), 150),
    ];
    if full {
        entries.push(of("pixels", "LSTM over 784 pixels", Arch::lstm(64, Reads::Pixels), 0));
    }
    entries
}

/// Epochs of the full study. An LSTM over pixels takes 28 times as long as one over rows, so it gets fewer.
const FULL_EPOCHS: usize = 5;
const PIXEL_EPOCHS: usize = 1;

impl Study for Compare {
    fn name(&self) -> &'static str {
        "compare"
    }

    fn question(&self) -> &'static str {
        "How do networks learn without a norm, with batch norm, with layer norm and with related norms?"
    }

    fn plan(&self, settings: &Settings) -> Vec<RunPlan> {
        let mut plans = Vec::new();
        for entry in entries(settings.full) {
            let fits = |norm: &Norm| entry.arch.refuses(*norm).is_none();
            for norm in Norm::ALL.into_iter().filter(fits) {
                for seed in tools::seeds(settings) {
                    let mut spec = Spec::new(entry.arch.clone(), norm, seed, &settings.data);
                    spec.learning_rate = 2e-3;
                    spec.steps = entry.steps;
                    if settings.full {
                        [spec.train, spec.validation, spec.test] = settings.all_images();
                        spec.evaluations = 25;
                        let epochs = if entry.id == "pixels" { PIXEL_EPOCHS } else { FULL_EPOCHS };
                        spec.steps = epochs * spec.steps_of_epoch();
                    }
                    let case = trained::case(entry.id, norm);
                    plans.push(trained::plan(self.name(), &case, trained::chosen(spec, settings), settings));
                }
            }
        }
        plans
    }

    fn story(&self, records: &[Record]) -> Story {
        let runs: Vec<Ran> = trained::read(records);
        pictures::story(self.name(), self.question(), &runs, records)
    }
}
