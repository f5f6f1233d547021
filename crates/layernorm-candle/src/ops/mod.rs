//! The operations as functions on tensors, each differentiable in all of its arguments.
//!
//! Tensors must be on the CPU and of type f16, bf16, f32 or f64. Any strides are supported without a contiguous copy.
//! Parameters are in the input's type or f32; other types are cast to the input's type. A mismatch is an error with the
//! message of [`layernorm::Error`].

mod memory;
mod norm;
mod recurrent;

pub(crate) use layernorm_rnn::runner_pool::RunnerPool;
pub use memory::set_threads;
pub(crate) use memory::{on_cpu, refused, wide};
pub(crate) use recurrent::{Call, States, recurrent};

use candle_core::{Result, Tensor};
use norm::{NormOp, norm};

/// Layer norm over the last axis: x and y `[…, d]`, γ and β `[d]`.
///
/// y = (x − mean)/sqrt(var + ε)·γ + β
pub fn layer_norm(x: &Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> Result<Tensor> {
    norm(x, weight, bias, NormOp::Layer { eps })
}

/// RMS norm over the last axis: x and y `[…, d]`, γ and β `[d]`.
///
/// y = x/sqrt(mean(x²) + ε)·γ + β
pub fn rms_norm(x: &Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> Result<Tensor> {
    norm(x, weight, bias, NormOp::Rms { eps })
}

/// Group norm: x and y `[N, C, …]`, γ and β `[C]`. With as many groups as channels, it is instance norm.
pub fn group_norm(
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    groups: usize,
    eps: f64,
) -> Result<Tensor> {
    norm(x, weight, bias, NormOp::Group { groups, eps })
}
