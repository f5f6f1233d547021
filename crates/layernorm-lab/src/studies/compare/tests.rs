use super::*;
use crate::report::Verdict;
use crate::studies::tools::testing::{self, differences, diverged, evaluations, verdict};

#[test]
fn every_network_is_a_question() {
    let records = testing::synthetic(&Compare, |run, spec| {
        let seed = spec.start.seed as f64;
        let layer = spec.norm == Norm::Layer;
        let (loss, error) = match (spec.norm, run) {
            // Batch norm is better than layer norm in the CNN, and group norm is not asked about.
            (Norm::Batch, _) => (0.4, 0.05),
            (Norm::None | Norm::Layer, run) if run.contains("mlp") => {
                if layer {
                    (0.5, 0.1)
                } else {
                    (0.6, 0.2)
                }
            }
            (Norm::None | Norm::Layer, run) if run.contains("lstm") => {
                if layer {
                    (0.6, 0.2)
                } else {
                    (0.5, 0.1)
                }
            }
            // Better in some seeds, worse in others.
            (Norm::None | Norm::Layer, run) if run.contains("cnn") => {
                if layer {
                    (0.4 + 0.05 * seed, 0.2)
                } else {
                    (0.55, 0.2)
                }
            }
            (Norm::None, run) if run.contains("transformer-none") => return diverged(),
            (Norm::Layer, "compare-transformer-pre-layer-3") => return Vec::new(),
            (Norm::Layer, run) if run.contains("-pre-") => (0.7, 0.3),
            (Norm::None | Norm::Layer, _) => (0.8, 0.3),
            _ => return Vec::new(),
        };
        // The same for every norm, so it cancels, and a small part that does not.
        let noise = 0.03 * seed + if layer { 0.002 * (seed - 3.0) } else { 0.0 };
        evaluations(spec, loss + noise, error)
    });
    let story = Compare.story(&records);
    testing::check(&story);
    let verdicts = ["mlp-faster", "lstm-faster", "cnn-faster", "transformer-faster"].map(|id| verdict(&story, id));
    use Verdict::*;
    assert_eq!(verdicts, [Supported, Contradicted, Undecided, Supported]);
    assert_eq!(
        ["mlp-better", "lstm-better", "cnn-better"].map(|id| verdict(&story, id)),
        [Supported, Contradicted, Undecided]
    );
    assert_eq!([verdict(&story, "cnn-batch-norm"), verdict(&story, "pre-norm")], [Supported, Supported]);
    assert_eq!(differences(&story, "transformer-pre-faster").len(), 4, "seed 3 is missing in one condition");
    assert_eq!(story.findings.len(), 12);
    let faster = "learn faster with layer norm than without a norm: MLP, Transformer, post-norm";
    assert!(story.answer.contains(faster) && story.answer.contains("slower: LSTM over rows"), "{}", story.answer);
    assert!(story.answer.contains("undecided: CNN"), "{}", story.answer);
}
