//! The time loops of small 16-bit layers, in clusters of blocks (kernels/recurrent/cluster.cuh). Whether a layer runs so depends
//! on its size, its type and the device, never on the batch: the order of its sums is another than that of the other loops.

use super::cell::{Cell, Number};
use super::kernels::{self, Address};
use super::plan::{Layer, Parameters, Plan, Run};
use crate::device::Device;
use crate::error::Error;
use crate::launch::{Launch, Stream};
use crate::module::{Function, Variant};
use layernorm_rnn::Slot;

/// Units of a block.
const UNITS: usize = 32;
/// Blocks of the largest cluster that there is: 8 on every device that has clusters, 16 on some.
const MOST_BLOCKS: usize = 16;

/// A layer cut into the blocks of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cluster {
    pub(crate) hidden: usize,
    /// CS.
    pub(crate) blocks: usize,
    /// NT: tiles of 8 sequences that a cluster takes.
    pub(crate) tiles: usize,
}

impl Cluster {
    /// How a layer is cut, if it is of a size and type for that.
    pub(crate) fn of(hidden: usize, number: Number, tiles: usize) -> Option<Cluster> {
        let blocks = hidden.div_ceil(UNITS);
        (number != Number::F32 && blocks <= MOST_BLOCKS).then_some(Cluster { hidden, blocks, tiles })
    }

    /// The cluster and the forward loop for a batch; none where the device has no clusters of that size.
    pub(super) fn choose(
        device: &Device,
        cell: &Cell,
        layer: &Layer,
        batch: usize,
        training: bool,
    ) -> Result<Option<(Cluster, Function)>, Error> {
        let Some(cluster) = Cluster::of(layer.hidden, layer.number, 1) else { return Ok(None) };
        if !device.properties().clusters {
            return Ok(None);
        }
        let function = device.function(&cluster.forward(cell, layer.number, training))?;
        // A device may refuse the size, as one in parts does.
        let at_once = cluster.launch(batch).active_clusters(&function).unwrap_or(0) as usize;
        if at_once == 0 {
            return Ok(None);
        }
        // One tile while all sequences run at once so: a step takes less time. Two take less of it for each sequence.
        if batch <= 8 * at_once {
            return Ok(Some((cluster, function)));
        }
        let cluster = Cluster { tiles: 2, ..cluster };
        Ok(Some((cluster, device.function(&cluster.forward(cell, layer.number, training))?)))
    }

    fn launch(&self, batch: usize) -> Launch {
        Launch::new((batch.div_ceil(8 * self.tiles) * self.blocks) as u32, 256).cluster(self.blocks as u32)
    }

    /// PW: pairs of k of a warp.
    fn pairs(&self) -> usize {
        self.blocks.div_ceil(2)
    }

    /// Bytes of U as the forward loop reads it.
    pub(super) fn packed(&self) -> usize {
        self.blocks * 8 * self.pairs() * 2048
    }

    /// Bytes of `Shared` of cluster_forward.cu.
    fn shared(&self, cell: &Cell) -> usize {
        let row = 8 * (self.blocks.next_multiple_of(4) + 2);
        let rows = 8 * row + 8 * 64;
        let column = 2 * self.blocks * 512 + 2 * 512 + (cell.groups() + 1) * rows + 8 * 512;
        32 + self.tiles * column + (4 * cell.gates + 2) * 128
    }

    /// The time loop forward.
    pub(super) fn forward(&self, cell: &Cell, number: Number, training: bool) -> Variant {
        let base = Variant::new(&kernels::CLUSTER_FORWARD, "rnn_cluster_forward")
            .define("TYPE", number.code())
            .define("TRAIN", u8::from(training))
            .define("H", self.hidden)
            .define("HP", self.blocks * UNITS)
            .define("UNITS", UNITS)
            .define("GS", self.blocks)
            .define("NT", self.tiles)
            .define("SHARED", self.shared(cell));
        let variant = kernels::with(base, cell.defines()).shared(self.shared(cell));
        Variant { large_clusters: self.blocks > 8, ..variant }
    }
}

/// `PackCluster` of prepare.cu.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct PackArgs {
    u: Address,
    packed: Address,
    hidden: i32,
    gates: i32,
    blocks: i32,
    pairs: i32,
}

/// `Forward` of cluster_forward.cu.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct ForwardArgs {
    u: Address,
    zx: Address,
    zh: Address,
    rh: Address,
    state: Address,
    cell: Address,
    h: Address,
    consts: Address,
    y: Address,
    y_time: i64,
    y_batch: i64,
    h0: Address,
    c0: Address,
    h_last: Address,
    c_last: Address,
    lengths: Address,
    steps: i32,
    batch: i32,
    row_time: i32,
    row_batch: i32,
    reverse: i32,
}

impl Plan {
    /// U in the order of the forward loop.
    pub(super) unsafe fn pack_cluster(
        &self,
        cluster: &Cluster,
        stream: Stream,
        params: &Parameters,
        to: u64,
    ) -> Result<(), Error> {
        let args = PackArgs {
            u: params.get(Slot::RecurrentWeight),
            packed: to,
            hidden: cluster.hidden as i32,
            gates: self.cell.gates as i32,
            blocks: cluster.blocks as i32,
            pairs: cluster.pairs() as i32,
        };
        // SAFETY: the caller's promise.
        unsafe { self.over(&self.functions.pack_forward, cluster.packed() / 4, stream, &args) }
    }

    pub(super) unsafe fn cluster_forward(
        &self,
        cluster: &Cluster,
        stream: Stream,
        run: &Run,
        tape: u64,
    ) -> Result<(), Error> {
        let kept = |at: usize| tape + at as u64;
        let (row_time, row_batch) = self.strides();
        let args = ForwardArgs {
            u: run.workspace + self.there.matrix as u64,
            zx: kept(self.tape.zx),
            zh: kept(self.tape.zh),
            rh: kept(self.tape.rh),
            state: kept(self.tape.state),
            cell: kept(self.tape.cell),
            h: kept(self.tape.h),
            consts: kept(self.tape.consts),
            y: run.y,
            y_time: (row_time * run.y_pitch) as i64,
            y_batch: (row_batch * run.y_pitch) as i64,
            h0: run.first.h,
            c0: run.first.c,
            h_last: run.last.h,
            c_last: run.last.c,
            lengths: run.lengths,
            steps: self.shape.steps as i32,
            batch: self.shape.batch as i32,
            row_time: row_time as i32,
            row_batch: row_batch as i32,
            reverse: i32::from(self.layer.reverse),
        };
        // SAFETY: the caller's promise.
        unsafe { cluster.launch(self.shape.batch).run(&self.functions.forward, stream, &args) }
    }
}
