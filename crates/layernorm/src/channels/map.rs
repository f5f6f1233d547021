//! The element-wise passes of batch norm over a tensor.

use crate::context::{Context, Need, Scratch};
use crate::element::Element;
use crate::error::Error;
use crate::kernels::columns::{ChannelMap, Channels};
use crate::plan::Operand;
use crate::rows::{Shared, Tiles, finish, input, output};
use crate::{threads, tune};

/// An element-wise pass. Operands are viewed as positions (`across`) or as segments.
pub(crate) struct MapJob<T: Element> {
    pub(crate) x: Operand<*const T>,
    pub(crate) dy: Option<Operand<*const T>>,
    pub(crate) to: Operand<*mut T>,
    pub(crate) channels: Channels<T::Acc>,
    pub(crate) channel_count: usize,
    pub(crate) across: bool,
    pub(crate) fixed: bool,
}

impl<T: Element> MapJob<T> {
    fn is_direct(&self) -> bool {
        self.x.direct().is_some() && self.to.direct().is_some() && self.dy.is_none_or(|dy| dy.direct().is_some())
    }

    fn threads(&self, cx: &Context) -> usize {
        tune::threads(cx.threads(), self.x.rows().saturating_mul(self.x.n()))
    }

    /// Returns the scratch memory that [`MapJob::run`] takes.
    pub(crate) fn need(&self, cx: &Context) -> Need {
        if self.is_direct() { Need::default() } else { Tiles::<T>::need(self.x.n()).times(self.threads(cx)) }
    }

    /// # Safety
    /// The operands and the channels' values are valid; the output overlaps no input.
    pub(crate) unsafe fn run(self, cx: &Context, scratch: &mut Scratch) -> Result<(), Error> {
        let isa = cx.machine_isa()?;
        let (rows, n, tasks, direct) = (self.x.rows(), self.x.n(), self.threads(cx), self.is_direct());
        let need = if direct { Need::default() } else { Tiles::<T>::need(n) };
        let shared = Shared((&raw const self, scratch.part(need.times(tasks))));
        threads::run(tasks, tasks, &|task| {
            let (job, scratch) = shared.get();
            let tiles = if direct { Tiles::none() } else { Tiles::new(n, &mut scratch.nth(need, task)) };
            let (first, end) = (rows * task / tasks, rows * (task + 1) / tasks);
            let mut row = first;
            while row < end {
                let count = tiles.rows.unwrap_or(end - first).min(end - row);
                // SAFETY: `self` outlives the call; the rows and the tiles belong to this task.
                unsafe {
                    let job = &*job;
                    let kernel = ChannelMap {
                        x: input(&job.x, row, count, tiles.at[0]),
                        dy: job.dy.map(|dy| input(&dy, row, count, tiles.at[1])),
                        to: output(&job.to, row, tiles.at[3]),
                        rows: count,
                        n,
                        first_row: row,
                        channels: job.channels,
                        channel_count: job.channel_count,
                        across: job.across,
                        fixed: job.fixed,
                    };
                    T::channel_map(isa, kernel);
                    finish(&job.to, row, count, tiles.at[3]);
                }
                row += count;
            }
        });
        Ok(())
    }
}
