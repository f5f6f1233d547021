//! GRU.
//!
//! ```text
//! r = σ(a_r)   z = σ(a_z)
//! n = tanh(x_n + r∘q + b)        q: the candidate's recurrent part, or the whole sum (then x_n = 0)
//! n = tanh(x_n + q + b)          if the reset gate has multiplied the state before the product
//! h = z∘h₋ + (1−z)∘n             or z∘n + (1−z)∘h₋
//! ```
//! Saved: r, z, n, q and h₋.
//!
//! ```text
//! dn = dh∘(1−z)∘(1−n²)    dz = dh∘(h₋−n)∘z∘(1−z)    dr = dn∘q∘r∘(1−r)    dq = dn∘r    dh₋ = dh∘z
//! ```
//! With the other update rule, z and 1 − z are exchanged.

use super::{Rows, each_vector, load, store};
use crate::math::{sigmoid, tanh};
use crate::real::Real;
use layernorm::parts::{Kernel, Simd, Vector};

/// Computes r and z, and r∘h₋ if the product needs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gates<A> {
    pub(crate) rows: usize,
    pub(crate) hidden: usize,
    /// The gates before their nonlinearity, or one part of their sum.
    pub(crate) a: Rows<A>,
    /// The other part, if any.
    pub(crate) a2: Rows<A>,
    pub(crate) bias: *const A,
    /// r, z and n.
    pub(crate) gates: Rows<A>,
    /// h₋.
    pub(crate) before: Rows<A>,
    /// r∘h₋, if requested.
    pub(crate) reset: Rows<A>,
}

impl<A: Real> Kernel for Gates<A> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let h = self.hidden;
        each_vector!(self.rows, h, <A::V<S>>::LANES, |row, at, valid| {
            // SAFETY: the caller guarantees that the rows are valid.
            unsafe {
                let r = sigmoid(self.sum::<S>(row, at, valid));
                store::<S, A>(self.gates.at(row, at), r, valid);
                store::<S, A>(self.gates.at(row, h + at), sigmoid(self.sum::<S>(row, h + at, valid)), valid);
                if self.reset.is_some() {
                    let before = load::<S, A>(self.before.at(row, at), valid);
                    store::<S, A>(self.reset.at(row, at), r.mul(before), valid);
                }
            }
        });
    }
}

impl<A: Real> Gates<A> {
    #[inline(always)]
    unsafe fn sum<S: Simd>(&self, row: usize, at: usize, valid: usize) -> A::V<S> {
        // SAFETY: the caller guarantees that the rows are valid.
        unsafe {
            let mut a = load::<S, A>(self.a.at(row, at), valid);
            if self.a2.is_some() {
                a = a.add(load::<S, A>(self.a2.at(row, at), valid));
            }
            a.add(load::<S, A>(self.bias.add(at), valid))
        }
    }
}

/// Computes n and h.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mix<A> {
    pub(crate) rows: usize,
    pub(crate) hidden: usize,
    /// Whether r multiplies q.
    pub(crate) reset: bool,
    /// Whether z keeps the old state.
    pub(crate) keeps: bool,
    /// x_n, if any.
    pub(crate) x: Rows<A>,
    pub(crate) q: Rows<A>,
    pub(crate) bias: *const A,
    pub(crate) gates: Rows<A>,
    pub(crate) before: Rows<A>,
    /// Where q is saved.
    pub(crate) saved: Rows<A>,
    pub(crate) h: Rows<A>,
}

impl<A: Real> Kernel for Mix<A> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let h = self.hidden;
        each_vector!(self.rows, h, <A::V<S>>::LANES, |row, at, valid| {
            // SAFETY: the caller guarantees that the rows are valid.
            unsafe {
                let q = load::<S, A>(self.q.at(row, at), valid);
                let mut rest = load::<S, A>(self.bias.add(at), valid);
                if self.x.is_some() {
                    rest = load::<S, A>(self.x.at(row, at), valid).add(rest);
                }
                let a = if self.reset { load::<S, A>(self.gates.at(row, at), valid).fma(q, rest) } else { rest.add(q) };
                let n = tanh(a);
                let z = load::<S, A>(self.gates.at(row, h + at), valid);
                let before = load::<S, A>(self.before.at(row, at), valid);
                let new = if self.keeps { z.fma(before.sub(n), n) } else { z.fma(n.sub(before), before) };
                store::<S, A>(self.gates.at(row, 2 * h + at), n, valid);
                store::<S, A>(self.saved.at(row, at), q, valid);
                store::<S, A>(self.h.at(row, at), new, valid);
            }
        });
    }
}

/// Computes the gradient through h and n, and that of r if r multiplies q.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MixBack<A> {
    pub(crate) rows: usize,
    pub(crate) hidden: usize,
    pub(crate) reset: bool,
    pub(crate) keeps: bool,
    pub(crate) dh: Rows<A>,
    pub(crate) gates: Rows<A>,
    pub(crate) q: Rows<A>,
    pub(crate) before: Rows<A>,
    /// dr (if r multiplies q), dz and dn.
    pub(crate) da: Rows<A>,
    /// dr, dz and dq, if requested separately.
    pub(crate) dq: Rows<A>,
    /// Accumulates dh₋ through the mixture.
    pub(crate) dbefore: Rows<A>,
}

impl<A: Real> Kernel for MixBack<A> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let (h, one) = (self.hidden, <A::V<S>>::splat(A::ONE));
        each_vector!(self.rows, h, <A::V<S>>::LANES, |row, at, valid| {
            // SAFETY: the caller guarantees that the rows are valid.
            unsafe {
                let dh = load::<S, A>(self.dh.at(row, at), valid);
                let z = load::<S, A>(self.gates.at(row, h + at), valid);
                let n = load::<S, A>(self.gates.at(row, 2 * h + at), valid);
                let before = load::<S, A>(self.before.at(row, at), valid);
                let (rest, change) = (one.sub(z), before.sub(n));
                let (new, old) = if self.keeps { (rest, z) } else { (z, rest) };
                let dn = dh.mul(new).mul(n.neg_fma(n, one));
                let slope = dh.mul(z).mul(rest);
                let dz = if self.keeps { slope.mul(change) } else { slope.mul(n.sub(before)) };
                store::<S, A>(self.da.at(row, h + at), dz, valid);
                store::<S, A>(self.da.at(row, 2 * h + at), dn, valid);
                if self.reset {
                    let r = load::<S, A>(self.gates.at(row, at), valid);
                    let dr = dn.mul(load::<S, A>(self.q.at(row, at), valid)).mul(r).mul(one.sub(r));
                    store::<S, A>(self.da.at(row, at), dr, valid);
                    if self.dq.is_some() {
                        store::<S, A>(self.dq.at(row, at), dr, valid);
                        store::<S, A>(self.dq.at(row, h + at), dz, valid);
                        store::<S, A>(self.dq.at(row, 2 * h + at), dn.mul(r), valid);
                    }
                }
                let sum = load::<S, A>(self.dbefore.at(row, at), valid);
                store::<S, A>(self.dbefore.at(row, at), dh.fma(old, sum), valid);
            }
        });
    }
}

/// Computes the gradient through r∘h₋, if that is the product's operand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResetBack<A> {
    pub(crate) rows: usize,
    pub(crate) hidden: usize,
    /// d(r∘h₋).
    pub(crate) dreset: Rows<A>,
    pub(crate) gates: Rows<A>,
    pub(crate) before: Rows<A>,
    /// Destination of dr.
    pub(crate) da: Rows<A>,
    /// Accumulates dh₋.
    pub(crate) dbefore: Rows<A>,
}

impl<A: Real> Kernel for ResetBack<A> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let one = <A::V<S>>::splat(A::ONE);
        each_vector!(self.rows, self.hidden, <A::V<S>>::LANES, |row, at, valid| {
            // SAFETY: the caller guarantees that the rows are valid.
            unsafe {
                let d = load::<S, A>(self.dreset.at(row, at), valid);
                let r = load::<S, A>(self.gates.at(row, at), valid);
                let before = load::<S, A>(self.before.at(row, at), valid);
                store::<S, A>(self.da.at(row, at), d.mul(before).mul(r).mul(one.sub(r)), valid);
                let sum = load::<S, A>(self.dbefore.at(row, at), valid);
                store::<S, A>(self.dbefore.at(row, at), d.fma(r, sum), valid);
            }
        });
    }
}
