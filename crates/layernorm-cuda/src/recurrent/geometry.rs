//! How a layer is divided among thread blocks. The order of a sum depends only on the layer and the type. Everything
//! else (groups, chunks, where the matrix is kept) depends on the batch as well, and changes no bit.

use super::cell::{Cell, Number};
use crate::device::Properties;
use crate::error::Error;

/// Warps per block of the time loop.
const WARPS: usize = 8;
/// Maximum number of sequences that a group processes per launch; the rest goes into further launches.
const MOST_COLUMNS: usize = 64;
/// Depths of the ring, in half pairs, through which a matrix that does not fit on chip is streamed from L2. The first
/// that fits is used.
const RINGS: [usize; 3] = [4, 2, 1];

/// How a block computes its product, and where its part of the recurrent matrix is kept
/// (kernels/recurrent/product.cuh).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Product {
    /// Tiles of 16 rows.
    pub(crate) tiles: usize,
    /// Blocks per team. They have the same rows, and each has one part of k.
    pub(crate) split: usize,
    /// Pairs of k per warp, and how many of them are kept in registers and in shared memory.
    pub(crate) pairs: usize,
    pub(crate) in_registers: usize,
    pub(crate) in_shared: usize,
    /// Half pairs in the ring through which the other pairs are streamed.
    ring: usize,
    /// Warps whose partial sums are in shared memory at a time, and the number of such buffers.
    folded: usize,
    turns: usize,
    /// Chunks of sequences.
    chunks: usize,
    /// Cycles from sending a message to the first poll for those of the others, if a thread has one sequence.
    pause: usize,
    /// Dynamic shared memory per block, in bytes.
    pub(crate) shared: usize,
}

/// A layer divided among blocks, for a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Geometry {
    pub(crate) hidden: usize,
    /// HP: H rounded up to a multiple of 32.
    pub(crate) padded: usize,
    /// Units per block, and blocks per group.
    pub(crate) units: usize,
    pub(crate) group: usize,
    /// Groups that run at once, and sequences per group.
    pub(crate) groups: usize,
    pub(crate) columns: usize,
    /// Tiles of 8 sequences per chunk.
    pub(crate) tiles: usize,
    pub(crate) forward: Product,
    pub(crate) backward: Product,
}

impl Geometry {
    pub(crate) fn new(
        cell: &Cell,
        hidden: usize,
        batch: usize,
        (number, tf32): (Number, bool),
        gpu: &Properties,
    ) -> Result<Self, Error> {
        let padded = hidden.next_multiple_of(32);
        let most = gpu.multiprocessors as usize;
        // 16 units per block fill a tile of 16 rows for each gate. f32 needs twice the room, so it uses 8 where that
        // keeps U on chip.
        let fine = number == Number::F32 && padded > 512 && padded / 8 <= most;
        let units = if fine { 8 } else { [16, 32].into_iter().find(|units| padded / units <= most).unwrap_or(0) };
        if units == 0 {
            return Err(Error::Unsupported {
                why: format!("a recurrent layer of {hidden} units; the maximum here is {}", 32 * most),
            });
        }
        let group = padded / units;
        let groups = (most / group).min(batch.div_ceil(8)).max(1);
        let columns = batch.div_ceil(groups).next_multiple_of(8).min(MOST_COLUMNS);
        // A backward block reads G times as much as a forward block. Above H = 512 that costs more than the exchange
        // within a team; with 32 units per block, a team would have too many rows.
        let team = if padded > 512 && units <= 16 {
            [4, 2, 1].into_iter().find(|team| group.is_multiple_of(*team)).unwrap_or(1)
        } else {
            1
        };
        let cut = |tiles: usize| -> Result<(Product, Product), Error> {
            let block = Block { gates: cell.gates, units, columns, number, tiles, most: gpu.shared_per_block };
            let slots = Slots { kept: 4, passed: 2 * cell.gates, alone: 0 };
            let forward = block.product(units * cell.gates, padded, 1, slots)?;
            let kept = 3 * cell.gates + 3;
            let slots = Slots { kept, passed: 5, alone: kept };
            let backward = block.product(units * team, cell.gates * padded, team, slots)?;
            let (forward_pause, backward_pause) = pauses(cell, group);
            Ok((Product { pause: forward_pause, ..forward }, Product { pause: backward_pause, ..backward }))
        };
        let mut tiles = if columns <= 8 || units == 32 { 1 } else { 2 };
        let (mut forward, mut backward) = cut(tiles)?;
        // What is streamed from L2 is streamed once per chunk, so use chunks of 32 sequences. The three products of f32
        // leave no registers for that.
        if tf32 && number == Number::F32 && columns > 16 && tiles == 2 && forward.ring > 0 {
            tiles = 4;
            (forward, backward) = cut(tiles)?;
        }
        Ok(Geometry { hidden, padded, units, group, groups, columns, tiles, forward, backward })
    }

    /// G·HP, the padded width of all gates.
    pub(crate) fn width(&self, cell: &Cell) -> usize {
        cell.gates * self.padded
    }

    /// Preprocessor definitions of both time loops.
    pub(crate) fn defines(&self, product: &Product) -> Vec<(&'static str, String)> {
        [
            ("H", self.hidden),
            ("HP", self.padded),
            ("UNITS", self.units),
            ("GS", self.group),
            ("NT", self.tiles),
            ("ITEM", product.chunks),
            ("PAUSE", product.pause),
            ("PAIRS", product.pairs),
            ("PR", product.in_registers),
            ("PS", product.in_shared),
            ("RING", product.ring),
            ("SPLIT", product.split),
            ("FOLDED", product.folded),
            ("TURNS", product.turns),
        ]
        .map(|(name, value)| (name, value.to_string()))
        .to_vec()
    }
}

/// How long a block's messages take to reach the other blocks of its group, forward and backward, in cycles: the best
/// values on an H200 (bench/notes/gpu-recurrent.md). Small groups were not measured, and a GRU gains nothing.
fn pauses(cell: &Cell, group: usize) -> (usize, usize) {
    match group {
        _ if !cell.lstm => (0, 0),
        0..32 => (0, 0),
        32..=64 => (350, 250),
        _ => (600, 350),
    }
}

/// Numbers that a thread keeps in shared memory per sequence: from step to step, from phase to phase, and in total if
/// it has a single sequence and the rest stays in registers (kernels/recurrent/block.cuh).
#[derive(Clone, Copy)]
struct Slots {
    kept: usize,
    passed: usize,
    alone: usize,
}

/// The work of a block, and its limits.
#[derive(Clone, Copy)]
struct Block {
    gates: usize,
    units: usize,
    columns: usize,
    number: Number,
    /// Tiles of 8 sequences per chunk.
    tiles: usize,
    /// Maximum shared memory per block, in bytes.
    most: usize,
}

impl Block {
    /// Decides where a matrix of `rows` rows is kept. A block has one of `split` parts of its `k` columns.
    fn product(&self, rows: usize, k: usize, split: usize, slots: Slots) -> Result<Product, Error> {
        let row_tiles = rows.div_ceil(16);
        let pairs = (k * self.number.bytes() / 4).div_ceil(16).div_ceil(WARPS * split);
        // Words per thread that the compiler keeps in registers without spilling (bench/notes/gpu-recurrent.md).
        let words = match (self.number, self.tiles) {
            (Number::F32, 4) => 64,
            (Number::F32, _) => 96,
            _ => 128,
        };
        let in_registers = pairs.min(words / (8 * row_tiles));
        let rest = pairs - in_registers;
        let columns = 8 * self.tiles;
        let chunks = self.columns.div_ceil(columns);
        let shares = chunks * columns.div_ceil(256 / self.units);
        let own = if shares == 1 { slots.alone } else { shares * (slots.kept + slots.passed) };
        let pair = WARPS * row_tiles * 1024;
        let fixed = |(folded, turns): (usize, usize)| {
            turns * folded * columns * (16 * row_tiles + 4) * 4 + (4 * self.gates + 2) * self.units * 4 + own * 1024
        };
        let room = |bytes: usize| {
            self.most.checked_sub(bytes).ok_or_else(|| Error::Unsupported {
                why: format!("{bytes} bytes of shared memory per block; {} are available", self.most),
            })
        };
        // The fastest way to combine the warps' sums that leaves room for the matrix; otherwise the one that takes the
        // least memory.
        let ways: &[(usize, usize)] =
            if chunks == 1 { &[(WARPS, 1)] } else { &[(WARPS, 2), (WARPS, 1), (WARPS / 2, 1)] };
        let fits = |way: &&(usize, usize)| fixed(**way) + rest * pair <= self.most;
        let (way, rings) = ways.iter().find(fits).map_or((ways[ways.len() - 1], &RINGS[..]), |way| (*way, &[0]));
        let taken = |ring: usize| fixed(way) + ring * pair / 2;
        let least = rings[rings.len() - 1];
        let ring = rings.iter().copied().find(|ring| taken(*ring) <= self.most).unwrap_or(least);
        let in_shared = rest.min(room(taken(ring))? / pair);
        let (folded, turns) = way;
        let shared = taken(ring) + in_shared * pair;
        let tiles = row_tiles;
        Ok(Product { tiles, split, pairs, in_registers, in_shared, ring, folded, turns, chunks, pause: 0, shared })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::properties;
    use layernorm_rnn::{Kind, Variant};

    /// Every supported size fits for any batch, and the order of the sums does not depend on the batch.
    #[test]
    fn every_size_fits() {
        let gpu = properties(90);
        for kind in [Kind::Lstm, Kind::Gru] {
            let cell = Cell::of(&Variant::named(kind, "paper").unwrap()).unwrap();
            for hidden in (1..=4224).step_by(37).chain([1024, 2048, 4224]) {
                for number in [(Number::F32, false), (Number::F32, true), (Number::Bf16, false)] {
                    let order = |g: &Geometry| (g.units, g.backward.split, g.forward.pairs, g.backward.pairs);
                    let one = Geometry::new(&cell, hidden, 1, number, &gpu).unwrap();
                    for batch in [1, 8, 16, 40, 64, 256] {
                        let g = Geometry::new(&cell, hidden, batch, number, &gpu).unwrap();
                        assert_eq!(order(&g), order(&one), "H = {hidden}, batch {batch}");
                        for product in [g.forward, g.backward] {
                            assert!(product.shared <= gpu.shared_per_block, "{product:?}");
                            let here = product.in_registers + product.in_shared;
                            assert!(here == product.pairs || product.ring > 0, "{product:?}");
                        }
                    }
                }
            }
        }
    }
}
