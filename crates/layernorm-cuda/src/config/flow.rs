//! Rows that stream through shared memory: how many warps, teams and pieces of rows a multiprocessor has at a time.
//!
//! A thread has vectors of four elements, whatever their type. Forward holds a row in registers, with several teams a multiprocessor;
//! backward leaves the rows in shared memory, two of them at hand, and has the sums for γ and β in registers. Measured on an H200
//! with `layernorm-gpu-bench sweep`; `bench/notes/gpu-norms.md` has the figures.

use super::{BLOCK, CHUNK, Geometry, MOST_WARPS, most_cluster};
use crate::device::Properties;
use crate::types::Type;

/// How rows stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Pieces of a warp's part of a row, each copied at once.
    pub pieces: usize,
    /// 1: what is read may leave L2 first. 2: stores are ordinary ones. Added up.
    pub hint: u32,
    /// Backward: whether blocks that share rows leave each other messages in the workspace, all of them running at the same time;
    /// else they are a cluster.
    pub across: bool,
}

impl Flow {
    /// Elements of a thread's vector.
    pub(crate) const VECTOR: usize = 4;

    /// In so many pieces, nothing special.
    pub fn new(pieces: usize) -> Self {
        Flow { pieces, hint: 0, across: false }
    }
}

/// Elements of a vector of each thread of a warp.
const SPREAD: usize = 32 * Flow::VECTOR;

/// Rows that a team must have for its start to be worth it.
const LEAST_TURNS: usize = 4;

/// Threads of a multiprocessor, forward: they have 128 registers each. Twice as many have 64, which 32 elements and what is done to
/// them fill; they do better only where much time goes by waiting for other blocks. Two teams of 11 to 14 warps have 72 to 88.
const FORWARD_THREADS: usize = 512;

/// The same with 96 registers.
const MORE_THREADS: usize = FORWARD_THREADS * 5 / 4;

/// Blocks of a backward team, at most: a lane of a warp reads each one's message.
const MOST_ACROSS: usize = 32;

/// Blocks that leave each other messages, at most, over all teams: nearly all of the four of each of 132 multiprocessors.
const MOST_TALKING: usize = 512;

/// Bytes of workspace for the messages of blocks that share a row: each of a block's in six sets of two, as `Messages` in
/// messages.cuh.
pub(crate) const MESSAGE_BYTES: usize = MOST_TALKING * 6 * 2 * 8;

/// Bytes of messages of each team.
pub(crate) fn team_message_bytes(geometry: &Geometry) -> usize {
    geometry.cluster * 6 * 2 * 8
}

/// Teams of several blocks for so many lines, with so many blocks on the device at the same time.
pub(crate) fn talking_teams(geometry: &Geometry, lines: usize, blocks: usize) -> usize {
    geometry.evenly(lines, (blocks.min(MOST_TALKING) / geometry.cluster).max(1))
}

/// What a pass needs to know of its tensors.
#[derive(Clone, Copy)]
struct Load {
    element: Type,
    back: bool,
    /// How many of γ and β (backward: of γ) there are.
    params: usize,
}

impl Load {
    fn tensors(&self) -> usize {
        1 + usize::from(self.back)
    }

    /// Shared memory beside the ring and the parameters: `Pipe` in the kernels.
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

    /// Whether a multiprocessor holds as many blocks of it as the geometry says.
    fn fits(&self, geometry: &Geometry, properties: &Properties) -> bool {
        let bytes = geometry.ring_bytes(self.element, self.tensors())
            + geometry.columns_bytes(self.params)
            + self.own_bytes(geometry);
        // The system has 1 KiB of every block's.
        let share = properties.shared_per_multiprocessor / geometry.blocks - 1024;
        bytes <= share.min(properties.shared_per_block)
    }

    /// The geometry in so many pieces and with the longest ring of `least` to `most` of them, if there is room.
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

/// What the warp with a row's end has of its vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowEnd {
    /// Those that all of its threads have.
    pub(crate) whole: usize,
    /// Whether some of them have one more.
    pub(crate) more: bool,
}

/// The end of rows in which some warps do not have all of their vectors.
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

/// Multiprocessors, about, of a part of the chip (a GPC): a cluster lies in one of them.
const PART_OF_CHIP: usize = 16;

/// Warps of a block at least where others than the most are tried: below, messages would be too many.
const LEAST_WARPS: usize = 4;

/// The blocks that share a row.
#[derive(Clone, Copy)]
struct Sharing {
    /// About how many there are.
    about: usize,
    /// How many there may be.
    most: usize,
    /// Whether they leave each other messages, and are no cluster.
    across: bool,
}

impl Sharing {
    const NONE: Sharing = Sharing { about: 1, most: 1, across: false };

    /// How many blocks share a row of n elements, and the warps of each. They fold their own warps first, so each has a power of two of
    /// them: the one that leaves the fewest idle, be it for want of elements or because clusters do not fill a part of the chip.
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
        // Of those that are as good, the one with the most warps.
        let best = [most / 4, most / 2, most].into_iter().filter(allowed).max_by_key(|warps| at_work(*warps));
        let warps = best.unwrap_or(most);
        (parts.div_ceil(warps), warps)
    }
}

/// A team of a warp for each 1024 elements, over these blocks, with `teams` teams a block.
fn spread(n: usize, sharing: &Sharing, teams: usize) -> Geometry {
    let (cluster, warps) = sharing.blocks_and_warps(n);
    // Without vectors that no thread has; else whole steps, which are two: a vector of each of 32 threads is half of the 256 lanes.
    let vectors = match n < BLOCK && n.is_multiple_of(SPREAD) {
        true => n / SPREAD,
        false => n.min(BLOCK).div_ceil(2 * SPREAD) * 2,
    };
    let threads = 32 * warps * teams;
    let flow = Some(Flow::new(1));
    Geometry { warps, cluster, vectors, ring: 1, threads, flow, ..Geometry::NONE }
}

/// Whether there are kernels for it: whole 16-byte vectors, a device with bulk copies, rows of so many elements at least.
fn possible(element: Type, n: usize, least: usize, properties: &Properties) -> bool {
    let whole = n.is_multiple_of(element.per_vector());
    element != Type::F64 && properties.clusters && properties.capability >= 90 && n >= least && whole
}

/// A forward pass of rows that stream; `None` where none can. `params`: how many of γ and β there are.
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
    // Long rows of 16 bits wait for other blocks half of their time: as many teams as there are registers for.
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
        // Blocks of one team where those of several leave room for more.
        let (blocks, teams) = match cluster == 1 && blocks > 1 && threads / one > blocks * teams {
            true => (threads / one, 1),
            false => (blocks, teams),
        };
        load.with(&Geometry { blocks, waves, ..spread(n, &sharing, teams) }, pieces, (pieces, ring), properties)
    };
    // Each block has γ and β of its columns: on devices with less shared memory, fewer blocks; then fewer teams.
    let found = with(blocks, threads).or_else(|| with(1, threads)).or_else(|| with(1, FORWARD_THREADS.min(threads)));
    // What they read leaves room in L2.
    let hinted = |flow: Flow| Flow { hint: u32::from(long), ..flow };
    found.map(|found| Geometry { flow: found.flow.map(hinted), ..found })
}

/// Threads of a multiprocessor, forward, where a block has a whole row. Where a team does not divide 512, many of them would be left out.
fn forward_threads(element: Type, n: usize) -> usize {
    let one = 32 * n.div_ceil(BLOCK);
    match (element.bytes(), n) {
        (2, ..=1024) => MORE_THREADS,
        // 16 bits have more rows on their way instead; shorter rows of f32 hardly ever stream.
        (2, 4097..=8192) | (4, ..=8192) => FORWARD_THREADS,
        // Two teams.
        (2, 10241..=14336) => 2 * one,
        (4, 10241..) => FORWARD_THREADS,
        _ if FORWARD_THREADS.is_multiple_of(one) => FORWARD_THREADS,
        _ => MORE_THREADS,
    }
}

/// Blocks of a multiprocessor, forward, and how many times as many come one after the other: these even out what some take longer
/// for, and start while others of the multiprocessor work. Where a block has a large part of γ and β, few do. `about`: blocks that share
/// a row, before it is known how many exactly.
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

/// Pieces of a row and the longest ring of them, forward: one row to four that come while the last is worked on.
fn forward_ring(element: Type, n: usize) -> (usize, usize) {
    match (element.bytes(), n) {
        (2, 4097..8192) => (1, 4),
        (2, 8192) => (4, 12),
        (2, ..=16384) => (1, 2),
        _ => (1, 1),
    }
}

/// Whether a forward pass of so many rows is better off streaming.
pub fn streams_forward(element: Type, rows: usize, n: usize, geometry: &Geometry, properties: &Properties) -> bool {
    let threads = geometry.blocks * geometry.threads;
    // A second team for want of a better use of registers does not ask for more rows.
    let threads = if n > BLOCK && geometry.cluster == 1 { threads.min(FORWARD_THREADS) } else { threads };
    let teams = properties.multiprocessors as usize * (threads / (32 * geometry.warps)) / geometry.cluster;
    // Others are faster in blocks that come and go with a row each.
    let faster = match element.bytes() {
        2 => n > BLOCK / 2,
        _ => n > 8 * BLOCK || n.div_ceil(BLOCK) == 6,
    };
    faster && rows >= LEAST_TURNS * teams
}

/// A backward pass with dx and the sums for γ and β, of rows that stream; `None` where none can. `params`: whether there is a γ.
pub fn stream_backward(element: Type, n: usize, params: usize, properties: &Properties) -> Option<Geometry> {
    // Rows of up to 512 have kernels of their own, which look at every vector where one is missing; 16 bits are better off here then.
    let short = element.bytes() == 2 && n < BLOCK / 2;
    if !possible(element, n, if short { BLOCK / 4 + 1 } else { BLOCK / 2 + 1 }, properties) {
        return None;
    }
    // Two sums an element are 64 registers: 8 warps have 255 registers each, 16 have 128, which hold 16 bits without spills.
    let most = if element.bytes() == 2 { MOST_WARPS } else { MOST_WARPS / 2 };
    let cluster = n.div_ceil(BLOCK * most).next_power_of_two();
    // More than two blocks that share a row are no cluster, but run at the same time, which the device must be able to promise.
    let most_across = if properties.cooperative { MOST_ACROSS.min(properties.multiprocessors as usize) } else { 2 };
    if cluster > most_across {
        return None;
    }
    let load = Load { element, back: true, params };
    if n <= BLOCK {
        // A warp has a chunk of its own, and its sums at once. Few in a block, so that chunks are spread evenly.
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
    // Two rows at hand, and what comes next. Pieces let blocks that wait for each other ask sooner.
    let whole = [(1, 3, 4), (2, 5, 6), (1, 2, 2), (4, 9, 12)];
    let rings = if across { &whole[1..] } else { &whole[..] };
    rings.iter().find_map(|&(pieces, least, most)| load.with(&base, pieces, (least, most), properties))
}

/// Whether a geometry that streams holds the rows at hand and has room on a multiprocessor.
pub fn stream_fits(geometry: &Geometry, element: Type, back: bool, params: usize, properties: &Properties) -> bool {
    let Some(flow) = geometry.flow else { return false };
    let rows = if back && (geometry.warps > 1 || geometry.cluster > 1) { 2 } else { 1 };
    let whole = cuts(geometry, element) && geometry.ring >= rows * flow.pieces;
    // Backward, a block of several warps has one team.
    let teams = rows < 2 || geometry.teams() == 1;
    whole && teams && Load { element, back, params }.fits(geometry, properties)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::properties;

    /// Every size that can stream gets a geometry that holds its rows and that the device can hold.
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

    /// No kernels for f64, for devices without bulk copies, for rows that no cluster holds.
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

    /// Long rows are shared out so that few warps have nothing to do.
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

    /// What the last warp has: all vectors where others have none, or some.
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

    /// A device with a third of the shared memory.
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

    /// Blocks that leave messages: as many teams as fit, as few as make no more turns if each block has a multiprocessor, and no more
    /// than there is room for messages.
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

    /// Rows that are not whole for their own kernels.
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
