//! The ways in which layer norm is usually written, beside ours: plain Rust over f32, without γ and β.

use crate::norm::EPS;
use layernorm::{Context, Error, NormConfig, View, ViewMut, layer_norm};

/// A way to compute a layer norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// This library.
    Ours,
    /// The formula in three plain loops.
    ThreeLoops,
    /// The same with several accumulators.
    TwoPass,
    /// The variance as a difference of two large numbers.
    Squares,
    /// Running mean and variance.
    Welford,
}

/// Accumulators that the faster ways keep, so that additions do not wait for each other and the compiler can use vectors.
const LANES: usize = 16;

impl Way {
    /// All of them, ours first.
    pub const ALL: [Way; 5] = [Way::Ours, Way::TwoPass, Way::Squares, Way::Welford, Way::ThreeLoops];

    /// A short name.
    pub fn name(self) -> &'static str {
        match self {
            Way::Ours => "ours",
            Way::ThreeLoops => "three loops",
            Way::TwoPass => "two-pass",
            Way::Squares => "E[x²]−E[x]²",
            Way::Welford => "Welford",
        }
    }

    /// What it is.
    pub fn what(self) -> &'static str {
        match self {
            Way::Ours => "the mean, then what its rounding left behind, then the variance corrected by that",
            Way::ThreeLoops => "the formula as it stands: sum, sum of squared deviations, normalize; one accumulator",
            Way::TwoPass => "the same formula with 16 accumulators, so that the compiler can use vectors",
            Way::Squares => "both sums in one pass over x, variance = mean of squares − square of the mean",
            Way::Welford => "running mean and variance in one pass, with a division for every element",
        }
    }

    /// Where it fails.
    pub fn fails(self) -> &'static str {
        match self {
            Way::Ours => "fails nowhere here: rows whose sums overflow are scaled by a power of two and done again",
            Way::ThreeLoops => "fails as two-pass does, and its error grows with N; every addition waits for the last",
            Way::TwoPass => "fails where |mean| ≫ σ: the mean's own rounding stays in every output",
            Way::Squares => {
                "fails where |mean| ≫ σ: both terms agree in their leading digits, and what is left is noise"
            }
            Way::Welford => "fails where |mean| ≫ σ, as two-pass does; slow, since every step waits for a division",
        }
    }

    /// y = (x − mean)/σ for each row of `n` elements.
    pub fn run(self, x: &[f32], n: usize, y: &mut [f32], cx: &mut Context) -> Result<(), Error> {
        let row: fn(&[f32], &mut [f32]) = match self {
            Way::Ours => return ours(x, n, y, cx),
            Way::ThreeLoops => three_loops,
            Way::TwoPass => two_pass,
            Way::Squares => squares,
            Way::Welford => welford,
        };
        x.chunks(n).zip(y.chunks_mut(n)).for_each(|(x, y)| row(x, y));
        Ok(())
    }
}

fn ours(x: &[f32], n: usize, y: &mut [f32], cx: &mut Context) -> Result<(), Error> {
    let shape = [x.len() / n, n];
    let config = NormConfig::new().eps(EPS);
    layer_norm::forward(View::new(x, &shape)?, ViewMut::new(y, &shape)?, None, &config, cx)
}

fn three_loops(x: &[f32], y: &mut [f32]) {
    let n = x.len() as f32;
    let mut sum = 0.0;
    for &x in x {
        sum += x;
    }
    let mean = sum / n;
    let mut squares = 0.0;
    for &x in x {
        squares += (x - mean) * (x - mean);
    }
    let sigma = (squares / n + EPS as f32).sqrt();
    for (x, y) in x.iter().zip(y) {
        *y = (x - mean) / sigma;
    }
}

fn two_pass(x: &[f32], y: &mut [f32]) {
    let n = x.len() as f32;
    let mean = sum(x, |x| x) / n;
    let variance = sum(x, |x| (x - mean) * (x - mean)) / n;
    scale(x, y, mean, variance);
}

fn squares(x: &[f32], y: &mut [f32]) {
    let n = x.len() as f32;
    let (mut total, mut squares) = (0.0, 0.0);
    // One pass over memory: a block is in the nearest cache when its second sum is taken. Both sums in one loop would be
    // slower, since the compiler then mixes the two into one vector.
    for block in x.chunks(1024) {
        total += sum(block, |x| x);
        squares += sum(block, |x| x * x);
    }
    let mean = total / n;
    // Rounding can make the difference negative, which would give NaN; careful code stops at 0.
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

fn sum(x: &[f32], term: impl Fn(f32) -> f32) -> f32 {
    let mut sums = [0.0; LANES];
    let (whole, rest) = x.as_chunks::<LANES>();
    for x in whole {
        for lane in 0..LANES {
            sums[lane] += term(x[lane]);
        }
    }
    for (sum, &x) in sums.iter_mut().zip(rest) {
        *sum += term(x);
    }
    fold(sums)
}

fn fold(mut sums: [f32; LANES]) -> f32 {
    for step in [8, 4, 2, 1] {
        for lane in 0..step {
            sums[lane] += sums[lane + step];
        }
    }
    sums[0]
}

fn scale(x: &[f32], y: &mut [f32], mean: f32, variance: f32) {
    let rstd = 1.0 / (variance + EPS as f32).sqrt();
    for (x, y) in x.iter().zip(y) {
        *y = (x - mean) * rstd;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::reference::{distance, normalized};

    #[test]
    fn all_ways_agree_where_it_is_easy() {
        let cx = &mut Context::new();
        for n in [1, 2, 15, 16, 17, 100] {
            let x: Vec<f32> = Random::new(7).normals(n, |z| z);
            let reference = normalized(&x, true, EPS);
            for way in Way::ALL {
                let mut y = vec![f32::NAN; n];
                way.run(&x, n, &mut y, cx).unwrap();
                let error = distance(&y, &reference);
                // Each sum has at most N roundings, and they enter y with their relative size.
                assert!(error.within(8.0 + n as f64), "{}, N={n}: {error}", way.name());
            }
        }
    }
}
