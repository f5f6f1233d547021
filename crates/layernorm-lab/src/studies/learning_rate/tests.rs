use super::*;
use crate::report::Picture;
use crate::report::Verdict;
use crate::studies::tools::testing::{self, differences, diverged, evaluations, verdict};

#[test]
fn the_map_has_a_cell_for_every_rate() {
    let wanted = |run: &str| {
        ["mlp-none-1e-1-1", "mlp-layer-1e-1-1", "mlp-none-3e1-1", "mlp-layer-3e1-1"]
            .iter()
            .any(|end| run.ends_with(end))
    };
    let records = testing::trained(&LearningRate, &testing::settings(), 12, wanted);
    assert_eq!(records.len(), 4);
    let story = LearningRate.story(&records);
    assert!(story.answer.starts_with("Learning rates at which every seed learns. MLP: "), "{}", story.answer);
    let Picture::Grid { cells, .. } = &story.charts[0].picture else { panic!("a map") };
    assert!(cells.iter().all(|row| row.len() == 2));
}

#[test]
fn ranges_of_rates_are_compared_seed_by_seed() {
    let records = testing::synthetic(&LearningRate, |run, spec| {
        let (rate, seed) = (spec.learning_rate, spec.start.seed);
        // No norm works up to 0.3, in seed 1 up to 0.1; layer norm up to 3 in the MLP and like no norm in the LSTM.
        let limit = match spec.norm {
            Norm::Layer if run.contains("mlp") => 3.0,
            Norm::None | Norm::Layer => {
                if seed == 1 {
                    0.1
                } else {
                    0.3
                }
            }
            _ => return Vec::new(),
        };
        let error = if spec.norm == Norm::Layer { 0.1 + 0.002 * seed as f64 } else { 0.2 };
        if rate <= limit { evaluations(spec, 0.5, error) } else { diverged() }
    });
    let story = LearningRate.story(&records);
    testing::check(&story);
    assert_eq!(differences(&story, "mlp-layer-highest"), [3.0, 2.0, 2.0, 2.0, 2.0]);
    assert_eq!(differences(&story, "mlp-layer-range"), [3.0, 2.0, 2.0, 2.0, 2.0]);
    assert_eq!(verdict(&story, "mlp-layer-highest"), Verdict::Supported);
    assert_eq!(verdict(&story, "lstm-layer-highest"), Verdict::Undecided, "the same range decides nothing");
    assert_eq!(verdict(&story, "lstm-layer-best"), Verdict::Supported);
    assert!(story.findings.iter().all(|finding| !finding.id.contains("batch")), "there are no such runs");
}

#[test]
fn one_rate_asks_no_question() {
    let records = testing::synthetic(&LearningRate, |_, spec| match spec.learning_rate {
        0.1 => evaluations(spec, 0.5, 0.1),
        _ => Vec::new(),
    });
    assert_eq!(LearningRate.story(&records).findings, []);
}
