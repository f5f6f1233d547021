//! Weight normalization (Salimans and Kingma, 2016): a weight as its direction v/‖v‖ times its length g.
//!
//! With an axis, a row consists of the elements at one index of that axis (one output unit, for axis 0 of a linear
//! layer's weight). Without an axis, the whole tensor is one row.
//!
//! ```text
//! r = 1/sqrt(sum(v·v))    w = (v·r)·g
//!
//! v̂ = v·r    b = sum((dw·g)·v̂)    dv = r·fma(−v̂, b, dw·g)    dg = sum(dw·v̂)
//! ```
//! There is no ε, so a row of zeros has no direction and becomes NaN. Rows of very small or very large numbers are
//! first scaled by a power of two (rule 6), so they are accurate too.

use crate::context::{Context, Need, Scratch};
use crate::element::{Element, Float};
use crate::error::{Error, same_shape};
use crate::kernels::dots::RowDots;
use crate::kernels::extreme::{self, Line, Scaled};
use crate::kernels::{Affine, RowNorm, Rows, Stats};
use crate::operand::Operand;
use crate::params::{Param, ParamMut, StatsMut, StatsRef};
use crate::rows::{BackwardPlan, BackwardTensors, ForwardPlan};
use crate::view::{MAX_RANK, View, ViewMut, element_count};

/// Rows of a weight along an axis, checked.
struct Checked {
    in_row: [bool; MAX_RANK],
    rows: usize,
    n: usize,
}

impl Checked {
    fn new(shape: &[usize], axis: Option<usize>) -> Result<Self, Error> {
        let rank = shape.len();
        let mut in_row = [true; MAX_RANK];
        let mut rows = 1;
        if let Some(axis) = axis {
            rows = *shape.get(axis).ok_or(Error::Axis { axis: isize::try_from(axis).unwrap_or(isize::MAX), rank })?;
            in_row[axis] = false;
        }
        let mut row_shape = [1; MAX_RANK];
        for (dim, (&size, _)) in row_shape.iter_mut().zip(shape.iter().zip(&in_row).filter(|(_, in_row)| **in_row)) {
            *dim = size;
        }
        // If there are no rows, they can have any size.
        let n = if rows == 0 { 0 } else { element_count(&row_shape)? };
        Ok(Checked { in_row, rows, n })
    }

    fn norm<A: Float>(&self) -> RowNorm<A> {
        RowNorm::new(false, A::ONE, A::ZERO, A::ZERO)
    }

    fn check_lengths(&self, what: &'static str, found: usize) -> Result<(), Error> {
        if found == self.rows { Ok(()) } else { Err(Error::Length { what, expected: self.rows, found }) }
    }

    fn lengths_need<A>(&self) -> Need {
        Need::default().plus::<A>(self.rows).times(2)
    }

    /// Returns the lengths g as one γ per row, with β = −0.
    fn lengths<T: Element>(&self, g: View<T>, scratch: &mut Scratch) -> Affine<T::Acc> {
        let (gain, bias) = (scratch.take::<T::Acc>(self.rows), scratch.take::<T::Acc>(self.rows));
        Param::Same(g).for_each(|row, value| {
            // SAFETY: there is room for one of each per row.
            unsafe {
                *gain.add(row) = value;
                *bias.add(row) = T::Acc::NEG_ZERO;
            }
        });
        Affine { gain, bias, groups: self.rows.max(1), span: usize::MAX }
    }
}

/// Computes w = g·v/‖v‖. `g` has one element per row, in any shape. Writes r = 1/‖v‖ of every row (and m = δ = 0) to
/// `stats`, if given.
pub fn forward<T: Element>(
    v: View<T>,
    g: View<T>,
    w: ViewMut<T>,
    stats: Option<StatsMut<T::Acc>>,
    axis: Option<usize>,
    cx: &mut Context,
) -> Result<(), Error> {
    let checked = Checked::new(v.shape(), axis)?;
    same_shape("output", v.shape(), w.shape())?;
    checked.check_lengths("g", g.len())?;
    let stats = stats.map(|mut stats| stats.check(checked.rows)).transpose()?;
    cx.isa()?;
    if checked.rows == 0 || checked.n == 0 {
        return Ok(());
    }
    let x = Operand::new(v.ptr(), v.layout(), &checked.in_row);
    let y = Operand::new(w.ptr(), w.layout(), &checked.in_row);
    let plan = ForwardPlan::new(x, None, y, cx);
    let mut scratch = cx.scratch(checked.lengths_need::<T::Acc>().and(plan.need()))?;
    let affine = checked.lengths(g, &mut scratch);
    // SAFETY: the views guarantee valid memory, and all shapes agree.
    unsafe { plan.run(checked.norm(), affine, stats, cx, &mut scratch) }
}

/// Destinations of the gradients of a weight. Those that are `None` are not computed.
#[derive(Debug)]
pub struct WeightGradients<'a, T> {
    /// Gradient of v, of v's shape.
    pub v: Option<ViewMut<'a, T>>,
    /// Gradient of g: one element per row, in any shape.
    pub g: Option<ViewMut<'a, T>>,
}

/// Computes the gradients from dw, v, g and the statistics saved by [`forward`].
pub fn backward<T: Element>(
    v: View<T>,
    g: View<T>,
    dw: View<T>,
    stats: StatsRef<T::Acc>,
    gradients: WeightGradients<T>,
    axis: Option<usize>,
    cx: &mut Context,
) -> Result<(), Error> {
    let checked = Checked::new(v.shape(), axis)?;
    same_shape("gradient of the output", v.shape(), dw.shape())?;
    checked.check_lengths("g", g.len())?;
    if let Some(dv) = &gradients.v {
        same_shape("gradient of v", v.shape(), dv.shape())?;
    }
    if let Some(dg) = &gradients.g {
        checked.check_lengths("gradient of g", dg.len())?;
    }
    let stats = stats.check(checked.rows)?;
    cx.isa()?;
    if checked.rows == 0 || checked.n == 0 {
        if let Some(dg) = gradients.g {
            ParamMut::Same(dg).fill(|_| T::Acc::ZERO);
        }
        return Ok(());
    }
    let rows = Operand::new(v.ptr(), v.layout(), &checked.in_row);
    let drows = Operand::new(dw.ptr(), dw.layout(), &checked.in_row);
    if let Some(dv) = &gradients.v {
        let dx = Some(Operand::new(dv.ptr(), dv.layout(), &checked.in_row));
        let plan = BackwardPlan::new(BackwardTensors { x: rows, dy: drows, dh: None, dx }, false, cx);
        let mut scratch = cx.scratch(checked.lengths_need::<T::Acc>().and(plan.need()))?;
        let affine = checked.lengths(g, &mut scratch);
        // SAFETY: the views guarantee valid memory, and all shapes agree.
        unsafe { plan.run(checked.norm(), affine, stats, cx, &mut scratch)? };
    }
    if let Some(dg) = gradients.g {
        length_gradients(&checked, rows, drows, stats, ParamMut::Same(dg), cx)?;
    }
    Ok(())
}

/// Computes dg = sum(dw·v̂), row by row.
fn length_gradients<T: Element>(
    checked: &Checked,
    v: Operand<*const T>,
    dw: Operand<*const T>,
    stats: Stats<T::Acc>,
    mut dg: ParamMut<T>,
    cx: &mut Context,
) -> Result<(), Error> {
    let isa = cx.machine_isa()?;
    let (rows, n) = (checked.rows, checked.n);
    let mut scratch = cx.scratch(Need::default().plus::<T::Acc>(rows).and(Need::default().plus::<T>(n).times(2)))?;
    let sums = scratch.take::<T::Acc>(rows);
    let tiles = [scratch.take::<T>(n), scratch.take::<T>(n)];
    for row in 0..rows {
        // SAFETY: the row exists and has n elements, and the tiles have room for n.
        unsafe {
            let stat = stats.get(row);
            if !extreme::was_scaled(&checked.norm(), stat.r) {
                let x: Rows<*const T> = crate::rows::input(&v, row, 1, tiles[0]);
                let dy: Rows<*const T> = crate::rows::input(&dw, row, 1, tiles[1]);
                T::row_dots(isa, RowDots { x, dy, rows: 1, n, first_row: row, stats, to: sums });
                if (*sums.add(row)).is_finite() {
                    continue;
                }
            }
            // Rule 6: a scaled row, or a sum that overflowed.
            let value = |i: usize| v.element(row, i).widen();
            let line = Scaled::again(Line::Row, n, value, &checked.norm(), stat);
            let (dw, v_hat) = (|i: usize| dw.element(row, i).widen(), |i: usize| line.x_hat(value(i)));
            let plain = Line::Row.sum(n, |i| (dw(i), v_hat(i)));
            let sum = if plain.is_finite() { None } else { extreme::scaled_sum(Line::Row, n, dw, v_hat) };
            *sums.add(row) = sum.unwrap_or(plain);
        }
    }
    // SAFETY: there is one sum per row.
    dg.fill(|row| unsafe { *sums.add(row) });
    Ok(())
}
