use super::*;
use crate::report::Picture;
use crate::report::Verdict;
use crate::studies::tools::testing::{self, differences, verdict};
use crate::training::events;

#[test]
fn clouds_of_every_norm() {
    let records = testing::trained(&Activations, &testing::settings(), 12, |_| true);
    let story = Activations.story(&records);
    assert_eq!(story.findings.len(), 4 + 3 + 1);
    assert_eq!(verdict(&story, "circle"), Verdict::Supported, "{:?}", story.findings);
    assert!(differences(&story, "radius-none")[0] < -1.0 && differences(&story, "radius-input")[0] < -1.0);
    assert_eq!(verdict(&story, "separated-layer"), Verdict::Undecided, "one seed decides nothing");
    for chart in &story.charts[..2] {
        let Picture::Scatter3d { panels, classes, .. } = &chart.picture else { panic!("{}", chart.id) };
        assert_eq!((panels.len(), classes.len()), (3, 10));
        assert!(panels.iter().all(|panel| panel.points.len() == 40), "as many as there are validation images");
        // A projection is never longer than the whole, and with layer norm all images have the mean radius, nearly.
        let (layer, far) = (&panels[2], |p: &[f64; 4]| (p[0] * p[0] + p[1] * p[1] + p[2] * p[2]).sqrt());
        assert!(layer.points.iter().all(|point| far(point) < 1.1 * layer.sphere.unwrap()));
    }
    let three = story.charts.iter().find(|chart| chart.id == "three").unwrap();
    let Picture::Scatter3d { panels, equal: true, .. } = &three.picture else { panic!("{three:?}") };
    let names: Vec<&str> = panels.iter().map(|panel| panel.name.as_str()).collect();
    assert_eq!(names, ["no norm", "batch norm", "layer norm"]);
    assert!(
        panels[2]
            .points
            .iter()
            .all(|[x, y, z, _]| (x + y + z).abs() < 0.002 && (x * x + y * y + z * z - 3.0).abs() < 0.01)
    );
}

#[test]
fn equal_radii_are_a_question() {
    let records = testing::synthetic(&Activations, |run, spec| {
        let noise = 0.01 * spec.start.seed as f64;
        let wide = match spec.norm {
            Norm::Layer => 0.1 + noise,
            Norm::Batch => 0.1,
            _ => 0.5,
        };
        let sizes = |wide: f64| serde_json::json!({"radius": [1.0 - wide, 1.0 + wide], "mean": [0.0, 0.0]});
        let off = if run.contains("three") { 0.01 } else { wide };
        let event =
            serde_json::json!({"step": 0, "layer": "layer 2", "units": 64, "before": sizes(0.12), "after": sizes(off)});
        vec![("geometry", event)]
    });
    let story = Activations.story(&records);
    testing::check(&story);
    let ids = ["radius-none", "radius-batch", "radius-input", "circle"];
    use Verdict::*;
    assert_eq!(ids.map(|id| verdict(&story, id)), [Supported, Contradicted, Undecided, Contradicted]);
    // 100·(0.11 − 0.5)
    assert!((differences(&story, "radius-none")[0] + 39.0).abs() < 1e-9);
    let radius = story.charts.iter().find(|chart| chart.id == "radius").unwrap();
    let Picture::Histograms { groups, .. } = &radius.picture else { panic!("{}", radius.id) };
    assert_eq!(groups.len(), 5);
    assert!(groups.iter().all(|group| (group.counts.iter().sum::<f64>() - 100.0).abs() < 1e-9));
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
