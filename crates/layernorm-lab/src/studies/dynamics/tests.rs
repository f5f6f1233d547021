use super::*;
use crate::report::{Picture, Verdict};
use crate::studies::tools::testing::{self, differences, verdict};
use serde_json::json;

#[test]
fn states_of_every_time_step_are_drawn() {
    let records = testing::trained(&HiddenDynamics, &testing::settings(), 3, |run| run.ends_with("-1"));
    let story = HiddenDynamics.story(&records);
    let ids: Vec<&str> = story.charts.iter().map(|chart| chart.id.as_str()).collect();
    let expected = [
        "hidden-lstm",
        "spread-lstm",
        "cell-lstm",
        "saturated-lstm",
        "mean-lstm-input",
        "mean-lstm-forget",
        "mean-lstm-candidate",
        "mean-lstm-output",
        "hidden-rnn",
        "spread-rnn",
        "saturated-rnn",
        "mean-rnn-candidate",
        "gates",
    ];
    assert_eq!(ids, expected);
    let Picture::Frames { x, series, frames, .. } = &story.charts[2].picture else { panic!("frames") };
    assert_eq!((x.categories.as_ref().unwrap().len(), frames.len()), (28, 4));
    assert_eq!(series[..2], ["no norm, spread", "no norm, mean"]);
    assert!(frames.iter().flat_map(|frame| frame.values.concat()).all(|value| value.is_some()));
    // The norm makes the spread of the RNN's pre-activations 1 at the start, except for ε.
    let picture = |id: &str| &story.charts.iter().find(|chart| chart.id == id).unwrap().picture;
    let Picture::Frames { series, frames, .. } = picture("spread-rnn") else { panic!("frames") };
    let layer: Vec<usize> = (0..series.len()).filter(|&number| series[number].contains("layer norm")).collect();
    assert_eq!(layer.len(), 2);
    for values in layer.iter().map(|&number| &frames[0].values[number]) {
        assert!(values.iter().all(|spread| (spread.unwrap() - 1.0).abs() < 1e-3), "{values:?}");
    }
    // The bias of the forget gate starts at 1 more than that of the input gate, whose sums are near 0.
    let starts = ["input", "forget"].map(|gate| {
        let Picture::Frames { series, frames, .. } = picture(&format!("mean-lstm-{gate}")) else { panic!("frames") };
        assert_eq!(series, &["no norm", "batch norm", "layer norm"]);
        let profile: Vec<f64> = frames[0].values[0].iter().map(|mean| mean.unwrap()).collect();
        profile.iter().sum::<f64>() / profile.len() as f64
    });
    assert!(starts[0].abs() < 0.2 && (starts[1] - starts[0] - 1.0).abs() < 0.2, "{starts:?}");
    assert_eq!(story.findings.len(), 6 * 3);
}

/// An event whose ‖h‖ and spread alternate between 1 − by and 1 + by, times `scale`.
fn event(step: usize, by: f64, scale: f64, saturated: f64) -> (&'static str, serde_json::Value) {
    let values: Vec<f64> = (0..4).map(|place| scale * if place % 2 == 0 { 1.0 - by } else { 1.0 + by }).collect();
    let (mean, saturated) = ([0.0; 4], [saturated; 4]);
    let gate = |name: &str| json!({"gate": name, "mean": mean, "deviation": values, "saturated": saturated});
    let cell = [[0.0, 1.0]; 4];
    ("dynamics", json!({"step": step, "hidden": values, "cell": cell, "gates": [gate("input"), gate("forget")]}))
}

#[test]
fn questions_are_decided_by_variation_change_and_saturation() {
    let records = testing::synthetic(&HiddenDynamics, |_, spec| {
        let noise = 0.01 * spec.start.seed as f64;
        let (by, scale, share) = match spec.norm {
            Norm::None => (0.5 + noise, 10.0, 0.2),
            Norm::Layer => (0.1, 10f64.powf(0.5 + noise), 0.3 + noise),
            _ => return Vec::new(),
        };
        vec![event(0, by, 1.0, 0.1), event(spec.steps, by, scale, share)]
    });
    let story = HiddenDynamics.story(&records);
    testing::check(&story);
    for network in ["lstm", "rnn", "rnn-large"] {
        for name in ["hidden-start", "hidden-end", "gates-start", "gates-end", "training"] {
            assert_eq!(verdict(&story, &format!("{network}-{name}")), Verdict::Supported, "{network} {name}");
        }
        assert_eq!(verdict(&story, &format!("{network}-saturated")), Verdict::Contradicted);
    }
    // 10 % − 51 %; half a power of ten and some noise less than one; 31 % − 20 %.
    let first = |id: &str| differences(&story, id)[0];
    assert!((first("lstm-hidden-end") + 41.0).abs() < 1e-9 && (first("rnn-gates-start") + 41.0).abs() < 1e-9);
    assert!((first("rnn-training") + 0.49).abs() < 1e-9 && (first("rnn-saturated") - 11.0).abs() < 1e-9);
}
