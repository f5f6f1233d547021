use super::*;
use crate::report::Picture;
use crate::report::Verdict;
use crate::studies::tools::testing::{self, verdict};
use crate::training::events;

#[test]
fn clouds_of_every_norm() {
    let records = testing::trained(&Activations, &testing::settings(), 12, |_| true);
    let story = Activations.story(&records);
    assert_eq!(story.findings.len(), 4);
    assert_eq!(verdict(&story, "separated-layer"), Verdict::Undecided, "one seed decides nothing");
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

#[test]
fn separation_before_and_after_is_a_question_for_each_norm() {
    let records = testing::synthetic(&Activations, |_, spec| {
        // Two classes at ±centre, each with two points at a distance of 1.
        let cloud = |step: usize, centre: f64| {
            let points = [[centre + 1.0, 0.0], [centre - 1.0, 0.0], [1.0 - centre, 1.0], [-1.0 - centre, 1.0]];
            let points = points.map(|[x, class]| [x, 0.0, 0.0, class]);
            (
                "activations",
                serde_json::json!({"step": step, "layer": "layer 2", "points": points, "shares": [0.5, 0.2, 0.1]}),
            )
        };
        let seed = spec.start.seed as f64;
        let end = match spec.norm {
            Norm::Layer => 4.0 + 0.1 * seed,
            Norm::Batch => 1.0,
            _ => 3.0,
        };
        vec![cloud(0, 1.0), cloud(spec.steps, end)]
    });
    let story = Activations.story(&records);
    testing::check(&story);
    let ids = ["separated-none", "separated-batch", "separated-layer", "layer-norm"];
    use Verdict::*;
    assert_eq!(ids.map(|id| verdict(&story, id)), [Supported, Undecided, Supported, Supported]);
}
