//! Sums down the columns of a tile (rows are positions, columns are channels), and the element-wise passes that use what
//! came of them: batch norm, and the gradients of one γ and β a channel.
//!
//! Rows are taken in order, four at a time so that the sums are loaded and stored once for four.

use super::backward::store_valid;
use super::forward::load_valid;
use super::vector::{Simd, Vector};
use super::{Kernel, Rows};
use crate::element::lanes::Of;
use crate::element::Element;

/// Rows between a load and a store of the sums.
const TOGETHER: usize = 4;

/// Numbers of the channels, one of each a channel. A null pointer stands for what a kernel does not look at.
#[derive(Clone, Copy)]
pub struct Channels<A> {
    pub(crate) m: *const A,
    pub(crate) delta: *const A,
    pub(crate) r: *const A,
    pub(crate) gain: *const A,
    pub(crate) bias: *const A,
    /// sum(g)/M and sum(g·x̂)/M of batch norm's backward.
    pub(crate) a: *const A,
    pub(crate) b: *const A,
}

/// Which sums to take.
#[derive(Clone, Copy, PartialEq)]
pub enum ColumnTerms {
    /// sum(x).
    Values,
    /// sum(d) and sum(d·d), d = x − m.
    Deviations,
    /// sum(dy·x̂) and sum(dy).
    Parameters,
    /// sum(dy·x̂), sum(dy), sum(g·x̂) and sum(g), g = dy·γ.
    Gradients,
}

impl ColumnTerms {
    /// Sums a channel.
    pub(crate) fn count(self) -> usize {
        match self {
            ColumnTerms::Values => 1,
            ColumnTerms::Deviations | ColumnTerms::Parameters => 2,
            ColumnTerms::Gradients => 4,
        }
    }
}

/// Adds the rows of a tile to the sums: `n` of the first kind, then `n` of the second, and so on.
#[derive(Clone, Copy)]
pub struct ColumnSums<T: Element> {
    pub(crate) x: Rows<*const T>,
    /// dy; looked at for gradients alone.
    pub(crate) dy: Rows<*const T>,
    pub(crate) rows: usize,
    pub(crate) n: usize,
    pub(crate) channels: Channels<T::Acc>,
    pub(crate) terms: ColumnTerms,
    pub(crate) sums: *mut T::Acc,
}

impl<T: Element> Kernel for ColumnSums<T> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Channels { m, delta, r, gain, .. } = self.channels;
        // SAFETY: the caller vouches for the pointers; `sweep` asks only for rows and columns that exist.
        unsafe {
            let load = |p: *const T::Acc, at: usize, valid| load_valid::<S, T::Acc>(p.add(at), valid);
            let x = |row: usize, at: usize, valid| load_valid::<S, T>(self.x.at(row).add(at), valid);
            match self.terms {
                ColumnTerms::Values => self.sweep::<S, 1>(|[sum], row, at, valid| [sum.add(x(row, at, valid))]),
                ColumnTerms::Deviations => self.sweep::<S, 2>(|[sum, squares], row, at, valid| {
                    let d = x(row, at, valid).sub(load(m, at, valid));
                    [sum.add(d), d.fma(d, squares)]
                }),
                ColumnTerms::Parameters => self.sweep::<S, 2>(|[dgain, dbias], row, at, valid| {
                    let d = x(row, at, valid).sub(load(m, at, valid));
                    let x_hat = d.sub(load(delta, at, valid)).mul(load(r, at, valid));
                    let dy = load_valid::<S, T>(self.dy.at(row).add(at), valid);
                    [dy.fma(x_hat, dgain), dbias.add(dy)]
                }),
                ColumnTerms::Gradients => self.sweep::<S, 4>(|[dgain, dbias, products, gs], row, at, valid| {
                    let d = x(row, at, valid).sub(load(m, at, valid));
                    let x_hat = d.sub(load(delta, at, valid)).mul(load(r, at, valid));
                    let dy = load_valid::<S, T>(self.dy.at(row).add(at), valid);
                    let g = dy.mul(load(gain, at, valid));
                    [dy.fma(x_hat, dgain), dbias.add(dy), g.fma(x_hat, products), gs.add(g)]
                }),
            }
        }
    }
}

impl<T: Element> ColumnSums<T> {
    #[inline(always)]
    unsafe fn sweep<S: Simd, const K: usize>(
        &self,
        step: impl Fn([Of<S, T>; K], usize, usize, usize) -> [Of<S, T>; K],
    ) {
        let lanes = Of::<S, T>::LANES;
        for first in (0..self.rows).step_by(TOGETHER) {
            let end = self.rows.min(first + TOGETHER);
            for at in (0..self.n).step_by(lanes) {
                let valid = lanes.min(self.n - at);
                // SAFETY: the sums have K·n elements.
                unsafe {
                    let place = |kind: usize| self.sums.add(kind * self.n + at);
                    let mut sums: [Of<S, T>; K] = std::array::from_fn(|kind| load_valid::<S, T::Acc>(place(kind), valid));
                    for row in first..end {
                        sums = step(sums, row, at, valid);
                    }
                    for (kind, sum) in sums.into_iter().enumerate() {
                        store_valid::<S, T::Acc>(place(kind), sum, valid);
                    }
                }
            }
        }
    }
}

/// y = fma((d − δ)·r, γ, β), or with dy: dx = r·fma(−x̂, b, g − a); statistics and parameters are those of the channel. A
/// row has one element a channel (`across`), or is all of one channel: that of its number modulo the channels.
#[derive(Clone, Copy)]
pub struct ChannelMap<T: Element> {
    pub(crate) x: Rows<*const T>,
    /// For the gradient: dy.
    pub(crate) dy: Option<Rows<*const T>>,
    pub(crate) to: Rows<*mut T>,
    pub(crate) rows: usize,
    pub(crate) n: usize,
    pub(crate) first_row: usize,
    pub(crate) channels: Channels<T::Acc>,
    pub(crate) channel_count: usize,
    pub(crate) across: bool,
    /// Whether the statistics do not depend on x (inference), so that the gradient is r·g.
    pub(crate) fixed: bool,
}

impl<T: Element> Kernel for ChannelMap<T> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let lanes = Of::<S, T>::LANES;
        for row in 0..self.rows {
            let channel = if self.across { 0 } else { (self.first_row + row) % self.channel_count };
            for at in (0..self.n).step_by(lanes) {
                let valid = lanes.min(self.n - at);
                // SAFETY: the row and its elements exist, and so does its channel.
                unsafe {
                    let of = |p: *const T::Acc| {
                        if self.across { load_valid::<S, T::Acc>(p.add(at), valid) } else { Of::<S, T>::splat(*p.add(channel)) }
                    };
                    let c = self.channels;
                    let d = load_valid::<S, T>(self.x.at(row).add(at), valid).sub(of(c.m));
                    let x_hat = d.sub(of(c.delta)).mul(of(c.r));
                    let value = match self.dy {
                        None => x_hat.fma(of(c.gain), of(c.bias)),
                        Some(dy) => {
                            let g = load_valid::<S, T>(dy.at(row).add(at), valid).mul(of(c.gain));
                            let inner = if self.fixed { g } else { x_hat.neg_fma(of(c.b), g.sub(of(c.a))) };
                            inner.mul(of(c.r))
                        }
                    };
                    store_valid::<S, T>(self.to.at(row).add(at), value, valid);
                }
            }
        }
    }
}
