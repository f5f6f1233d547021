//! The sums along a row that backward needs: sum(g) and sum(g·x̂).

use super::forward::load_valid;
use super::reduce::{Any, Block, Terms, row_sums};
use super::vector::{Simd, Vector};
use super::{Kernel, Rows, Stat, Stats};
use crate::element::lanes::Of;
use crate::element::{Element, Float};
use crate::sum::BLOCK;

/// Terms of sum(g) and sum(g·x̂), g = dy·γ, with one γ per feature or one for all.
pub(super) struct Dots<S: Simd, T: Element> {
    x: *const T,
    dy: *const T,
    gain: *const T::Acc,
    per_feature: bool,
    m: Of<S, T>,
    delta: Of<S, T>,
    r: Of<S, T>,
}

impl<S: Simd, T: Element> Dots<S, T> {
    #[inline(always)]
    pub(super) fn new(x: *const T, dy: *const T, gain: *const T::Acc, per_feature: bool, stat: Stat<T::Acc>) -> Self {
        let splat = Of::<S, T>::splat;
        Dots { x, dy, gain, per_feature, m: splat(stat.m), delta: splat(stat.delta), r: splat(stat.r) }
    }

    /// Returns g and x̂. Both are 0 in lanes past the end, whatever the statistics and γ are.
    #[inline(always)]
    unsafe fn factors(&self, at: usize, valid: usize) -> (Of<S, T>, Of<S, T>) {
        // SAFETY: the caller guarantees that the elements are valid.
        unsafe {
            let gain = if self.per_feature {
                load_valid::<S, T::Acc>(self.gain.add(at), valid)
            } else {
                Of::<S, T>::splat(*self.gain)
            };
            let g = load_valid::<S, T>(self.dy.add(at), valid).mul(gain);
            let d = load_valid::<S, T>(self.x.add(at), valid).sub(self.m);
            let x_hat = d.sub(self.delta).mul(self.r);
            if valid == Of::<S, T>::LANES { (g, x_hat) } else { (g.keep_first(valid), x_hat.keep_first(valid)) }
        }
    }
}

impl<S: Simd, T: Element> Terms<Of<S, T>, 2> for Dots<S, T> {
    #[inline(always)]
    unsafe fn first(&self, at: usize, valid: usize) -> [Of<S, T>; 2] {
        // SAFETY: guaranteed by the caller.
        let (g, x_hat) = unsafe { self.factors(at, valid) };
        [g, g.mul(x_hat)]
    }
    #[inline(always)]
    unsafe fn add(&self, [sum, dot]: [Of<S, T>; 2], at: usize, valid: usize) -> [Of<S, T>; 2] {
        // SAFETY: guaranteed by the caller.
        let (g, x_hat) = unsafe { self.factors(at, valid) };
        [sum.add(g), g.fma(x_hat, dot)]
    }
}

/// Computes sum(g) and sum(g·x̂) of a part of a row: an aligned, power-of-two number of blocks, or the remainder at the
/// row's end.
#[derive(Clone, Copy)]
pub struct PartDots<T: Element> {
    pub(crate) x: *const T,
    pub(crate) dy: *const T,
    pub(crate) gain: *const T::Acc,
    pub(crate) per_feature: bool,
    pub(crate) n: usize,
    pub(crate) stat: Stat<T::Acc>,
}

impl<T: Element> Kernel for PartDots<T> {
    type Output = [T::Acc; 2];
    #[inline(always)]
    unsafe fn run<S: Simd>(self) -> [T::Acc; 2] {
        let dots = Dots::<S, T>::new(self.x, self.dy, self.gain, self.per_feature, self.stat);
        // SAFETY: the caller guarantees n valid elements. A row of one block is a tree with one leaf.
        unsafe { row_sums::<Of<S, T>, 2>(self.n, &dots) }
    }
}

/// Computes sum(dy·x̂) of every row: the gradient of weight norm's lengths.
#[derive(Clone, Copy)]
pub struct RowDots<T: Element> {
    pub(crate) x: Rows<*const T>,
    pub(crate) dy: Rows<*const T>,
    pub(crate) rows: usize,
    pub(crate) n: usize,
    pub(crate) first_row: usize,
    pub(crate) stats: Stats<T::Acc>,
    /// One per row, indexed like the statistics.
    pub(crate) to: *mut T::Acc,
}

impl<T: Element> Kernel for RowDots<T> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let one = T::Acc::ONE;
        for row in 0..self.rows {
            // SAFETY: the row exists and has n elements; `one` outlives its use.
            unsafe {
                let stat = self.stats.get(self.first_row + row);
                let dots = Dots::<S, T>::new(self.x.at(row), self.dy.at(row), &raw const one, false, stat);
                *self.to.add(self.first_row + row) = if self.n <= BLOCK {
                    let [_, dot] = Any::sums::<Of<S, T>, 2>(self.n, &dots);
                    dot.fold()
                } else {
                    let [_, dot] = row_sums::<Of<S, T>, 2>(self.n, &dots);
                    dot
                };
            }
        }
    }
}
