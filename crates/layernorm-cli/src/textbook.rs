//! Common implementations of layer norm to compare with ours: plain Rust on f32, without γ and β.

use crate::norm::EPS;
use layernorm::{Context, Error, NormConfig, View, ViewMut, layer_norm};
use layernorm_lab::reference::compiled::Textbook;

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
            Way::Welford => "running means and variances in one pass, 32 side by side, combined at the end",
        }
    }

    /// Where it loses accuracy.
    pub fn fails(self) -> &'static str {
        match self {
            Way::Ours => "does not fail here: rows whose sums overflow are scaled by a power of two and recomputed",
            Way::ThreeLoops => {
                "fails like two-pass, with an error that grows with N; each addition waits for the one before"
            }
            Way::TwoPass => "fails where |mean| ≫ σ: the rounding error of the mean is in every output",
            Way::Squares => "fails where |mean| ≫ σ: the leading digits cancel and only rounding noise is left",
            Way::Welford => "fails where |mean| ≫ σ, like two-pass; each step waits for the one before",
        }
    }

    /// Computes y = (x − mean)/σ for each row of `n` elements.
    pub fn run(self, x: &[f32], n: usize, y: &mut [f32], cx: &mut Context) -> Result<(), Error> {
        let textbook = match self {
            Way::Ours => return ours(x, n, y, cx),
            Way::ThreeLoops => Textbook::ThreeLoops,
            Way::TwoPass => Textbook::TwoPass,
            Way::Squares => Textbook::Squares,
            Way::Welford => Textbook::Welford,
        };
        textbook.run(x, n, EPS as f32, y)
    }
}

fn ours(x: &[f32], n: usize, y: &mut [f32], cx: &mut Context) -> Result<(), Error> {
    let shape = [x.len() / n, n];
    let config = NormConfig::new().eps(EPS);
    layer_norm::forward(View::new(x, &shape)?, ViewMut::new(y, &shape)?, None, &config, cx)
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
