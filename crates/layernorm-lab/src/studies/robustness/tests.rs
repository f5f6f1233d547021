use super::*;
use crate::studies::tools::testing;

#[test]
fn the_story_has_all_trials_and_factors() {
    let wanted = |run: &str| run.contains("-layer-") || run.contains("-none-");
    let records = testing::trained(&Robustness, &testing::settings(), 6, wanted);
    assert_eq!(records.len(), 2 * (INPUT_FACTORS.len() + WEIGHT_FACTORS.len() - 1));
    let story = Robustness.story(&records);
    assert!(story.answer.starts_with("Inputs scaled by 0.01 to 100:"), "{}", story.answer);
    let drawn = story.charts.iter().all(|chart| match &chart.picture {
        crate::report::Picture::Lines { series, .. } => series[0].y.iter().all(Option::is_some),
        _ => false,
    });
    assert!(drawn);
}
