//! Products of rows with a packed matrix.

use crate::matmul::{Left, Matmul, Packed, Right, Start};
use crate::pointwise::Rows;
use crate::real::Real;
use layernorm::parts::MachineIsa;

/// Computes C (+)= A·B for some rows, with a packed B.
pub(crate) struct Product<'a, A> {
    pub(crate) a: Rows<A>,
    pub(crate) b: &'a Packed<A>,
    /// Rows of B to multiply: first row and number of rows.
    pub(crate) k: (usize, usize),
    pub(crate) c: Rows<A>,
    pub(crate) rows: usize,
    pub(crate) start: Start<A>,
    pub(crate) panels: (usize, usize),
}

impl<A: Real> Product<'_, A> {
    /// # Safety
    /// The rows are valid.
    pub(crate) unsafe fn run(self, isa: MachineIsa) {
        if self.rows == 0 {
            return;
        }
        let right = self.b.right();
        let product = Matmul {
            a: Left { ptr: self.a.ptr.cast_const(), row: self.a.stride, step: 1 },
            b: Right { ptr: right.ptr.wrapping_add(self.k.0 * right.step), ..right },
            c: self.c.ptr,
            c_row: self.c.stride,
            start: self.start,
            rows: self.rows,
            n: self.b.n,
            k: self.k.1,
            panels: self.panels,
        };
        // SAFETY: guaranteed by the caller.
        unsafe { A::matmul(isa, product) }
    }
}
