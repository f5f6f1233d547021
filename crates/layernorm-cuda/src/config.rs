//! How rows are spread over the GPU: every threshold, in one place, as data. No choice here changes a bit of a result.
//!
//! A team works on a row: `team` threads of a warp for rows of up to 1024 elements; else a warp for each 1024 elements, in up
//! to 16 warps of a block and up to 16 blocks of a cluster. `bench/notes/gpu-norms.md` has the measurements behind the numbers.

mod flow;
mod small;

pub use small::{Down, down, lanes};

pub use flow::{Flow, stream_backward, stream_fits, stream_forward, streams_forward};
pub(crate) use flow::{MESSAGE_BYTES, row_end, talking_teams, team_message_bytes};

use crate::device::Properties;
use crate::types::Type;

/// Elements of a block of the canonical sum.
pub(crate) const BLOCK: usize = 1024;
/// Rows of a chunk of the sums down the rows.
pub(crate) const CHUNK: usize = 64;
/// Warps of a thread block that shares a row.
const MOST_WARPS: usize = 16;
/// Blocks of a cluster; above 8 a kernel must ask for it.
const MOST_CLUSTER: usize = 16;
/// Blocks of a cluster that every device with clusters has.
const PORTABLE_CLUSTER: usize = 8;
/// Rows of each team of a block that others wait to come after: its start is worth it.
const LEAST_OF_WAVE: usize = 6;
/// Elements of a row that a block has at least where a cluster shares the row though a block could hold it.
const LEAST_SHARE: usize = 4096;

/// The geometry of a row kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    /// Threads of a warp that share a row.
    pub team: usize,
    /// Warps of a block that share a row.
    pub warps: usize,
    /// Blocks that share a row: a cluster; or (`Flow::across`) any that run at the same time.
    pub cluster: usize,
    /// Vectors that a thread holds of a row: of 16 bytes; with `flow` or `four`, of four elements.
    pub vectors: usize,
    /// Whether vectors have four elements in 16 bits too: threads then have as few lanes of a sum as in f32, and fold as cheaply.
    /// Nothing is fetched ahead so.
    pub four: bool,
    /// Steps (256 lanes of the canonical sum) that are fetched ahead; 0 for none. With `flow`: the pieces that there is room for.
    pub ring: usize,
    /// Threads of a block.
    pub threads: usize,
    /// Whether γ and β stay in registers from row to row.
    pub keep: bool,
    /// Blocks that a multiprocessor must be able to hold: bounds the registers.
    pub blocks: usize,
    /// How rows stream through shared memory, where they do.
    pub flow: Option<Flow>,
    /// Whether a thread has a lane of the canonical sum, for few rows.
    pub lanes: bool,
    /// Whether it may start before the launch before it has ended, which saves what a launch costs.
    pub overlaps: bool,
    /// Where blocks take rows in turn: how many times as many of them there are as fit at once, if there are rows enough. Those that
    /// come later even out what the first ones took longer for.
    pub waves: usize,
    /// Whether a thread has a whole row, for short ones. `vectors` are of 16 bytes, `ring` counts rows of a thread.
    pub each: bool,
}

impl Geometry {
    /// What all others differ from.
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

    /// Elements of a vector.
    fn per(&self, element: Type) -> usize {
        if self.four || self.flow.is_some() { Flow::VECTOR } else { element.per_vector() }
    }

    /// Vectors of a thread that make a step.
    pub fn parts(&self, element: Type) -> usize {
        let spread = self.team * self.per(element);
        self.vectors.min(if spread >= 256 { 1 } else { 256 / spread })
    }

    /// Steps of a row.
    pub fn steps(&self, element: Type) -> usize {
        self.vectors.div_ceil(self.parts(element))
    }

    /// Bytes of shared memory that the ring takes, with so many tensors fetched.
    pub fn ring_bytes(&self, element: Type, tensors: usize) -> usize {
        if let Some(flow) = self.flow {
            let row = Flow::VECTOR * element.bytes() * self.threads * self.vectors;
            return self.ring * tensors * row / flow.pieces;
        }
        let fetched = if self.each { self.vectors } else { self.parts(element) };
        self.ring * fetched * tensors * 16 * self.threads
    }

    /// Bytes of shared memory for so many of γ and β, widened, of the columns that a block has. Of rows that stream.
    pub(crate) fn columns_bytes(&self, params: usize) -> usize {
        params * 4 * Flow::VECTOR * self.vectors * 32 * self.warps
    }

    /// Blocks or clusters for so many teams' worth of rows, of which so many are held at once, and stay for some rows each.
    pub(crate) fn in_turn(&self, groups: usize, held: usize) -> usize {
        let waves = self.waves.min(groups / (LEAST_OF_WAVE * held)).max(1);
        if waves == 1 { self.evenly(groups, held) } else { waves * held }
    }

    /// How many of at most `held` teams (or blocks of them) take so many lines in turn. Clusters with one block a multiprocessor: as few as
    /// need no more turns, for a last turn of a few would leave most of the bandwidth unused. With several blocks a multiprocessor that turn
    /// is quick, and all are used.
    fn evenly(&self, lines: usize, held: usize) -> usize {
        let turns = if self.cluster > 1 && self.blocks == 1 { lines.div_ceil(held).max(1) } else { 1 };
        lines.div_ceil(turns).clamp(1, held)
    }

    /// Whether its blocks leave each other messages.
    pub(crate) fn across(&self) -> bool {
        self.cluster > 1 && self.flow.is_some_and(|flow| flow.across)
    }

    /// Teams of a thread block.
    pub fn teams(&self) -> usize {
        self.threads / (self.team * self.warps)
    }

    /// A team of this many threads for rows of n ≤ 1024 elements.
    pub fn narrow(element: Type, n: usize, team: usize, threads: usize) -> Self {
        Geometry { team, threads, ..Geometry::NONE }.holding(element, n)
    }

    /// The same in vectors of four elements.
    pub fn narrow_four(element: Type, n: usize, team: usize, threads: usize) -> Self {
        Geometry { team, threads, four: true, ..Geometry::NONE }.holding(element, n)
    }

    /// With the vectors of a row of n that its team has: those that there are, or (if some threads have fewer) whole steps.
    fn holding(self, element: Type, n: usize) -> Self {
        let one = Geometry { vectors: n.div_ceil(self.team * self.per(element)).max(1), ..self };
        if one.is_full(element, n) { one } else { one.whole_steps(element) }
    }

    /// With as many vectors as steps have: what fetches ahead, and rows of which some are missing, count in these.
    pub fn whole_steps(self, element: Type) -> Self {
        Geometry { vectors: self.vectors.next_multiple_of(self.parts(element)), ..self }
    }

    /// A thread for each row, if the rows are of 64, 128 or 256 bytes and lie one after the other; so many rows of each thread have
    /// room.
    pub fn each(element: Type, n: usize, ring: usize, threads: usize, blocks: usize) -> Option<Self> {
        let bytes = n * element.bytes();
        let fits = element != Type::F64 && [64, 128, 256].contains(&bytes);
        let vectors = bytes / 16;
        fits.then_some(Geometry { team: 1, vectors, ring, threads, blocks, each: true, ..Geometry::NONE })
    }

    /// A warp for each 1024 elements of a row, over so many blocks.
    pub fn wide(element: Type, n: usize, cluster: usize) -> Self {
        let warps = n.div_ceil(BLOCK).div_ceil(cluster);
        // Blocks of a cluster fold their own warps first, so each must have a power of two of them.
        let warps = if cluster > 1 { warps.next_power_of_two() } else { warps };
        let vectors = BLOCK / 32 / element.per_vector();
        let threads = 32 * warps;
        Geometry { team: 32, warps, cluster, vectors, threads, ..Geometry::NONE }
    }

    /// The blocks of a cluster for rows of n elements, if they fit at all: more where so few `lines` leave multiprocessors idle.
    fn cluster_for(n: usize, lines: usize, properties: &Properties) -> Option<usize> {
        let mut cluster = n.div_ceil(BLOCK * MOST_WARPS).next_power_of_two();
        let most = most_cluster(properties);
        let idle = |cluster: usize| 2 * cluster * lines <= properties.multiprocessors as usize;
        while 2 * cluster <= most.min(8) && idle(cluster) && n / (2 * cluster) >= LEAST_SHARE {
            cluster *= 2;
        }
        (cluster <= most).then_some(cluster)
    }

    /// Whether each of so many teams has the multiprocessors to itself. Clusters lie in one part of the chip each, which leaves some
    /// out: 132 hold seven of 16.
    fn alone(&self, lines: usize, properties: &Properties) -> bool {
        let spare = if self.cluster > 1 { self.cluster } else { 0 };
        lines * self.cluster + spare <= self.teams() * properties.multiprocessors as usize
    }

    /// Whether every vector of every thread exists in a row of n elements.
    pub(crate) fn is_full(&self, element: Type, n: usize) -> bool {
        self.vectors * self.team * self.per(element) * self.warps * self.cluster == n
    }

    /// With so many steps fetched ahead.
    pub fn ring(self, ring: usize) -> Self {
        Geometry { ring, ..self }
    }
}

/// Blocks of the largest cluster on a device: 16 where a kernel may ask for more than the portable 8.
fn most_cluster(properties: &Properties) -> usize {
    match properties.capability {
        90..120 if properties.clusters => MOST_CLUSTER,
        _ if properties.clusters => PORTABLE_CLUSTER,
        _ => 1,
    }
}

/// How many threads share a row of n ≤ 1024, for so many elements a thread.
fn team_for(element: Type, n: usize, each: usize) -> usize {
    n.div_ceil(each.max(element.per_vector())).next_power_of_two().clamp(1, 32)
}

/// Elements of a thread, forward: with more, sums are folded less often, which counts in 16 bits, and more registers are taken, which
/// counts in f32.
fn forward_each(element: Type, n: usize) -> usize {
    if element.bytes() == 2 && n >= 64 { 32 } else { 16 }
}

/// Elements of a thread, backward: each takes two more registers for the sums of γ and β.
fn backward_each(element: Type, n: usize) -> usize {
    if element.bytes() == 2 && n > 128 { 32 } else { 16 }
}

/// Threads of a block for teams that are not a whole block: fewer where there are few rows, so that all multiprocessors work.
fn threads_for(rows: usize, team: usize, properties: &Properties) -> usize {
    let mut threads = 128;
    while threads > 32 && rows * team / threads < properties.multiprocessors as usize {
        threads /= 2;
    }
    threads
}

/// How short rows are spread where a thread has each: three blocks a multiprocessor have registers enough, two tiles of rows a warp
/// memory.
pub fn each_shape(element: Type, n: usize, properties: &Properties) -> Option<Geometry> {
    Geometry::each(element, n, 2, 128, 3).filter(|_| properties.capability >= 90)
}

/// A forward pass of short rows, a thread each, where there are enough of them. They lie one after the other, as whole vectors.
pub fn each_forward(element: Type, rows: usize, n: usize, properties: &Properties) -> Option<Geometry> {
    let found = each_shape(element, n, properties)?;
    let turns = rows / (found.threads * found.blocks * properties.multiprocessors as usize);
    // What was faster so on an H200; f16 has not been measured.
    let most = match element {
        Type::Bf16 => 128,
        Type::F32 => 32,
        _ => 0,
    };
    (n <= most && turns >= 4).then_some(Geometry { waves: 4, ..found })
}

/// Forward rows of such lengths (16-bit types, others) are fetched ahead by blocks that stay. Shorter ones hide behind each
/// other; longer ones, over several blocks, do better with two at a time that come and go.
const FORWARD_AHEAD: [std::ops::RangeInclusive<usize>; 2] = [1025..=16384, 8193..=16384];

/// Forward rows of such lengths are in vectors of four in 16-bit types.
const FORWARD_FOUR: std::ops::RangeInclusive<usize> = 129..=512;

/// The geometry of a forward pass; `None` for rows that no team holds. `aligned`: whole 16-byte vectors everywhere.
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
    // 64 registers a thread hold 32 elements of 16 bits with what is done to them; f32 is better off with 128, f64 needs them.
    let small = (element.bytes() == 2 && n >= 256) || geometry.cluster > 1 || (element.bytes() == 4 && n < BLOCK);
    // Where elements may be missing, which ones exist takes more, for 16 bits too much.
    let sparse = element.bytes() == 2 && n <= BLOCK && !(aligned && geometry.is_full(element, n));
    let threads = match small && element != Type::F64 {
        true if sparse => 640,
        true => 1024,
        false => 512,
    };
    geometry.blocks = (threads / geometry.threads).max(1);
    let several = rows > geometry.teams() * properties.multiprocessors as usize / geometry.cluster;
    if !several && n > BLOCK && element != Type::F64 {
        // A row each. Where the multiprocessors are its own, all that it needs is asked for at once; else two blocks must fit.
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

/// The geometry of a backward pass; `sums`: a team has a chunk of rows and sums for γ and β.
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
    // 32 elements a thread and their sums take more than 128 registers.
    let most = if backward_each(element, n) == 32 && n <= BLOCK / 2 { 2 } else { 4 };
    geometry.blocks = (MOST_WARPS * 32 / geometry.threads).clamp(1, most);
    let several = rows > geometry.teams() * properties.multiprocessors as usize / geometry.cluster;
    geometry.overlaps = !several && !sums && n > BLOCK;
    geometry.keep = geometry.overlaps && element != Type::F64;
    if geometry.overlaps && geometry.cluster > 1 && !geometry.alone(rows, properties) {
        // Two blocks must fit on a multiprocessor, or the last clusters wait for the first: x and dy are read again instead.
        geometry.keep = false;
        geometry.blocks = 2;
        return Some(geometry);
    }
    if aligned {
        let steps = geometry.steps(element);
        // More was not faster.
        geometry.ring = if steps > 1 { steps + 2 } else { 2 };
        shrink_ring(&mut geometry, element, 2, properties);
    }
    Some(geometry)
}

/// Lets the ring fit into shared memory beside its neighbours. A row must fit; else nothing is fetched ahead.
fn shrink_ring(geometry: &mut Geometry, element: Type, tensors: usize, properties: &Properties) {
    // What the sums of the warps take, and the system.
    let own = 12 << 10;
    let room = (properties.shared_per_multiprocessor / geometry.blocks).min(properties.shared_per_block) - own;
    while geometry.ring_bytes(element, tensors) > room {
        geometry.ring -= 1;
    }
    if geometry.ring < geometry.steps(element) + 1 {
        geometry.ring = 0;
    }
}

/// Whether backward takes the sums for γ and β along with dx: if the chunks keep the multiprocessors busy. Else dx goes row by
/// row, and the sums after it. f64 has no room for sums in registers.
pub fn fuses_sums(element: Type, rows: usize, n: usize, properties: &Properties) -> bool {
    let chunks = rows.div_ceil(CHUNK);
    let blocks = if n <= BLOCK {
        chunks * team_for(element, n, backward_each(element, n)) / 128
    } else {
        chunks * n.div_ceil(BLOCK * MOST_WARPS)
    };
    element != Type::F64 && blocks * 4 >= properties.multiprocessors as usize * 3
}

/// Columns and threads of a block that folds the sums of chunks: a thread has about eight of a column's.
pub(crate) fn finish_shape(columns: usize, parts: usize) -> (usize, usize) {
    let high = parts.div_ceil(8).next_power_of_two();
    if high == 1 {
        return (256, 256);
    }
    // Few columns or many sums: narrower blocks, so that there are more of them.
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

    /// Only rows of whole vectors, a power of two of them, and so many that all multiprocessors have several tiles.
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
                    // What a block has beside its rows is 4 KiB at most, and the system has 1 KiB of it.
                    let block = found.ring_bytes(element, 1) + (5 << 10);
                    assert!(found.blocks * block <= device.shared_per_multiprocessor, "{found:?}");
                }
                assert_eq!(each_forward(element, 100_000, n, &device), None, "{element:?} N={n}: few rows");
                assert_eq!(each_forward(element, many, n, &properties(80)), None, "{element:?} N={n}: no bulk copies");
            }
        }
    }

    /// Later blocks come only where each has some rows, and there are never more than rows for them.
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

    /// Clusters with a multiprocessor to each block have as few turns as there can be, and all of them as many.
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
