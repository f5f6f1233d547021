//! The operations as functions on tensors: fused on flex, composed of Burn's own operations ([`crate::fallback`])
//! elsewhere.
//!
//! All of them are differentiable. Parameters are in the input's type or f32; other types are cast to the input's type.
//!
//! # Panics
//! All of them panic on shape mismatches, with the message of [`layernorm::Error`] or [`layernorm_rnn::Error`].

use crate::ops::{Affine, FusedOps, Initial, NormOp, is_fused};
use crate::{Recurrent, checks, fallback};
use burn::backend::Dispatch;
use burn::tensor::{DType, FloatDType, Tensor};

/// The arithmetic type for tensors of this type.
pub(crate) fn wide(dtype: DType) -> FloatDType {
    if dtype == DType::F64 { FloatDType::F64 } else { FloatDType::F32 }
}

/// The tensor converted to this type.
pub(crate) fn in_type<const D: usize>(tensor: Tensor<D>, dtype: FloatDType) -> Tensor<D> {
    if tensor.dtype() == DType::from(dtype) { tensor } else { tensor.cast(dtype) }
}

/// A parameter in a type that the core accepts for this input type.
fn parameter<const D: usize>(tensor: Tensor<D>, input: DType) -> Tensor<D> {
    if tensor.dtype() == DType::F32 { tensor } else { in_type(tensor, input.into()) }
}

fn affine(gamma: Option<Tensor<1>>, beta: Option<Tensor<1>>, input: DType) -> Affine<Dispatch> {
    let part = |tensor: Tensor<1>| parameter(tensor, input).into_dispatch();
    Affine::new(gamma.map(part), beta.map(part))
}

/// The fused operation if x is on a backend that supports it, else the fallback.
fn norm<const D: usize>(
    x: Tensor<D>,
    gamma: Option<Tensor<1>>,
    beta: Option<Tensor<1>>,
    norm: NormOp,
    composed: impl FnOnce(Tensor<D>, Option<Tensor<1>>, Option<Tensor<1>>) -> Tensor<D>,
) -> Tensor<D> {
    let dtype = x.dtype();
    let x = x.into_dispatch();
    if is_fused(&x) {
        Tensor::from_dispatch(Dispatch::norm(x, affine(gamma, beta, dtype), norm))
    } else {
        composed(Tensor::from_dispatch(x), gamma, beta)
    }
}

/// Layer norm over the last axis: x and y `[…, d]`, γ and β `[d]`.
///
/// y = (x − mean)/sqrt(var + ε)·γ + β
pub fn layer_norm<const D: usize>(
    x: Tensor<D>,
    gamma: Option<Tensor<1>>,
    beta: Option<Tensor<1>>,
    epsilon: f64,
) -> Tensor<D> {
    norm(x, gamma, beta, NormOp::Layer { eps: epsilon }, |x, gamma, beta| fallback::layer_norm(x, gamma, beta, epsilon))
}

/// RMS norm over the last axis: x and y `[…, d]`, γ and β `[d]`.
///
/// y = x/sqrt(mean(x²) + ε)·γ + β
pub fn rms_norm<const D: usize>(
    x: Tensor<D>,
    gamma: Option<Tensor<1>>,
    beta: Option<Tensor<1>>,
    epsilon: f64,
) -> Tensor<D> {
    norm(x, gamma, beta, NormOp::Rms { eps: epsilon }, |x, gamma, beta| fallback::rms_norm(x, gamma, beta, epsilon))
}

/// Group norm: x and y `[N, C, …]`, γ and β `[C]`. With as many groups as channels, it is instance norm.
pub fn group_norm<const D: usize>(
    x: Tensor<D>,
    gamma: Option<Tensor<1>>,
    beta: Option<Tensor<1>>,
    groups: usize,
    epsilon: f64,
) -> Tensor<D> {
    norm(x, gamma, beta, NormOp::Group { groups, eps: epsilon }, |x, gamma, beta| {
        fallback::group_norm(x, gamma, beta, groups, epsilon)
    })
}

/// The results of [`batch_norm_train`].
#[derive(Clone, Debug)]
pub struct BatchNormTrained<const D: usize> {
    /// y, of the input's shape.
    pub output: Tensor<D>,
    /// The updated running mean `[C]`.
    pub running_mean: Tensor<1>,
    /// The updated running variance `[C]`. The variance of the batch is divided by N and not by N − 1, as in Burn.
    pub running_var: Tensor<1>,
}

/// Batch norm with the statistics of the batch: x and y `[N, C, …]`, everything else `[C]`.
///
/// running = (1 − momentum)·running + momentum·batch
pub fn batch_norm_train<const D: usize>(
    x: Tensor<D>,
    gamma: Option<Tensor<1>>,
    beta: Option<Tensor<1>>,
    running: [Tensor<1>; 2],
    momentum: f64,
    epsilon: f64,
) -> BatchNormTrained<D> {
    let dtype = x.dtype();
    let x = x.into_dispatch();
    if !is_fused(&x) {
        return fallback::batch_norm_train(Tensor::from_dispatch(x), gamma, beta, running, momentum, epsilon);
    }
    let kept = running[0].dtype();
    let [mean, var] = running.map(|tensor| in_type(tensor, wide(dtype)).into_dispatch());
    let (output, mean, var) = Dispatch::batch_norm_train(x, affine(gamma, beta, dtype), mean, var, momentum, epsilon);
    let [running_mean, running_var] =
        [mean, var].map(|tensor| in_type(Tensor::<1>::from_dispatch(tensor), kept.into()).detach());
    BatchNormTrained { output: Tensor::from_dispatch(output), running_mean, running_var }
}

/// Batch norm with given statistics, which are constants: x and y `[N, C, …]`, everything else `[C]`.
pub fn batch_norm<const D: usize>(
    x: Tensor<D>,
    gamma: Option<Tensor<1>>,
    beta: Option<Tensor<1>>,
    [mean, var]: [Tensor<1>; 2],
    epsilon: f64,
) -> Tensor<D> {
    let dtype = x.dtype();
    let x = x.into_dispatch();
    if !is_fused(&x) {
        return fallback::batch_norm(Tensor::from_dispatch(x), gamma, beta, [mean, var], epsilon);
    }
    let [mean, var] = [mean, var].map(|tensor| in_type(tensor, wide(dtype)).into_dispatch());
    Tensor::from_dispatch(Dispatch::batch_norm_infer(x, affine(gamma, beta, dtype), mean, var, epsilon))
}

/// Weight norm: w = g·v/‖v‖, with v and w of the same shape. Along an axis, g has one length per index of the axis;
/// without an axis, g has a single length, that of the whole tensor.
pub fn weight_norm<const D: usize>(v: Tensor<D>, g: Tensor<1>, axis: Option<usize>) -> Tensor<D> {
    let g = in_type(g, v.dtype().into());
    let v = v.into_dispatch();
    if is_fused(&v) {
        Tensor::from_dispatch(Dispatch::weight_norm(v, g.into_dispatch(), axis))
    } else {
        fallback::weight_norm(Tensor::from_dispatch(v), g, axis)
    }
}

/// A state: h `[L·D, B, P]` and, for an LSTM, c `[L·D, B, H]`. `None` means 0.
pub type States = [Option<Tensor<3>>; 2];

/// A recurrent network over sequences: y and the last state. See [`Recurrent::forward`].
pub fn recurrent(network: &Recurrent, x: Tensor<3>, initial: States, lengths: Option<&[usize]>) -> (Tensor<3>, States) {
    checks::or_panic(network.check());
    let (dtype, call) = (x.dtype(), network.call(lengths));
    checks::or_panic(call.check_states(x.dims(), initial.each_ref().map(|part| part.as_ref().map(Tensor::dims))));
    let x = x.into_dispatch();
    if !is_fused(&x) {
        return fallback::recurrent(network, Tensor::from_dispatch(x), initial, lengths);
    }
    let initial = initial.map(|part| part.map(|part| in_type(part, wide(dtype)).into_dispatch()));
    let initial = match initial {
        [None, _] => Initial::Zeros,
        [Some(h), None] => Initial::Hidden(h),
        [Some(h), Some(c)] => Initial::HiddenCell(h, c),
    };
    let parameters = parameter(network.parameters(), dtype).into_dispatch();
    let mut outputs = Dispatch::recurrent(x, parameters, initial, call).into_iter().map(Tensor::from_dispatch);
    let y = outputs.next().expect("a recurrent network has an output");
    (y, [outputs.next(), outputs.next()])
}
