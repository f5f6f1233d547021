//! Matrix products for training in pages, with plain multiplications and additions: C = A·B, where every element is the
//! sum of a(i, k)·b(k, j) in the order of k, from +0. The order depends on nothing else.

use crate::element::Float;
use crate::error::Error;
use crate::kernels::Kernel;
use crate::kernels::vector::{Simd, Vector};

/// Rows that are computed together.
const TOGETHER: usize = 4;

/// Operand A: element (i, k) is at `i·row + k·step`.
#[derive(Clone, Copy, Debug)]
pub struct Left<'a, A> {
    /// The elements.
    pub numbers: &'a [A],
    /// Distance of rows.
    pub row: usize,
    /// Distance of columns.
    pub step: usize,
}

/// C = A·B for B `[K, n]` and C `[rows, n]`.
#[derive(Debug)]
pub struct Product<'a, A> {
    a: Left<'a, A>,
    b: &'a [A],
    c: &'a mut [A],
    n: usize,
    depth: usize,
}

impl<'a, A: Float> Product<'a, A> {
    /// Fails if the lengths do not fit together.
    pub fn new(a: Left<'a, A>, b: &'a [A], c: &'a mut [A], n: usize) -> Result<Self, Error> {
        let (depth, rows) = (b.len() / n.max(1), c.len() / n.max(1));
        let whole = |what, found: usize, count: usize| {
            if count * n == found { Ok(()) } else { Err(Error::Length { what, expected: count * n, found }) }
        };
        whole("operand B", b.len(), depth)?;
        whole("product", c.len(), rows)?;
        if rows > 0 && depth > 0 {
            let last = (rows - 1).checked_mul(a.row).zip((depth - 1).checked_mul(a.step));
            let expected = last.and_then(|(row, step)| row.checked_add(step)?.checked_add(1)).unwrap_or(usize::MAX);
            if a.numbers.len() < expected {
                return Err(Error::Length { what: "operand A", expected, found: a.numbers.len() });
            }
        }
        Ok(Product { a, b, c, n, depth })
    }
}

impl<A: Float> Kernel for Product<'_, A> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(mut self) {
        let lanes = <A::V<S>>::LANES;
        let rows = self.c.len() / self.n.max(1);
        let mut row = 0;
        // SAFETY: rows and columns lie in C, whose size `new` has compared with those of A and B.
        unsafe {
            while row < rows {
                let whole = row + TOGETHER <= rows;
                let mut column = 0;
                while column < self.n {
                    match (whole, column + lanes <= self.n) {
                        (true, true) => self.four::<S>(row, column, lanes),
                        (true, false) => self.four::<S>(row, column, self.n - column),
                        (false, true) => self.one::<S>(row, column, lanes),
                        (false, false) => self.one::<S>(row, column, self.n - column),
                    }
                    column += lanes;
                }
                row += if whole { TOGETHER } else { 1 };
            }
        }
    }
}

impl<A: Float> Product<'_, A> {
    /// Computes `valid` columns of four rows.
    ///
    /// # Safety
    /// They lie in C.
    #[inline(always)]
    unsafe fn four<S: Simd>(&mut self, row: usize, column: usize, valid: usize) {
        let zero = <A::V<S>>::splat(A::ZERO);
        let (mut first, mut second, mut third, mut fourth) = (zero, zero, zero, zero);
        let distance = self.a.row;
        // SAFETY: the caller guarantees that the columns and rows exist; k is less than the depth.
        unsafe {
            for k in 0..self.depth {
                let b = self.load_b::<S>(k, column, valid);
                let a = self.a.numbers.as_ptr().add(row * distance + k * self.a.step);
                first = first.add(<A::V<S>>::splat(*a).mul(b));
                second = second.add(<A::V<S>>::splat(*a.add(distance)).mul(b));
                third = third.add(<A::V<S>>::splat(*a.add(2 * distance)).mul(b));
                fourth = fourth.add(<A::V<S>>::splat(*a.add(3 * distance)).mul(b));
            }
            for (i, sum) in [first, second, third, fourth].into_iter().enumerate() {
                self.store_c::<S>(row + i, column, valid, sum);
            }
        }
    }

    /// Computes `valid` columns of one row.
    ///
    /// # Safety
    /// They lie in C.
    #[inline(always)]
    unsafe fn one<S: Simd>(&mut self, row: usize, column: usize, valid: usize) {
        let mut sum = <A::V<S>>::splat(A::ZERO);
        // SAFETY: as in `four`.
        unsafe {
            for k in 0..self.depth {
                let a = *self.a.numbers.as_ptr().add(row * self.a.row + k * self.a.step);
                sum = sum.add(<A::V<S>>::splat(a).mul(self.load_b::<S>(k, column, valid)));
            }
            self.store_c::<S>(row, column, valid, sum);
        }
    }

    /// # Safety
    /// B has this row and `valid` columns from this one on, at most LANES.
    #[inline(always)]
    unsafe fn load_b<S: Simd>(&self, k: usize, column: usize, valid: usize) -> A::V<S> {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let b = self.b.as_ptr().add(k * self.n + column);
            if valid == <A::V<S>>::LANES { <A::V<S>>::load(b) } else { <A::V<S>>::load_first(b, valid) }
        }
    }

    /// # Safety
    /// C has this row and `valid` columns from this one on, at most LANES.
    #[inline(always)]
    unsafe fn store_c<S: Simd>(&mut self, row: usize, column: usize, valid: usize, sum: A::V<S>) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let c = self.c.as_mut_ptr().add(row * self.n + column);
            if valid == <A::V<S>>::LANES { sum.store(c) } else { sum.store_first(c, valid) }
        }
    }
}
