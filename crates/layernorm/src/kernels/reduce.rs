//! The canonical sum along a row, for several sums at once.
//!
//! A caller gives `step(acc, at, valid)`: it adds the terms of the elements `at .. at + valid` to the accumulators, lane
//! by lane, and nothing to the lanes from `valid` on. `valid` is the constant `LANES` but at the end of a row.

use super::vector::Vector;
use crate::element::Float;
use crate::sum::{BLOCK, LANES, PairTree};
use std::mem::MaybeUninit;

/// Lanes of the smallest vector (f64 on NEON): it sets how many vectors the 256 lanes can be.
const LEAST_LANES: usize = 2;

/// The sums of a row of more than one block.
#[inline(always)]
pub(crate) fn row_sums<V: Vector, const R: usize>(
    n: usize,
    step: impl Fn(&mut [V; R], usize, usize),
) -> [V::Elem; R] {
    let mut trees = [const { () }; R].map(|()| PairTree::new());
    let mut push = |block: [V; R]| {
        for (tree, sum) in trees.iter_mut().zip(block) {
            tree.push(sum.fold());
        }
    };
    let (whole, rest) = (n / BLOCK * BLOCK, n % BLOCK);
    for start in (0..whole).step_by(BLOCK) {
        push(folded(|lane| {
            let mut acc = [V::splat(V::Elem::ZERO); R];
            step(&mut acc, start + lane, V::LANES);
            step(&mut acc, start + LANES + lane, V::LANES);
            step(&mut acc, start + 2 * LANES + lane, V::LANES);
            step(&mut acc, start + 3 * LANES + lane, V::LANES);
            acc
        }));
    }
    if rest > 0 {
        push(block_sums(whole, rest, &step));
    }
    trees.map(PairTree::finish)
}

/// The sums of a block of up to 1024 elements from `start` on, folded to one vector. What is left is [`Vector::fold`].
#[inline(always)]
pub(crate) fn block_sums<V: Vector, const R: usize>(
    start: usize,
    len: usize,
    step: &impl Fn(&mut [V; R], usize, usize),
) -> [V; R] {
    if len < LANES {
        return short_block(start, len, step);
    }
    // Whole rounds of 256 lanes, then what is left of one.
    let (rounds, rest) = (len / LANES, len % LANES);
    folded(|lane| {
        let mut acc = [V::splat(V::Elem::ZERO); R];
        for round in 0..rounds {
            step(&mut acc, start + round * LANES + lane, V::LANES);
        }
        let at = start + rounds * LANES + lane;
        if lane + V::LANES <= rest {
            step(&mut acc, at, V::LANES);
        } else if lane < rest {
            step(&mut acc, at, rest - lane);
        }
        acc
    })
}

#[inline(always)]
fn add_each<V: Vector, const R: usize>(mut a: [V; R], b: [V; R]) -> [V; R] {
    for (a, b) in a.iter_mut().zip(b) {
        *a = a.add(b);
    }
    a
}

/// Folds the 256 lanes, whose accumulators `lanes(first lane of a vector)` gives, high bit first to one vector. The two
/// highest bits are folded as the accumulators come, so that few are alive at a time.
#[inline(always)]
fn folded<V: Vector, const R: usize>(lanes: impl Fn(usize) -> [V; R]) -> [V; R] {
    const QUARTER: usize = LANES / 4;
    let mut quarter = [const { MaybeUninit::uninit() }; QUARTER / LEAST_LANES];
    let quarter = &mut quarter[..QUARTER / V::LANES];
    for (i, sums) in quarter.iter_mut().enumerate() {
        let mut four = [[V::splat(V::Elem::ZERO); R]; 4];
        for (quarter, acc) in four.iter_mut().enumerate() {
            *acc = lanes(i * V::LANES + quarter * QUARTER);
        }
        let [a, b, c, d] = four;
        sums.write(add_each(add_each(a, c), add_each(b, d)));
    }
    // SAFETY: the loop has written all of them.
    fold_vectors(unsafe { quarter.assume_init_mut() })
}

/// Less than 256 elements: one vector after the other, each lane has at most one element. Levels of zeros are skipped.
#[inline(always)]
fn short_block<V: Vector, const R: usize>(
    start: usize,
    len: usize,
    step: &impl Fn(&mut [V; R], usize, usize),
) -> [V; R] {
    let (whole, rest) = (len / V::LANES, len % V::LANES);
    let mut lanes = [const { MaybeUninit::uninit() }; LANES / LEAST_LANES];
    let lanes = &mut lanes[..len.div_ceil(V::LANES).next_power_of_two()];
    for (i, sums) in lanes.iter_mut().enumerate() {
        let mut acc = [V::splat(V::Elem::ZERO); R];
        if i < whole {
            step(&mut acc, start + i * V::LANES, V::LANES);
        } else if i == whole && rest > 0 {
            step(&mut acc, start + i * V::LANES, rest);
        }
        sums.write(acc);
    }
    // SAFETY: the loop has written all of them.
    fold_vectors(unsafe { lanes.assume_init_mut() })
}

/// Folds a power of two of vectors, high bit first.
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
