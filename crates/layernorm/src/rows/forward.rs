//! Forward over the rows of a tensor.

use super::{Shared, TASKS_PER_THREAD, Tiles, finish, input, output};
use crate::arch::MachineIsa;
use crate::context::{Context, Need, Scratch};
use crate::element::Element;
use crate::error::Error;
use crate::kernels::forward::{Forward, Residual};
use crate::kernels::vector::MAX_LANES;
use crate::kernels::{Affine, RowNorm, Stats};
use crate::plan::Operand;
use crate::sum::BLOCK;
use crate::tune::Memory;
use crate::{pages, threads, tune};

/// A forward pass.
pub(crate) struct ForwardJob<T: Element> {
    pub(crate) x: Operand<*const T>,
    pub(crate) residual: Option<(Operand<*const T>, Operand<*mut T>)>,
    pub(crate) y: Operand<*mut T>,
    pub(crate) norm: RowNorm<T::Acc>,
    pub(crate) affine: Affine<T::Acc>,
    pub(crate) stats: Option<Stats<T::Acc>>,
}

impl<T: Element> ForwardJob<T> {
    fn is_direct(&self) -> bool {
        let residual = self.residual.is_none_or(|(r, h)| r.direct().is_some() && h.direct().is_some());
        self.x.direct().is_some() && self.y.direct().is_some() && residual
    }

    /// Returns the memory access hints for the kernels.
    fn memory(&self) -> Memory {
        Memory::of::<T>(self.y.rows(), self.y.n(), self.y.direct().is_some())
    }

    fn threads(&self, cx: &Context) -> usize {
        tune::threads(cx.threads(), self.y.rows().saturating_mul(self.y.n()))
    }

    /// Returns the number of tasks. Each task that packs has its own tiles, so there are then no more tasks than
    /// threads.
    fn tasks(&self, cx: &Context) -> usize {
        let threads = self.threads(cx);
        let tasks = if threads == 1 || !self.is_direct() { threads } else { threads * TASKS_PER_THREAD };
        tasks.min(self.y.rows().max(1))
    }

    /// Returns the number of elements of h that a task keeps in scratch memory, because h itself bypasses the cache.
    fn kept(&self) -> usize {
        let n = self.y.n();
        let rows = if n <= BLOCK { tune::rows_per_group::<T>(n, MAX_LANES) } else { 1 };
        if self.residual.is_some() && self.memory().stream { rows.saturating_mul(n) } else { 0 }
    }

    fn task_need(&self) -> Need {
        let tiles = if self.is_direct() { Need::default() } else { Tiles::<T>::need(self.y.n()) };
        tiles.and(Need::default().plus::<T>(self.kept()))
    }

    /// Returns the scratch memory that [`ForwardJob::run`] takes.
    pub(crate) fn need(&self, cx: &Context) -> Need {
        self.task_need().times(self.tasks(cx))
    }

    /// # Safety
    /// The operands, parameters and statistics are valid, and outputs do not overlap inputs except where they are the
    /// same tensor.
    pub(crate) unsafe fn run(self, cx: &Context, scratch: &mut Scratch) -> Result<(), Error> {
        let isa = cx.machine_isa()?;
        let (rows, n, direct) = (self.y.rows(), self.y.n(), self.is_direct());
        if cx.fresh_outputs() {
            // SAFETY: the outputs are valid.
            unsafe {
                pages::ask_for_large(self.y.direct(), rows, n);
                pages::ask_for_large(self.residual.and_then(|(_, h)| h.direct()), rows, n);
            }
        }
        let (tasks, need, kept, memory) = (self.tasks(cx), self.task_need(), self.kept(), self.memory());
        let shared = Shared((&raw const self, scratch.part(need.times(tasks))));
        threads::run(self.threads(cx), tasks, &|task| {
            let (job, scratch) = shared.get();
            let mut scratch = scratch.nth(need, task);
            let (first, end) = (rows * task / tasks, rows * (task + 1) / tasks);
            // SAFETY: `self` outlives the call, and tasks have separate rows and scratch memory.
            unsafe {
                let tiles = if direct { Tiles::none() } else { Tiles::new(n, &mut scratch) };
                (*job).rows(isa, first, end, &tiles, scratch.take::<T>(kept), memory);
            }
        });
        Ok(())
    }

    unsafe fn rows(&self, isa: MachineIsa, first: usize, end: usize, tiles: &Tiles<T>, kept: *mut T, memory: Memory) {
        let n = self.y.n();
        let step = tiles.rows.unwrap_or(end - first);
        let mut row = first;
        while row < end {
            let count = step.min(end - row);
            // SAFETY: rows row .. row + count exist; the tiles have room for them.
            unsafe {
                let residual = self.residual.map(|(r, h)| Residual {
                    r: input(&r, row, count, tiles.at[1]),
                    h: output(&h, row, tiles.at[2]),
                    kept,
                });
                let kernel = Forward {
                    x: input(&self.x, row, count, tiles.at[0]),
                    residual,
                    y: output(&self.y, row, tiles.at[3]),
                    rows: count,
                    n,
                    first_row: row,
                    norm: self.norm,
                    affine: self.affine,
                    stats: self.stats,
                    memory,
                };
                T::forward(isa, kernel);
                if let Some((_, h)) = self.residual {
                    finish(&h, row, count, tiles.at[2]);
                }
                finish(&self.y, row, count, tiles.at[3]);
            }
            row += count;
        }
    }
}
