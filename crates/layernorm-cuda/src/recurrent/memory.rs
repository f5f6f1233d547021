//! Memory layout of the caller's tape and workspace. Offsets are in bytes, aligned to 256.

use super::cell::{Cell, Number};
use super::cluster::Cluster;
use super::geometry::{Geometry, Product};

/// Allocates one part after the other.
#[derive(Clone, Copy, Debug, Default)]
struct Room(usize);

impl Room {
    fn take(&mut self, bytes: usize) -> usize {
        let at = self.0;
        self.0 += bytes.next_multiple_of(256);
        at
    }
}

/// What the forward pass stores for the backward pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tape {
    pub(super) zx: usize,
    pub(super) rx: usize,
    pub(super) zh: usize,
    pub(super) rh: usize,
    pub(super) state: usize,
    pub(super) cell: usize,
    pub(super) h: usize,
    pub(super) x: usize,
    pub(super) consts: usize,
    pub(super) bytes: usize,
}

/// The workspace of one pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub(super) matrix: usize,
    pub(super) weight: usize,
    /// Messages: of the gates, of the input's norm, of the cell, and within a team; and where they end.
    pub(super) gates: usize,
    pub(super) inputs: usize,
    pub(super) cells: usize,
    pub(super) mail: usize,
    pub(super) messages_end: usize,
    pub(super) dzh: usize,
    pub(super) dzx: usize,
    pub(super) sums: usize,
    /// Where the tape lies if it is not kept.
    pub(super) tape: usize,
    pub(super) bytes: usize,
}

/// Sizes that determine how much memory is needed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) steps: usize,
    pub(super) batch: usize,
    /// I, rounded up to a multiple of 16 bytes.
    pub(super) input: usize,
    pub(super) number: Number,
    /// Whether padded copies of x and of W are needed.
    pub(super) pads_x: bool,
    pub(super) pads_w: bool,
    pub(super) training: bool,
}

impl Sizes {
    pub(super) fn rows(&self) -> usize {
        self.steps * self.batch
    }
}

pub(super) fn tape(cell: &Cell, geometry: &Geometry, sizes: &Sizes) -> Tape {
    let (rows, width, wide) = (sizes.rows(), geometry.width(cell), sizes.number.bytes());
    let states = (sizes.steps + 1) * sizes.batch * geometry.padded;
    let mut room = Room::default();
    let kept = usize::from(sizes.training);
    Tape {
        zx: room.take(rows * width * 4),
        rx: room.take(rows * cell.input_groups() * 4),
        h: room.take(states * wide),
        x: room.take(if sizes.pads_x { rows * sizes.input * wide } else { 0 }),
        consts: room.take((4 * width + 2 * geometry.padded) * 4),
        zh: room.take(if cell.sum_norm.is_none() { kept * rows * width * 4 } else { 0 }),
        rh: room.take(kept * rows * cell.groups() * 4),
        state: room.take(kept * states * 4),
        cell: room.take(kept * rows * 2 * 4),
        bytes: room.0,
    }
}

fn packed(geometry: &Geometry, product: &Product) -> usize {
    geometry.group * 8 * product.pairs * product.tiles * 1024
}

fn weight(cell: &Cell, geometry: &Geometry, sizes: &Sizes) -> usize {
    if sizes.pads_w { geometry.width(cell) * sizes.input * sizes.number.bytes() } else { 0 }
}

/// Workspace of the forward pass. Both workspaces start with the word that says whether a pass timed out.
pub(super) fn forward(cell: &Cell, geometry: &Geometry, cluster: Option<&Cluster>, sizes: &Sizes, tape: &Tape) -> Work {
    let matrix = cluster.map_or_else(|| packed(geometry, &geometry.forward), Cluster::packed);
    // Clusters keep their messages in shared memory.
    let messages = if cluster.is_some() { 0 } else { sizes.rows() * geometry.group * 8 };
    let mut room = Room::default();
    room.take(4);
    let (matrix, weight) = (room.take(matrix), room.take(weight(cell, geometry, sizes)));
    let (gates, cells) = (room.take(messages * cell.groups()), room.take(messages));
    let messages_end = room.0;
    let tape = room.take(if sizes.training { 0 } else { tape.bytes });
    Work {
        matrix,
        weight,
        gates,
        inputs: 0,
        cells,
        mail: 0,
        messages_end,
        dzh: 0,
        dzx: 0,
        sums: 0,
        tape,
        bytes: room.0,
    }
}

/// Workspace of the backward pass. `dzh` lies with the messages, because it is one of them.
pub(super) fn backward(cell: &Cell, geometry: &Geometry, cluster: Option<&Cluster>, sizes: &Sizes) -> Work {
    let matrix = cluster.map_or_else(|| packed(geometry, &geometry.backward), |cluster| cluster.packed_back(cell));
    let (rows, width) = (sizes.rows(), geometry.width(cell));
    let messages = if cluster.is_some() { 0 } else { rows * geometry.group * 8 };
    let mut room = Room::default();
    room.take(4);
    let (matrix, weight) = (room.take(matrix), room.take(weight(cell, geometry, sizes)));
    let (gates, inputs) = (room.take(messages * cell.groups()), room.take(messages * cell.input_groups()));
    let split = geometry.backward.split;
    let mail = if split > 1 { 2 * sizes.batch * split * geometry.padded * 8 } else { 0 };
    let (cells, mail) = (room.take(messages), room.take(mail));
    let dzh = room.take(rows * width * sizes.number.bytes());
    let messages_end = room.0;
    let dzx = room.take(rows * width * sizes.number.bytes());
    let sums = room.take(sizes.batch * (4 * width + 2 * geometry.padded) * 4);
    Work { matrix, weight, gates, inputs, cells, mail, messages_end, dzh, dzx, sums, tape: 0, bytes: room.0 }
}
