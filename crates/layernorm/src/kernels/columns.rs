//! Sums down the columns of a tile (rows are positions, columns are channels), and the element-wise passes that use
//! them: batch norm, and the gradients of per-channel γ and β.
//!
//! Rows are added in order, four at a time, so that the sums are loaded and stored once per four rows.

use super::forward::{load_valid, store_valid};
use super::vector::{Simd, Vector};
use super::{Kernel, Rows, Stats};
use crate::element::lanes::Of;
use crate::element::{Element, Float};

/// Rows between a load and a store of the sums.
const TOGETHER: usize = 4;

/// Values of the channels, one of each per channel. A null pointer marks a value that the kernel does not use.
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

impl<A> Channels<A> {
    /// No values, for kernels that take them from elsewhere.
    pub(crate) const NONE: Channels<A> = {
        let none = std::ptr::null();
        Channels { m: none, delta: none, r: none, gain: none, bias: none, a: none, b: none }
    };

    /// Returns the statistics alone, for kernels that use nothing else.
    pub(crate) fn of(stats: Stats<A>) -> Self {
        Channels { m: stats.m, delta: stats.delta, r: stats.r, ..Channels::NONE }
    }

    /// Returns statistics, γ and β.
    pub(crate) fn with(stats: Stats<A>, (gain, bias): (*const A, *const A)) -> Self {
        Channels { gain, bias, ..Channels::of(stats) }
    }
}

/// Which sums to compute.
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
    /// Returns the number of sums per channel.
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
    /// dy; used for gradients only.
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
        // SAFETY: the caller guarantees that the pointers are valid.
        unsafe {
            match self.terms {
                ColumnTerms::Values => self.sweep::<S, VALUES, 1>(),
                ColumnTerms::Deviations => self.sweep::<S, DEVIATIONS, 2>(),
                ColumnTerms::Parameters => self.sweep::<S, PARAMETERS, 2>(),
                ColumnTerms::Gradients => self.sweep::<S, GRADIENTS, 4>(),
            }
        }
    }
}

/// [`ColumnTerms`] as constants for const generics.
const VALUES: u8 = 0;
const DEVIATIONS: u8 = 1;
const PARAMETERS: u8 = 2;
const GRADIENTS: u8 = 3;

impl<T: Element> ColumnSums<T> {
    #[inline(always)]
    unsafe fn sweep<S: Simd, const TERMS: u8, const K: usize>(&self) {
        let lanes = Of::<S, T>::LANES;
        let mut first = 0;
        while first < self.rows {
            let end = self.rows.min(first + TOGETHER);
            let mut at = 0;
            // SAFETY: rows and columns exist; the sums have K·n elements.
            unsafe {
                while at + lanes <= self.n {
                    self.columns::<S, TERMS, K>(first, end, at, lanes);
                    at += lanes;
                }
                if at < self.n {
                    self.columns::<S, TERMS, K>(first, end, at, self.n - at);
                }
            }
            first = end;
        }
    }

    /// Adds rows to the sums of the columns `at .. at + valid`.
    #[inline(always)]
    unsafe fn columns<S: Simd, const TERMS: u8, const K: usize>(
        &self,
        first: usize,
        end: usize,
        at: usize,
        valid: usize,
    ) {
        let zero = Of::<S, T>::splat(T::Acc::ZERO);
        let c = self.channels;
        // SAFETY: guaranteed by the caller; the channel values that the terms need exist.
        unsafe {
            let mut sums = [zero; K];
            for (kind, sum) in sums.iter_mut().enumerate() {
                *sum = load_valid::<S, T::Acc>(self.sums.add(kind * self.n + at), valid);
            }
            let (mut m, mut delta, mut r, mut gain) = (zero, zero, zero, zero);
            if TERMS != VALUES {
                m = load_valid::<S, T::Acc>(c.m.add(at), valid);
            }
            if TERMS >= PARAMETERS {
                delta = load_valid::<S, T::Acc>(c.delta.add(at), valid);
                r = load_valid::<S, T::Acc>(c.r.add(at), valid);
            }
            if TERMS == GRADIENTS {
                gain = load_valid::<S, T::Acc>(c.gain.add(at), valid);
            }
            for row in first..end {
                let x = load_valid::<S, T>(self.x.at(row).add(at), valid);
                if TERMS == VALUES {
                    sums[0] = sums[0].add(x);
                    continue;
                }
                let d = x.sub(m);
                if TERMS == DEVIATIONS {
                    sums[0] = sums[0].add(d);
                    sums[1] = d.fma(d, sums[1]);
                    continue;
                }
                let x_hat = d.sub(delta).mul(r);
                let dy = load_valid::<S, T>(self.dy.at(row).add(at), valid);
                sums[0] = dy.fma(x_hat, sums[0]);
                sums[1] = sums[1].add(dy);
                if TERMS == GRADIENTS {
                    let g = dy.mul(gain);
                    sums[2] = g.fma(x_hat, sums[2]);
                    sums[3] = sums[3].add(g);
                }
            }
            for (kind, sum) in sums.into_iter().enumerate() {
                store_valid::<S, T::Acc>(self.sums.add(kind * self.n + at), sum, valid);
            }
        }
    }
}

/// Computes y = fma((d − δ)·r, γ, β), or with dy: dx = r·fma(−x̂, b, g − a), with the statistics and parameters of
/// the channel. A row has one element per channel (`across`), or lies in a single channel: row number modulo number
/// of channels.
#[derive(Clone, Copy)]
pub struct ChannelMap<T: Element> {
    pub(crate) x: Rows<*const T>,
    /// dy, for the gradient.
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
            let mut at = 0;
            // SAFETY: the row and its elements exist.
            unsafe {
                while at + lanes <= self.n {
                    self.map::<S>(row, at, lanes);
                    at += lanes;
                }
                if at < self.n {
                    self.map::<S>(row, at, self.n - at);
                }
            }
        }
    }
}

impl<T: Element> ChannelMap<T> {
    /// Returns a channel value for each element: loaded across channels, or the same for all.
    #[inline(always)]
    unsafe fn of<S: Simd>(&self, numbers: *const T::Acc, row: usize, at: usize, valid: usize) -> Of<S, T> {
        // SAFETY: the row's channel, or the channels at .. at + valid, exist.
        unsafe {
            if self.across {
                load_valid::<S, T::Acc>(numbers.add(at), valid)
            } else {
                Of::<S, T>::splat(*numbers.add((self.first_row + row) % self.channel_count))
            }
        }
    }

    #[inline(always)]
    unsafe fn map<S: Simd>(&self, row: usize, at: usize, valid: usize) {
        let c = self.channels;
        // SAFETY: the elements exist, and so do the values of their channels.
        unsafe {
            let d = load_valid::<S, T>(self.x.at(row).add(at), valid).sub(self.of::<S>(c.m, row, at, valid));
            let r = self.of::<S>(c.r, row, at, valid);
            let gain = self.of::<S>(c.gain, row, at, valid);
            let x_hat = d.sub(self.of::<S>(c.delta, row, at, valid)).mul(r);
            let value = if let Some(dy) = self.dy {
                let mut g = load_valid::<S, T>(dy.at(row).add(at), valid).mul(gain);
                if !self.fixed {
                    let (a, b) = (self.of::<S>(c.a, row, at, valid), self.of::<S>(c.b, row, at, valid));
                    g = x_hat.neg_fma(b, g.sub(a));
                }
                g.mul(r)
            } else {
                x_hat.fma(gain, self.of::<S>(c.bias, row, at, valid))
            };
            store_valid::<S, T>(self.to.at(row).add(at), value, valid);
        }
    }
}
