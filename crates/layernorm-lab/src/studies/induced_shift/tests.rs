use super::*;
use crate::report::{Picture, Verdict};
use crate::studies::tools::testing::{self, differences, verdict};
use serde_json::json;

#[test]
fn shifts_of_every_norm() {
    let records = testing::trained(&InducedShift, &testing::settings(), 6, |_| true);
    let story = InducedShift.story(&records);
    assert_eq!((story.charts.len(), story.findings.len()), (2 * 3 + 1, 2 * 4 + 2));
    let layers = story.charts.iter().find(|chart| chart.id == "layers-fast").unwrap();
    let Picture::Frames { series, frames, .. } = &layers.picture else { panic!("{}", layers.id) };
    assert_eq!((series.len(), frames.len()), (3, 7));
    assert!(frames[0].values.iter().flatten().all(|shift| shift.is_some_and(|shift| shift > 0.0)));
    // What layer norm removes: the common scale and the common offset of the units.
    assert!(differences(&story, "removed-layer")[0].is_finite());
}

#[test]
fn less_shift_than_without_a_norm_is_a_question() {
    let records = testing::synthetic(&InducedShift, |_, spec| {
        let noise = 0.001 * spec.start.seed as f64;
        let (input, cosine) = match spec.norm {
            Norm::Layer => (0.1 + noise, 0.9 - noise),
            Norm::Batch => (0.3 + noise, 0.8 + noise),
            _ => (0.2, 0.8 + 0.003),
        };
        let after = if spec.norm == Norm::Batch { input } else { 0.5 * input };
        let event = |step: usize| {
            let event = json!({
                "step": step, "layers": ["layer 1", "layer 2", "logits"], "input": [null, input, input],
                "before": [input, input + noise, null], "after": [after + noise, after, null],
                "cosine": [null, cosine, cosine],
            });
            ("shift", event)
        };
        vec![event(0), event(spec.steps)]
    });
    let story = InducedShift.story(&records);
    testing::check(&story);
    let ids = [
        "input-layer-slow",
        "gradient-layer-fast",
        "removed-layer",
        "input-batch-fast",
        "gradient-batch-slow",
        "removed-batch",
    ];
    use Verdict::*;
    assert_eq!(
        ids.map(|id| verdict(&story, id)),
        [Supported, Supported, Supported, Contradicted, Undecided, Undecided]
    );
    assert!((differences(&story, "input-layer-fast")[0] + 0.099).abs() < 1e-9);
}
