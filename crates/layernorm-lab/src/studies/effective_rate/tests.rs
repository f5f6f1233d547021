use super::*;
use crate::report::Verdict;
use crate::studies::tools::testing::{self, Events, differences, verdict};
use serde_json::json;

#[test]
fn weights_of_every_norm_grow_and_stay_orthogonal_to_their_gradient() {
    let records = testing::trained(&EffectiveRate, &testing::settings(), 12, |_| true);
    let story = EffectiveRate.story(&records);
    assert_eq!((story.charts.len(), story.findings.len()), (4, 3 * 2 + 1 + 4));
    for norm in NORMS {
        assert_eq!(verdict(&story, &format!("orthogonal-{norm}")), Verdict::Supported, "{:?}", story.findings);
    }
    for norm in ["batch", "layer", "weight"] {
        assert!(differences(&story, &format!("growth-{norm}"))[0] > 0.0);
        assert!(differences(&story, &format!("rate-{norm}"))[0] < 0.0);
    }
}

/// Two probes of three layers whose weights have these lengths.
fn probes(spec: &Spec, ends: [f64; 2], cosine: f64) -> Events {
    let event = |step: usize, length: f64| {
        let angle = json!({"length": length, "gradient": 0.1, "cosine": cosine});
        // The logits differ from the hidden layers, and must not count.
        let logits = json!({"length": 1000.0 - length, "gradient": 0.1, "cosine": 0.9});
        let all = json!([angle, angle, logits]);
        json!({"step": step, "rate": 0.5, "layers": ["layer 1", "layer 2", "logits"], "weight": all, "with_bias": all})
    };
    vec![("weights", event(0, ends[0])), ("weights", event(spec.steps, ends[1]))]
}

#[test]
fn growth_and_orthogonality_are_questions() {
    let records = testing::synthetic(&EffectiveRate, |_, spec| {
        let noise = 0.01 * spec.start.seed as f64;
        match spec.norm {
            Norm::Layer => probes(spec, [10.0, 20.0 + noise], 1e-6),
            Norm::Batch => probes(spec, [10.0, 9.0 - noise], 1e-6),
            Norm::Weight => probes(spec, [10.0, 10.0 + noise - 0.03], 0.1),
            _ => probes(spec, [10.0, 30.0 + noise], 1e-6),
        }
    });
    let story = EffectiveRate.story(&records);
    testing::check(&story);
    let ids = ["growth-layer", "rate-layer", "growth-batch", "rate-batch", "growth-weight", "growth-more"];
    use Verdict::*;
    assert_eq!(
        ids.map(|id| verdict(&story, id)),
        [Supported, Supported, Contradicted, Contradicted, Undecided, Contradicted]
    );
    let ids = ["orthogonal-layer", "orthogonal-weight", "orthogonal-none"];
    assert_eq!(ids.map(|id| verdict(&story, id)), [Supported, Contradicted, Contradicted]);
    // Twice the length is a quarter of the rate: log₁₀ ¼.
    assert!(differences(&story, "rate-layer").iter().all(|d| (d + 0.602).abs() < 0.005));
}
