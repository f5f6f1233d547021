//! Common preprocessing steps, applied to a small table: does a number change when other samples change, and when other
//! features of its own sample change? This determines which normalization a step resembles.

use crate::data::SplitMix64;
use crate::report::{Chart, Picture, Question};
use crate::studies::tools::{chart, moments, rms, short, uniform};
use serde::{Deserialize, Serialize};

const CASES: usize = 6;
const FEATURES: usize = 5;

/// Samples by features, row by row.
type Table = Vec<Vec<f64>>;

/// A preprocessing step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Habit {
    ImageBrightness,
    ColumnDeviation,
    SongLoudness,
    PatientScore,
    MeasurementScore,
    PixelRange,
    WordShares,
    ExamAverage,
    WholeTable,
}

/// The measured effect of a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Tried {
    pub(super) habit: Habit,
    /// Change of the first number of the first sample when other samples were changed.
    pub(super) other_cases: f64,
    /// Its change when other features of the first sample were changed.
    pub(super) other_features: f64,
}

/// The options of the quiz: which normalization a step resembles.
pub(super) const OPTIONS: [&str; 4] = [
    "like batch norm: over the samples, for each feature",
    "like layer norm: over the features, for each sample",
    "like both: over samples and features together",
    "like neither",
];

impl Tried {
    /// The index of the correct answer.
    pub(super) fn right(&self) -> usize {
        match (self.other_cases != 0.0, self.other_features != 0.0) {
            (true, false) => 0,
            (false, true) => 1,
            (true, true) => 2,
            (false, false) => 3,
        }
    }
}

impl Habit {
    pub(super) const ALL: [Habit; 9] = [
        Habit::ImageBrightness,
        Habit::ColumnDeviation,
        Habit::SongLoudness,
        Habit::PatientScore,
        Habit::MeasurementScore,
        Habit::PixelRange,
        Habit::WordShares,
        Habit::ExamAverage,
        Habit::WholeTable,
    ];

    fn question(self) -> &'static str {
        match self {
            Habit::ImageBrightness => "Subtract each image's mean brightness from the image.",
            Habit::ColumnDeviation => "Divide each column of a table by its standard deviation.",
            Habit::SongLoudness => "Scale every song to the same loudness.",
            Habit::PatientScore => {
                "For each patient: subtract the mean of the patient's measurements and divide by their standard \
                 deviation."
            }
            Habit::MeasurementScore => {
                "For each measurement: subtract its mean over all patients and divide by its standard deviation over \
                 all patients."
            }
            Habit::PixelRange => "Divide all pixels by 255.",
            Habit::WordShares => "Divide the word counts of each document by its length.",
            Habit::ExamAverage => "Subtract the class average of an exam from each student's grade.",
            Habit::WholeTable => "Subtract the mean of all pixels of all images from every pixel.",
        }
    }

    fn why(self) -> &'static str {
        match self {
            Habit::ImageBrightness => "The mean is taken over each image: the first half of layer norm.",
            Habit::ColumnDeviation => {
                "The standard deviation is that of one feature over all samples: part of batch norm."
            }
            Habit::SongLoudness => {
                "Each song is divided by its own root mean square: RMS norm, which is layer norm without the mean."
            }
            Habit::PatientScore => "This is layer norm, with each patient as a row.",
            Habit::MeasurementScore => "This is batch norm, with all patients as the batch.",
            Habit::PixelRange => "255 is a constant that does not depend on the data, so this is not a normalization.",
            Habit::WordShares => {
                "The length is that of the document itself. Like layer norm, this scales each row, here by its sum."
            }
            Habit::ExamAverage => "The average is that of one feature over all samples: the first half of batch norm.",
            Habit::WholeTable => "The mean is over samples and features together: every number depends on all others.",
        }
    }

    fn apply(self, table: &Table) -> Table {
        let column = |f: usize| table.iter().map(|row| row[f]).collect::<Vec<_>>();
        let rows = |f: &dyn Fn(&[f64]) -> Vec<f64>| table.iter().map(|row| f(row)).collect::<Table>();
        let columns = |f: &dyn Fn(f64, &[f64]) -> f64| -> Table {
            table.iter().map(|row| row.iter().enumerate().map(|(i, &x)| f(x, &column(i))).collect()).collect()
        };
        match self {
            Habit::ImageBrightness => rows(&|row| row.iter().map(|x| x - moments(row).0).collect()),
            Habit::ColumnDeviation => columns(&|x, column| x / moments(column).1),
            Habit::SongLoudness => rows(&|row| row.iter().map(|x| x / rms(row.iter().copied())).collect()),
            Habit::PatientScore => rows(&|row| row.iter().map(|x| (x - moments(row).0) / moments(row).1).collect()),
            Habit::MeasurementScore => columns(&|x, column| (x - moments(column).0) / moments(column).1),
            Habit::PixelRange => rows(&|row| row.iter().map(|x| x / 255.0).collect()),
            Habit::WordShares => rows(&|row| row.iter().map(|x| x / row.iter().sum::<f64>()).collect()),
            Habit::ExamAverage => columns(&|x, column| x - moments(column).0),
            Habit::WholeTable => {
                let all: Vec<f64> = table.iter().flatten().copied().collect();
                rows(&|row| row.iter().map(|x| x - moments(&all).0).collect())
            }
        }
    }
}

/// Applies a step to a table, to the table with other samples changed, and to the table with other features of the
/// first sample changed.
pub(super) fn try_out(habit: Habit) -> Tried {
    let random = &mut SplitMix64::stream(1, 0);
    let mut row = |_| (0..FEATURES).map(|_| 1.0 + 99.0 * uniform(random)).collect::<Vec<_>>();
    let table: Table = (0..CASES).map(&mut row).collect();
    let (mut cases, mut features) = (table.clone(), table.clone());
    cases[1..].iter_mut().flatten().for_each(|x| *x *= *x);
    features[0][1..].iter_mut().for_each(|x| *x *= *x);
    let before = habit.apply(&table)[0][0];
    let moved = |table: &Table| (habit.apply(table)[0][0] - before).abs();
    Tried { habit, other_cases: moved(&cases), other_features: moved(&features) }
}

/// The quiz: first the questions about digits, then those about the table. The correct answers come from the
/// measurement.
pub(super) fn quiz(digits: impl Iterator<Item = Question>, tried: &[Tried]) -> Chart {
    let question = |tried: &Tried| Question {
        text: tried.habit.question().to_owned(),
        options: OPTIONS.map(str::to_owned).to_vec(),
        right: tried.right(),
        why: format!(
            "{} Measured on a table of {CASES} samples: a number changed by {} when the other samples changed, and by \
             {} when the other features of its own sample changed.",
            tried.habit.why(),
            short(tried.other_cases),
            short(tried.other_features)
        ),
    };
    chart(
        "quiz",
        "Quiz: batch norm or layer norm?",
        "For each step, decide whether a number depends on other samples or on the other features of its own sample.",
        Picture::Quiz { questions: digits.chain(tried.iter().map(question)).collect() },
    )
}
