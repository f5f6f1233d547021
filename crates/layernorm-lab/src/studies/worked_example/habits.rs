//! Everyday preprocessing steps, tried out on a small table: does a number change when another case changes, and when another
//! feature of its own case changes? That tells which normalization a step is like.

use crate::data::SplitMix64;
use crate::report::{Chart, Picture, Question};
use crate::studies::tools::{chart, moments, rms, short, uniform};
use serde::{Deserialize, Serialize};

const CASES: usize = 6;
const FEATURES: usize = 5;

/// Cases by features, row by row.
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

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Tried {
    pub(super) habit: Habit,
    /// How much the first number of the first case moved when other cases were changed.
    pub(super) other_cases: f64,
    /// How much it moved when other features of the first case were changed.
    pub(super) other_features: f64,
}

/// Which normalization a step is like: the answers to choose from.
const OPTIONS: [&str; 4] = [
    "like batch norm: over the cases, each feature by itself",
    "like layer norm: over the features, each case by itself",
    "over everything at once: like both",
    "like neither",
];

impl Tried {
    /// The number of the right answer.
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
            Habit::ImageBrightness => "Subtract from each image its own mean brightness.",
            Habit::ColumnDeviation => "Divide each column of a table by its standard deviation.",
            Habit::SongLoudness => "Scale every song to the same loudness.",
            Habit::PatientScore => {
                "For each patient: subtract the mean of that patient's measurements, divide by their standard deviation."
            }
            Habit::MeasurementScore => {
                "For each measurement: subtract its mean over all patients, divide by its standard deviation over them."
            }
            Habit::PixelRange => "Divide all pixels by 255.",
            Habit::WordShares => "Turn the word counts of a document into shares of its length.",
            Habit::ExamAverage => "Subtract from each mark the class's average in that exam.",
            Habit::WholeTable => "Subtract one mean, that of all pixels of all images, from every pixel.",
        }
    }

    fn why(self) -> &'static str {
        match self {
            Habit::ImageBrightness => "The mean is the image's own: the first half of layer norm.",
            Habit::ColumnDeviation => {
                "The standard deviation is that of one feature over all cases: a part of batch norm."
            }
            Habit::SongLoudness => {
                "Each song is divided by its own root mean square: RMS norm, which is layer norm without the mean."
            }
            Habit::PatientScore => "This is layer norm, with a patient for a row.",
            Habit::MeasurementScore => "This is batch norm, with all patients for a batch.",
            Habit::PixelRange => "255 is fixed: it depends on no data, so nothing is normalized by it.",
            Habit::WordShares => {
                "The length is the document's own. It scales as layer norm does, by the sum of the row."
            }
            Habit::ExamAverage => "The average is that of one feature over all cases: the first half of batch norm.",
            Habit::WholeTable => "The mean is over cases and features at once: every number depends on all others.",
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

/// Tries a step on a table, on the table with other cases, and on the table with other features of the first case.
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

/// The quiz. The right answers are what was measured.
pub(super) fn quiz(tried: &[Tried]) -> Chart {
    let question = |tried: &Tried| Question {
        text: tried.habit.question().to_owned(),
        options: OPTIONS.map(str::to_owned).to_vec(),
        right: tried.right(),
        why: format!(
            "{} Tried on a table of {CASES} cases: when the other cases changed, a number moved by {}; when the other \
             features of its own case changed, by {}.",
            tried.habit.why(),
            short(tried.other_cases),
            short(tried.other_features)
        ),
    };
    chart(
        "quiz",
        "Which is like which?",
        "Ask of every step whether a number depends on other cases, or on the other features of its own case.",
        Picture::Quiz { questions: tried.iter().map(question).collect() },
    )
}
