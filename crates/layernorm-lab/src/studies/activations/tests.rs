use super::*;
use crate::report::Picture;
use crate::studies::tools::testing;
use crate::training::events;

#[test]
fn clouds_of_every_norm() {
    let records = testing::trained(&Activations, &testing::settings(), 12, |_| true);
    let story = Activations.story(&records);
    assert_eq!(story.as_expected, Some(true), "{}", story.answer);
    for chart in &story.charts[..2] {
        let Picture::Scatter3d { panels, classes, .. } = &chart.picture else { panic!("{}", chart.id) };
        assert_eq!((panels.len(), classes.len()), (3, 10));
        assert!(panels.iter().all(|panel| panel.points.len() == 40), "as many as there are validation images");
    }
}

#[test]
fn separation_is_the_part_between_the_classes() {
    let of = |points: &[[f64; 4]]| {
        let seen = events::Activations { step: 0, layer: String::new(), points: points.to_vec(), shares: [0.0; 3] };
        pictures::separation(&seen)
    };
    // Centroids at ±3, points at ±1 around them: 9 of 10.
    let points = [[2.0, 0.0, 0.0, 0.0], [4.0, 0.0, 0.0, 0.0], [-2.0, 0.0, 0.0, 1.0], [-4.0, 0.0, 0.0, 1.0]];
    assert_eq!(of(&points), Some(0.9));
    assert_eq!(of(&points.map(|[x, y, z, _]| [x, y, z, 0.0])), Some(0.0));
    assert_eq!(of(&points.map(|[_, y, z, class]| [1.0, y, z, class])), None);
    assert_eq!(of(&[]), None);
}
