use super::bits::{Bits, Neighbours};
use super::statistics::{Single, Stream, settled};
use super::*;
use crate::report::{Finding, Verdict};
use crate::studies::tools::{events, testing};
use crate::training::Spec;
use serde_json::json;

#[test]
fn layer_norm_has_one_computation_and_batch_norm_two() {
    let settings = Settings { seeds: Some(2), ..Settings::default() };
    let records = testing::records(&TrainTest, &settings);
    let bits: Vec<Bits> = events(&records, "bits");
    assert_eq!(bits.len(), 4 * 6);
    assert!(bits.iter().all(|of| [of.batch, of.order, of.training, of.gradient] == [0; 4]), "{bits:?}");
    let neighbours: Vec<Neighbours> = events(&records, "neighbours");
    assert!(neighbours.iter().all(|n| n.differ * 100 > n.numbers * 99 && n.largest > 0.1), "{neighbours:?}");
    let streams: Vec<Stream> = events(&records, "stream");
    for size in [16, 64, 256] {
        let end = settled(streams.iter().filter(|s| s.batch == size).map(|s| &s.batch_norm)).unwrap();
        let expected = (1.5 / size as f64).sqrt();
        // The running statistics fluctuate too (momentum 0.1: 5 % more variance), and √(1.5/B) is only the first term.
        assert!((0.95..1.2).contains(&(end / expected)), "batches of {size}: {end} {expected}");
    }
    assert!(streams.iter().all(|s| s.layer_norm.iter().all(|&apart| apart == 0.0)));
    assert!(streams.iter().all(|s| s.batch_norm.len() == 201 && s.batch_norm[0] > 1.0));
    let singles: Vec<Single> = events(&records, "single");
    assert!(singles.iter().all(|s| s.refusal.is_some() && s.own == 0.0 && (s.layer - 1.0).abs() < 1e-3));
    let story = TrainTest.story(&records);
    let open = |finding: &&Finding| finding.verdict != Verdict::Supported;
    let open: Vec<&Finding> = story.findings.iter().filter(open).collect();
    assert!(story.findings.len() == 5 && open.len() == 1, "{open:?}");
    assert_eq!(
        (open[0].id.as_str(), open[0].verdict),
        ("running-statistics", Verdict::Undecided),
        "two seeds decide nothing"
    );
    let trained = testing::trained(&TrainTest, &testing::settings(), 40, |run| run.contains("asked"));
    assert_eq!(trained.len(), 2);
    let story = TrainTest.story(&[records, trained].concat());
    assert_eq!(testing::verdict(&story, "layer-norm-mode"), Verdict::Supported);
    assert_eq!(testing::verdict(&story, "batch-norm-mode-1"), Verdict::Undecided, "one seed decides nothing");
}

#[test]
fn modes_are_compared_seed_by_seed() {
    let events = |_: &str, spec: &Spec| -> testing::Events {
        let accuracy = |trial: &str| match trial {
            "training-1" if spec.norm == crate::models::Norm::Batch => 0.1 + 0.002 * spec.start.seed as f64,
            _ => 0.9,
        };
        let trial = |name: &String| ("trial", json!({"name": name, "loss": 0.3, "accuracy": accuracy(name)}));
        spec.trials.iter().map(|of| trial(&of.name)).collect()
    };
    let mut records = testing::synthetic(&TrainTest, events);
    let story = TrainTest.story(&records);
    testing::check(&story);
    let ids = ["batch-norm-mode-1", "batch-norm-mode-4", "layer-norm-mode"];
    use Verdict::*;
    assert_eq!(ids.map(|id| testing::verdict(&story, id)), [Supported, Undecided, Supported]);
    // A result that is not a number is the worst one.
    let layer = records.iter_mut().find(|record| record.header.run.contains("layer")).unwrap();
    layer.events[1].data["accuracy"] = serde_json::Value::Null;
    assert_eq!(testing::verdict(&TrainTest.story(&records), "layer-norm-mode"), Contradicted);
}
