//! Runs studies in a temporary folder.

use crate::data::Dataset;
use crate::language;
use crate::records::{Event, Record, RunFile, read_all};
use crate::report::{Evidence, Picture, Story, Verdict};
use crate::studies::{Observer, RunPlan, Settings, Study};
use crate::training::Spec;
use serde_json::{Value, json};
use std::sync::OnceLock;

/// The embedded digits.
pub(crate) fn data() -> &'static Dataset {
    static DATA: OnceLock<Dataset> = OnceLock::new();
    DATA.get_or_init(|| Dataset::embedded().unwrap())
}

/// Stops after this many steps.
pub(crate) struct Patience(pub(crate) usize);

impl Observer for Patience {
    fn progress(&mut self, done: f64, _words: &str) {
        assert!((0.0..=1.0).contains(&done));
        self.0 = self.0.saturating_sub(1);
    }
    fn stop(&self) -> bool {
        self.0 == 0
    }
}

/// The planned runs without training.
fn exact(study: &dyn Study, settings: &Settings) -> Vec<RunPlan> {
    study.plan(settings).into_iter().filter(|plan| plan.spec().is_none() && plan.language_spec().is_none()).collect()
}

/// Executes the planned runs without training.
pub(crate) fn run_all(study: &dyn Study, settings: &Settings) -> Vec<Record> {
    run_plans(study, &exact(study, settings), usize::MAX).0
}

/// Executes runs, stopping each after every `steps` steps and resuming it. Also returns the files' bytes.
fn run_plans(study: &dyn Study, plans: &[RunPlan], steps: usize) -> (Vec<Record>, Vec<Vec<u8>>) {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = Vec::new();
    for plan in plans {
        assert!(plan.run().starts_with(study.name()), "{}", plan.run());
        let open = || RunFile::open(folder.path(), plan.header().clone()).unwrap();
        while !open().record().finished {
            let result = plan.execute(data(), &mut open(), &mut Patience(steps));
            assert!(matches!(result, Ok(()) | Err(crate::studies::Error::Stopped)), "{result:?}");
        }
        bytes.push(std::fs::read(open().path()).unwrap());
    }
    (read_all(folder.path()).unwrap(), bytes)
}

/// The records of the planned runs without training. Checks that an interrupted run gives the same bytes, and that
/// stories of partial records are valid.
pub(crate) fn records(study: &dyn Study, settings: &Settings) -> Vec<Record> {
    records_of(study, &exact(study, settings))
}

/// Settings for the embedded digits and one seed.
pub(crate) fn settings() -> Settings {
    Settings { seeds: Some(1), data: data().label(), ..Settings::default() }
}

/// The same for training runs: only those whose name `keep` accepts, with at most `steps` steps and on few images.
pub(crate) fn trained(
    study: &dyn Study,
    settings: &Settings,
    steps: usize,
    keep: impl Fn(&str) -> bool,
) -> Vec<Record> {
    let shorten = |spec: &mut Spec| {
        spec.steps = spec.steps.min(steps);
        spec.train = spec.train.min(300);
        spec.validation = spec.validation.min(40);
        spec.test = spec.test.min(40);
    };
    let plans = study.plan(settings).into_iter().filter(|plan| keep(plan.run()));
    let plans: Vec<RunPlan> = plans.map(|plan| plan.with_spec(shorten)).collect();
    assert!(!plans.is_empty());
    records_of(study, &plans)
}

/// The same for language models: few steps of small networks.
pub(crate) fn language(
    study: &dyn Study,
    settings: &Settings,
    steps: usize,
    keep: impl Fn(&str) -> bool,
) -> Vec<Record> {
    let shorten = |spec: &mut language::Spec| {
        (spec.steps, spec.hidden) = (spec.steps.min(steps), 8);
        (spec.validation, spec.test, spec.sample) = (200, 1_100, spec.sample.min(20));
    };
    let plans = study.plan(settings).into_iter().filter(|plan| keep(plan.run()));
    let plans: Vec<RunPlan> = plans.map(|plan| plan.with_language_spec(shorten)).collect();
    assert!(!plans.is_empty());
    records_of(study, &plans)
}

/// Name and data of events.
pub(crate) type Events = Vec<(&'static str, Value)>;

/// Finished records of the training runs for five seeds, with these events instead of training. Runs without events
/// are left out.
pub(crate) fn synthetic(study: &dyn Study, events: impl Fn(&str, &Spec) -> Events) -> Vec<Record> {
    made(study, |plan| Some(events(plan.run(), plan.spec()?)))
}

/// The same for language models.
pub(crate) fn synthetic_language(study: &dyn Study, events: impl Fn(&language::Spec) -> Events) -> Vec<Record> {
    made(study, |plan| Some(events(plan.language_spec()?)))
}

fn made(study: &dyn Study, events: impl Fn(&RunPlan) -> Option<Events>) -> Vec<Record> {
    let record = |plan: RunPlan| {
        let mut record = Record::new(plan.header().clone());
        let events = events(&plan)?.into_iter();
        record.events = events.map(|(name, data)| Event { name: name.to_owned(), data }).collect();
        record.finished = true;
        (!record.events.is_empty()).then_some(record)
    };
    let settings = Settings { seeds: Some(5), ..settings() };
    study.plan(&settings).into_iter().filter_map(record).collect()
}

/// The evaluations of a run whose loss and error do not change.
pub(crate) fn evaluations(spec: &Spec, loss: f64, error: f64) -> Events {
    let at = |n: usize| {
        let step = n * spec.steps / spec.evaluations;
        json!({"step": step, "train_loss": loss, "train_accuracy": 1.0 - error, "loss": loss, "accuracy": 1.0 - error})
    };
    (0..=spec.evaluations).map(|n| ("evaluate", at(n))).collect()
}

/// The evaluations of a run that diverged at once.
pub(crate) fn diverged() -> Events {
    let nothing = json!({"step": 1, "train_loss": null, "train_accuracy": null, "loss": null, "accuracy": null});
    vec![("evaluate", nothing), ("diverged", json!({"step": 1}))]
}

/// The verdict on a question.
pub(crate) fn verdict(story: &Story, id: &str) -> Verdict {
    let found = story.findings.iter().find(|finding| finding.id == id);
    found.unwrap_or_else(|| panic!("no {id} in {:?}", story.findings)).verdict
}

/// The differences behind a finding.
pub(crate) fn differences<'a>(story: &'a Story, id: &str) -> &'a [f64] {
    match story.findings.iter().find(|finding| finding.id == id).map(|finding| &finding.evidence) {
        Some(Evidence::Paired(paired)) => &paired.differences,
        other => panic!("{id}: {other:?}"),
    }
}

/// Whether the story has findings and all of them are supported.
pub(crate) fn all_supported(story: &Story) -> bool {
    !story.findings.is_empty() && story.findings.iter().all(|finding| finding.verdict == Verdict::Supported)
}

/// The records of these runs, checked like those of [`records`].
pub(crate) fn records_of(study: &dyn Study, plans: &[RunPlan]) -> Vec<Record> {
    let (records, bytes) = run_plans(study, plans, usize::MAX);
    let (again, stopped) = run_plans(study, plans, 3);
    assert_eq!(bytes, stopped, "the same settings give the same bytes");
    assert_eq!(records, again);
    check_all(study, &records);
    records
}

/// Checks the stories of records, of parts of them, and of unreadable records.
fn check_all(study: &dyn Study, records: &[Record]) {
    check(&study.story(&[]));
    for record in records {
        check(&study.story(std::slice::from_ref(record)));
        for events in [0, 1, 2, 5, record.events.len().saturating_sub(1)] {
            let mut part = record.clone();
            part.events.truncate(events);
            check(&study.story(&[part]));
        }
        let mut broken = record.clone();
        broken.events.iter_mut().for_each(|event| event.data = serde_json::json!({"other": null}));
        check(&study.story(&[broken]));
    }
    let story = study.story(records);
    check(&story);
    assert!(!story.charts.is_empty() && !story.expectation.is_empty());
}

/// Checks what holds for every story.
pub(crate) fn check(story: &Story) {
    assert!(!story.question.is_empty() && !story.answer.is_empty() && story.reproduce.contains(&story.id));
    assert!(!story.answer.contains("not a number"), "{}", story.answer);
    for finding in &story.findings {
        assert_eq!(story.findings.iter().filter(|other| other.id == finding.id).count(), 1, "{}", finding.id);
        assert!(finding.claim.chars().next().is_some_and(|c| !c.is_ascii_lowercase()) && !finding.claim.ends_with('.'));
        assert!(!finding.result.contains("not a number") && !finding.result.is_empty(), "{finding:?}");
        let explained = finding.explanation.as_ref().is_some_and(|text| text.ends_with('.'));
        assert_eq!(explained, finding.verdict != Verdict::Supported, "{finding:?}");
        if let Evidence::Paired(paired) = &finding.evidence {
            let numbers = paired.differences.iter().chain(paired.interval.iter().flatten()).chain([&paired.mean]);
            assert!(numbers.into_iter().all(|number| number.is_finite()), "{finding:?}");
        }
    }
    if let Some(table) = &story.numbers {
        assert!(table.rows.iter().all(|row| row.len() == table.columns.len()), "{table:?}");
    }
    for chart in &story.charts {
        assert!(chart.see.ends_with('.'), "{}: {}", chart.id, chart.see);
        assert_eq!(story.charts.iter().filter(|other| other.id == chart.id).count(), 1, "{}", chart.id);
        match &chart.picture {
            Picture::Lines { series, .. } => series.iter().for_each(|series| {
                assert_eq!(series.x.len(), series.y.len(), "{}", series.name);
                assert!(series.x.is_sorted(), "{}", series.name);
            }),
            Picture::Grid { rows, columns, cells, .. } => {
                assert_eq!(cells.len(), rows.len());
                assert!(cells.iter().all(|row| row.len() == columns.len()));
            }
            Picture::Histograms { groups, .. } => {
                groups.iter().for_each(|group| assert_eq!(group.edges.len(), group.counts.len() + 1));
            }
            Picture::Bars { x, series, .. } => {
                let count = x.categories.as_ref().map_or(0, Vec::len);
                series.iter().for_each(|bars| assert_eq!(bars.values.len(), count));
            }
            Picture::Frames { x, series, frames, .. } => {
                let count = x.categories.as_ref().map_or(0, Vec::len);
                for frame in frames {
                    assert_eq!(frame.values.len(), series.len(), "{}", frame.label);
                    assert!(frame.values.iter().all(|profile| profile.len() == count), "{}", frame.label);
                }
            }
            Picture::Heatmaps { maps, .. } => {
                maps.iter().for_each(|map| assert_eq!(map.values.len(), map.rows * map.columns, "{}", map.name));
            }
            Picture::Images { rows, columns, panels, frames, .. } => {
                for frame in frames {
                    assert_eq!(frame.images.len(), panels.len(), "{}", frame.label);
                    assert!(frame.images.iter().flatten().all(|image| image.len() == rows * columns));
                }
            }
            Picture::Quiz { questions } => questions.iter().for_each(|q| assert!(q.right < q.options.len())),
            _ => {}
        }
    }
}
