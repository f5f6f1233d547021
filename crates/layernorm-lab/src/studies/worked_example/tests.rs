use super::*;
use crate::studies::tools::testing;

#[test]
fn the_example_can_be_checked_by_hand() {
    let records = testing::records(&WorkedExample, &Settings::default());
    let worked: Vec<Worked> = events(&records, "worked");
    let (columns, rows) = (&worked[0], &worked[1]);
    assert_eq!(columns.mean, [5.0, 9.0, 12.0, 22.0]);
    assert_eq!(columns.variance, [14.0, 62.0, 162.0, 728.0]);
    assert_eq!(rows.mean, [3.0, 30.0, 3.0]);
    assert_eq!(rows.variance, [3.5, 350.0, 3.5]);
    assert_eq!(rows.deviation[0], [-2.0, -1.0, 0.0, 3.0]);
    assert!((rows.normalized[0][3] - 3.0 / 3.5f64.sqrt()).abs() < 1e-5);
    let story = WorkedExample.story(&records);
    assert!(story.findings.len() == 3 && testing::all_supported(&story), "{:?}", story.findings);
    assert_eq!(story.charts.len(), 2);
}

#[test]
fn the_quiz_has_the_expected_answers() {
    let right = |habit| habits::try_out(habit).right();
    let like = |wanted: usize| Habit::ALL.into_iter().filter(|&habit| right(habit) == wanted).collect::<Vec<_>>();
    assert_eq!(like(0), [Habit::ColumnDeviation, Habit::MeasurementScore, Habit::ExamAverage]);
    assert_eq!(like(1), [Habit::ImageBrightness, Habit::SongLoudness, Habit::PatientScore, Habit::WordShares]);
    assert_eq!(like(2), [Habit::WholeTable]);
    assert_eq!(like(3), [Habit::PixelRange]);
}
