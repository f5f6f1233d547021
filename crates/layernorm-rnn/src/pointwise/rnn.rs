//! Simple RNN: h = tanh(a) or max(0, a). Saved: h. da = dh∘(1−h²), or dh where h > 0.

use super::{Rows, each_vector, load, store};
use crate::math::tanh;
use crate::real::Real;
use layernorm::parts::{Kernel, Simd, Vector};

/// Computes h.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Activate<A> {
    pub(crate) rows: usize,
    pub(crate) hidden: usize,
    pub(crate) relu: bool,
    /// The sum before the nonlinearity, or one part of it.
    pub(crate) a: Rows<A>,
    /// The other part, if any.
    pub(crate) a2: Rows<A>,
    pub(crate) bias: *const A,
    /// h, saved.
    pub(crate) gates: Rows<A>,
    pub(crate) h: Rows<A>,
}

impl<A: Real> Kernel for Activate<A> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        each_vector!(self.rows, self.hidden, <A::V<S>>::LANES, |row, at, valid| {
            // SAFETY: the caller guarantees that the rows are valid.
            unsafe {
                let mut a = load::<S, A>(self.a.at(row, at), valid);
                if self.a2.is_some() {
                    a = a.add(load::<S, A>(self.a2.at(row, at), valid));
                }
                a = a.add(load::<S, A>(self.bias.add(at), valid));
                let h = if self.relu { a.or_zero() } else { tanh(a) };
                store::<S, A>(self.gates.at(row, at), h, valid);
                store::<S, A>(self.h.at(row, at), h, valid);
            }
        });
    }
}

/// Computes da.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ActivateBack<A> {
    pub(crate) rows: usize,
    pub(crate) hidden: usize,
    pub(crate) relu: bool,
    pub(crate) dh: Rows<A>,
    pub(crate) gates: Rows<A>,
    pub(crate) da: Rows<A>,
}

impl<A: Real> Kernel for ActivateBack<A> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let one = <A::V<S>>::splat(A::ONE);
        each_vector!(self.rows, self.hidden, <A::V<S>>::LANES, |row, at, valid| {
            // SAFETY: the caller guarantees that the rows are valid.
            unsafe {
                let h = load::<S, A>(self.gates.at(row, at), valid);
                let dh = load::<S, A>(self.dh.at(row, at), valid);
                if self.relu {
                    for i in at..at + valid {
                        let (h, dh) = (*self.gates.at(row, i), *self.dh.at(row, i));
                        *self.da.at(row, i) = if h > A::ZERO { dh } else { A::ZERO };
                    }
                } else {
                    store::<S, A>(self.da.at(row, at), dh.mul(h.neg_fma(h, one)), valid);
                }
            }
        });
    }
}
