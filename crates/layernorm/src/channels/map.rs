//! The element-wise passes of batch norm over a tensor.

use crate::arch::MachineIsa;
use crate::context::{Context, Need, Scratch};
use crate::element::Element;
use crate::error::Error;
use crate::kernels::columns::{ChannelMap, Channels};
use crate::operand::Operand;
use crate::rows::{Tiles, finish, input, output};
use crate::threads::{self, Shared};
use crate::tune;

/// Tensors of an element-wise pass. Operands are viewed as positions (`across`) or as segments.
pub(crate) struct MapTensors<T: Element> {
    pub(crate) x: Operand<*const T>,
    pub(crate) dy: Option<Operand<*const T>>,
    pub(crate) to: Operand<*mut T>,
    pub(crate) channel_count: usize,
    pub(crate) across: bool,
    pub(crate) fixed: bool,
}

/// An element-wise pass, and how its rows are divided among tasks.
pub(crate) struct MapPlan<T: Element> {
    tensors: MapTensors<T>,
    rows: usize,
    n: usize,
    /// Whether the rows of all tensors are processed in place.
    direct: bool,
    /// Number of tasks, one per thread.
    tasks: usize,
    /// Scratch memory of a task.
    task_need: Need,
}

impl<T: Element> MapPlan<T> {
    pub(crate) fn new(tensors: MapTensors<T>, cx: &Context) -> Self {
        let MapTensors { x, dy, to, .. } = &tensors;
        let (rows, n) = (x.rows(), x.n());
        let direct = x.direct().is_some() && to.direct().is_some() && dy.is_none_or(|dy| dy.direct().is_some());
        let tasks = tune::threads(cx.threads(), rows.saturating_mul(n));
        let task_need = if direct { Need::default() } else { Tiles::<T>::need(n) };
        MapPlan { tensors, rows, n, direct, tasks, task_need }
    }

    /// Returns the scratch memory that [`MapPlan::run`] takes.
    pub(crate) fn need(&self) -> Need {
        self.task_need.times(self.tasks)
    }

    /// # Safety
    /// The operands and the channels' values are valid; the output overlaps no input.
    pub(crate) unsafe fn run(
        &self,
        channels: Channels<T::Acc>,
        cx: &Context,
        scratch: &mut Scratch,
    ) -> Result<(), Error> {
        let isa = cx.machine_isa()?;
        // SAFETY: tasks have separate rows and scratch memory.
        let shared = unsafe { Shared::new((&raw const *self, channels, scratch.part(self.need()))) };
        threads::run(self.tasks, self.tasks, &|task| {
            let (plan, channels, scratch) = shared.get();
            // SAFETY: `self` outlives the call; the rest is guaranteed by the caller.
            unsafe { (*plan).task(isa, task, channels, scratch) };
        });
        Ok(())
    }

    /// Processes the rows of a task. `scratch` has a part for each task.
    unsafe fn task(&self, isa: MachineIsa, task: usize, channels: Channels<T::Acc>, scratch: Scratch) {
        let (tensors, n) = (&self.tensors, self.n);
        let tiles = if self.direct { Tiles::none() } else { Tiles::new(n, &mut scratch.nth(self.task_need, task)) };
        let (first, end) = (self.rows * task / self.tasks, self.rows * (task + 1) / self.tasks);
        let mut row = first;
        while row < end {
            let count = tiles.rows.unwrap_or(end - first).min(end - row);
            // SAFETY: the rows and the tiles belong to this task.
            unsafe {
                let kernel = ChannelMap {
                    x: input(&tensors.x, row, count, tiles.at[0]),
                    dy: tensors.dy.map(|dy| input(&dy, row, count, tiles.at[1])),
                    to: output(&tensors.to, row, tiles.at[3]),
                    rows: count,
                    n,
                    first_row: row,
                    channels,
                    channel_count: tensors.channel_count,
                    across: tensors.across,
                    fixed: tensors.fixed,
                };
                T::channel_map(isa, kernel);
                finish(&tensors.to, row, count, tiles.at[3]);
            }
            row += count;
        }
    }
}
