//! Time loops of small 16-bit layers, in thread block clusters (kernels/recurrent/cluster.cuh). Whether a layer runs
//! this way depends on its size, its type and the device, never on the batch, because these loops sum in a different
//! order from the others.

use super::cell::{Cell, Number};
use super::kernels::{self, Address, BackwardCall, BackwardTape, ForwardCall, ForwardTape};
use super::operands::{Layer, Parameters, Run, RunBack};
use super::plan::Plan;
use crate::device::Device;
use crate::error::Error;
use crate::launch::{Launch, Stream};
use crate::layout::device_struct;
use crate::module::{Function, Variant};
use crate::nvrtc::Source;
use layernorm_rnn::Slot;

/// Units per block.
const UNITS: usize = 32;
/// Largest cluster size: 8 on every device with clusters, 16 on some.
const MOST_BLOCKS: usize = 16;

/// A layer divided among the blocks of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cluster {
    pub(crate) hidden: usize,
    /// CS, the number of blocks.
    pub(crate) blocks: usize,
    /// NT: tiles of 8 sequences per cluster.
    pub(crate) tiles: usize,
}

/// The time loops of a cluster; the backward loop only in training.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loops {
    pub(super) forward: Function,
    pub(super) backward: Option<Function>,
}

/// Whether this driver error means that the device does not support such a cluster.
fn refuses(code: u32) -> bool {
    use cudarc::driver::sys::CUresult as Of;
    [Of::CUDA_ERROR_INVALID_CLUSTER_SIZE, Of::CUDA_ERROR_INVALID_VALUE, Of::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES]
        .iter()
        .any(|&refusal| refusal as u32 == code)
}

impl Cluster {
    /// How a layer is divided, if its size and type are suitable.
    pub(crate) fn of(hidden: usize, number: Number, tiles: usize) -> Option<Cluster> {
        let blocks = hidden.div_ceil(UNITS);
        (number != Number::F32 && (2..=MOST_BLOCKS).contains(&blocks)).then_some(Cluster { hidden, blocks, tiles })
    }

    /// The cluster and its loops for a batch; `None` if the device does not support clusters of that size.
    pub(super) fn choose(
        device: &Device,
        cell: &Cell,
        layer: &Layer,
        batch: usize,
        training: bool,
    ) -> Result<Option<(Cluster, Loops)>, Error> {
        let Some(cluster) = Cluster::of(layer.hidden, layer.number, 1) else { return Ok(None) };
        if !device.properties().clusters {
            return Ok(None);
        }
        // Both passes must fit, even without a backward pass: training and inference must give the same bits.
        let room = device.properties().shared_per_block;
        let fits = |cluster: &Cluster| cluster.shared(cell).max(cluster.shared_back(cell)) <= room;
        if !fits(&cluster) {
            return Ok(None);
        }
        let loops = cluster.loops(device, cell, layer.number, training)?;
        // A device may reject the size, as a partitioned one does.
        let at_once = match cluster.launch(batch).active_clusters(&loops.forward) {
            Ok(0) => return Ok(None),
            Err(Error::Driver { code, .. }) if refuses(code) => return Ok(None),
            held => held? as usize,
        };
        // One tile while all sequences are resident that way, because a step takes less time. Two tiles take less time
        // per sequence.
        let two = Cluster { tiles: 2, ..cluster };
        if batch <= 8 * at_once || !fits(&two) {
            return Ok(Some((cluster, loops)));
        }
        Ok(Some((two, two.loops(device, cell, layer.number, training)?)))
    }

    fn loops(&self, device: &Device, cell: &Cell, number: Number, training: bool) -> Result<Loops, Error> {
        let backward = if training { Some(device.function(&self.backward(cell, number))?) } else { None };
        Ok(Loops { forward: device.function(&self.forward(cell, number, training))?, backward })
    }

    fn launch(&self, batch: usize) -> Launch {
        Launch::new((batch.div_ceil(8 * self.tiles) * self.blocks) as u32, 256).cluster(self.blocks as u32)
    }

    /// Bytes of U in the order of the forward loop.
    pub(super) fn packed(&self) -> usize {
        self.blocks * 8 * self.blocks.div_ceil(2) * 2048
    }

    pub(super) fn packed_back(&self, cell: &Cell) -> usize {
        self.blocks * 8 * self.blocks.div_ceil(8) * 2 * cell.gates * 1024
    }

    /// Bytes of the messages of one normalized row, for all sequences.
    fn rows(&self) -> usize {
        8 * self.tiles * 8 * self.blocks.next_multiple_of(4)
    }

    /// Size of `Shared` in cluster_forward.cu, in bytes.
    fn shared(&self, cell: &Cell) -> usize {
        let h = (2 * self.blocks + 1) * self.tiles * 512;
        8 * (4 + 16 * self.tiles) + h + (cell.groups() + 1) * self.rows() + 2 * 2 * 8 * self.tiles * 528
    }

    /// Size of `Shared` in cluster_backward.cu, in bytes.
    fn shared_back(&self, cell: &Cell) -> usize {
        let groups = cell.loop_norm().map_or(0, |_| cell.groups()) + cell.input_norm.map_or(0, |_| cell.input_groups());
        let dh = 2 * self.blocks * self.tiles * 1024 + 2 * cell.gates * self.tiles * 512;
        let tape = 2 * (2 * cell.gates + 5 + cell.groups() + cell.input_groups());
        let own = self.tiles * (tape + 3 * cell.gates + 2) * 1024;
        8 * (2 + 16 * self.tiles) + dh + (2 * groups.max(1) + 1) * self.rows() + own
    }

    fn variant(
        &self,
        source: &'static Source,
        entry: &'static str,
        cell: &Cell,
        number: Number,
        shared: usize,
    ) -> Variant {
        let base = Variant::new(source, entry)
            .define("TYPE", number.code())
            .define("H", self.hidden)
            .define("HP", self.blocks * UNITS)
            .define("UNITS", UNITS)
            .define("GS", self.blocks)
            .define("NT", self.tiles)
            .define("SHARED", shared);
        let variant = kernels::with(base, cell.defines()).shared(shared);
        Variant { large_clusters: self.blocks > 8, ..variant }
    }

    /// The forward time loop.
    pub(super) fn forward(&self, cell: &Cell, number: Number, training: bool) -> Variant {
        self.variant(&kernels::CLUSTER_FORWARD, "rnn_cluster_forward", cell, number, self.shared(cell))
            .define("TRAIN", u8::from(training))
    }

    /// The backward time loop.
    pub(super) fn backward(&self, cell: &Cell, number: Number) -> Variant {
        self.variant(&kernels::CLUSTER_BACKWARD, "rnn_cluster_backward", cell, number, self.shared_back(cell))
    }
}

device_struct! {
    /// `PackCluster` of prepare.cu.
    pub(super) struct PackArgs as "PackCluster" {
        u: Address,
        packed: Address,
        hidden: i32,
        gates: i32,
        blocks: i32,
    }
}

device_struct! {
    /// The last part of `Forward` and `Backward`: the sequences of a batch.
    pub(super) struct Sequences as "Sequences" {
        lengths: Address,
        steps: i32,
        batch: i32,
        row_time: i32,
        row_batch: i32,
        reverse: i32,
    }
}

device_struct! {
    /// `Forward` of cluster_forward.cu.
    pub(super) struct ForwardArgs as "Forward" {
        u: Address,
        .. tape: ForwardTape,
        consts: Address,
        .. call: ForwardCall,
        .. sequences: Sequences,
    }
}

device_struct! {
    /// `Backward` of cluster_backward.cu.
    pub(super) struct BackwardArgs as "Backward" {
        ut: Address,
        .. tape: BackwardTape,
        dzh: Address,
        dzx: Address,
        consts: Address,
        .. call: BackwardCall,
        .. sequences: Sequences,
    }
}

impl Plan {
    /// Packs U or Uᵀ in the order in which a loop reads it.
    pub(super) unsafe fn pack_cluster(
        &self,
        cluster: &Cluster,
        stream: Stream,
        params: &Parameters,
        to: u64,
        back: bool,
    ) -> Result<(), Error> {
        let args = PackArgs {
            u: params.get(Slot::RecurrentWeight),
            packed: to,
            hidden: cluster.hidden as i32,
            gates: self.cell.gates as i32,
            blocks: cluster.blocks as i32,
        };
        let (function, bytes) = match &self.functions.back {
            Some(functions) if back => (&functions.pack, cluster.packed_back(&self.cell)),
            _ => (&self.functions.pack, cluster.packed()),
        };
        // SAFETY: guaranteed by the caller.
        unsafe { self.over(function, bytes / 4, stream, &args) }
    }

    fn sequences(&self, lengths: u64) -> Sequences {
        let (row_time, row_batch) = self.strides();
        Sequences {
            lengths,
            steps: self.shape.steps as i32,
            batch: self.shape.batch as i32,
            row_time: row_time as i32,
            row_batch: row_batch as i32,
            reverse: i32::from(self.layer.reverse),
        }
    }

    pub(super) unsafe fn cluster_forward(
        &self,
        cluster: &Cluster,
        stream: Stream,
        run: &Run,
        tape: u64,
    ) -> Result<(), Error> {
        let args = ForwardArgs {
            u: run.workspace + self.forward_work.matrix as u64,
            tape: self.forward_tape(tape),
            consts: tape + self.tape.consts as u64,
            call: self.forward_call(run),
            sequences: self.sequences(run.lengths),
        };
        // SAFETY: guaranteed by the caller.
        unsafe { cluster.launch(self.shape.batch).run(&self.functions.forward, stream, &args) }
    }

    pub(super) unsafe fn cluster_backward(
        &self,
        cluster: &Cluster,
        stream: Stream,
        run: &RunBack,
        function: &Function,
    ) -> Result<(), Error> {
        let work = |at: usize| run.workspace + at as u64;
        let args = BackwardArgs {
            ut: work(self.backward_work.matrix),
            tape: self.backward_tape(run.tape),
            dzh: work(self.backward_work.dzh),
            dzx: work(self.backward_work.dzx),
            consts: run.tape + self.tape.consts as u64,
            call: self.backward_call(run),
            sequences: self.sequences(run.lengths),
        };
        // SAFETY: guaranteed by the caller.
        unsafe { cluster.launch(self.shape.batch).run(function, stream, &args) }
    }
}
