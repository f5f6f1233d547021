//! How the teams of a kernel cover the lines of a launch. A *team* works on a line, which is a row or a chunk of rows:
//! it is a part of a warp, some warps of a block, or several blocks.

/// Minimum lines per team before a second wave pays off: below that, starting the blocks costs more than it gains.
const MIN_LINES_OF_WAVE: usize = 6;

/// Maximum number of blocks that exchange messages, over all teams: nearly four per multiprocessor on a device with
/// 132.
const MAX_MESSAGING_BLOCKS: usize = 512;

/// Bytes of messages per block: six sets of two, as in `Messages` of messages.cuh.
const BLOCK_MESSAGE_BYTES: usize = 6 * 2 * 8;

/// Bytes of workspace for the messages of blocks that share a row.
pub(crate) const MESSAGE_BYTES: usize = MAX_MESSAGING_BLOCKS * BLOCK_MESSAGE_BYTES;

/// The blocks of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// Threads per block.
    pub(crate) threads: usize,
    /// Teams per block.
    pub(crate) teams: usize,
    /// Blocks per team.
    pub(crate) team_blocks: usize,
    /// Minimum resident blocks per multiprocessor.
    pub(crate) min_blocks: usize,
    /// Whether the kernel may start before the previous launch has ended, which hides the launch latency.
    pub(crate) overlaps: bool,
    /// How many lines a team has.
    pub(crate) turns: Turns,
}

/// How many lines a team has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turns {
    /// One. Blocks end with it.
    OneLine,
    /// Several: persistent blocks loop over the lines.
    Persistent {
        /// How many waves of resident blocks are launched if there are enough lines. Later waves even out the
        /// differences in run time of the first.
        waves: usize,
        /// Whether the driver is asked how many clusters are resident, because some multiprocessors may stay unused.
        clusters: bool,
    },
    /// Several, and the blocks of a team exchange messages through global memory: all blocks must be resident.
    Cooperative,
}

impl Schedule {
    /// Number of persistent blocks or clusters for `groups` blocks' worth of lines, when `held` of them are resident at
    /// a time.
    pub(crate) fn persistent(&self, groups: usize, held: usize, waves: usize) -> usize {
        let waves = waves.min(groups / (MIN_LINES_OF_WAVE * held)).max(1);
        if waves == 1 { self.evenly(groups, held) } else { waves * held }
    }

    /// How many of at most `held` teams (or blocks of teams) take turns over `lines` lines. Teams of several blocks,
    /// one per multiprocessor, are as few as need no additional turn, because a partial last turn would leave most of
    /// the bandwidth unused. With several blocks per multiprocessor that turn is short, so all are used.
    fn evenly(&self, lines: usize, held: usize) -> usize {
        let turns = if self.team_blocks > 1 && self.min_blocks == 1 { lines.div_ceil(held).max(1) } else { 1 };
        lines.div_ceil(turns).clamp(1, held)
    }

    /// Number of teams that exchange messages for `lines` lines, if `blocks` blocks are resident on the device.
    pub(crate) fn messaging_teams(&self, lines: usize, blocks: usize) -> usize {
        self.evenly(lines, (blocks.min(MAX_MESSAGING_BLOCKS) / self.team_blocks).max(1))
    }

    /// Bytes of messages per team.
    pub(crate) fn team_message_bytes(&self) -> usize {
        self.team_blocks * BLOCK_MESSAGE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WARP: Schedule =
        Schedule { threads: 32, teams: 1, team_blocks: 1, min_blocks: 1, overlaps: false, turns: Turns::OneLine };

    /// Later waves are launched only if each block gets enough rows, and there are never more blocks than rows.
    #[test]
    fn blocks_in_waves() {
        for groups in (1..20_000).step_by(7) {
            let blocks = WARP.persistent(groups, 132, 8);
            assert!(blocks <= groups && blocks <= 8 * 132, "{groups}: {blocks}");
            assert!(blocks <= 132 || groups / blocks >= MIN_LINES_OF_WAVE, "{groups}: {blocks}");
            assert!(blocks >= groups.min(132), "{groups}: {blocks}");
        }
        assert_eq!(WARP.persistent(8192, 132, 8), 8 * 132, "512 MiB of rows of 16384 f32");
    }

    /// Clusters with one block per multiprocessor take the minimum number of turns, evenly distributed.
    #[test]
    fn turns_are_even() {
        let cluster = Schedule { team_blocks: 2, ..WARP };
        let two = Schedule { min_blocks: 2, ..cluster };
        for (lines, wanted) in [(1, 1), (66, 66), (67, 34), (132, 66), (146, 49), (1000, 63)] {
            assert_eq!(cluster.persistent(lines, 66, 1), wanted, "{lines} lines");
            assert_eq!(two.persistent(lines, 66, 1), lines.min(66), "{lines} lines, two blocks");
            assert_eq!(WARP.persistent(lines, 66, 1), lines.min(66), "{lines} lines, no cluster");
        }
    }

    /// Blocks that exchange messages: as many teams as fit; with one block per multiprocessor, as few as need no
    /// additional turn; and no more than there is room for messages.
    #[test]
    fn teams_that_exchange_messages() {
        let three = Schedule { team_blocks: 3, turns: Turns::Cooperative, ..WARP };
        assert_eq!(three.messaging_teams(1, 132), 1);
        assert_eq!(three.messaging_teams(44, 132), 44);
        assert_eq!(three.messaging_teams(45, 132), 23);
        assert_eq!(Schedule { min_blocks: 2, ..three }.messaging_teams(45, 132), 44);
        assert_eq!(three.messaging_teams(5, 2), 1);
        for team_blocks in 3..=32 {
            let schedule = Schedule { team_blocks, min_blocks: 4, ..three };
            let teams = schedule.messaging_teams(100_000, 4 * 160);
            assert!(teams * schedule.team_message_bytes() <= MESSAGE_BYTES, "{team_blocks} blocks: {teams} teams");
        }
    }
}
