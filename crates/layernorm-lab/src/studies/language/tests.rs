use super::*;
use crate::language::events::Trained;
use crate::report::{Picture, Verdict};
use crate::studies::tools::testing::{self, Events, differences, verdict};
use serde_json::json;

#[test]
fn every_network_learns_and_writes() {
    let records =
        testing::language(&Language, &testing::settings(), 3, |run| run.contains("lstm") && run.contains("1e-2"));
    let story = Language.story(&records);
    let ids: Vec<&str> = story.charts.iter().map(|chart| chart.id.as_str()).collect();
    assert_eq!(ids, ["lstm-common", "lstm-best", "samples"]);
    let Picture::Table(table) = &story.charts[2].picture else { panic!("a table") };
    assert_eq!(table.rows.len(), NORMS.len());
    for record in &records {
        let trained = Trained::read(record).unwrap();
        assert!(trained.test.unwrap().bits.unwrap() < 6.5 && trained.sample.unwrap().text.chars().count() == 20);
    }
    // One seed decides nothing.
    assert_eq!(verdict(&story, "lstm-during"), Verdict::Undecided);
}

/// Evaluations with constant bits, and a test.
fn events(spec: &Spec, bits: f64, test: f64) -> Events {
    let at = |step: usize| ("evaluate", json!({"step": step, "train_bits": bits, "bits": bits}));
    let steps = spec.evaluation_steps().into_iter().map(at);
    steps.chain([("test", json!({"bits": test})), ("sample", json!({"prompt": "a", "text": "b\n\nc\nd"}))]).collect()
}

#[test]
fn each_norm_is_compared_at_the_common_and_at_its_best_rate() {
    let records = testing::synthetic_language(&Language, |spec| {
        let noise = 0.001 * spec.start.seed as f64;
        match (spec.cell, spec.norm, spec.learning_rate) {
            // Without a norm, the LSTM needs a higher rate, and is then better than with layer norm on the test text.
            (Cell::Lstm, Norm::None, 3e-2) => events(spec, 2.5 + noise, 2.4 + 2.0 * noise),
            (Cell::Lstm, Norm::Layer, COMMON) => events(spec, 2.5, 2.6),
            (Cell::Gru, Norm::None, COMMON) => {
                vec![
                    ("evaluate", json!({"step": 0, "train_bits": null, "bits": 6.0})),
                    ("diverged", json!({"step": 1})),
                ]
            }
            _ => events(spec, 3.0 + noise, 3.0),
        }
    });
    let story = Language.story(&records);
    testing::check(&story);
    use Verdict::*;
    let ids = ["lstm-during", "lstm-end", "lstm-best-during", "lstm-best-test", "gru-during", "gru-best-test"];
    assert_eq!(
        ids.map(|id| verdict(&story, id)),
        [Supported, Supported, Supported, Contradicted, Supported, Undecided]
    );
    // A diverged run counts as guessing.
    assert!((differences(&story, "gru-end")[0] - (3.001 - 6.248)).abs() < 1e-3);
    assert!(
        story.answer.contains("LSTM: 2.41 without a norm (rate 0.03), 2.60 with layer norm (rate 0.01)"),
        "{}",
        story.answer
    );
}
