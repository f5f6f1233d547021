//! Shared by all studies: seeded random numbers, runs made of steps, number formatting and parts of stories.

use super::{Common, Error, Observer, Settings};
use crate::data::SplitMix64;
use crate::records::{Record, RunFile};
use crate::reference::norm::normalize;
use crate::reference::units::units;
use crate::report::{Axis, Chart, Picture, Story};
use layernorm::{Element, Float};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Default number of seeds.
pub(crate) const SEEDS: usize = 5;

/// The requested seeds: 1, 2, ….
pub(crate) fn seeds(settings: &Settings) -> impl Iterator<Item = u64> + use<> {
    1..=settings.seeds.unwrap_or(SEEDS).max(1) as u64
}

/// Uniform in [0, 1).
pub(crate) fn uniform(random: &mut SplitMix64) -> f64 {
    random.uniform()
}

/// Approximately standard normal, except for the far tails: a sum of twelve uniform numbers. It uses no library
/// function whose last bit could differ between machines.
pub(crate) fn normal(random: &mut SplitMix64) -> f64 {
    (0..12).map(|_| uniform(random)).sum::<f64>() - 6.0
}

/// `count` of them.
pub(crate) fn normals(random: &mut SplitMix64, count: usize) -> Vec<f64> {
    (0..count).map(|_| normal(random)).collect()
}

/// Rounds numbers to a type.
pub(crate) fn narrow<T: Element>(values: &[f64]) -> Vec<T> {
    values.iter().map(|&value| T::narrow(T::Acc::from_f64(value))).collect()
}

/// Converts numbers to f64, exactly.
pub(crate) fn wide<T: Element>(values: &[T]) -> Vec<f64> {
    values.iter().map(|value| value.widen().to_f64()).collect()
}

/// The largest |value|; NaN if there is one.
pub(crate) fn largest(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(0.0, |max: f64, value| {
        let value = value.abs();
        if value.is_nan() || max.is_nan() { f64::NAN } else { max.max(value) }
    })
}

/// The largest error of y, the layer norm of a row x without γ and β, in units in the last place: [`units`].
pub(crate) fn units_off(x: &[f32], y: &[f32], eps: f64) -> f64 {
    let x_hat = normalize(&wide(x), true, f64::from(eps as f32)).x_hat;
    units(y, &x_hat.iter().map(|x_hat| x_hat.to_f64()).collect::<Vec<_>>())
}

/// Mean and biased standard deviation.
pub(crate) fn moments(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let square = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / count;
    (mean, square.sqrt())
}

/// Root mean square.
pub(crate) fn rms(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    (values.map(|value| value * value).sum::<f64>() / count).sqrt()
}

/// Converts an error of the kernels to one of the run.
pub(crate) fn refused(error: layernorm::Error) -> Error {
    Error::Run(error.to_string())
}

/// Executes a part of a run that consists of independent steps. Each step writes one event called `name`; steps already
/// in the file are skipped. `share` is the part's range within the run's progress, from 0 to 1.
pub(crate) fn each<S, E: Serialize>(
    name: &str,
    steps: &[S],
    share: std::ops::Range<f64>,
    file: &mut RunFile,
    observer: &mut dyn Observer,
    mut step: impl FnMut(&S) -> Result<E, Error>,
) -> Result<(), Error> {
    let done = file.record().named(name).count();
    for (number, item) in steps.iter().enumerate().skip(done) {
        if observer.stop() {
            return Err(Error::Stopped);
        }
        let data = serde_json::to_value(step(item)?).map_err(|error| Error::Run(error.to_string()))?;
        file.event(name, data)?;
        let done = (number + 1) as f64 / steps.len() as f64;
        observer.progress(share.start + done * (share.end - share.start), name);
    }
    Ok(())
}

/// All readable events with this name; events in the format of a later version are skipped.
pub(crate) fn events<T: DeserializeOwned>(records: &[Record], name: &str) -> Vec<T> {
    records.iter().flat_map(|record| record.named(name)).filter_map(|data| T::deserialize(data).ok()).collect()
}

/// The command that reproduces these records.
pub(crate) fn reproduce(study: &str, records: &[Record]) -> String {
    let settings: Vec<Common> = records.iter().map(Common::read).collect();
    let seeds = settings.iter().filter_map(|settings| settings.seed).max();
    let seeds = seeds.map_or(String::new(), |seeds| format!(" --seeds {seeds}"));
    let full = settings.iter().any(|settings| settings.full);
    let options = settings.iter().find_map(|settings| settings.options.as_deref());
    let options = options.filter(|options| !options.is_empty()).map_or(String::new(), |options| format!(" {options}"));
    format!("layernorm study {study}{seeds}{}{options}", if full { " --full" } else { "" })
}

/// A story without charts, to be filled in.
pub(crate) fn story(id: &str, title: &str, question: &str, records: &[Record]) -> Story {
    Story {
        id: id.to_owned(),
        title: title.to_owned(),
        question: question.to_owned(),
        answer: "There are no records yet.".to_owned(),
        findings: Vec::new(),
        expectation: String::new(),
        charts: Vec::new(),
        numbers: None,
        reproduce: reproduce(id, records),
        notes: Vec::new(),
    }
}

/// A chart.
pub(crate) fn chart(id: &str, title: &str, see: impl Into<String>, picture: Picture) -> Chart {
    Chart { id: id.to_owned(), title: title.to_owned(), see: see.into(), picture }
}

/// An axis.
pub(crate) fn axis(label: &str) -> Axis {
    Axis { label: label.to_owned(), ..Axis::default() }
}

/// A logarithmic axis.
pub(crate) fn log_axis(label: &str) -> Axis {
    Axis { log: true, ..axis(label) }
}

/// An axis of names.
pub(crate) fn categories(label: &str, names: impl IntoIterator<Item = impl Into<String>>) -> Axis {
    Axis { categories: Some(names.into_iter().map(Into::into).collect()), ..axis(label) }
}

/// Formats a number with about three digits, with powers of ten if it is very large or small.
pub(crate) fn short(number: f64) -> String {
    match number.abs() {
        size if !size.is_finite() => "not a number".to_owned(),
        0.0 => "0".to_owned(),
        size if !(1e-3..1e6).contains(&size) => power(number),
        size if size >= 999.5 => thousands(number),
        size if size >= 99.95 => format!("{number:.0}"),
        size if size >= 9.995 => trimmed(format!("{number:.1}")),
        size if size >= 0.9995 => trimmed(format!("{number:.2}")),
        _ => trimmed(format!("{number:.3}")),
    }
}

/// Formats a number with at most `digits` decimals.
pub(crate) fn to_digits(number: f64, digits: i32) -> String {
    let scale = 10f64.powi(digits);
    short((number * scale).round() / scale)
}

/// Such as 3.2·10⁻⁷.
fn power(number: f64) -> String {
    let text = format!("{number:.1e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits = digits.strip_suffix(".0").unwrap_or(digits);
    let raised: String = exponent.chars().map(|c| c.to_digit(10).map_or('⁻', superscript)).collect();
    match digits {
        "1" => format!("10{raised}"),
        "-1" => format!("−10{raised}"),
        _ => format!("{}·10{raised}", digits.replace('-', "−")),
    }
}

fn superscript(digit: u32) -> char {
    ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'][digit as usize % 10]
}

fn thousands(number: f64) -> String {
    let whole = number.abs().round() as u64;
    format!("{}{},{:03}", if number < 0.0 { "−" } else { "" }, whole / 1000, whole % 1000)
}

/// Capitalizes the first letter.
pub(crate) fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

fn trimmed(text: String) -> String {
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.replace('-', "−")
}

#[cfg(test)]
pub(crate) mod testing {
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
        study
            .plan(settings)
            .into_iter()
            .filter(|plan| plan.spec().is_none() && plan.language_spec().is_none())
            .collect()
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
            assert!(
                finding.claim.chars().next().is_some_and(|c| !c.is_ascii_lowercase()) && !finding.claim.ends_with('.')
            );
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted() {
        let words = [
            (0.0, "0"),
            (1.0, "1"),
            (0.25, "0.25"),
            (-0.5, "−0.5"),
            (3.24e-7, "3.2·10⁻⁷"),
            (1e-12, "10⁻¹²"),
            (12345.6, "12,346"),
            (31.62, "31.6"),
            (316.2, "316"),
            (2e9, "2·10⁹"),
            (f64::NAN, "not a number"),
        ];
        for (number, word) in words {
            assert_eq!(short(number), word);
        }
        assert_eq!([to_digits(-0.004, 2), to_digits(0.126, 2), to_digits(-2.04, 1)], ["0", "0.13", "−2"]);
    }

    #[test]
    fn normals_are_nearly_normal_and_reproducible() {
        let numbers = normals(&mut SplitMix64::new(1), 10_000);
        let (mean, deviation) = moments(&numbers);
        // Four standard deviations of each: 1/√10⁴ and √(1/(2·10⁴)).
        assert!(mean.abs() < 0.04 && (deviation - 1.0).abs() < 0.03, "{mean} {deviation}");
        assert_eq!(numbers, normals(&mut SplitMix64::new(1), 10_000));
        assert!(largest([1.0, f64::NAN, 2.0]).is_nan());
        assert_eq!(largest([1.0, -3.0]), 3.0);
    }
}
