use super::*;
use crate::records::Event;
use crate::report::{Picture, Verdict};
use crate::studies::tools::testing;
use serde_json::json;

#[test]
fn a_short_run_gives_a_story_and_the_same_bytes_after_interruptions() {
    let plans = Draw.plan(&testing::settings()).into_iter().map(|plan| {
        plan.with_draw(|spec| {
            (spec.steps, spec.evaluations, spec.glimpses, spec.hidden) = (7, 2, 3, 8);
            (spec.train, spec.validation, spec.test, spec.batch_size, spec.digits) = (40, 20, 20, 8, 4);
        })
    });
    let records = testing::records_of(&Draw, &plans.collect::<Vec<_>>());
    let story = Draw.story(&records);
    let ids: Vec<&str> = story.charts.iter().map(|chart| chart.id.as_str()).collect();
    assert_eq!(ids, ["bound", "reconstruction", "kl", "digits", "training"]);
    for (id, count) in [("digits", 3), ("training", 3)] {
        let chart = story.charts.iter().find(|chart| chart.id == id).unwrap();
        let Picture::Images { rows: 14, columns: 14, panels, frames, .. } = &chart.picture else { panic!("{chart:?}") };
        assert_eq!((panels.len(), frames.len()), (2, count), "{id}");
        assert!(frames.iter().flat_map(|frame| frame.images.iter().flatten()).all(|image| image.len() == 196));
        assert!(frames.iter().all(|frame| frame.images.iter().all(|images| images.len() == 4)));
    }
    assert!(story.findings.iter().all(|finding| finding.verdict == Verdict::Undecided), "one seed decides nothing");
    assert_eq!(story.findings.len(), 3);
}

/// Records of five seeds whose bounds do not change.
fn synthetic(bound: impl Fn(Norms, u64) -> f64) -> Vec<Record> {
    let settings = Settings { seeds: Some(5), ..testing::settings() };
    let record = |plan: RunPlan| {
        let mut record = Record::new(plan.header().clone());
        let norms = if plan.run().contains("cell") { Norms::Cell } else { Norms::None };
        let seed = record.header.settings["seed"].as_u64().unwrap();
        let nats = json!({"reconstruction": bound(norms, seed) - 10.0, "kl": 10.0});
        let at = |step: usize| json!({"step": step, "train": nats, "validation": nats});
        let event = |name: &str, data| Event { name: name.to_owned(), data };
        record.events = vec![event("evaluate", at(0)), event("evaluate", at(9)), event("test", nats.clone())];
        record.finished = true;
        record
    };
    Draw.plan(&settings).into_iter().map(record).collect()
}

#[test]
fn bounds_of_the_same_seed_are_compared() {
    // The seeds differ by more than the norms.
    let lower = synthetic(|norms, seed| 60.0 + 5.0 * seed as f64 - if norms == Norms::Cell { 1.5 } else { 0.0 });
    let story = Draw.story(&lower);
    testing::check(&story);
    assert!(testing::all_supported(&story), "{:?}", story.findings);
    for id in ["cell-mean", "cell-final", "cell-test"] {
        assert_eq!(testing::differences(&story, id), [-1.5; 5]);
    }
    assert_eq!(
        story.answer,
        "After training, the validation bound is 75 nats (65 to 85) with no norm, and 73.5 nats (63.5 to 83.5) with layer \
         norm on the cell."
    );
    let higher = synthetic(|norms, _| if norms == Norms::Cell { 61.0 } else { 60.0 });
    assert_eq!(testing::verdict(&Draw.story(&higher), "cell-final"), Verdict::Contradicted);
}

#[test]
fn a_diverged_run_counts_as_guessing() {
    let mut records = synthetic(|_, _| 60.0);
    for record in records.iter_mut().filter(|record| record.header.run.contains("cell")) {
        record.events.truncate(1);
        record.events.push(Event { name: "diverged".to_owned(), data: json!({"step": 3}) });
    }
    let story = Draw.story(&records);
    testing::check(&story);
    for id in ["cell-mean", "cell-final", "cell-test"] {
        let expected = 196.0 * std::f64::consts::LN_2 - 60.0;
        assert!(testing::differences(&story, id).iter().all(|found| (found - expected).abs() < 1e-9), "{id}");
    }
}

#[test]
fn the_paper_has_its_own_study() {
    let plans = DrawPaper.plan(&Settings { seeds: Some(1), ..testing::settings() });
    let spec = &plans[0].header().settings["draw"];
    assert_eq!((&spec["glimpses"], &spec["hidden"], &spec["batch_size"]), (&json!(64), &json!(256), &json!(128)));
    assert_eq!(spec["steps"], 200 * (8000 / 128));
    assert!(DrawPaper.takes().is_some() && Draw.takes().is_none());
}
