//! Group normalization (Wu and He, 2018): scales each group of channels of a sample to mean 0 and variance 1, then
//! applies each channel's gain and bias. With one group it is layer norm over a sample; with one channel per group it
//! is instance norm.
//!
//! x is `[N, C, …]`. A row is a group of C/G channels of one sample, with all their positions.
//!
//! ```text
//! m, δ, v, r, y and dx as in layer norm, with γ and β of the element's channel
//! dγ = Σ dy·x̂    dβ = Σ dy     over samples and positions
//! ```

use crate::channels::{ChannelShape, ColumnPlan, PerSample, groups, positions};
use crate::context::{Context, Need, Scratch};
use crate::element::{Element, Float};
use crate::error::{Error, same_shape};
use crate::kernels::columns::{Channels, ColumnTerms};
use crate::kernels::extreme::{self, Line, Scaled};
use crate::kernels::{self, RowNorm, Stats};
use crate::memory;
use crate::operand::Operand;
use crate::params::{Affine, Gradients, StatsMut, StatsRef, check_eps};
use crate::rows::{BackwardPlan, BackwardTensors, ForwardPlan, any_scaled};
use crate::view::{View, ViewMut};

/// Configuration of group norm: the number of groups, γ and β (one per channel), and ε.
#[derive(Debug)]
pub struct GroupConfig<'a, T> {
    /// Number of groups: a divisor of the number of channels.
    pub groups: usize,
    /// γ and β, `[C]`.
    pub affine: Affine<'a, T>,
    /// ε: finite and not negative.
    pub eps: f64,
}

impl<T> GroupConfig<'_, T> {
    /// Returns a configuration with this many groups, without γ and β, and with ε = 10⁻⁵.
    pub fn new(groups: usize) -> Self {
        GroupConfig { groups, affine: Affine::default(), eps: 1e-5 }
    }
}

/// Arguments checked against the input's shape.
struct Checked<'a, T: Element> {
    shape: ChannelShape,
    groups: usize,
    rows: usize,
    n: usize,
    norm: RowNorm<T::Acc>,
    affine: Affine<'a, T>,
}

impl<'a, T: Element> Checked<'a, T> {
    fn new(config: &GroupConfig<'a, T>, shape: &[usize]) -> Result<Self, Error> {
        let shape = ChannelShape::new(shape)?;
        let (groups, channels) = (config.groups, shape.channels);
        // Zero channels in zero groups are valid: instance norm produces this case.
        if channels.checked_rem(groups).unwrap_or(channels) != 0 {
            return Err(Error::Groups { groups, channels });
        }
        config.affine.check(&[channels])?;
        let too_large = || Error::TooLarge { shape: vec![shape.samples, channels, shape.space] };
        let n = (channels / groups.max(1)).checked_mul(shape.space).ok_or_else(too_large)?;
        let rows = shape.samples.checked_mul(groups).ok_or_else(too_large)?;
        let norm = RowNorm::new(true, T::Acc::from_count(n), check_eps(config.eps)?, T::Acc::ZERO);
        Ok(Checked { shape, groups, rows, n, norm, affine: config.affine })
    }

    fn is_empty(&self) -> bool {
        self.rows == 0 || self.n == 0
    }

    /// Returns γ and β for the forward kernel: one of each per channel, shared by all its positions.
    fn parameters(&self, scratch: &mut Scratch) -> kernels::Affine<T::Acc> {
        let (gain, bias) = self.affine.widen(self.shape.channels, scratch);
        if self.affine.is_none() {
            kernels::Affine { gain, bias, groups: 1, span: usize::MAX }
        } else {
            kernels::Affine { gain, bias, groups: self.groups, span: self.shape.space }
        }
    }

    /// Returns whether γ varies within a row, so that backward needs one γ per element.
    fn spreads_gain(&self) -> bool {
        self.affine.weight.is_some() && self.groups != self.shape.channels && self.shape.space > 1
    }

    fn gain_need(&self) -> Need {
        let count = if self.spreads_gain() { self.groups.saturating_mul(self.n) } else { 0 };
        self.affine.need(self.shape.channels).and(Need::default().plus::<T::Acc>(count))
    }

    /// Returns γ for the backward kernel: one per feature, or one per row.
    fn backward_parameters(&self, scratch: &mut Scratch) -> kernels::Affine<T::Acc> {
        let affine = self.parameters(scratch);
        if !self.spreads_gain() {
            return affine;
        }
        let gain = scratch.take::<T::Acc>(self.groups * self.n);
        for i in 0..self.groups * self.n {
            // SAFETY: there is one γ for every `space` elements.
            unsafe { *gain.add(i) = *affine.gain.add(i / self.shape.space) };
        }
        kernels::Affine { gain, span: 1, ..affine }
    }
}

/// Computes y = norm(x). Writes the statistics that backward needs to `stats`, if given: one of each per sample and
/// group.
pub fn forward<T: Element>(
    x: View<T>,
    y: ViewMut<T>,
    stats: Option<StatsMut<T::Acc>>,
    config: &GroupConfig<T>,
    cx: &mut Context,
) -> Result<(), Error> {
    let checked = Checked::new(config, x.shape())?;
    same_shape("output", x.shape(), y.shape())?;
    let stats = stats.map(|mut stats| stats.check(checked.rows)).transpose()?;
    cx.isa()?;
    if checked.is_empty() {
        extreme::no_numbers(stats, if checked.n == 0 { checked.rows } else { 0 });
        return Ok(());
    }
    let (x, y) = (groups(x.ptr(), x.layout(), checked.groups), groups(y.ptr(), y.layout(), checked.groups));
    let plan = ForwardPlan::new(x, None, y, cx);
    let mut scratch = cx.scratch(checked.affine.need(checked.shape.channels).and(plan.need()))?;
    let affine = checked.parameters(&mut scratch);
    // SAFETY: the views guarantee valid memory, and all shapes agree.
    unsafe { plan.run(checked.norm, affine, stats, cx, &mut scratch) }
}

/// Computes the gradients from dy, x and the statistics saved by [`forward`].
pub fn backward<T: Element>(
    x: View<T>,
    dy: View<T>,
    stats: StatsRef<T::Acc>,
    mut gradients: Gradients<T>,
    config: &GroupConfig<T>,
    cx: &mut Context,
) -> Result<(), Error> {
    let checked = Checked::new(config, x.shape())?;
    same_shape("gradient of the output", x.shape(), dy.shape())?;
    gradients.check(x.shape(), &[checked.shape.channels])?;
    let stats = stats.check(checked.rows)?;
    cx.isa()?;
    if checked.is_empty() {
        gradients.zero_parameters();
        return Ok(());
    }
    if let Some(dx) = &gradients.input {
        let rows = |view: &View<T>| groups(view.ptr(), view.layout(), checked.groups);
        let dx = Some(groups(dx.ptr(), dx.layout(), checked.groups));
        let plan = BackwardPlan::new(BackwardTensors { x: rows(&x), dy: rows(&dy), dh: None, dx }, false, cx);
        let mut scratch = cx.scratch(checked.gain_need().and(plan.need()))?;
        let affine = checked.backward_parameters(&mut scratch);
        // SAFETY: the views guarantee valid memory, and all shapes agree.
        unsafe { plan.run(checked.norm, affine, stats, cx, &mut scratch)? };
    }
    if gradients.wants_parameters() {
        let columns = Columns { x: positions(x.ptr(), x.layout()), dy: positions(dy.ptr(), dy.layout()), stats };
        columns.parameter_gradients(&checked, &mut gradients, cx)?;
    }
    Ok(())
}

/// x and dy, viewed as positions and channels.
struct Columns<T: Element> {
    x: Operand<*const T>,
    dy: Operand<*const T>,
    stats: Stats<T::Acc>,
}

impl<T: Element> Columns<T> {
    fn parameter_gradients(
        &self,
        checked: &Checked<T>,
        gradients: &mut Gradients<T>,
        cx: &mut Context,
    ) -> Result<(), Error> {
        let per_sample = PerSample { stats: self.stats, groups: checked.groups, space: checked.shape.space };
        let plan = ColumnPlan::new(self.x, Some(self.dy), Some(per_sample), ColumnTerms::Parameters, cx);
        let mut scratch = cx.scratch(plan.need())?;
        let count = checked.shape.channels;
        // SAFETY: the views guarantee valid memory; there are two sums per channel.
        unsafe {
            let dgain = plan.run(Channels::NONE, cx, &mut scratch)?;
            let dbias = dgain.add(count);
            let all_finite = (0..2 * count).all(|i| (*dgain.add(i)).is_finite());
            if !all_finite || any_scaled(&checked.norm, self.stats, checked.rows) {
                self.redo(checked, dgain, dbias)?;
            }
            gradients.write_parameters(dgain, dbias);
        }
        Ok(())
    }

    /// Applies rule 6: if forward scaled a row, x̂ comes from the scaled row; sums that overflowed are recomputed.
    #[cold]
    unsafe fn redo(&self, checked: &Checked<T>, dgain: *mut T::Acc, dbias: *mut T::Acc) -> Result<(), Error> {
        let (space, size) = (checked.shape.space, checked.shape.channels / checked.groups);
        let mut lines: Vec<Scaled<T::Acc>> = memory::reserved(checked.rows)?;
        lines.extend((0..checked.rows).map(|row| {
            let (sample, group) = (row / checked.groups, row % checked.groups);
            // SAFETY: the row and its elements exist.
            let value =
                |i: usize| unsafe { self.x.element(sample * space + i % space, group * size + i / space).widen() };
            // SAFETY: the row exists.
            Scaled::again(Line::Row, checked.n, value, &checked.norm, unsafe { self.stats.get(row) })
        }));
        let n = checked.shape.positions();
        for channel in 0..checked.shape.channels {
            // SAFETY: the positions and the channel exist.
            unsafe {
                let dy = |position: usize| self.dy.element(position, channel).widen();
                let x_hat = |position: usize| {
                    let line = &lines[position / space * checked.groups + channel / size];
                    line.x_hat(self.x.element(position, channel).widen())
                };
                let plain = Line::Column.sum(n, |position| (dy(position), x_hat(position)));
                *dgain.add(channel) =
                    if plain.is_finite() { plain } else { extreme::column_sum(n, dy, x_hat).unwrap_or(plain) };
                if !(*dbias.add(channel)).is_finite() {
                    let again = extreme::column_sum(n, dy, |_| T::Acc::ONE);
                    *dbias.add(channel) = again.unwrap_or(*dbias.add(channel));
                }
            }
        }
        Ok(())
    }
}
