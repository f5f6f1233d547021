//! Forward over the rows of a tensor.

use super::{TASKS_PER_THREAD, Tiles, finish, input, output};
use crate::arch::MachineIsa;
use crate::context::{Context, Need, Scratch};
use crate::element::Element;
use crate::error::Error;
use crate::kernels::forward::{Forward, Residual};
use crate::kernels::vector::MAX_LANES;
use crate::kernels::{Affine, RowNorm, Stats};
use crate::operand::Operand;
use crate::sum::BLOCK;
use crate::threads::{self, Shared};
use crate::tune::Memory;
use crate::{pages, tune};

/// Tensors of a forward pass, and how their rows are divided among tasks.
pub(crate) struct ForwardPlan<T: Element> {
    x: Operand<*const T>,
    residual: Option<(Operand<*const T>, Operand<*mut T>)>,
    y: Operand<*mut T>,
    rows: usize,
    n: usize,
    /// Whether the rows of all tensors are processed in place.
    direct: bool,
    /// Memory access hints for the kernels.
    memory: Memory,
    threads: usize,
    tasks: usize,
    /// Number of elements of h that a task keeps in scratch memory, because h itself bypasses the cache.
    kept: usize,
    /// Scratch memory of a task.
    task_need: Need,
}

impl<T: Element> ForwardPlan<T> {
    /// Plans a pass from x to y. `residual`, if any, is r and h = x + r, which is then normalized.
    pub(crate) fn new(
        x: Operand<*const T>,
        residual: Option<(Operand<*const T>, Operand<*mut T>)>,
        y: Operand<*mut T>,
        cx: &Context,
    ) -> Self {
        let (rows, n) = (y.rows(), y.n());
        let in_place = y.direct().is_some();
        let residual_direct = residual.is_none_or(|(r, h)| r.direct().is_some() && h.direct().is_some());
        let direct = in_place && x.direct().is_some() && residual_direct;
        let memory = Memory::of::<T>(rows, n, in_place);
        let threads = tune::threads(cx.threads(), rows.saturating_mul(n));
        // Each task that packs has its own tiles, so there are then no more tasks than threads.
        let tasks = if threads == 1 || !direct { threads } else { threads * TASKS_PER_THREAD };
        let group = if n <= BLOCK { tune::rows_per_group::<T>(n, MAX_LANES) } else { 1 };
        let kept = if residual.is_some() && memory.stream { group.saturating_mul(n) } else { 0 };
        let tiles = if direct { Need::default() } else { Tiles::<T>::need(n) };
        let task_need = tiles.and(Need::default().plus::<T>(kept));
        ForwardPlan { x, residual, y, rows, n, direct, memory, threads, tasks: tasks.min(rows.max(1)), kept, task_need }
    }

    /// Returns the scratch memory that [`ForwardPlan::run`] takes.
    pub(crate) fn need(&self) -> Need {
        self.task_need.times(self.tasks)
    }

    /// # Safety
    /// The operands, parameters and statistics are valid, and outputs do not overlap inputs except where they are the
    /// same tensor.
    pub(crate) unsafe fn run(
        &self,
        norm: RowNorm<T::Acc>,
        affine: Affine<T::Acc>,
        stats: Option<Stats<T::Acc>>,
        cx: &Context,
        scratch: &mut Scratch,
    ) -> Result<(), Error> {
        let isa = cx.machine_isa()?;
        let (rows, n) = (self.rows, self.n);
        if cx.fresh_outputs() {
            // SAFETY: the outputs are valid.
            unsafe {
                pages::ask_for_large(self.y.direct(), rows, n);
                pages::ask_for_large(self.residual.and_then(|(_, h)| h.direct()), rows, n);
            }
        }
        let pass = ForwardPass { plan: self, isa, norm, affine, stats };
        // SAFETY: tasks have separate rows and scratch memory.
        let shared = unsafe { Shared::new((&raw const pass, scratch.part(self.need()))) };
        threads::run(self.threads, self.tasks, &|task| {
            let (pass, scratch) = shared.get();
            // SAFETY: `pass` outlives the call; the rest is guaranteed by the caller.
            unsafe { (*pass).task(task, scratch) };
        });
        Ok(())
    }
}

/// A planned pass with its parameters.
struct ForwardPass<'a, T: Element> {
    plan: &'a ForwardPlan<T>,
    isa: MachineIsa,
    norm: RowNorm<T::Acc>,
    affine: Affine<T::Acc>,
    stats: Option<Stats<T::Acc>>,
}

impl<T: Element> ForwardPass<'_, T> {
    /// Processes the rows of a task. `scratch` has a part for each task.
    unsafe fn task(&self, task: usize, scratch: Scratch) {
        let plan = self.plan;
        let mut scratch = scratch.nth(plan.task_need, task);
        let tiles = if plan.direct { Tiles::none() } else { Tiles::new(plan.n, &mut scratch) };
        let kept = scratch.take::<T>(plan.kept);
        let (first, end) = (plan.rows * task / plan.tasks, plan.rows * (task + 1) / plan.tasks);
        let step = tiles.rows.unwrap_or(end - first);
        let mut row = first;
        while row < end {
            let count = step.min(end - row);
            // SAFETY: rows row .. row + count exist; the tiles have room for them.
            unsafe {
                let residual = plan.residual.map(|(r, h)| Residual {
                    r: input(&r, row, count, tiles.at[1]),
                    h: output(&h, row, tiles.at[2]),
                    kept,
                });
                let kernel = Forward {
                    x: input(&plan.x, row, count, tiles.at[0]),
                    residual,
                    y: output(&plan.y, row, tiles.at[3]),
                    rows: count,
                    n: plan.n,
                    first_row: row,
                    norm: self.norm,
                    affine: self.affine,
                    stats: self.stats,
                    memory: plan.memory,
                };
                T::forward(self.isa, kernel);
                if let Some((_, h)) = plan.residual {
                    finish(&h, row, count, tiles.at[2]);
                }
                finish(&plan.y, row, count, tiles.at[3]);
            }
            row += count;
        }
    }
}
