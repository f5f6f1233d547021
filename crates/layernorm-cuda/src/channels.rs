//! Norms of contiguous tensors `[N, C, …]` in device memory: group norm (instance norm is group norm with one channel
//! per group) and batch norm.
//!
//! ```text
//! group norm   m, δ, v, r, y and dx as for layer norm; a row is C/G channels of one sample
//! batch norm   the same with sums down the positions of a channel: for each sample in order, each place in order
//! both         one γ and β per channel;   dγ = Σ dy·x̂    dβ = Σ dy     over samples and places
//! ```

pub(crate) mod batch;
mod group;

pub use batch::{BatchBackward, BatchForward, BatchNorm, Running};
pub use group::{GroupBackward, GroupNorm};

use crate::columns::ColumnParams;
use crate::types::Accumulator;

/// Sizes of a tensor with channels.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) samples: usize,
    pub(crate) channels: usize,
    pub(crate) space: usize,
}

impl Shape {
    pub(crate) fn strides(&self) -> [i64; 3] {
        [(self.channels * self.space) as i64, self.space as i64, 1]
    }

    /// The tensor as positions and channels, without statistics.
    pub(crate) fn view<A: Accumulator>(&self, x: u64, dy: u64, eps: f64) -> ColumnParams<A> {
        let [sample, column, place] = self.strides();
        ColumnParams {
            x,
            dy,
            samples: self.samples as i64,
            columns: self.channels as i64,
            space: self.space as i64,
            x_sample: sample,
            x_column: column,
            x_place: place,
            dy_sample: sample,
            dy_column: column,
            dy_place: place,
            m: 0,
            delta: 0,
            rstd: 0,
            groups: 0,
            fixed: 0,
            lines: 0,
            eps: A::eps(eps),
        }
    }
}
