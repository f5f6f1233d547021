//! List of all studies.

use super::Study;
use super::activations::Activations;
use super::batch_size::BatchSize;
use super::compare::Compare;
use super::correlation::Correlation;
use super::depth::Depth;
use super::draw::{Draw, DrawPaper};
use super::dynamics::HiddenDynamics;
use super::effective_rate::EffectiveRate;
use super::epsilon::Epsilon;
use super::gain_bias::GainBias;
use super::generalization::Generalization;
use super::gradient_flow::GradientFlow;
use super::implementations::Implementations;
use super::induced_shift::InducedShift;
use super::invariance::Invariance;
use super::language::Language;
use super::learning_rate::LearningRate;
use super::robustness::Robustness;
use super::sequence_length::SequenceLength;
use super::step_statistics::StepStatistics;
use super::stream::Streams;
use super::text_length::TextLength;
use super::train_test::TrainTest;
use super::worked_example::WorkedExample;

/// All studies, in report order.
pub fn all() -> Vec<&'static dyn Study> {
    vec![
        &WorkedExample,
        &Compare,
        &LearningRate,
        &BatchSize,
        &Streams,
        &Generalization,
        &TrainTest,
        &Depth,
        &GradientFlow,
        &HiddenDynamics,
        &Correlation,
        &Activations,
        &InducedShift,
        &EffectiveRate,
        &Invariance,
        &Robustness,
        &SequenceLength,
        &Draw,
        &DrawPaper,
        &StepStatistics,
        &Language,
        &TextLength,
        &GainBias,
        &Epsilon,
        &Implementations,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::studies::tools::last_seed;
    use crate::studies::{Common, RunPlan, Settings};
    use serde::Deserialize;

    #[test]
    fn names_are_unique_and_fit_files() {
        let mut names: Vec<String> = Vec::new();
        for study in all() {
            assert!(study.question().ends_with('?'));
            assert_eq!(study.story(&[]).id, study.name());
            names.push(study.name().to_owned());
            for settings in [Settings::default(), Settings { full: true, ..Settings::default() }] {
                let seed = |plan: &RunPlan| Common::deserialize(&plan.header().settings).ok()?.seed;
                let seeds = study.plan(&settings).iter().filter_map(seed).max();
                assert!(seeds.is_none_or(|seed| seed == last_seed(study.name(), settings.full)), "{}", study.name());
            }
            for settings in [Settings::default(), Settings { full: true, seeds: Some(1), ..Settings::default() }] {
                let runs: Vec<String> = study.plan(&settings).iter().map(|plan| plan.run().to_owned()).collect();
                assert!(runs.iter().all(|run| run.starts_with(study.name())), "{runs:?}");
                assert!((1..runs.len()).all(|i| !runs[..i].contains(&runs[i])), "{runs:?}");
            }
        }
        names.sort();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }
}
