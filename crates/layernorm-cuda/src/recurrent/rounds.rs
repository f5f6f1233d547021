//! The launches of a time loop, each with as many sequences as the groups of blocks can take.

use super::kernels::Round;
use super::plan::Plan;
use crate::launch::Launch;

/// Number of unsuccessful polls before a thread gives up: about two seconds.
pub(super) const PATIENCE: u32 = 1 << 22;

impl Plan {
    /// Divides the sequences into rounds, each one launch of a time loop.
    pub(super) fn rounds(&self, lengths: u64, fail: u64) -> impl Iterator<Item = (Round, Launch)> + use<> {
        let (batch, geometry, (row_time, row_batch)) = (self.shape.batch, self.geometry, self.strides());
        let (report, patience) = (self.report, self.patience);
        let (steps, reverse, sequences) = (self.shape.steps, self.layer.reverse, geometry.groups * geometry.columns);
        (0..batch).step_by(sequences).map(move |first| {
            let end = (first + sequences).min(batch);
            let round = Round {
                lengths,
                fail,
                report,
                steps: steps as i32,
                batch: batch as i32,
                first: first as i32,
                end: end as i32,
                cols: geometry.columns as i32,
                row_time: row_time as i32,
                row_batch: row_batch as i32,
                reverse: i32::from(reverse),
                patience,
            };
            let groups = (end - first).div_ceil(geometry.columns);
            (round, Launch::new((groups * geometry.group) as u32, 256).cooperative())
        })
    }
}
