//! Weight norm as one operation: w = g·v/‖v‖. r = 1/‖v‖ is saved between forward and backward.

use super::memory::{Number, Tracked, by_type, or_panic, room, shape, stats, stats_mut, tensor, view, with_context};
use super::norm::register;
use burn::backend::Flex;
use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients as Grads;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::flex::FlexTensor;
use layernorm::weight_norm::{self, WeightGradients};
use layernorm::{Error, ViewMut};

fn forward<T: Number>(v: &FlexTensor, g: &FlexTensor, axis: Option<usize>) -> Result<(FlexTensor, FlexTensor), Error> {
    let rows = axis.map_or(1, |axis| shape(v).get(axis).copied().unwrap_or(0));
    let (mut w, mut saved) = (room::<T>(shape(v))?, room::<T::Acc>(&[3, rows])?);
    let to = ViewMut::new(&mut w, shape(v))?;
    with_context(|cx| weight_norm::forward(view(v)?, view(g)?, to, Some(stats_mut(&mut saved)), axis, cx))?;
    Ok((tensor(w, shape(v)), tensor(saved, &[3, rows])))
}

fn backward<T: Number>(
    (v, g, dw): (&FlexTensor, &FlexTensor, &FlexTensor),
    saved: &FlexTensor,
    axis: Option<usize>,
    wanted: [bool; 2],
) -> Result<[Option<FlexTensor>; 2], Error> {
    let place = |x, wanted: bool| wanted.then(|| room::<T>(shape(x))).transpose();
    let (mut dv, mut dg) = (place(v, wanted[0])?, place(g, wanted[1])?);
    let gradients = WeightGradients {
        v: dv.as_mut().map(|dv| ViewMut::new(dv, shape(v))).transpose()?,
        g: dg.as_mut().map(|dg| ViewMut::new(dg, shape(g))).transpose()?,
    };
    with_context(|cx| weight_norm::backward(view(v)?, view(g)?, view(dw)?, stats(saved), gradients, axis, cx))?;
    Ok([dv.map(|dv| tensor(dv, shape(v))), dg.map(|dg| tensor(dg, shape(g)))])
}

pub(super) fn plain(v: &FlexTensor, g: &FlexTensor, axis: Option<usize>) -> FlexTensor {
    or_panic(by_type!(v.dtype(), T => forward::<T>(v, g, axis))).0
}

#[derive(Debug)]
struct WeightBackward;

impl Backward<Flex, 2> for WeightBackward {
    type State = (NodeId, NodeId, FlexTensor, Option<usize>);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Grads, checkpointer: &mut Checkpointer) {
        let dw = grads.consume::<Flex>(&ops.node);
        let (v, g, saved, axis) = ops.state;
        let [v, g] = [v, g].map(|id| checkpointer.retrieve_node_output::<FlexTensor>(id));
        let wanted = ops.parents.each_ref().map(Option::is_some);
        let gradients = or_panic(by_type!(v.dtype(), T => backward::<T>((&v, &g, &dw), &saved, axis, wanted)));
        register(grads, ops.parents, gradients, |node| node.id);
    }
}

/// With a graph: one node whose parents are v and g.
pub(super) fn tracked<C: CheckpointStrategy>(v: Tracked, g: Tracked, axis: Option<usize>) -> Tracked {
    let (w, saved) = or_panic(by_type!(v.primitive().dtype(), T => forward::<T>(v.primitive(), g.primitive(), axis)));
    match WeightBackward.prepare::<C>([v.node(), g.node()]).compute_bound().stateful() {
        OpsKind::Tracked(mut prep) => {
            let (v, g) = (prep.checkpoint(&v), prep.checkpoint(&g));
            prep.finish((v, g, saved, axis), w)
        }
        OpsKind::UnTracked(prep) => prep.finish(w),
    }
}
