//! Training and inference, single samples and batches: layer norm has one computation, batch norm two.
//!
//! The run `train-test-bits` compares layer norm's results bit by bit; runs named `train-test-statistics-…` follow
//! batch norm's running statistics over a stream of batches; runs named `train-test-asked-…` train networks and
//! evaluate them in both modes.

mod bits;
mod statistics;
#[cfg(test)]
mod tests;
mod training;

use super::tools::{self, story as blank};
use super::{RunPlan, Settings, Study};
use crate::records::Record;
use crate::report::Story;
use bits::CompareBits;
use statistics::FollowStatistics;

/// Study of training and inference.
pub struct TrainTest;

/// The run that compares bits.
const BITS: &str = "train-test-bits";
/// Prefix of the runs that follow running statistics; the seed is appended.
const STATISTICS: &str = "train-test-statistics-";

impl Study for TrainTest {
    fn name(&self) -> &'static str {
        "train-test"
    }

    fn question(&self) -> &'static str {
        "Does a network compute the same outputs in training and at inference, and do they depend on the batch?"
    }

    fn plan(&self, settings: &Settings) -> Vec<RunPlan> {
        let bits = RunPlan::computation(self.name(), BITS, CompareBits { data_seed: 1, full: settings.full });
        let batches = if settings.full { 1000 } else { 200 };
        let statistics = |seed| {
            RunPlan::computation(self.name(), &format!("{STATISTICS}{seed}"), FollowStatistics { seed, batches })
        };
        let trained = training::plan(self.name(), settings);
        [bits].into_iter().chain(tools::seeds(settings).map(statistics)).chain(trained).collect()
    }

    fn story(&self, records: &[Record]) -> Story {
        let of = |wanted: fn(&str) -> bool| -> Vec<Record> {
            records.iter().filter(|record| wanted(&record.header.run)).cloned().collect()
        };
        let mut story = blank(self.name(), "Training and inference", self.question(), records);
        story.expectation =
            "Layer norm normalizes each sample separately: the computation is the same in training and at inference, \
             and so is the result at any batch size. Batch norm uses batch statistics in training and running \
             statistics at inference, and cannot train on a batch of one."
                .to_owned();
        let parts = [
            bits::tell(&mut story, &of(|run| run == BITS)),
            statistics::tell(&mut story, &of(|run| run.starts_with(STATISTICS))),
            training::tell(&mut story, &of(|run| run.starts_with(training::TRAINING))),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if !parts.is_empty() {
            story.answer = parts.join(" ");
        }
        story
    }
}
