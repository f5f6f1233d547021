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
        assert_eq!(series.x, [28.0, 35.0, 42.0, 56.0, 84.0, 140.0][..if series.dashed { OWN } else { BLANK.len() }]);
        assert!(series.y.iter().all(Option::is_some), "{series:?}");
    }

    // As if layer norm kept its accuracy on longer sequences and batch norm did not.
    for record in &mut records {
        let layer = record.header.run.contains("layer");
        for event in record.events.iter_mut().filter(|event| event.name == "trial") {
            let own = event.data["name"].as_str().unwrap().starts_with("0 blank rows");
            event.data["accuracy"] = if layer || own { 0.9 } else { 0.25 }.into();
        }
    }
    let story = SequenceLength.story(&records);
    assert_eq!((verdict(&story, "batch-28"), story.notes.len()), (Verdict::Undecided, 4));
    assert!(
        story.answer.contains("10 → 75 → 75 → 75 % with batch norm, 10 → 10 → 10 → 10 % with layer norm"),
        "{}",
        story.answer
    );
}

#[test]
fn every_length_is_a_question() {
    let records = testing::synthetic(&SequenceLength, |_, spec| {
        let error = |trial: &Trial| match (spec.norm, trial.blank_rows) {
            (_, 0) => 0.1,
            (Norm::Batch, 28) if trial.as_in_training => 0.2,
            (Norm::Batch, 7) => 0.2,
            (Norm::Batch, _) => 0.6,
            (Norm::Layer, 112) => 0.9,
            (Norm::Layer, _) => 0.2 + 0.002 * (spec.start.seed as f64 - 3.0),
            _ => 0.5,
        };
        let trial = |of: &Trial| ("trial", json!({"name": of.name, "loss": 0.3, "accuracy": 1.0 - error(of)}));
        spec.trials.iter().map(trial).collect()
    });
    let story = SequenceLength.story(&records);
    testing::check(&story);
    let ids = ["batch-7", "batch-28", "batch-112", "none-28", "rise", "own-statistics"];
    use Verdict::*;
    assert_eq!(
        ids.map(|id| verdict(&story, id)),
        [Undecided, Supported, Contradicted, Supported, Supported, Supported]
    );
}
