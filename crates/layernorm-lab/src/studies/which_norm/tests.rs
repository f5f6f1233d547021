use super::*;
use crate::studies::findings::Claim;
use crate::studies::tools;
use crate::studies::{Settings, catalog};

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
fn recommendations_follow_from_the_verdicts() {
    use Verdict::*;
    let stories = [
        with("stream", &[("batch", Supported), ("none", Undecided), ("collected", Supported)]),
        with("depth", &[("pre-12", Supported), ("pre-none", Contradicted), ("pre-8", Undecided)]),
        with("generalization", &[("gap-8", Undecided), ("gap-32", Undecided), ("layer-none", Undecided)]),
    ];
    let story = story(&stories).unwrap();
    let said = |situation| row(&story, situation)[1].clone();
    assert_eq!(said("Streams: one sample at a time, changing classes"), "layer norm rather than batch norm".into());
    // Pre-norm wins against post-norm and loses against no norm.
    let deep = "no norm rather than post-norm; mixed evidence: pre-norm";
    assert_eq!(said("Deep Transformers without warm-up"), deep.into());
    assert_eq!(said("Few training images: the smallest gap between training and test loss"), "undecided".into());
    assert_eq!(said("Recurrent networks"), "no evidence in this report".into());
    assert_eq!(said("Cheapest inference"), "not measured".into());
    assert!(story.answer.starts_with("Streams: one sample at a time, changing classes: layer norm rather than"));
    assert!(!story.answer.contains("Recurrent") && !story.answer.contains("Few"), "{}", story.answer);
}

#[test]
fn every_link_leads_to_a_finding_and_missing_studies_are_named() {
    let stories = [with("stream", &[("batch", Verdict::Contradicted)])];
    let story = story(&stories).unwrap();
    let Cell::Links(links) = &row(&story, "Streams: one sample at a time, changing classes")[2] else {
        panic!("links")
    };
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
