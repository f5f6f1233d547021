//! The operations composed of Burn's own, for backends other than flex. They can be called on any backend, for
//! comparison.
//!
//! They agree with the fused operations within bounds that follow from rounding alone. For a row of N elements, with u
//! the unit roundoff of the arithmetic type (2⁻²⁴, for f64 2⁻⁵³), x̂ = (x − mean)·r, r = 1/sqrt(var + ε), X = max |x̂|,
//! κ = r·max |x|, and for gradients G = max |γ·dy| of the row:
//!
//! ```text
//! |Δy|  ≤ 2(N + 8)·u·(|γ|·(κ + (κ + 1)·X) + |β|)
//! |Δdx| ≤ 8(N + 16)·u·(1 + κ)·(1 + X)·r·G
//! |Δdγ| ≤ 2(N + R + 8)·u·(1 + κ)·(1 + X)·Σ|dy|       over R rows (positions), κ and X the largest
//! |Δdβ| ≤ 2(R + 2)·u·Σ|dy|
//! ```
//!
//! Why: the mean, a sum of N numbers in any order, has an error of at most N·u·max |x|, and so has every x − mean,
//! which is κ·N·u in x̂. The variance has the same error relative to σ, twice, and N·u from its own sum; r has half of
//! that. The terms of dx are at most (1 + X)·r·G together, since the mean of |x̂| is at most 1, and each has such
//! factors. The fused operations are well within the same bounds, hence the leading factor 2.
//!
//! RMS norm and weight norm have no mean: κ = X. f16 and bf16 are computed in f32 and rounded at the end, which may add
//! one unit in the last place of the type. Only the fused operations are correct for rows whose sums overflow, and for
//! rows whose squares underflow while ε is 0 or tiny.

mod recurrent;

pub use recurrent::recurrent;

use crate::functional::{BatchNormTrained, in_type, wide};
use burn::tensor::Tensor;

/// x̂·γ + β, with γ and β reshaped to this shape.
fn affine<const D: usize>(
    x_hat: Tensor<D>,
    gamma: Option<Tensor<1>>,
    beta: Option<Tensor<1>>,
    shape: [usize; D],
) -> Tensor<D> {
    let dtype = wide(x_hat.dtype());
    let part = |tensor: Tensor<1>| in_type(tensor, dtype).reshape(shape);
    let scaled = match gamma {
        Some(gamma) => x_hat.mul(part(gamma)),
        None => x_hat,
    };
    match beta {
        Some(beta) => scaled.add(part(beta)),
        None => scaled,
    }
}

/// `[1, …, 1, n]`.
fn along_last<const D: usize>(n: usize) -> [usize; D] {
    let mut shape = [1; D];
    shape[D - 1] = n;
    shape
}

/// `[1, n, 1, …]`.
fn along_channels<const D: usize>(n: usize) -> [usize; D] {
    let mut shape = [1; D];
    shape[1] = n;
    shape
}

/// x − mean over the last axis, and the variance.
fn centred<const D: usize>(x: Tensor<D>) -> (Tensor<D>, Tensor<D>) {
    let mean = x.clone().mean_dim(D - 1);
    let d = x.sub(mean);
    let var = d.clone().square().mean_dim(D - 1);
    (d, var)
}

fn normalize<const D: usize>(x: Tensor<D>, epsilon: f64) -> Tensor<D> {
    let (d, var) = centred(x);
    d.div(var.add_scalar(epsilon).sqrt())
}

/// [`crate::functional::layer_norm`].
pub fn layer_norm<const D: usize>(
    x: Tensor<D>,
    gamma: Option<Tensor<1>>,
    beta: Option<Tensor<1>>,
    epsilon: f64,
) -> Tensor<D> {
    let (dtype, n) = (x.dtype(), x.dims()[D - 1]);
    let x_hat = normalize(in_type(x, wide(dtype)), epsilon);
    in_type(affine(x_hat, gamma, beta, along_last(n)), dtype.into())
}

/// [`crate::functional::rms_norm`].
pub fn rms_norm<const D: usize>(
    x: Tensor<D>,
    gamma: Option<Tensor<1>>,
    beta: Option<Tensor<1>>,
    epsilon: f64,
) -> Tensor<D> {
    let (dtype, n) = (x.dtype(), x.dims()[D - 1]);
    let x = in_type(x, wide(dtype));
    let mean_square = x.clone().square().mean_dim(D - 1);
    let x_hat = x.div(mean_square.add_scalar(epsilon).sqrt());
    in_type(affine(x_hat, gamma, beta, along_last(n)), dtype.into())
}

/// [`crate::functional::group_norm`].
pub fn group_norm<const D: usize>(
    x: Tensor<D>,
    gamma: Option<Tensor<1>>,
    beta: Option<Tensor<1>>,
    groups: usize,
    epsilon: f64,
) -> Tensor<D> {
    let (dtype, shape) = (x.dtype(), x.dims());
    let rows = shape[0] * groups;
    let x = in_type(x, wide(dtype)).reshape([rows, shape.iter().product::<usize>() / rows.max(1)]);
    let x_hat = normalize(x, epsilon).reshape(shape);
    in_type(affine(x_hat, gamma, beta, along_channels(shape[1])), dtype.into())
}

/// [`crate::functional::batch_norm_train`].
pub fn batch_norm_train<const D: usize>(
    x: Tensor<D>,
    gamma: Option<Tensor<1>>,
    beta: Option<Tensor<1>>,
    [running_mean, running_var]: [Tensor<1>; 2],
    momentum: f64,
    epsilon: f64,
) -> BatchNormTrained<D> {
    let (dtype, channels) = (x.dtype(), x.dims()[1]);
    let x = in_type(x, wide(dtype)).swap_dims(0, 1);
    let swapped = x.dims();
    let rows = x.reshape([channels, swapped.iter().product::<usize>() / channels.max(1)]);
    let mean = rows.clone().mean_dim(1);
    let (d, var) = centred(rows);
    let x_hat = d.div(var.clone().add_scalar(epsilon).sqrt()).reshape(swapped).swap_dims(0, 1);
    let blend = |running: Tensor<1>, batch: Tensor<2>| {
        let batch = in_type(batch.reshape([channels]).detach(), running.dtype().into());
        running.mul_scalar(1.0 - momentum).add(batch.mul_scalar(momentum)).detach()
    };
    BatchNormTrained {
        output: in_type(affine(x_hat, gamma, beta, along_channels(channels)), dtype.into()),
        running_mean: blend(running_mean, mean),
        running_var: blend(running_var, var),
    }
}

/// [`crate::functional::batch_norm`].
pub fn batch_norm<const D: usize>(
    x: Tensor<D>,
    gamma: Option<Tensor<1>>,
    beta: Option<Tensor<1>>,
    moments: [Tensor<1>; 2],
    epsilon: f64,
) -> Tensor<D> {
    let (dtype, shape) = (x.dtype(), along_channels(x.dims()[1]));
    let [mean, var] = moments.map(|tensor| in_type(tensor, wide(dtype)).reshape(shape));
    let x_hat = in_type(x, wide(dtype)).sub(mean).div(var.add_scalar(epsilon).sqrt());
    in_type(affine(x_hat, gamma, beta, shape), dtype.into())
}

/// [`crate::functional::weight_norm`].
pub fn weight_norm<const D: usize>(v: Tensor<D>, g: Tensor<1>, axis: Option<usize>) -> Tensor<D> {
    let (dtype, shape, count) = (v.dtype(), v.dims(), g.dims()[0]);
    let (v, g) = (in_type(v, wide(dtype)), in_type(g, wide(dtype)));
    let squares = v.clone().square();
    let (squares, lengths) = match axis {
        Some(axis) => {
            let mut lengths = [1; D];
            lengths[axis] = count;
            let others = (0..D).filter(|&other| other != axis);
            (others.fold(squares, |sum, other| sum.sum_dim(other)), lengths)
        }
        None => (squares.sum().reshape([1; D]), [1; D]),
    };
    let w = v.div(squares.sqrt()).mul(g.reshape(lengths));
    debug_assert_eq!(w.dims(), shape);
    in_type(w, dtype.into())
}
