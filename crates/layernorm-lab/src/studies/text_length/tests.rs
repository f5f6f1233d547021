use super::*;
use crate::report::{Picture, Verdict};
use crate::studies::tools::testing::{self, verdict};
use serde_json::json;

#[test]
fn shorter_and_longer_sequences_are_tested() {
    let records = testing::language(&TextLength, &testing::settings(), 2, |_| true);
    let story = TextLength.story(&records);
    for chart in &story.charts {
        let Picture::Lines { series, .. } = &chart.picture else { panic!("lines") };
        assert_eq!(series.len(), NORMS.len());
        for series in series {
            assert_eq!(series.x, [8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0]);
            assert!(series.y.iter().all(Option::is_some), "{series:?}");
        }
    }
}

#[test]
fn the_rise_beyond_the_trained_length_is_a_question() {
    let records = testing::synthetic_language(&TextLength, |spec| {
        let noise = 0.001 * spec.start.seed as f64;
        // Up to 8, 16, 32, 64, 128, 256 and 512: layer norm falls, no norm rises.
        let bits = match spec.norm {
            Norm::Layer => [3.0, 2.8, 2.7, 2.6 + noise, 2.55, 2.5, 2.5],
            _ => [2.9, 2.8, 2.7, 2.6, 2.7, 2.8 + noise, 3.5],
        };
        let ends = [8, 16, 32, 64, 128, 256, 512];
        vec![("positions", json!({"ends": ends, "bits": bits, "sequences": 9})), ("test", json!({"bits": 2.5}))]
    });
    let story = TextLength.story(&records);
    testing::check(&story);
    use Verdict::*;
    let ids = ["short", "long", "rise", "layer-beyond", "none-beyond"];
    assert_eq!(ids.map(|id| verdict(&story, id)), [Contradicted, Supported, Supported, Supported, Contradicted]);
    assert!(story.answer.contains("2.90 → 2.69 → 3.12 without a norm"), "{}", story.answer);
}
