//! Sums down the rows (rule 5), distributed over threads: chunks of 64 rows, folded as a balanced tree of adjacent
//! pairs. A task takes a whole, aligned subtree, so the number of threads never changes the tree.

use super::TASKS_PER_THREAD;
use super::chunk_tree::{ChunkTree, add_to};
use crate::context::{Context, Need, Scratch};
use crate::element::Float;
use crate::sum::CHUNK;
use crate::threads::{self, Shared};
use crate::tune;

/// Distribution of the chunks over tasks, and the number of sums.
pub(crate) struct Chunks {
    rows: usize,
    /// Number of sums; 0 if there are none and the rows are only visited.
    len: usize,
    threads: usize,
    tasks: usize,
    /// A power of two.
    chunks_per_task: usize,
    /// Arrays of sums that a task may hold at once: one per height of its subtree, and the one being added to.
    slots: usize,
    /// Scratch memory of the visitor, per task.
    own: Need,
}

impl Chunks {
    /// Distributes rows of `n` elements, with `len` sums and `own` scratch memory for each task's visitor.
    pub(crate) fn new(rows: usize, n: usize, len: usize, own: Need, cx: &Context) -> Chunks {
        let threads = tune::threads(cx.threads(), rows.saturating_mul(n));
        let chunks = rows.div_ceil(CHUNK).max(1);
        let wanted = if threads == 1 { 1 } else { threads * TASKS_PER_THREAD };
        let chunks_per_task = chunks.div_ceil(wanted).next_power_of_two();
        let tasks = chunks.div_ceil(chunks_per_task);
        Chunks { rows, len, threads, tasks, chunks_per_task, slots: chunks_per_task.ilog2() as usize + 2, own }
    }

    fn task_need<A>(&self) -> Need {
        let slots = Need::default().plus::<A>(self.len.saturating_mul(self.slots));
        Need::default().plus::<A>(self.len).and(slots).and(self.own)
    }

    /// Returns the scratch memory that [`Chunks::run`] takes.
    pub(crate) fn need<A>(&self) -> Need {
        self.task_need::<A>().times(self.tasks)
    }

    /// Calls `visit(first row, end row, sums, own scratch)` for pieces of the rows, each within one chunk if there
    /// are sums: it adds the rows, in order, to the sums. Returns the folded sums.
    ///
    /// # Safety
    /// `visit` may be called from several threads at the same time, for different rows.
    pub(crate) unsafe fn run<A: Float>(
        &self,
        scratch: &mut Scratch,
        visit: &(dyn Fn(usize, usize, *mut A, &mut Scratch) + Sync),
    ) -> *mut A {
        let need = self.task_need::<A>();
        // SAFETY: tasks have separate parts of it.
        let shared = unsafe { Shared::new(scratch.part(need.times(self.tasks))) };
        let result = |task: usize| shared.get().nth(need, task).take::<A>(self.len);
        threads::run(self.threads, self.tasks, &|task| {
            // SAFETY: tasks have separate rows and scratch memory.
            unsafe { self.task(task, &mut shared.get().nth(need, task), visit) };
        });
        // Tasks are aligned subtrees: fold them as adjacent pairs.
        let mut apart = 1;
        while apart < self.tasks {
            for task in (0..self.tasks - apart).step_by(2 * apart) {
                // SAFETY: every task has written its sums.
                unsafe { add_to(result(task), result(task + apart), self.len) };
            }
            apart *= 2;
        }
        result(0)
    }

    unsafe fn task<A: Float>(
        &self,
        task: usize,
        scratch: &mut Scratch,
        visit: &(dyn Fn(usize, usize, *mut A, &mut Scratch) + Sync),
    ) {
        let first = task * self.chunks_per_task * CHUNK;
        let end = self.rows.min(first + self.chunks_per_task * CHUNK);
        let result = scratch.take::<A>(self.len);
        let slots = scratch.take::<A>(self.len * self.slots);
        if self.len == 0 {
            return visit(first, end, std::ptr::null_mut(), scratch);
        }
        // SAFETY: the slots were counted by `task_need`.
        unsafe {
            let mut tree = ChunkTree::new(slots, self.slots, self.len);
            for row in (first..end).step_by(CHUNK) {
                visit(row, end.min(row + CHUNK), tree.start(), &mut { *scratch });
                tree.push();
            }
            tree.finish(result);
        }
    }
}
