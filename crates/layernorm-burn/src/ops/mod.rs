//! The fused operations as a backend extension: each is one node of Burn's graph. On flex they run the core's kernels.
//! Under autodiff they keep the core's statistics (or the recurrent tape) and run the core's backward kernels.
//!
//! Other backends never reach this module: [`crate::functional`] sends them to [`crate::fallback`].

mod batch_norm;
mod memory;
mod norm;
mod recurrent;
mod weight_norm;

pub(crate) use layernorm_rnn::runner_pool::RunnerPool;
pub(crate) use memory::is_fused;
pub use memory::set_threads;
pub(crate) use norm::NormOp;
pub(crate) use recurrent::Call;

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, AutodiffBackend, Backend, ExtensionType, Flex, backend_extension};

/// γ and β, each optional.
#[derive(ExtensionType)]
pub(crate) enum Affine<B: Backend> {
    None,
    Weight(FloatTensor<B>),
    Bias(FloatTensor<B>),
    Both(FloatTensor<B>, FloatTensor<B>),
}

impl<B: Backend> Affine<B> {
    pub(crate) fn new(weight: Option<FloatTensor<B>>, bias: Option<FloatTensor<B>>) -> Self {
        match (weight, bias) {
            (None, None) => Affine::None,
            (Some(weight), None) => Affine::Weight(weight),
            (None, Some(bias)) => Affine::Bias(bias),
            (Some(weight), Some(bias)) => Affine::Both(weight, bias),
        }
    }

    fn parts(self) -> (Option<FloatTensor<B>>, Option<FloatTensor<B>>) {
        match self {
            Affine::None => (None, None),
            Affine::Weight(weight) => (Some(weight), None),
            Affine::Bias(bias) => (None, Some(bias)),
            Affine::Both(weight, bias) => (Some(weight), Some(bias)),
        }
    }
}

/// The state before the first step, `[L·D, B, P]` and `[L·D, B, H]`.
#[derive(ExtensionType)]
pub(crate) enum Initial<B: Backend> {
    Zeros,
    Hidden(FloatTensor<B>),
    HiddenCell(FloatTensor<B>, FloatTensor<B>),
}

/// The fused operations. Shapes are checked by the caller or by the core; a mismatch panics with the core's error.
#[backend_extension(Flex, Autodiff)]
pub(crate) trait FusedOps: Backend {
    /// Layer, RMS or group norm: x and y have the same shape.
    fn norm(x: FloatTensor<Self>, #[extension_type] affine: Affine<Self>, norm: NormOp) -> FloatTensor<Self>;

    /// Batch norm in training, x `[N, C, …]`: returns y and the updated running mean and variance `[C]`.
    fn batch_norm_train(
        x: FloatTensor<Self>,
        #[extension_type] affine: Affine<Self>,
        running_mean: FloatTensor<Self>,
        running_var: FloatTensor<Self>,
        momentum: f64,
        eps: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    /// Batch norm with given statistics `[C]`, which are constants.
    fn batch_norm_infer(
        x: FloatTensor<Self>,
        #[extension_type] affine: Affine<Self>,
        mean: FloatTensor<Self>,
        var: FloatTensor<Self>,
        eps: f64,
    ) -> FloatTensor<Self>;

    /// w = g·v/‖v‖ along an axis, or over the whole tensor.
    fn weight_norm(v: FloatTensor<Self>, g: FloatTensor<Self>, axis: Option<usize>) -> FloatTensor<Self>;

    /// A recurrent network over sequences: returns y, the last h and, for an LSTM, the last c. `parameters` has all
    /// parameters of the network, one after the other as in [`layernorm_rnn::Params`].
    fn recurrent(
        x: FloatTensor<Self>,
        parameters: FloatTensor<Self>,
        #[extension_type] initial: Initial<Self>,
        call: Call,
    ) -> Vec<FloatTensor<Self>>;
}

impl FusedOps for Flex {
    fn norm(x: FloatTensor<Self>, affine: Affine<Self>, norm: NormOp) -> FloatTensor<Self> {
        norm::plain(&x, &affine.parts(), norm)
    }

    fn batch_norm_train(
        x: FloatTensor<Self>,
        affine: Affine<Self>,
        running_mean: FloatTensor<Self>,
        running_var: FloatTensor<Self>,
        momentum: f64,
        eps: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let trained = batch_norm::train(&x, &affine.parts(), (&running_mean, &running_var), momentum, eps);
        (trained.y, trained.running_mean, trained.running_var)
    }

    fn batch_norm_infer(
        x: FloatTensor<Self>,
        affine: Affine<Self>,
        mean: FloatTensor<Self>,
        var: FloatTensor<Self>,
        eps: f64,
    ) -> FloatTensor<Self> {
        batch_norm::infer(&x, &affine.parts(), (&mean, &var), eps)
    }

    fn weight_norm(v: FloatTensor<Self>, g: FloatTensor<Self>, axis: Option<usize>) -> FloatTensor<Self> {
        weight_norm::plain(&v, &g, axis)
    }

    fn recurrent(
        x: FloatTensor<Self>,
        parameters: FloatTensor<Self>,
        initial: Initial<Self>,
        call: Call,
    ) -> Vec<FloatTensor<Self>> {
        let initial = match initial {
            Initial::Zeros => [None, None],
            Initial::Hidden(h) => [Some(h), None],
            Initial::HiddenCell(h, c) => [Some(h), Some(c)],
        };
        recurrent::plain(&x, &parameters, &initial, &call)
    }
}

impl<C: CheckpointStrategy> FusedOps for Autodiff<Flex, C> {
    fn norm(x: FloatTensor<Self>, affine: Affine<Self>, norm: NormOp) -> FloatTensor<Self> {
        norm::tracked::<C>(x, affine.parts(), norm)
    }

    fn batch_norm_train(
        x: FloatTensor<Self>,
        affine: Affine<Self>,
        running_mean: FloatTensor<Self>,
        running_var: FloatTensor<Self>,
        momentum: f64,
        eps: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let running = (running_mean.primitive(), running_var.primitive());
        let (y, mean, var) = batch_norm::tracked_train::<C>(x, affine.parts(), running, momentum, eps);
        (y, Self::from_inner(mean), Self::from_inner(var))
    }

    fn batch_norm_infer(
        x: FloatTensor<Self>,
        affine: Affine<Self>,
        mean: FloatTensor<Self>,
        var: FloatTensor<Self>,
        eps: f64,
    ) -> FloatTensor<Self> {
        batch_norm::tracked_infer::<C>(x, affine.parts(), (mean.into_primitive(), var.into_primitive()), eps)
    }

    fn weight_norm(v: FloatTensor<Self>, g: FloatTensor<Self>, axis: Option<usize>) -> FloatTensor<Self> {
        weight_norm::tracked::<C>(v, g, axis)
    }

    fn recurrent(
        x: FloatTensor<Self>,
        parameters: FloatTensor<Self>,
        initial: Initial<Self>,
        call: Call,
    ) -> Vec<FloatTensor<Self>> {
        let initial = match initial {
            Initial::Zeros => [None, None],
            Initial::Hidden(h) => [Some(h), None],
            Initial::HiddenCell(h, c) => [Some(h), Some(c)],
        };
        recurrent::tracked::<C>(x, parameters, initial, call)
    }
}
