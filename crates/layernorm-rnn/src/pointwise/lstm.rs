//! LSTM.
//!
//! ```text
//! i = σ(aᵢ)   f = σ(a_f)   g = tanh(a_g)   o = σ(a_o)        coupled: i = 1 − f
//! c = f∘c₋ + i∘g
//! h = o∘t,  t = tanh(n),  n the cell or its norm
//! ```
//! Saved: i, f, g, o (in the order of the gates), c₋ and t.
//!
//! ```text
//! da_o = dh∘t∘o∘(1−o)        dn = dh∘o∘(1−t²)
//! daᵢ = dc∘g∘i∘(1−i)         da_f = dc∘c₋∘f∘(1−f)        da_g = dc∘i∘(1−g²)        dc₋ = dc∘f
//! coupled: da_f = dc∘(c₋−g)∘f∘(1−f)
//! ```

use super::{Rows, each_vector, load, store};
use crate::math::{sigmoid, tanh};
use crate::real::Real;
use layernorm::parts::{Kernel, Simd, Vector};

/// Computes the gates and the cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gates<A> {
    pub(crate) rows: usize,
    /// H.
    pub(crate) hidden: usize,
    pub(crate) coupled: bool,
    /// Whether o is computed here; otherwise it is computed later, from the new cell.
    pub(crate) output: bool,
    /// The gates before their nonlinearity, or one part of their sum.
    pub(crate) a: Rows<A>,
    /// The other part, if any.
    pub(crate) a2: Rows<A>,
    /// b with the offset, G·H numbers.
    pub(crate) bias: *const A,
    /// c₋.
    pub(crate) before: Rows<A>,
    /// i, f, g and o.
    pub(crate) gates: Rows<A>,
    /// c.
    pub(crate) cell: Rows<A>,
}

impl<A: Real> Kernel for Gates<A> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        // SAFETY: the caller guarantees that the rows are valid.
        unsafe {
            match (self.a2.is_some(), self.coupled) {
                (false, false) => self.all::<S, false, false>(),
                (false, true) => self.all::<S, false, true>(),
                (true, false) => self.all::<S, true, false>(),
                (true, true) => self.all::<S, true, true>(),
            }
        }
    }
}

impl<A: Real> Gates<A> {
    #[inline(always)]
    unsafe fn all<S: Simd, const TWO: bool, const COUPLED: bool>(self) {
        let (lanes, h) = (<A::V<S>>::LANES, self.hidden);
        let (one, first) = (<A::V<S>>::splat(A::ONE), if COUPLED { 0 } else { h });
        each_vector!(self.rows, h, lanes, |row, at, valid| {
            // SAFETY: the caller guarantees that the rows are valid.
            unsafe {
                let f = sigmoid(self.sum::<S, TWO>(row, first + at, valid));
                let i = if COUPLED { one.sub(f) } else { sigmoid(self.sum::<S, TWO>(row, at, valid)) };
                let g = tanh(self.sum::<S, TWO>(row, first + h + at, valid));
                if !COUPLED {
                    store::<S, A>(self.gates.at(row, at), i, valid);
                }
                store::<S, A>(self.gates.at(row, first + at), f, valid);
                store::<S, A>(self.gates.at(row, first + h + at), g, valid);
                if self.output {
                    let o = sigmoid(self.sum::<S, TWO>(row, first + 2 * h + at, valid));
                    store::<S, A>(self.gates.at(row, first + 2 * h + at), o, valid);
                }
                let c = f.fma(load::<S, A>(self.before.at(row, at), valid), i.mul(g));
                store::<S, A>(self.cell.at(row, at), c, valid);
            }
        });
    }

    #[inline(always)]
    unsafe fn sum<S: Simd, const TWO: bool>(&self, row: usize, at: usize, valid: usize) -> A::V<S> {
        // SAFETY: the caller guarantees that the rows are valid.
        unsafe {
            let mut a = load::<S, A>(self.a.at(row, at), valid);
            if TWO {
                a = a.add(load::<S, A>(self.a2.at(row, at), valid));
            }
            a.add(load::<S, A>(self.bias.add(at), valid))
        }
    }
}

/// Computes o of a gate that depends on the new cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LateGate<A> {
    pub(crate) rows: usize,
    pub(crate) hidden: usize,
    /// o before its nonlinearity.
    pub(crate) a: Rows<A>,
    pub(crate) bias: *const A,
    pub(crate) o: Rows<A>,
}

impl<A: Real> Kernel for LateGate<A> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        each_vector!(self.rows, self.hidden, <A::V<S>>::LANES, |row, at, valid| {
            // SAFETY: the caller guarantees that the rows are valid.
            unsafe {
                let a = load::<S, A>(self.a.at(row, at), valid).add(load::<S, A>(self.bias.add(at), valid));
                store::<S, A>(self.o.at(row, at), sigmoid(a), valid);
            }
        });
    }
}

/// Computes the cell's output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Show<A> {
    pub(crate) rows: usize,
    pub(crate) hidden: usize,
    pub(crate) o: Rows<A>,
    /// The cell or its norm.
    pub(crate) n: Rows<A>,
    pub(crate) t: Rows<A>,
    pub(crate) h: Rows<A>,
}

impl<A: Real> Kernel for Show<A> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        each_vector!(self.rows, self.hidden, <A::V<S>>::LANES, |row, at, valid| {
            // SAFETY: the caller guarantees that the rows are valid.
            unsafe {
                let t = tanh(load::<S, A>(self.n.at(row, at), valid));
                store::<S, A>(self.t.at(row, at), t, valid);
                store::<S, A>(self.h.at(row, at), load::<S, A>(self.o.at(row, at), valid).mul(t), valid);
            }
        });
    }
}

/// Computes the gradient through the cell's output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShowBack<A> {
    pub(crate) rows: usize,
    pub(crate) hidden: usize,
    pub(crate) dh: Rows<A>,
    pub(crate) o: Rows<A>,
    pub(crate) t: Rows<A>,
    /// Added to dn, if any.
    pub(crate) dc: Rows<A>,
    pub(crate) da: Rows<A>,
    pub(crate) dn: Rows<A>,
}

impl<A: Real> Kernel for ShowBack<A> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let one = <A::V<S>>::splat(A::ONE);
        each_vector!(self.rows, self.hidden, <A::V<S>>::LANES, |row, at, valid| {
            // SAFETY: the caller guarantees that the rows are valid.
            unsafe {
                let dh = load::<S, A>(self.dh.at(row, at), valid);
                let (o, t) = (load::<S, A>(self.o.at(row, at), valid), load::<S, A>(self.t.at(row, at), valid));
                let da = dh.mul(t).mul(o).mul(one.sub(o));
                let mut dn = dh.mul(o).mul(t.neg_fma(t, one));
                if self.dc.is_some() {
                    dn = dn.add(load::<S, A>(self.dc.at(row, at), valid));
                }
                store::<S, A>(self.da.at(row, at), da, valid);
                store::<S, A>(self.dn.at(row, at), dn, valid);
            }
        });
    }
}

/// Computes the gradient through the cell and the gates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GatesBack<A> {
    pub(crate) rows: usize,
    pub(crate) hidden: usize,
    pub(crate) coupled: bool,
    pub(crate) dc: Rows<A>,
    pub(crate) gates: Rows<A>,
    pub(crate) before: Rows<A>,
    /// Gradients of i, f and g; that of o was written before.
    pub(crate) da: Rows<A>,
    pub(crate) dbefore: Rows<A>,
}

impl<A: Real> Kernel for GatesBack<A> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let (h, one) = (self.hidden, <A::V<S>>::splat(A::ONE));
        let first = if self.coupled { 0 } else { h };
        each_vector!(self.rows, h, <A::V<S>>::LANES, |row, at, valid| {
            // SAFETY: the caller guarantees that the rows are valid.
            unsafe {
                let dc = load::<S, A>(self.dc.at(row, at), valid);
                let before = load::<S, A>(self.before.at(row, at), valid);
                let f = load::<S, A>(self.gates.at(row, first + at), valid);
                let g = load::<S, A>(self.gates.at(row, first + h + at), valid);
                let i = if self.coupled { one.sub(f) } else { load::<S, A>(self.gates.at(row, at), valid) };
                let from_f = if self.coupled { before.sub(g) } else { before };
                if !self.coupled {
                    store::<S, A>(self.da.at(row, at), dc.mul(g).mul(i).mul(one.sub(i)), valid);
                }
                let df = dc.mul(from_f).mul(f).mul(one.sub(f));
                store::<S, A>(self.da.at(row, first + at), df, valid);
                store::<S, A>(self.da.at(row, first + h + at), dc.mul(i).mul(g.neg_fma(g, one)), valid);
                store::<S, A>(self.dbefore.at(row, at), dc.mul(f), valid);
            }
        });
    }
}
