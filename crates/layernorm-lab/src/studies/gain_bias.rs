//! What γ and β do: y = γ·x̂ + β.
//!
//! The run `gain-bias-distribution` examines values without training: histograms of x, x̂ and y, and the γ and β that
//! undo the normalization. Runs named `gain-bias-start-…` train from different initial values; runs named
//! `gain-bias-trained-…` and `gain-bias-fixed-…` train with γ and β, and with γ = 1 and β = 0 throughout.

mod distribution;
mod power;
#[cfg(test)]
mod tests;
mod training;

use super::tools::story as blank;
use super::{RunPlan, Settings, Study};
use crate::records::Record;
use crate::report::Story;
use distribution::Distribution;

/// Study of gain and bias.
pub struct GainBias;

/// The run that examines values without training.
const DISTRIBUTION: &str = "gain-bias-distribution";

impl Study for GainBias {
    fn name(&self) -> &'static str {
        "gain-bias"
    }

    fn question(&self) -> &'static str {
        "What do gain γ and bias β do to the normalized values and to training, and can they undo the normalization?"
    }

    fn plan(&self, settings: &Settings) -> Vec<RunPlan> {
        let values = RunPlan::computation(self.name(), DISTRIBUTION, Distribution::new());
        let trained = training::plan(self.name(), settings).into_iter().chain(power::plan(self.name(), settings));
        [values].into_iter().chain(trained).collect()
    }

    fn story(&self, records: &[Record]) -> Story {
        let mut story = blank(self.name(), "What γ and β do", self.question(), records);
        let of_values: Vec<Record> =
            records.iter().filter(|record| record.header.run == DISTRIBUTION).cloned().collect();
        distribution::tell(&mut story, &of_values);
        let trained = records.iter().filter(|record| record.header.run.starts_with(training::TRAINING));
        training::tell(&mut story, &trained.cloned().collect::<Vec<_>>());
        power::tell(&mut story, records);
        story
    }
}
