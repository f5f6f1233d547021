use super::distribution::{Try, Undone};
use super::*;
use crate::report::Picture;
use crate::studies::tools::{events, testing};

#[test]
fn gain_and_bias_set_spread_and_middle_and_undo_one_row() {
    let records = testing::records(&GainBias, &Settings::default());
    let undone: Vec<Undone> = events(&records, "undone");
    let of = |with: Try| *undone.iter().find(|undone| undone.with == with).unwrap();
    assert!(of(Try::EachRow).largest < 1e-6 && of(Try::BatchNorm).largest < 1e-6, "{undone:?}");
    assert!(of(Try::AllRows).typical > 0.3 && of(Try::EachFeature).typical > 0.3, "{undone:?}");
    let story = GainBias.story(&records);
    assert_eq!(story.as_expected, Some(true), "{}", story.answer);
    for chart in &story.charts {
        let Picture::Histograms { groups, .. } = &chart.picture else { panic!("{}", chart.id) };
        assert!(groups.iter().all(|group| group.counts.iter().sum::<f64>() > 16_000.0));
    }
}

#[test]
fn other_runs_are_left_alone() {
    let (mut records, _) = testing::run_all(&GainBias, &Settings::default(), usize::MAX);
    let alone = serde_json::to_string(&GainBias.story(&records)).unwrap();
    let mut other = records[0].clone();
    other.header.run = "gain-bias-training-1".to_owned();
    records.push(other);
    assert_eq!(serde_json::to_string(&GainBias.story(&records)).unwrap(), alone);
    records.remove(0);
    assert_eq!(GainBias.story(&records).as_expected, None);
}
