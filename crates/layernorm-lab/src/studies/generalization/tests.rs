use super::*;
use crate::report::Verdict;
use crate::studies::tools::testing::{self, verdict};
use serde_json::json;

#[test]
fn all_batch_sizes_see_the_same_images_at_rates_in_proportion() {
    for plan in Generalization.plan(&Settings::default()) {
        let spec = plan.spec().unwrap();
        assert_eq!(spec.steps * spec.batch_size, 20 * 512, "{}", plan.run());
        assert!((spec.learning_rate / spec.batch_size as f64 - RATE).abs() < 1e-12);
    }
}

#[test]
fn only_batch_norm_has_noise() {
    let settings = Settings { epochs: Some(1), batch_size: Some(8), ..testing::settings() };
    let records = testing::trained(&Generalization, &settings, 12, |_| true);
    let story = Generalization.story(&records);
    let rows = story.numbers.as_ref().unwrap().rows.clone();
    let loss = |row: usize, column: usize| match rows[row][column] {
        crate::report::Cell::Number(loss) => loss,
        ref other => panic!("{other:?}"),
    };
    // Other batch sizes sum in another order, in f32; losses are below 3.
    let same = |row: usize| (loss(row, 3) - loss(row, 4)).abs() < 1e-5;
    assert_eq!([same(0), same(1), same(2)], [true, false, true], "{rows:?}");
    let ids: Vec<&str> = story.findings.iter().map(|finding| &*finding.id).collect();
    assert_eq!(ids, ["gap-8", "layer-none-8", "batch-none-8"]);
}

#[test]
fn the_questions_compare_gaps() {
    let records = testing::synthetic(&Generalization, |_, spec| {
        let (seed, size) = (spec.start.seed as f64, spec.batch_size as f64);
        let wobble = 0.001 * seed;
        let (training, test) = match spec.norm {
            Norm::Batch => (0.1 + wobble, 0.4 + 0.001 * size),
            Norm::Layer => (0.02, 0.48 + wobble),
            _ => (0.05, 0.5),
        };
        let noisy = training + if spec.norm == Norm::Batch { 1.0 / size } else { 0.0 };
        let trial = |name: &str, loss: f64| json!({"name": name, "loss": loss, "accuracy": 0.9});
        vec![
            ("trial", trial(SETTLED, training)),
            ("trial", trial(NOISY, noisy)),
            ("test", json!({"loss": test, "accuracy": 0.9})),
        ]
    });
    let story = Generalization.story(&records);
    testing::check(&story);
    use Verdict::*;
    let ids = ["gap-8", "gap-32", "gap-128", "layer-none", "layer-none-8", "layer-none-128"];
    let others = ["batch-none-8", "batch-none-32", "batch-none-128", "batch-grows", "layer-independent", "noise"];
    assert_eq!(story.findings.len(), ids.len() + others.len());
    for id in ids.into_iter().chain(others) {
        // With batches of 128, batch norm's gap is 0.428 less some noise, and that without a norm 0.45.
        assert_eq!(verdict(&story, id), Supported, "{id}");
    }
    assert!((testing::differences(&story, "batch-grows")[0] - 0.12).abs() < 1e-12);
    // With the norms exchanged, everything about them is the other way round.
    let swapped = testing::synthetic(&Generalization, |_, spec| {
        let (training, test) =
            if spec.norm == Norm::Batch { (0.02, 0.5) } else { (0.1, 0.4 + 0.001 * spec.start.seed as f64) };
        vec![
            ("trial", json!({"name": SETTLED, "loss": training, "accuracy": 0.9})),
            ("test", json!({"loss": test, "accuracy": 0.9})),
        ]
    });
    let story = Generalization.story(&swapped);
    let ids = ["gap-8", "layer-none", "layer-none-128", "batch-none-128"];
    assert_eq!(ids.map(|id| verdict(&story, id)), [Contradicted, Undecided, Undecided, Contradicted]);
    let gap = story.findings.iter().find(|finding| finding.id == "gap-8").unwrap().explanation.as_ref().unwrap();
    assert!(gap.contains("The test loss is 0.5 with batch norm and 0.403 with layer norm"), "{gap}");
}
