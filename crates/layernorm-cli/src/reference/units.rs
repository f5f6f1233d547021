//! The error of a row of f32 against the reference, in units in the last place.

use layernorm_lab::reference::units::units;
use serde::Serialize;
use std::fmt;

/// The error of outputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distance {
    /// The largest error, in units in the last place of the larger of |y| and a tenth of the row's largest |y|.
    Units(f64),
    /// A row is all zero but should not be.
    AllZero,
    /// A row is not zero but should be all zero, so there is no unit to count in.
    NotZero,
    /// An output is NaN or infinite but should not be.
    NotFinite,
}

impl Distance {
    /// The larger error; a row that is entirely wrong is larger than any number.
    pub fn max(self, other: Distance) -> Distance {
        if other.rank() > self.rank() { other } else { self }
    }

    /// Whether the error is a number of at most `limit` units.
    pub fn within(self, limit: f64) -> bool {
        self.rank() <= limit
    }

    /// The error in units, if it is a number.
    pub fn units(self) -> Option<f64> {
        match self {
            Distance::Units(units) => Some(units),
            _ => None,
        }
    }

    fn rank(self) -> f64 {
        match self {
            Distance::Units(units) => units,
            Distance::AllZero => 1e300,
            Distance::NotZero => 1e301,
            Distance::NotFinite => 1e302,
        }
    }

    fn word(self) -> Option<&'static str> {
        match self {
            Distance::Units(_) => None,
            Distance::AllZero => Some("all zero"),
            Distance::NotZero => Some("not zero"),
            Distance::NotFinite => Some("NaN"),
        }
    }
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.word(), self) {
            (None, Distance::Units(units)) => f.write_str(&crate::show::significant(*units)),
            (word, _) => f.write_str(word.unwrap_or_default()),
        }
    }
}

/// Serialized as `{"units": 1.5, "failure": null}` or `{"units": null, "failure": "NaN"}`.
impl Serialize for Distance {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Fields {
            units: Option<f64>,
            failure: Option<&'static str>,
        }
        Fields { units: self.units(), failure: self.word() }.serialize(serializer)
    }
}

/// The largest error of a row.
pub fn distance(y: &[f32], reference: &[f64]) -> Distance {
    match units(y, reference) {
        units if units.is_finite() => Distance::Units(units),
        _ if y.iter().any(|y| !y.is_finite()) => Distance::NotFinite,
        _ if y.iter().all(|&y| y == 0.0) => Distance::AllZero,
        _ => Distance::NotZero,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_are_entirely_wrong() {
        assert_eq!(distance(&[0.0, 0.0], &[1.0, -1.0]), Distance::AllZero);
        assert_eq!(distance(&[0.0, 1e-20], &[0.0, 0.0]), Distance::NotZero);
        assert_eq!(distance(&[0.0, f32::NAN], &[1.0, -1.0]), Distance::NotFinite);
        assert_eq!(distance(&[0.0, -0.0], &[0.0, 0.0]), Distance::Units(0.0));
        assert_eq!(Distance::AllZero.max(Distance::Units(1e9)), Distance::AllZero);
        assert!(Distance::Units(4.0).within(4.0) && !Distance::AllZero.within(4.0));
    }
}
