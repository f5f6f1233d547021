//! Rows that stream through shared memory: how many warps, teams and pieces of rows are on a multiprocessor at a time.
//!
//! Each thread has vectors of four elements, whatever their type. The forward pass holds a row in registers and runs
//! several teams per multiprocessor. The backward pass keeps two rows in shared memory and the sums for γ and β in
//! registers. Measured on an H200 with `layernorm-gpu-bench sweep`; `bench/notes/gpu-norms.md` has the figures.

mod room;
mod split;

use super::{BLOCK, LANES, MAX_WARPS, Schedule, Turns, max_cluster};
use crate::device::Properties;
use crate::types::Type;
use room::Room;
use split::Split;

/// Elements per vector of a thread.
const VECTOR: usize = 4;

/// Elements covered by one vector of each thread of a warp.
const SPREAD: usize = 32 * VECTOR;

/// Minimum rows per team for persistent blocks to pay off.
const MIN_TURNS: usize = 4;

/// Threads per multiprocessor in a forward pass, with 128 registers each. Twice as many threads have 64 registers,
/// which 32 elements and their temporaries fill; that pays off only where much time is spent waiting for other blocks.
/// Two teams of 11 to 14 warps have 72 to 88.
const FORWARD_THREADS: usize = 512;

/// The same with about 96 registers per thread.
const MORE_THREADS: usize = FORWARD_THREADS * 5 / 4;

/// Maximum blocks that exchange messages about a row: each lane of a warp reads the message of one block.
const MAX_MESSAGING: usize = 32;

/// Rows stream through a ring in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Streaming {
    /// Warps per thread block that share a row: one per 1024 elements.
    pub warps: usize,
    /// Thread blocks that share a row.
    pub row_blocks: usize,
    /// Backward only: whether the blocks that share a row exchange messages through the workspace, for which all blocks
    /// run at the same time. Otherwise they form a cluster.
    pub messages: bool,
    /// Vectors of four elements per thread.
    pub vectors: usize,
    /// Pieces into which a warp's part of a row is split; each is one bulk copy.
    pub pieces: usize,
    /// Pieces that the ring holds.
    pub ring_pieces: usize,
    /// Cache hints, added up. 1: lines that are read are evicted from L2 first. 2: stores are ordinary stores.
    pub hint: u32,
    /// Threads per block.
    pub threads: usize,
    /// Minimum resident blocks per multiprocessor. This limits the registers per thread.
    pub min_blocks: usize,
    /// How many waves of resident blocks are launched if there are enough rows.
    pub waves: usize,
}

/// How many vectors the warp at the end of a row has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowEnd {
    /// Vectors that all of its threads have.
    pub(crate) whole: usize,
    /// Whether some threads have one more.
    pub(crate) more: bool,
}

impl Streaming {
    /// Layout of a forward pass; `None` if the rows cannot stream. `params`: number of parameters (γ, β).
    pub fn forward(element: Type, n: usize, params: usize, properties: &Properties) -> Option<Self> {
        if !is_possible(element, n, BLOCK / 2 + 1, properties) {
            return None;
        }
        let least = n.div_ceil(BLOCK * MAX_WARPS).next_power_of_two();
        let max = max_cluster(properties);
        if least > max {
            return None;
        }
        let long = least > 1 && element.bytes() == 2;
        // Long rows in 16 bits spend half of the time waiting for other blocks, so use as many teams as there are
        // registers for.
        let (cluster, threads) = match long {
            true if least == max => (least, 2 * FORWARD_THREADS),
            true => (2 * least, 3 * FORWARD_THREADS / 2),
            false if least > 1 => (least, FORWARD_THREADS),
            false => (1, forward_threads(element, n)),
        };
        let (blocks, waves) = forward_blocks(element, n, cluster);
        let split = Split { about: cluster, max, messages: false };
        let one = Streaming::spread(n, &split, 1).threads;
        let room = Room { element, back: false, params, properties };
        let (pieces, ring) = forward_ring(element, n);
        let with = |blocks: usize, threads: usize| {
            let teams = (threads / blocks / one).max(1);
            // Use blocks of one team if blocks of several teams would leave threads unused.
            let (min_blocks, teams) = match cluster == 1 && blocks > 1 && threads / one > blocks * teams {
                true => (threads / one, 1),
                false => (blocks, teams),
            };
            // Evict what was read first, so that L2 has room for the rest.
            let hint = u32::from(long);
            let base = Streaming { min_blocks, waves, hint, ..Streaming::spread(n, &split, teams) };
            room.longest_ring(&base, pieces, pieces..=ring)
        };
        // Each block holds γ and β of its columns. On devices with less shared memory, try fewer blocks, then fewer
        // teams.
        with(blocks, threads).or_else(|| with(1, threads)).or_else(|| with(1, FORWARD_THREADS.min(threads)))
    }

    /// Whether streaming is faster for a forward pass of this many rows.
    pub(super) fn pays_off(&self, element: Type, rows: usize, n: usize, properties: &Properties) -> bool {
        let threads = self.min_blocks * self.threads;
        // A second team that only fills otherwise unused registers does not raise the required number of rows.
        let threads = if n > BLOCK && self.row_blocks == 1 { threads.min(FORWARD_THREADS) } else { threads };
        let teams = properties.multiprocessors as usize * (threads / (32 * self.warps)) / self.row_blocks;
        // Other lengths are faster with short-lived blocks of one row each.
        let faster = match element.bytes() {
            2 => n > BLOCK / 2,
            _ => n > 8 * BLOCK || n.div_ceil(BLOCK) == 6,
        };
        faster && rows >= MIN_TURNS * teams
    }

    /// Layout of a backward pass that computes dx and the sums for γ and β; `None` if the rows cannot stream. `params`:
    /// 1 if there is a γ, else 0.
    pub fn backward(element: Type, n: usize, params: usize, properties: &Properties) -> Option<Self> {
        // Rows of up to 512 elements have their own kernels, which check every vector if one is missing. In that case
        // 16-bit types are faster here.
        let short = element.bytes() == 2 && n < BLOCK / 2;
        if !is_possible(element, n, if short { BLOCK / 4 + 1 } else { BLOCK / 2 + 1 }, properties) {
            return None;
        }
        // Two sums per element take 64 registers. 8 warps have 255 registers per thread; 16 have 128, which is enough
        // for 16-bit types without spilling.
        let max_warps = if element.bytes() == 2 { MAX_WARPS } else { MAX_WARPS / 2 };
        let about = n.div_ceil(BLOCK * max_warps).next_power_of_two();
        // More than two blocks that share a row do not form a cluster. They must all be resident at the same time,
        // which the device must be able to guarantee.
        let max = if properties.cooperative { MAX_MESSAGING.min(properties.multiprocessors as usize) } else { 2 };
        if about > max {
            return None;
        }
        let room = Room { element, back: true, params, properties };
        if n <= BLOCK {
            // Each warp has its own chunk and completes its sums itself. Few warps per block, so that chunks are spread
            // evenly.
            let (teams, min_blocks) = if element.bytes() == 2 && n <= BLOCK * 3 / 4 { (4, 4) } else { (2, 4) };
            let base = Streaming { min_blocks, ..Streaming::spread(n, &Split::NONE, teams) };
            return [(1, 2..=4), (2, 3..=4)]
                .into_iter()
                .find_map(|(pieces, rings)| room.longest_ring(&base, pieces, rings));
        }
        let base = Streaming::spread(n, &Split { about, max, messages: true }, 1);
        let messages = base.row_blocks > 2;
        let base = Streaming { min_blocks: (max_warps * 32 / base.threads).max(1), messages, ..base };
        // Two rows in use, plus what is prefetched. Smaller pieces let blocks that wait for each other issue the next
        // load sooner.
        let rings = [(1, 3..=4), (2, 5..=6), (1, 2..=2), (4, 9..=12)];
        let skipped = usize::from(messages);
        rings.into_iter().skip(skipped).find_map(|(pieces, rings)| room.longest_ring(&base, pieces, rings))
    }

    /// A team with one warp per 1024 elements, split over blocks, with `teams` teams per block. Rows are not split into
    /// pieces.
    fn spread(n: usize, split: &Split, teams: usize) -> Self {
        let (row_blocks, warps) = split.blocks_and_warps(n);
        // Only vectors that exist, or else whole steps. A step is two vectors: one vector of each of 32 threads covers
        // half of the 256 lanes.
        let vectors = match n < BLOCK && n.is_multiple_of(SPREAD) {
            true => n / SPREAD,
            false => n.min(BLOCK).div_ceil(2 * SPREAD) * 2,
        };
        Streaming {
            warps,
            row_blocks,
            messages: false,
            vectors,
            pieces: 1,
            ring_pieces: 1,
            hint: 0,
            threads: 32 * warps * teams,
            min_blocks: 1,
            waves: 1,
        }
    }

    /// Whether there is room for the rows in use, and for the blocks on a multiprocessor.
    pub fn fits(&self, element: Type, back: bool, params: usize, properties: &Properties) -> bool {
        let rows = if back && (self.warps > 1 || self.row_blocks > 1) { 2 } else { 1 };
        let whole = self.cuts_whole_steps() && self.ring_pieces >= rows * self.pieces;
        // In a backward pass, a block of several warps has one team.
        let teams = rows < 2 || self.teams() == 1;
        whole && teams && Room { element, back, params, properties }.holds(self)
    }

    /// Whether pieces are whole steps.
    fn cuts_whole_steps(&self) -> bool {
        let parts = self.vectors.min(LANES / SPREAD);
        let steps = self.vectors.div_ceil(parts);
        self.pieces == 1 || (self.vectors.is_multiple_of(parts) && steps.is_multiple_of(self.pieces))
    }

    /// Teams per thread block.
    pub fn teams(&self) -> usize {
        self.threads / (32 * self.warps)
    }

    /// Elements of a row for which all threads together have vectors.
    fn capacity(&self) -> usize {
        self.vectors * SPREAD * self.warps * self.row_blocks
    }

    /// Whether every vector of every thread exists in a row of n elements.
    pub(crate) fn is_full(&self, n: usize) -> bool {
        self.capacity() == n
    }

    /// The end of a row, if some warps do not have all of their vectors.
    pub(crate) fn row_end(&self, n: usize) -> Option<RowEnd> {
        let end = (n - 1) % BLOCK + 1;
        let found = RowEnd { whole: end / SPREAD, more: !end.is_multiple_of(SPREAD) };
        (!self.is_full(n)).then_some(found)
    }

    /// Bytes per vector.
    pub(crate) fn vector_bytes(element: Type) -> usize {
        VECTOR * element.bytes()
    }

    /// Dynamic shared memory in bytes: the ring for `tensors` tensors, and `params` parameters (γ, β), widened, over
    /// the columns of a block.
    pub(crate) fn shared_bytes(&self, element: Type, tensors: usize, params: usize) -> usize {
        let row = Streaming::vector_bytes(element) * self.threads * self.vectors;
        let ring = self.ring_pieces * tensors * row / self.pieces;
        ring + params * 4 * VECTOR * self.vectors * 32 * self.warps
    }

    /// Whether its blocks exchange messages through global memory.
    pub(crate) fn exchanges_messages(&self) -> bool {
        self.row_blocks > 1 && self.messages
    }

    pub(crate) fn forward_schedule(&self) -> Schedule {
        self.schedule(Turns::Persistent { waves: self.waves, clusters: self.row_blocks > 1 })
    }

    /// A block that shares its rows with no other ends with its chunks.
    pub(crate) fn backward_schedule(&self) -> Schedule {
        self.schedule(match self.row_blocks {
            1 => Turns::OneLine,
            _ if self.messages => Turns::Cooperative,
            _ => Turns::Persistent { waves: self.waves, clusters: true },
        })
    }

    fn schedule(&self, turns: Turns) -> Schedule {
        let Streaming { threads, row_blocks, min_blocks, .. } = *self;
        Schedule { threads, teams: self.teams(), team_blocks: row_blocks, min_blocks, overlaps: false, turns }
    }
}

/// Whether streaming kernels exist: whole 16-byte vectors, a device with bulk copies, and at least `min` elements per
/// row.
fn is_possible(element: Type, n: usize, min: usize, properties: &Properties) -> bool {
    let whole = n.is_multiple_of(element.per_vector());
    element != Type::F64 && properties.clusters && properties.capability >= 90 && n >= min && whole
}

/// Threads per multiprocessor in a forward pass where one block has a whole row. If the team size does not divide 512,
/// many threads would be left over.
fn forward_threads(element: Type, n: usize) -> usize {
    let one = 32 * n.div_ceil(BLOCK);
    match (element.bytes(), n) {
        (2, ..=1024) => MORE_THREADS,
        // 16-bit types have more rows in flight instead; shorter rows of f32 hardly ever stream.
        (2, 4097..=8192) | (4, ..=8192) => FORWARD_THREADS,
        // Two teams.
        (2, 10241..=14336) => 2 * one,
        (4, 10241..) => FORWARD_THREADS,
        _ if FORWARD_THREADS.is_multiple_of(one) => FORWARD_THREADS,
        _ => MORE_THREADS,
    }
}

/// Blocks per multiprocessor in a forward pass, and the number of waves. Later waves even out differences in run time,
/// and start up while other blocks of the multiprocessor compute. Where a block loads a large part of γ and β, there
/// are few waves. `about`: approximate number of blocks that share a row.
fn forward_blocks(element: Type, n: usize, about: usize) -> (usize, usize) {
    match (element.bytes(), n) {
        (2, ..=1024) => (10, 32),
        (2, ..=4096) => (2, 16),
        (2, ..=8192) => (2, 1),
        (2, _) => (1, 1),
        (_, 4097..=10240) => (2, 8),
        _ if about == 1 => (1, 8),
        _ if about <= 4 => (1, 2),
        _ => (1, 1),
    }
}

/// Pieces per row and the longest ring of them in a forward pass: one to four rows are loaded while the previous one is
/// processed.
fn forward_ring(element: Type, n: usize) -> (usize, usize) {
    match (element.bytes(), n) {
        (2, 4097..8192) => (1, 4),
        (2, 8192) => (4, 12),
        (2, ..=16384) => (1, 2),
        _ => (1, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::properties;

    /// Every size that can stream gets a layout that holds its rows and fits on the device.
    #[test]
    fn rows_fit() {
        let device = properties(90);
        for element in [Type::F32, Type::F16, Type::Bf16] {
            for n in (520..=16384)
                .step_by(8)
                .chain([16392, 18432, 20480, 32768, 40000, 53248, 65536, 100_000, 131_072, 262_144])
            {
                for params in [0, 1] {
                    for (back, found) in [
                        (false, Streaming::forward(element, n, 2 * params, &device)),
                        (true, Streaming::backward(element, n, params, &device)),
                    ] {
                        let shape = found.unwrap_or_else(|| panic!("{element:?} N={n} back {back}: no layout"));
                        let params = params * if back { 1 } else { 2 };
                        assert!(shape.fits(element, back, params, &device), "{element:?} N={n}: {shape:?}");
                        assert!(shape.capacity() >= n, "{element:?} N={n}: {shape:?}");
                        assert!(shape.min_blocks * shape.threads <= 1024, "{element:?} N={n}: {shape:?}");
                        assert!(shape.warps == 1 || shape.teams() <= 16, "{element:?} N={n}: {shape:?}");
                    }
                }
            }
        }
    }

    /// No streaming kernels for f64, for devices without bulk copies, or for rows that no cluster holds.
    #[test]
    fn others_stay() {
        assert_eq!(Streaming::forward(Type::F64, 4096, 2, &properties(90)), None);
        assert_eq!(Streaming::backward(Type::F32, 4096, 1, &properties(80)), None);
        assert_eq!(Streaming::forward(Type::F32, 262_148, 2, &properties(90)), None);
        assert_eq!(Streaming::backward(Type::F32, 262_148, 1, &properties(90)), None);
        assert_eq!(Streaming::backward(Type::Bf16, 4097, 1, &properties(90)), None);
        for (element, n) in [(Type::F32, 384), (Type::Bf16, 256), (Type::Bf16, 512)] {
            assert_eq!(Streaming::backward(element, n, 1, &properties(90)), None, "{element:?} {n}");
        }
    }

    /// Long rows are distributed so that few warps are idle.
    #[test]
    fn few_are_idle() {
        let device = properties(90);
        let shared = |found: Option<Streaming>| found.map(|found| (found.row_blocks, found.warps));
        for (element, n, forward, backward) in [
            (Type::F32, 18432, (5, 4), (5, 4)),
            (Type::Bf16, 18432, (5, 4), (5, 4)),
            (Type::F32, 20480, (5, 4), (5, 4)),
            (Type::F32, 24576, (3, 8), (3, 8)),
            (Type::Bf16, 28672, (4, 8), (7, 4)),
            (Type::F32, 32768, (2, 16), (4, 8)),
            (Type::Bf16, 32768, (4, 8), (2, 16)),
            (Type::F32, 53248, (4, 16), (13, 4)),
            (Type::F32, 262_144, (16, 16), (32, 8)),
        ] {
            assert_eq!(shared(Streaming::forward(element, n, 2, &device)), Some(forward), "{element:?} {n} forward");
            assert_eq!(shared(Streaming::backward(element, n, 1, &device)), Some(backward), "{element:?} {n} backward");
        }
    }

    /// Vectors of the last warp: full rows, whole vectors only, and a partial one.
    #[test]
    fn ends_of_rows() {
        let end = |element, n, back| {
            let choose = if back { Streaming::backward } else { Streaming::forward };
            let shape = choose(element, n, 1, &properties(90)).expect("a layout");
            shape.row_end(n).map(|end| (end.whole, end.more))
        };
        assert_eq!(end(Type::F32, 4096, false), None);
        assert_eq!(end(Type::F32, 20480, true), None);
        assert_eq!(end(Type::F32, 22528, true), Some((8, false)));
        assert_eq!(end(Type::Bf16, 1536, true), Some((4, false)));
        assert_eq!(end(Type::Bf16, 1032, true), Some((0, true)));
        assert_eq!(end(Type::Bf16, 3000, true), Some((7, true)));
        assert_eq!(end(Type::Bf16, 3000, false), Some((7, true)));
        assert_eq!(end(Type::Bf16, 640, false), None);
    }

    /// A device with less than half of the shared memory.
    #[test]
    fn fewer_blocks() {
        let device = properties(90);
        let small = Properties { shared_per_block: 99 << 10, shared_per_multiprocessor: 100 << 10, ..device.clone() };
        for (element, n, params) in [
            (Type::Bf16, 768, 2),
            (Type::Bf16, 1024, 2),
            (Type::Bf16, 2048, 2),
            (Type::Bf16, 4096, 2),
            (Type::Bf16, 9216, 2),
            (Type::Bf16, 13312, 1),
            (Type::F32, 9216, 1),
        ] {
            let found = Streaming::forward(element, n, params, &small).unwrap_or_else(|| panic!("N={n}: no layout"));
            assert!(found.fits(element, false, params, &small), "N={n}: {found:?}");
        }
    }

    /// Short rows for which their own kernels would have to check every vector.
    #[test]
    fn short_rows_backward() {
        let device = properties(90);
        for n in (264..512).step_by(8) {
            let found = Streaming::backward(Type::Bf16, n, 1, &device).unwrap_or_else(|| panic!("N={n}: no layout"));
            assert!(found.fits(Type::Bf16, true, 1, &device), "N={n}: {found:?}");
            assert!(found.capacity() >= n, "N={n}: {found:?}");
        }
    }
}
