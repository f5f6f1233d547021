//! The grid size of a row kernel, and its launch.

use super::Job;
use crate::config::{self, Geometry};
use crate::driver::call;
use crate::error::Error;
use crate::launch::{Launch, Stream};
use crate::module::Variant;

impl Job<'_> {
    /// Launches a row kernel. `in_turn`: persistent blocks loop over the rows; otherwise there is one team per line (a
    /// row or a chunk).
    pub(super) unsafe fn launch<P: Copy>(
        &self,
        variant: &Variant,
        geometry: &Geometry,
        lines: usize,
        in_turn: bool,
        stream: Stream,
        params: &P,
    ) -> Result<(), Error> {
        let function = self.device.function(variant)?;
        let mut groups = lines.div_ceil(geometry.teams());
        let multiprocessors = self.device.properties().multiprocessors as usize;
        // Small grids are fully resident anyway; asking the driver for the occupancy would take longer than the kernel.
        if in_turn && groups * geometry.cluster > multiprocessors {
            let held = if geometry.flow.is_some() && geometry.cluster > 1 {
                // A cluster lies within one GPC, so some multiprocessors may stay unused.
                let cluster = geometry.cluster as u32;
                Launch::new(cluster, geometry.threads as u32).cluster(cluster).active_clusters(&function)? as usize
            } else {
                let blocks = function.blocks_per_multiprocessor(geometry.threads as u32)? as usize;
                blocks * multiprocessors / geometry.cluster
            };
            groups = geometry.in_turn(groups, held.max(1));
        }
        // If there are more groups than a grid can have, blocks loop over them.
        let groups = groups.min((i32::MAX as usize) / geometry.cluster);
        let launch =
            Launch::new((groups * geometry.cluster) as u32, geometry.threads as u32).cluster(geometry.cluster as u32);
        let launch = launch.overlapping(geometry.overlaps && self.device.properties().clusters);
        // SAFETY: the caller's promise.
        unsafe { launch.run(&function, stream, params) }
    }

    /// Launches a kernel whose teams are several blocks that exchange messages: all blocks are resident at once and
    /// loop over the lines.
    pub(super) unsafe fn launch_across<P: Copy>(
        &self,
        variant: &Variant,
        geometry: &Geometry,
        lines: usize,
        messages: u64,
        stream: Stream,
        params: &P,
    ) -> Result<(), Error> {
        let function = self.device.function(variant)?;
        let held = function.blocks_per_multiprocessor(geometry.threads as u32)? as usize;
        let blocks = held * self.device.properties().multiprocessors as usize;
        let teams = config::talking_teams(geometry, lines, blocks);
        let bytes = teams * config::team_message_bytes(geometry);
        let launch = Launch::new((teams * geometry.cluster) as u32, geometry.threads as u32).cooperative();
        // SAFETY: the messages lie in the workspace; the caller guarantees the rest.
        unsafe {
            call!(cuMemsetD8Async(messages, 0, bytes, stream.0))?;
            launch.run(&function, stream, params)
        }
    }
}
