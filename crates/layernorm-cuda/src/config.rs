//! How a pass over rows is mapped onto the GPU: every threshold, in one place, as data. No choice made here affects the
//! results.
//!
//! [`Strategy::choose`] picks one of five ways, each with its own kernels and its own structure of launch parameters.
//! `Sums::choose` then picks how a backward pass computes the sums for γ and β.
//! `bench/notes/gpu-norms.md` has the measurements behind the numbers.

mod down;
mod long;
mod registers;
mod schedule;
mod streaming;
mod thread_per_lane;
mod thread_per_row;

pub use down::Down;
pub use long::Long;
pub use registers::Registers;
pub use streaming::Streaming;
pub use thread_per_lane::ThreadPerLane;
pub use thread_per_row::ThreadPerRow;

pub(crate) use down::{Sums, finish_shape};
pub(crate) use schedule::{MESSAGE_BYTES, Schedule, Turns};

use crate::device::Properties;
use crate::types::Type;

/// Elements per block of the canonical sum.
pub(crate) const BLOCK: usize = 1024;
/// Lanes of the canonical sum.
const LANES: usize = 256;
/// Rows per chunk of the sums down the rows.
pub(crate) const CHUNK: usize = 64;
/// Maximum warps per thread block when the whole block shares a row.
const MAX_WARPS: usize = 16;
/// Maximum blocks per cluster. Sizes above 8 are non-portable, and a kernel must opt in.
const MAX_CLUSTER: usize = 16;
/// Cluster size that every device with clusters supports.
pub(crate) const PORTABLE_CLUSTER: usize = 8;

/// How a pass over rows runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// A thread has one lane of the canonical sum. For few rows.
    ThreadPerLane(ThreadPerLane),
    /// A thread has a whole row. For many short, contiguous rows; forward only.
    ThreadPerRow(ThreadPerRow),
    /// A part of a warp, a block or a cluster holds a row in registers.
    Registers(Registers),
    /// Rows stream through shared memory with bulk copies.
    Streaming(Streaming),
    /// A block reads a row several times. For rows that no team of threads can hold.
    Long(Long),
}

/// What the choice of a strategy depends on, besides the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Element type.
    pub element: Type,
    /// Number of rows.
    pub rows: usize,
    /// Elements per row.
    pub n: usize,
    /// Number of parameters that the pass reads: γ and β forward, γ backward.
    pub params: usize,
    /// Whether all operands consist of whole 16-byte vectors.
    pub aligned: bool,
    /// Whether γ and β are per element of a row and the same for all rows. Otherwise they are per channel.
    pub per_feature: bool,
    /// The pass.
    pub pass: Pass,
}

/// A pass and its optional operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Computes y.
    Forward {
        /// Whether a residual is added to x.
        residual: bool,
        /// Whether the rows of x and y follow each other without gaps.
        packed: bool,
    },
    /// Computes dx, and the sums for dγ and dβ.
    Backward {
        /// Whether h has a gradient from its other users.
        dh: bool,
        /// Whether dx is wanted.
        dx: bool,
        /// Whether dγ or dβ is wanted.
        gradients: bool,
    },
}

impl Request {
    /// Whether the pass has only its usual operands, in whole vectors. Streaming and one thread per row require that.
    fn is_plain(&self) -> bool {
        let usual = match self.pass {
            Pass::Forward { residual, .. } => !residual,
            Pass::Backward { dh, dx, .. } => !dh && dx,
        };
        usual && self.aligned && self.per_feature
    }

    /// Whether this is a forward pass over rows without gaps.
    fn is_packed(&self) -> bool {
        matches!(self.pass, Pass::Forward { packed: true, .. })
    }
}

impl Strategy {
    /// The fastest strategy for a pass, as measured.
    pub fn choose(request: &Request, properties: &Properties) -> Strategy {
        match request.pass {
            Pass::Forward { residual, .. } => Strategy::forward(request, 1 + usize::from(residual), properties),
            Pass::Backward { gradients, .. } => Strategy::backward(request, gradients, properties),
        }
    }

    /// `tensors`: number of tensors that are read.
    fn forward(request: &Request, tensors: usize, properties: &Properties) -> Strategy {
        let Request { element, rows, n, params, aligned, per_feature, .. } = *request;
        let plain = request.is_plain();
        if per_feature && let Some(shape) = ThreadPerLane::forward(rows, n, properties) {
            return Strategy::ThreadPerLane(shape);
        }
        if plain
            && request.is_packed()
            && let Some(shape) = ThreadPerRow::forward(element, rows, n, properties)
        {
            return Strategy::ThreadPerRow(shape);
        }
        if plain
            && let Some(shape) = Streaming::forward(element, n, params, properties)
            && shape.pays_off(element, rows, n, properties)
        {
            return Strategy::Streaming(shape);
        }
        let shape = Registers::forward(element, rows, n, aligned, tensors, properties);
        shape.map_or(Strategy::Long(Long::default()), Strategy::Registers)
    }

    /// `gradients`: whether dγ or dβ is wanted.
    fn backward(request: &Request, gradients: bool, properties: &Properties) -> Strategy {
        let Request { element, rows, n, params, aligned, per_feature, .. } = *request;
        let sums = gradients && per_feature && registers::fuses_sums(element, rows, n, properties);
        if per_feature
            && !sums
            && let Some(shape) = ThreadPerLane::backward(rows, n, properties)
        {
            return Strategy::ThreadPerLane(shape);
        }
        if sums
            && request.is_plain()
            && let Some(shape) = Streaming::backward(element, n, params, properties)
        {
            return Strategy::Streaming(shape);
        }
        let shape = Registers::backward(element, rows, n, aligned, sums, properties);
        shape.map_or(Strategy::Long(Long::default()), Strategy::Registers)
    }

    /// Whether it has kernels for a pass. The code that created the structure must ensure that a row fits.
    pub(crate) fn can_run(&self, request: &Request) -> bool {
        !matches!(self, Strategy::ThreadPerRow(_)) || (request.is_plain() && request.is_packed())
    }

    /// If a backward pass also computes sums for γ and β: the number of partial sums per column that it leaves.
    pub(crate) fn partial_sums(&self, rows: usize) -> Option<usize> {
        let chunks = rows.div_ceil(CHUNK);
        match self {
            Strategy::Streaming(_) => Some(chunks),
            // The teams of a warp add up their chunks.
            Strategy::Registers(shape) => shape.sums.then(|| chunks.div_ceil(32 / shape.team)),
            _ => None,
        }
    }
}

/// Largest cluster size of a device: 16 where a kernel may ask for more than the portable 8.
fn max_cluster(properties: &Properties) -> usize {
    match properties.capability {
        90..120 if properties.clusters => MAX_CLUSTER,
        _ if properties.clusters => PORTABLE_CLUSTER,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::properties;

    const FORWARD: Pass = Pass::Forward { residual: false, packed: true };
    const BACKWARD: Pass = Pass::Backward { dh: false, dx: true, gradients: true };

    fn request(element: Type, rows: usize, n: usize, pass: Pass) -> Request {
        Request { element, rows, n, params: 1, aligned: true, per_feature: true, pass }
    }

    fn chosen(request: Request) -> &'static str {
        match Strategy::choose(&request, &properties(90)) {
            Strategy::ThreadPerLane(_) => "thread per lane",
            Strategy::ThreadPerRow(_) => "thread per row",
            Strategy::Registers(shape) if shape.sums => "registers with sums",
            Strategy::Registers(_) => "registers",
            Strategy::Streaming(_) => "streaming",
            Strategy::Long(_) => "long",
        }
    }

    /// One size for each strategy, and what is chosen when an operand or the parameters do not suit it.
    #[test]
    fn every_strategy_is_chosen() {
        for (element, rows, n, pass, wanted, otherwise) in [
            (Type::F32, 64, 1024, FORWARD, "thread per lane", "registers"),
            (Type::Bf16, 1 << 20, 64, FORWARD, "thread per row", "registers"),
            (Type::Bf16, 65536, 4096, FORWARD, "streaming", "registers"),
            (Type::F64, 65536, 4096, FORWARD, "registers", "registers"),
            (Type::F32, 8, 1 << 20, FORWARD, "long", "long"),
            (Type::F32, 64, 1024, BACKWARD, "thread per lane", "registers"),
            (Type::Bf16, 65536, 4096, BACKWARD, "streaming", "registers"),
            (Type::F32, 1 << 20, 64, BACKWARD, "registers with sums", "registers"),
            (Type::F32, 8, 1 << 20, BACKWARD, "long", "long"),
        ] {
            let request = request(element, rows, n, pass);
            assert_eq!(chosen(request), wanted, "{request:?}");
            let channels = Request { per_feature: false, ..request };
            assert_eq!(chosen(channels), otherwise, "{channels:?}");
        }
        let strided = Pass::Forward { residual: false, packed: false };
        assert_eq!(chosen(request(Type::Bf16, 1 << 20, 64, strided)), "registers");
        let residual = Pass::Forward { residual: true, packed: true };
        assert_eq!(chosen(request(Type::Bf16, 65536, 4096, residual)), "registers");
        let no_dx = Pass::Backward { dh: false, dx: false, gradients: true };
        assert_eq!(chosen(request(Type::Bf16, 65536, 4096, no_dx)), "registers with sums");
    }

    /// The sums for γ and β: fused with dx if there are enough rows; otherwise in one launch, or in two for many rows.
    #[test]
    fn every_way_to_sum_is_chosen() {
        let device = properties(90);
        let chosen = |element, rows, n| {
            let request = request(element, rows, n, BACKWARD);
            Sums::choose(&Strategy::choose(&request, &device), &request, 2, &device)
        };
        assert_eq!(chosen(Type::Bf16, 65536, 4096), Sums::Fused);
        assert!(matches!(chosen(Type::F32, 64, 1024), Sums::Down(_)));
        assert_eq!(chosen(Type::F64, 1 << 20, 4096), Sums::Chunks);
    }

    /// A thread per row has a forward kernel only, for contiguous rows.
    #[test]
    fn a_thread_per_row_runs_forward_only() {
        let Some(shape) = ThreadPerRow::supported(Type::F32, 32, &properties(90)) else { panic!("no shape") };
        let strategy = Strategy::ThreadPerRow(shape);
        assert!(strategy.can_run(&request(Type::F32, 1000, 32, FORWARD)));
        assert!(!strategy.can_run(&request(Type::F32, 1000, 32, BACKWARD)));
        assert!(Strategy::Long(Long::default()).can_run(&request(Type::F32, 1000, 32, BACKWARD)));
    }
}
