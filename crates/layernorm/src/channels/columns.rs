//! Sums down the channels of a tensor.

use crate::arch::MachineIsa;
use crate::context::{Context, Need, Scratch};
use crate::element::Element;
use crate::error::Error;
use crate::kernels::columns::{Channels, ColumnSums, ColumnTerms};
use crate::kernels::{Rows, Stats};
use crate::operand::Operand;
use crate::rows::{Chunks, Tiles, input};
use crate::threads::Shared;

/// Statistics that vary by sample (group and instance norm): one of each per sample and group.
#[derive(Clone, Copy)]
pub(crate) struct PerSample<A> {
    pub(crate) stats: Stats<A>,
    pub(crate) groups: usize,
    /// Positions per sample.
    pub(crate) space: usize,
}

/// Sums to compute, and how the rows are divided among tasks. Operands are viewed as positions.
pub(crate) struct ColumnPlan<T: Element> {
    x: Operand<*const T>,
    dy: Option<Operand<*const T>>,
    per_sample: Option<PerSample<T::Acc>>,
    terms: ColumnTerms,
    n: usize,
    /// Whether the rows of all tensors are processed in place.
    direct: bool,
    chunks: Chunks,
}

impl<T: Element> ColumnPlan<T> {
    /// Plans the sums of some terms. `per_sample`, if given, is used instead of the statistics of the channels.
    pub(crate) fn new(
        x: Operand<*const T>,
        dy: Option<Operand<*const T>>,
        per_sample: Option<PerSample<T::Acc>>,
        terms: ColumnTerms,
        cx: &Context,
    ) -> Self {
        let n = x.n();
        let direct = x.direct().is_some() && dy.is_none_or(|dy| dy.direct().is_some());
        let tiles = if direct { Need::default() } else { Tiles::<T>::need(n) };
        let own = if per_sample.is_some() { Need::default().plus::<T::Acc>(n).times(3).and(tiles) } else { tiles };
        let chunks = Chunks::new(x.rows(), n, terms.count() * n, own, cx);
        ColumnPlan { x, dy, per_sample, terms, n, direct, chunks }
    }

    /// Returns the scratch memory that [`ColumnPlan::run`] takes.
    pub(crate) fn need(&self) -> Need {
        self.chunks.need::<T::Acc>()
    }

    /// Computes the sums: one of the first kind per channel, then of the second, and so on.
    ///
    /// # Safety
    /// The operands and those values of the channels that the terms use are valid.
    pub(crate) unsafe fn run(
        &self,
        channels: Channels<T::Acc>,
        cx: &Context,
        scratch: &mut Scratch,
    ) -> Result<*mut T::Acc, Error> {
        let isa = cx.machine_isa()?;
        // SAFETY: the tasks only read the tensors, and have separate sums and scratch memory.
        let shared = unsafe { Shared::new((&raw const *self, channels)) };
        let visit = |first: usize, end: usize, sums: *mut T::Acc, scratch: &mut Scratch| {
            let (plan, channels) = shared.get();
            // SAFETY: `self` outlives the call; the scratch memory belongs to this task.
            unsafe { (*plan).rows(isa, first, end, channels, sums, scratch) };
        };
        // SAFETY: calls for different rows access different memory.
        Ok(unsafe { self.chunks.run(scratch, &visit) })
    }

    /// Adds some rows to the sums.
    unsafe fn rows(
        &self,
        isa: MachineIsa,
        first: usize,
        end: usize,
        mut channels: Channels<T::Acc>,
        sums: *mut T::Acc,
        scratch: &mut Scratch,
    ) {
        let n = self.n;
        let own: [*mut T::Acc; 3] =
            std::array::from_fn(|_| if self.per_sample.is_some() { scratch.take(n) } else { std::ptr::null_mut() });
        let tiles = if self.direct { Tiles::none() } else { Tiles::new(n, scratch) };
        let mut row = first;
        while row < end {
            let mut count = tiles.rows.unwrap_or(end - first).min(end - row);
            // SAFETY: the rows exist; the scratch memory belongs to this task.
            unsafe {
                if let Some(per_sample) = self.per_sample {
                    count = count.min(per_sample.space - row % per_sample.space);
                    per_sample.spread(row / per_sample.space, n, own);
                    (channels.m, channels.delta, channels.r) = (own[0], own[1], own[2]);
                }
                let none = Rows { ptr: std::ptr::null(), stride: 0 };
                let kernel = ColumnSums {
                    x: input(&self.x, row, count, tiles.at[0]),
                    dy: self.dy.map_or(none, |dy| input(&dy, row, count, tiles.at[1])),
                    rows: count,
                    n,
                    channels,
                    terms: self.terms,
                    sums,
                };
                T::column_sums(isa, kernel);
            }
            row += count;
        }
    }
}

impl<A: Copy> PerSample<A> {
    /// Writes the statistics of a sample's groups once per channel.
    unsafe fn spread(&self, sample: usize, channels: usize, to: [*mut A; 3]) {
        let size = channels / self.groups;
        for channel in 0..channels {
            // SAFETY: the sample and the channel exist.
            unsafe {
                let stat = self.stats.get(sample * self.groups + channel / size);
                *to[0].add(channel) = stat.m;
                *to[1].add(channel) = stat.delta;
                *to[2].add(channel) = stat.r;
            }
        }
    }
}
