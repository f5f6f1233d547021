//! How rows are mapped onto the GPU: every threshold, in one place, as data. No choice made here changes a bit of a
//! result.
//!
//! A *team* works on a row. For rows of up to 1024 elements it is `team` threads of one warp. For longer rows it is one
//! warp per 1024 elements, with up to 16 warps per thread block and up to 16 blocks per cluster.
//! `bench/notes/gpu-norms.md` has the measurements behind the numbers.

mod flow;
mod small;

pub use small::{Down, down, lanes};

pub use flow::{Flow, stream_backward, stream_fits, stream_forward, streams_forward};
pub(crate) use flow::{MESSAGE_BYTES, row_end, talking_teams, team_message_bytes};

use crate::device::Properties;
use crate::types::Type;

/// Elements per block of the canonical sum.
pub(crate) const BLOCK: usize = 1024;
/// Rows per chunk of the sums down the rows.
pub(crate) const CHUNK: usize = 64;
/// Maximum warps per thread block when the whole block shares a row.
const MOST_WARPS: usize = 16;
/// Maximum blocks per cluster. Sizes above 8 are non-portable, and a kernel must opt in.
const MOST_CLUSTER: usize = 16;
/// Cluster size that every device with clusters supports.
const PORTABLE_CLUSTER: usize = 8;
/// Minimum rows per team before a second wave pays off: below that, starting the blocks costs more than it gains.
const LEAST_OF_WAVE: usize = 6;
/// Minimum elements per block when a cluster shares a row that a single block could hold.
const LEAST_SHARE: usize = 4096;

/// How a row kernel is laid out on the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    /// Threads of a warp that share a row.
    pub team: usize,
    /// Warps per thread block that share a row.
    pub warps: usize,
    /// Thread blocks that share a row: a cluster, or, with `Flow::across`, any blocks that run at the same time.
    pub cluster: usize,
    /// Vectors of a row per thread. A vector has 16 bytes; with `flow` or `four`, four elements.
    pub vectors: usize,
    /// Whether vectors have four elements in 16-bit types too. A thread then has as few lanes of a sum as in f32, and
    /// folding costs as little. Rules out prefetching.
    pub four: bool,
    /// Depth of the prefetch ring in steps (256 lanes of the canonical sum); 0 disables prefetching. With `flow`, the
    /// number of pieces that the ring holds.
    pub ring: usize,
    /// Threads per block.
    pub threads: usize,
    /// Whether γ and β stay in registers from row to row.
    pub keep: bool,
    /// Minimum resident blocks per multiprocessor. This limits the registers per thread.
    pub blocks: usize,
    /// How rows stream through shared memory, if they do.
    pub flow: Option<Flow>,
    /// Whether each thread has one lane of the canonical sum. Used for few rows.
    pub lanes: bool,
    /// Whether the kernel may start before the previous launch has ended, which hides the launch latency.
    pub overlaps: bool,
    /// For persistent blocks that loop over rows: how many waves of them are launched if there are enough rows. Later
    /// waves even out the differences in run time of the first.
    pub waves: usize,
    /// Whether each thread has a whole row. Used for short rows. `vectors` then counts vectors of 16 bytes, and `ring`
    /// rows per thread.
    pub each: bool,
}

impl Geometry {
    /// The default that the constructors start from.
    const NONE: Geometry = Geometry {
        team: 32,
        warps: 1,
        cluster: 1,
        vectors: 1,
        four: false,
        ring: 0,
        threads: 32,
        keep: false,
        blocks: 1,
        flow: None,
        lanes: false,
        overlaps: false,
        waves: 1,
        each: false,
    };

    /// Elements per vector.
    fn per(&self, element: Type) -> usize {
        if self.four || self.flow.is_some() { Flow::VECTOR } else { element.per_vector() }
    }

    /// Vectors per thread in one step.
    pub fn parts(&self, element: Type) -> usize {
        let spread = self.team * self.per(element);
        self.vectors.min(if spread >= 256 { 1 } else { 256 / spread })
    }

    /// Steps per row.
    pub fn steps(&self, element: Type) -> usize {
        self.vectors.div_ceil(self.parts(element))
    }

    /// Shared memory of the ring in bytes, when `tensors` tensors are prefetched.
    pub fn ring_bytes(&self, element: Type, tensors: usize) -> usize {
        if let Some(flow) = self.flow {
            let row = Flow::VECTOR * element.bytes() * self.threads * self.vectors;
            return self.ring * tensors * row / flow.pieces;
        }
        let fetched = if self.each { self.vectors } else { self.parts(element) };
        self.ring * fetched * tensors * 16 * self.threads
    }

    /// Shared memory in bytes for `params` parameters (γ, β), widened, over the columns of a block. Streaming rows
    /// only.
    pub(crate) fn columns_bytes(&self, params: usize) -> usize {
        params * 4 * Flow::VECTOR * self.vectors * 32 * self.warps
    }

    /// Number of persistent blocks or clusters for `groups` teams' worth of rows, when `held` of them are resident at a
    /// time.
    pub(crate) fn in_turn(&self, groups: usize, held: usize) -> usize {
        let waves = self.waves.min(groups / (LEAST_OF_WAVE * held)).max(1);
        if waves == 1 { self.evenly(groups, held) } else { waves * held }
    }

    /// How many of at most `held` teams (or blocks of teams) take turns over `lines` rows. Clusters with one block per
    /// multiprocessor use as few as need no additional turn, because a partial last turn would leave most of the
    /// bandwidth unused. With several blocks per multiprocessor that turn is short, so all are used.
    fn evenly(&self, lines: usize, held: usize) -> usize {
        let turns = if self.cluster > 1 && self.blocks == 1 { lines.div_ceil(held).max(1) } else { 1 };
        lines.div_ceil(turns).clamp(1, held)
    }

    /// Whether its blocks exchange messages through global memory.
    pub(crate) fn across(&self) -> bool {
        self.cluster > 1 && self.flow.is_some_and(|flow| flow.across)
    }

    /// Teams per thread block.
    pub fn teams(&self) -> usize {
        self.threads / (self.team * self.warps)
    }

    /// A team of `team` threads for rows of n ≤ 1024 elements.
    pub fn narrow(element: Type, n: usize, team: usize, threads: usize) -> Self {
        Geometry { team, threads, ..Geometry::NONE }.holding(element, n)
    }

    /// [`Geometry::narrow`] with vectors of four elements.
    pub fn narrow_four(element: Type, n: usize, team: usize, threads: usize) -> Self {
        Geometry { team, threads, four: true, ..Geometry::NONE }.holding(element, n)
    }

    /// Sets `vectors` for rows of n elements: exactly those that exist, or, if some threads would have fewer than
    /// others, whole steps.
    fn holding(self, element: Type, n: usize) -> Self {
        let one = Geometry { vectors: n.div_ceil(self.team * self.per(element)).max(1), ..self };
        if one.is_full(element, n) { one } else { one.whole_steps(element) }
    }

    /// Rounds `vectors` up to whole steps, which prefetching and partial rows require.
    pub fn whole_steps(self, element: Type) -> Self {
        Geometry { vectors: self.vectors.next_multiple_of(self.parts(element)), ..self }
    }

    /// One thread per row, for contiguous rows of 64, 128 or 256 bytes. `ring` is the number of rows that are buffered
    /// per thread.
    pub fn each(element: Type, n: usize, ring: usize, threads: usize, blocks: usize) -> Option<Self> {
        let bytes = n * element.bytes();
        let fits = element != Type::F64 && [64, 128, 256].contains(&bytes);
        let vectors = bytes / 16;
        fits.then_some(Geometry { team: 1, vectors, ring, threads, blocks, each: true, ..Geometry::NONE })
    }

    /// One warp per 1024 elements of a row, spread over `cluster` blocks.
    pub fn wide(element: Type, n: usize, cluster: usize) -> Self {
        let warps = n.div_ceil(BLOCK).div_ceil(cluster);
        // Each block of a cluster folds its own warps first, so the number of warps must be a power of two.
        let warps = if cluster > 1 { warps.next_power_of_two() } else { warps };
        let vectors = BLOCK / 32 / element.per_vector();
        let threads = 32 * warps;
        Geometry { team: 32, warps, cluster, vectors, threads, ..Geometry::NONE }
    }

    /// Blocks per cluster for rows of n elements, or `None` if a row does not fit. Larger clusters are used when
    /// `lines` is too small to keep all multiprocessors busy.
    fn cluster_for(n: usize, lines: usize, properties: &Properties) -> Option<usize> {
        let mut cluster = n.div_ceil(BLOCK * MOST_WARPS).next_power_of_two();
        let most = most_cluster(properties);
        let idle = |cluster: usize| 2 * cluster * lines <= properties.multiprocessors as usize;
        while 2 * cluster <= most.min(8) && idle(cluster) && n / (2 * cluster) >= LEAST_SHARE {
            cluster *= 2;
        }
        (cluster <= most).then_some(cluster)
    }

    /// Whether all teams are resident at the same time, each with its multiprocessors to itself. A cluster must lie
    /// within one GPC, so some multiprocessors stay unused: 132 of them hold seven clusters of 16.
    fn alone(&self, lines: usize, properties: &Properties) -> bool {
        let spare = if self.cluster > 1 { self.cluster } else { 0 };
        lines * self.cluster + spare <= self.teams() * properties.multiprocessors as usize
    }

    /// Whether every vector of every thread exists in a row of n elements.
    pub(crate) fn is_full(&self, element: Type, n: usize) -> bool {
        self.vectors * self.team * self.per(element) * self.warps * self.cluster == n
    }

    /// Sets the depth of the prefetch ring.
    pub fn ring(self, ring: usize) -> Self {
        Geometry { ring, ..self }
    }
}

/// Largest cluster size of a device: 16 where a kernel may ask for more than the portable 8.
fn most_cluster(properties: &Properties) -> usize {
    match properties.capability {
        90..120 if properties.clusters => MOST_CLUSTER,
        _ if properties.clusters => PORTABLE_CLUSTER,
        _ => 1,
    }
}

/// Threads that share a row of n ≤ 1024 elements, with about `each` elements per thread.
fn team_for(element: Type, n: usize, each: usize) -> usize {
    n.div_ceil(each.max(element.per_vector())).next_power_of_two().clamp(1, 32)
}

/// Elements per thread in a forward pass. More elements mean fewer folds, which matters in 16 bits, but more registers,
/// which matters in f32.
fn forward_each(element: Type, n: usize) -> usize {
    if element.bytes() == 2 && n >= 64 { 32 } else { 16 }
}

/// Elements per thread in a backward pass. Each takes two more registers, for the sums for γ and β.
fn backward_each(element: Type, n: usize) -> usize {
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

/// Layout with one thread per row. Three blocks per multiprocessor leave enough registers; two tiles of rows per warp
/// fit in shared memory.
pub fn each_shape(element: Type, n: usize, properties: &Properties) -> Option<Geometry> {
    Geometry::each(element, n, 2, 128, 3).filter(|_| properties.capability >= 90)
}

/// Forward pass of short rows with one thread per row, if there are enough rows. The rows must be contiguous and made
/// of whole vectors.
pub fn each_forward(element: Type, rows: usize, n: usize, properties: &Properties) -> Option<Geometry> {
    let found = each_shape(element, n, properties)?;
    let turns = rows / (found.threads * found.blocks * properties.multiprocessors as usize);
    // The lengths that were faster this way on an H200; f16 has not been measured.
    let most = match element {
        Type::Bf16 => 128,
        Type::F32 => 32,
        _ => 0,
    };
    (n <= most && turns >= 4).then_some(Geometry { waves: 4, ..found })
}

/// Row lengths (16-bit types, other types) whose forward pass is prefetched by persistent blocks. With shorter rows,
/// other resident warps hide the latency. Longer rows are shared by several blocks and run faster with two short-lived
/// blocks per multiprocessor.
const FORWARD_AHEAD: [std::ops::RangeInclusive<usize>; 2] = [1025..=16384, 8193..=16384];

/// Row lengths whose forward pass uses vectors of four elements in 16-bit types.
const FORWARD_FOUR: std::ops::RangeInclusive<usize> = 129..=512;

/// Layout of a forward pass; `None` for rows that no team holds. `aligned`: all operands consist of whole 16-byte
/// vectors.
pub fn forward(
    element: Type,
    rows: usize,
    n: usize,
    aligned: bool,
    tensors: usize,
    properties: &Properties,
) -> Option<Geometry> {
    let mut geometry = if n <= BLOCK {
        let team = team_for(element, n, forward_each(element, n));
        let threads = threads_for(rows, team, properties);
        match aligned {
            true if element.bytes() == 2 && FORWARD_FOUR.contains(&n) => {
                Geometry::narrow_four(element, n, team, threads.min(64))
            }
            true => Geometry::narrow(element, n, team, threads),
            false => Geometry::narrow(element, n, team, threads).whole_steps(element),
        }
    } else {
        Geometry::wide(element, n, Geometry::cluster_for(n, rows, properties)?)
    };
    // 64 registers per thread are enough for 32 elements of 16 bits and their temporaries. f32 is faster with 128; f64
    // needs them.
    let small = (element.bytes() == 2 && n >= 256) || geometry.cluster > 1 || (element.bytes() == 4 && n < BLOCK);
    // Tracking which elements exist takes more registers, too many for 16-bit types.
    let sparse = element.bytes() == 2 && n <= BLOCK && !(aligned && geometry.is_full(element, n));
    let threads = match small && element != Type::F64 {
        true if sparse => 640,
        true => 1024,
        false => 512,
    };
    geometry.blocks = (threads / geometry.threads).max(1);
    let several = rows > geometry.teams() * properties.multiprocessors as usize / geometry.cluster;
    if !several && n > BLOCK && element != Type::F64 {
        // One row per team. If the team has its multiprocessors to itself, it issues all loads at once; otherwise two
        // blocks must fit.
        geometry.overlaps = true;
        geometry.keep = geometry.alone(rows, properties);
        geometry.blocks = if geometry.keep { 1 } else { geometry.blocks };
    }
    let ahead = &FORWARD_AHEAD[usize::from(element.bytes() != 2)];
    if aligned && several && ahead.contains(&n) {
        geometry.blocks = (512 / geometry.threads).max(1);
        geometry.ring = 2 * geometry.steps(element);
        shrink_ring(&mut geometry, element, tensors, properties);
    }
    Some(geometry)
}

/// Layout of a backward pass. `sums`: each team takes a chunk of rows and also accumulates the sums for γ and β.
pub fn backward(
    element: Type,
    rows: usize,
    n: usize,
    aligned: bool,
    sums: bool,
    properties: &Properties,
) -> Option<Geometry> {
    let lines = if sums { rows.div_ceil(CHUNK) } else { rows };
    let mut geometry = if n <= BLOCK {
        let team = team_for(element, n, backward_each(element, n));
        Geometry::narrow(element, n, team, threads_for(lines, team, properties)).whole_steps(element)
    } else {
        Geometry::wide(element, n, Geometry::cluster_for(n, lines, properties)?)
    };
    // 32 elements per thread and their sums take more than 128 registers.
    let most = if backward_each(element, n) == 32 && n <= BLOCK / 2 { 2 } else { 4 };
    geometry.blocks = (MOST_WARPS * 32 / geometry.threads).clamp(1, most);
    let several = rows > geometry.teams() * properties.multiprocessors as usize / geometry.cluster;
    geometry.overlaps = !several && !sums && n > BLOCK;
    geometry.keep = geometry.overlaps && element != Type::F64;
    if geometry.overlaps && geometry.cluster > 1 && !geometry.alone(rows, properties) {
        // Two blocks must fit on a multiprocessor, or the last clusters wait for the first. So x and dy are read a
        // second time.
        geometry.keep = false;
        geometry.blocks = 2;
        return Some(geometry);
    }
    if aligned {
        let steps = geometry.steps(element);
        // A deeper ring was not faster.
        geometry.ring = if steps > 1 { steps + 2 } else { 2 };
        shrink_ring(&mut geometry, element, 2, properties);
    }
    Some(geometry)
}

/// Shrinks the ring until it fits into shared memory next to the other resident blocks. If not even one row fits,
/// prefetching is disabled.
fn shrink_ring(geometry: &mut Geometry, element: Type, tensors: usize, properties: &Properties) {
    // Reserved for the sums of the warps and for the system.
    let own = 12 << 10;
    let room = (properties.shared_per_multiprocessor / geometry.blocks).min(properties.shared_per_block) - own;
    while geometry.ring_bytes(element, tensors) > room {
        geometry.ring -= 1;
    }
    if geometry.ring < geometry.steps(element) + 1 {
        geometry.ring = 0;
    }
}

/// Whether the backward pass fuses the sums for γ and β with dx: only if there are enough chunks to keep the
/// multiprocessors busy. Otherwise dx is computed row by row, and the sums afterwards. f64 has no registers left for
/// the sums.
pub fn fuses_sums(element: Type, rows: usize, n: usize, properties: &Properties) -> bool {
    let chunks = rows.div_ceil(CHUNK);
    let blocks = if n <= BLOCK {
        chunks * team_for(element, n, backward_each(element, n)) / 128
    } else {
        chunks * n.div_ceil(BLOCK * MOST_WARPS)
    };
    element != Type::F64 && blocks * 4 >= properties.multiprocessors as usize * 3
}

/// Columns and threads per block that folds the sums of chunks. Each thread folds about eight sums of a column.
pub(crate) fn finish_shape(columns: usize, parts: usize) -> (usize, usize) {
    let high = parts.div_ceil(8).next_power_of_two();
    if high == 1 {
        return (256, 256);
    }
    // For few columns or many sums: narrower blocks, so that there are more of them.
    let wide = match (columns, high) {
        (0..=64, 17..) => 2,
        (0..=256, 17..) => 4,
        (0..=512, _) | (0..=2047, 17..) => 8,
        _ => 32,
    };
    (wide, (wide * high).min(512))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::properties;

    /// Used only for rows of a power of two of whole vectors, and only if there are enough rows to give every
    /// multiprocessor several tiles.
    #[test]
    fn a_thread_a_row() {
        let (device, many) = (properties(90), 1 << 20);
        for element in Type::ALL {
            for n in 1..=300 {
                let bytes = n * element.bytes();
                let wanted = match element {
                    Type::F32 => [16, 32].contains(&n),
                    Type::Bf16 => [32, 64, 128].contains(&n),
                    _ => false,
                };
                let found = each_forward(element, many, n, &device);
                assert_eq!(found.is_some(), wanted, "{element:?} N={n}");
                if let Some(found) = found {
                    assert_eq!(found.vectors * 16, bytes);
                    // Besides its rows, a block has at most 4 KiB; the system reserves another 1 KiB.
                    let block = found.ring_bytes(element, 1) + (5 << 10);
                    assert!(found.blocks * block <= device.shared_per_multiprocessor, "{found:?}");
                }
                assert_eq!(each_forward(element, 100_000, n, &device), None, "{element:?} N={n}: few rows");
                assert_eq!(each_forward(element, many, n, &properties(80)), None, "{element:?} N={n}: no bulk copies");
            }
        }
    }

    /// Later waves are launched only if each block gets enough rows, and there are never more blocks than rows.
    #[test]
    fn blocks_in_waves() {
        let geometry = Geometry { waves: 8, ..Geometry::NONE };
        for groups in (1..20_000).step_by(7) {
            let blocks = geometry.in_turn(groups, 132);
            assert!(blocks <= groups && blocks <= 8 * 132, "{groups}: {blocks}");
            assert!(blocks <= 132 || groups / blocks >= LEAST_OF_WAVE, "{groups}: {blocks}");
            assert!(blocks >= groups.min(132), "{groups}: {blocks}");
        }
        assert_eq!(geometry.in_turn(8192, 132), 8 * 132, "512 MiB of rows of 16384 f32");
    }

    /// Clusters with one block per multiprocessor take the minimum number of turns, evenly distributed.
    #[test]
    fn turns_are_even() {
        let cluster = Geometry { cluster: 2, ..Geometry::NONE };
        for (lines, wanted) in [(1, 1), (66, 66), (67, 34), (132, 66), (146, 49), (1000, 63)] {
            assert_eq!(cluster.in_turn(lines, 66), wanted, "{lines} lines");
            assert_eq!(
                Geometry { blocks: 2, ..cluster }.in_turn(lines, 66),
                lines.min(66),
                "{lines} lines, two blocks"
            );
            assert_eq!(Geometry::NONE.in_turn(lines, 66), lines.min(66), "{lines} lines, no cluster");
        }
    }
}
