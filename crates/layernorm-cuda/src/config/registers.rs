//! Rows held in registers. For rows of up to 1024 elements a team is some threads of one warp. For longer rows it is
//! one warp per 1024 elements, with up to 16 warps per thread block and up to 16 blocks per cluster.

use super::{BLOCK, CHUNK, LANES, MAX_WARPS, PORTABLE_CLUSTER, Schedule, Turns, max_cluster};
use crate::device::Properties;
use crate::types::Type;
use std::ops::RangeInclusive;

/// Elements per vector of [`Registers::narrow_four`].
const FOUR: usize = 4;
/// Minimum elements per block when a cluster shares a row that a single block could hold.
const MIN_BLOCK_SHARE: usize = 4096;
/// Row lengths (16-bit types, other types) whose forward pass is prefetched by persistent blocks. With shorter rows,
/// other resident warps hide the latency. Longer rows are shared by several blocks and run faster with two short-lived
/// blocks per multiprocessor.
const FORWARD_PREFETCHED: [RangeInclusive<usize>; 2] = [1025..=16384, 8193..=16384];
/// Row lengths whose forward pass uses vectors of four elements in 16-bit types.
const FORWARD_FOUR: RangeInclusive<usize> = 129..=512;

/// A team of threads holds a row in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Registers {
    /// Threads of a warp that share a row.
    pub team: usize,
    /// Warps per thread block that share a row.
    pub warps: usize,
    /// Blocks per cluster, which share a row.
    pub cluster: usize,
    /// Vectors of a row per thread.
    pub vectors: usize,
    /// Elements per vector: 16 bytes of them, or four. With four elements of a 16-bit type a thread has as few lanes of
    /// a sum as in f32, and folding costs as little; but then nothing can be prefetched.
    pub vector_elements: usize,
    /// Depth of the prefetch ring in steps (256 lanes of the canonical sum); 0 disables prefetching.
    pub ring_steps: usize,
    /// Threads per block.
    pub threads: usize,
    /// Whether γ and β are loaded into registers ahead of the sums of a row, and stay there if the team has more rows.
    pub keeps_params: bool,
    /// Minimum resident blocks per multiprocessor. This limits the registers per thread.
    pub min_blocks: usize,
    /// Whether the kernel may start before the previous launch has ended, which hides the launch latency.
    pub overlaps: bool,
    /// Backward only: whether a team takes a chunk of rows and also accumulates its sums for γ and β.
    pub sums: bool,
}

impl Registers {
    /// One warp with one vector per thread, from which the constructors start.
    fn warp(element: Type) -> Self {
        Registers {
            team: 32,
            warps: 1,
            cluster: 1,
            vectors: 1,
            vector_elements: element.per_vector(),
            ring_steps: 0,
            threads: 32,
            keeps_params: false,
            min_blocks: 1,
            overlaps: false,
            sums: false,
        }
    }

    /// A team of `team` threads for rows of n ≤ 1024 elements.
    pub fn narrow(element: Type, n: usize, team: usize, threads: usize) -> Self {
        Registers { team, threads, ..Registers::warp(element) }.holding(n)
    }

    /// [`Registers::narrow`] with vectors of four elements.
    pub fn narrow_four(element: Type, n: usize, team: usize, threads: usize) -> Self {
        Registers { team, threads, vector_elements: FOUR, ..Registers::warp(element) }.holding(n)
    }

    /// Sets `vectors` for rows of n elements: exactly those that exist, or, if some threads would have fewer than
    /// others, whole steps.
    fn holding(self, n: usize) -> Self {
        let one = Registers { vectors: n.div_ceil(self.team * self.vector_elements).max(1), ..self };
        if one.is_full(n) { one } else { one.whole_steps() }
    }

    /// Rounds `vectors` up to whole steps, which prefetching and partial rows require.
    pub fn whole_steps(self) -> Self {
        Registers { vectors: self.vectors.next_multiple_of(self.parts()), ..self }
    }

    /// One warp per 1024 elements of a row, spread over `cluster` blocks.
    pub fn wide(element: Type, n: usize, cluster: usize) -> Self {
        let warps = n.div_ceil(BLOCK).div_ceil(cluster);
        // Each block of a cluster folds its own warps first, so the number of warps must be a power of two.
        let warps = if cluster > 1 { warps.next_power_of_two() } else { warps };
        let vectors = BLOCK / 32 / element.per_vector();
        Registers { warps, cluster, vectors, threads: 32 * warps, ..Registers::warp(element) }
    }

    /// Layout of a forward pass; `None` for rows that no team holds. `aligned`: all operands consist of whole 16-byte
    /// vectors. `tensors`: number of tensors that are read.
    pub fn forward(
        element: Type,
        rows: usize,
        n: usize,
        aligned: bool,
        tensors: usize,
        properties: &Properties,
    ) -> Option<Self> {
        let mut shape = if n <= BLOCK {
            let team = team_for(element, n, forward_elements(element, n));
            let threads = threads_for(rows, team, properties);
            match aligned {
                true if element.bytes() == 2 && FORWARD_FOUR.contains(&n) => {
                    Registers::narrow_four(element, n, team, threads.min(64))
                }
                true => Registers::narrow(element, n, team, threads),
                false => Registers::narrow(element, n, team, threads).whole_steps(),
            }
        } else {
            Registers::wide(element, n, cluster_for(n, rows, properties)?)
        };
        shape.min_blocks = (shape.forward_threads(element, n, aligned) / shape.threads).max(1);
        let several = shape.has_several_rows(rows, properties);
        if !several && n > BLOCK && element != Type::F64 {
            // One row per team. If the team has its multiprocessors to itself, it issues all loads at once; otherwise
            // two blocks must fit.
            shape.overlaps = true;
            shape.keeps_params = shape.is_alone(rows, properties);
            shape.min_blocks = if shape.keeps_params { 1 } else { shape.min_blocks };
        }
        let prefetched = &FORWARD_PREFETCHED[usize::from(element.bytes() != 2)];
        if aligned && several && prefetched.contains(&n) {
            shape.min_blocks = (512 / shape.threads).max(1);
            shape.ring_steps = shape.fitting_ring(2 * shape.steps(), tensors, properties);
        }
        Some(shape)
    }

    /// Threads per multiprocessor that a forward pass leaves registers for.
    fn forward_threads(&self, element: Type, n: usize, aligned: bool) -> usize {
        // 64 registers per thread are enough for 32 elements of 16 bits and their temporaries. f32 is faster with 128;
        // f64 needs them.
        let small = (element.bytes() == 2 && n >= 256) || self.cluster > 1 || (element.bytes() == 4 && n < BLOCK);
        // Tracking which elements exist takes more registers, too many for 16-bit types.
        let sparse = element.bytes() == 2 && n <= BLOCK && !(aligned && self.is_full(n));
        match small && element != Type::F64 {
            true if sparse => 640,
            true => 1024,
            false => 512,
        }
    }

    /// Layout of a backward pass; `None` for rows that no team holds. `sums`: each team takes a chunk of rows and also
    /// accumulates the sums for γ and β.
    pub fn backward(
        element: Type,
        rows: usize,
        n: usize,
        aligned: bool,
        sums: bool,
        properties: &Properties,
    ) -> Option<Self> {
        let lines = if sums { rows.div_ceil(CHUNK) } else { rows };
        let elements = backward_elements(element, n);
        let shape = if n <= BLOCK {
            let team = team_for(element, n, elements);
            Registers::narrow(element, n, team, threads_for(lines, team, properties)).whole_steps()
        } else {
            Registers::wide(element, n, cluster_for(n, lines, properties)?)
        };
        let mut shape = Registers { sums, ..shape };
        // 32 elements per thread and their sums take more than 128 registers.
        let max_blocks = if elements == 32 && n <= BLOCK / 2 { 2 } else { 4 };
        shape.min_blocks = (MAX_WARPS * 32 / shape.threads).clamp(1, max_blocks);
        shape.overlaps = !shape.has_several_rows(rows, properties) && !sums && n > BLOCK;
        shape.keeps_params = shape.overlaps && element != Type::F64;
        if shape.overlaps && shape.cluster > 1 && !shape.is_alone(rows, properties) {
            // Two blocks must fit on a multiprocessor, or the last clusters wait for the first. So x and dy are read a
            // second time.
            return Some(Registers { keeps_params: false, min_blocks: 2, ..shape });
        }
        if aligned {
            let steps = shape.steps();
            // A deeper ring was not faster.
            let ring_steps = if steps > 1 { steps + 2 } else { 2 };
            shape.ring_steps = shape.fitting_ring(ring_steps, 2, properties);
        }
        Some(shape)
    }

    /// Vectors per thread in one step.
    fn parts(&self) -> usize {
        let spread = self.team * self.vector_elements;
        self.vectors.min(if spread >= LANES { 1 } else { LANES / spread })
    }

    /// Steps per row.
    pub fn steps(&self) -> usize {
        self.vectors.div_ceil(self.parts())
    }

    /// Shared memory of the ring in bytes, when `tensors` tensors are prefetched.
    pub fn ring_bytes(&self, tensors: usize) -> usize {
        self.ring_steps * self.parts() * tensors * 16 * self.threads
    }

    /// Teams per thread block.
    fn teams(&self) -> usize {
        self.threads / (self.team * self.warps)
    }

    /// Whether every vector of every thread exists in a row of n elements.
    pub(crate) fn is_full(&self, n: usize) -> bool {
        self.vectors * self.team * self.vector_elements * self.warps * self.cluster == n
    }

    /// Whether some team has more than one row when each multiprocessor has one block.
    fn has_several_rows(&self, rows: usize, properties: &Properties) -> bool {
        rows > self.teams() * properties.multiprocessors as usize / self.cluster
    }

    /// Whether all teams are resident at the same time, each with its multiprocessors to itself. A cluster must lie
    /// within one GPC, so some multiprocessors stay unused: 132 of them hold seven clusters of 16.
    fn is_alone(&self, rows: usize, properties: &Properties) -> bool {
        let spare = if self.cluster > 1 { self.cluster } else { 0 };
        rows * self.cluster + spare <= self.teams() * properties.multiprocessors as usize
    }

    /// Depth of the longest ring of up to `steps` steps that fits into shared memory next to the other resident blocks;
    /// 0, which disables prefetching, if not even one row fits.
    fn fitting_ring(&self, steps: usize, tensors: usize, properties: &Properties) -> usize {
        // Reserved for the sums of the warps and for the system.
        let own = 12 << 10;
        let room = (properties.shared_per_multiprocessor / self.min_blocks).min(properties.shared_per_block) - own;
        let fits = |steps: &usize| Registers { ring_steps: *steps, ..*self }.ring_bytes(tensors) <= room;
        (self.steps() + 1..=steps).rev().find(fits).unwrap_or(0)
    }

    /// Blocks that prefetch are persistent; others end with their rows.
    pub(crate) fn forward_schedule(&self) -> Schedule {
        self.schedule(self.ring_steps > 0)
    }

    /// A team with a chunk of rows ends with it.
    pub(crate) fn backward_schedule(&self) -> Schedule {
        self.schedule(!self.sums)
    }

    fn schedule(&self, persistent: bool) -> Schedule {
        let Registers { threads, cluster, min_blocks, overlaps, .. } = *self;
        let turns = if persistent { Turns::Persistent { waves: 1, clusters: false } } else { Turns::OneLine };
        Schedule { threads, teams: self.teams(), team_blocks: cluster, min_blocks, overlaps, turns }
    }
}

/// Whether the backward pass fuses the sums for γ and β with dx: only if there are enough chunks to keep the
/// multiprocessors busy. Otherwise dx is computed row by row, and the sums afterwards. f64 has no registers left for
/// the sums.
pub(super) fn fuses_sums(element: Type, rows: usize, n: usize, properties: &Properties) -> bool {
    let chunks = rows.div_ceil(CHUNK);
    let blocks = if n <= BLOCK {
        chunks * team_for(element, n, backward_elements(element, n)) / 128
    } else {
        chunks * n.div_ceil(BLOCK * MAX_WARPS)
    };
    element != Type::F64 && blocks * 4 >= properties.multiprocessors as usize * 3
}

/// Blocks per cluster for rows of n elements, or `None` if a row does not fit. Larger clusters are used when `lines` is
/// too small to keep all multiprocessors busy.
fn cluster_for(n: usize, lines: usize, properties: &Properties) -> Option<usize> {
    let mut cluster = n.div_ceil(BLOCK * MAX_WARPS).next_power_of_two();
    let max = max_cluster(properties);
    let idle = |cluster: usize| 2 * cluster * lines <= properties.multiprocessors as usize;
    while 2 * cluster <= max.min(PORTABLE_CLUSTER) && idle(cluster) && n / (2 * cluster) >= MIN_BLOCK_SHARE {
        cluster *= 2;
    }
    (cluster <= max).then_some(cluster)
}

/// Threads that share a row of n ≤ 1024 elements, with about `elements` elements per thread.
fn team_for(element: Type, n: usize, elements: usize) -> usize {
    n.div_ceil(elements.max(element.per_vector())).next_power_of_two().clamp(1, 32)
}

/// Elements per thread in a forward pass. More elements mean fewer folds, which matters in 16 bits, but more registers,
/// which matters in f32.
fn forward_elements(element: Type, n: usize) -> usize {
    if element.bytes() == 2 && n >= 64 { 32 } else { 16 }
}

/// Elements per thread in a backward pass. Each takes two more registers, for the sums for γ and β.
fn backward_elements(element: Type, n: usize) -> usize {
    if element.bytes() == 2 && n > 128 { 32 } else { 16 }
}

/// Threads per block for teams that are smaller than a block. Fewer threads for few rows, so that all multiprocessors
/// have work.
fn threads_for(rows: usize, team: usize, properties: &Properties) -> usize {
    let mut threads = 128;
    while threads > 32 && rows * team / threads < properties.multiprocessors as usize {
        threads /= 2;
    }
    threads
}
