//! Element-wise arithmetic of the cells, vectorized: what remains of a step after the products and norms. Each file
//! has the forward kernels of a cell, then the backward ones, and names what is saved between them.

pub(crate) mod gru;
pub(crate) mod lstm;
pub(crate) mod rnn;
pub(crate) mod sums;

use crate::real::Real;
use layernorm::parts::{Simd, Vector};

/// Rows of numbers, `stride` apart. A null pointer means absent rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows<A> {
    pub(crate) ptr: *mut A,
    pub(crate) stride: usize,
}

impl<A> Rows<A> {
    /// No rows.
    pub(crate) const NONE: Rows<A> = Rows { ptr: std::ptr::null_mut(), stride: 0 };

    pub(crate) fn is_some(&self) -> bool {
        !self.ptr.is_null()
    }

    /// Returns a pointer to a number of a row. It may be dereferenced only if the number exists.
    #[inline(always)]
    pub(crate) fn at(&self, row: usize, column: usize) -> *mut A {
        self.ptr.wrapping_add(row * self.stride + column)
    }

    /// Returns the rows starting at this row and column.
    pub(crate) fn from(self, row: usize, column: usize) -> Rows<A> {
        if self.is_some() { Rows { ptr: self.at(row, column), ..self } } else { self }
    }
}

/// Loads `valid` numbers, with the constant LANES for a whole vector.
///
/// # Safety
/// `p` is valid for reads of `valid` numbers.
#[inline(always)]
pub(crate) unsafe fn load<S: Simd, A: Real>(p: *const A, valid: usize) -> A::V<S> {
    // SAFETY: guaranteed by the caller.
    unsafe { if valid == <A::V<S>>::LANES { <A::V<S>>::load(p) } else { <A::V<S>>::load_first(p, valid) } }
}

/// Stores `valid` numbers, with the constant LANES for a whole vector.
///
/// # Safety
/// `p` is valid for writes of `valid` numbers.
#[inline(always)]
pub(crate) unsafe fn store<S: Simd, A: Real>(p: *mut A, v: A::V<S>, valid: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { if valid == <A::V<S>>::LANES { v.store(p) } else { v.store_first(p, valid) } }
}

/// Runs `$body` for every row and every vector of its `$n` columns; `$row`, `$at` and `$valid` give the position.
macro_rules! each_vector {
    ($rows:expr, $n:expr, $lanes:expr, |$row:ident, $at:ident, $valid:ident| $body:block) => {
        for $row in 0..$rows {
            let mut $at = 0;
            while $at + $lanes <= $n {
                let $valid = $lanes;
                $body
                $at += $lanes;
            }
            if $at < $n {
                let $valid = $n - $at;
                $body
            }
        }
    };
}
pub(crate) use each_vector;
