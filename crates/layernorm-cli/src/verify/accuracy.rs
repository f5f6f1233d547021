//! The error of our outputs, and of common implementations of layer norm, against a precise reference.

use super::inputs::{self, Input};
use crate::norm::EPS;
use crate::reference::{Distance, distance, normalized};
use crate::show::Progress;
use crate::textbook::Way;
use layernorm::{Context, Error};
use serde::Serialize;

/// The contract's limit for our outputs, in units in the last place.
const LIMIT: f64 = 4.0;

/// The errors on all inputs.
#[derive(Debug, Serialize)]
pub struct Accuracy {
    /// Whether ours is within the limit everywhere.
    pub ok: bool,
    /// The unit of the errors.
    pub unit: &'static str,
    /// The largest error allowed for ours, in these units.
    pub limit: f64,
    /// ε.
    pub eps: f64,
    /// One for each kind of input.
    pub rows: Vec<InputErrors>,
}

/// The errors on one kind of input.
#[derive(Debug, Serialize)]
pub struct InputErrors {
    /// Description of the rows.
    pub input: String,
    /// Elements per row.
    pub n: usize,
    /// Number of rows.
    pub rows: usize,
    /// Whether ours is within the limit.
    pub ok: bool,
    /// One per implementation, in the order of [`Way::ALL`].
    pub errors: Vec<WayError>,
}

/// The largest error of one implementation.
#[derive(Debug, Serialize)]
pub struct WayError {
    /// Name of the implementation.
    pub way: &'static str,
    /// Its largest error.
    #[serde(flatten)]
    pub error: Distance,
}

impl Accuracy {
    /// Computes all errors.
    pub fn new(cx: &mut Context, progress: &Progress) -> Result<Self, Error> {
        let mut rows = Vec::new();
        for input in inputs::all() {
            progress.say(&format!("accuracy: {}", input.name));
            rows.push(InputErrors::new(&input, cx)?);
        }
        Ok(Accuracy {
            ok: rows.iter().all(|row| row.ok),
            unit: "units in the last place of the larger of |y| and a tenth of the row's largest |y|",
            limit: LIMIT,
            eps: EPS,
            rows,
        })
    }
}

impl InputErrors {
    fn new(input: &Input, cx: &mut Context) -> Result<Self, Error> {
        let references: Vec<_> = input.x.chunks(input.n).map(|row| normalized(row, true, EPS)).collect();
        let mut errors = Vec::new();
        for way in Way::ALL {
            let mut y = vec![f32::NAN; input.x.len()];
            way.run(&input.x, input.n, &mut y, cx)?;
            errors.push(WayError { way: way.name(), error: largest(&y, input.n, &references) });
        }
        let ok = errors.iter().filter(|error| error.way == Way::Ours.name()).all(|ours| ours.error.within(LIMIT));
        Ok(InputErrors { input: input.name.clone(), n: input.n, rows: input.rows(), ok, errors })
    }
}

/// The largest error over all rows.
fn largest(y: &[f32], n: usize, references: &[Vec<f64>]) -> Distance {
    y.chunks(n).zip(references).fold(Distance::Units(0.0), |max, (y, reference)| max.max(distance(y, reference)))
}
