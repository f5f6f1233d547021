use super::distribution::{Try, Undone};
use super::*;
use crate::report::Picture;
use crate::report::Verdict;
use crate::studies::tools::testing::{all_supported, differences, evaluations, verdict};
use crate::studies::tools::{events, testing};
use serde_json::json;

#[test]
fn gain_and_bias_set_deviation_and_mean_and_undo_one_row() {
    let records = testing::records(&GainBias, &Settings::default());
    let undone: Vec<Undone> = events(&records, "undone");
    let of = |with: Try| *undone.iter().find(|undone| undone.with == with).unwrap();
    assert!(of(Try::EachRow).largest < 1e-6 && of(Try::BatchNorm).largest < 1e-6, "{undone:?}");
    assert!(of(Try::AllRows).typical > 0.3 && of(Try::EachFeature).typical > 0.3, "{undone:?}");
    let story = GainBias.story(&records);
    assert!(story.findings.len() == 4 && all_supported(&story), "{:?}", story.findings);
    for chart in &story.charts {
        let Picture::Histograms { groups, .. } = &chart.picture else { panic!("{}", chart.id) };
        assert!(groups.iter().all(|group| group.counts.iter().sum::<f64>() > 16_000.0));
    }
}

#[test]
fn training_is_added_to_the_story_of_the_values() {
    let trained = testing::trained(&GainBias, &testing::settings(), 6, |run| run.starts_with(training::TRAINING));
    let values = testing::run_all(&GainBias, &testing::settings());
    let story = GainBias.story(&[values.clone(), trained.clone()].concat());
    assert!(story.answer.starts_with(&GainBias.story(&values).answer) && story.answer.contains("worst initialization"));
    assert_eq!(story.charts.len(), 4);
    assert_eq!(story.findings.len(), 8);
    assert_eq!(GainBias.story(&trained).findings, story.findings[4..]);
}

#[test]
fn extreme_initial_values_are_questions() {
    let records = testing::synthetic(&GainBias, |_, spec| {
        let noise = 0.002 * (spec.start.seed as f64 - 3.0) * spec.start.gain;
        let error = match (spec.start.gain, spec.start.bias) {
            (0.03, _) => 0.5,
            (10.0, _) => 0.1,
            (_, -2.0) => 0.19,
            _ => 0.2,
        };
        evaluations(spec, 0.5, error + noise)
    });
    let story = GainBias.story(&records);
    testing::check(&story);
    let ids = ["start-0.03-0", "start-10-0", "start-1--2", "start-1-2"];
    use Verdict::*;
    assert_eq!(ids.map(|id| verdict(&story, id)), [Supported, Contradicted, Contradicted, Undecided]);
}

#[test]
fn learned_gains_and_biases_are_shown_for_every_layer() {
    let power = |run: &str| run.contains("-trained-") || run.contains("-fixed-");
    let story = GainBias.story(&testing::trained(&GainBias, &testing::settings(), 6, power));
    let ids: Vec<&str> = story.findings.iter().map(|finding| finding.id.as_str()).collect();
    assert_eq!(ids, ["power-mlp", "moved-mlp", "power-logits", "moved-logits", "power-lstm", "moved-lstm"]);
    assert!(differences(&story, "moved-mlp")[0] > 0.0);
    let gains = story.charts.iter().find(|chart| chart.id == "gains-lstm").unwrap();
    let Picture::Frames { series, frames, .. } = &gains.picture else { panic!("{}", gains.id) };
    assert_eq!(series, &["input norm", "recurrent norm", "cell norm"]);
    for frame in frames {
        for profile in &frame.values {
            let sum: f64 = profile.iter().flatten().sum();
            assert!((sum - 100.0).abs() < 1e-9, "{}: every unit is in one bar", frame.label);
        }
    }
    // All γ are 1 at the start, in the middle of the axis.
    let start = &frames[0].values[0];
    assert_eq!(start.iter().position(|share| share.is_some_and(|share| share > 99.0)), Some(start.len() / 2));
}

#[test]
fn the_power_of_gain_and_bias_is_a_question_for_each_network() {
    let records = testing::synthetic(&GainBias, |run, spec| {
        let noise = 0.001 * spec.start.seed as f64;
        let loss = match (run.contains("lstm"), run.contains("logits"), spec.start.affine) {
            (true, _, true) => 0.5,
            (true, _, false) => 0.4 + noise,
            (_, true, true) => 0.3,
            (_, true, false) => 0.6 + noise,
            (.., true) => 0.303,
            _ => 0.3 + noise,
        };
        if !run.contains("-trained-") && !run.contains("-fixed-") {
            return Vec::new();
        }
        let mut events = evaluations(spec, loss, 0.1);
        let affine =
            |step: usize, gain: f64| json!({"step": step, "layer": "layer 1", "gain": [gain, 1.0], "bias": [0.0, 0.0]});
        if spec.start.affine {
            events.extend([("affine", affine(0, 1.0)), ("affine", affine(spec.steps, 1.0 + 10.0 * noise))]);
        }
        events
    });
    let story = GainBias.story(&records);
    testing::check(&story);
    let ids = ["power-mlp", "power-logits", "power-lstm", "moved-mlp"];
    use Verdict::*;
    assert_eq!(ids.map(|id| verdict(&story, id)), [Undecided, Supported, Contradicted, Supported]);
    // The root mean square of 0.01 and 0.
    assert!((differences(&story, "moved-mlp")[0] - 0.01 / 2f64.sqrt()).abs() < 1e-9);
}
