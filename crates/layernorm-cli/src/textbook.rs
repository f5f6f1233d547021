//! Common implementations of layer norm to compare with ours: plain Rust on f32, without γ and β.

use crate::norm::EPS;
use layernorm::{Context, Error, NormConfig, View, ViewMut, layer_norm};

/// An implementation of layer norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// This library.
    Ours,
    /// The formula in three plain loops.
    ThreeLoops,
    /// The same formula with several accumulators.
    TwoPass,
    /// The variance as a difference of two large numbers.
    Squares,
    /// Running mean and variance.
    Welford,
}

/// Number of accumulators in the faster implementations, so that additions are independent and can be vectorized.
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

    /// A short description.
    pub fn what(self) -> &'static str {
        match self {
            Way::Ours => "the mean, then its rounding error, then a variance corrected by that error",
            Way::ThreeLoops => {
                "the formula taken literally: sum, sum of squared deviations, normalize; one accumulator"
            }
            Way::TwoPass => "the same formula with 16 accumulators, so that the compiler can vectorize it",
            Way::Squares => "both sums in one pass over x, variance = mean of squares − square of the mean",
            Way::Welford => "running mean and variance in one pass, with a division for every element",
        }
    }

    /// Where it loses accuracy.
    pub fn fails(self) -> &'static str {
        match self {
            Way::Ours => "does not fail here: rows whose sums overflow are scaled by a power of two and computed again",
            Way::ThreeLoops => {
                "fails like two-pass, with an error that grows with N; each addition waits for the one before"
            }
            Way::TwoPass => "fails where |mean| ≫ σ: the rounding error of the mean is in every output",
            Way::Squares => "fails where |mean| ≫ σ: the leading digits cancel and only rounding noise is left",
            Way::Welford => "fails where |mean| ≫ σ, like two-pass; slow, because each step waits for a division",
        }
    }

    /// Computes y = (x − mean)/σ for each row of `n` elements.
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
    // One pass over memory: a block is still in the L1 cache when its second sum is computed. Both sums in one loop would be
    // slower, because the compiler then mixes the two in one vector.
    for block in x.chunks(1024) {
        total += sum(block, |x| x);
        squares += sum(block, |x| x * x);
    }
    let mean = total / n;
    // Rounding can make the difference negative, which would give NaN; careful implementations clamp it to 0.
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
    fn all_ways_agree_on_easy_rows() {
        let cx = &mut Context::new();
        for n in [1, 2, 15, 16, 17, 100] {
            let x: Vec<f32> = Random::new(7).normals(n, |z| z);
            let reference = normalized(&x, true, EPS);
            for way in Way::ALL {
                let mut y = vec![f32::NAN; n];
                way.run(&x, n, &mut y, cx).unwrap();
                let error = distance(&y, &reference);
                // Each sum has at most N rounding errors, which enter y with their relative size.
                assert!(error.within(8.0 + n as f64), "{}, N={n}: {error}", way.name());
            }
        }
    }
}
