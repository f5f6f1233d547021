use super::*;
use crate::studies::tools::testing;

#[test]
fn every_image_is_seen_equally_often() {
    for settings in [Settings::default(), Settings { full: true, ..Settings::default() }] {
        let plans = BatchSize.plan(&settings);
        for plan in &plans {
            let spec = plan.spec().unwrap();
            let seen = spec.steps * spec.batch_size;
            let all = spec.train * if settings.full { 5 } else { 3 };
            // Whole batches only: less than one batch per epoch is dropped.
            assert!(seen <= all && all - seen < 128 * 5, "{}", plan.run());
        }
    }
}

#[test]
fn the_answer_compares_small_batches() {
    let settings = Settings { epochs: Some(1), batch_size: Some(4), ..testing::settings() };
    let records = testing::trained(&BatchSize, &settings, 20, |_| true);
    let story = BatchSize.story(&records);
    assert!(story.answer.starts_with("With batches of 4, batch norm misclassifies "), "{}", story.answer);
    assert_eq!(story.charts.len(), 2);
    assert_eq!(story.reproduce, "layernorm study batch-size --seeds 1 --epochs 1 --batch-size 4");
}
