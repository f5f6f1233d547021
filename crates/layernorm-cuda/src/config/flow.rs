//! Rows that stream through shared memory: how many warps, pieces and rows of them a multiprocessor has at a time.
//!
//! Forward has three rows under way, backward two of x and dy, and both room for what comes next. Not measured yet: the numbers
//! follow from what must be in flight (about 32 KiB a multiprocessor) and from registers without spills in the machine code.

use super::{BLOCK, CHUNK, Geometry, MOST_CLUSTER, MOST_WARPS};
use crate::device::Properties;
use crate::types::Type;

/// Where γ and β of a thread's columns are, from row to row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Params {
    /// Read each time.
    Read = 0,
    /// In registers.
    Registers = 1,
    /// In shared memory.
    Shared = 2,
    /// In registers, widened to f32: more of them, and fewer instructions a row.
    Widened = 3,
}

/// How rows stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Pieces of a warp's part of a row, each copied at once.
    pub pieces: usize,
    /// Where γ and β are.
    pub params: Params,
    /// Backward: the sums of the next row are under way while a row is written.
    pub skew: bool,
    /// 1: what is read may leave L2 first. 2: stores are ordinary ones. Added up.
    pub hint: u32,
}

impl Flow {
    /// Whole rows, nothing special.
    pub fn new(params: Params) -> Self {
        Flow { pieces: 1, params, skew: true, hint: 0 }
    }

    /// Bytes of shared memory for parameters that have so many bytes a column together.
    pub(crate) fn kept_bytes(&self, geometry: &Geometry, element: Type, param_bytes: usize) -> usize {
        let columns = geometry.threads * geometry.vectors * element.per_vector();
        if self.params == Params::Shared { columns * param_bytes } else { 0 }
    }
}

/// Whether rows stream at all. Off, all of them go by the kernels that hold them in registers.
const STREAMS: bool = true;

/// Rows that a team must have for its start to be worth it.
const LEAST_TURNS: usize = 4;

/// What a pass needs to know of its tensors.
#[derive(Clone, Copy)]
struct Load {
    element: Type,
    back: bool,
    /// Bytes of γ and β (backward: of γ) a column.
    param_bytes: usize,
}

impl Load {
    fn tensors(&self) -> usize {
        1 + usize::from(self.back)
    }

    /// Shared memory beside the ring and the parameters: sums on their way, barriers, statistics.
    fn own_bytes(&self, geometry: &Geometry) -> usize {
        let cluster = geometry.cluster;
        let again = 512 + 16 * cluster + 16;
        let sums = if self.back {
            512 + 32 * cluster + 56 + 3 * 4 * CHUNK * geometry.teams()
        } else {
            256 + 8 * cluster + 40 + 512 + 16 * cluster + 40
        };
        (again + sums + geometry.threads / 32 * geometry.ring * 8).next_multiple_of(128)
    }

    /// Whether a multiprocessor holds as many blocks of it as the geometry says.
    fn fits(&self, geometry: &Geometry, flow: &Flow, properties: &Properties) -> bool {
        let bytes = geometry.ring_bytes(self.element, self.tensors())
            + flow.kept_bytes(geometry, self.element, self.param_bytes)
            + self.own_bytes(geometry);
        // The system has 1 KiB of every block's.
        let share = properties.shared_per_multiprocessor / geometry.blocks - 1024;
        bytes <= share.min(properties.shared_per_block)
    }

    /// The geometry with this flow and the longest ring of up to so many rows, if there is room for `least` halves of a row.
    fn with(
        &self,
        base: &Geometry,
        flow: Flow,
        (least, most): (usize, usize),
        properties: &Properties,
    ) -> Option<Geometry> {
        let low = (least * flow.pieces).div_ceil(2);
        let geometry = |ring| Geometry { ring, flow: Some(flow), ..*base };
        let whole = base.steps(self.element).is_multiple_of(flow.pieces);
        let found = (low..=most * flow.pieces).rev().map(geometry).find(|one| self.fits(one, &flow, properties));
        found.filter(|_| whole)
    }
}

/// Warps of rows over 1024 elements, in a block for each `most` of them and no more blocks than a cluster has.
fn spread(element: Type, n: usize, most: usize) -> Option<Geometry> {
    let cluster = n.div_ceil(BLOCK * most).next_power_of_two();
    (cluster <= MOST_CLUSTER).then(|| Geometry::wide(element, n, cluster))
}

/// [`spread`], and a warp a row for shorter ones.
fn base(element: Type, n: usize, most: usize) -> Option<Geometry> {
    if n <= BLOCK { Some(Geometry::narrow(element, n, 32, 128)) } else { spread(element, n, most) }
}

/// Whether there are kernels for it: whole vectors, a device with bulk copies.
fn possible(element: Type, n: usize, least: usize, properties: &Properties) -> bool {
    let whole = n.is_multiple_of(element.per_vector());
    element != Type::F64 && properties.clusters && properties.capability >= 90 && n > least && whole
}

/// A forward pass of rows that stream; `None` where none can. `param_bytes`: of γ and β, a column.
pub fn stream_forward(element: Type, n: usize, param_bytes: usize, properties: &Properties) -> Option<Geometry> {
    if !possible(element, n, BLOCK / 2, properties) {
        return None;
    }
    let base = base(element, n, MOST_WARPS)?;
    // 16 warps of 128 registers, half of which γ and β take.
    let base = Geometry { blocks: (MOST_WARPS * 32 / base.threads).max(1), ..base };
    let load = Load { element, back: false, param_bytes };
    let flow = Flow::new(Params::Widened);
    let pieces = |pieces, least| load.with(&base, Flow { pieces, ..flow }, (least, 5), properties);
    pieces(1, 8).or_else(|| pieces(2, 6)).or_else(|| pieces(4, 5))
}

/// Whether a forward pass of so many rows is better off streaming. A warp a row waits for nobody, and has its row in registers.
pub fn streams_forward(rows: usize, geometry: &Geometry, properties: &Properties) -> bool {
    let teams = properties.multiprocessors as usize * geometry.blocks * geometry.teams() / geometry.cluster;
    STREAMS && geometry.teams() == 1 && rows >= LEAST_TURNS * teams
}

/// A backward pass with dx and the sums for γ and β, of rows that stream; `None` where none can.
pub fn stream_backward(element: Type, n: usize, param_bytes: usize, properties: &Properties) -> Option<Geometry> {
    if !possible(element, n, BLOCK / 2, properties) {
        return None;
    }
    // Two sums an element are 64 registers: 8 warps have 255 registers each, 16 have 128, which hold 16 bits without spills.
    let most = if element.bytes() == 2 { MOST_WARPS } else { MOST_WARPS / 2 };
    let load = Load { element, back: true, param_bytes };
    if let Some(base) = base(element, n, most) {
        let base = Geometry { blocks: (most * 32 / base.threads).max(1), ..base };
        // A warp of its own has its sums at once.
        let skew = n > BLOCK;
        for params in [Params::Shared, Params::Read] {
            for pieces in [1, 2, 4] {
                let flow = Flow { pieces, skew, ..Flow::new(params) };
                let found = load.with(&base, flow, (5, 4), properties);
                if found.is_some() {
                    return found;
                }
            }
        }
    }
    // A row and a bit: only the copies run ahead.
    let base = spread(element, n, MOST_WARPS)?;
    let flow = Flow { pieces: 4, skew: false, ..Flow::new(Params::Read) };
    load.with(&base, flow, (3, 2), properties)
}

/// Whether backward rows stream where they can.
pub fn streams_backward() -> bool {
    STREAMS
}

/// Whether a geometry that streams holds a row and has room on a multiprocessor.
pub fn stream_fits(
    geometry: &Geometry,
    element: Type,
    back: bool,
    param_bytes: usize,
    properties: &Properties,
) -> bool {
    let Some(flow) = geometry.flow else { return false };
    let rows = if back && !flow.skew { 1 } else { 2 };
    let whole = geometry.steps(element).is_multiple_of(flow.pieces) && geometry.ring >= rows * flow.pieces;
    whole && Load { element, back, param_bytes }.fits(geometry, &flow, properties)
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
            for n in
                (520..=8192).step_by(8).chain([12288, 16384, 16392, 32768, 40000, 65536, 100_000, 131_072, 262_144])
            {
                for param_bytes in [0, element.bytes(), 4] {
                    for (back, found) in [
                        (false, stream_forward(element, n, 2 * param_bytes, &device)),
                        (true, stream_backward(element, n, param_bytes, &device)),
                    ] {
                        let geometry = found.unwrap_or_else(|| panic!("{element:?} N={n} back {back}: no geometry"));
                        let bytes = param_bytes * if back { 1 } else { 2 };
                        assert!(
                            stream_fits(&geometry, element, back, bytes, &device),
                            "{element:?} N={n}: {geometry:?}"
                        );
                        let held = geometry.vectors * 32 * element.per_vector() * geometry.warps * geometry.cluster;
                        assert!(held >= n, "{element:?} N={n}: {geometry:?}");
                        assert!(geometry.blocks * geometry.threads <= 512, "{element:?} N={n}: {geometry:?}");
                    }
                }
            }
        }
    }

    /// No kernels for f64, for devices without bulk copies, for rows that no cluster holds.
    #[test]
    fn others_stay() {
        assert_eq!(stream_forward(Type::F64, 4096, 16, &properties(90)), None);
        assert_eq!(stream_backward(Type::F32, 4096, 4, &properties(80)), None);
        assert_eq!(stream_forward(Type::F32, 262_148, 8, &properties(90)), None);
        assert_eq!(stream_backward(Type::Bf16, 4097, 2, &properties(90)), None);
    }
}
