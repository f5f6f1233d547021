//! Launches of kernels whose blocks leave each other messages.

use super::Job;
use crate::config::{self, Geometry};
use crate::driver::call;
use crate::error::Error;
use crate::launch::{Launch, Stream};
use crate::module::Variant;

impl Job<'_> {
    /// Launches a kernel whose teams are several blocks that leave each other messages: all run at the same time, and take lines
    /// in turn.
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
        let teams = lines.min(config::talking_teams(geometry, blocks)).max(1);
        let bytes = teams * config::team_message_bytes(geometry);
        let launch = Launch::new((teams * geometry.cluster) as u32, geometry.threads as u32).cooperative();
        // SAFETY: the messages are the workspace's; the rest is the caller's promise.
        unsafe {
            call!(cuMemsetD8Async(messages, 0, bytes, stream.0))?;
            launch.run(&function, stream, params)
        }
    }
}
