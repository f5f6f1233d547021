//! Matrix products C (+)= A·B in a fixed order: every element of C is a sum of blocks of 128 products; each block is
//! a chain of fused multiply-adds from +0, and the blocks are added in order. The order depends only on K, so a row
//! of C has the same bits whatever the other rows, the thread count and the vector width.
//!
//! B is divided into panels, two vectors wide. A tile of up to eight rows of C and one panel stays in registers while
//! K runs. If there are few rows, a tile has more panels, so that there are always enough independent sums.

use crate::error::Error;
use crate::real::Real;
use layernorm::parts::{Kernel, MachineIsa, Simd, Vector};
use std::ops::Range;

/// Products that are chained before they are added to C.
pub(crate) const BLOCK: usize = 128;

/// Vectors per panel width.
const WIDE: usize = 2;

/// Most rows times panels of a tile: more sums do not fit in registers. In WebAssembly, where a fused multiply-add takes
/// many instructions, a tile also has to be small to keep the module small.
const LARGEST_TILE: usize = if cfg!(target_arch = "wasm32") { 2 } else { 8 };

/// Returns the width of a panel, in elements.
pub(crate) fn panel<A: Real>(isa: MachineIsa) -> usize {
    // SAFETY: the kernel contains no pointers.
    unsafe { layernorm::parts::dispatch(isa, Width::<A>(std::marker::PhantomData)) * WIDE }
}

struct Width<A>(std::marker::PhantomData<A>);

impl<A: Real> Kernel for Width<A> {
    type Output = usize;
    #[inline(always)]
    unsafe fn run<S: Simd>(self) -> usize {
        <A::V<S> as Vector>::LANES
    }
}

/// Initial value of a product's sums.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Start<A> {
    /// None: C is overwritten.
    Nothing,
    /// C: the product is added to it.
    Sum,
    /// This row of n numbers.
    Row(*const A),
}

/// Operand A of a product: element (i, k) is at `ptr + i·row + k·step`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left<A> {
    pub(crate) ptr: *const A,
    pub(crate) row: usize,
    pub(crate) step: usize,
}

/// Operand B of a product: element (k, j) is at `ptr + ⌊j/w⌋·panel + k·step + j mod w`, with panel width w.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Right<A> {
    pub(crate) ptr: *const A,
    pub(crate) panel: usize,
    pub(crate) step: usize,
}

/// Computes C (+)= A·B for some rows and some panels of columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matmul<A> {
    pub(crate) a: Left<A>,
    pub(crate) b: Right<A>,
    /// Row 0, column 0 of C; rows are `c_row` apart.
    pub(crate) c: *mut A,
    pub(crate) c_row: usize,
    pub(crate) start: Start<A>,
    pub(crate) rows: usize,
    /// Number of columns of C.
    pub(crate) n: usize,
    pub(crate) k: usize,
    /// First panel and end panel to compute.
    pub(crate) panels: (usize, usize),
}

/// Returns the range of `all` panels that a member computes.
pub(crate) fn share(all: usize, member: usize, members: usize) -> Range<usize> {
    all * member / members..all * (member + 1) / members
}

impl<A: Real> Kernel for Matmul<A> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let width = WIDE * <A::V<S> as Vector>::LANES;
        let together = match self.rows {
            1 => LARGEST_TILE.min(4),
            2 | 3 => LARGEST_TILE.min(4) / 2,
            _ => 1,
        };
        // Only whole panels are grouped; the last one may be partial.
        let (first, end) = self.panels;
        let together = if self.n / width >= end { together } else { 1 };
        let sweeps = (end - first) / together;
        // SAFETY: the caller guarantees that the memory of these panels is valid.
        unsafe {
            for sweep in 0..sweeps {
                let panel = first + sweep * together;
                match together {
                    4 => self.sweep::<S, 4>(panel),
                    2 => self.sweep::<S, 2>(panel),
                    _ => self.sweep::<S, 1>(panel),
                }
            }
            for panel in first + sweeps * together..end {
                self.sweep::<S, 1>(panel);
            }
        }
    }
}

impl<A: Real> Matmul<A> {
    /// Computes all rows and all of K for P panels.
    #[inline(always)]
    unsafe fn sweep<S: Simd, const P: usize>(&self, panel: usize) {
        // With 32-byte vectors there are sixteen registers, otherwise thirty-two.
        let most = if size_of::<A::V<S>>() == 32 { 6 } else { LARGEST_TILE };
        let tiles = self.rows.div_ceil(most).max(1);
        let mut k = 0;
        loop {
            let depth = BLOCK.min(self.k - k);
            for tile in 0..tiles {
                let (row, end) = (self.rows * tile / tiles, self.rows * (tile + 1) / tiles);
                // SAFETY: the rows, panels and k are inside the product.
                unsafe {
                    match end - row {
                        0 => {}
                        1 => self.tile::<S, 1, P>(row, panel, k, depth),
                        2 => self.tile::<S, 2, P>(row, panel, k, depth),
                        3 => self.tile::<S, 3, P>(row, panel, k, depth),
                        4 => self.tile::<S, 4, P>(row, panel, k, depth),
                        5 => self.tile::<S, 5, P>(row, panel, k, depth),
                        6 => self.tile::<S, 6, P>(row, panel, k, depth),
                        7 => self.tile::<S, 7, P>(row, panel, k, depth),
                        _ => self.tile::<S, 8, P>(row, panel, k, depth),
                    }
                }
            }
            k += depth;
            if k >= self.k {
                return;
            }
        }
    }

    /// Computes one block of K for M rows and P panels.
    #[inline(always)]
    unsafe fn tile<S: Simd, const M: usize, const P: usize>(&self, row: usize, panel: usize, k: usize, depth: usize) {
        // Larger tiles are never requested, so none are compiled.
        if M * P > LARGEST_TILE {
            unreachable!("a tile of {M} rows and {P} panels");
        }
        let lanes = <A::V<S> as Vector>::LANES;
        let mut sums = [[[A::V::<S>::splat(A::ZERO); WIDE]; P]; M];
        // SAFETY: the caller guarantees that the rows, the panels and K are valid.
        unsafe {
            let (a_row, a_step, b_step) = (self.a.row, self.a.step, self.b.step);
            let mut a = self.a.ptr.add(row * a_row + k * a_step);
            let mut b = self.b.ptr.add(panel * self.b.panel + k * b_step);
            for _ in 0..depth {
                let mut right = [[A::V::<S>::splat(A::ZERO); WIDE]; P];
                for (p, right) in right.iter_mut().enumerate() {
                    for (w, right) in right.iter_mut().enumerate() {
                        *right = A::V::<S>::load(b.add(p * self.b.panel + w * lanes));
                    }
                }
                for (i, sums) in sums.iter_mut().enumerate() {
                    let left = A::V::<S>::splat(*a.add(i * a_row));
                    for (sums, right) in sums.iter_mut().zip(&right) {
                        for (sum, &right) in sums.iter_mut().zip(right) {
                            *sum = left.fma(right, *sum);
                        }
                    }
                }
                a = a.add(a_step);
                b = b.add(b_step);
            }
            for (i, sums) in sums.iter().enumerate() {
                for (p, sums) in sums.iter().enumerate() {
                    for (w, &sum) in sums.iter().enumerate() {
                        let column = ((panel + p) * WIDE + w) * lanes;
                        self.put::<S>(row + i, column, k == 0, sum);
                    }
                }
            }
        }
    }

    /// Writes one vector of sums to C.
    #[inline(always)]
    unsafe fn put<S: Simd>(&self, row: usize, column: usize, first: bool, sum: A::V<S>) {
        if column >= self.n {
            return;
        }
        let (lanes, valid) = (<A::V<S> as Vector>::LANES, self.n - column);
        // SAFETY: the caller guarantees that the row is valid; only valid columns are accessed.
        unsafe {
            let c = self.c.add(row * self.c_row + column);
            let before = match self.start {
                Start::Nothing if first => None,
                Start::Row(start) if first => Some(start.add(column)),
                _ => Some(c.cast_const()),
            };
            if valid >= lanes {
                let sum = if let Some(before) = before { A::V::<S>::load(before).add(sum) } else { sum };
                sum.store(c);
            } else {
                let sum = if let Some(p) = before { A::V::<S>::load_first(p, valid).add(sum) } else { sum };
                sum.store_first(c, valid);
            }
        }
    }
}

/// A matrix B packed into panels.
#[derive(Debug)]
pub(crate) struct Packed<A> {
    data: crate::buffer::Buffer<A>,
    /// Rows of B: the number of products per sum.
    pub(crate) k: usize,
    /// Columns of B.
    pub(crate) n: usize,
    /// Width of a panel.
    width: usize,
}

impl<A: Real> Packed<A> {
    pub(crate) fn new() -> Self {
        Packed { data: crate::buffer::Buffer::new(), k: 0, n: 0, width: 1 }
    }

    /// Returns the number of panels.
    pub(crate) fn panels(&self) -> usize {
        self.n.div_ceil(self.width)
    }

    /// Resizes it for a matrix; its contents are lost.
    pub(crate) fn reshape(&mut self, isa: MachineIsa, k: usize, n: usize) -> Result<(), Error> {
        let width = panel::<A>(isa);
        (self.k, self.n, self.width) = (0, 0, width);
        self.data.reserve(n.next_multiple_of(width).saturating_mul(k))?;
        (self.k, self.n) = (k, n);
        Ok(())
    }

    /// Packs the columns of a panel from B itself, `[k, n]` with row stride `row`.
    ///
    /// # Safety
    /// `b` is valid; no two threads pack the same panel at the same time.
    pub(crate) unsafe fn pack_panel(&self, panel: usize, b: *const A, row: usize) {
        let (width, from) = (self.width, panel * self.width);
        let valid = width.min(self.n - from);
        // SAFETY: columns from .. from + valid lie in B, and the panel lies in the buffer.
        unsafe {
            let to = self.data.ptr().add(panel * width * self.k);
            for k in 0..self.k {
                std::ptr::copy_nonoverlapping(b.add(k * row + from), to.add(k * width), valid);
                for j in valid..width {
                    *to.add(k * width + j) = A::ZERO;
                }
            }
        }
    }

    /// Packs the columns of a panel from the transpose of B, `[n, k]` with row stride `row`.
    ///
    /// # Safety
    /// As [`Packed::pack_panel`].
    pub(crate) unsafe fn pack_panel_transposed(&self, panel: usize, b: *const A, row: usize) {
        // Few enough lines at a time that all of them stay in the L1 cache.
        const DEEP: usize = 64;
        let (width, from) = (self.width, panel * self.width);
        let valid = width.min(self.n - from);
        // SAFETY: rows from .. from + valid lie in the transpose of B, and the panel lies in the buffer.
        unsafe {
            let to = self.data.ptr().add(panel * width * self.k);
            for start in (0..self.k).step_by(DEEP) {
                let end = self.k.min(start + DEEP);
                for j in 0..width {
                    for k in start..end {
                        *to.add(k * width + j) = if j < valid { *b.add((from + j) * row + k) } else { A::ZERO };
                    }
                }
            }
        }
    }

    /// Returns it as operand B of a product.
    pub(crate) fn right(&self) -> Right<A> {
        Right { ptr: self.data.ptr().cast_const(), panel: self.width * self.k, step: self.width }
    }
}
