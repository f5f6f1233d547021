//! Common implementations of layer norm, in plain Rust for f32, without γ and β.

use super::EPS;
use crate::reference::compiled::Textbook;
use layernorm::{Context, Error, NormConfig, View, ViewMut, layer_norm};
use serde::{Deserialize, Serialize};

/// An implementation of layer norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Way {
    Ours,
    TwoPass,
    Squares,
    Welford,
    Columns,
    Plain,
}

impl Way {
    pub(super) const ALL: [Way; 6] = [Way::Ours, Way::TwoPass, Way::Squares, Way::Welford, Way::Columns, Way::Plain];

    /// A short name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Way::Ours => "this library",
            Way::TwoPass => "two passes",
            Way::Squares => "E[x²] − E[x]²",
            Way::Welford => "Welford",
            Way::Columns => "column by column",
            Way::Plain => "plain loop",
        }
    }

    /// A short description.
    pub(super) fn what(self) -> &'static str {
        match self {
            Way::Ours => "mean, its rounding error, and a variance corrected by it; vectorized",
            Way::TwoPass => "the sum, then the sum of squared deviations, each in 16 partial sums; vectorized",
            Way::Squares => {
                "both sums in one pass, each in 16 partial sums; the variance is the mean of squares minus \
                             the squared mean; vectorized"
            }
            Way::Welford => "32 running means and variances in one pass, combined at the end; vectorized",
            Way::Columns => "two passes with the loops swapped: for each tile of 256 columns, all rows; vectorized",
            Way::Plain => {
                "the formula as written: three loops that add one element at a time, with a division for \
                           every element; sums in a single chain cannot be vectorized"
            }
        }
    }

    /// y = (x − mean)/sqrt(variance + ε) for each row of `n` elements.
    pub(super) fn run(self, x: &[f32], n: usize, y: &mut [f32], cx: &mut Context) -> Result<(), Error> {
        let textbook = match self {
            Way::Ours => {
                let shape = [x.len() / n, n];
                let config = NormConfig::new().eps(EPS);
                return layer_norm::forward(View::new(x, &shape)?, ViewMut::new(y, &shape)?, None, &config, cx);
            }
            Way::TwoPass => Textbook::TwoPass,
            Way::Squares => Textbook::Squares,
            Way::Welford => Textbook::Welford,
            Way::Columns => Textbook::Columns,
            Way::Plain => Textbook::ThreeLoops,
        };
        textbook.run(x, n, EPS as f32, y)
    }
}
