//! Norms of channels, and weight norm.

use super::common::{Random, name};
use super::tensors::{Kind, Layout, Parameter, context, index, scalar};
use super::{Case, Data, Results, Tensors, gradients};
use layernorm::batch_norm::{self, BatchConfig, Moments, Momentum, Running, RunningVariance};
use layernorm::group_norm::{self, GroupConfig};
use layernorm::instance_norm::{self, InstanceConfig};
use layernorm::weight_norm::{self, WeightGradients};
use layernorm::{Affine, Context, Element, Float, Gradients};

/// Group, instance and batch norm, training and inference.
#[derive(Clone, Copy, Debug)]
pub enum ChannelOp {
    Group,
    Instance,
    Batch,
    Infer,
}

impl ChannelOp {
    fn run<T: Element>(self, case: &Case, data: &Data<T>, layouts: &[Layout], cx: &mut Context) -> Results<T> {
        let (samples, channels) = (case.shape[0], case.shape[1]);
        let divisors: Vec<usize> = (1..=channels.max(1)).filter(|groups| channels.is_multiple_of(*groups)).collect();
        let groups = divisors[case.seed as usize % divisors.len()];
        let rows = match self {
            ChannelOp::Group => samples * groups,
            ChannelOp::Instance => samples * channels,
            ChannelOp::Batch | ChannelOp::Infer => channels,
        };
        let mut t = Tensors::new(case, data, &case.shape, &[channels], rows, layouts);
        let affine = Affine { weight: t.weight.view(), bias: t.bias.view(), zero_centered: case.zero_centered };
        let (x, dy, eps) = (t.x.view(), t.dy.view(), case.eps);
        match self {
            ChannelOp::Group => {
                let config = GroupConfig { groups, affine, eps };
                group_norm::forward(x, t.y.view_mut(), Some(t.saved.as_mut()), &config, cx).unwrap();
                group_norm::backward(x, dy, t.saved.as_ref(), gradients!(t), &config, cx).unwrap();
            }
            ChannelOp::Instance => {
                let config = InstanceConfig { affine, eps };
                instance_norm::forward(x, t.y.view_mut(), Some(t.saved.as_mut()), &config, cx).unwrap();
                instance_norm::backward(x, dy, t.saved.as_ref(), gradients!(t), &config, cx).unwrap();
            }
            ChannelOp::Batch => {
                let config = BatchConfig { affine, eps };
                let (mut mean, mut var) = (vec![T::Acc::ZERO; channels], vec![T::Acc::ONE; channels]);
                let momentum = Momentum::Exponential([0.1, 0.0, 1.0][case.seed as usize % 3]);
                let variance = RunningVariance::Biased;
                let running = Running { mean: &mut mean, var: &mut var, momentum, variance };
                batch_norm::forward_running(x, t.y.view_mut(), t.saved.as_mut(), running, &config, cx).unwrap();
                t.running = [mean, var].concat();
                batch_norm::backward(x, dy, t.saved.as_ref(), gradients!(t), &config, cx).unwrap();
            }
            ChannelOp::Infer => {
                let config = BatchConfig { affine, eps };
                let random = &mut Random::new(case.seed);
                let mean: Vec<T::Acc> = random.normals(channels);
                let var: Vec<T::Acc> = random.map(channels, |z| z * z);
                let moments = Moments { mean: &mean, var: &var };
                batch_norm::infer(x, t.y.view_mut(), moments, &config, cx).unwrap();
                batch_norm::infer_backward(x, dy, moments, gradients!(t), &config, cx).unwrap();
            }
        }
        t.results()
    }
}

pub fn channel_layouts_change_nothing<T: Element>(case: &Case, op: ChannelOp) {
    let data = case.data::<T>(case.shape[1]);
    let cx = &mut context(case.isa, case.threads);
    let found = op.run(case, &data, &case.layouts, cx);
    let expected = op.run(case, &data, &[Layout::Contiguous; 6], &mut scalar());
    found.assert_same(&expected, &format!("{op:?} of {} on {}", T::NAME, name(cx)));
}

pub fn channel_numbers_stay_numbers<T: Element>(case: &Case, op: ChannelOp) {
    let data = case.data::<T>(case.shape[1]);
    if !data.x.is_empty() {
        let cx = &mut context(case.isa, case.threads);
        op.run(case, &data, &case.layouts, cx).assert_numbers(&format!("{op:?} of {} on {}", T::NAME, name(cx)));
    }
}

/// Weight norm along an axis that the case chooses, or none.
fn weights<T: Element>(case: &Case, data: &Data<T>, layouts: &[Layout], cx: &mut Context) -> Results<T> {
    let (axis, rows) = weight_axis(case);
    let case = Case { weight: Kind::Same, bias: Kind::Absent, ..case.clone() };
    let mut t = Tensors::new(&case, data, &case.shape, &[rows], rows, layouts);
    let (Parameter::Same(g), Parameter::Same(dg)) = (&t.weight, &mut t.dweight) else { unreachable!() };
    let (v, dw) = (t.x.view(), t.dy.view());
    weight_norm::forward(v, g.view(), t.y.view_mut(), Some(t.saved.as_mut()), axis, cx).unwrap();
    let gradients = WeightGradients { v: Some(t.dx.view_mut()), g: Some(dg.view_mut()) };
    weight_norm::backward(v, g.view(), dw, t.saved.as_ref(), gradients, axis, cx).unwrap();
    t.results()
}

/// The axis and its length.
fn weight_axis(case: &Case) -> (Option<usize>, usize) {
    let axis = Some(case.seed as usize % (case.shape.len() + 1)).filter(|&axis| axis < case.shape.len());
    (axis, axis.map_or(1, |axis| case.shape[axis]))
}

pub fn weight_layouts_change_nothing<T: Element>(case: &Case) {
    let data = case.data::<T>(weight_axis(case).1);
    let found = weights(case, &data, &case.layouts, &mut context(case.isa, case.threads));
    found.assert_same(&weights(case, &data, &[Layout::Contiguous; 6], &mut scalar()), T::NAME);
}

/// Where no row is zero: such a row has no direction.
pub fn weight_numbers_stay_numbers<T: Element>(case: &Case) {
    let (axis, rows) = weight_axis(case);
    let data = case.data::<T>(rows);
    let mut is_zero = vec![true; rows];
    for (i, x) in data.x.iter().enumerate() {
        is_zero[axis.map_or(0, |axis| index(i, &case.shape)[axis])] &= x.widen() == T::Acc::ZERO;
    }
    if !is_zero.contains(&true) {
        weights(case, &data, &case.layouts, &mut context(case.isa, case.threads)).assert_numbers(T::NAME);
    }
}
