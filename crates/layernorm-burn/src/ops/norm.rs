//! Layer, RMS and group norm as one operation each. The statistics m, δ and r are saved between forward and backward.

use super::memory::Number;
use super::memory::{
    Room, Tracked, by_type, node, or_panic, param, room, shape, stats, stats_mut, tensor, view, with_context,
};
use burn::backend::Flex;
use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients as Grads;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::flex::FlexTensor;
use layernorm::group_norm::{self, GroupConfig};
use layernorm::{Affine, Error, Gradients, NormConfig, ViewMut, layer_norm, rms_norm};

/// Which norm, and its ε.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NormOp {
    /// Over the last axis; γ and β `[d]`.
    Layer { eps: f64 },
    /// Over the last axis; γ and β `[d]`.
    Rms { eps: f64 },
    /// x `[N, C, …]` in groups of channels; γ and β `[C]`.
    Group { groups: usize, eps: f64 },
}

impl NormOp {
    /// Number of rows that have statistics. If a shape lacks axes, the core reports the error.
    fn rows(&self, shape: &[usize]) -> usize {
        match (self, shape) {
            (NormOp::Layer { .. } | NormOp::Rms { .. }, [rows @ .., _]) => rows.iter().product(),
            (NormOp::Group { groups, .. }, [samples, ..]) => samples * groups,
            (_, []) => 0,
        }
    }
}

/// γ and β.
pub(super) type Pair<X> = (Option<X>, Option<X>);

pub(super) fn affine<T: Number>((weight, bias): &Pair<FlexTensor>) -> Result<Affine<'_, T>, Error> {
    let weight = weight.as_ref().map(param).transpose()?;
    let bias = bias.as_ref().map(param).transpose()?;
    Ok(Affine { weight, bias, zero_centered: false })
}

/// Computes y and, with `save`, the statistics.
fn forward<T: Number>(
    x: &FlexTensor,
    parameters: &Pair<FlexTensor>,
    norm: NormOp,
    save: bool,
) -> Result<(FlexTensor, Option<FlexTensor>), Error> {
    let rows = if save { norm.rows(shape(x)) } else { 0 };
    let (mut y, mut saved) = (room::<T>(shape(x))?, room::<T::Acc>(&[3, rows])?);
    let (from, to) = (view::<T>(x)?, ViewMut::new(&mut y, shape(x))?);
    let (affine, keep) = (affine(parameters)?, save.then(|| stats_mut(&mut saved)));
    with_context(|cx| match norm {
        NormOp::Layer { eps } => layer_norm::forward(from, to, keep, &NormConfig::new().affine(affine).eps(eps), cx),
        NormOp::Rms { eps } => rms_norm::forward(from, to, keep, &NormConfig::new().affine(affine).eps(eps), cx),
        NormOp::Group { groups, eps } => group_norm::forward(from, to, keep, &GroupConfig { groups, affine, eps }, cx),
    })?;
    Ok((tensor(y, shape(x)), save.then(|| tensor(saved, &[3, rows]))))
}

/// Which gradients are wanted, or the gradients: of x, γ and β.
pub(super) type Three<X> = [X; 3];

fn backward<T: Number>(
    (x, dy): (&FlexTensor, &FlexTensor),
    parameters: &Pair<FlexTensor>,
    saved: &FlexTensor,
    norm: NormOp,
    wanted: Three<bool>,
) -> Result<Three<Option<FlexTensor>>, Error> {
    let saved = stats::<T::Acc>(saved);
    let affine = affine(parameters)?;
    gradients::<T>(x, parameters, wanted, |gradients| {
        let (x, dy) = (view(x)?, view(dy)?);
        with_context(|cx| match norm {
            NormOp::Layer { eps } => {
                layer_norm::backward(x, dy, saved, gradients, &NormConfig::new().affine(affine).eps(eps), cx)
            }
            NormOp::Rms { eps } => {
                rms_norm::backward(x, dy, saved, gradients, &NormConfig::new().affine(affine).eps(eps), cx)
            }
            NormOp::Group { groups, eps } => {
                group_norm::backward(x, dy, saved, gradients, &GroupConfig { groups, affine, eps }, cx)
            }
        })
    })
}

/// A vector for a parameter's gradient, and its shape.
type Place<'a, T> = (Room<T>, &'a [usize]);

/// Allocates a parameter's gradient, if there is a parameter and its gradient is wanted.
fn place<T: Number>(parameter: &Option<FlexTensor>, wanted: bool) -> Result<Option<Place<'_, T>>, Error> {
    let parameter = parameter.as_ref().filter(|_| wanted);
    parameter.map(|parameter| Ok((Room::like(parameter)?, shape(parameter)))).transpose()
}

/// Allocates the wanted gradients, computes them, and returns them as tensors.
pub(super) fn gradients<T: Number>(
    x: &FlexTensor,
    (weight, bias): &Pair<FlexTensor>,
    wanted: Three<bool>,
    compute: impl FnOnce(Gradients<T>) -> Result<(), Error>,
) -> Result<Three<Option<FlexTensor>>, Error> {
    let mut dx = wanted[0].then(|| room::<T>(shape(x))).transpose()?;
    let mut places = [place::<T>(weight, wanted[1])?, place(bias, wanted[2])?];
    let [dweight, dbias] = &mut places;
    compute(Gradients {
        input: dx.as_mut().map(|dx| ViewMut::new(dx, shape(x))).transpose()?,
        weight: dweight.as_mut().map(|(room, shape)| room.view(shape)).transpose()?,
        bias: dbias.as_mut().map(|(room, shape)| room.view(shape)).transpose()?,
    })?;
    let [dweight, dbias] = places.map(|place| place.map(|(room, shape)| room.tensor(shape)));
    Ok([dx.map(|dx| tensor(dx, shape(x))), dweight, dbias])
}

/// Without a graph.
pub(super) fn plain(x: &FlexTensor, parameters: &Pair<FlexTensor>, norm: NormOp) -> FlexTensor {
    or_panic(by_type!(x.dtype(), T => forward::<T>(x, parameters, norm, false))).0
}

/// The tensors that the backward pass of a norm retrieves from the checkpointer.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) x: NodeId,
    pub(super) parameters: Pair<NodeId>,
}

impl Kept {
    pub(super) fn retrieve(self, checkpointer: &mut Checkpointer) -> (FlexTensor, Pair<FlexTensor>) {
        let mut get = |id| checkpointer.retrieve_node_output::<FlexTensor>(id);
        (get(self.x), (self.parameters.0.map(&mut get), self.parameters.1.map(get)))
    }
}

/// Registers the gradients with the parents that want them.
pub(super) fn register<const N: usize, Node>(
    grads: &mut Grads,
    parents: [Option<Node>; N],
    gradients: [Option<FlexTensor>; N],
    id: impl Fn(&Node) -> NodeId,
) {
    for (parent, gradient) in parents.iter().zip(gradients) {
        if let (Some(parent), Some(gradient)) = (parent, gradient) {
            grads.register::<Flex>(id(parent), gradient);
        }
    }
}

#[derive(Debug)]
struct NormBackward;

impl Backward<Flex, 3> for NormBackward {
    type State = (Kept, FlexTensor, NormOp);

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Grads, checkpointer: &mut Checkpointer) {
        let dy = grads.consume::<Flex>(&ops.node);
        let (kept, saved, norm) = ops.state;
        let (x, parameters) = kept.retrieve(checkpointer);
        let wanted = ops.parents.each_ref().map(Option::is_some);
        let gradients = or_panic(by_type!(x.dtype(), T => backward::<T>((&x, &dy), &parameters, &saved, norm, wanted)));
        register(grads, ops.parents, gradients, |node| node.id);
    }
}

/// With a graph: one node whose parents are x, γ and β.
pub(super) fn tracked<C: CheckpointStrategy>(x: Tracked, (weight, bias): Pair<Tracked>, norm: NormOp) -> Tracked {
    let nodes = [x.node(), node(weight.as_ref(), &x), node(bias.as_ref(), &x)];
    match NormBackward.prepare::<C>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(mut prep) => {
            let mut keep = |tensor: &Tracked| prep.checkpoint(tensor);
            let kept = Kept { x: keep(&x), parameters: (weight.as_ref().map(&mut keep), bias.as_ref().map(keep)) };
            let parameters = (weight.map(|w| w.into_primitive()), bias.map(|b| b.into_primitive()));
            let x = x.into_primitive();
            let (y, saved) = or_panic(by_type!(x.dtype(), T => forward::<T>(&x, &parameters, norm, true)));
            let saved = saved.expect("statistics were requested");
            prep.finish((kept, saved, norm), y)
        }
        OpsKind::UnTracked(prep) => {
            let parameters = (weight.map(|w| w.into_primitive()), bias.map(|b| b.into_primitive()));
            prep.finish(plain(&x.into_primitive(), &parameters, norm))
        }
    }
}
