use super::*;
use crate::report::Picture;
use crate::studies::tools::testing;

#[test]
fn the_map_has_a_cell_for_every_rate() {
    let wanted = |run: &str| {
        ["mlp-none-1e-1-1", "mlp-layer-1e-1-1", "mlp-none-3e1-1", "mlp-layer-3e1-1"]
            .iter()
            .any(|end| run.ends_with(end))
    };
    let records = testing::trained(&LearningRate, &testing::settings(), 12, wanted);
    assert_eq!(records.len(), 4);
    let story = LearningRate.story(&records);
    assert!(story.answer.starts_with("Learning rates that work: MLP without a norm learns "), "{}", story.answer);
    let Picture::Grid { cells, .. } = &story.charts[0].picture else { panic!("a map") };
    assert!(cells.iter().all(|row| row.len() == 2));
}
