//! The canonical sum along a row, for several sums at once.
//!
//! The terms to add are a [`Terms`]: a struct, not a closure, because only functions marked `inline(always)` are
//! guaranteed to be compiled with the instruction set of the kernel that inlines them, and closures cannot be marked.
//!
//! A lane starts at +0.0. Instead of adding its first term to that, we start with the term and add +0.0 once at the
//! end of a block. The two differ only if every term is −0.0, and then that addition gives +0.0.

use super::vector::Vector;
use crate::element::Float;
use crate::sum::{BLOCK, LANES, PairTree};
use std::mem::MaybeUninit;

/// Lanes of the smallest vector (f64 on NEON), which determines the largest number of vectors in 256 lanes.
const MIN_LANES: usize = 2;

/// Terms of R sums along a row. Implementations mark the methods as `inline(always)`.
pub(crate) trait Terms<V: Vector, const R: usize> {
    /// Returns the terms of the elements `at .. at + valid`, lane by lane; 0 in the lanes from `valid` on. `valid` is
    /// the constant `V::LANES` except at the end of a row.
    ///
    /// # Safety
    /// The row has the elements.
    unsafe fn first(&self, at: usize, valid: usize) -> [V; R];
    /// Adds the same terms to accumulators: `acc + a`, or `fma(a, b, acc)` for a sum of products.
    ///
    /// # Safety
    /// The row has the elements.
    unsafe fn add(&self, acc: [V; R], at: usize, valid: usize) -> [V; R];
}

/// Computes the sums of a row of more than one block.
///
/// # Safety
/// The row has n elements.
#[inline(always)]
pub(crate) unsafe fn row_sums<V: Vector, const R: usize>(n: usize, terms: &impl Terms<V, R>) -> [V::Elem; R] {
    let mut trees = [const { PairTree::new() }; R];
    let whole = n / BLOCK * BLOCK;
    let mut start = 0;
    while start < n {
        // SAFETY: the block lies in the row.
        let block =
            unsafe { if start < whole { whole_rounds(terms, start, 4) } else { any_rounds(terms, start, n - whole) } };
        for (tree, sum) in trees.iter_mut().zip(block) {
            tree.push(sum.fold());
        }
        start += BLOCK;
    }
    let mut sums = [V::Elem::ZERO; R];
    for (sum, tree) in sums.iter_mut().zip(trees) {
        *sum = tree.finish();
    }
    sums
}

/// Method of summing a row of up to one block. It depends only on the row's length, so it is chosen once for many
/// rows: see [`with_block`].
pub(crate) trait Block {
    /// Computes the sums, folded to one vector each. [`Vector::fold`] completes them.
    ///
    /// # Safety
    /// The row has n elements, and this method supports n.
    unsafe fn sums<V: Vector, const R: usize>(n: usize, terms: &impl Terms<V, R>) -> [V; R];
}

/// Exactly P vectors, and at most 256 elements.
pub(crate) struct Few<const P: usize>;
/// Whole rounds of 256 elements.
pub(crate) struct Whole;
/// Any number of elements.
pub(crate) struct Any;

impl<const P: usize> Block for Few<P> {
    #[inline(always)]
    unsafe fn sums<V: Vector, const R: usize>(_n: usize, terms: &impl Terms<V, R>) -> [V; R] {
        // SAFETY: guaranteed by the caller.
        unsafe { few_vectors::<V, R, P>(terms) }
    }
}

impl Block for Whole {
    #[inline(always)]
    unsafe fn sums<V: Vector, const R: usize>(n: usize, terms: &impl Terms<V, R>) -> [V; R] {
        // SAFETY: guaranteed by the caller.
        unsafe { whole_rounds(terms, 0, n / LANES) }
    }
}

impl Block for Any {
    #[inline(always)]
    unsafe fn sums<V: Vector, const R: usize>(n: usize, terms: &impl Terms<V, R>) -> [V; R] {
        // SAFETY: guaranteed by the caller.
        unsafe { any_rounds(terms, 0, n) }
    }
}

/// Evaluates an expression with `$block` as the [`Block`] type that fits rows of `$n` elements in vectors of
/// `$lanes`.
macro_rules! with_block {
    ($n:expr, $lanes:expr, $block:ident => $call:expr) => {
        match $n {
            n if n == $lanes => {
                type $block = $crate::kernels::reduce::Few<1>;
                $call
            }
            n if n == 2 * $lanes => {
                type $block = $crate::kernels::reduce::Few<2>;
                $call
            }
            n if n == 4 * $lanes => {
                type $block = $crate::kernels::reduce::Few<4>;
                $call
            }
            n if n == 8 * $lanes => {
                type $block = $crate::kernels::reduce::Few<8>;
                $call
            }
            256 | 512 | 768 | 1024 => {
                type $block = $crate::kernels::reduce::Whole;
                $call
            }
            _ => {
                type $block = $crate::kernels::reduce::Any;
                $call
            }
        }
    };
}
pub(crate) use with_block;

#[inline(always)]
fn add_each<V: Vector, const R: usize>(mut a: [V; R], b: [V; R]) -> [V; R] {
    for (a, b) in a.iter_mut().zip(b) {
        *a = a.add(b);
    }
    a
}

/// Sums P vectors of at most 256 elements in total: each lane has at most one. Levels of zeros are skipped.
#[inline(always)]
unsafe fn few_vectors<V: Vector, const R: usize, const P: usize>(terms: &impl Terms<V, R>) -> [V; R] {
    let zero = [V::splat(V::Elem::ZERO); R];
    let mut lanes = [zero; P];
    for (i, lane) in lanes.iter_mut().enumerate() {
        // SAFETY: the caller guarantees P vectors of valid elements.
        *lane = unsafe { terms.first(i * V::LANES, V::LANES) };
    }
    add_each(fold_vectors(&mut lanes), zero)
}

/// Vectors of accumulators processed side by side: with two sums they fill the registers, and memory is read in
/// order.
const SIDE_BY_SIDE: usize = 8;

/// Sums a block of whole rounds of 256 elements.
#[inline(always)]
unsafe fn whole_rounds<V: Vector, const R: usize>(terms: &impl Terms<V, R>, start: usize, rounds: usize) -> [V; R] {
    let mut lanes = [const { MaybeUninit::uninit() }; LANES / MIN_LANES];
    let lanes = &mut lanes[..LANES / V::LANES];
    for (part, sums) in lanes.chunks_exact_mut(SIDE_BY_SIDE).enumerate() {
        let start = start + part * SIDE_BY_SIDE * V::LANES;
        let mut acc = [[V::splat(V::Elem::ZERO); R]; SIDE_BY_SIDE];
        // SAFETY: the caller guarantees that the elements of the rounds are valid.
        unsafe {
            for (i, acc) in acc.iter_mut().enumerate() {
                *acc = terms.first(start + i * V::LANES, V::LANES);
            }
            for round in 1..rounds {
                for (i, acc) in acc.iter_mut().enumerate() {
                    *acc = terms.add(*acc, start + round * LANES + i * V::LANES, V::LANES);
                }
            }
        }
        for (sums, acc) in sums.iter_mut().zip(acc) {
            sums.write(acc);
        }
    }
    // SAFETY: the loop has initialized all of them.
    let folded = fold_vectors(unsafe { lanes.assume_init_mut() });
    add_each(folded, [V::splat(V::Elem::ZERO); R])
}

/// Sums a block of any length up to 1024.
#[inline(always)]
unsafe fn any_rounds<V: Vector, const R: usize>(terms: &impl Terms<V, R>, start: usize, len: usize) -> [V; R] {
    let zero = [V::splat(V::Elem::ZERO); R];
    let mut lanes = [const { MaybeUninit::uninit() }; LANES / MIN_LANES];
    // Levels of zeros are skipped.
    let lanes = &mut lanes[..len.min(LANES).div_ceil(V::LANES).next_power_of_two()];
    for (i, sums) in lanes.iter_mut().enumerate() {
        let mut acc = zero;
        let mut at = i * V::LANES;
        // SAFETY: the elements are below `start + len`.
        unsafe {
            while at + V::LANES <= len {
                acc = terms.add(acc, start + at, V::LANES);
                at += LANES;
            }
            if at < len {
                acc = terms.add(acc, start + at, len - at);
            }
        }
        sums.write(acc);
    }
    // SAFETY: the loop has initialized all of them.
    fold_vectors(unsafe { lanes.assume_init_mut() })
}

/// Folds vectors, high bit first. Their number is a power of two.
#[inline(always)]
fn fold_vectors<V: Vector, const R: usize>(vectors: &mut [[V; R]]) -> [V; R] {
    let mut s = vectors.len() / 2;
    while s > 0 {
        for l in 0..s {
            vectors[l] = add_each(vectors[l], vectors[l + s]);
        }
        s /= 2;
    }
    vectors[0]
}
