//! Sums down the rows: gradients of biases, gains and peepholes. Rows are added in order from +0, and the sum is
//! added to the destination: Σ d, Σ d∘x̂ with x̂ = ((z − m) − δ)·r, or Σ d∘z.

use super::{Rows, load, store};
use crate::real::Real;
use layernorm::parts::{Kernel, Simd, StatRows, Vector};

/// Factor for each number of d.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Factor<A> {
    /// 1.
    One,
    /// The number in these rows.
    Of(Rows<A>),
    /// The normalized number in these rows.
    Normalized(Rows<A>, StatRows<A>),
}

/// Maximum number of destinations of one sum.
pub(crate) const SAME_SUMS: usize = 7;

/// Vectors of columns that are summed side by side, so that each row is visited less often.
const WIDE: usize = 4;

/// Computes to += Σ d∘factor over the rows, for n columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColumnSum<A> {
    pub(crate) rows: usize,
    pub(crate) n: usize,
    pub(crate) d: Rows<A>,
    pub(crate) factor: Factor<A>,
    /// Destinations: the first ones, up to a null pointer.
    pub(crate) to: [*mut A; SAME_SUMS],
}

impl<A: Real> Kernel for ColumnSum<A> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let lanes = <A::V<S>>::LANES;
        let mut at = 0;
        // SAFETY: the caller guarantees that the rows and the destinations are valid.
        unsafe {
            while at + WIDE * lanes <= self.n {
                self.columns::<S, WIDE>(at, lanes);
                at += WIDE * lanes;
            }
            while at < self.n {
                self.columns::<S, 1>(at, lanes.min(self.n - at));
                at += lanes;
            }
        }
    }
}

impl<A: Real> ColumnSum<A> {
    /// Sums W vectors of columns, of which the last has `valid` valid ones.
    #[inline(always)]
    unsafe fn columns<S: Simd, const W: usize>(&self, at: usize, valid: usize) {
        let (lanes, splat) = (<A::V<S>>::LANES, <A::V<S>>::splat);
        let mut sums = [splat(A::ZERO); W];
        // SAFETY: the caller guarantees that the rows and the destinations are valid.
        unsafe {
            for row in 0..self.rows {
                for (w, sum) in sums.iter_mut().enumerate() {
                    let at = at + w * lanes;
                    let d = load::<S, A>(self.d.at(row, at), valid);
                    *sum = match self.factor {
                        Factor::One => sum.add(d),
                        Factor::Of(z) => d.fma(load::<S, A>(z.at(row, at), valid), *sum),
                        Factor::Normalized(z, stats) => {
                            let (m, delta, r) = (*stats.m.add(row), *stats.delta.add(row), *stats.r.add(row));
                            let z = load::<S, A>(z.at(row, at), valid).sub(splat(m)).sub(splat(delta));
                            d.fma(z.mul(splat(r)), *sum)
                        }
                    };
                }
            }
            for to in self.to.iter().take_while(|to| !to.is_null()) {
                for (w, &sum) in sums.iter().enumerate() {
                    let to = to.add(at + w * lanes);
                    store::<S, A>(to, load::<S, A>(to, valid).add(sum), valid);
                }
            }
        }
    }
}
