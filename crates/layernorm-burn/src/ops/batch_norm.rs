//! Batch norm: in training with the statistics of the batch, updating running statistics; for inference with given
//! ones.

use super::memory::{
    Number, Stored, Tracked, by_type, node, or_panic, room, shape, stats, stats_mut, tensor, view, with_context,
};
use super::norm::{Kept, Pair, Three, affine, gradients, register};
use burn::backend::Flex;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients as Grads;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::flex::FlexTensor;
use layernorm::batch_norm::{self, BatchConfig, Moments, Momentum, Running, RunningVariance};
use layernorm::{Error, ViewMut};

/// The results of a training pass. `saved` has m, δ and r of the channels, `[3, C]`.
pub(super) struct Trained {
    pub(super) y: FlexTensor,
    pub(super) running_mean: FlexTensor,
    pub(super) running_var: FlexTensor,
    saved: FlexTensor,
}

/// Copies the numbers of a small tensor of the arithmetic type into a vector.
fn numbers<A: Stored>(tensor: &FlexTensor) -> Vec<A> {
    let tensor = tensor.to_contiguous();
    A::storage(&tensor).to_vec()
}

fn forward<T: Number>(
    x: &FlexTensor,
    parameters: &Pair<FlexTensor>,
    (running_mean, running_var): (&FlexTensor, &FlexTensor),
    momentum: f64,
    eps: f64,
) -> Result<Trained, Error> {
    let channels = shape(x).get(1).copied().unwrap_or(0);
    let (mut y, mut saved) = (room::<T>(shape(x))?, room::<T::Acc>(&[3, channels])?);
    let (mut mean, mut var) = (numbers::<T::Acc>(running_mean), numbers::<T::Acc>(running_var));
    let (from, to) = (view::<T>(x)?, ViewMut::new(&mut y, shape(x))?);
    let momentum = Momentum::Exponential(momentum);
    // Burn's running variance is the biased one.
    let running = Running { mean: &mut mean, var: &mut var, momentum, variance: RunningVariance::Biased };
    let config = BatchConfig { affine: affine(parameters)?, eps };
    with_context(|cx| batch_norm::forward_running(from, to, stats_mut(&mut saved), running, &config, cx))?;
    Ok(Trained {
        y: tensor(y, shape(x)),
        running_mean: tensor(mean, &[channels]),
        running_var: tensor(var, &[channels]),
        saved: tensor(saved, &[3, channels]),
    })
}

fn backward<T: Number>(
    (x, dy): (&FlexTensor, &FlexTensor),
    parameters: &Pair<FlexTensor>,
    saved: &FlexTensor,
    eps: f64,
    wanted: Three<bool>,
) -> Result<Three<Option<FlexTensor>>, Error> {
    let config = BatchConfig { affine: affine(parameters)?, eps };
    gradients::<T>(x, parameters, wanted, |gradients| {
        let (x, dy) = (view(x)?, view(dy)?);
        with_context(|cx| batch_norm::backward(x, dy, stats(saved), gradients, &config, cx))
    })
}

/// Running means and variances.
type Pooled<'a> = (&'a FlexTensor, &'a FlexTensor);

pub(super) fn train(
    x: &FlexTensor,
    parameters: &Pair<FlexTensor>,
    running: Pooled,
    momentum: f64,
    eps: f64,
) -> Trained {
    or_panic(by_type!(x.dtype(), T => forward::<T>(x, parameters, running, momentum, eps)))
}

fn infer_forward<T: Number>(
    x: &FlexTensor,
    parameters: &Pair<FlexTensor>,
    (mean, var): Pooled,
    eps: f64,
) -> Result<FlexTensor, Error> {
    let mut y = room::<T>(shape(x))?;
    let (mean, var) = (numbers::<T::Acc>(mean), numbers::<T::Acc>(var));
    let (from, to) = (view::<T>(x)?, ViewMut::new(&mut y, shape(x))?);
    let config = BatchConfig { affine: affine(parameters)?, eps };
    with_context(|cx| batch_norm::infer(from, to, Moments { mean: &mean, var: &var }, &config, cx))?;
    Ok(tensor(y, shape(x)))
}

fn infer_backward<T: Number>(
    (x, dy): (&FlexTensor, &FlexTensor),
    parameters: &Pair<FlexTensor>,
    (mean, var): Pooled,
    eps: f64,
    wanted: Three<bool>,
) -> Result<Three<Option<FlexTensor>>, Error> {
    let (mean, var) = (numbers::<T::Acc>(mean), numbers::<T::Acc>(var));
    let config = BatchConfig { affine: affine(parameters)?, eps };
    gradients::<T>(x, parameters, wanted, |gradients| {
        let (x, dy, moments) = (view(x)?, view(dy)?, Moments { mean: &mean, var: &var });
        with_context(|cx| batch_norm::infer_backward(x, dy, moments, gradients, &config, cx))
    })
}

pub(super) fn infer(x: &FlexTensor, parameters: &Pair<FlexTensor>, moments: Pooled, eps: f64) -> FlexTensor {
    or_panic(by_type!(x.dtype(), T => infer_forward::<T>(x, parameters, moments, eps)))
}

#[derive(Debug)]
struct TrainBackward;

impl Backward<Flex, 3> for TrainBackward {
    type State = (Kept, FlexTensor, f64);

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Grads, checkpointer: &mut Checkpointer) {
        let dy = grads.consume::<Flex>(&ops.node);
        let (kept, saved, eps) = ops.state;
        let (x, parameters) = kept.retrieve(checkpointer);
        let wanted = ops.parents.each_ref().map(Option::is_some);
        let gradients = or_panic(by_type!(x.dtype(), T => backward::<T>((&x, &dy), &parameters, &saved, eps, wanted)));
        register(grads, ops.parents, gradients, |node| node.id);
    }
}

/// With a graph. Returns y, and the running statistics as plain tensors.
pub(super) fn tracked_train<C: CheckpointStrategy>(
    x: Tracked,
    (weight, bias): Pair<Tracked>,
    running: Pooled,
    momentum: f64,
    eps: f64,
) -> (Tracked, FlexTensor, FlexTensor) {
    let nodes = [x.node(), node(weight.as_ref(), &x), node(bias.as_ref(), &x)];
    let parameters = (weight.as_ref().map(|w| w.primitive().clone()), bias.as_ref().map(|b| b.primitive().clone()));
    let trained = train(x.primitive(), &parameters, running, momentum, eps);
    let y = match TrainBackward.prepare::<C>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(mut prep) => {
            let mut keep = |tensor: &Tracked| prep.checkpoint(tensor);
            let kept = Kept { x: keep(&x), parameters: (weight.as_ref().map(&mut keep), bias.as_ref().map(keep)) };
            prep.finish((kept, trained.saved, eps), trained.y)
        }
        OpsKind::UnTracked(prep) => prep.finish(trained.y),
    };
    (y, trained.running_mean, trained.running_var)
}

#[derive(Debug)]
struct InferBackward;

impl Backward<Flex, 3> for InferBackward {
    type State = (Kept, (FlexTensor, FlexTensor), f64);

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Grads, checkpointer: &mut Checkpointer) {
        let dy = grads.consume::<Flex>(&ops.node);
        let (kept, (mean, var), eps) = ops.state;
        let (x, parameters) = kept.retrieve(checkpointer);
        let wanted = ops.parents.each_ref().map(Option::is_some);
        let gradients =
            or_panic(by_type!(x.dtype(), T => infer_backward::<T>((&x, &dy), &parameters, (&mean, &var), eps, wanted)));
        register(grads, ops.parents, gradients, |node| node.id);
    }
}

pub(super) fn tracked_infer<C: CheckpointStrategy>(
    x: Tracked,
    (weight, bias): Pair<Tracked>,
    (mean, var): (FlexTensor, FlexTensor),
    eps: f64,
) -> Tracked {
    let nodes = [x.node(), node(weight.as_ref(), &x), node(bias.as_ref(), &x)];
    let parameters = (weight.as_ref().map(|w| w.primitive().clone()), bias.as_ref().map(|b| b.primitive().clone()));
    let y = infer(x.primitive(), &parameters, (&mean, &var), eps);
    match InferBackward.prepare::<C>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(mut prep) => {
            let mut keep = |tensor: &Tracked| prep.checkpoint(tensor);
            let kept = Kept { x: keep(&x), parameters: (weight.as_ref().map(&mut keep), bias.as_ref().map(keep)) };
            prep.finish((kept, (mean, var), eps), y)
        }
        OpsKind::UnTracked(prep) => prep.finish(y),
    }
}
