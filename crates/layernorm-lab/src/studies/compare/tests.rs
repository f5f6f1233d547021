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
            (Norm::None | Norm::Layer, run) if run.contains("lstm") || run.contains("middle") => {
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
    let [batch_norm, pre_norm] = ["cnn-batch-norm", "pre-norm"].map(|id| verdict(&story, id));
    assert_eq!([batch_norm, pre_norm], [Supported, Undecided], "four seeds decide nothing");
    assert_eq!(differences(&story, "transformer-pre-faster").len(), 4, "seed 3 is missing in one condition");
    assert_eq!(story.findings.len(), (2 + 3) * 6 + 2 * 3 + 2, "two of them about batch norm in three networks");
    let ids = ["mlp-best-faster", "lstm-best-faster", "middle-best-batch-norm"];
    assert_eq!(ids.map(|id| verdict(&story, id)), [Supported, Contradicted, Contradicted]);
    let faster = "learn faster with layer norm than without a norm: MLP, Post-norm Transformer";
    assert!(
        story.answer.contains(faster) && story.answer.contains("slower: LSTM over rows, LSTM over the middle rows"),
        "{}",
        story.answer
    );
    assert!(story.answer.contains("undecided: CNN"), "{}", story.answer);
}

#[test]
fn every_norm_has_its_own_best_rate() {
    let records = testing::synthetic(&Compare, |run, spec| {
        if !run.contains("mlp-none") && !run.contains("mlp-layer") {
            return Vec::new();
        }
        // No norm is best at the highest rate, layer norm at the lowest, where it has the lower loss.
        let best = if spec.norm == Norm::Layer { 5e-4 } else { 8e-3 };
        let loss = if spec.norm == Norm::Layer { 0.2 } else { 0.3 };
        let distance = if spec.learning_rate == best { 0.0 } else { 0.5 };
        let mut events = evaluations(spec, loss + distance + 0.01 * spec.start.seed as f64, 0.1);
        // Training begins at a loss of 2.3, so the goal of 0.4 is reached before the first evaluation after it.
        events[0].1["loss"] = 2.3.into();
        events
    });
    let story = Compare.story(&records);
    testing::check(&story);
    let chart = story.charts.iter().find(|chart| chart.id == "rates").unwrap();
    let crate::report::Picture::Grid { cells, .. } = &chart.picture else { panic!("a grid") };
    let blue = |row: usize| cells[row].iter().map(|tile| tile.tone == crate::report::Tone::Good).collect::<Vec<_>>();
    assert_eq!((blue(0), blue(1)), (vec![false, false, true, false], vec![true, false, false, false]));
    assert_eq!(verdict(&story, "mlp-best-faster"), Verdict::Supported);
    // From 2.3 to 0.2 + 0.01·seed in 15 steps, the goal is 1.9/(2.1 − 0.01·seed) of the way; without a norm it is
    // 1.9/(2 − 0.01·seed).
    let first = differences(&story, "mlp-best-sooner")[0];
    assert!((first - 15.0 * (1.9 / 2.09 - 1.9 / 1.99)).abs() < 1e-9, "{first}");
    assert!(!story.findings.iter().any(|finding| finding.id == "lstm-best-faster"), "there are no such runs");
}

#[test]
fn a_best_rate_that_is_the_common_one_asks_nothing_twice() {
    let records = testing::synthetic(&Compare, |run, spec| {
        let mlp = run.contains("mlp-none") || run.contains("mlp-layer");
        let loss = if spec.learning_rate == COMMON { 0.2 } else { 0.5 };
        if mlp { evaluations(spec, loss + 0.01 * spec.start.seed as f64, 0.1) } else { Vec::new() }
    });
    let story = Compare.story(&records);
    let ids: Vec<&str> = story.findings.iter().map(|finding| finding.id.as_str()).collect();
    assert_eq!(ids, ["mlp-faster", "mlp-better", "mlp-best-sooner"]);
}
