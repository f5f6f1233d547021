//! Backward over the rows of a tensor, with the sums for γ and β down the rows.

use super::chunk_tree::{ChunkTree, add_to};
use super::{Shared, TASKS_PER_THREAD, Tiles, finish, input, output};
use crate::arch::Isa;
use crate::context::{Context, Need, Scratch};
use crate::element::{Element, Float};
use crate::error::Error;
use crate::kernels::backward::{Backward, ParameterSums};
use crate::kernels::extreme::{self, Scaled, column_sum};
use crate::kernels::{Affine, RowNorm, Stats};
use crate::plan::Operand;
use crate::sum::CHUNK;
use crate::{threads, tune};

/// What to do. γ is one a feature or one a row.
pub(crate) struct BackwardJob<T: Element> {
    pub(crate) x: Operand<*const T>,
    pub(crate) dy: Operand<*const T>,
    pub(crate) dh: Option<Operand<*const T>>,
    pub(crate) dx: Option<Operand<*mut T>>,
    pub(crate) norm: RowNorm<T::Acc>,
    pub(crate) affine: Affine<T::Acc>,
    pub(crate) stats: Stats<T::Acc>,
    /// Whether the sums for γ and β, one a feature, are wanted.
    pub(crate) sums: bool,
}

/// How the chunks of a backward pass are shared out: every task has `chunks_per_task` of them, a power of two.
struct Split {
    threads: usize,
    tasks: usize,
    chunks_per_task: usize,
    /// Sums that a task may hold at once: one at each height of its subtree, and the one being added to.
    slots: usize,
}

impl Split {
    fn new(rows: usize, n: usize, threads: usize) -> Split {
        let threads = tune::threads(threads, rows.saturating_mul(n));
        let chunks = rows.div_ceil(CHUNK).max(1);
        let wanted = if threads == 1 { 1 } else { threads * TASKS_PER_THREAD };
        let chunks_per_task = chunks.div_ceil(wanted).next_power_of_two();
        Split {
            threads,
            tasks: chunks.div_ceil(chunks_per_task),
            chunks_per_task,
            slots: chunks_per_task.ilog2() as usize + 2,
        }
    }
}

impl<T: Element> BackwardJob<T> {
    fn is_direct(&self) -> bool {
        let optional = self.dh.is_none_or(|dh| dh.direct().is_some()) && self.dx.is_none_or(|dx| dx.direct().is_some());
        self.x.direct().is_some() && self.dy.direct().is_some() && optional
    }

    /// Sums that γ and β have together.
    fn sum_len(&self) -> usize {
        if self.sums { 2 * self.x.n() } else { 0 }
    }

    /// Scratch memory of a task: its result, the slots of its tree, its tiles.
    fn task_need(&self, split: &Split) -> Need {
        let len = self.sum_len();
        let sums = Need::default().plus::<T::Acc>(len).plus::<T::Acc>(len.saturating_mul(split.slots));
        if self.is_direct() { sums } else { sums.and(Tiles::<T>::need(self.x.n())) }
    }

    /// Scratch memory that [`BackwardJob::run`] takes.
    pub(crate) fn need(&self, cx: &Context) -> Need {
        let split = Split::new(self.x.rows(), self.x.n(), cx.threads());
        self.task_need(&split).times(split.tasks)
    }

    /// Gives the sums for γ and β, if they were wanted.
    ///
    /// # Safety
    /// The operands, parameters and statistics are valid, and dx overlaps no input unless it is the same tensor as dy.
    pub(crate) unsafe fn run(self, cx: &Context, scratch: &mut Scratch) -> Result<ParameterSums<T::Acc>, Error> {
        let isa = cx.isa()?;
        let n = self.x.n();
        let split = Split::new(self.x.rows(), n, cx.threads());
        let (need, len) = (self.task_need(&split), self.sum_len());
        let shared = Shared((&raw const self, scratch.part(need.times(split.tasks)), &raw const split));
        let result = |task: usize| shared.get().1.nth(need, task).take::<T::Acc>(len);
        threads::run(split.threads, split.tasks, &|task| {
            let (job, scratch, split) = shared.get();
            // SAFETY: both outlive the call, and tasks have rows and scratch memory of their own.
            unsafe { (*job).task(isa, task, &*split, &mut scratch.nth(need, task)) };
        });
        // Tasks are aligned subtrees: fold them as adjacent pairs.
        let mut apart = 1;
        while self.sums && apart < split.tasks {
            for task in (0..split.tasks - apart).step_by(2 * apart) {
                // SAFETY: every task has left its sums.
                unsafe { add_to(result(task), result(task + apart), len) };
            }
            apart *= 2;
        }
        let gain = result(0);
        let sums = ParameterSums { gain, bias: gain.wrapping_add(n) };
        if self.sums {
            // SAFETY: the sums have n elements each.
            unsafe { self.redo_overflown(sums) };
        }
        Ok(sums)
    }

    /// Rule 6 for the sums for γ and β: a sum that is not finite although every dy and x̂ in it is, is done again with dy
    /// scaled by the power of two that brings the largest |dy| of the column into [1, 2), and scaled back.
    unsafe fn redo_overflown(&self, sums: ParameterSums<T::Acc>) {
        let (rows, n) = (self.x.rows(), self.x.n());
        for i in 0..n {
            // SAFETY: i < n, and every row exists.
            unsafe {
                let (gain, bias) = (sums.gain.add(i), sums.bias.add(i));
                if ((*gain) + (*bias)).is_finite() {
                    continue;
                }
                let dy = |row: usize| self.dy.element(row, i).widen();
                let x_hat = |row: usize| self.x_hat(row, i);
                if !(*gain).is_finite() {
                    *gain = column_sum(rows, dy, x_hat).unwrap_or(*gain);
                }
                if !(*bias).is_finite() {
                    *bias = column_sum(rows, dy, |_| T::Acc::ONE).unwrap_or(*bias);
                }
            }
        }
    }

    #[cold]
    unsafe fn x_hat(&self, row: usize, i: usize) -> T::Acc {
        // SAFETY: the row exists; a scaled row is copied so that it is contiguous.
        unsafe {
            let stat = self.stats.get(row);
            let x = self.x.element(row, i).widen();
            if extreme::was_scaled(&self.norm, stat.r) {
                let copy: Vec<T> = (0..self.x.n()).map(|i| self.x.element(row, i)).collect();
                Scaled::again(copy.as_ptr(), copy.len(), &self.norm, stat).x_hat(x)
            } else {
                ((x - stat.m) - stat.delta) * stat.r
            }
        }
    }

    unsafe fn task(&self, isa: Isa, task: usize, split: &Split, scratch: &mut Scratch) {
        let (rows, n, len) = (self.x.rows(), self.x.n(), self.sum_len());
        let first = task * split.chunks_per_task * CHUNK;
        let end = rows.min(first + split.chunks_per_task * CHUNK);
        let result = scratch.take::<T::Acc>(len);
        let slots = scratch.take::<T::Acc>(len * split.slots);
        let tiles = if self.is_direct() { Tiles::none() } else { Tiles::new(n, scratch) };
        // SAFETY: the rows exist, and the scratch memory was counted by `task_need`.
        unsafe {
            if !self.sums {
                return self.rows(isa, first, end, None, &tiles);
            }
            let mut tree = ChunkTree::new(slots, split.slots, len);
            for row in (first..end).step_by(CHUNK) {
                let gain = tree.start();
                let sums = ParameterSums { gain, bias: gain.wrapping_add(n) };
                self.rows(isa, row, end.min(row + CHUNK), Some(sums), &tiles);
                tree.push();
            }
            tree.finish(result);
        }
    }

    unsafe fn rows(
        &self,
        isa: Isa,
        first: usize,
        end: usize,
        sums: Option<ParameterSums<T::Acc>>,
        tiles: &Tiles<T>,
    ) {
        let n = self.x.n();
        let total_bytes = self.x.rows().saturating_mul(n).saturating_mul(size_of::<T>());
        let step = tiles.rows.unwrap_or(end - first);
        let mut row = first;
        while row < end {
            let count = step.min(end - row);
            // SAFETY: rows row .. row + count exist; tiles have room for them.
            unsafe {
                let kernel = Backward {
                    x: input(&self.x, row, count, tiles.at[0]),
                    dy: input(&self.dy, row, count, tiles.at[1]),
                    dh: self.dh.map(|dh| input(&dh, row, count, tiles.at[2])),
                    dx: self.dx.map(|dx| output(&dx, row, tiles.at[3])),
                    rows: count,
                    n,
                    first_row: row,
                    norm: self.norm,
                    affine: self.affine,
                    stats: self.stats,
                    sums,
                    stream: total_bytes >= tune::STREAM_BYTES && self.dx.is_some_and(|dx| dx.direct().is_some()),
                };
                T::backward(isa, kernel);
                if let Some(dx) = self.dx {
                    finish(&dx, row, count, tiles.at[3]);
                }
            }
            row += count;
        }
    }
}
