//! Rows that stream through shared memory: how many warps, teams and pieces of rows are on a multiprocessor at a time.
//!
//! Each thread has vectors of four elements, whatever their type. The forward pass holds a row in registers and runs
//! several teams per multiprocessor. The backward pass keeps two rows in shared memory and the sums for γ and β in
//! registers. Measured on an H200 with `layernorm-gpu-bench sweep`; `bench/notes/gpu-norms.md` has the figures.

use super::{BLOCK, CHUNK, Geometry, MOST_WARPS, most_cluster};
use crate::device::Properties;
use crate::types::Type;

/// How rows stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Pieces into which a warp's part of a row is split; each is one bulk copy.
    pub pieces: usize,
    /// Cache hints, added up. 1: lines that are read are evicted from L2 first. 2: stores are ordinary stores.
    pub hint: u32,
    /// Backward only: whether the blocks that share rows run at the same time and exchange messages through the
    /// workspace. Otherwise they form a cluster.
    pub across: bool,
}

impl Flow {
    /// Elements per vector of a thread.
    pub(crate) const VECTOR: usize = 4;

    /// Splits rows into `pieces`, with no hints and no messages.
    pub fn new(pieces: usize) -> Self {
        Flow { pieces, hint: 0, across: false }
    }
}

/// Elements covered by one vector of each thread of a warp.
const SPREAD: usize = 32 * Flow::VECTOR;

/// Minimum rows per team for persistent blocks to pay off.
const LEAST_TURNS: usize = 4;

/// Threads per multiprocessor in a forward pass, with 128 registers each. Twice as many threads have 64 registers,
/// which 32 elements and their temporaries fill; that pays off only where much time is spent waiting for other blocks.
/// Two teams of 11 to 14 warps have 72 to 88.
const FORWARD_THREADS: usize = 512;

/// The same with about 96 registers per thread.
const MORE_THREADS: usize = FORWARD_THREADS * 5 / 4;

/// Maximum blocks per backward team: each lane of a warp reads the message of one block.
const MOST_ACROSS: usize = 32;

/// Maximum number of blocks that exchange messages, over all teams: nearly four per multiprocessor on a device with
/// 132.
const MOST_TALKING: usize = 512;

/// Bytes of workspace for the messages of blocks that share a row: per block six sets of two, as in `Messages` of
/// messages.cuh.
pub(crate) const MESSAGE_BYTES: usize = MOST_TALKING * 6 * 2 * 8;

/// Bytes of messages per team.
pub(crate) fn team_message_bytes(geometry: &Geometry) -> usize {
    geometry.cluster * 6 * 2 * 8
}

/// Number of teams of several blocks for `lines` rows or chunks, if `blocks` blocks are resident on the device.
pub(crate) fn talking_teams(geometry: &Geometry, lines: usize, blocks: usize) -> usize {
    geometry.evenly(lines, (blocks.min(MOST_TALKING) / geometry.cluster).max(1))
}

/// What a pass loads.
#[derive(Clone, Copy)]
struct Load {
    element: Type,
    back: bool,
    /// Number of parameters: γ and β, in a backward pass only γ.
    params: usize,
}

impl Load {
    fn tensors(&self) -> usize {
        1 + usize::from(self.back)
    }

    /// Shared memory besides the ring and the parameters: `Pipe` in the kernels.
    fn own_bytes(&self, geometry: &Geometry) -> usize {
        let Geometry { cluster, warps, threads, ring, .. } = *geometry;
        let warps_padded = warps.next_power_of_two();
        let exchange = 16 * (warps_padded + 1 + if geometry.across() { 1 } else { cluster });
        let wide = warps > 1 || cluster > 1;
        let sums = if self.back {
            let found = 32 * if geometry.across() { 1 } else { cluster };
            let chunks = 1 + usize::from(cluster > 1);
            exchange + 16 * warps_padded + 64 + found + 16 * cluster + chunks * 3 * 4 * CHUNK * geometry.teams()
        } else {
            exchange * if wide { geometry.teams() } else { 1 }
        };
        (sums + threads / 32 * ring * 8).next_multiple_of(128)
    }

    /// Whether a multiprocessor holds as many blocks as the geometry asks for.
    fn fits(&self, geometry: &Geometry, properties: &Properties) -> bool {
        let bytes = geometry.ring_bytes(self.element, self.tensors())
            + geometry.columns_bytes(self.params)
            + self.own_bytes(geometry);
        // The system reserves 1 KiB per block.
        let share = properties.shared_per_multiprocessor / geometry.blocks - 1024;
        bytes <= share.min(properties.shared_per_block)
    }

    /// The geometry with rows split into `pieces` and the longest ring of `least` to `most` pieces, if there is room.
    fn with(
        &self,
        base: &Geometry,
        pieces: usize,
        (least, most): (usize, usize),
        properties: &Properties,
    ) -> Option<Geometry> {
        let flow = base.flow.map(|flow| Flow { pieces, ..flow });
        let geometry = |ring| Geometry { ring, flow, ..*base };
        let found = (least..=most).rev().map(geometry).find(|one| self.fits(one, properties));
        found.filter(|one| cuts(one, self.element))
    }
}

/// How many vectors the warp at the end of a row has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowEnd {
    /// Vectors that all of its threads have.
    pub(crate) whole: usize,
    /// Whether some threads have one more.
    pub(crate) more: bool,
}

/// The end of a row, if some warps do not have all of their vectors.
pub(crate) fn row_end(geometry: &Geometry, element: Type, n: usize) -> Option<RowEnd> {
    let end = (n - 1) % BLOCK + 1;
    let found = RowEnd { whole: end / SPREAD, more: !end.is_multiple_of(SPREAD) };
    (!geometry.is_full(element, n)).then_some(found)
}

/// Whether pieces are whole steps.
fn cuts(geometry: &Geometry, element: Type) -> bool {
    let pieces = geometry.flow.map_or(1, |flow| flow.pieces);
    let whole = geometry.vectors.is_multiple_of(geometry.parts(element));
    pieces == 1 || (whole && geometry.steps(element).is_multiple_of(pieces))
}

/// Approximate number of multiprocessors per GPC. A cluster lies within one GPC.
const PART_OF_CHIP: usize = 16;

/// Minimum warps per block when fewer than the maximum are tried. With fewer, there would be too many messages.
const LEAST_WARPS: usize = 4;

/// How many blocks share a row.
#[derive(Clone, Copy)]
struct Sharing {
    /// Approximate number of blocks.
    about: usize,
    /// Maximum number of blocks.
    most: usize,
    /// Whether they exchange messages instead of forming a cluster.
    across: bool,
}

impl Sharing {
    const NONE: Sharing = Sharing { about: 1, most: 1, across: false };

    /// How many blocks share a row of n elements, and the warps per block. Blocks fold their own warps first, so the
    /// number of warps is a power of two. Chosen so that the fewest multiprocessors and warps are idle, be it because a
    /// row has too few elements or because clusters do not fill a GPC.
    fn blocks_and_warps(&self, n: usize) -> (usize, usize) {
        let parts = n.div_ceil(BLOCK);
        if self.about == 1 {
            return (1, parts);
        }
        let most = parts.div_ceil(self.about).next_power_of_two();
        let at_work = |warps: usize| {
            let blocks = parts.div_ceil(warps);
            let beside = if self.across { PART_OF_CHIP } else { PART_OF_CHIP / blocks * blocks };
            1000 * beside * parts / (blocks * warps)
        };
        let allowed = |warps: &usize| *warps == most || (*warps >= LEAST_WARPS && parts.div_ceil(*warps) <= self.most);
        // `max_by_key` returns the last maximum: among equally good choices, the one with the most warps.
        let best = [most / 4, most / 2, most].into_iter().filter(allowed).max_by_key(|warps| at_work(*warps));
        let warps = best.unwrap_or(most);
        (parts.div_ceil(warps), warps)
    }
}

/// A team with one warp per 1024 elements, over the given blocks, with `teams` teams per block.
fn spread(n: usize, sharing: &Sharing, teams: usize) -> Geometry {
    let (cluster, warps) = sharing.blocks_and_warps(n);
    // Only vectors that exist, or else whole steps. A step is two vectors: one vector of each of 32 threads covers half
    // of the 256 lanes.
    let vectors = match n < BLOCK && n.is_multiple_of(SPREAD) {
        true => n / SPREAD,
        false => n.min(BLOCK).div_ceil(2 * SPREAD) * 2,
    };
    let threads = 32 * warps * teams;
    let flow = Some(Flow::new(1));
    Geometry { warps, cluster, vectors, ring: 1, threads, flow, ..Geometry::NONE }
}

/// Whether streaming kernels exist: whole 16-byte vectors, a device with bulk copies, and at least `least` elements per
/// row.
fn possible(element: Type, n: usize, least: usize, properties: &Properties) -> bool {
    let whole = n.is_multiple_of(element.per_vector());
    element != Type::F64 && properties.clusters && properties.capability >= 90 && n >= least && whole
}

/// Layout of a streaming forward pass; `None` if the rows cannot stream. `params`: number of parameters (γ, β).
pub fn stream_forward(element: Type, n: usize, params: usize, properties: &Properties) -> Option<Geometry> {
    if !possible(element, n, BLOCK / 2 + 1, properties) {
        return None;
    }
    let least = n.div_ceil(BLOCK * MOST_WARPS).next_power_of_two();
    let most = most_cluster(properties);
    if least > most {
        return None;
    }
    let long = least > 1 && element.bytes() == 2;
    // Long rows in 16 bits spend half of the time waiting for other blocks, so use as many teams as there are registers
    // for.
    let (cluster, threads) = match long {
        true if least == most => (least, 2 * FORWARD_THREADS),
        true => (2 * least, 3 * FORWARD_THREADS / 2),
        false if least > 1 => (least, FORWARD_THREADS),
        false => (1, forward_threads(element, n)),
    };
    let (blocks, waves) = forward_blocks(element, n, cluster);
    let sharing = Sharing { about: cluster, most, across: false };
    let one = spread(n, &sharing, 1).threads;
    let load = Load { element, back: false, params };
    let (pieces, ring) = forward_ring(element, n);
    let with = |blocks: usize, threads: usize| {
        let teams = (threads / blocks / one).max(1);
        // Use blocks of one team if blocks of several teams would leave threads unused.
        let (blocks, teams) = match cluster == 1 && blocks > 1 && threads / one > blocks * teams {
            true => (threads / one, 1),
            false => (blocks, teams),
        };
        load.with(&Geometry { blocks, waves, ..spread(n, &sharing, teams) }, pieces, (pieces, ring), properties)
    };
    // Each block holds γ and β of its columns. On devices with less shared memory, try fewer blocks, then fewer teams.
    let found = with(blocks, threads).or_else(|| with(1, threads)).or_else(|| with(1, FORWARD_THREADS.min(threads)));
    // Evict what was read first, so that L2 has room for the rest.
    let hinted = |flow: Flow| Flow { hint: u32::from(long), ..flow };
    found.map(|found| Geometry { flow: found.flow.map(hinted), ..found })
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

/// Whether streaming is faster for a forward pass of this many rows.
pub fn streams_forward(element: Type, rows: usize, n: usize, geometry: &Geometry, properties: &Properties) -> bool {
    let threads = geometry.blocks * geometry.threads;
    // A second team that only fills otherwise unused registers does not raise the required number of rows.
    let threads = if n > BLOCK && geometry.cluster == 1 { threads.min(FORWARD_THREADS) } else { threads };
    let teams = properties.multiprocessors as usize * (threads / (32 * geometry.warps)) / geometry.cluster;
    // Other lengths are faster with short-lived blocks of one row each.
    let faster = match element.bytes() {
        2 => n > BLOCK / 2,
        _ => n > 8 * BLOCK || n.div_ceil(BLOCK) == 6,
    };
    faster && rows >= LEAST_TURNS * teams
}

/// Layout of a streaming backward pass that computes dx and the sums for γ and β; `None` if the rows cannot stream.
/// `params`: 1 if there is a γ, else 0.
pub fn stream_backward(element: Type, n: usize, params: usize, properties: &Properties) -> Option<Geometry> {
    // Rows of up to 512 elements have their own kernels, which check every vector if one is missing. In that case
    // 16-bit types are faster here.
    let short = element.bytes() == 2 && n < BLOCK / 2;
    if !possible(element, n, if short { BLOCK / 4 + 1 } else { BLOCK / 2 + 1 }, properties) {
        return None;
    }
    // Two sums per element take 64 registers. 8 warps have 255 registers per thread; 16 have 128, which is enough for
    // 16-bit types without spilling.
    let most = if element.bytes() == 2 { MOST_WARPS } else { MOST_WARPS / 2 };
    let cluster = n.div_ceil(BLOCK * most).next_power_of_two();
    // More than two blocks that share a row do not form a cluster. They must all be resident at the same time, which
    // the device must be able to guarantee.
    let most_across = if properties.cooperative { MOST_ACROSS.min(properties.multiprocessors as usize) } else { 2 };
    if cluster > most_across {
        return None;
    }
    let load = Load { element, back: true, params };
    if n <= BLOCK {
        // Each warp has its own chunk and completes its sums itself. Few warps per block, so that chunks are spread
        // evenly.
        let (teams, blocks) = if element.bytes() == 2 && n <= BLOCK * 3 / 4 { (4, 4) } else { (2, 4) };
        let base = Geometry { blocks, ..spread(n, &Sharing::NONE, teams) };
        return [(1, 2, 4), (2, 3, 4)]
            .into_iter()
            .find_map(|(pieces, least, most)| load.with(&base, pieces, (least, most), properties));
    }
    let base = spread(n, &Sharing { about: cluster, most: most_across, across: true }, 1);
    let across = base.cluster > 2;
    let flow = base.flow.map(|flow| Flow { across, ..flow });
    let base = Geometry { blocks: (most * 32 / base.threads).max(1), flow, ..base };
    // Two rows in use, plus what is prefetched. Smaller pieces let blocks that wait for each other issue the next load
    // sooner.
    let whole = [(1, 3, 4), (2, 5, 6), (1, 2, 2), (4, 9, 12)];
    let rings = if across { &whole[1..] } else { &whole[..] };
    rings.iter().find_map(|&(pieces, least, most)| load.with(&base, pieces, (least, most), properties))
}

/// Whether a streaming geometry has room for the rows in use and fits on a multiprocessor.
pub fn stream_fits(geometry: &Geometry, element: Type, back: bool, params: usize, properties: &Properties) -> bool {
    let Some(flow) = geometry.flow else { return false };
    let rows = if back && (geometry.warps > 1 || geometry.cluster > 1) { 2 } else { 1 };
    let whole = cuts(geometry, element) && geometry.ring >= rows * flow.pieces;
    // In a backward pass, a block of several warps has one team.
    let teams = rows < 2 || geometry.teams() == 1;
    whole && teams && Load { element, back, params }.fits(geometry, properties)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::properties;

    /// Every size that can stream gets a geometry that holds its rows and fits on the device.
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
                        (false, stream_forward(element, n, 2 * params, &device)),
                        (true, stream_backward(element, n, params, &device)),
                    ] {
                        let geometry = found.unwrap_or_else(|| panic!("{element:?} N={n} back {back}: no geometry"));
                        let params = params * if back { 1 } else { 2 };
                        assert!(
                            stream_fits(&geometry, element, back, params, &device),
                            "{element:?} N={n}: {geometry:?}"
                        );
                        let held = geometry.vectors * 32 * Flow::VECTOR * geometry.warps * geometry.cluster;
                        assert!(held >= n, "{element:?} N={n}: {geometry:?}");
                        assert!(geometry.blocks * geometry.threads <= 1024, "{element:?} N={n}: {geometry:?}");
                        assert!(geometry.warps == 1 || geometry.teams() <= 16, "{element:?} N={n}: {geometry:?}");
                    }
                }
            }
        }
    }

    /// No streaming kernels for f64, for devices without bulk copies, or for rows that no cluster holds.
    #[test]
    fn others_stay() {
        assert_eq!(stream_forward(Type::F64, 4096, 2, &properties(90)), None);
        assert_eq!(stream_backward(Type::F32, 4096, 1, &properties(80)), None);
        assert_eq!(stream_forward(Type::F32, 262_148, 2, &properties(90)), None);
        assert_eq!(stream_backward(Type::F32, 262_148, 1, &properties(90)), None);
        assert_eq!(stream_backward(Type::Bf16, 4097, 1, &properties(90)), None);
        for (element, n) in [(Type::F32, 384), (Type::Bf16, 256), (Type::Bf16, 512)] {
            assert_eq!(stream_backward(element, n, 1, &properties(90)), None, "{element:?} {n}");
        }
    }

    /// Long rows are distributed so that few warps are idle.
    #[test]
    fn few_are_idle() {
        let device = properties(90);
        let shared = |found: Option<Geometry>| found.map(|found| (found.cluster, found.warps));
        for (element, n, there, back) in [
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
            assert_eq!(shared(stream_forward(element, n, 2, &device)), Some(there), "{element:?} {n} forward");
            assert_eq!(shared(stream_backward(element, n, 1, &device)), Some(back), "{element:?} {n} backward");
        }
    }

    /// Vectors of the last warp: full rows, whole vectors only, and a partial one.
    #[test]
    fn ends_of_rows() {
        let end = |element, n, back| {
            let geometry = if back { stream_backward } else { stream_forward }(element, n, 1, &properties(90));
            row_end(&geometry.expect("a geometry"), element, n).map(|end| (end.whole, end.more))
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
            let found = stream_forward(element, n, params, &small).unwrap_or_else(|| panic!("N={n}: no geometry"));
            assert!(stream_fits(&found, element, false, params, &small), "N={n}: {found:?}");
        }
    }

    /// Blocks that exchange messages: as many teams as fit; with one block per multiprocessor, as few as need no
    /// additional turn; and no more than there is room for messages.
    #[test]
    fn teams_that_talk() {
        let three = Geometry { cluster: 3, ..Geometry::NONE };
        assert_eq!(talking_teams(&three, 1, 132), 1);
        assert_eq!(talking_teams(&three, 44, 132), 44);
        assert_eq!(talking_teams(&three, 45, 132), 23);
        assert_eq!(talking_teams(&Geometry { blocks: 2, ..three }, 45, 132), 44);
        assert_eq!(talking_teams(&three, 5, 2), 1);
        for cluster in 3..=32 {
            let geometry = Geometry { cluster, blocks: 4, ..Geometry::NONE };
            let teams = talking_teams(&geometry, 100_000, 4 * 160);
            assert!(teams * team_message_bytes(&geometry) <= MESSAGE_BYTES, "{cluster} blocks: {teams} teams");
        }
    }

    /// Short rows that do not consist of whole vectors for the kernels of their own.
    #[test]
    fn short_rows_backward() {
        let device = properties(90);
        for n in (264..512).step_by(8) {
            let found = stream_backward(Type::Bf16, n, 1, &device).unwrap_or_else(|| panic!("N={n}: no geometry"));
            assert!(stream_fits(&found, Type::Bf16, true, 1, &device), "N={n}: {found:?}");
            assert!(found.vectors * 32 * Flow::VECTOR >= n, "N={n}: {found:?}");
        }
    }
}
