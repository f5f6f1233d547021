//! Common implementations of layer norm, in plain Rust for f32, without γ and β.

use super::EPS;
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
        let row: fn(&[f32], &mut [f32]) = match self {
            Way::Ours => {
                let shape = [x.len() / n, n];
                let config = NormConfig::new().eps(EPS);
                return layer_norm::forward(View::new(x, &shape)?, ViewMut::new(y, &shape)?, None, &config, cx);
            }
            Way::Columns => {
                columns(x, n, y);
                return Ok(());
            }
            Way::TwoPass => two_pass,
            Way::Squares => squares,
            Way::Welford => welford,
        };
        x.chunks(n).zip(y.chunks_mut(n)).for_each(|(x, y)| row(x, y));
        Ok(())
    }
}

fn two_pass(x: &[f32], y: &mut [f32]) {
    let n = x.len() as f32;
    let mean = x.iter().sum::<f32>() / n;
    let variance = x.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / n;
    scale(x, y, mean, variance);
}

fn squares(x: &[f32], y: &mut [f32]) {
    let n = x.len() as f32;
    let (mut sum, mut squares) = (0.0, 0.0);
    for &x in x {
        sum += x;
        squares += x * x;
    }
    let mean = sum / n;
    // Rounding can make the difference negative, which would give NaN, so careful code clamps it at 0.
    scale(x, y, mean, (squares / n - mean * mean).max(0.0));
}

fn welford(x: &[f32], y: &mut [f32]) {
    let (mut mean, mut squares) = (0.0, 0.0);
    for (i, &x) in x.iter().enumerate() {
        let d = x - mean;
        mean += d / (i + 1) as f32;
        squares += d * (x - mean);
    }
    scale(x, y, mean, squares / x.len() as f32);
}

fn columns(x: &[f32], n: usize, y: &mut [f32]) {
    let rows = x.len() / n;
    let (mut means, mut variances) = (vec![0.0f32; rows], vec![0.0f32; rows]);
    for column in 0..n {
        (0..rows).for_each(|row| means[row] += x[row * n + column]);
    }
    means.iter_mut().for_each(|mean| *mean /= n as f32);
    for column in 0..n {
        for row in 0..rows {
            let d = x[row * n + column] - means[row];
            variances[row] += d * d;
        }
    }
    let rstd = |variance: f32| 1.0 / (variance / n as f32 + EPS as f32).sqrt();
    variances.iter_mut().for_each(|variance| *variance = rstd(*variance));
    for column in 0..n {
        (0..rows).for_each(|row| y[row * n + column] = (x[row * n + column] - means[row]) * variances[row]);
    }
}

fn scale(x: &[f32], y: &mut [f32], mean: f32, variance: f32) {
    let rstd = 1.0 / (variance + EPS as f32).sqrt();
    x.iter().zip(y).for_each(|(x, y)| *y = (x - mean) * rstd);
}
