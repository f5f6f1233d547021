//! Backward over rows.
//!
//! ```text
//! g = dy·γ    x̂ = (d − δ)·r    a = sum(g)/N    b = sum(g·x̂)/N    dx = r·fma(−x̂, b, g − a)
//! dγ += dy·x̂    dβ += dy
//! ```
//! Not centred: m = δ = a = 0. With a residual, the gradient of h from its other uses is added to the rounded dx.
//!
//! A group of rows is read from memory once and stays in the cache for the second pass. That pass processes four rows
//! at a time, so the sums for γ and β are loaded and stored once per four rows. Rows are added to those sums in
//! order.

use super::dots::Dots;
use super::extreme::{self, ExtremeLine, Line};
use super::forward::{elements_to_alignment, load_valid, store_valid};
use super::reduce::{Block, row_sums, with_block};
use super::vector::{MAX_LANES, Simd, Vector};
use super::{Affine, Kernel, RowNorm, Rows, Stat, Stats};
use crate::element::lanes::Of;
use crate::element::{Element, Float};
use crate::sum::BLOCK;
use crate::tune::{self, Memory};

/// Rows that the second pass processes together.
const TOGETHER: usize = 4;

/// Sums for γ and β over the rows of a chunk, one element per feature.
#[derive(Clone, Copy)]
pub struct ParameterSums<A> {
    pub(crate) gain: *mut A,
    pub(crate) bias: *mut A,
}

/// Backward kernel over rows. Statistics and parameters are indexed by `first_row + row`.
#[derive(Clone, Copy)]
pub struct Backward<T: Element> {
    pub(crate) x: Rows<*const T>,
    pub(crate) dy: Rows<*const T>,
    /// Gradient of h from its other uses.
    pub(crate) dh: Option<Rows<*const T>>,
    pub(crate) dx: Option<Rows<*mut T>>,
    pub(crate) rows: usize,
    pub(crate) n: usize,
    pub(crate) first_row: usize,
    pub(crate) norm: RowNorm<T::Acc>,
    /// γ, one per feature or one per row. β is not used.
    pub(crate) affine: Affine<T::Acc>,
    pub(crate) stats: Stats<T::Acc>,
    /// Where to add the sums for γ and β, if requested: all rows then belong to one chunk.
    pub(crate) sums: Option<ParameterSums<T::Acc>>,
    pub(crate) memory: Memory,
}

/// What the second pass needs to know about a row.
#[derive(Clone, Copy)]
struct RowTerms<A> {
    stat: Stat<A>,
    a: A,
    b: A,
}

impl<T: Element> Kernel for Backward<T> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let mut group = tune::backward_rows_per_group::<T>(self.n, Of::<S, T>::LANES);
        if tune::rows_collide::<T>(self.x.stride) {
            group = group.min(2);
        }
        let mut row = 0;
        while row < self.rows {
            let size = group.min(self.rows - row);
            // SAFETY: rows row .. row + size exist.
            unsafe { self.group::<S>(row, size) };
            row += size;
        }
        if self.memory.stream {
            S::stream_fence();
        }
    }
}

impl<T: Element> Backward<T> {
    #[inline(always)]
    unsafe fn group<S: Simd>(&self, row: usize, size: usize) {
        let zero = T::Acc::ZERO;
        let mut terms = [RowTerms { stat: Stat { m: zero, delta: zero, r: zero }, a: zero, b: zero }; MAX_LANES];
        // SAFETY: the rows exist.
        unsafe {
            for (i, terms) in terms[..size].iter_mut().enumerate() {
                terms.stat = self.stats.get(self.first_row + row + i);
            }
            self.first_pass::<S>(row, &mut terms[..size]);
            if !self.norm.centered {
                terms.iter_mut().for_each(|terms| terms.a = zero);
            }
            let extreme = |terms: &RowTerms<T::Acc>| {
                extreme::was_scaled(&self.norm, terms.stat.r) || !(terms.a + terms.b).is_finite()
            };
            let together = self.affine.groups == 1 && !tune::rows_collide::<T>(self.x.stride);
            let mut i = 0;
            while i < size {
                let four = terms[i..size].first_chunk::<TOGETHER>().filter(|_| together);
                if let Some(four) = four.filter(|four| !four.iter().any(extreme)) {
                    self.second_pass::<S, TOGETHER>(row + i, four, size);
                    i += TOGETHER;
                    continue;
                }
                if extreme(&terms[i]) {
                    self.extreme_row(row + i, terms[i].stat);
                } else {
                    self.second_pass::<S, 1>(row + i, &[terms[i]], size);
                }
                i += 1;
            }
        }
    }

    /// Computes a and b of every row of a group.
    #[inline(always)]
    unsafe fn first_pass<S: Simd>(&self, row: usize, terms: &mut [RowTerms<T::Acc>]) {
        let count = self.norm.count;
        // SAFETY: the rows exist and have n elements.
        unsafe {
            if self.n > BLOCK {
                for (i, terms) in terms.iter_mut().enumerate() {
                    let dots = self.dots::<S>(row + i, terms.stat);
                    let [a, b] = row_sums::<Of<S, T>, 2>(self.n, &dots);
                    (terms.a, terms.b) = (a / count, self.steepened(terms.stat, b / count));
                }
                return;
            }
            with_block!(self.n, Of::<S, T>::LANES, B => self.block_dots::<S, B>(row, terms));
        }
    }

    /// Computes a and b of rows of up to one block.
    #[inline(always)]
    unsafe fn block_dots<S: Simd, B: Block>(&self, row: usize, terms: &mut [RowTerms<T::Acc>]) {
        let zero = Of::<S, T>::splat(T::Acc::ZERO);
        let count = Of::<S, T>::splat(self.norm.count);
        let (mut a, mut b) = ([zero; MAX_LANES], [zero; MAX_LANES]);
        let mut sums = [[T::Acc::ZERO; MAX_LANES]; 2];
        // SAFETY: the rows exist and have n elements; the arrays hold a whole vector.
        unsafe {
            for (i, terms) in terms.iter().enumerate() {
                [a[i], b[i]] = B::sums(self.n, &self.dots::<S>(row + i, terms.stat));
            }
            Of::<S, T>::fold_each(&a).div(count).store(sums[0].as_mut_ptr());
            Of::<S, T>::fold_each(&b).div(count).store(sums[1].as_mut_ptr());
        }
        for (i, terms) in terms.iter_mut().enumerate() {
            (terms.a, terms.b) = (sums[0][i], self.steepened(terms.stat, sums[1][i]));
        }
    }

    #[inline(always)]
    fn steepened(&self, stat: Stat<T::Acc>, b: T::Acc) -> T::Acc {
        extreme::steepened(self.norm.eps_outside, stat.r, b)
    }

    #[inline(always)]
    fn dots<S: Simd>(&self, row: usize, stat: Stat<T::Acc>) -> Dots<S, T> {
        let (gain, _) = self.affine.of_row(self.first_row + row, self.n);
        Dots::new(self.x.at(row), self.dy.at(row), gain, self.affine.span == 1, stat)
    }

    /// Computes dx, and the sums for γ and β, of G rows.
    #[inline(always)]
    unsafe fn second_pass<S: Simd, const G: usize>(&self, row: usize, terms: &[RowTerms<T::Acc>; G], group: usize) {
        let lanes = Of::<S, T>::LANES;
        // Whole vectors are stored to aligned addresses if all rows are aligned at the same element. For short rows
        // in the cache this search does not pay off.
        let (mut at, mut aligned) = (0, true);
        if let Some(dx) = self.dx.filter(|_| self.memory.stream || self.n >= 8 * lanes) {
            at = elements_to_alignment(dx.at(row), lanes);
            for i in 1..G {
                aligned &= elements_to_alignment(dx.at(row + i), lanes) == at;
            }
            aligned &= at < self.n;
            at = if aligned { at } else { 0 };
        }
        let gradient = Gradient::<S, T, G>::new(self, row, terms, group);
        // SAFETY: the rows exist and have n elements.
        unsafe {
            if at > 0 {
                gradient.step::<false>(0, at);
            }
            if self.memory.stream && aligned {
                while at + lanes <= self.n {
                    gradient.step::<true>(at, lanes);
                    at += lanes;
                }
            } else {
                while at + lanes <= self.n {
                    gradient.step::<false>(at, lanes);
                    at += lanes;
                }
            }
            if at < self.n {
                gradient.step::<false>(at, self.n - at);
            }
        }
    }

    unsafe fn extreme_row(&self, row: usize, stat: Stat<T::Acc>) {
        let (gain, _) = self.affine.of_row(self.first_row + row, self.n);
        let whole = WholeRow { x: self.x.at(row), dy: self.dy.at(row), gain, n: self.n };
        // SAFETY: the row exists and has n elements.
        unsafe { self.extreme_part(row, whole, 0, stat) };
    }

    /// Applies rule 6 to a whole row, of which this kernel's row is the part from element `skip` on.
    ///
    /// # Safety
    /// The pointers are valid for the row and its part.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn extreme_part(&self, row: usize, whole: WholeRow<T>, skip: usize, stat: Stat<T::Acc>) {
        let (WholeRow { x, dy, gain, n }, span) = (whole, self.affine.span);
        let line = ExtremeLine {
            line: Line::Row,
            n,
            // SAFETY: i < n in all three closures.
            x: &|i| unsafe { *x.add(i) }.widen(),
            // SAFETY: as above.
            dy: &|i| unsafe { *dy.add(i) }.widen(),
            // SAFETY: as above.
            gain: &|i| unsafe { *gain.add(i / span) },
            stat,
        };
        line.backward(&self.norm, &mut |i, x_hat, dy, dx| {
            if i < skip || i - skip >= self.n {
                return;
            }
            let i = i - skip;
            // SAFETY: i is an element of the part.
            unsafe {
                if let Some(to) = self.dx {
                    let mut dx = T::narrow(dx);
                    if let Some(dh) = self.dh {
                        dx = T::narrow(dx.widen() + (*dh.at(row).add(i)).widen());
                    }
                    *to.at(row).add(i) = dx;
                }
                if let Some(sums) = self.sums {
                    let (dgain, dbias) = (sums.gain.add(i), sums.bias.add(i));
                    *dgain = dy.fma(x_hat, *dgain);
                    *dbias = *dbias + dy;
                }
            }
        });
    }
}

/// The second pass over G rows. It holds everything it needs in its own fields, so that the compiler can keep them in
/// registers while results are stored through pointers that might alias anything.
struct Gradient<S: Simd, T: Element, const G: usize> {
    x: [*const T; G],
    dy: [*const T; G],
    dx: Option<[*mut T; G]>,
    dh: Option<[*const T; G]>,
    m: [Of<S, T>; G],
    delta: [Of<S, T>; G],
    r: [Of<S, T>; G],
    a: [Of<S, T>; G],
    b: [Of<S, T>; G],
    gain: *const T::Acc,
    per_feature: bool,
    sums: Option<ParameterSums<T::Acc>>,
    /// How many elements ahead to prefetch for a following group; 0 for no prefetch.
    next: [isize; 2],
}

impl<S: Simd, T: Element, const G: usize> Gradient<S, T, G> {
    #[inline(always)]
    fn new(job: &Backward<T>, row: usize, terms: &[RowTerms<T::Acc>; G], group: usize) -> Self {
        let splat = Of::<S, T>::splat;
        let zero = [splat(T::Acc::ZERO); G];
        let group = if job.memory.prefetch { group as isize } else { 0 };
        let mut gradient = Gradient {
            x: [std::ptr::null(); G],
            dy: [std::ptr::null(); G],
            dx: None,
            dh: None,
            m: zero,
            delta: zero,
            r: zero,
            a: zero,
            b: zero,
            gain: job.affine.of_row(job.first_row + row, job.n).0,
            per_feature: job.affine.span == 1,
            sums: job.sums,
            next: [job.x.stride * group, job.dy.stride * group],
        };
        let (mut dx, mut dh) = ([std::ptr::null_mut(); G], [std::ptr::null(); G]);
        for (i, RowTerms { stat, a, b }) in terms.iter().enumerate() {
            (gradient.x[i], gradient.dy[i]) = (job.x.at(row + i), job.dy.at(row + i));
            (gradient.m[i], gradient.delta[i], gradient.r[i]) = (splat(stat.m), splat(stat.delta), splat(stat.r));
            (gradient.a[i], gradient.b[i]) = (splat(*a), splat(*b));
            if let Some(rows) = job.dx {
                dx[i] = rows.at(row + i);
            }
            if let Some(rows) = job.dh {
                dh[i] = rows.at(row + i);
            }
        }
        gradient.dx = if job.dx.is_some() { Some(dx) } else { None };
        gradient.dh = if job.dh.is_some() { Some(dh) } else { None };
        gradient
    }

    /// Processes elements `at .. at + valid` of the rows.
    #[inline(always)]
    unsafe fn step<const STREAM: bool>(&self, at: usize, valid: usize) {
        let splat = Of::<S, T>::splat;
        // SAFETY: the caller guarantees that the elements are valid.
        unsafe {
            let gain =
                if self.per_feature { load_valid::<S, T::Acc>(self.gain.add(at), valid) } else { splat(*self.gain) };
            let (mut dgain, mut dbias) = (splat(T::Acc::ZERO), splat(T::Acc::ZERO));
            if let Some(sums) = self.sums {
                dgain = load_valid::<S, T::Acc>(sums.gain.add(at), valid);
                dbias = load_valid::<S, T::Acc>(sums.bias.add(at), valid);
            }
            for i in 0..G {
                let (x, dy) = (self.x[i].add(at), self.dy[i].add(at));
                if self.next[0] != 0 && tune::starts_line::<T>(at, Of::<S, T>::LANES) {
                    S::prefetch(x.wrapping_offset(self.next[0]));
                    S::prefetch(dy.wrapping_offset(self.next[1]));
                }
                let x_hat = load_valid::<S, T>(x, valid).sub(self.m[i]).sub(self.delta[i]).mul(self.r[i]);
                let dy = load_valid::<S, T>(dy, valid);
                dgain = dy.fma(x_hat, dgain);
                dbias = dbias.add(dy);
                if let Some(dx) = self.dx {
                    let value = x_hat.neg_fma(self.b[i], dy.mul(gain).sub(self.a[i])).mul(self.r[i]);
                    self.store::<STREAM>(i, dx[i].add(at), at, valid, value);
                }
            }
            if let Some(sums) = self.sums {
                store_valid::<S, T::Acc>(sums.gain.add(at), dgain, valid);
                store_valid::<S, T::Acc>(sums.bias.add(at), dbias, valid);
            }
        }
    }

    #[inline(always)]
    unsafe fn store<const STREAM: bool>(&self, i: usize, to: *mut T, at: usize, valid: usize, value: Of<S, T>) {
        // SAFETY: the caller guarantees that the elements are valid.
        unsafe {
            let mut value = value;
            if let Some(dh) = self.dh {
                // As if dx had been stored first: rounded to T, then added.
                let mut rounded = [T::default(); MAX_LANES];
                T::store::<S>(rounded.as_mut_ptr(), value);
                value = T::load::<S>(rounded.as_ptr()).add(load_valid::<S, T>(dh[i].add(at), valid));
            }
            if STREAM { T::stream::<S>(to, value) } else { store_valid::<S, T>(to, value, valid) }
        }
    }
}

/// A whole row of a backward pass.
#[derive(Clone, Copy)]
pub(crate) struct WholeRow<T: Element> {
    pub(crate) x: *const T,
    pub(crate) dy: *const T,
    pub(crate) gain: *const T::Acc,
    pub(crate) n: usize,
}

/// The second pass over a part of a row, with all pointers at the part.
#[derive(Clone, Copy)]
pub struct PartGradient<T: Element> {
    pub(crate) part: Backward<T>,
    pub(crate) stat: Stat<T::Acc>,
    pub(crate) a: T::Acc,
    pub(crate) b: T::Acc,
}

impl<T: Element> Kernel for PartGradient<T> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let terms = [RowTerms { stat: self.stat, a: self.a, b: self.b }];
        // SAFETY: the caller guarantees that the pointers are valid.
        unsafe { self.part.second_pass::<S, 1>(0, &terms, 1) };
        if self.part.memory.stream {
            S::stream_fence();
        }
    }
}
