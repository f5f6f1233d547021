//! How a row is split over thread blocks.

use crate::config::BLOCK;

/// Approximate number of multiprocessors per GPC. A cluster lies within one GPC.
const GPC_MULTIPROCESSORS: usize = 16;

/// Minimum warps per block when fewer than the maximum are tried. With fewer, there would be too many messages.
const MIN_WARPS: usize = 4;

/// What limits the number of blocks that share a row.
#[derive(Clone, Copy)]
pub(super) struct Split {
    /// Approximate number of blocks.
    pub(super) about: usize,
    /// Maximum number of blocks.
    pub(super) max: usize,
    /// Whether they exchange messages instead of forming a cluster.
    pub(super) messages: bool,
}

impl Split {
    /// A block has whole rows.
    pub(super) const NONE: Split = Split { about: 1, max: 1, messages: false };

    /// How many blocks share a row of n elements, and the warps per block. Blocks fold their own warps first, so the
    /// number of warps is a power of two. Chosen so that the fewest multiprocessors and warps are idle, whether because a
    /// row has too few elements or because clusters do not fill a GPC.
    pub(super) fn blocks_and_warps(&self, n: usize) -> (usize, usize) {
        let parts = n.div_ceil(BLOCK);
        if self.about == 1 {
            return (1, parts);
        }
        let max_warps = parts.div_ceil(self.about).next_power_of_two();
        let at_work = |warps: usize| {
            let blocks = parts.div_ceil(warps);
            let beside = if self.messages { GPC_MULTIPROCESSORS } else { GPC_MULTIPROCESSORS / blocks * blocks };
            1000 * beside * parts / (blocks * warps)
        };
        let allowed =
            |warps: &usize| *warps == max_warps || (*warps >= MIN_WARPS && parts.div_ceil(*warps) <= self.max);
        // `max_by_key` returns the last maximum: among equally good choices, the one with the most warps.
        let best =
            [max_warps / 4, max_warps / 2, max_warps].into_iter().filter(allowed).max_by_key(|warps| at_work(*warps));
        let warps = best.unwrap_or(max_warps);
        (parts.div_ceil(warps), warps)
    }
}
