//! Common implementations of layer norm, in plain Rust for f32, without γ and β.

use super::EPS;
use crate::reference::textbook::{self, RowNorm};
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
}

impl Way {
    pub(super) const ALL: [Way; 5] = [Way::Ours, Way::TwoPass, Way::Squares, Way::Welford, Way::Columns];

    /// A short name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Way::Ours => "this library",
            Way::TwoPass => "two passes",
            Way::Squares => "E[x²] − E[x]²",
            Way::Welford => "Welford",
            Way::Columns => "column by column",
        }
    }

    /// A short description.
    pub(super) fn what(self) -> &'static str {
        match self {
            Way::Ours => "mean, its rounding error, and a variance corrected by it; vectorized",
            Way::TwoPass => "the formula as written: the sum, then the sum of squared deviations, then the division",
            Way::Squares => "both sums in one pass; the variance is the mean of squares minus the squared mean",
            Way::Welford => "running mean and variance in one pass, with a division for every element",
            Way::Columns => "two passes with the loops swapped: for each column, all rows",
        }
    }

    /// y = (x − mean)/sqrt(variance + ε) for each row of `n` elements.
    pub(super) fn run(self, x: &[f32], n: usize, y: &mut [f32], cx: &mut Context) -> Result<(), Error> {
        let row: RowNorm = match self {
            Way::Ours => {
                let shape = [x.len() / n, n];
                let config = NormConfig::new().eps(EPS);
                return layer_norm::forward(View::new(x, &shape)?, ViewMut::new(y, &shape)?, None, &config, cx);
            }
            Way::Columns => {
                textbook::columns(x, n, EPS as f32, y);
                return Ok(());
            }
            Way::TwoPass => textbook::three_loops,
            Way::Squares => textbook::squares,
            Way::Welford => textbook::welford,
        };
        x.chunks(n).zip(y.chunks_mut(n)).for_each(|(x, y)| row(x, EPS as f32, y));
        Ok(())
    }
}
