//! Layer norm of a row of f32 as textbooks and other libraries compute it, in plain Rust, without γ and β.

/// An implementation: from x and ε to y = (x − mean)/sqrt(variance + ε).
pub type RowNorm = fn(&[f32], f32, &mut [f32]);

/// Number of accumulators in the functions called `…_in_lanes`: their additions are independent, so that the compiler can
/// vectorize them.
const LANES: usize = 16;

/// The formula taken literally: the sum, the sum of squared deviations, the division. Each sum is one chain of additions.
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

/// The same formula with several accumulators.
pub fn two_pass_in_lanes(x: &[f32], eps: f32, y: &mut [f32]) {
    let n = x.len() as f32;
    let mean = sum_in_lanes(x, |x| x) / n;
    let variance = sum_in_lanes(x, |x| (x - mean) * (x - mean)) / n;
    scale(x, mean, variance, eps, y);
}

/// Both sums in one pass; the variance is the mean of squares minus the square of the mean.
pub fn squares(x: &[f32], eps: f32, y: &mut [f32]) {
    let (mut sum, mut squares) = (0.0, 0.0);
    for &x in x {
        sum += x;
        squares += x * x;
    }
    scale_by_moments(x, sum, squares, eps, y);
}

/// The same with several accumulators.
pub fn squares_in_lanes(x: &[f32], eps: f32, y: &mut [f32]) {
    let (mut sum, mut squares) = (0.0, 0.0);
    // One pass over memory: a block is still in the L1 cache when its second sum is computed. Both sums in one loop would be
    // slower, because the compiler then mixes the two in one vector.
    for block in x.chunks(1024) {
        sum += sum_in_lanes(block, |x| x);
        squares += sum_in_lanes(block, |x| x * x);
    }
    scale_by_moments(x, sum, squares, eps, y);
}

/// Running mean and variance in one pass, with a division for every element (Welford, 1962).
pub fn welford(x: &[f32], eps: f32, y: &mut [f32]) {
    let (mut mean, mut squares) = (0.0, 0.0);
    for (i, &x) in x.iter().enumerate() {
        let d = x - mean;
        mean += d / (i + 1) as f32;
        squares += d * (x - mean);
    }
    scale(x, mean, squares / x.len() as f32, eps, y);
}

/// Rows of `n` elements in three passes with the loops swapped: for each column, all rows.
pub fn columns(x: &[f32], n: usize, eps: f32, y: &mut [f32]) {
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
    let rstd = |variance: f32| 1.0 / (variance / n as f32 + eps).sqrt();
    variances.iter_mut().for_each(|variance| *variance = rstd(*variance));
    for column in 0..n {
        (0..rows).for_each(|row| y[row * n + column] = (x[row * n + column] - means[row]) * variances[row]);
    }
}

fn sum_in_lanes(x: &[f32], term: impl Fn(f32) -> f32) -> f32 {
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
    for step in [8, 4, 2, 1] {
        for lane in 0..step {
            sums[lane] += sums[lane + step];
        }
    }
    sums[0]
}

fn scale_by_moments(x: &[f32], sum: f32, squares: f32, eps: f32, y: &mut [f32]) {
    let n = x.len() as f32;
    let mean = sum / n;
    // Rounding can make the difference negative, which would give NaN; careful implementations clamp it to 0.
    scale(x, mean, (squares / n - mean * mean).max(0.0), eps, y);
}

fn scale(x: &[f32], mean: f32, variance: f32, eps: f32, y: &mut [f32]) {
    let rstd = 1.0 / (variance + eps).sqrt();
    x.iter().zip(y).for_each(|(x, y)| *y = (x - mean) * rstd);
}
