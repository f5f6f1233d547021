//! Matrix products for the trainer. Plain multiplications and additions, in loops that the compiler turns into vectors:
//! fused ones have no instruction in WebAssembly. The order of each sum is fixed, so training gives the same numbers on
//! every machine.

use layernorm::Float;

/// Columns that are summed side by side.
const WIDE: usize = 8;

/// Operand A: element (i, k) is at `i·row + k·step`.
#[derive(Clone, Copy)]
pub(super) struct Left<'a, A> {
    numbers: &'a [A],
    row: usize,
    step: usize,
}

impl<'a, A> Left<'a, A> {
    /// A matrix with this many columns.
    pub(super) fn rows(numbers: &'a [A], columns: usize) -> Self {
        Left { numbers, row: columns, step: 1 }
    }

    /// The transpose of a matrix with this many columns.
    pub(super) fn transposed(numbers: &'a [A], columns: usize) -> Self {
        Left { numbers, row: 1, step: columns }
    }
}

/// Computes C = A·B for C `[…, n]` and B `[K, n]`.
pub(super) fn product<A: Float>(a: Left<A>, b: &[A], c: &mut [A], n: usize) {
    let wide = n - n % WIDE;
    for (i, c) in c.chunks_exact_mut(n).enumerate() {
        let (blocks, rest) = c.split_at_mut(wide);
        for (block, c) in blocks.chunks_exact_mut(WIDE).enumerate() {
            let mut sums = [A::ZERO; WIDE];
            for (k, row) in b.chunks_exact(n).enumerate() {
                let left = a.numbers[i * a.row + k * a.step];
                for (sum, &right) in sums.iter_mut().zip(&row[block * WIDE..][..WIDE]) {
                    *sum = *sum + left * right;
                }
            }
            c.copy_from_slice(&sums);
        }
        rest.fill(A::ZERO);
        for (k, row) in b.chunks_exact(n).enumerate() {
            let left = a.numbers[i * a.row + k * a.step];
            for (sum, &right) in rest.iter_mut().zip(&row[wide..]) {
                *sum = *sum + left * right;
            }
        }
    }
}

/// Writes the transpose of a matrix `[rows, columns]`.
pub(super) fn transpose<A: Float>(from: &[A], columns: usize, to: &mut [A]) {
    let rows = to.len() / columns;
    for (i, row) in from.chunks_exact(columns).enumerate() {
        for (j, &number) in row.iter().enumerate() {
            to[j * rows + i] = number;
        }
    }
}

/// Adds the columns of a matrix `[…, n]`, row by row.
pub(super) fn column_sums<A: Float>(from: &[A], to: &mut [A]) {
    to.fill(A::ZERO);
    for row in from.chunks_exact(to.len()) {
        to.iter_mut().zip(row).for_each(|(sum, &number)| *sum = *sum + number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_those_of_the_definition() {
        // Small whole numbers: every sum is exact.
        let matrix = |rows: usize, columns: usize, seed: usize| -> Vec<f64> {
            (0..rows * columns).map(|i| ((i * 7 + seed) % 11) as f64 - 5.0).collect()
        };
        for (m, k, n) in [(1, 1, 1), (3, 4, 8), (2, 5, 10), (5, 3, 17), (4, 196, 64)] {
            let (a, b) = (matrix(m, k, 1), matrix(k, n, 2));
            let (mut c, mut across) = (vec![1.0; m * n], vec![0.0; m * k]);
            transpose(&a, k, &mut across);
            for left in [Left::rows(&a, k), Left::transposed(&across, m)] {
                product(left, &b, &mut c, n);
                for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                    let expected: f64 = (0..k).map(|l| a[i * k + l] * b[l * n + j]).sum();
                    assert_eq!(c[i * n + j], expected, "{m}x{k}x{n} at {i}, {j}");
                }
            }
            let mut sums = vec![0.0; n];
            column_sums(&b, &mut sums);
            assert!((0..n).all(|j| sums[j] == (0..k).map(|l| b[l * n + j]).sum()));
        }
    }
}
