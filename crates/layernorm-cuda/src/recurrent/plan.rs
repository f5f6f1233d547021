//! A layer for one batch shape: kernels chosen and loaded, memory laid out.

use super::cell::{Cell, Number};
use super::cluster::{Cluster, Loops};
use super::geometry::Geometry;
use super::kernels::{self, GemmArgs};
use super::memory::{self, Sizes, Tape, Work};
use super::operands::{Layer, Order, Parameters, Shape};
use super::rounds::PATIENCE;
use crate::device::Device;
use crate::driver::call;
use crate::error::Error;
use crate::launch::{Launch, Stream, grid};
use crate::module::Function;
use layernorm_rnn::{Config, Slot};

/// The kernels of a plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Functions {
    pub(super) pack: Function,
    pub(super) pad_weight: Function,
    pub(super) pad_input: Function,
    pub(super) start: Function,
    pub(super) consts: Function,
    pub(super) input_norm: Option<Function>,
    pub(super) project: Function,
    pub(super) forward: Function,
    /// Kernels of the backward pass, in training: dx, dW and dU, the time loop and the sums.
    pub(super) back: Option<BackFunctions>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct BackFunctions {
    pub(super) pack: Function,
    pub(super) backward: Function,
    pub(super) dx: Function,
    pub(super) dw: Function,
    pub(super) finish: Function,
}

/// A layer for one batch shape. It owns no device memory; calls allocate nothing and can be captured in a graph.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) device: Device,
    pub(super) layer: Layer,
    pub(super) shape: Shape,
    pub(super) cell: Cell,
    pub(super) geometry: Geometry,
    /// How the time loops are divided, if they run in clusters.
    pub(super) cluster: Option<Cluster>,
    pub(super) sizes: Sizes,
    pub(super) tape: Tape,
    pub(super) forward_work: Work,
    pub(super) backward_work: Work,
    pub(super) functions: Functions,
    /// Device address of the word that a time loop sets when it gives up, and the number of polls before it does.
    pub(super) report: u64,
    pub(super) patience: u32,
}

impl Plan {
    /// Creates a plan for a layer and a batch shape, for training or inference.
    pub fn new(device: &Device, layer: Layer, shape: Shape, training: bool) -> Result<Plan, Error> {
        // The driver queries below refer to the current device.
        device.bind()?;
        let gpu = device.properties();
        if !gpu.cooperative {
            return Err(Error::Unsupported { why: "cooperative launches (all blocks resident at once)".into() });
        }
        let cell = Cell::of(&layer.variant)?;
        check(&layer, &shape)?;
        let geometry = Geometry::new(&cell, layer.hidden, shape.batch, (layer.number, layer.tf32), gpu)?;
        let chunk = 16 / layer.number.bytes();
        let sizes = Sizes {
            steps: shape.steps,
            batch: shape.batch,
            input: layer.input.next_multiple_of(chunk),
            number: layer.number,
            pads_x: shape.lengths || !layer.input.is_multiple_of(chunk),
            pads_w: layer.params != layer.number
                || geometry.padded != layer.hidden
                || !layer.input.is_multiple_of(chunk),
            training,
        };
        let tape = memory::tape(&cell, &geometry, &sizes);
        let (cluster, loops) = Cluster::choose(device, &cell, &layer, shape.batch, training)?.unzip();
        let forward_work = memory::forward(&cell, &geometry, cluster.as_ref(), &sizes, &tape);
        let backward_work = memory::backward(&cell, &geometry, cluster.as_ref(), &sizes);
        let functions = functions(device, &layer, &cell, &geometry, loops, training)?;
        let (device, report) = (device.clone(), device.report()?);
        let patience = PATIENCE;
        Ok(Plan {
            device,
            layer,
            shape,
            cell,
            geometry,
            cluster,
            sizes,
            tape,
            forward_work,
            backward_work,
            functions,
            report,
            patience,
        })
    }

    /// For tests: threads give up at the first unsuccessful poll, which happens at once where blocks wait for each
    /// other.
    #[doc(hidden)]
    pub fn impatient(self) -> Plan {
        Plan { patience: 1, ..self }
    }

    /// Bytes that the forward pass stores for the backward pass; 0 for inference.
    pub fn tape_bytes(&self) -> usize {
        if self.sizes.training { self.tape.bytes } else { 0 }
    }

    /// Bytes of workspace that a pass needs.
    pub fn workspace_bytes(&self) -> usize {
        if self.sizes.training {
            self.forward_work.bytes.max(self.backward_work.bytes)
        } else {
            self.forward_work.bytes
        }
    }

    /// Registers per thread, bytes of local memory per thread (spills), and dynamic shared memory, for each time loop.
    pub fn resources(&self) -> Result<Vec<(u32, u32, usize)>, Error> {
        let loops = [Some(self.functions.forward), self.functions.back.map(|back| back.backward)];
        loops
            .into_iter()
            .flatten()
            .map(|function| function.registers_and_local().map(|(regs, local)| (regs, local, function.shared)))
            .collect()
    }

    /// Row strides of x: from step to step, and from sequence to sequence.
    pub(super) fn strides(&self) -> (usize, usize) {
        match self.shape.order {
            Order::TimeFirst => (self.shape.batch, 1),
            Order::BatchFirst => (1, self.shape.steps),
        }
    }

    /// Launches a kernel over `items` items.
    pub(super) unsafe fn over<P: Copy>(
        &self,
        function: &Function,
        items: usize,
        stream: Stream,
        args: &P,
    ) -> Result<(), Error> {
        let blocks = items.div_ceil(256).clamp(1, 8 * self.device.properties().multiprocessors as usize);
        // SAFETY: guaranteed by the caller.
        unsafe { Launch::new(blocks as u32, 256).run(function, stream, args) }
    }

    pub(super) unsafe fn gemm(&self, function: &Function, stream: Stream, args: &GemmArgs) -> Result<(), Error> {
        let tiles = (args.m as usize).div_ceil(128) * (args.n as usize).div_ceil(128);
        // SAFETY: guaranteed by the caller.
        unsafe { Launch::new(grid(tiles)?, 256).run(function, stream, args) }
    }

    /// Fills memory with the words that mean "not received yet".
    pub(super) unsafe fn empty(&self, from: u64, to: u64, stream: Stream) -> Result<(), Error> {
        // SAFETY: guaranteed by the caller.
        unsafe { call!(cuMemsetD32Async(from, u32::MAX, ((to - from) / 4) as usize, stream.0)) }
    }

    /// Clears the word that says whether a pass timed out.
    pub(super) unsafe fn begin(&self, workspace: u64, stream: Stream) -> Result<(), Error> {
        // SAFETY: guaranteed by the caller.
        unsafe { call!(cuMemsetD32Async(workspace, 0, 1, stream.0)) }
    }

    /// Waits for the GPU and reports whether all recurrent passes on it completed. A pass times out if a block receives
    /// nothing from another one for seconds, for example because other work keeps some of the blocks from running.
    pub fn check(&self) -> Result<(), Error> {
        self.device.synchronize()
    }

    pub(super) fn check_params(&self, params: &Parameters) -> Result<(), Error> {
        check_params(&self.layer, params)
    }
}

/// Checks that all parameters of the layer are given.
pub(super) fn check_params(layer: &Layer, params: &Parameters) -> Result<(), Error> {
    let config = Config::new(layer.variant, layer.input, layer.hidden);
    for slot in Slot::ALL {
        if slot.shape(&config, 0).is_some() && params.get(slot) == 0 {
            return Err(Error::Operand { what: "params", why: format!("{} is missing", slot.name()) });
        }
    }
    Ok(())
}

pub(super) fn aligned(what: &'static str, address: u64) -> Result<(), Error> {
    if address == 0 || !address.is_multiple_of(16) {
        return Err(Error::Operand {
            what,
            why: format!("expected an address aligned to 16 bytes, found {address:#x}"),
        });
    }
    Ok(())
}

pub(super) fn check(layer: &Layer, shape: &Shape) -> Result<(), Error> {
    if layer.params != layer.number && layer.params != Number::F32 {
        return Err(Error::Shape { why: "parameters must be f32 or have the type of x".into() });
    }
    for (what, size) in [("I", layer.input), ("H", layer.hidden), ("T", shape.steps), ("B", shape.batch)] {
        if size == 0 || size > 1 << 24 {
            return Err(Error::Shape { why: format!("{what}: expected 1 to 16777216, found {size}") });
        }
    }
    if shape.steps.checked_mul(shape.batch).is_none_or(|rows| rows > i32::MAX as usize) {
        return Err(Error::Shape { why: format!("{} steps × {} sequences are too many", shape.steps, shape.batch) });
    }
    Ok(())
}

fn functions(
    device: &Device,
    layer: &Layer,
    cell: &Cell,
    geometry: &Geometry,
    loops: Option<Loops>,
    training: bool,
) -> Result<Functions, Error> {
    let tf32 = layer.tf32 && layer.number == Number::F32;
    let prepare = |entry| device.function(&kernels::prepare(entry, layer.number, layer.params));
    let back = if training {
        Some(BackFunctions {
            pack: prepare(if loops.is_some() { "rnn_pack_cluster_back" } else { "rnn_pack" })?,
            backward: match loops.and_then(|loops| loops.backward) {
                Some(backward) => backward,
                None => device.function(&kernels::backward(cell, geometry, layer.number, tf32))?,
            },
            dx: device.function(&kernels::gemm(layer.number, tf32, (false, true), layer.number))?,
            dw: device.function(&kernels::gemm(layer.number, tf32, (true, true), layer.params))?,
            finish: device.function(&kernels::finish(layer.params))?,
        })
    } else {
        None
    };
    Ok(Functions {
        pack: prepare(if loops.is_some() { "rnn_pack_cluster" } else { "rnn_pack" })?,
        pad_weight: prepare("rnn_pad_weight")?,
        pad_input: prepare("rnn_pad_input")?,
        start: prepare("rnn_start")?,
        consts: prepare("rnn_consts")?,
        input_norm: match cell.input_norm {
            Some(_) => Some(device.function(&kernels::input_norm(cell, geometry))?),
            None => None,
        },
        project: device.function(&kernels::gemm(layer.number, tf32, (false, false), Number::F32))?,
        forward: match loops {
            Some(loops) => loops.forward,
            None => device.function(&kernels::forward(cell, geometry, layer.number, tf32, training))?,
        },
        back,
    })
}
