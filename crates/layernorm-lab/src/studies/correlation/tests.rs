use super::*;
use crate::report::Picture;
use crate::report::Verdict;
use crate::studies::tools::testing::{self, differences, verdict};
use serde_json::json;

#[test]
fn batch_norm_changes_no_correlation_and_layer_norm_does() {
    let records = testing::trained(&Correlation, &testing::settings(), 3, |run| !run.contains("rms"));
    let story = Correlation.story(&records);
    assert_eq!(verdict(&story, "batch-norm"), Verdict::Supported, "{}", story.answer);
    assert!(story.answer.contains("layer norm changes individual ones"), "{}", story.answer);
    let maps = |id: &str| match &story.charts.iter().find(|chart| chart.id == id).unwrap().picture {
        Picture::Heatmaps { maps, .. } => maps.iter().map(|map| map.name.clone()).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(maps("maps-start"), ["no norm", "after batch norm", "after layer norm"]);
    assert_eq!(maps("maps-end")[2..5], ["before layer norm", "no norm (unchanged)", "after batch norm"]);
    let ids: Vec<&str> = story.charts.iter().map(|chart| chart.id.as_str()).collect();
    assert_eq!(ids, ["maps-start", "maps-end", "course", "drift-mean", "drift-variance"]);
    // After layer norm the mean is β and the variance γ², which start at 0 and 1.
    let Picture::Lines { series, .. } = &story.charts[4].picture else { panic!("lines") };
    let layer = series.iter().find(|series| series.name == "layer norm").unwrap();
    assert!((layer.y[0].unwrap() - 1.0).abs() < 1e-3, "{layer:?}");
}

#[test]
fn an_incomplete_matrix_is_left_out() {
    let mut records = testing::trained(&Correlation, &testing::settings(), 1, |run| run.contains("layer"));
    for event in records[0].events.iter_mut().filter(|event| event.name == "correlation") {
        event.data["after"] = vec![0.5; 3].into();
        event.data["before"] = vec![0.5; 3].into();
    }
    let story = Correlation.story(&records);
    assert!(story.charts.iter().all(|chart| !matches!(chart.picture, Picture::Heatmaps { .. })));
    testing::check(&story);
}

#[test]
fn the_questions_are_about_size_and_drift() {
    let records = testing::synthetic(&Correlation, |_, spec| {
        let seed = spec.start.seed as f64;
        let (before, after) = if spec.norm == Norm::Layer { (0.3, 0.2 + 0.001 * seed) } else { (0.4, 0.4) };
        let matrix = |off: f64| vec![1.0, off, off, 1.0];
        let drift = if spec.norm == Norm::Layer { 0.1 } else { 1.0 + 0.01 * seed };
        let mut events = Vec::new();
        for step in [0, spec.steps] {
            let moved = drift * f64::from(step > 0);
            let (before, after) = (matrix(before), matrix(after));
            events.push((
                "correlation",
                json!({"step": step, "layer": "layer 1", "units": 2, "before": before, "after": after}),
            ));
            let values = [moved, 10f64.powf(-moved)];
            events.push(("moments", json!({"step": step, "layer": "layer 2", "before": values, "after": values})));
        }
        events
    });
    let story = Correlation.story(&records);
    testing::check(&story);
    for id in ["batch-norm", "reduced-start", "reduced-end", "trained", "drift-mean", "drift-variance"] {
        assert_eq!(verdict(&story, id), Verdict::Supported, "{id}");
    }
    assert!((differences(&story, "drift-variance")[0] - (0.1 - 1.01)).abs() < 1e-12);
    assert_eq!(story.findings.len(), 6);
}
