//! Shared memory of streaming kernels.

use super::Streaming;
use crate::config::CHUNK;
use crate::device::Properties;
use crate::types::Type;
use std::ops::RangeInclusive;

/// What a pass keeps in the shared memory of a device.
#[derive(Clone, Copy)]
pub(super) struct Room<'a> {
    pub(super) element: Type,
    /// Whether this is a backward pass.
    pub(super) back: bool,
    /// Number of parameters: γ and β, in a backward pass only γ.
    pub(super) params: usize,
    pub(super) properties: &'a Properties,
}

impl Room<'_> {
    /// Shared memory besides the ring and the parameters: `Pipe` in the kernels.
    fn own_bytes(&self, shape: &Streaming) -> usize {
        let Streaming { row_blocks, warps, threads, ring_pieces, .. } = *shape;
        let messages = shape.exchanges_messages();
        let warps_padded = warps.next_power_of_two();
        let exchange = 16 * (warps_padded + 1 + if messages { 1 } else { row_blocks });
        let wide = warps > 1 || row_blocks > 1;
        let sums = if self.back {
            let found = 32 * if messages { 1 } else { row_blocks };
            let chunks = 1 + usize::from(row_blocks > 1);
            exchange + 16 * warps_padded + 64 + found + 16 * row_blocks + chunks * 3 * 4 * CHUNK * shape.teams()
        } else {
            exchange * if wide { shape.teams() } else { 1 }
        };
        (sums + threads / 32 * ring_pieces * 8).next_multiple_of(128)
    }

    /// Whether a multiprocessor holds as many blocks as the layout asks for.
    pub(super) fn holds(&self, shape: &Streaming) -> bool {
        let tensors = 1 + usize::from(self.back);
        let bytes = shape.shared_bytes(self.element, tensors, self.params) + self.own_bytes(shape);
        // The system reserves 1 KiB per block.
        let share = self.properties.shared_per_multiprocessor / shape.min_blocks - 1024;
        bytes <= share.min(self.properties.shared_per_block)
    }

    /// The layout with rows split into `pieces` and the longest of these rings, if there is room.
    pub(super) fn longest_ring(
        &self,
        base: &Streaming,
        pieces: usize,
        rings: RangeInclusive<usize>,
    ) -> Option<Streaming> {
        let with = |ring_pieces| Streaming { pieces, ring_pieces, ..*base };
        rings.rev().map(with).find(|one| self.holds(one)).filter(Streaming::cuts_whole_steps)
    }
}
