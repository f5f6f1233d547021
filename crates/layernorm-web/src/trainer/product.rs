//! Matrices. Products use plain multiplications and additions: fused ones have no instruction in
//! WebAssembly. The order of each sum is fixed, so training gives the same numbers on every machine.

use crate::error::Error;
use layernorm::parts::Left;
use layernorm::{Context, Float};

/// Returns a matrix with this many columns as operand A of a product.
pub(crate) fn rows<A>(numbers: &[A], columns: usize) -> Left<'_, A> {
    Left { numbers, row: columns, step: 1 }
}

/// Returns the transpose of a matrix with this many columns as operand A.
pub(crate) fn transposed<A>(numbers: &[A], columns: usize) -> Left<'_, A> {
    Left { numbers, row: 1, step: columns }
}

/// Computes C = A·B for B `[K, n]` and C `[…, n]`.
pub(crate) fn product<A: Float>(cx: &Context, a: Left<A>, b: &[A], c: &mut [A], n: usize) -> Result<(), Error> {
    Ok(layernorm::parts::product(cx.machine_isa()?, a, b, c, n)?)
}

/// Writes the transpose of a matrix `[rows, columns]`.
pub(crate) fn transpose<A: Float>(from: &[A], columns: usize, to: &mut [A]) {
    let rows = to.len() / columns;
    for (i, row) in from.chunks_exact(columns).enumerate() {
        for (j, &number) in row.iter().enumerate() {
            to[j * rows + i] = number;
        }
    }
}

/// Adds the columns of a matrix `[…, n]`, row by row.
pub(crate) fn column_sums<A: Float>(from: &[A], to: &mut [A]) {
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
        for (m, k, n) in [(1, 1, 1), (3, 4, 8), (2, 5, 10), (5, 3, 17), (7, 2, 3), (4, 196, 64)] {
            let (a, b) = (matrix(m, k, 1), matrix(k, n, 2));
            let (mut c, mut across) = (vec![1.0; m * n], vec![0.0; m * k]);
            transpose(&a, k, &mut across);
            for left in [rows(&a, k), transposed(&across, m)] {
                product(&Context::new(), left, &b, &mut c, n).unwrap();
                for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                    let expected: f64 = (0..k).map(|l| a[i * k + l] * b[l * n + j]).sum();
                    assert_eq!(c[i * n + j], expected, "{m}x{k}x{n} at {i}, {j}");
                }
            }
            let short = product(&Context::new(), rows(&a[1..], k), &b, &mut c, n).unwrap_err().to_string();
            assert_eq!(short, format!("operand A: expected {} elements, found {}", m * k, m * k - 1));
            let mut sums = vec![0.0; n];
            column_sums(&b, &mut sums);
            assert!((0..n).all(|j| sums[j] == (0..k).map(|l| b[l * n + j]).sum::<f64>()));
        }
    }
}
