//! Batch normalization (Ioffe and Szegedy, 2015): scales each channel to mean 0 and variance 1 over the batch, then
//! applies gain and bias.
//!
//! x is `[N, C, …]`. A channel has M values, its *positions*: for each sample in order, each place in order.
//!
//! ```text
//! training    m, δ, v, r as in layer norm, with sums down the positions; y = fma((d − δ)·r, γ, β)
//!             g = dy·γ    a = sum(g)/M    b = sum(g·x̂)/M    dx = r·fma(−x̂, b, g − a)
//! inference   r = 1/sqrt(running variance + ε)    y = fma((x − running mean)·r, γ, β)    dx = r·g
//! both        dγ = Σ dy·x̂    dβ = Σ dy
//! ```
//! Training and inference are two different computations, and the result of training depends on the other samples of
//! the batch. Layer norm has a single computation for both.

use crate::channels::{ChannelShape, ColumnPlan, MapPlan, MapTensors, positions, segments};
use crate::context::{Context, Need, Scratch};
use crate::element::{Element, Float};
use crate::error::{Error, same_shape};
use crate::kernels::columns::{Channels, ColumnTerms};
use crate::kernels::extreme::{self, ExtremeLine, Line, Scaled};
use crate::kernels::{RowNorm, Stat, Stats};
use crate::memory;
use crate::operand::Operand;
use crate::params::{Affine, Gradients, StatsMut, StatsRef, check_eps};
use crate::view::{View, ViewMut};

/// Configuration of batch norm: γ and β (one per channel), and ε.
#[derive(Debug)]
pub struct BatchConfig<'a, T> {
    /// γ and β, `[C]`.
    pub affine: Affine<'a, T>,
    /// ε: finite and not negative.
    pub eps: f64,
}

impl<T> Default for BatchConfig<'_, T> {
    /// Returns a configuration without γ and β, and with ε = 10⁻⁵.
    fn default() -> Self {
        BatchConfig { affine: Affine::default(), eps: 1e-5 }
    }
}

/// Statistics used at inference, one mean and one variance per channel.
#[derive(Clone, Copy, Debug)]
pub struct Moments<'a, A> {
    /// Means, `[C]`.
    pub mean: &'a [A],
    /// Variances, `[C]`.
    pub var: &'a [A],
}

/// Weight of a batch in the running statistics.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Momentum {
    /// running = (1 − f)·running + f·batch, with this f.
    Exponential(f64),
    /// Plain average over all batches; the value is the number of earlier batches.
    Cumulative(u64),
}

/// Which variance the running statistics track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunningVariance {
    /// Divided by M − 1, as PyTorch does.
    Unbiased,
    /// Divided by M, as ONNX does.
    Biased,
}

/// Running statistics, updated by a training pass.
#[derive(Debug)]
pub struct Running<'a, A> {
    /// Means, `[C]`.
    pub mean: &'a mut [A],
    /// Variances, `[C]`.
    pub var: &'a mut [A],
    /// Weight of this batch.
    pub momentum: Momentum,
    /// Which variance to track.
    pub variance: RunningVariance,
}

/// Arguments checked against the input's shape.
struct Checked<'a, T: Element> {
    shape: ChannelShape,
    norm: RowNorm<T::Acc>,
    affine: Affine<'a, T>,
}

impl<'a, T: Element> Checked<'a, T> {
    fn new(config: &BatchConfig<'a, T>, shape: &[usize]) -> Result<Self, Error> {
        let shape = ChannelShape::new(shape)?;
        config.affine.check(&[shape.channels])?;
        let (count, eps) = (T::Acc::from_count(shape.positions()), check_eps(config.eps)?);
        Ok(Checked { shape, norm: RowNorm::new(true, count, eps, T::Acc::ZERO), affine: config.affine })
    }

    fn is_empty(&self) -> bool {
        self.shape.channels == 0 || self.shape.positions() == 0
    }

    /// Returns γ and β with one element per channel, also where they are absent.
    fn parameters(&self, scratch: &mut Scratch) -> (*const T::Acc, *const T::Acc) {
        let count = self.shape.channels;
        let (gain, bias) = self.affine.widen(count, scratch);
        if !self.affine.is_none() {
            return (gain, bias);
        }
        let (ones, zeros) = (scratch.take::<T::Acc>(count), scratch.take::<T::Acc>(count));
        for channel in 0..count {
            // SAFETY: there is room for `count` elements.
            unsafe {
                *ones.add(channel) = T::Acc::ONE;
                *zeros.add(channel) = T::Acc::NEG_ZERO;
            }
        }
        (ones, zeros)
    }

    fn parameter_need(&self) -> Need {
        let count = self.shape.channels;
        self.affine.need(count).and(Need::default().plus::<T::Acc>(count).times(2))
    }

    /// Plans the element-wise pass: across channels if a sample has one position, otherwise along segments.
    fn map(&self, x: &View<T>, dy: Option<&View<T>>, to: &ViewMut<T>, fixed: bool, cx: &Context) -> MapPlan<T> {
        let across = self.shape.space == 1;
        let input = |view: &View<T>| {
            if across { positions(view.ptr(), view.layout()) } else { segments(view.ptr(), view.layout()) }
        };
        let to = if across { positions(to.ptr(), to.layout()) } else { segments(to.ptr(), to.layout()) };
        let (x, dy) = (input(x), dy.map(input));
        MapPlan::new(MapTensors { x, dy, to, channel_count: self.shape.channels, across, fixed }, cx)
    }
}

/// Normalizes the batch by its own statistics, which are saved for backward: one of each per channel.
pub fn forward<T: Element>(
    x: View<T>,
    y: ViewMut<T>,
    stats: StatsMut<T::Acc>,
    config: &BatchConfig<T>,
    cx: &mut Context,
) -> Result<(), Error> {
    train(x, y, stats, None, config, cx)
}

/// Like [`forward`], but also updates the running statistics from the batch's.
pub fn forward_running<T: Element>(
    x: View<T>,
    y: ViewMut<T>,
    stats: StatsMut<T::Acc>,
    running: Running<T::Acc>,
    config: &BatchConfig<T>,
    cx: &mut Context,
) -> Result<(), Error> {
    train(x, y, stats, Some(running), config, cx)
}

fn train<T: Element>(
    x: View<T>,
    y: ViewMut<T>,
    mut stats: StatsMut<T::Acc>,
    running: Option<Running<T::Acc>>,
    config: &BatchConfig<T>,
    cx: &mut Context,
) -> Result<(), Error> {
    let checked = Checked::new(config, x.shape())?;
    same_shape("output", x.shape(), y.shape())?;
    let stats = stats.check(checked.shape.channels)?;
    let update = running.map(|running| Update::new(running, x.shape(), &checked.shape)).transpose()?;
    cx.isa()?;
    if checked.is_empty() {
        extreme::no_numbers(Some(stats), checked.shape.channels);
        return Ok(());
    }
    let columns = positions(x.ptr(), x.layout());
    let count = checked.shape.channels;
    let [values, deviations] =
        [ColumnTerms::Values, ColumnTerms::Deviations].map(|terms| ColumnPlan::new(columns, None, None, terms, cx));
    let map = checked.map(&x, None, &y, false, cx);
    let need = checked.parameter_need().and(values.need()).and(deviations.need()).and(map.need());
    let mut scratch = cx.scratch(need)?;
    let (gain, bias) = checked.parameters(&mut scratch);
    let mut scaled = Vec::new();
    // SAFETY: the views guarantee valid memory; sums and statistics have one element per channel.
    unsafe {
        let sums = values.run(Channels::NONE, cx, &mut scratch)?;
        (0..count).for_each(|channel| *stats.m.add(channel) = *sums.add(channel) / checked.norm.count);
        let sums = deviations.run(Channels::of(stats), cx, &mut scratch)?;
        let mut update = update;
        for channel in 0..count {
            let delta = *sums.add(channel) / checked.norm.count;
            let squares = *sums.add(count + channel);
            let (variance, r) = extreme::inverse_deviation(&checked.norm, delta, squares);
            let mut stat = Stat { m: *stats.m.add(channel), delta, r };
            let mut v = extreme::mean_square(&checked.norm, delta, squares);
            if extreme::is_extreme(&checked.norm, variance) {
                let value = |position: usize| columns.element(position, channel).widen();
                let line = Scaled::new(Line::Column, checked.shape.positions(), value, &checked.norm);
                stat = line.map_or_else(extreme::no_number, |line| line.unscaled());
                v = line.map_or(v, |line| line.variance());
                if let Some(line) = line {
                    memory::push(&mut scaled, (channel, line))?;
                }
            }
            stats.set(channel, stat);
            if let Some(update) = &mut update {
                update.channel(channel, stat, v);
            }
        }
        map.run(Channels::with(stats, (gain, bias)), cx, &mut scratch)?;
        let to = positions(y.ptr(), y.layout());
        for (channel, line) in scaled {
            for position in 0..checked.shape.positions() {
                let x_hat = line.x_hat(columns.element(position, channel).widen());
                to.set_element(position, channel, T::narrow(x_hat.fma(*gain.add(channel), *bias.add(channel))));
            }
        }
    }
    Ok(())
}

/// Checked update of the running statistics.
struct Update<'a, A> {
    running: Running<'a, A>,
    factor: A,
    /// Factor that turns the batch variance into the tracked one: M/(M − 1), or 1.
    correction: A,
}

impl<'a, A: Float> Update<'a, A> {
    fn new(running: Running<'a, A>, shape: &[usize], sizes: &ChannelShape) -> Result<Self, Error> {
        for found in [running.mean.len(), running.var.len()] {
            if found != sizes.channels {
                return Err(Error::Length { what: "running statistics", expected: sizes.channels, found });
            }
        }
        let factor = match running.momentum {
            Momentum::Exponential(factor) if (0.0..=1.0).contains(&factor) => factor,
            Momentum::Exponential(found) => return Err(Error::Momentum { found }),
            Momentum::Cumulative(before) => 1.0 / (before as f64 + 1.0),
        };
        let count = sizes.positions();
        let correction = match running.variance {
            RunningVariance::Unbiased if count == 1 => {
                return Err(Error::SingleValue { shape: shape.to_vec() });
            }
            RunningVariance::Unbiased => count as f64 / (count as f64 - 1.0),
            RunningVariance::Biased => 1.0,
        };
        Ok(Update { running, factor: A::from_f64(factor), correction: A::from_f64(correction) })
    }

    fn channel(&mut self, channel: usize, stat: Stat<A>, variance: A) {
        // A batch with weight 0 must not turn an infinite variance into NaN.
        let blend = |old: A, new: A| match self.factor {
            f if f == A::ZERO => old,
            f if f == A::ONE => new,
            f => f.fma(new, (A::ONE - f) * old),
        };
        let (mean, var) = (&mut self.running.mean[channel], &mut self.running.var[channel]);
        *mean = blend(*mean, stat.m + stat.delta);
        *var = blend(*var, variance * self.correction);
    }
}

/// Computes the gradients of [`forward`] from dy, x and the saved statistics.
pub fn backward<T: Element>(
    x: View<T>,
    dy: View<T>,
    stats: StatsRef<T::Acc>,
    gradients: Gradients<T>,
    config: &BatchConfig<T>,
    cx: &mut Context,
) -> Result<(), Error> {
    let checked = Checked::new(config, x.shape())?;
    let stats = stats.check(checked.shape.channels)?;
    gradient(x, dy, stats, gradients, &checked, false, cx)
}

fn gradient<T: Element>(
    x: View<T>,
    dy: View<T>,
    stats: Stats<T::Acc>,
    mut gradients: Gradients<T>,
    checked: &Checked<T>,
    fixed: bool,
    cx: &mut Context,
) -> Result<(), Error> {
    same_shape("gradient of the output", x.shape(), dy.shape())?;
    let count = checked.shape.channels;
    gradients.check(x.shape(), &[count])?;
    cx.isa()?;
    if checked.is_empty() {
        gradients.zero_parameters();
        return Ok(());
    }
    let (columns, dcolumns) = (positions(x.ptr(), x.layout()), positions(dy.ptr(), dy.layout()));
    let sums = ColumnPlan::new(columns, Some(dcolumns), None, ColumnTerms::Gradients, cx);
    let map = gradients.input.as_ref().map(|dx| checked.map(&x, Some(&dy), dx, fixed, cx));
    let map_need = map.as_ref().map(MapPlan::need).unwrap_or_default();
    let mut scratch = cx.scratch(checked.parameter_need().and(sums.need()).and(map_need))?;
    let (gain, bias) = checked.parameters(&mut scratch);
    let channels = Channels::with(stats, (gain, bias));
    // SAFETY: the views guarantee valid memory; sums and statistics have one element per channel.
    unsafe {
        let sums = sums.run(channels, cx, &mut scratch)?;
        let (dgain, dbias, b, a) = (sums, sums.add(count), sums.add(2 * count), sums.add(3 * count));
        let mut redo = Vec::new();
        for channel in 0..count {
            *a.add(channel) = *a.add(channel) / checked.norm.count;
            *b.add(channel) = *b.add(channel) / checked.norm.count;
            let all = (*a.add(channel) + *b.add(channel)) + (*dgain.add(channel) + *dbias.add(channel));
            if !all.is_finite() || (!fixed && extreme::was_scaled(&checked.norm, *stats.r.add(channel))) {
                memory::push(&mut redo, channel)?;
            }
        }
        if let Some(map) = map {
            map.run(Channels { a, b, ..channels }, cx, &mut scratch)?;
        }
        for channel in redo {
            let dx = gradients.input.as_ref().filter(|_| !fixed).map(|dx| positions(dx.ptr(), dx.layout()));
            let column = Column { x: columns, dy: dcolumns, dx, channel, stat: stats.get(channel), fixed };
            column.redo(checked, *gain.add(channel), dgain.add(channel), dbias.add(channel));
        }
        gradients.write_parameters(dgain, dbias);
    }
    Ok(())
}

/// A channel of a backward pass that is recomputed by rule 6.
struct Column<T: Element> {
    x: Operand<*const T>,
    dy: Operand<*const T>,
    dx: Option<Operand<*mut T>>,
    channel: usize,
    stat: Stat<T::Acc>,
    fixed: bool,
}

impl<T: Element> Column<T> {
    /// Writes dx if it was requested, and those sums that are not finite although their terms are.
    #[cold]
    unsafe fn redo(&self, checked: &Checked<T>, gain: T::Acc, dgain: *mut T::Acc, dbias: *mut T::Acc) {
        let n = checked.shape.positions();
        // SAFETY: the positions and the channel exist.
        let x = |position: usize| unsafe { self.x.element(position, self.channel) }.widen();
        // SAFETY: as above.
        let dy = |position: usize| unsafe { self.dy.element(position, self.channel) }.widen();
        if let Some(dx) = self.dx {
            let line = ExtremeLine { line: Line::Column, n, x: &x, dy: &dy, gain: &|_| gain, stat: self.stat };
            line.backward(&checked.norm, &mut |position, _, _, value| {
                // SAFETY: as above.
                unsafe { dx.set_element(position, self.channel, T::narrow(value)) }
            });
        }
        let stat = self.stat;
        let line = if self.fixed { None } else { Some(Scaled::again(Line::Column, n, x, &checked.norm, stat)) };
        let x_hat = |position: usize| match &line {
            Some(line) => line.x_hat(x(position)),
            None => ((x(position) - stat.m) - stat.delta) * stat.r,
        };
        // SAFETY: the sums belong to this channel.
        unsafe {
            *dgain = extreme::column_sum(n, dy, x_hat).unwrap_or(*dgain);
            *dbias = extreme::column_sum(n, dy, |_| T::Acc::ONE).unwrap_or(*dbias);
        }
    }
}

/// Computes the channels' statistics from the running ones: m = mean, δ = 0, r = 1/sqrt(var + ε).
fn fixed_stats<T: Element>(moments: Moments<T::Acc>, checked: &Checked<T>) -> Result<[Vec<T::Acc>; 3], Error> {
    for (what, found) in [("running mean", moments.mean.len()), ("running variance", moments.var.len())] {
        if found != checked.shape.channels {
            return Err(Error::Length { what, expected: checked.shape.channels, found });
        }
    }
    let mut r = memory::copied(moments.var)?;
    r.iter_mut().for_each(|r| *r = T::Acc::ONE / (*r + checked.norm.eps).sqrt());
    Ok([memory::copied(moments.mean)?, memory::zeros(moments.mean.len())?, r])
}

fn pointers<A>([m, delta, r]: &mut [Vec<A>; 3]) -> Stats<A> {
    Stats { m: m.as_mut_ptr(), delta: delta.as_mut_ptr(), r: r.as_mut_ptr() }
}

/// Normalizes the batch by the running statistics.
pub fn infer<T: Element>(
    x: View<T>,
    y: ViewMut<T>,
    moments: Moments<T::Acc>,
    config: &BatchConfig<T>,
    cx: &mut Context,
) -> Result<(), Error> {
    let checked = Checked::new(config, x.shape())?;
    same_shape("output", x.shape(), y.shape())?;
    let mut stats = fixed_stats(moments, &checked)?;
    cx.isa()?;
    if checked.is_empty() {
        return Ok(());
    }
    let map = checked.map(&x, None, &y, true, cx);
    let mut scratch = cx.scratch(checked.parameter_need().and(map.need()))?;
    let channels = Channels::with(pointers(&mut stats), checked.parameters(&mut scratch));
    // SAFETY: the views guarantee valid memory; the statistics have one element per channel.
    unsafe { map.run(channels, cx, &mut scratch) }
}

/// Computes the gradients of [`infer`], in which the running statistics are constants.
pub fn infer_backward<T: Element>(
    x: View<T>,
    dy: View<T>,
    moments: Moments<T::Acc>,
    gradients: Gradients<T>,
    config: &BatchConfig<T>,
    cx: &mut Context,
) -> Result<(), Error> {
    let checked = Checked::new(config, x.shape())?;
    let mut stats = fixed_stats(moments, &checked)?;
    gradient(x, dy, pointers(&mut stats), gradients, &checked, true, cx)
}
