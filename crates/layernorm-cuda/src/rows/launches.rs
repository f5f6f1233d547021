//! The grid size of a row kernel, and its launch.

use super::Job;
use crate::config::{Schedule, Turns};
use crate::driver::call;
use crate::error::Error;
use crate::launch::{Launch, Stream};
use crate::module::{Function, Variant};

impl Job<'_> {
    /// Launches a row kernel over `lines` lines: rows, or chunks of rows. `messages`: workspace for messages between
    /// blocks that share a row, if the schedule needs it.
    pub(super) unsafe fn launch<P: Copy>(
        &self,
        variant: &Variant,
        schedule: &Schedule,
        lines: usize,
        messages: u64,
        stream: Stream,
        params: &P,
    ) -> Result<(), Error> {
        let function = self.device.function(variant)?;
        let groups = lines.div_ceil(schedule.teams);
        let groups = match schedule.turns {
            Turns::OneLine => groups,
            Turns::Persistent { waves, clusters } => {
                self.persistent_groups(&function, schedule, groups, waves, clusters)?
            }
            // SAFETY: guaranteed by the caller.
            Turns::Cooperative => unsafe {
                return self.launch_cooperative(&function, schedule, lines, messages, stream, params);
            },
        };
        // If there are more groups than a grid can have, blocks loop over them.
        let groups = groups.min((i32::MAX as usize) / schedule.team_blocks);
        let blocks = (groups * schedule.team_blocks) as u32;
        let launch = Launch::new(blocks, schedule.threads as u32).cluster(schedule.team_blocks as u32);
        let launch = launch.overlapping(schedule.overlaps && self.device.properties().clusters);
        // SAFETY: guaranteed by the caller.
        unsafe { launch.run(&function, stream, params) }
    }

    /// How many persistent blocks or clusters take turns over `groups` blocks' worth of lines.
    fn persistent_groups(
        &self,
        function: &Function,
        schedule: &Schedule,
        groups: usize,
        waves: usize,
        clusters: bool,
    ) -> Result<usize, Error> {
        let Schedule { threads, team_blocks, .. } = *schedule;
        let multiprocessors = self.device.properties().multiprocessors as usize;
        // Small grids are fully resident anyway; asking the driver for the occupancy would take longer than the kernel.
        if groups * team_blocks <= multiprocessors {
            return Ok(groups);
        }
        let held = if clusters {
            let cluster = team_blocks as u32;
            Launch::new(cluster, threads as u32).cluster(cluster).active_clusters(function)? as usize
        } else {
            let blocks = function.blocks_per_multiprocessor(threads as u32)? as usize;
            blocks * multiprocessors / team_blocks
        };
        Ok(schedule.persistent(groups, held.max(1), waves))
    }

    /// Launches a kernel whose teams are several blocks that exchange messages: all blocks are resident at once and
    /// loop over the lines.
    unsafe fn launch_cooperative<P: Copy>(
        &self,
        function: &Function,
        schedule: &Schedule,
        lines: usize,
        messages: u64,
        stream: Stream,
        params: &P,
    ) -> Result<(), Error> {
        let held = function.blocks_per_multiprocessor(schedule.threads as u32)? as usize;
        let blocks = held * self.device.properties().multiprocessors as usize;
        let teams = schedule.messaging_teams(lines, blocks);
        let bytes = teams * schedule.team_message_bytes();
        let launch = Launch::new((teams * schedule.team_blocks) as u32, schedule.threads as u32).cooperative();
        // SAFETY: the messages lie in the workspace; the caller guarantees the rest.
        unsafe {
            call!(cuMemsetD8Async(messages, 0, bytes, stream.0))?;
            launch.run(function, stream, params)
        }
    }
}
