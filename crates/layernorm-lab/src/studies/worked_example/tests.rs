use super::*;
use crate::report::Verdict;
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
    assert!(story.findings.len() == 7 && testing::all_supported(&story), "{:?}", story.findings);
    let charts: Vec<&str> = story.charts.iter().map(|chart| chart.id.as_str()).collect();
    assert_eq!(charts, ["steps", "digits", "digits-table", "quiz"]);
}

#[test]
fn digits_depend_on_what_each_step_sums_over() {
    let images = digits::embedded().unwrap();
    let [rows, image, mean, threshold] = digits::Step::ALL.map(|step| digits::try_out(step, &images));
    assert!(rows.other_images == 0.0 && rows.other_rows == 0.0 && rows.own_row > 0.0);
    assert!(image.other_images == 0.0 && image.other_rows > 0.0 && image.own_row > 0.0);
    assert!(mean.other_images > 100.0 && mean.other_rows == 0.0 && mean.own_row == 0.0);
    assert_eq!([threshold.other_images, threshold.other_rows, threshold.own_row], [0.0; 3]);
    // The largest value is 1 or −1 by definition; thresholded images have no grey values.
    assert!(threshold.after.iter().all(|&x| x == 0.0 || x == 1.0) && mean.after.iter().any(|&x| x < 0.0));
    // A row without ink stays as it is.
    assert_eq!(rows.after[..28], [0.0; 28]);
    assert_eq!(image.after, image.before);
    assert_eq!(
        digits::answer(&[rows, image, mean.clone(), threshold]),
        "Two of the four steps on real digits resemble layer norm (rows scaled to sum 1 and image scaled to sum 1), one \
         batch norm (mean image subtracted), one neither (thresholded)."
    );
    let mut wrong = mean.clone();
    wrong.other_images = 0.0;
    let verdicts = digits::findings(&[mean, wrong]).into_iter().map(|finding| finding.verdict);
    assert_eq!(verdicts.collect::<Vec<_>>(), [Verdict::Supported, Verdict::Contradicted]);
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
