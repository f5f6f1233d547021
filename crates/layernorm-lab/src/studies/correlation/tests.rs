use super::*;
use crate::report::Picture;
use crate::studies::tools::testing;

#[test]
fn batch_norm_changes_no_correlation_and_layer_norm_does() {
    let records = testing::trained(&Correlation, &testing::settings(), 3, |run| !run.contains("rms"));
    let story = Correlation.story(&records);
    assert_eq!(story.as_expected, Some(true), "{}", story.answer);
    let maps = |id: &str| match &story.charts.iter().find(|chart| chart.id == id).unwrap().picture {
        Picture::Heatmaps { maps, .. } => maps.iter().map(|map| map.name.clone()).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(maps("maps-start"), ["no norm", "after batch norm", "after layer norm"]);
    assert_eq!(maps("maps-end")[2..5], ["before layer norm", "no norm (unchanged)", "after batch norm"]);
    let ids: Vec<&str> = story.charts.iter().map(|chart| chart.id.as_str()).collect();
    assert_eq!(ids, ["maps-start", "maps-end", "course", "drift-mean", "drift-variance"]);
    // After layer norm the mean is β and the variance γ², which start at 0 and 1.
    let Picture::Lines { series, .. } = &story.charts[4].picture else { panic!("lines") };
    let layer = series.iter().find(|series| series.name == "layer norm").unwrap();
    assert!((layer.y[0].unwrap() - 1.0).abs() < 1e-3, "{layer:?}");
}

#[test]
fn an_incomplete_matrix_is_left_out() {
    let mut records = testing::trained(&Correlation, &testing::settings(), 1, |run| run.contains("layer"));
    for event in records[0].events.iter_mut().filter(|event| event.name == "correlation") {
        event.data["after"] = vec![0.5; 3].into();
        event.data["before"] = vec![0.5; 3].into();
    }
    let story = Correlation.story(&records);
    assert!(story.charts.iter().all(|chart| !matches!(chart.picture, Picture::Heatmaps { .. })));
    testing::check(&story);
}
