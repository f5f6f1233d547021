//! Sums down the rows: gradients of biases, gains and peepholes. Rows are taken in order from +0, and the sum is added to
//! what is there: Σ d, Σ d∘x̂ with x̂ = ((z − m) − δ)·r, or Σ d∘z.

use super::{Rows, each_vector, load, store};
use crate::real::Real;
use layernorm::parts::{Kernel, Simd, StatRows, Vector};

/// What each number of d is multiplied by.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Factor<A> {
    /// Nothing.
    One,
    /// A number of these rows.
    Of(Rows<A>),
    /// The normalized number of these rows.
    Normalized(Rows<A>, StatRows<A>),
}

/// to += Σ d∘factor over the rows, for n columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColumnSum<A> {
    pub(crate) rows: usize,
    pub(crate) n: usize,
    pub(crate) d: Rows<A>,
    pub(crate) factor: Factor<A>,
    pub(crate) to: *mut A,
}

impl<A: Real> Kernel for ColumnSum<A> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        each_vector!(1, self.n, <A::V<S>>::LANES, |_first, at, valid| {
            let mut sum = <A::V<S>>::splat(A::ZERO);
            for row in 0..self.rows {
                // SAFETY: the caller vouches for the rows.
                unsafe {
                    let d = load::<S, A>(self.d.at(row, at), valid);
                    sum = match self.factor {
                        Factor::One => sum.add(d),
                        Factor::Of(z) => d.fma(load::<S, A>(z.at(row, at), valid), sum),
                        Factor::Normalized(z, stats) => {
                            let splat = <A::V<S>>::splat;
                            let (m, delta, r) = (*stats.m.add(row), *stats.delta.add(row), *stats.r.add(row));
                            let z = load::<S, A>(z.at(row, at), valid).sub(splat(m)).sub(splat(delta));
                            d.fma(z.mul(splat(r)), sum)
                        }
                    };
                }
            }
            // SAFETY: as above.
            unsafe {
                let before = load::<S, A>(self.to.add(at), valid);
                store::<S, A>(self.to.add(at), before.add(sum), valid);
            }
        });
    }
}
