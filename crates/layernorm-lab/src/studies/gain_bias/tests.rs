use super::distribution::{Try, Undone};
use super::*;
use crate::report::Picture;
use crate::report::Verdict;
use crate::studies::tools::testing::{all_supported, evaluations, verdict};
use crate::studies::tools::{events, testing};

#[test]
fn gain_and_bias_set_deviation_and_mean_and_undo_one_row() {
    let records = testing::records(&GainBias, &Settings::default());
    let undone: Vec<Undone> = events(&records, "undone");
    let of = |with: Try| *undone.iter().find(|undone| undone.with == with).unwrap();
    assert!(of(Try::EachRow).largest < 1e-6 && of(Try::BatchNorm).largest < 1e-6, "{undone:?}");
    assert!(of(Try::AllRows).typical > 0.3 && of(Try::EachFeature).typical > 0.3, "{undone:?}");
    let story = GainBias.story(&records);
    assert!(story.findings.len() == 4 && all_supported(&story), "{:?}", story.findings);
    for chart in &story.charts {
        let Picture::Histograms { groups, .. } = &chart.picture else { panic!("{}", chart.id) };
        assert!(groups.iter().all(|group| group.counts.iter().sum::<f64>() > 16_000.0));
    }
}

#[test]
fn training_is_added_to_the_story_of_the_values() {
    let trained = testing::trained(&GainBias, &testing::settings(), 6, |run| run.starts_with(training::TRAINING));
    let values = testing::run_all(&GainBias, &testing::settings());
    let story = GainBias.story(&[values.clone(), trained.clone()].concat());
    assert!(story.answer.starts_with(&GainBias.story(&values).answer) && story.answer.contains("worst initialization"));
    assert_eq!(story.charts.len(), 4);
    assert_eq!(story.findings.len(), 8);
    assert_eq!(GainBias.story(&trained).findings, story.findings[4..]);
}

#[test]
fn extreme_initial_values_are_questions() {
    let records = testing::synthetic(&GainBias, |_, spec| {
        let noise = 0.002 * (spec.start.seed as f64 - 3.0) * spec.start.gain;
        let error = match (spec.start.gain, spec.start.bias) {
            (0.03, _) => 0.5,
            (10.0, _) => 0.1,
            (_, -2.0) => 0.19,
            _ => 0.2,
        };
        evaluations(spec, 0.5, error + noise)
    });
    let story = GainBias.story(&records);
    testing::check(&story);
    let ids = ["start-0.03-0", "start-10-0", "start-1--2", "start-1-2"];
    use Verdict::*;
    assert_eq!(ids.map(|id| verdict(&story, id)), [Supported, Contradicted, Contradicted, Undecided]);
}
