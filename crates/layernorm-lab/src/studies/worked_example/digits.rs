//! The assignment's four preprocessing steps, applied to real digits: which is like batch norm, which like layer norm?
//!
//! ```text
//! x[n, r, c]     pixel in row r and column c of image n, from 0 to 255
//!
//! rows           x / Σ_c x            each row of an image gets the sum 1; blank rows stay 0
//! image          x / Σ_{r,c} x        each image gets the sum 1
//! mean image     x − 1/N · Σ_n x      the mean over the images of each pixel is subtracted
//! threshold      1 if x ≥ 128, else 0
//! ```
//!
//! Other numbers are inverted (x → 255 − x) and the largest change of the numbers that were not inverted is measured:
//! in the other images, in every second row of the same image, and in every second column of it.

use super::habits::OPTIONS;
use crate::data::Dataset;
use crate::report::{Cell, Chart, Finding, Map, Picture, Question, Table};
use crate::studies::Error;
use crate::studies::findings::Claim;
use crate::studies::tools::{capitalized, chart, largest, short};
use serde::{Deserialize, Serialize};

/// Number of images; the first one is watched.
const IMAGES: usize = 100;
const BLACK: f64 = 255.0;
const THRESHOLD: f64 = 128.0;

/// Images by rows by columns.
type Digits = Vec<Vec<Vec<f64>>>;

/// A preprocessing step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Step {
    Rows,
    Image,
    MeanImage,
    Threshold,
}

/// The measured effect of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Prepared {
    pub(super) step: Step,
    /// The largest change of the first image when the other images were inverted.
    pub(super) other_images: f64,
    /// The largest change of its other rows when every second row was inverted.
    pub(super) other_rows: f64,
    /// The largest change of its other columns when every second column was inverted.
    pub(super) own_row: f64,
    /// The first image before and after the step, row by row, relative to its largest absolute value.
    pub(super) before: Vec<f64>,
    pub(super) after: Vec<f64>,
}

impl Prepared {
    /// The index of the correct answer in [`OPTIONS`].
    fn right(&self) -> usize {
        let features = self.other_rows != 0.0 || self.own_row != 0.0;
        match (self.other_images != 0.0, features) {
            (true, false) => 0,
            (false, true) => 1,
            (true, true) => 2,
            (false, false) => 3,
        }
    }

    /// Whether a pixel depends on its own row only.
    fn by_row(&self) -> bool {
        self.right() == 1 && self.other_rows == 0.0
    }

    /// The norm that the step is like.
    fn like(&self) -> &'static str {
        match (self.right(), self.by_row()) {
            (1, true) => "layer norm, within each row",
            (right, _) => ["batch norm", "layer norm", "both", "neither"][right],
        }
    }

    fn measured(&self) -> String {
        format!(
            "inverting the other images changed a pixel by up to {}, inverting other rows of its image by up to {}, and \
             inverting other pixels of its row by up to {}",
            short(self.other_images),
            short(self.other_rows),
            short(self.own_row)
        )
    }
}

impl Step {
    pub(super) const ALL: [Step; 4] = [Step::Rows, Step::Image, Step::MeanImage, Step::Threshold];

    fn name(self) -> &'static str {
        match self {
            Step::Rows => "rows scaled to sum 1",
            Step::Image => "image scaled to sum 1",
            Step::MeanImage => "mean image subtracted",
            Step::Threshold => "thresholded",
        }
    }

    fn question(self) -> &'static str {
        match self {
            Step::Rows => "Scale every row of every image so that its pixels sum to 1.",
            Step::Image => "Scale every image so that its pixels sum to 1.",
            Step::MeanImage => "Subtract the mean image of the dataset from every image.",
            Step::Threshold => "Set every pixel to 1 if it is above a threshold, and to 0 otherwise.",
        }
    }

    fn why(self) -> &'static str {
        match self {
            Step::Rows => {
                "The sum is over a part of one sample's features, so no other sample matters. This is layer norm applied \
                 to each row of pixels separately, which is group norm with one group per row; it scales by the sum \
                 instead of the standard deviation and subtracts no mean."
            }
            Step::Image => {
                "The sum is over all features of one sample, so no other sample matters. Like layer norm, but it scales \
                 by the sum instead of the standard deviation and subtracts no mean."
            }
            Step::MeanImage => {
                "Each pixel's mean is taken over the samples and separately for each feature: the first half of batch \
                 norm, without the division by the standard deviation."
            }
            Step::Threshold => "Every pixel is computed from itself and a constant: nothing is normalized.",
        }
    }

    /// Id, statement and correct answer of the question in the findings.
    fn claim(self) -> (&'static str, &'static str, usize) {
        match self {
            Step::Rows => (
                "digits-rows",
                "Scaling each row of an image to sum 1 is like layer norm, within the row: a pixel depends on its own row \
                 only",
                1,
            ),
            Step::Image => (
                "digits-image",
                "Scaling each image to sum 1 is like layer norm: a pixel depends on its own image only",
                1,
            ),
            Step::MeanImage => (
                "digits-mean",
                "Subtracting the mean image is like batch norm: a pixel depends on the same pixel of the other images only",
                0,
            ),
            Step::Threshold => {
                ("digits-threshold", "Thresholding is like neither norm: a pixel depends on no other number", 3)
            }
        }
    }

    fn apply(self, digits: &Digits) -> Digits {
        let over = |sum: f64| move |x: &f64| if sum == 0.0 { 0.0 } else { x / sum };
        let scaled = |row: &Vec<f64>, sum: f64| row.iter().map(over(sum)).collect::<Vec<f64>>();
        let count = digits.len().max(1) as f64;
        let each = |image: &Vec<Vec<f64>>| -> Vec<Vec<f64>> {
            match self {
                Step::Rows => image.iter().map(|row| scaled(row, row.iter().sum())).collect(),
                Step::Image => image.iter().map(|row| scaled(row, image.iter().flatten().sum())).collect(),
                Step::MeanImage => {
                    let mean = |r: usize, c: usize| digits.iter().map(|image| image[r][c]).sum::<f64>() / count;
                    let row = |(r, row): (usize, &Vec<f64>)| {
                        row.iter().enumerate().map(|(c, x)| x - mean(r, c)).collect::<Vec<f64>>()
                    };
                    image.iter().enumerate().map(row).collect()
                }
                Step::Threshold => {
                    let row = |row: &Vec<f64>| row.iter().map(|&x| if x >= THRESHOLD { 1.0 } else { 0.0 }).collect();
                    image.iter().map(row).collect()
                }
            }
        };
        digits.iter().map(each).collect()
    }
}

/// The first training images of the embedded dataset.
pub(super) fn embedded() -> Result<Digits, Error> {
    let data = Dataset::embedded().map_err(|error| Error::Run(error.to_string()))?;
    let row = |row: &[u8]| row.iter().map(|&x| f64::from(x)).collect();
    let rows = |n: usize| data.train.image(n).chunks(data.train.columns()).map(row).collect();
    Ok((0..IMAGES.min(data.train.len())).map(rows).collect())
}

/// Applies a step to the images, and to the images with other numbers inverted.
pub(super) fn try_out(step: Step, digits: &Digits) -> Prepared {
    let after = step.apply(digits);
    // The largest change of the numbers of the first image that are not inverted.
    let moved = |inverted: &dyn Fn(usize, usize, usize) -> bool| {
        let mut changed = digits.clone();
        for_each(&mut changed, |place, x| *x = if inverted(place.0, place.1, place.2) { BLACK - *x } else { *x });
        let mut other = step.apply(&changed);
        let mut most = 0.0f64;
        for_each(&mut other[..1], |place, x| {
            if !inverted(place.0, place.1, place.2) {
                most = most.max((*x - after[0][place.1][place.2]).abs());
            }
        });
        most
    };
    Prepared {
        step,
        other_images: moved(&|image, _, _| image > 0),
        other_rows: moved(&|image, row, _| image == 0 && row % 2 == 0),
        own_row: moved(&|image, _, column| image == 0 && column % 2 == 0),
        before: relative(&digits[0]),
        after: relative(&after[0]),
    }
}

/// Calls `f` with the place (image, row, column) of every number and the number.
fn for_each(digits: &mut [Vec<Vec<f64>>], mut f: impl FnMut((usize, usize, usize), &mut f64)) {
    for (n, image) in digits.iter_mut().enumerate() {
        for (r, row) in image.iter_mut().enumerate() {
            row.iter_mut().enumerate().for_each(|(c, x)| f((n, r, c), x));
        }
    }
}

/// An image relative to its largest absolute value, rounded to three decimals.
fn relative(image: &[Vec<f64>]) -> Vec<f64> {
    let most = largest(image.iter().flatten().copied()).max(f64::MIN_POSITIVE);
    image.iter().flatten().map(|x| (1000.0 * x / most).round() / 1000.0).collect()
}

/// The questions of the quiz. The correct answers come from the measurement.
pub(super) fn questions(prepared: &[Prepared]) -> impl Iterator<Item = Question> {
    prepared.iter().map(|prepared| Question {
        text: prepared.step.question().to_owned(),
        options: OPTIONS.map(str::to_owned).to_vec(),
        right: prepared.right(),
        why: format!("{} Measured on {IMAGES} digits: {}.", prepared.step.why(), prepared.measured()),
    })
}

/// The findings: each step is like the norm that its statement names.
pub(super) fn findings(prepared: &[Prepared]) -> Vec<Finding> {
    let finding = |prepared: &Prepared| {
        let (id, text, right) = prepared.step.claim();
        let holds = prepared.right() == right && (prepared.step == Step::Rows) == prepared.by_row();
        let expected = match prepared.step {
            Step::Rows => "no change except from its own row",
            Step::Image => "no change from other images, and changes from its own",
            Step::MeanImage => "changes from other images only",
            Step::Threshold => "no change at all",
        };
        Claim::new(id, text).source("assignment").exact(holds, prepared.measured(), expected)
    };
    prepared.iter().map(finding).collect()
}

const COUNTS: [&str; 5] = ["no", "one", "two", "three", "four"];

/// Which norm each step is like.
pub(super) fn answer(prepared: &[Prepared]) -> String {
    let group = |like: &str| {
        let steps = prepared.iter().filter(|prepared| OPTIONS[prepared.right()].starts_with(like));
        let names: Vec<&str> = steps.map(|prepared| prepared.step.name()).collect();
        (!names.is_empty()).then(|| (COUNTS[names.len().min(4)], names.join(" and ")))
    };
    let kinds = [
        ("like layer norm", "layer norm"),
        ("like batch norm", "batch norm"),
        ("like both", "both"),
        ("like neither", "neither"),
    ];
    let told = kinds.into_iter().filter_map(|(like, name)| Some((name, group(like)?)));
    let told: Vec<String> = told
        .enumerate()
        .map(|(place, (name, (count, steps)))| {
            let of = match place {
                0 => format!(" of the {} steps on real digits", COUNTS[prepared.len().min(4)]),
                _ => String::new(),
            };
            let verb = match (place, count) {
                (0, "one") => " resembles",
                (0, _) => " resemble",
                _ => "",
            };
            format!("{count}{of}{verb} {name} ({steps})")
        })
        .collect();
    capitalized(&format!("{}.", told.join(", ")))
}

/// The first image, before and after each step.
pub(super) fn images(prepared: &[Prepared]) -> Option<Chart> {
    let side = prepared.first()?.before.len().isqrt();
    let map = |name: &str, values: &[f64]| Map {
        name: name.to_owned(),
        rows: side,
        columns: side,
        values: values.to_vec(),
        labels: Some((1..=side).map(|place| place.to_string()).collect()),
    };
    let fits = |values: &Vec<f64>| values.len() == side * side && side > 0;
    let mut maps = vec![map("original", &prepared[0].before)];
    maps.extend(prepared.iter().map(|prepared| map(prepared.step.name(), &prepared.after)));
    if !prepared.iter().all(|prepared| fits(&prepared.before) && fits(&prepared.after)) {
        return None;
    }
    let see = "One digit before and after each of the four preprocessing steps. Scaling by rows gives every row the same \
               sum; scaling the image changes nothing but the unit; subtracting the mean image leaves what is special \
               about this digit; thresholding removes the grey values.";
    let scale = "value relative to the largest".to_owned();
    let picture = Picture::Heatmaps { maps, low: -1.0, high: 1.0, scale };
    Some(chart("digits", "Four preprocessing steps on a digit", see, picture))
}

/// What was measured, and which norm each step is like.
pub(super) fn table(prepared: &[Prepared]) -> Chart {
    let row = |prepared: &Prepared| -> Vec<Cell> {
        vec![
            prepared.step.name().into(),
            prepared.other_images.into(),
            prepared.other_rows.into(),
            prepared.own_row.into(),
            prepared.like().into(),
        ]
    };
    let columns = ["step", "other images", "other rows of its image", "other pixels of its row", "like"];
    let see = format!(
        "The numbers are the largest change of a pixel of the first of {IMAGES} digits when these other pixels are \
         inverted. A dependence on other images is like batch norm, one on the image's own pixels like layer norm."
    );
    let table = Table {
        columns: columns.map(str::to_owned).to_vec(),
        rows: prepared.iter().map(row).collect(),
        notes: prepared.iter().map(|prepared| format!("{}: {}", prepared.step.name(), prepared.step.why())).collect(),
    };
    chart("digits-table", "Batch norm, layer norm or neither?", see, Picture::Table(table))
}
