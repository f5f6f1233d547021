use super::*;
use crate::report::Picture;
use crate::report::Verdict;
use crate::studies::tools::testing::{self, verdict};
use serde_json::json;

#[test]
fn every_length_is_tested() {
    let mut records = testing::trained(&SequenceLength, &testing::settings(), 2, |run| {
        run.contains("layer") || run.contains("batch")
    });
    let story = SequenceLength.story(&records);
    let Picture::Lines { series, .. } = &story.charts[0].picture else { panic!("lines") };
    let names: Vec<&str> = series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["batch norm", "batch norm, test batch statistics", "layer norm"]);
    for series in series {
        assert_eq!(series.x, [28.0, 56.0, 84.0, 112.0][..if series.dashed { OWN } else { REPEATS.len() }]);
        assert!(series.y.iter().all(Option::is_some), "{series:?}");
    }
    let Picture::Lines { series, .. } = &story.charts[1].picture else { panic!("lines") };
    assert_eq!(series.len(), 1, "not batch norm: {series:?}");
    assert_eq!(series[0].x, [28.0, 35.0, 56.0, 140.0]);

    // As if layer norm kept its accuracy on longer sequences and batch norm did not.
    for record in &mut records {
        let layer = record.header.run.contains("layer");
        for event in record.events.iter_mut().filter(|event| event.name == "trial") {
            let own = event.data["name"].as_str().unwrap().starts_with("read 1 times");
            event.data["accuracy"] = if layer || own { 0.9 } else { 0.25 }.into();
        }
    }
    let story = SequenceLength.story(&records);
    assert_eq!((verdict(&story, "batch-read-2"), story.notes.len()), (Verdict::Undecided, 5));
    assert!(
        story.answer.contains("10 → 75 → 75 → 75 % with batch norm, 10 → 10 → 10 → 10 % with layer norm"),
        "{}",
        story.answer
    );
}

#[test]
fn batch_norm_reads_no_blank_rows() {
    for settings in [Settings::default(), Settings { full: true, ..Settings::default() }] {
        for plan in SequenceLength.plan(&settings) {
            let spec = plan.spec().unwrap();
            assert!(spec.images.permuted, "{}", plan.run());
            assert_eq!(
                spec.trials.iter().any(|trial| trial.blank_rows > 0),
                spec.norm != Norm::Batch,
                "{}",
                plan.run()
            );
        }
    }
}

#[test]
fn every_length_is_a_question() {
    let records = testing::synthetic(&SequenceLength, |_, spec| {
        let error = |trial: &Trial| match (spec.norm, trial.repeats, trial.blank_rows) {
            (_, 0, 0) => 0.1,
            (Norm::Batch, 1, _) if trial.as_in_training => 0.2,
            (Norm::Batch, 2, _) => 0.2,
            (Norm::Batch, _, _) => 0.6,
            (Norm::Layer, 3, _) | (Norm::Layer, _, 112) => 0.9,
            (Norm::Layer, _, _) => 0.2 + 0.002 * (spec.start.seed as f64 - 3.0),
            _ => 0.5,
        };
        let trial = |of: &Trial| ("trial", json!({"name": of.name, "loss": 0.3, "accuracy": 1.0 - error(of)}));
        spec.trials.iter().map(trial).collect()
    });
    let story = SequenceLength.story(&records);
    testing::check(&story);
    use Verdict::*;
    let expected = [
        ("batch-read-1", Undecided),
        ("batch-read-2", Supported),
        ("batch-read-3", Undecided),
        ("batch-read-4", Contradicted),
        ("none-read-2", Supported),
        ("none-read-3", Supported),
        ("none-read-4", Contradicted),
        ("none-7", Supported),
        ("none-28", Supported),
        ("none-112", Contradicted),
        ("rise", Supported),
        ("own-statistics", Supported),
    ];
    assert_eq!(story.findings.len(), expected.len());
    for (id, expected) in expected {
        assert_eq!(verdict(&story, id), expected, "{id}");
    }
}
