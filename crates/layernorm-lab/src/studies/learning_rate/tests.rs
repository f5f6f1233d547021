use super::*;
use crate::studies::tools::testing;

#[test]
fn the_map_has_a_cell_for_every_rate() {
    let wanted = |run: &str| {
        ["mlp-none-0.1-1", "mlp-layer-0.1-1", "mlp-none-30-1", "mlp-layer-30-1"].iter().any(|end| run.ends_with(end))
    };
    let records = testing::trained(&LearningRate, &testing::settings(), 12, wanted);
    assert_eq!(records.len(), 4);
    let story = LearningRate.story(&records);
    assert!(story.answer.starts_with("Learning rates that work: MLP without a norm learns "), "{}", story.answer);
    assert!(story.as_expected.is_some());
}
