//! Sums down the channels of a tensor.

use crate::context::{Context, Need, Scratch};
use crate::element::Element;
use crate::error::Error;
use crate::kernels::columns::{Channels, ColumnSums, ColumnTerms};
use crate::kernels::{Rows, Stats};
use crate::plan::Operand;
use crate::rows::{Chunks, Shared, Tiles, input};

/// Statistics that vary by sample (group and instance norm): one of each per sample and group.
#[derive(Clone, Copy)]
pub(crate) struct PerSample<A> {
    pub(crate) stats: Stats<A>,
    pub(crate) groups: usize,
    /// Positions per sample.
    pub(crate) space: usize,
}

/// Sums to compute. Operands are viewed as positions.
pub(crate) struct ColumnJob<T: Element> {
    pub(crate) x: Operand<*const T>,
    pub(crate) dy: Option<Operand<*const T>>,
    pub(crate) channels: Channels<T::Acc>,
    /// If given, used instead of the statistics in `channels`.
    pub(crate) per_sample: Option<PerSample<T::Acc>>,
    pub(crate) terms: ColumnTerms,
}

impl<T: Element> ColumnJob<T> {
    fn is_direct(&self) -> bool {
        self.x.direct().is_some() && self.dy.is_none_or(|dy| dy.direct().is_some())
    }

    fn chunks(&self, cx: &Context) -> Chunks {
        let (rows, n) = (self.x.rows(), self.x.n());
        let tiles = if self.is_direct() { Need::default() } else { Tiles::<T>::need(n) };
        let own = if self.per_sample.is_some() { Need::default().plus::<T::Acc>(n).times(3).and(tiles) } else { tiles };
        Chunks::new(rows, n, self.terms.count() * n, own, cx)
    }

    /// Returns the scratch memory that [`ColumnJob::run`] takes.
    pub(crate) fn need(&self, cx: &Context) -> Need {
        self.chunks(cx).need::<T::Acc>()
    }

    /// Computes the sums: one of the first kind per channel, then of the second, and so on.
    ///
    /// # Safety
    /// The operands and the channels' values are valid.
    pub(crate) unsafe fn run(self, cx: &Context, scratch: &mut Scratch) -> Result<*mut T::Acc, Error> {
        let isa = cx.machine_isa()?;
        let n = self.x.n();
        let direct = self.is_direct();
        let shared = Shared(&raw const self);
        let visit = |first: usize, end: usize, sums: *mut T::Acc, scratch: &mut Scratch| {
            // SAFETY: `self` outlives the call.
            let job = unsafe { &*shared.get() };
            let mut channels = job.channels;
            let own: [*mut T::Acc; 3] =
                std::array::from_fn(|_| if job.per_sample.is_some() { scratch.take(n) } else { std::ptr::null_mut() });
            let tiles = if direct { Tiles::none() } else { Tiles::new(n, scratch) };
            let mut row = first;
            while row < end {
                let mut count = tiles.rows.unwrap_or(end - first).min(end - row);
                // SAFETY: the rows exist; the scratch memory belongs to this task.
                unsafe {
                    if let Some(per_sample) = job.per_sample {
                        count = count.min(per_sample.space - row % per_sample.space);
                        per_sample.spread(row / per_sample.space, n, own);
                        (channels.m, channels.delta, channels.r) = (own[0], own[1], own[2]);
                    }
                    let none = Rows { ptr: std::ptr::null(), stride: 0 };
                    let kernel = ColumnSums {
                        x: input(&job.x, row, count, tiles.at[0]),
                        dy: job.dy.map_or(none, |dy| input(&dy, row, count, tiles.at[1])),
                        rows: count,
                        n,
                        channels,
                        terms: job.terms,
                        sums,
                    };
                    T::column_sums(isa, kernel);
                }
                row += count;
            }
        };
        // SAFETY: calls for different rows access different memory.
        Ok(unsafe { self.chunks(cx).run(scratch, &visit) })
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
