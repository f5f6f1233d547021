use super::*;
use crate::report::{Picture, Verdict};
use crate::studies::tools::testing::{self, differences, verdict};
use serde_json::json;

#[test]
fn statistics_of_every_step_and_both_ways_are_shown() {
    let records = testing::trained(&StepStatistics, &testing::settings(), 3, |run| !run.contains("none"));
    let story = StepStatistics.story(&records);
    let ids: Vec<&str> = story.charts.iter().map(|chart| chart.id.as_str()).collect();
    assert_eq!(ids, ["variance", "mean", "units", "error"]);
    let lines = |number: usize| match &story.charts[number].picture {
        Picture::Lines { series, .. } => series,
        other => panic!("{other:?}"),
    };
    for series in lines(0) {
        let drawn = series.y.iter().filter(|y| y.is_some()).count();
        // U h is 0 at the first step.
        assert_eq!((series.x.len(), drawn), (14, if series.name == "U h" { 13 } else { 14 }), "{}", series.name);
    }
    assert_eq!(lines(2).len(), 4);
    let names: Vec<&str> = lines(3).iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["batch norm, statistics per step", "batch norm, shared statistics", "layer norm"]);
    for series in lines(3) {
        assert_eq!(series.x, [14.0, 28.0, 42.0, 56.0]);
        assert!(series.y.iter().all(Option::is_some), "{series:?}");
    }
}

#[test]
fn questions_are_decided_by_variances_and_errors() {
    let records = testing::synthetic(&StepStatistics, |_, spec| {
        let noise = 0.01 * spec.start.seed as f64;
        let error = |trial: &Trial| match (spec.norm, trial.shared_statistics) {
            (Norm::Batch, false) => 0.1 + 0.1 * trial.repeats as f64 + noise,
            (Norm::Batch, true) => 0.3,
            (Norm::Layer, _) => 0.1 + 0.01 * trial.repeats as f64,
            _ => 0.2,
        };
        let trials = spec
            .trials
            .iter()
            .map(|trial| ("trial", json!({"name": trial.name, "loss": 1.0, "accuracy": 1.0 - error(trial)})));
        let norm = |of: &str, first: f64| json!({"of": of, "mean_size": [0.0, 1.0, 1.0], "variance": [0.001, first, 1.0 + noise], "units": []});
        let statistics = json!({"norms": [norm("W x", 1.0), norm("U h", 0.1), norm("c", 0.1)]});
        let of_batch = (spec.norm == Norm::Batch).then_some(("statistics", statistics));
        testing::evaluations(spec, 0.5, 0.1).into_iter().chain(trials).chain(of_batch).collect()
    });
    let story = StepStatistics.story(&records);
    testing::check(&story);
    assert!(testing::all_supported(&story), "{:?}", story.findings);
    assert_eq!(story.findings.len(), 7);
    assert!((differences(&story, "trained-length")[4] + 5.0).abs() < 1e-9, "10 % against 15 %");
    // log₁₀ 0.1 − log₁₀ 1.01, and log₁₀ 0.001 − log₁₀ 1.01 for c, which is compared from the first step on.
    let found = ["variance-recurrent", "variance-cell"].map(|id| differences(&story, id)[0]);
    assert!((found[0] + 1.0 + 1.01f64.log10()).abs() < 1e-12 && (found[1] + 3.0 + 1.01f64.log10()).abs() < 1e-12);
    assert!((differences(&story, "longer-3")[0] - 18.0).abs() < 1e-9, "20 points more, against 2");

    // With the roles of the statistics exchanged, the opposite is found.
    let mut other = records;
    for event in other.iter_mut().flat_map(|record| &mut record.events).filter(|event| event.name == "trial") {
        if event.data["name"].as_str().is_some_and(|name| name.contains("shared")) {
            event.data["accuracy"] = 0.99.into();
        }
    }
    assert_eq!(verdict(&StepStatistics.story(&other), "shared"), Verdict::Contradicted);
}
