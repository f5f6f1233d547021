//! Layer norm of rows of f32 as textbooks and other libraries compute it, in plain Rust, without γ and β.
//!
//! [`three_loops`] is the formula as written. The others are written so that the compiler can vectorize them: their sums
//! are divided among independent accumulators, the lanes. All are `inline(always)`, so that a caller compiled for a certain
//! instruction set gets them compiled for it. Rounding does not depend on the instruction set: nothing is reordered or
//! fused.

/// An implementation: from x and ε to y = (x − mean)/sqrt(variance + ε).
pub type RowNorm = fn(&[f32], f32, &mut [f32]);

/// Number of accumulators of a sum.
const LANES: usize = 16;
/// Number of running means of [`welford`]. More than [`LANES`], because a step is a chain of three operations.
const RUNNING: usize = 32;
/// Columns per tile of [`columns`]: 1 KiB of a row.
const TILE: usize = 256;

/// The formula taken literally: the sum, the sum of squared deviations, the division. Each sum is one chain of additions,
/// which a compiler may not vectorize.
#[inline(always)]
pub fn three_loops(x: &[f32], eps: f32, y: &mut [f32]) {
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
    let sigma = (squares / n + eps).sqrt();
    for (x, y) in x.iter().zip(y) {
        *y = (x - mean) / sigma;
    }
}

/// The same formula with several accumulators, and one division per row.
#[inline(always)]
pub fn two_pass(x: &[f32], eps: f32, y: &mut [f32]) {
    let n = x.len() as f32;
    let mean = sum(x, |x| x) / n;
    let variance = sum(x, |x| (x - mean) * (x - mean)) / n;
    scale(x, mean, variance, eps, y);
}

/// Both sums in one pass; the variance is the mean of squares minus the square of the mean.
#[inline(always)]
pub fn squares(x: &[f32], eps: f32, y: &mut [f32]) {
    let (mut sums, mut squares) = ([0.0; LANES], [0.0; LANES]);
    let (whole, rest) = x.as_chunks::<LANES>();
    for x in whole {
        for lane in 0..LANES {
            sums[lane] += x[lane];
        }
        for lane in 0..LANES {
            squares[lane] += x[lane] * x[lane];
        }
    }
    for (lane, &x) in rest.iter().enumerate() {
        sums[lane] += x;
        squares[lane] += x * x;
    }
    let n = x.len() as f32;
    let mean = folded(sums) / n;
    // Rounding can make the difference negative, which would give NaN; careful implementations clamp it to 0.
    scale(x, mean, (folded(squares) / n - mean * mean).max(0.0), eps, y);
}

/// Running mean and variance in one pass (Welford, 1962), in lanes whose results are combined at the end (Chan, Golub
/// and LeVeque, 1979). One division per step of all lanes.
#[inline(always)]
pub fn welford(x: &[f32], eps: f32, y: &mut [f32]) {
    let (mut means, mut squares) = ([0.0f32; RUNNING], [0.0f32; RUNNING]);
    let (whole, rest) = x.as_chunks::<RUNNING>();
    let mut count = 0.0f32;
    for x in whole {
        count += 1.0;
        let share = 1.0 / count;
        for lane in 0..RUNNING {
            let d = x[lane] - means[lane];
            means[lane] += d * share;
            squares[lane] += d * (x[lane] - means[lane]);
        }
    }
    let mut half = RUNNING / 2;
    while half > 0 {
        for lane in 0..half {
            let d = means[lane + half] - means[lane];
            means[lane] += d / 2.0;
            squares[lane] += squares[lane + half] + d * d * count / 2.0;
        }
        count *= 2.0;
        half /= 2;
    }
    let (mut mean, mut squares) = (means[0], squares[0]);
    for &x in rest {
        count += 1.0;
        let d = x - mean;
        mean += d / count;
        squares += d * (x - mean);
    }
    scale(x, mean, squares / x.len() as f32, eps, y);
}

/// Rows of `n` elements in three passes with the loops swapped: for each tile of columns, all rows.
#[inline(always)]
pub fn columns(x: &[f32], n: usize, eps: f32, y: &mut [f32]) {
    let rows = x.len() / n;
    let (mut means, mut variances) = (vec![0.0f32; rows], vec![0.0f32; rows]);
    let tile = |row: usize, column: usize| row * n + column..row * n + n.min(column + TILE);
    for column in (0..n).step_by(TILE) {
        for (row, mean) in means.iter_mut().enumerate() {
            *mean += sum(&x[tile(row, column)], |x| x);
        }
    }
    means.iter_mut().for_each(|mean| *mean /= n as f32);
    for column in (0..n).step_by(TILE) {
        for (row, (variance, &mean)) in variances.iter_mut().zip(&means).enumerate() {
            *variance += sum(&x[tile(row, column)], |x| (x - mean) * (x - mean));
        }
    }
    for column in (0..n).step_by(TILE) {
        for (row, (variance, &mean)) in variances.iter().zip(&means).enumerate() {
            scale(&x[tile(row, column)], mean, variance / n as f32, eps, &mut y[tile(row, column)]);
        }
    }
}

/// The sum of terms, in lanes.
#[inline(always)]
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
    folded(sums)
}

/// The sum of all lanes. In arrays of fixed sizes: compilers make slow code of a loop over halves.
#[inline(always)]
fn folded(sums: [f32; LANES]) -> f32 {
    let eight: [f32; 8] = std::array::from_fn(|lane| sums[lane] + sums[lane + 8]);
    let four: [f32; 4] = std::array::from_fn(|lane| eight[lane] + eight[lane + 4]);
    (four[0] + four[2]) + (four[1] + four[3])
}

#[inline(always)]
fn scale(x: &[f32], mean: f32, variance: f32, eps: f32, y: &mut [f32]) {
    let rstd = 1.0 / (variance + eps).sqrt();
    x.iter().zip(y).for_each(|(x, y)| *y = (x - mean) * rstd);
}
