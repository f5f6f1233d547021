//! Forward over the rows of a tensor.

use super::{Shared, TASKS_PER_THREAD, Tiles, finish, input, output};
use crate::arch::Isa;
use crate::context::{Context, Need, Scratch};
use crate::element::Element;
use crate::error::Error;
use crate::kernels::forward::Forward;
use crate::kernels::{Affine, RowNorm, Stats};
use crate::plan::Operand;
use crate::tune::Memory;
use crate::{pages, threads, tune};

/// What to do.
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

    /// Scratch memory that [`ForwardJob::run`] takes.
    pub(crate) fn need(&self, cx: &Context) -> Need {
        let threads = tune::threads(cx.threads(), self.y.rows().saturating_mul(self.y.n()));
        if self.is_direct() { Need::default() } else { Tiles::<T>::need(self.y.n()).times(threads) }
    }

    /// # Safety
    /// The operands, parameters and statistics are valid, and outputs do not overlap inputs except where they are the
    /// same tensor.
    pub(crate) unsafe fn run(self, cx: &Context, scratch: &mut Scratch) -> Result<(), Error> {
        let isa = cx.isa()?;
        let (rows, n) = (self.y.rows(), self.y.n());
        let threads = tune::threads(cx.threads(), rows.saturating_mul(n));
        let (direct, fresh) = (self.is_direct(), cx.fresh_outputs());
        if fresh {
            pages::ask_for_large(self.y.direct(), rows, n);
            pages::ask_for_large(self.residual.and_then(|(_, h)| h.direct()), rows, n);
        }
        // A task that packs has tiles of its own.
        let tasks = if threads == 1 || !direct { threads } else { threads * TASKS_PER_THREAD }.min(rows.max(1));
        let need = if direct { Need::default() } else { Tiles::<T>::need(n) };
        let shared = Shared((&raw const self, scratch.part(need.times(tasks))));
        threads::run(threads, tasks, &|task| {
            let (job, scratch) = shared.get();
            let (first, end) = (rows * task / tasks, rows * (task + 1) / tasks);
            // SAFETY: `self` outlives the call, and tasks have rows and tiles of their own.
            unsafe {
                let tiles = if direct { Tiles::none() } else { Tiles::new(n, &mut scratch.nth(need, task)) };
                (*job).rows(isa, first, end, tiles, fresh);
            }
        });
        Ok(())
    }

    unsafe fn rows(&self, isa: Isa, first: usize, end: usize, tiles: Tiles<T>, fresh: bool) {
        let n = self.y.n();
        let step = tiles.rows.unwrap_or(end - first);
        let mut row = first;
        while row < end {
            let count = step.min(end - row);
            // SAFETY: rows row .. row + count exist; tiles have room for them.
            unsafe {
                let residual =
                    self.residual.map(|(r, h)| (input(&r, row, count, tiles.at[1]), output(&h, row, tiles.at[2])));
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
                    memory: Memory::of::<T>(self.y.rows(), n, self.y.direct().is_some(), fresh),
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
