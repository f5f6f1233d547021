//! A layer for one batch shape: kernels chosen and loaded, memory laid out.

use super::cell::{Cell, Number};
use super::cluster::{Cluster, Loops};
use super::geometry::Geometry;
use super::kernels::{self, Address, GemmArgs, Vectors};
use super::memory::{self, Sizes, Tape, Work};
use super::rounds::PATIENCE;
use crate::device::Device;
use crate::driver::call;
use crate::error::Error;
use crate::launch::{Launch, Stream, grid};
use crate::module::Function;
use layernorm_rnn::{Config, Slot, Variant};

/// One layer in one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layer {
    /// The cell.
    pub variant: Variant,
    /// I, the input size.
    pub input: usize,
    /// H, the number of hidden units.
    pub hidden: usize,
    /// The type of x, y and their gradients, and of the operands of the products.
    pub number: Number,
    /// The type of the parameters and their gradients: `number` or f32.
    pub params: Number,
    /// Whether f32 products may round their operands to 11 bits (tf32), as cuDNN's do: one product instead of three.
    pub tf32: bool,
    /// Whether the layer runs from each sequence's last step to its first.
    pub reverse: bool,
}

/// Memory order of a batch of sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// `[T, B, …]`.
    TimeFirst,
    /// `[B, T, …]`.
    BatchFirst,
}

/// The shape of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// T, the number of steps.
    pub steps: usize,
    /// B, the number of sequences.
    pub batch: usize,
    /// Memory order of x, y and their gradients.
    pub order: Order,
    /// Whether the sequences have individual lengths.
    pub lengths: bool,
}

/// Device addresses of a layer's parameters or of their gradients, each in the shape of its [`Slot`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parameters([Address; Slot::ALL.len()]);

impl Parameters {
    /// Sets the address of one parameter.
    pub fn with(mut self, slot: Slot, address: u64) -> Self {
        self.0[slot as usize] = address;
        self
    }

    /// The address of one parameter, or 0.
    pub fn get(&self, slot: Slot) -> u64 {
        self.0[slot as usize]
    }

    pub(super) fn vectors(&self) -> Vectors {
        let either = |a: Slot, b: Slot| if self.get(a) != 0 { self.get(a) } else { self.get(b) };
        Vectors {
            gx: self.get(Slot::InputNormGain),
            bx_norm: self.get(Slot::InputNormBias),
            gh: either(Slot::RecurrentNormGain, Slot::SumNormGain),
            bh_norm: either(Slot::RecurrentNormBias, Slot::SumNormBias),
            bias: self.get(Slot::Bias),
            bx: self.get(Slot::InputBias),
            bh: self.get(Slot::RecurrentBias),
            gc: self.get(Slot::CellNormGain),
            bc: self.get(Slot::CellNormBias),
        }
    }
}

/// Device addresses of a state or its gradient, f32 `[B, H]` each. 0: an input is zeros, an output is not wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// h.
    pub h: u64,
    /// c; only for an LSTM.
    pub c: u64,
}

/// Operands of a forward pass, as device addresses.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The parameters.
    pub params: Parameters,
    /// Input `[T, B, I]`, aligned to 16 bytes.
    pub x: u64,
    /// Output `[T, B, H]`, with rows `y_pitch` elements apart. Steps past the end of a sequence are not written.
    pub y: u64,
    /// Elements from row to row of y; at least H.
    pub y_pitch: usize,
    /// The state before the first step.
    pub first: State,
    /// Where the state after the last step is written.
    pub last: State,
    /// i32 `[B]`, each from 1 to T, if the plan's shape has lengths; else 0.
    pub lengths: u64,
    /// [`Plan::tape_bytes`] bytes; only for training.
    pub tape: u64,
    /// [`Plan::workspace_bytes`] bytes.
    pub workspace: u64,
}

/// Gradients of parameters and input. They are overwritten, not accumulated (except with `add_x`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Gradients {
    /// Gradients of the parameters; those with address 0 are not computed.
    pub params: Parameters,
    /// Gradient of x, `[T, B, I]`; 0 if not wanted.
    pub x: u64,
    /// Whether the gradient of x is added to the existing values, as for the second direction.
    pub add_x: bool,
    /// Gradient of the state before the first step.
    pub first: State,
}

/// Operands of a backward pass, as device addresses.
#[derive(Clone, Copy, Debug)]
pub struct RunBack {
    /// As in the forward pass.
    pub params: Parameters,
    /// As in the forward pass.
    pub x: u64,
    /// Gradient of y, `[T, B, H]`, with rows `dy_pitch` elements apart.
    pub dy: u64,
    /// Elements from row to row of dy; at least H.
    pub dy_pitch: usize,
    /// Gradient of the state after the last step.
    pub dlast: State,
    /// As in the forward pass.
    pub lengths: u64,
    /// As the forward pass left it. It is not modified.
    pub tape: u64,
    /// [`Plan::workspace_bytes`] bytes.
    pub workspace: u64,
    /// Where the gradients are written.
    pub gradients: Gradients,
}

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
    pub(super) there: Work,
    pub(super) back: Work,
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
        let there = memory::forward(&cell, &geometry, cluster.as_ref(), &sizes, &tape);
        let back = memory::backward(&cell, &geometry, cluster.as_ref(), &sizes);
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
            there,
            back,
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
        if self.sizes.training { self.there.bytes.max(self.back.bytes) } else { self.there.bytes }
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
        // SAFETY: the caller's promise.
        unsafe { Launch::new(blocks as u32, 256).run(function, stream, args) }
    }

    pub(super) unsafe fn gemm(&self, function: &Function, stream: Stream, args: &GemmArgs) -> Result<(), Error> {
        let tiles = (args.m as usize).div_ceil(128) * (args.n as usize).div_ceil(128);
        // SAFETY: the caller's promise.
        unsafe { Launch::new(grid(tiles)?, 256).run(function, stream, args) }
    }

    /// Fills memory with the words that mean "not received yet".
    pub(super) unsafe fn empty(&self, from: u64, to: u64, stream: Stream) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        unsafe { call!(cuMemsetD32Async(from, u32::MAX, ((to - from) / 4) as usize, stream.0)) }
    }

    /// Clears the word that says whether a pass timed out.
    pub(super) unsafe fn begin(&self, workspace: u64, stream: Stream) -> Result<(), Error> {
        // SAFETY: the caller's promise.
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
