//! Orthonormal vectors from normal numbers, by block Gram-Schmidt over panels of vectors:
//!
//! ```text
//! P = P − (P Qᵀ) Q                 removes the components along all previous panels Q, by two matrix products
//! p = p − ⟨p, q⟩ q,  p = p/‖p‖     removes those along previous vectors of the same panel, one by one
//! ```
//!
//! All of this is done twice: the second pass removes the components that rounding left in the first.

use crate::error::Error;
use crate::matmul::{Left, Matmul, Packed, Start};
use crate::noise::NoiseStream;
use crate::real::Real;
use layernorm::parts::{MachineIsa, memory};

/// Vectors per panel: few enough that going one by one is cheap, enough that the products are not memory-bound.
const PANEL: usize = 32;

/// Returns `[count, length]` from the stream's numbers, starting at `first`; count ≤ length.
pub(super) fn orthonormal(random: &NoiseStream, first: usize, count: usize, length: usize) -> Result<Vec<f64>, Error> {
    let isa = MachineIsa::detect()?;
    let mut basis = memory::reserved(count * length)?;
    basis.extend((0..count * length).map(|i| random.normal(first + i)));
    for start in (0..count).step_by(PANEL) {
        let (before, rest) = basis.split_at_mut(start * length);
        let panel = &mut rest[..PANEL.min(count - start) * length];
        for _ in 0..2 {
            take_off(isa, before, panel, length)?;
            apart(panel, length);
        }
    }
    Ok(basis)
}

/// Computes P = P − (P Qᵀ) Q with `panel` P and `before` Q.
fn take_off(isa: MachineIsa, before: &[f64], panel: &mut [f64], length: usize) -> Result<(), Error> {
    let (known, count) = (before.len() / length, panel.len() / length);
    if known == 0 {
        return Ok(());
    }
    // Q Pᵀ, [known, count].
    let mut along = memory::zeros(known * count)?;
    let mut right = Packed::new();
    right.reshape(isa, length, count)?;
    // SAFETY: Pᵀ is [length, count], its transpose lies in `panel`.
    (0..right.panels()).for_each(|at| unsafe { right.pack_panel_transposed(at, panel.as_ptr(), length) });
    let left = Left { ptr: before.as_ptr(), row: length, step: 1 };
    let product = multiply(left, &right, along.as_mut_ptr(), Start::Nothing, known);
    // SAFETY: Q is [known, length], and `along` has room for [known, count].
    unsafe { f64::matmul(isa, product) };
    along.iter_mut().for_each(|along| *along = -*along);

    right.reshape(isa, known, length)?;
    // SAFETY: Q is [known, length].
    (0..right.panels()).for_each(|at| unsafe { right.pack_panel(at, before.as_ptr(), length) });
    let left = Left { ptr: along.as_ptr(), row: 1, step: count };
    let product = multiply(left, &right, panel.as_mut_ptr(), Start::Sum, count);
    // SAFETY: −P Qᵀ is the transpose of `along`, and P is [count, length].
    unsafe { f64::matmul(isa, product) };
    Ok(())
}

/// Returns the product C (+)= A·B, with C's rows contiguous.
fn multiply(a: Left<f64>, b: &Packed<f64>, c: *mut f64, start: Start<f64>, rows: usize) -> Matmul<f64> {
    Matmul { a, b: b.right(), c, c_row: b.n, start, rows, n: b.n, k: b.k, panels: (0, b.panels()) }
}

/// Makes each vector of a panel orthogonal to those before it and of length 1.
fn apart(panel: &mut [f64], length: usize) {
    for k in 0..panel.len() / length {
        let (before, rest) = panel.split_at_mut(k * length);
        let vector = &mut rest[..length];
        for other in before.chunks(length) {
            let along = dot(vector, other);
            vector.iter_mut().zip(other).for_each(|(v, o)| *v -= along * o);
        }
        let norm = dot(vector, vector).sqrt().max(f64::MIN_POSITIVE);
        vector.iter_mut().for_each(|v| *v /= norm);
    }
}

/// Computes the dot product in eight lanes, so that the compiler can vectorize it.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut lanes = [0.0; 8];
    for (a, b) in a.chunks(8).zip(b.chunks(8)) {
        lanes.iter_mut().zip(a.iter().zip(b)).for_each(|(lane, (a, b))| *lane += a * b);
    }
    lanes.iter().sum()
}
