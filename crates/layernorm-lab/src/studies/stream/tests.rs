use super::*;
use crate::report::Verdict;
use crate::studies::tools::testing::{self, verdict};
use serde_json::json;

#[test]
fn streams_have_as_many_images_at_any_batch_size() {
    for plan in Streams.plan(&Settings::default()) {
        let spec = plan.spec().unwrap();
        assert_eq!(spec.steps * spec.batch_size, PHASES * QUICK_PHASE, "{}", plan.run());
        // Every phase ends with an interval.
        let phases = spec.stream.as_ref().unwrap().boundaries(spec.steps);
        assert!(phases.iter().all(|step| spec.evaluation_steps().contains(step)), "{}", plan.run());
    }
}

#[test]
fn the_story_of_short_runs_is_whole() {
    let settings = Settings { learning_rate: Some(0.01), ..testing::settings() };
    let records = testing::trained(&Streams, &settings, 96, |run| !run.contains("shuffled"));
    let story = Streams.story(&records);
    assert_eq!(story.charts.len(), 3);
    let ids: Vec<&str> = story.findings.iter().map(|finding| finding.id.as_str()).collect();
    assert_eq!(ids, ["batch", "none", "collected", "several", "recovery-none", "recovery-batch"]);
    // Batch norm with single images cannot learn: it is wrong most of the time.
    assert!(testing::differences(&story, "batch")[0] < 0.0, "{:?}", story.findings[0]);
}

/// Events in which the error after a change differs from that of the rest.
fn events(spec: &Spec, after: f64, rest: f64) -> testing::Events {
    let steps = spec.evaluation_steps();
    let at = |(number, &step): (usize, &usize)| {
        let early = number > INTERVALS && (number - 1) % INTERVALS < INTERVALS / 4;
        let accuracy = (number > 0).then_some(1.0 - if early { after } else { rest });
        json!({"step": step, "train_loss": null, "train_accuracy": accuracy, "loss": 1.0, "accuracy": 0.5})
    };
    steps.iter().enumerate().map(|pair| ("evaluate", at(pair))).collect()
}

#[test]
fn each_way_is_judged_at_its_best_rate_and_recovery_by_what_follows_a_change() {
    let records = testing::synthetic(&Streams, |run, spec| {
        let seed = spec.start.seed as f64;
        let best = if spec.batch_size == 1 { 0.01 } else { 0.1 };
        let worse = if spec.learning_rate == best { 0.0 } else { 0.3 };
        let (after, rest) = match (spec.norm, spec.batch_size) {
            (Norm::Batch, 1) => (0.9, 0.9),
            (Norm::None, _) => (0.4 + 0.01 * seed, 0.2 + 0.001 * seed),
            (Norm::Batch, _) => (0.6, 0.1),
            _ => (0.5, 0.1),
        };
        let constant = if run.contains("shuffled") { 0.25 } else { after };
        events(spec, constant + worse, if run.contains("shuffled") { 0.25 } else { rest + worse })
    });
    let story = Streams.story(&records);
    testing::check(&story);
    let ids = ["batch", "none", "collected", "several", "recovery-none", "recovery-batch", "shuffled-none"];
    use Verdict::*;
    assert_eq!(
        ids.map(|id| verdict(&story, id)),
        [Supported, Supported, Supported, Supported, Contradicted, Supported, Undecided]
    );
    // 0.6 against 0.5 in a quarter of five of six phases.
    assert!((testing::differences(&story, "recovery-batch")[0] + 10.0).abs() < 1e-9);
    let rates: Vec<_> = story.numbers.unwrap().rows.into_iter().map(|row| row[2].clone()).collect();
    assert_eq!(rates, [0.01, 0.01, 0.01, 0.1, 0.1].map(crate::report::Cell::from));
}
