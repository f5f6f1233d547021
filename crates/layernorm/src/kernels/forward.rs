//! Forward over rows: layer, RMS, group, instance and weight norm.
//!
//! ```text
//! m = sum(x)/N    d = x − m    δ = sum(d)/N    v = max(0, fma(−δ, δ, sum(d·d)/N))    r = 1/sqrt(v + ε)
//! y = fma((d − δ)·r, γ, β)
//! ```
//! Not centred (RMS norm): m = δ = 0, so d and d − δ are x to the bit, and v = sum(x·x)/N.
//!
//! A row is read from memory once; the later passes find it in the cache. Rows of up to one block go in groups, so that
//! their sums fold together and their divisions and square roots are done side by side.

use super::extreme::{self, Line, Scaled};
use super::reduce::{block_sums, row_sums};
use super::vector::{MAX_LANES, Simd, Vector};
use super::{Affine, Kernel, RowNorm, Rows, Stat, Stats};
use crate::element::lanes::Of;
use crate::element::{Element, Float};
use crate::sum::BLOCK;
use crate::tune;

/// Normalizes rows. Statistics and parameters are indexed by `first_row + row`.
#[derive(Clone, Copy)]
pub struct Forward<T: Element> {
    pub(crate) x: Rows<*const T>,
    /// With a residual: (r, h). h = x + r is rounded to T and stored, and the norm is that of h.
    pub(crate) residual: Option<(Rows<*const T>, Rows<*mut T>)>,
    pub(crate) y: Rows<*mut T>,
    pub(crate) rows: usize,
    pub(crate) n: usize,
    pub(crate) first_row: usize,
    pub(crate) norm: RowNorm<T::Acc>,
    pub(crate) affine: Affine<T::Acc>,
    pub(crate) stats: Option<Stats<T::Acc>>,
    /// Whether the output is large enough to go past the cache.
    pub(crate) stream: bool,
}

impl<T: Element> Kernel for Forward<T> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let group = if self.n <= BLOCK { tune::rows_per_group::<T>(self.n, Of::<S, T>::LANES) } else { 1 };
        let mut row = 0;
        while row < self.rows {
            let size = group.min(self.rows - row);
            // SAFETY: rows row .. row + size exist.
            unsafe {
                if let Some((residual, h)) = self.residual {
                    for i in row..row + size {
                        add::<S, T>(self.x.at(i), residual.at(i), h.at(i), self.n);
                    }
                }
                if self.n <= BLOCK {
                    self.group::<S>(row, size);
                } else {
                    self.long_row::<S>(row);
                }
            }
            row += size;
        }
        if self.stream {
            S::stream_fence();
        }
    }
}

impl<T: Element> Forward<T> {
    /// What is normalized: h where there is a residual, else x.
    #[inline(always)]
    fn input(&self) -> Rows<*const T> {
        self.residual.map_or(self.x, |(_, h)| h.as_const())
    }

    /// Up to LANES rows of up to one block each.
    #[inline(always)]
    unsafe fn group<S: Simd>(&self, row: usize, size: usize) {
        let (x, n) = (self.input(), self.n);
        let zero = Of::<S, T>::splat(T::Acc::ZERO);
        let count = Of::<S, T>::splat(self.norm.count);
        let (mut m, mut delta) = ([T::Acc::ZERO; MAX_LANES], [T::Acc::ZERO; MAX_LANES]);
        let (mut v, mut r) = ([T::Acc::ZERO; MAX_LANES], [T::Acc::ZERO; MAX_LANES]);
        // SAFETY: rows row .. row + size exist and have n elements; the arrays hold a whole vector.
        unsafe {
            let mut sums = [zero; MAX_LANES];
            if self.norm.centered {
                for (i, sum) in sums[..size].iter_mut().enumerate() {
                    [*sum] = block_sums(0, n, &sum_of::<S, T>(x.at(row + i)));
                }
                Of::<S, T>::fold_each(&sums).div(count).store(m.as_mut_ptr());
            }
            let mut squares = [zero; MAX_LANES];
            let next = x.stride * size as isize;
            for i in 0..size {
                let step = deviations_of::<S, T>(x.at(row + i), m[i], next);
                [sums[i], squares[i]] = block_sums(0, n, &step);
            }
            let squares = Of::<S, T>::fold_each(&squares).div(count);
            let mean_square = if self.norm.centered {
                let d = Of::<S, T>::fold_each(&sums).div(count);
                d.store(delta.as_mut_ptr());
                d.neg_fma(d, squares).or_zero()
            } else {
                squares
            };
            let variance = mean_square.add(Of::<S, T>::splat(self.norm.eps));
            variance.store(v.as_mut_ptr());
            Of::<S, T>::splat(T::Acc::ONE).div(variance.sqrt()).store(r.as_mut_ptr());
            for i in 0..size {
                self.finish::<S>(row + i, Stat { m: m[i], delta: delta[i], r: r[i] }, v[i]);
            }
        }
    }

    #[inline(always)]
    unsafe fn long_row<S: Simd>(&self, row: usize) {
        let (x, n) = (self.input().at(row), self.n);
        // SAFETY: the row exists and has n elements.
        unsafe {
            let m = if self.norm.centered {
                let [sum] = row_sums::<Of<S, T>, 1>(n, sum_of::<S, T>(x));
                sum / self.norm.count
            } else {
                T::Acc::ZERO
            };
            let step = deviations_of::<S, T>(x, m, self.input().stride);
            let [d, square] = row_sums::<Of<S, T>, 2>(n, step);
            let delta = if self.norm.centered { d / self.norm.count } else { T::Acc::ZERO };
            let (variance, r) = extreme::inverse_deviation(&self.norm, delta, square);
            self.finish::<S>(row, Stat { m, delta, r }, variance);
        }
    }

    /// Writes a row whose statistics are known, unless a sum has left the range of numbers: then rule 6 does.
    #[inline(always)]
    unsafe fn finish<S: Simd>(&self, row: usize, stat: Stat<T::Acc>, variance: T::Acc) {
        let (x, y) = (self.input().at(row), self.y.at(row));
        let (gain, bias) = self.affine.of_row(self.first_row + row, self.n);
        // SAFETY: the row exists and has n elements.
        unsafe {
            let stat = if extreme::is_extreme(&self.norm, variance) {
                self.extreme_row(x, y, gain, bias)
            } else {
                write_row::<S, T>(x, y, self.n, stat, gain, bias, self.affine.span, self.stream);
                stat
            };
            if let Some(stats) = self.stats {
                stats.set(self.first_row + row, stat);
            }
        }
    }

    /// Writes a row by rule 6 and gives the statistics to save.
    #[cold]
    #[inline(never)]
    unsafe fn extreme_row(&self, x: *const T, y: *mut T, gain: *const T::Acc, bias: *const T::Acc) -> Stat<T::Acc> {
        // SAFETY: i < n, and the row has n elements.
        let value = |i: usize| unsafe { *x.add(i) }.widen();
        let scaled = Scaled::new(Line::Row, self.n, value, &self.norm);
        for i in 0..self.n {
            let parameter = i / self.affine.span;
            // SAFETY: i < n; a parameter serves `span` elements.
            unsafe {
                *y.add(i) = T::narrow(match scaled {
                    Some(scaled) => scaled.x_hat(value(i)).fma(*gain.add(parameter), *bias.add(parameter)),
                    None => T::Acc::from_f64(f64::NAN),
                });
            }
        }
        scaled.map_or_else(extreme::no_number, |scaled| scaled.unscaled())
    }
}

/// h = x + r, rounded to T.
#[inline(always)]
unsafe fn add<S: Simd, T: Element>(x: *const T, r: *const T, h: *mut T, n: usize) {
    let lanes = Of::<S, T>::LANES;
    let mut at = 0;
    // SAFETY: the caller vouches for n elements of each.
    unsafe {
        while at + lanes <= n {
            T::store::<S>(h.add(at), T::load::<S>(x.add(at)).add(T::load::<S>(r.add(at))));
            at += lanes;
        }
        if at < n {
            let sum = T::load_first::<S>(x.add(at), n - at).add(T::load_first::<S>(r.add(at), n - at));
            T::store_first::<S>(h.add(at), sum, n - at);
        }
    }
}

/// Loads `valid` elements, with the constant LANES for a whole vector.
///
/// # Safety
/// `p` is valid for reads of `valid` elements.
#[inline(always)]
pub(crate) unsafe fn load_valid<S: Simd, T: Element>(p: *const T, valid: usize) -> Of<S, T> {
    // SAFETY: the caller's promise.
    unsafe { if valid == Of::<S, T>::LANES { T::load::<S>(p) } else { T::load_first::<S>(p, valid) } }
}

/// The step of sum(x).
#[inline(always)]
unsafe fn sum_of<S: Simd, T: Element>(x: *const T) -> impl Fn(&mut [Of<S, T>; 1], usize, usize) {
    move |acc, at, valid| {
        // SAFETY: the reduction asks only for elements of the row.
        acc[0] = acc[0].add(unsafe { load_valid::<S, T>(x.wrapping_add(at), valid) });
    }
}

/// The step of sum(d) and sum(d·d), d = x − m. It also asks the memory for the same
/// place `next` elements on, which the following row or group will want.
#[inline(always)]
unsafe fn deviations_of<S: Simd, T: Element>(
    x: *const T,
    m: T::Acc,
    next: isize,
) -> impl Fn(&mut [Of<S, T>; 2], usize, usize) {
    let m = Of::<S, T>::splat(m);
    move |acc, at, valid| {
        let p = x.wrapping_add(at);
        S::prefetch(p.wrapping_offset(next));
        // SAFETY: the reduction asks only for elements of the row.
        let mut d = unsafe { load_valid::<S, T>(p, valid) }.sub(m);
        if valid != Of::<S, T>::LANES {
            d = d.keep_first(valid);
        }
        acc[0] = acc[0].add(d);
        acc[1] = d.fma(d, acc[1]);
    }
}

/// y = fma((d − δ)·r, γ, β) for one row.
///
/// # Safety
/// x and y have n elements, γ and β one for every `span` of them.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn write_row<S: Simd, T: Element>(
    x: *const T,
    y: *mut T,
    n: usize,
    stat: Stat<T::Acc>,
    gain: *const T::Acc,
    bias: *const T::Acc,
    span: usize,
    stream: bool,
) {
    let splat = Of::<S, T>::splat;
    // SAFETY: the caller's promise; a parameter is read only where its elements are.
    unsafe {
        if span == 1 {
            let parameters = |at: usize, valid| {
                let gain = load_valid::<S, T::Acc>(gain.add(at), valid);
                (gain, load_valid::<S, T::Acc>(bias.add(at), valid))
            };
            write_span::<S, T>(x, y, n, stat, parameters, stream);
        } else {
            for (channel, start) in (0..n).step_by(span).enumerate() {
                let (gain, bias) = (splat(*gain.add(channel)), splat(*bias.add(channel)));
                let len = span.min(n - start);
                write_span::<S, T>(x.add(start), y.add(start), len, stat, |_, _| (gain, bias), stream);
            }
        }
    }
}

#[inline(always)]
unsafe fn write_span<S: Simd, T: Element>(
    x: *const T,
    y: *mut T,
    n: usize,
    stat: Stat<T::Acc>,
    parameters: impl Fn(usize, usize) -> (Of<S, T>, Of<S, T>),
    stream: bool,
) {
    let lanes = Of::<S, T>::LANES;
    let (m, delta, r) =
        (Of::<S, T>::splat(stat.m), Of::<S, T>::splat(stat.delta), Of::<S, T>::splat(stat.r));
    // SAFETY: x and y have n elements.
    unsafe {
        let output = |at: usize, valid: usize| {
            let d = load_valid::<S, T>(x.add(at), valid).sub(m);
            let (gain, bias) = parameters(at, valid);
            d.sub(delta).mul(r).fma(gain, bias)
        };
        let mut at = 0;
        if stream && y.addr().is_multiple_of(lanes * size_of::<T>()) {
            while at + lanes <= n {
                T::stream::<S>(y.add(at), output(at, lanes));
                at += lanes;
            }
        } else {
            while at + lanes <= n {
                T::store::<S>(y.add(at), output(at, lanes));
                at += lanes;
            }
        }
        if at < n {
            T::store_first::<S>(y.add(at), output(at, n - at), n - at);
        }
    }
}
