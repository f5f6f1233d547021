use super::*;
use crate::report::Verdict;
use crate::studies::tools::testing::{self, evaluations, verdict};

#[test]
fn every_image_is_seen_equally_often() {
    for settings in [Settings::default(), Settings { full: true, ..Settings::default() }] {
        let plans = BatchSize.plan(&settings);
        for plan in &plans {
            let spec = plan.spec().unwrap();
            let network = Network::ALL.into_iter().find(|network| plan.run().contains(&format!("-{}-", network.id())));
            let epochs = network.unwrap().epochs(&settings);
            let (seen, all) = (spec.steps * spec.batch_size, spec.train * epochs);
            // Whole batches only: less than one batch per epoch is dropped. Some runs are longer.
            let longer = spec.steps == LEAST_STEPS && seen >= all;
            assert!(longer || (seen <= all && all - seen < 128 * epochs), "{}", plan.run());
        }
    }
}

#[test]
fn the_answer_compares_small_batches() {
    let settings = Settings { epochs: Some(1), batch_size: Some(4), ..testing::settings() };
    let records = testing::trained(&BatchSize, &settings, 20, |_| true);
    let story = BatchSize.story(&records);
    assert!(story.answer.starts_with("MLP: with batches of 4, the error is "), "{}", story.answer);
    assert_eq!(story.charts.len(), 5, "errors of three networks, and the training and the rates of one");
    assert_eq!(story.reproduce, "layernorm study batch-size --seeds 1 --epochs 1 --batch-size 4");
}

#[test]
fn the_questions_are_about_small_and_large_batches() {
    let records = testing::synthetic(&BatchSize, |_, spec| {
        let seed = spec.start.seed as f64;
        let error = match (spec.norm, spec.batch_size) {
            (Norm::Batch, 32 | 128) if matches!(spec.arch, Arch::Cnn { .. }) => 0.1 + 0.001 * seed,
            // At its best rate, layer norm is better with batches of 4.
            (Norm::Layer, 4) if spec.learning_rate == OTHER_RATES[0] => 0.05,
            (Norm::Batch, 1) => 0.9,
            (Norm::Batch, 4) => 0.08,
            (Norm::Batch, 2) => 0.07 + 0.02 * seed,
            _ => 0.13,
        };
        evaluations(spec, 0.5, error)
    });
    let story = BatchSize.story(&records);
    testing::check(&story);
    let ids = ["small-1", "small-4", "small-2", "smallest-none", "dependence"];
    use Verdict::*;
    assert_eq!(ids.map(|id| verdict(&story, id)), [Supported, Contradicted, Undecided, Undecided, Supported]);
    let ids = ["cnn-1", "cnn-4", "cnn-32", "cnn-128", "cnn-dependence", "lstm-1", "lstm-4", "lstm-dependence"];
    assert_eq!(
        ids.map(|id| verdict(&story, id)),
        [Supported, Contradicted, Supported, Supported, Supported, Supported, Contradicted, Supported]
    );
    assert_eq!(["small-best-4", "cnn-group-1"].map(|id| verdict(&story, id)), [Supported; 2]);
    assert_eq!(verdict(&story, "cnn-group-4"), Contradicted);
    let (best_rates, groups) = (TUNED_SIZES.len(), 3);
    let questions = (8 + 2 + best_rates) + (6 + 2 + groups) + (6 + 2);
    assert_eq!(story.findings.len(), questions, "every batch size, and two more questions about each network");
}
