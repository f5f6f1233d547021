use super::*;
use crate::draw;
use crate::records::{Event, Record};
use crate::studies::findings::Claim;
use crate::studies::tools::{
    self,
    testing::{self, Events},
};
use crate::studies::{RunPlan, Settings, catalog};
use crate::{language, training};
use serde::Deserialize;
use serde_json::json;

/// A story with these findings.
fn with(id: &str, findings: &[(&str, Verdict)]) -> Story {
    let finding = |&(id, verdict): &(&str, Verdict)| {
        let mut finding = Claim::new(id, "A claim").exact(true, "1", "1");
        finding.verdict = verdict;
        finding
    };
    let mut story = tools::story(id, "Title", "Question?", &[]);
    story.findings = findings.iter().map(finding).collect();
    story
}

fn rows(story: &Story) -> &[Vec<Cell>] {
    match &story.charts[0].picture {
        Picture::Table(table) => &table.rows,
        other => panic!("{other:?}"),
    }
}

fn row<'a>(story: &'a Story, situation: &str) -> &'a [Cell] {
    rows(story).iter().find(|row| row[0] == situation.into()).unwrap()
}

#[test]
fn pairs_follow_from_the_verdicts() {
    use Verdict::*;
    let stories = [
        with("stream", &[("batch", Supported), ("none", Undecided), ("collected", Supported)]),
        with("depth", &[("pre-12", Supported), ("pre-none", Contradicted), ("pre-8", Undecided)]),
        with("generalization", &[("gap-8", Undecided), ("gap-32", Undecided), ("layer-none", Undecided)]),
    ];
    let story = story(&stories).unwrap();
    let said = |situation| row(&story, situation)[1].clone();
    assert_eq!(
        said("Streams with changing classes"),
        "layer norm rather than batch norm (2 of 2); layer norm or no norm: undecided (0 of 1)".into()
    );
    let deep = "pre-norm rather than post-norm (1 of 2); no norm rather than pre-norm (1 of 1)";
    assert_eq!(said("Deep Transformers without warm-up"), deep.into());
    let few = "batch norm or layer norm: undecided (0 of 2); no norm or layer norm: undecided (0 of 1)";
    assert_eq!(said("Few training images: the smallest gap between training and test loss"), few.into());
    assert_eq!(said("Recurrent networks"), "no evidence in this report".into());
    assert_eq!(said("Cheapest inference"), "not measured".into());
    let clear = "Streams with changing classes: layer norm rather than batch norm (2 of 2). Deep Transformers without warm-up: \
                 no norm rather than pre-norm (1 of 1).";
    assert_eq!(story.answer, clear);
    assert!(!story.answer.contains("Recurrent") && !story.answer.contains("Few"), "{}", story.answer);
}

#[test]
fn evidence_for_both_sides_is_mixed_and_not_in_the_answer() {
    use Verdict::*;
    let stories = [with("stream", &[("batch", Supported), ("collected", Contradicted), ("several", Undecided)])];
    let story = story(&stories).unwrap();
    let said = &row(&story, "Streams with changing classes")[1];
    assert_eq!(*said, "layer norm or batch norm: mixed (1 and 1 of 3)".into());
    assert_eq!(story.answer, "The findings of this report do not decide for any situation.");
}

#[test]
fn every_link_leads_to_a_finding_and_missing_studies_are_named() {
    let stories = [with("stream", &[("batch", Verdict::Contradicted)])];
    let story = story(&stories).unwrap();
    let Cell::Links(links) = &row(&story, "Streams with changing classes")[2] else { panic!("links") };
    assert_eq!(links.len(), 1);
    assert_eq!((&*links[0].text, &*links[0].view), ("contradicted: A claim", "stream/q-batch"));
    let Cell::Links(links) = &row(&story, "Recurrent networks")[2] else { panic!("links") };
    let texts: Vec<&str> = links.iter().map(|link| &*link.text).collect();
    assert_eq!(texts[0], "not in this report: layernorm study compare");
    assert!(links.iter().all(|link| link.view.is_empty()), "{links:?}");
    assert!(super::story(&[with("epsilon", &[("stream", Verdict::Supported)])]).is_none());
}

#[test]
fn no_study_has_the_id_of_this_story() {
    assert!(catalog::all().iter().all(|study| study.name() != ID && !study.plan(&Settings::default()).is_empty()));
}

/// Events of a training run on images. At higher learning rates losses are lower, so the best rates are not the common one.
fn image_events(spec: &training::Spec) -> Events {
    let loss = 0.5 / (1.0 + spec.learning_rate) + 0.01 * spec.start.seed as f64;
    let result = json!({"loss": loss, "accuracy": 0.8});
    let trial = |trial: &training::Trial| ("trial", json!({"name": trial.name, "loss": loss, "accuracy": 0.8}));
    let evaluations = spec.evaluation_steps().into_iter().map(|step| {
        let seen = json!({"step": step, "train_loss": loss, "train_accuracy": 0.8, "loss": loss, "accuracy": 0.8});
        ("evaluate", seen)
    });
    evaluations.chain(spec.trials.iter().map(trial)).chain([("test", result)]).collect()
}

/// Events of a language model.
fn language_events(spec: &language::Spec) -> Events {
    let bits = 3.0 - spec.learning_rate + 0.01 * spec.start.seed as f64;
    let at = |step| ("evaluate", json!({"step": step, "train_bits": bits, "bits": bits}));
    let positions = json!({"ends": [8, 16, 32, 64, 128, 256, 512], "bits": vec![bits; 7], "sequences": 9});
    let rest = [("test", json!({"bits": bits})), ("positions", positions)];
    spec.evaluation_steps().into_iter().map(at).chain(rest).collect()
}

/// Events of a DRAW run.
fn draw_events(spec: &draw::Spec) -> Events {
    let bound = json!({"reconstruction": 60.0 + spec.seed as f64, "kl": 10.0});
    let at = |step| ("evaluate", json!({"step": step, "train": bound, "validation": bound}));
    [0, spec.steps].into_iter().map(at).chain([("test", bound.clone())]).collect()
}

/// A finished record of every planned training run.
fn complete(plan: &RunPlan) -> Option<Record> {
    let mut record = Record::new(plan.header().clone());
    let events = match (plan.spec(), plan.language_spec()) {
        (Some(spec), _) => image_events(spec),
        (_, Some(spec)) => language_events(spec),
        _ => draw_events(&draw::Spec::deserialize(&plan.header().settings["draw"]).ok()?),
    };
    record.events = events.into_iter().map(|(name, data)| Event { name: name.to_owned(), data }).collect();
    record.finished = true;
    Some(record)
}

/// The stories of the studies with bearings, from complete records of five seeds.
fn complete_stories() -> Vec<Story> {
    let bearings = || SITUATIONS.iter().flat_map(|situation| situation.bearings);
    let settings = Settings { seeds: Some(5), ..testing::settings() };
    let studies = catalog::all().into_iter().filter(|study| bearings().any(|bearing| bearing.study == study.name()));
    let story = |study: &dyn crate::studies::Study| {
        let records: Vec<Record> = study.plan(&settings).iter().filter_map(complete).collect();
        study.story(&records)
    };
    studies.map(story).collect()
}

#[test]
fn every_bearing_is_a_finding_of_a_complete_report() {
    let stories = complete_stories();
    let absent = |bearing: &&Bearing| find(bearing, &stories).is_none();
    let name = |bearing: &Bearing| format!("{}/{}", bearing.study, bearing.finding);
    let bearings = || SITUATIONS.iter().flat_map(|situation| situation.bearings);
    assert_eq!(bearings().filter(absent).map(name).collect::<Vec<_>>(), Vec::<String>::new());
    for bearing in bearings() {
        // A claim such as “batch norm has a lower error than layer norm” names the better option first.
        let claim = find(bearing, &stories).unwrap().claim.to_lowercase();
        if claim.contains("lower")
            && let (Some(better), Some(worse)) = (claim.find(bearing.better), claim.find(bearing.worse))
        {
            assert!(better < worse, "{}: {claim}", name(bearing));
        }
    }
    let story = story(&stories).unwrap();
    assert!(rows(&story).iter().all(|row| row[1] != "no evidence in this report".into()));
}

#[test]
fn a_situation_counts_a_finding_once() {
    for situation in SITUATIONS {
        for (number, bearing) in situation.bearings.iter().enumerate() {
            let again = |other: &Bearing| (other.study, other.finding) == (bearing.study, bearing.finding);
            assert!(!situation.bearings[..number].iter().any(again), "{}: {}", situation.name, bearing.finding);
        }
    }
}
