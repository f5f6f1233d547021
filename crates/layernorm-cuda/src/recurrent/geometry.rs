//! How a layer is cut into blocks. Only what depends on the layer and the type enters the order of a sum; the rest (groups,
//! chunks, where the matrix lies) follows the batch and changes no bit.

use super::cell::{Cell, Number};
use crate::device::Properties;
use crate::error::Error;

/// Warps of a block of the time loop.
const WARPS: usize = 8;
/// Sequences that a group takes in one launch at most; more go into further launches.
const MOST_COLUMNS: usize = 64;

/// Where a recurrent matrix lies: pairs of k of each warp, and how many of them in registers and in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Product {
    /// Tiles of 16 rows.
    pub(crate) tiles: usize,
    pub(crate) pairs: usize,
    pub(crate) in_registers: usize,
    pub(crate) in_shared: usize,
    /// Dynamic shared memory of the block, in bytes.
    pub(crate) shared: usize,
}

/// A layer cut into blocks, for a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Geometry {
    pub(crate) hidden: usize,
    /// HP: H rounded up to 32.
    pub(crate) padded: usize,
    /// Units of a block, and blocks of a group.
    pub(crate) units: usize,
    pub(crate) group: usize,
    /// Groups that run at once, and sequences of each.
    pub(crate) groups: usize,
    pub(crate) columns: usize,
    /// Tiles of 8 sequences of a chunk.
    pub(crate) tiles: usize,
    pub(crate) forward: Product,
    pub(crate) backward: Product,
}

impl Geometry {
    pub(crate) fn new(
        cell: &Cell,
        hidden: usize,
        batch: usize,
        number: Number,
        gpu: &Properties,
    ) -> Result<Self, Error> {
        let padded = hidden.next_multiple_of(32);
        let most = gpu.multiprocessors as usize;
        // 16 units a block fill a tile of 16 rows for each gate. f32 needs twice the room, so 8 where that keeps U on the chip.
        let fine = number == Number::F32 && padded > 512 && padded / 8 <= most;
        let units = if fine { 8 } else { [16, 32].into_iter().find(|units| padded / units <= most).unwrap_or(0) };
        if units == 0 {
            return Err(Error::Unsupported {
                why: format!("a recurrent layer of {hidden} units; {} is the most here", 32 * most),
            });
        }
        let group = padded / units;
        let groups = (most / group).min(batch.div_ceil(8)).max(1);
        let columns = batch.div_ceil(groups).next_multiple_of(8).min(MOST_COLUMNS);
        let tiles = if columns <= 8 || units == 32 { 1 } else { 2 };
        let chunks = columns.div_ceil(8 * tiles);
        let word = 4 / number.bytes();
        let product = |rows: usize, k: usize, registers: usize, slots: usize| -> Result<Product, Error> {
            let row_tiles = rows.div_ceil(16);
            let pairs = (k / word).div_ceil(16).div_ceil(WARPS);
            let in_registers = pairs.min(registers / (8 * row_tiles));
            let parts = 2 * WARPS * 8 * tiles * (16 * row_tiles + 4) * 4;
            let fixed = parts + (4 * cell.gates + 2) * units * 4 + chunks * slots * 1024;
            let pair_bytes = WARPS * row_tiles * 2 * 512;
            let room = gpu.shared_per_block.checked_sub(fixed).ok_or_else(|| Error::Unsupported {
                why: format!("{fixed} bytes of shared memory a block, {} are there", gpu.shared_per_block),
            })?;
            let in_shared = (pairs - in_registers).min(room / pair_bytes);
            Ok(Product { tiles: row_tiles, pairs, in_registers, in_shared, shared: fixed + in_shared * pair_bytes })
        };
        // Registers for the matrix, in words a thread: what the compiler takes without spilling (NOTES-recurrent.md).
        let (there, back) = if number == Number::F32 { (96, 96) } else { (128, 128) };
        Ok(Geometry {
            hidden,
            padded,
            units,
            group,
            groups,
            columns,
            tiles,
            forward: product(units * cell.gates, padded, there, 2 * cell.gates + 2)?,
            backward: product(units, cell.gates * padded, back, 3 * cell.gates + 11)?,
        })
    }

    /// G·HP.
    pub(crate) fn width(&self, cell: &Cell) -> usize {
        cell.gates * self.padded
    }

    /// Definitions of both time loops.
    pub(crate) fn defines(&self, product: &Product) -> Vec<(&'static str, String)> {
        [
            ("H", self.hidden),
            ("HP", self.padded),
            ("UNITS", self.units),
            ("GS", self.group),
            ("NT", self.tiles),
            ("ONE", usize::from(self.columns <= 8 * self.tiles)),
            ("PAIRS", product.pairs),
            ("PR", product.in_registers),
            ("PS", product.in_shared),
        ]
        .map(|(name, value)| (name, value.to_string()))
        .to_vec()
    }
}
