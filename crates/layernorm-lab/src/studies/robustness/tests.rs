use super::*;
use crate::report::Verdict;
use crate::studies::tools::testing::{self, diverged, evaluations, verdict};
use serde_json::json;

#[test]
fn the_story_has_all_trials_and_factors() {
    let wanted = |run: &str| run.contains("-layer-") || run.contains("-none-");
    let records = testing::trained(&Robustness, &testing::settings(), 6, wanted);
    assert_eq!(records.len(), 2 * (INPUT_FACTORS.len() + WEIGHT_FACTORS.len() - 1));
    let story = Robustness.story(&records);
    assert!(story.answer.starts_with("Inputs scaled by 0.01 to 100:"), "{}", story.answer);
    let drawn = story.charts.iter().all(|chart| match &chart.picture {
        crate::report::Picture::Lines { series, .. } => series[0].y.iter().all(Option::is_some),
        _ => false,
    });
    assert!(drawn);
}

#[test]
fn the_worst_factor_decides() {
    let records = testing::synthetic(&Robustness, |run, spec| {
        let layer = spec.norm == Norm::Layer;
        // Large weights diverge without a norm; inputs make no difference.
        if run.contains("weights-10-") && spec.norm == Norm::None {
            return diverged();
        }
        let error = 0.1 + if layer { 0.002 * (spec.start.seed as f64 - 3.0) } else { 0.0 };
        let trial = |name: &String| {
            let error = match name.as_str() {
                "scale-10" if spec.norm == Norm::None => 0.5,
                "scale-10" if spec.norm == Norm::Batch => 0.05,
                _ => error,
            };
            ("trial", json!({"name": name, "loss": 0.3, "accuracy": 1.0 - error}))
        };
        let trials = spec.trials.iter().map(|of| trial(&of.name));
        evaluations(spec, 0.4, error).into_iter().chain(trials).collect()
    });
    let story = Robustness.story(&records);
    testing::check(&story);
    let ids = ["input", "weights", "test-scale-none", "test-scale-batch"];
    use Verdict::*;
    assert_eq!(ids.map(|id| verdict(&story, id)), [Undecided, Supported, Supported, Undecided]);
}
