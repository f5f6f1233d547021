//! Runs the row kernels over a tensor: in place where rows are contiguous, otherwise in packed tiles, on one thread
//! or several.
//!
//! The distribution of rows over threads never affects the results: each row has a fixed order of operations, and the
//! sums down the rows are folded as a fixed tree of chunks of 64 rows, of which a task always takes whole, aligned
//! subtrees.

mod backward;
mod chunk_tree;
mod chunks;
mod forward;
mod team;

pub(crate) use backward::{BackwardPlan, BackwardTensors, any_scaled};
pub(crate) use chunks::Chunks;
pub(crate) use forward::ForwardPlan;

use crate::context::{Need, Scratch};
use crate::element::Element;
use crate::kernels::Rows;
use crate::operand::Operand;
use crate::tune;

/// Average number of tasks per thread: enough to compensate for a thread that is delayed.
const TASKS_PER_THREAD: usize = 4;

/// Scratch memory into which a task packs rows, for up to four operands; none if all rows are processed in place.
pub(crate) struct Tiles<T> {
    pub(crate) at: [*mut T; 4],
    /// Number of rows that fit.
    pub(crate) rows: Option<usize>,
}

impl<T: Element> Tiles<T> {
    pub(crate) fn need(n: usize) -> Need {
        Need::default().plus::<T>(tune::rows_per_tile::<T>(n).saturating_mul(n)).times(4)
    }

    pub(crate) fn new(n: usize, scratch: &mut Scratch) -> Self {
        let rows = tune::rows_per_tile::<T>(n);
        Tiles { at: std::array::from_fn(|_| scratch.take::<T>(rows * n)), rows: Some(rows) }
    }

    pub(crate) fn none() -> Self {
        Tiles { at: [std::ptr::null_mut(); 4], rows: None }
    }
}

/// Returns the rows of an operand for a tile: in place, or packed into scratch memory.
pub(crate) unsafe fn input<T: Element>(
    operand: &Operand<*const T>,
    row: usize,
    rows: usize,
    tile: *mut T,
) -> Rows<*const T> {
    match operand.direct() {
        Some(direct) => Rows { ptr: direct.at(row), stride: direct.stride },
        None => {
            // SAFETY: the tile has room for the rows.
            unsafe { operand.pack(row, rows, tile) };
            Rows { ptr: tile, stride: operand.n() as isize }
        }
    }
}

/// Returns where the kernel writes a tile's output.
pub(crate) fn output<T: Element>(operand: &Operand<*mut T>, row: usize, tile: *mut T) -> Rows<*mut T> {
    match operand.direct() {
        Some(direct) => Rows { ptr: direct.at(row), stride: direct.stride },
        None => Rows { ptr: tile, stride: operand.n() as isize },
    }
}

/// Unpacks a tile's output if it was not written in place.
pub(crate) unsafe fn finish<T: Element>(operand: &Operand<*mut T>, row: usize, rows: usize, tile: *mut T) {
    if operand.direct().is_none() {
        // SAFETY: the kernel has filled the tile.
        unsafe { operand.unpack(row, rows, tile) };
    }
}
