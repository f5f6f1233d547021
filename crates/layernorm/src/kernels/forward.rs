//! Forward over rows: layer, RMS, group, instance and weight norm.
//!
//! ```text
//! m = sum(x)/N    d = x − m    δ = sum(d)/N    v = max(0, fma(−δ, δ, sum(d·d)/N))    r = 1/sqrt(v + ε)
//! y = fma((d − δ)·r, γ, β)
//! ```
//! Not centred (RMS norm): m = δ = 0, so d and d − δ are exactly x, and v = sum(x·x)/N.
//!
//! A row is read from memory once; the later passes find it in the cache. Rows of up to one block are processed in
//! groups: their sums are folded together, their divisions and square roots are vectorized, and γ and β are loaded
//! once per four rows.

use super::extreme::{self, Line, Scaled};
use super::reduce::{Block, Terms, row_sums, with_block};
use super::vector::{MAX_LANES, Simd, Vector};
use super::{Affine, Kernel, RowNorm, Rows, Stat, Stats};
use crate::element::lanes::Of;
use crate::element::{Element, Float};
use crate::sum::BLOCK;
use crate::tune::{self, Memory};
use std::marker::PhantomData;

/// Rows that are written together.
const TOGETHER: usize = 4;

/// h = x + r is rounded to T and stored, and h is normalized.
#[derive(Clone, Copy)]
pub struct Residual<T> {
    pub(crate) r: Rows<*const T>,
    pub(crate) h: Rows<*mut T>,
    /// If h bypasses the cache: room for the rows of a group, one after the other, from which h is read back.
    pub(crate) kept: *mut T,
}

/// Forward kernel over rows. Statistics and parameters are indexed by `first_row + row`.
#[derive(Clone, Copy)]
pub struct Forward<T: Element> {
    pub(crate) x: Rows<*const T>,
    pub(crate) residual: Option<Residual<T>>,
    pub(crate) y: Rows<*mut T>,
    pub(crate) rows: usize,
    pub(crate) n: usize,
    pub(crate) first_row: usize,
    pub(crate) norm: RowNorm<T::Acc>,
    pub(crate) affine: Affine<T::Acc>,
    pub(crate) stats: Option<Stats<T::Acc>>,
    pub(crate) memory: Memory,
}

impl<T: Element> Kernel for Forward<T> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let mut group = if self.n <= BLOCK { tune::rows_per_group::<T>(self.n, Of::<S, T>::LANES) } else { 1 };
        if tune::rows_collide::<T>(self.x.stride) {
            group = group.min(2);
        }
        let mut row = 0;
        while row < self.rows {
            let size = group.min(self.rows - row);
            // SAFETY: rows row .. row + size exist.
            unsafe {
                if let Some(residual) = self.residual {
                    for i in 0..size {
                        self.add_residual::<S>(residual, row, i, size);
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
        if self.memory.stream {
            S::stream_fence();
        }
    }
}

/// Statistics of a group of rows, one of each per row.
struct GroupStats<A> {
    m: [A; MAX_LANES],
    delta: [A; MAX_LANES],
    r: [A; MAX_LANES],
    /// v + ε.
    variance: [A; MAX_LANES],
}

impl<A: Float> GroupStats<A> {
    #[inline(always)]
    fn of(&self, row: usize) -> Stat<A> {
        Stat { m: self.m[row], delta: self.delta[row], r: self.r[row] }
    }
}

impl<T: Element> Forward<T> {
    /// Returns what is normalized, from this row on: h if there is a residual, otherwise x.
    #[inline(always)]
    fn input(&self, row: usize) -> Rows<*const T> {
        match self.residual {
            Some(residual) if self.memory.stream => Rows { ptr: residual.kept.cast_const(), stride: self.n as isize },
            Some(residual) => Rows { ptr: residual.h.at(row).cast_const(), stride: residual.h.stride },
            None => Rows { ptr: self.x.at(row), stride: self.x.stride },
        }
    }

    /// Returns how far ahead to prefetch x while a group of this many rows is written. With a residual, x was
    /// prefetched before.
    #[inline(always)]
    fn next(&self, size: usize) -> isize {
        if self.memory.prefetch && self.residual.is_none() { self.x.stride * size as isize } else { 0 }
    }

    /// Computes h of row i of a group.
    #[inline(always)]
    unsafe fn add_residual<S: Simd>(&self, residual: Residual<T>, row: usize, i: usize, size: usize) {
        let lanes = Of::<S, T>::LANES;
        let (x, r, h) = (self.x.at(row + i), residual.r.at(row + i), residual.h.at(row + i));
        let kept = residual.kept.wrapping_add(i * self.n);
        let (ahead_x, ahead_r) = (self.x.stride * size as isize, residual.r.stride * size as isize);
        let streamed = self.memory.stream && elements_to_alignment(h, lanes) == 0;
        let mut at = 0;
        // SAFETY: the rows exist and have n elements; `kept` has room for the group where it is used.
        unsafe {
            while at < self.n {
                let valid = lanes.min(self.n - at);
                if self.memory.prefetch && tune::starts_line::<T>(at, lanes) {
                    S::prefetch(x.add(at).wrapping_offset(ahead_x));
                    S::prefetch(r.add(at).wrapping_offset(ahead_r));
                }
                let sum = load_valid::<S, T>(x.add(at), valid).add(load_valid::<S, T>(r.add(at), valid));
                if self.memory.stream {
                    store_valid::<S, T>(kept.add(at), sum, valid);
                }
                if streamed && valid == lanes {
                    T::stream::<S>(h.add(at), sum);
                } else {
                    store_valid::<S, T>(h.add(at), sum, valid);
                }
                at += valid;
            }
        }
    }

    /// Processes up to LANES rows of up to one block each.
    #[inline(always)]
    unsafe fn group<S: Simd>(&self, row: usize, size: usize) {
        // SAFETY: rows row .. row + size exist and have n elements.
        unsafe {
            let stats = with_block!(self.n, Of::<S, T>::LANES, B => self.group_stats::<S, B>(row, size));
            self.finish_group::<S>(row, size, &stats);
        }
    }

    #[inline(always)]
    unsafe fn group_stats<S: Simd, B: Block>(&self, row: usize, size: usize) -> GroupStats<T::Acc> {
        let (x, n) = (self.input(row), self.n);
        let zero = Of::<S, T>::splat(T::Acc::ZERO);
        let count = Of::<S, T>::splat(self.norm.count);
        let none = [T::Acc::ZERO; MAX_LANES];
        let mut stats = GroupStats { m: none, delta: none, r: none, variance: none };
        // SAFETY: the rows exist and have n elements; the arrays hold a whole vector.
        unsafe {
            let mut sums = [zero; MAX_LANES];
            if self.norm.centered {
                for (i, sum) in sums[..size].iter_mut().enumerate() {
                    [*sum] = B::sums(n, &Values::<S, T>::new(x.at(i)));
                }
                Of::<S, T>::fold_each(&sums).div(count).store(stats.m.as_mut_ptr());
            }
            let mut squares = [zero; MAX_LANES];
            for i in 0..size {
                let terms = Deviations::<S, T>::new(x.at(i), self.y.at(row + i), stats.m[i], self.memory);
                [sums[i], squares[i]] = B::sums(n, &terms);
            }
            let mut mean_square = Of::<S, T>::fold_each(&squares).div(count);
            if self.norm.centered {
                let d = Of::<S, T>::fold_each(&sums).div(count);
                d.store(stats.delta.as_mut_ptr());
                mean_square = d.neg_fma(d, mean_square).or_zero();
            }
            let variance = mean_square.add(Of::<S, T>::splat(self.norm.eps));
            variance.store(stats.variance.as_mut_ptr());
            let root = variance.sqrt().add(Of::<S, T>::splat(self.norm.eps_outside));
            Of::<S, T>::splat(T::Acc::ONE).div(root).store(stats.r.as_mut_ptr());
        }
        stats
    }

    /// Writes the rows of a group, four at a time where possible.
    #[inline(always)]
    unsafe fn finish_group<S: Simd>(&self, row: usize, size: usize, stats: &GroupStats<T::Acc>) {
        let (x, next) = (self.input(row), self.next(size));
        let shared = self.affine.groups == 1 && (self.affine.span == 1 || self.affine.span >= self.n);
        let mut i = 0;
        while i < size {
            let mut together = shared && i + TOGETHER <= size;
            if together {
                for variance in &stats.variance[i..i + TOGETHER] {
                    together &= !extreme::is_extreme(&self.norm, *variance);
                }
            }
            // SAFETY: the rows exist and have n elements.
            unsafe {
                if together {
                    let mut writer = Writer::<S, T, TOGETHER>::new(self.n, self.affine.gain, self.affine.bias, next);
                    for t in 0..TOGETHER {
                        let stat = stats.of(i + t);
                        writer.set(t, x.at(i + t), self.y.at(row + i + t), stat);
                        if let Some(saved) = self.stats {
                            saved.set(self.first_row + row + i + t, stat);
                        }
                    }
                    writer.write_any(self.affine.span == 1, self.memory.stream);
                    i += TOGETHER;
                } else {
                    self.finish::<S>(x.at(i), row + i, stats.of(i), stats.variance[i], next);
                    i += 1;
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn long_row<S: Simd>(&self, row: usize) {
        let (x, n) = (self.input(row).at(0), self.n);
        // SAFETY: the row exists and has n elements.
        unsafe {
            let mut m = T::Acc::ZERO;
            if self.norm.centered {
                let [sum] = row_sums::<Of<S, T>, 1>(n, &Values::<S, T>::new(x));
                m = sum / self.norm.count;
            }
            let terms = Deviations::<S, T>::new(x, self.y.at(row), m, self.memory);
            let [d, square] = row_sums::<Of<S, T>, 2>(n, &terms);
            let delta = if self.norm.centered { d / self.norm.count } else { T::Acc::ZERO };
            let (variance, r) = extreme::inverse_deviation(&self.norm, delta, square);
            self.finish::<S>(x, row, Stat { m, delta, r }, variance, self.next(1));
        }
    }

    /// Writes a row whose statistics are known, by rule 6 if a sum has overflowed.
    #[inline(always)]
    unsafe fn finish<S: Simd>(&self, x: *const T, row: usize, stat: Stat<T::Acc>, variance: T::Acc, next: isize) {
        let y = self.y.at(row);
        let (gain, bias) = self.affine.of_row(self.first_row + row, self.n);
        // SAFETY: the row exists and has n elements; γ and β have one element for every `span` of them.
        unsafe {
            let mut stat = stat;
            if extreme::is_extreme(&self.norm, variance) {
                stat = self.extreme_row(x, y, gain, bias);
            } else if self.affine.span == 1 {
                let mut writer = Writer::<S, T, 1>::new(self.n, gain, bias, next);
                writer.set(0, x, y, stat);
                writer.write::<true>(self.memory.stream);
            } else {
                for (channel, start) in (0..self.n).step_by(self.affine.span).enumerate() {
                    let n = self.affine.span.min(self.n - start);
                    let mut writer = Writer::<S, T, 1>::new(n, gain.add(channel), bias.add(channel), next);
                    writer.set(0, x.add(start), y.add(start), stat);
                    writer.write::<false>(self.memory.stream);
                }
            }
            if let Some(stats) = self.stats {
                stats.set(self.first_row + row, stat);
            }
        }
    }

    /// Writes a row by rule 6 and returns the statistics to save.
    #[cold]
    #[inline(never)]
    unsafe fn extreme_row(&self, x: *const T, y: *mut T, gain: *const T::Acc, bias: *const T::Acc) -> Stat<T::Acc> {
        // SAFETY: i < n, and the row has n elements.
        let value = |i: usize| unsafe { *x.add(i) }.widen();
        let scaled = Scaled::new(Line::Row, self.n, value, &self.norm);
        for i in 0..self.n {
            let parameter = i / self.affine.span;
            // SAFETY: i < n; one parameter serves `span` elements.
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

/// Loads `valid` elements, with the constant LANES for a whole vector.
///
/// # Safety
/// `p` is valid for reads of `valid` elements.
#[inline(always)]
pub(crate) unsafe fn load_valid<S: Simd, T: Element>(p: *const T, valid: usize) -> Of<S, T> {
    // SAFETY: guaranteed by the caller.
    unsafe { if valid == Of::<S, T>::LANES { T::load::<S>(p) } else { T::load_first::<S>(p, valid) } }
}

/// Terms of sum(x).
struct Values<S, T> {
    x: *const T,
    simd: PhantomData<S>,
}

impl<S: Simd, T: Element> Values<S, T> {
    #[inline(always)]
    fn new(x: *const T) -> Self {
        Values { x, simd: PhantomData }
    }
}

impl<S: Simd, T: Element> Terms<Of<S, T>, 1> for Values<S, T> {
    #[inline(always)]
    unsafe fn first(&self, at: usize, valid: usize) -> [Of<S, T>; 1] {
        // SAFETY: guaranteed by the caller.
        [unsafe { load_valid::<S, T>(self.x.add(at), valid) }]
    }
    #[inline(always)]
    unsafe fn add(&self, [sum]: [Of<S, T>; 1], at: usize, valid: usize) -> [Of<S, T>; 1] {
        // SAFETY: guaranteed by the caller.
        [sum.add(unsafe { load_valid::<S, T>(self.x.add(at), valid) })]
    }
}

/// Terms of sum(d) and sum(d·d), d = x − m.
struct Deviations<S: Simd, T: Element> {
    x: *const T,
    m: Of<S, T>,
    /// The row's output, which is prefetched because it will be written next.
    y: *mut T,
    ask: bool,
}

impl<S: Simd, T: Element> Deviations<S, T> {
    #[inline(always)]
    fn new(x: *const T, y: *mut T, m: T::Acc, memory: Memory) -> Self {
        Deviations { x, m: Of::<S, T>::splat(m), y, ask: memory.prefetch_output }
    }

    #[inline(always)]
    unsafe fn d(&self, at: usize, valid: usize) -> Of<S, T> {
        // SAFETY: the caller guarantees that the elements are valid; any address may be prefetched.
        let d = unsafe {
            let p = self.x.add(at);
            if self.ask && tune::starts_line::<T>(at, Of::<S, T>::LANES) {
                S::prefetch_write(self.y.wrapping_add(at));
            }
            load_valid::<S, T>(p, valid).sub(self.m)
        };
        if valid == Of::<S, T>::LANES { d } else { d.keep_first(valid) }
    }
}

impl<S: Simd, T: Element> Terms<Of<S, T>, 2> for Deviations<S, T> {
    #[inline(always)]
    unsafe fn first(&self, at: usize, valid: usize) -> [Of<S, T>; 2] {
        // SAFETY: guaranteed by the caller.
        let d = unsafe { self.d(at, valid) };
        [d, d.mul(d)]
    }
    #[inline(always)]
    unsafe fn add(&self, [sum, squares]: [Of<S, T>; 2], at: usize, valid: usize) -> [Of<S, T>; 2] {
        // SAFETY: guaranteed by the caller.
        let d = unsafe { self.d(at, valid) };
        [sum.add(d), d.fma(d, squares)]
    }
}

/// Computes y from the elements of G rows (or of a part of one).
struct Writer<S: Simd, T: Element, const G: usize> {
    x: [*const T; G],
    y: [*mut T; G],
    m: [Of<S, T>; G],
    delta: [Of<S, T>; G],
    r: [Of<S, T>; G],
    n: usize,
    gain: *const T::Acc,
    bias: *const T::Acc,
    /// How many elements ahead to prefetch for a following row or group; 0 for no prefetch.
    next: isize,
}

impl<S: Simd, T: Element, const G: usize> Writer<S, T, G> {
    #[inline(always)]
    fn new(n: usize, gain: *const T::Acc, bias: *const T::Acc, next: isize) -> Self {
        let zero = [Of::<S, T>::splat(T::Acc::ZERO); G];
        let (x, y) = ([std::ptr::null(); G], [std::ptr::null_mut(); G]);
        Writer { x, y, m: zero, delta: zero, r: zero, n, gain, bias, next }
    }

    #[inline(always)]
    fn set(&mut self, i: usize, x: *const T, y: *mut T, stat: Stat<T::Acc>) {
        let splat = Of::<S, T>::splat;
        (self.x[i], self.y[i]) = (x, y);
        (self.m[i], self.delta[i], self.r[i]) = (splat(stat.m), splat(stat.delta), splat(stat.r));
    }

    #[inline(always)]
    unsafe fn write_any(&self, per_feature: bool, stream: bool) {
        // SAFETY: the caller guarantees that the rows and the parameters are valid.
        unsafe { if per_feature { self.write::<true>(stream) } else { self.write::<false>(stream) } }
    }

    /// `PER_FEATURE`: one γ and β per element; otherwise one for all.
    #[inline(always)]
    unsafe fn write<const PER_FEATURE: bool>(&self, stream: bool) {
        let lanes = Of::<S, T>::LANES;
        // Whole vectors are stored to aligned addresses if all rows are aligned at the same element. For short rows
        // in the cache this search does not pay off.
        let (mut at, mut aligned) = (0, true);
        if stream || self.n >= 8 * lanes {
            at = elements_to_alignment(self.y[0], lanes);
            for y in self.y {
                aligned &= elements_to_alignment(y, lanes) == at;
            }
            aligned &= at < self.n;
            at = if aligned { at } else { 0 };
        }
        // SAFETY: x and y have n elements.
        unsafe {
            if at > 0 {
                self.step::<PER_FEATURE, false>(0, at);
            }
            if stream && aligned {
                while at + lanes <= self.n {
                    self.step::<PER_FEATURE, true>(at, lanes);
                    at += lanes;
                }
            } else {
                while at + lanes <= self.n {
                    self.step::<PER_FEATURE, false>(at, lanes);
                    at += lanes;
                }
            }
            if at < self.n {
                self.step::<PER_FEATURE, false>(at, self.n - at);
            }
        }
    }

    #[inline(always)]
    unsafe fn step<const PER_FEATURE: bool, const STREAM: bool>(&self, at: usize, valid: usize) {
        let skip = if PER_FEATURE { at } else { 0 };
        // SAFETY: the caller guarantees that the elements are valid.
        unsafe {
            let (gain, bias) = if PER_FEATURE {
                (
                    load_valid::<S, T::Acc>(self.gain.add(skip), valid),
                    load_valid::<S, T::Acc>(self.bias.add(skip), valid),
                )
            } else {
                (Of::<S, T>::splat(*self.gain), Of::<S, T>::splat(*self.bias))
            };
            for i in 0..G {
                let x = self.x[i].add(at);
                if self.next != 0 && tune::starts_line::<T>(at, Of::<S, T>::LANES) {
                    S::prefetch(x.wrapping_offset(self.next));
                }
                let d = load_valid::<S, T>(x, valid).sub(self.m[i]);
                let y = d.sub(self.delta[i]).mul(self.r[i]).fma(gain, bias);
                if STREAM {
                    T::stream::<S>(self.y[i].add(at), y);
                } else {
                    store_valid::<S, T>(self.y[i].add(at), y, valid);
                }
            }
        }
    }
}

/// Returns how many elements after `p` the first aligned address for a whole vector is; more than any row has if
/// there is none.
#[inline(always)]
pub(crate) fn elements_to_alignment<T>(p: *mut T, lanes: usize) -> usize {
    let bytes = lanes * size_of::<T>();
    let past = p.addr() % bytes;
    if past == 0 {
        0
    } else if past.is_multiple_of(size_of::<T>()) {
        (bytes - past) / size_of::<T>()
    } else {
        usize::MAX
    }
}

/// Stores `valid` elements, with the constant LANES for a whole vector.
///
/// # Safety
/// `p` is valid for writes of `valid` elements.
#[inline(always)]
pub(crate) unsafe fn store_valid<S: Simd, T: Element>(p: *mut T, v: Of<S, T>, valid: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { if valid == Of::<S, T>::LANES { T::store::<S>(p, v) } else { T::store_first::<S>(p, v, valid) } }
}
