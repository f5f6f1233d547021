//! A call of any operation, forward and backward.

use crate::bytes::Bytes;
use crate::tensor::{MAX_ELEMENTS, Tensor, count};
use crate::values::values;
use layernorm::batch_norm::{self, BatchConfig, Moments, Momentum, Running, RunningVariance};
use layernorm::group_norm::{self, GroupConfig};
use layernorm::instance_norm::{self, InstanceConfig};
use layernorm::weight_norm::{self, WeightGradients};
use layernorm::{Affine, Axes, Context, Element, Error, Float, Gradients, NormConfig, Param, ParamMut, Saved};
use layernorm::{layer_norm, rms_norm};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    /// Layer norm, or RMS norm if not centred.
    Rows {
        centered: bool,
        kind: Kind,
    },
    Group,
    Instance,
    Batch,
    Infer,
    Weight,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Apart,
    InPlace,
    Residual,
}

const EPSILONS: [f64; 16] =
    [1e-5, 1e-5, 1e-5, 1e-5, 1e-5, 1e-12, 1.0, 0.0, -0.0, 1e-45, 1e38, 1e-300, 1e300, f64::INFINITY, f64::NAN, -1.0];

/// γ or β, or the destination of its gradient: of the input's type, or f32.
#[derive(Clone, Debug)]
pub enum Parameter<T> {
    Same(Tensor<T>),
    F32(Tensor<f32>),
}

impl<T: Element> Parameter<T> {
    fn new(bytes: &mut Bytes, shape: &[usize]) -> Self {
        if bytes.below(2) == 0 {
            Parameter::Same(Tensor::new(bytes, shape))
        } else {
            Parameter::F32(Tensor::new(bytes, shape))
        }
    }

    fn filled(bytes: &mut Bytes, shape: &[usize]) -> Self {
        match Parameter::new(bytes, shape) {
            Parameter::Same(tensor) => Parameter::Same(tensor.fill(values(bytes))),
            Parameter::F32(tensor) => Parameter::F32(tensor.fill(values(bytes))),
        }
    }

    fn view(&self) -> Result<Param<'_, T>, Error> {
        Ok(match self {
            Parameter::Same(tensor) => Param::Same(tensor.view()?),
            Parameter::F32(tensor) => Param::F32(tensor.view()?),
        })
    }

    fn view_mut(&mut self) -> Result<ParamMut<'_, T>, Error> {
        Ok(match self {
            Parameter::Same(tensor) => ParamMut::Same(tensor.view_mut()?),
            Parameter::F32(tensor) => ParamMut::F32(tensor.view_mut()?),
        })
    }
}

/// Arguments of a call and, after it, its results. An operation ignores what does not apply to it.
#[derive(Clone, Debug)]
pub struct Call<T: Element> {
    pub op: Op,
    /// The axes; `None` for a number of trailing axes.
    axes: Option<Vec<isize>>,
    last: usize,
    groups: usize,
    pub axis: Option<usize>,
    pub eps: f64,
    zero_centered: bool,
    momentum: Momentum,
    variance: RunningVariance,
    pub x: Tensor<T>,
    pub residual: Tensor<T>,
    pub dy: Tensor<T>,
    pub weight: Option<Parameter<T>>,
    pub bias: Option<Parameter<T>>,
    pub lengths: Tensor<T>,
    /// Running statistics, read by inference and updated by training.
    pub mean: Vec<T::Acc>,
    pub var: Vec<T::Acc>,
    pub y: Tensor<T>,
    pub h: Tensor<T>,
    pub dx: Tensor<T>,
    pub dweight: Option<Parameter<T>>,
    pub dbias: Option<Parameter<T>>,
    pub dlengths: Tensor<T>,
    pub saved: Saved<T::Acc>,
}

/// Sizes that an operation requires of its other arguments.
struct Sizes {
    rows: usize,
    parameters: Vec<usize>,
}

impl Sizes {
    fn new(op: Op, shape: &[usize], in_row: impl Fn(usize) -> bool, groups: usize, axis: Option<usize>) -> Self {
        let dims = |wanted: bool| {
            let axes = (0..shape.len()).filter(|&axis| in_row(axis) == wanted);
            axes.map(|axis| shape[axis]).collect::<Vec<_>>()
        };
        let channels = shape.get(1).copied().unwrap_or(1);
        let samples = shape.first().copied().unwrap_or(1);
        match op {
            Op::Rows { .. } => Sizes { rows: count(&dims(false)), parameters: dims(true) },
            Op::Group => Sizes { rows: count(&[samples, groups]), parameters: vec![channels] },
            Op::Instance => Sizes { rows: count(&[samples, channels]), parameters: vec![channels] },
            Op::Batch | Op::Infer => Sizes { rows: channels, parameters: vec![channels] },
            Op::Weight => {
                let rows = axis.map_or(1, |axis| shape.get(axis).copied().unwrap_or(1));
                Sizes { rows, parameters: vec![rows] }
            }
        }
    }
}

impl<T: Element> Call<T> {
    pub fn new(bytes: &mut Bytes) -> Self {
        let kind = bytes.of(&[Kind::Apart, Kind::InPlace, Kind::Residual]);
        let rows = [Op::Rows { centered: true, kind }, Op::Rows { centered: false, kind }];
        let op = bytes.of(&[rows[0], rows[1], Op::Group, Op::Instance, Op::Batch, Op::Infer, Op::Weight]);
        let shape = crate::tensor::shape(bytes);
        let axes = (bytes.below(2) == 0).then(|| axes(bytes, shape.len()));
        let last = if bytes.rarely(16) { bytes.below(20) } else { bytes.below(shape.len() + 1) };
        let in_row = |axis: usize| match &axes {
            Some(axes) => axes.iter().any(|&a| a == axis as isize || a == axis as isize - shape.len() as isize),
            None => axis + last >= shape.len(),
        };
        let channels = shape.get(1).copied().unwrap_or(1);
        let groups = bytes.of(&[1, channels, 2, 3, 0, usize::MAX]);
        let axis = bytes.of(&[None, Some(0), Some(1), Some(2), Some(usize::MAX)]);
        let sizes = Sizes::new(op, &shape, in_row, groups, axis);
        let mut rows = sizes.rows.min(MAX_ELEMENTS);
        if bytes.rarely(64) {
            rows += 1;
        }
        let parameters = &sizes.parameters;
        let some = |bytes: &mut Bytes| bytes.below(3) > 0;
        let mut statistic = values::<T::Acc>(bytes);
        let x = Tensor::new(bytes, &shape).fill(values(bytes));
        let mut call = Call {
            op,
            last,
            groups,
            axis,
            eps: bytes.of(&EPSILONS),
            zero_centered: bytes.below(2) == 1,
            momentum: momentum(bytes),
            variance: bytes.of(&[RunningVariance::Unbiased, RunningVariance::Biased]),
            residual: Tensor::new(bytes, &shape).fill(values(bytes)),
            dy: Tensor::new(bytes, &shape).fill(values(bytes)),
            weight: some(bytes).then(|| Parameter::filled(bytes, parameters)),
            bias: some(bytes).then(|| Parameter::filled(bytes, parameters)),
            lengths: Tensor::new(bytes, parameters).fill(values(bytes)),
            mean: (0..rows).map(|_| statistic()).collect(),
            var: (0..rows).map(|_| statistic().abs()).collect(),
            y: Tensor::new(bytes, &shape),
            h: Tensor::new(bytes, &shape),
            dx: Tensor::new(bytes, &shape),
            dweight: some(bytes).then(|| Parameter::new(bytes, parameters)),
            dbias: some(bytes).then(|| Parameter::new(bytes, parameters)),
            dlengths: Tensor::new(bytes, parameters),
            saved: Saved::new(rows),
            x,
            axes,
        };
        if call.in_place() {
            call.y = call.x.clone();
        }
        call
    }

    pub fn in_place(&self) -> bool {
        matches!(self.op, Op::Rows { kind: Kind::InPlace, .. })
    }

    /// Returns whether the work finishes in reasonable time: a broadcast can have more elements than memory holds.
    pub fn is_small(&self) -> bool {
        count(&self.x.shape) <= MAX_ELEMENTS
    }

    pub fn forward(&mut self, cx: &mut Context) -> Result<(), Error> {
        let affine = affine(&self.weight, &self.bias, self.zero_centered)?;
        let axes = self.axes.as_deref().map_or(Axes::Last(self.last), Axes::These);
        let rows = NormConfig { axes, affine, eps: self.eps };
        let (x, stats) = (self.x.view()?, self.saved.as_mut());
        let y = self.y.view_mut()?;
        let channels = BatchConfig { affine, eps: self.eps };
        match self.op {
            Op::Rows { centered, kind: Kind::Apart } => {
                let forward = if centered { layer_norm::forward } else { rms_norm::forward };
                forward(x, y, Some(stats), &rows, cx)
            }
            Op::Rows { centered, kind: Kind::InPlace } => {
                let forward = if centered { layer_norm::forward_in_place } else { rms_norm::forward_in_place };
                forward(y, Some(stats), &rows, cx)
            }
            Op::Rows { centered, kind: Kind::Residual } => {
                let forward = if centered { layer_norm::forward_residual } else { rms_norm::forward_residual };
                forward(x, self.residual.view()?, self.h.view_mut()?, y, Some(stats), &rows, cx)
            }
            Op::Group => {
                let config = GroupConfig { groups: self.groups, affine, eps: self.eps };
                group_norm::forward(x, y, Some(stats), &config, cx)
            }
            Op::Instance => instance_norm::forward(x, y, Some(stats), &InstanceConfig { affine, eps: self.eps }, cx),
            Op::Batch => {
                let (mean, var) = (&mut self.mean[..], &mut self.var[..]);
                let running = Running { mean, var, momentum: self.momentum, variance: self.variance };
                batch_norm::forward_running(x, y, stats, running, &channels, cx)
            }
            Op::Infer => batch_norm::infer(x, y, Moments { mean: &self.mean, var: &self.var }, &channels, cx),
            Op::Weight => weight_norm::forward(x, self.lengths.view()?, y, Some(stats), self.axis, cx),
        }
    }

    pub fn backward(&mut self, cx: &mut Context) -> Result<(), Error> {
        let affine = affine(&self.weight, &self.bias, self.zero_centered)?;
        let axes = self.axes.as_deref().map_or(Axes::Last(self.last), Axes::These);
        let rows = NormConfig { axes, affine, eps: self.eps };
        let channels = BatchConfig { affine, eps: self.eps };
        let (x, dy, stats) = (self.x.view()?, self.dy.view()?, self.saved.as_ref());
        if self.op == Op::Weight {
            let gradients = WeightGradients { v: Some(self.dx.view_mut()?), g: Some(self.dlengths.view_mut()?) };
            return weight_norm::backward(x, self.lengths.view()?, dy, stats, gradients, self.axis, cx);
        }
        let gradients = Gradients {
            input: Some(self.dx.view_mut()?),
            weight: self.dweight.as_mut().map(Parameter::view_mut).transpose()?,
            bias: self.dbias.as_mut().map(Parameter::view_mut).transpose()?,
        };
        match self.op {
            Op::Rows { centered, kind: Kind::Residual } => {
                let backward = if centered { layer_norm::backward_residual } else { rms_norm::backward_residual };
                backward(self.h.view()?, dy, Some(self.residual.view()?), stats, gradients, &rows, cx)
            }
            Op::Rows { centered, .. } => {
                let backward = if centered { layer_norm::backward } else { rms_norm::backward };
                backward(x, dy, stats, gradients, &rows, cx)
            }
            Op::Group => {
                let config = GroupConfig { groups: self.groups, affine, eps: self.eps };
                group_norm::backward(x, dy, stats, gradients, &config, cx)
            }
            Op::Instance => {
                instance_norm::backward(x, dy, stats, gradients, &InstanceConfig { affine, eps: self.eps }, cx)
            }
            Op::Batch => batch_norm::backward(x, dy, stats, gradients, &channels, cx),
            Op::Infer | Op::Weight => {
                let moments = Moments { mean: &self.mean, var: &self.var };
                batch_norm::infer_backward(x, dy, moments, gradients, &channels, cx)
            }
        }
    }
}

fn affine<'a, T: Element>(
    weight: &'a Option<Parameter<T>>,
    bias: &'a Option<Parameter<T>>,
    zero_centered: bool,
) -> Result<Affine<'a, T>, Error> {
    Ok(Affine {
        weight: weight.as_ref().map(Parameter::view).transpose()?,
        bias: bias.as_ref().map(Parameter::view).transpose()?,
        zero_centered,
    })
}

fn axes(bytes: &mut Bytes, rank: usize) -> Vec<isize> {
    let named = bytes.byte();
    let mut axes: Vec<isize> = (0..rank as isize).filter(|axis| named >> (axis % 8) & 1 == 1).collect();
    if bytes.below(2) == 1 {
        axes.iter_mut().for_each(|axis| *axis -= rank as isize);
        axes.reverse();
    }
    if bytes.rarely(32) {
        axes.push(bytes.of(&[0, 1, -1, 17, isize::MIN, isize::MAX]));
    }
    axes
}

fn momentum(bytes: &mut Bytes) -> Momentum {
    match bytes.below(8) {
        7 => Momentum::Exponential(bytes.of(&[f64::NAN, -1.0, 1.5, f64::INFINITY])),
        6 => Momentum::Cumulative(u64::MAX),
        5 => Momentum::Cumulative(0),
        4 => Momentum::Exponential(0.0),
        3 => Momentum::Exponential(1.0),
        _ => Momentum::Exponential(0.1),
    }
}
