//! Code shared by layer norm and RMS norm: rows of chosen axes, forward and backward, with and without a residual.

use crate::axes::Axes;
use crate::context::{Context, Scratch};
use crate::element::{Element, Float};
use crate::error::{Error, same_shape};
use crate::kernels::{self, RowNorm, extreme};
use crate::operand::Operand;
use crate::params::{Affine, Gradients, StatsMut, StatsRef, check_eps};
use crate::rows::{BackwardPlan, BackwardTensors, ForwardPlan};
use crate::view::{MAX_RANK, View, ViewMut, element_count};

/// Configuration of layer norm and RMS norm: the axes that form a row, γ and β, and ε.
#[derive(Debug)]
pub struct NormConfig<'a, T> {
    /// Axes that are normalized together.
    pub axes: Axes<'a>,
    /// γ and β, of the shape of those axes in ascending order.
    pub affine: Affine<'a, T>,
    /// ε: finite and not negative.
    pub eps: f64,
}

impl<T> Clone for NormConfig<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for NormConfig<'_, T> {}

impl<'a, T> NormConfig<'a, T> {
    /// Returns a configuration for the last axis, without γ and β, and with ε = 10⁻⁵.
    pub fn new() -> Self {
        NormConfig { axes: Axes::Last(1), affine: Affine::default(), eps: 1e-5 }
    }

    /// Sets the axes.
    pub fn axes(self, axes: Axes<'a>) -> Self {
        NormConfig { axes, ..self }
    }

    /// Sets γ and β.
    pub fn affine(self, affine: Affine<'a, T>) -> Self {
        NormConfig { affine, ..self }
    }

    /// Sets ε.
    pub fn eps(self, eps: f64) -> Self {
        NormConfig { eps, ..self }
    }
}

impl<T> Default for NormConfig<'_, T> {
    fn default() -> Self {
        NormConfig::new()
    }
}

/// Configuration checked against an input's shape.
struct Checked<'a, T: Element> {
    in_row: [bool; MAX_RANK],
    /// Shape of the parameters, and the number of its dimensions.
    row_shape: [usize; MAX_RANK],
    row_rank: usize,
    rows: usize,
    n: usize,
    norm: RowNorm<T::Acc>,
    affine: Affine<'a, T>,
}

impl<'a, T: Element> Checked<'a, T> {
    fn new(config: &NormConfig<'a, T>, shape: &[usize], centered: bool) -> Result<Self, Error> {
        let in_row = config.axes.mask(shape.len())?;
        let (mut row_shape, mut row_rank, mut rows) = ([0; MAX_RANK], 0, 1usize);
        for (&dim, &in_row) in shape.iter().zip(&in_row) {
            if in_row {
                row_shape[row_rank] = dim;
                row_rank += 1;
            } else {
                rows = dim.checked_mul(rows).ok_or_else(|| Error::TooLarge { shape: shape.to_vec() })?;
            }
        }
        config.affine.check(&row_shape[..row_rank])?;
        let n = element_count(&row_shape[..row_rank])?;
        let norm = RowNorm::new(centered, T::Acc::from_count(n), check_eps(config.eps)?, T::Acc::ZERO);
        Ok(Checked { in_row, row_shape, row_rank, rows, n, norm, affine: config.affine })
    }

    fn input(&self, view: &View<T>) -> Operand<*const T> {
        Operand::new(view.ptr(), view.layout(), &self.in_row)
    }

    fn output(&self, view: &ViewMut<T>) -> Operand<*mut T> {
        Operand::new(view.ptr(), view.layout(), &self.in_row)
    }

    /// Returns γ and β for the kernels: one of each per feature.
    fn parameters(&self, scratch: &mut Scratch) -> kernels::Affine<T::Acc> {
        let (gain, bias) = self.affine.widen(self.n, scratch);
        let span = if self.affine.is_none() { usize::MAX } else { 1 };
        kernels::Affine { gain, bias, groups: 1, span }
    }
}

/// Tensors of a forward pass.
pub(crate) struct ForwardArgs<'a, T: Element> {
    pub(crate) x: Operands<'a, T>,
    pub(crate) stats: Option<StatsMut<'a, T::Acc>>,
}

/// Input and output: separate, in place, or with a residual.
#[allow(clippy::large_enum_variant, reason = "it lives on the stack, for one call")]
pub(crate) enum Operands<'a, T> {
    Apart { x: View<'a, T>, y: ViewMut<'a, T> },
    InPlace(ViewMut<'a, T>),
    Residual { x: View<'a, T>, residual: View<'a, T>, h: ViewMut<'a, T>, y: ViewMut<'a, T> },
}

pub(crate) fn forward<T: Element>(
    args: ForwardArgs<T>,
    config: &NormConfig<T>,
    centered: bool,
    cx: &mut Context,
) -> Result<(), Error> {
    let shape = match &args.x {
        Operands::Apart { x, .. } | Operands::Residual { x, .. } => x.shape(),
        Operands::InPlace(x) => x.shape(),
    };
    let checked = Checked::new(config, shape, centered)?;
    let (x, residual, y) = match &args.x {
        Operands::Apart { x, y } => {
            same_shape("output", x.shape(), y.shape())?;
            (checked.input(x), None, checked.output(y))
        }
        Operands::InPlace(x) => (checked.output(x).as_const(), None, checked.output(x)),
        Operands::Residual { x, residual, h, y } => {
            same_shape("residual", x.shape(), residual.shape())?;
            same_shape("residual output", x.shape(), h.shape())?;
            same_shape("output", x.shape(), y.shape())?;
            (checked.input(x), Some((checked.input(residual), checked.output(h))), checked.output(y))
        }
    };
    let stats = args.stats.map(|mut stats| stats.check(checked.rows)).transpose()?;
    cx.isa()?;
    if checked.rows == 0 || checked.n == 0 {
        extreme::no_numbers(stats, if checked.n == 0 { checked.rows } else { 0 });
        return Ok(());
    }
    let plan = ForwardPlan::new(x, residual, y, cx);
    let mut scratch = cx.scratch(checked.affine.need(checked.n).and(plan.need()))?;
    let affine = checked.parameters(&mut scratch);
    // SAFETY: the views guarantee valid memory, and all shapes agree.
    unsafe { plan.run(checked.norm, affine, stats, cx, &mut scratch) }
}

/// Tensors of a backward pass. `x` is what was normalized (h, if there was a residual).
pub(crate) struct BackwardArgs<'a, T: Element> {
    pub(crate) x: View<'a, T>,
    pub(crate) dy: View<'a, T>,
    pub(crate) dh: Option<View<'a, T>>,
    pub(crate) stats: StatsRef<'a, T::Acc>,
}

pub(crate) fn backward<T: Element>(
    args: BackwardArgs<T>,
    mut gradients: Gradients<T>,
    config: &NormConfig<T>,
    centered: bool,
    cx: &mut Context,
) -> Result<(), Error> {
    let BackwardArgs { x, dy, dh, stats } = args;
    let checked = Checked::new(config, x.shape(), centered)?;
    same_shape("gradient of the output", x.shape(), dy.shape())?;
    if let Some(dh) = &dh {
        same_shape("gradient of the residual output", x.shape(), dh.shape())?;
    }
    gradients.check(x.shape(), &checked.row_shape[..checked.row_rank])?;
    let stats = stats.check(checked.rows)?;
    cx.isa()?;
    if checked.rows == 0 || checked.n == 0 {
        gradients.zero_parameters();
        return Ok(());
    }
    let tensors = BackwardTensors {
        x: checked.input(&x),
        dy: checked.input(&dy),
        dh: dh.map(|dh| checked.input(&dh)),
        dx: gradients.input.as_ref().map(|dx| checked.output(dx)),
    };
    let plan = BackwardPlan::new(tensors, gradients.wants_parameters(), cx);
    let mut scratch = cx.scratch(checked.affine.need(checked.n).and(plan.need()))?;
    let affine = checked.parameters(&mut scratch);
    // SAFETY: the views guarantee valid memory, and all shapes agree.
    unsafe {
        let sums = plan.run(checked.norm, affine, stats, cx, &mut scratch)?;
        gradients.write_parameters(sums.gain, sums.bias);
    }
    Ok(())
}
