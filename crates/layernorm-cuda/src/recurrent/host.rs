//! The slower way, for layers that the kernels do not have: the CPU engine, with copies to and from the device.
//!
//! It takes the calls of a [`Plan`](super::Plan) and gives the CPU's results for them: of every cell, every size. It waits for the
//! stream and for the copies, so it cannot be captured in a graph. What the backward pass needs is computed again from x; the
//! tape holds the state before the first step alone.

use super::cell::Number;
use super::plan::{Layer, Order, Parameters, Run, RunBack, Shape, State, aligned, check, check_params};
use crate::device::Device;
use crate::driver::call;
use crate::error::Error;
use crate::launch::Stream;
use cudarc::driver::sys;
use half::{bf16, f16};
use layernorm::Element;
use layernorm_rnn as rnn;
use layernorm_rnn::{Config, Direction, Layout, Network, Params, Runner, Sequences, Training};
use std::sync::Mutex;

/// A layer for one shape of batch, run by the CPU.
#[derive(Debug)]
pub struct HostPlan {
    device: Device,
    layer: Layer,
    shape: Shape,
    config: Config,
    training: bool,
    runner: Mutex<Runner<f32>>,
}

fn refused(error: rnn::Error) -> Error {
    Error::Shape { why: error.to_string() }
}

/// Rows of a tensor on the device, `pitch` elements apart.
#[derive(Clone, Copy)]
struct Pitched {
    address: u64,
    rows: usize,
    width: usize,
    pitch: usize,
}

impl Pitched {
    fn copy<T>(&self, host: *mut T, out: bool) -> Result<(), Error> {
        let (width, pitch) = (self.width * size_of::<T>(), self.pitch * size_of::<T>());
        if self.rows == 1 || width == pitch {
            let bytes = self.rows * width;
            // SAFETY: the caller's promise for the device; the host's side has rows × width elements.
            return unsafe {
                match out {
                    true => call!(cuMemcpyDtoH_v2(host.cast(), self.address, bytes)),
                    false => call!(cuMemcpyHtoD_v2(self.address, host.cast_const().cast(), bytes)),
                }
            };
        }
        // SAFETY: a structure of numbers and null pointers.
        let mut args: sys::CUDA_MEMCPY2D = unsafe { std::mem::zeroed() };
        let (device, memory) = (sys::CUmemorytype::CU_MEMORYTYPE_DEVICE, sys::CUmemorytype::CU_MEMORYTYPE_HOST);
        (args.WidthInBytes, args.Height) = (width, self.rows);
        if out {
            (args.srcMemoryType, args.srcDevice, args.srcPitch) = (device, self.address, pitch);
            (args.dstMemoryType, args.dstHost, args.dstPitch) = (memory, host.cast(), width);
        } else {
            (args.srcMemoryType, args.srcHost, args.srcPitch) = (memory, host.cast_const().cast(), width);
            (args.dstMemoryType, args.dstDevice, args.dstPitch) = (device, self.address, pitch);
        }
        // SAFETY: the caller's promise for the device; the host's side has rows × width elements.
        unsafe { call!(cuMemcpy2DUnaligned_v2(&args)) }
    }

    fn read<T: Element>(&self) -> Result<Vec<T>, Error> {
        let mut to = vec![T::default(); self.rows * self.width];
        self.copy::<T>(to.as_mut_ptr(), true)?;
        Ok(to)
    }

    fn write<T: Element>(&self, from: &[T]) -> Result<(), Error> {
        debug_assert_eq!(from.len(), self.rows * self.width);
        self.copy::<T>(from.as_ptr().cast_mut(), false)
    }
}

/// Elements that lie side by side.
fn flat(address: u64, count: usize) -> Pitched {
    Pitched { address, rows: 1, width: count, pitch: count }
}

/// Numbers of the parameters' type, as f32.
fn read_wide(number: Number, address: u64, count: usize) -> Result<Vec<f32>, Error> {
    fn widened<T: Element<Acc = f32>>(address: u64, count: usize) -> Result<Vec<f32>, Error> {
        Ok(flat(address, count).read::<T>()?.iter().map(|x| x.widen()).collect())
    }
    match number {
        Number::F32 => widened::<f32>(address, count),
        Number::F16 => widened::<f16>(address, count),
        Number::Bf16 => widened::<bf16>(address, count),
    }
}

fn write_narrow(number: Number, address: u64, values: &[f32]) -> Result<(), Error> {
    fn narrowed<T: Element<Acc = f32>>(address: u64, values: &[f32]) -> Result<(), Error> {
        let values: Vec<T> = values.iter().map(|x| T::narrow(*x)).collect();
        flat(address, values.len()).write(&values)
    }
    match number {
        Number::F32 => narrowed::<f32>(address, values),
        Number::F16 => narrowed::<f16>(address, values),
        Number::Bf16 => narrowed::<bf16>(address, values),
    }
}

/// A state on the device: zeros where there is none.
fn read_state(state: &State, h: usize, c: usize) -> Result<rnn::State<f32>, Error> {
    let read = |address, count| if address == 0 { Ok(vec![0.0; count]) } else { flat(address, count).read() };
    Ok(rnn::State { h: read(state.h, h)?, c: read(state.c, c)? })
}

fn write_state(state: &State, from: &rnn::State<f32>) -> Result<(), Error> {
    for (address, values) in [(state.h, &from.h), (state.c, &from.c)] {
        if address != 0 && !values.is_empty() {
            flat(address, values.len()).write(values)?;
        }
    }
    Ok(())
}

/// Waits for copies to the device: they may be on their way when their calls return, and other streams do not wait for them.
fn written() -> Result<(), Error> {
    // SAFETY: the default stream always exists.
    unsafe { call!(cuStreamSynchronize(std::ptr::null_mut())) }
}

impl HostPlan {
    /// A layer for a shape, in training or not.
    pub fn new(device: &Device, layer: Layer, shape: Shape, training: bool) -> Result<HostPlan, Error> {
        check(&layer, &shape)?;
        let direction = if layer.reverse { Direction::Reverse } else { Direction::Forward };
        let config = Config::new(layer.variant, layer.input, layer.hidden).with_direction(direction);
        config.check().map_err(refused)?;
        let runner = Mutex::new(Runner::default());
        Ok(HostPlan { device: device.clone(), layer, shape, config, training, runner })
    }

    /// Bytes that the forward pass leaves for the backward pass; 0 if not in training.
    pub fn tape_bytes(&self) -> usize {
        let (h, c) = self.state_sizes();
        if self.training { 4 * (h + c) } else { 0 }
    }

    /// Numbers of h and of c.
    fn state_sizes(&self) -> (usize, usize) {
        let h = self.shape.batch * self.layer.hidden;
        (h, if self.config.has_cell() { h } else { 0 })
    }

    /// The state before the first step, as the tape has it.
    fn taped(&self, tape: u64) -> State {
        let (h, c) = self.state_sizes();
        State { h: tape, c: if c > 0 { tape + 4 * h as u64 } else { 0 } }
    }

    /// Waits for the stream, so that what it computes is there.
    fn wait(&self, stream: Stream) -> Result<(), Error> {
        self.device.bind()?;
        let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: the caller's stream.
        unsafe {
            call!(cuStreamIsCapturing(stream.0, &mut status))?;
            if status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE {
                let why = format!("the cell `{}` is run by the CPU, which no graph can hold", self.layer.variant.name);
                return Err(Error::Unsupported { why });
            }
            call!(cuStreamSynchronize(stream.0))
        }
    }

    fn network(&self, params: &Parameters) -> Result<Network<f32>, Error> {
        check_params(&self.layer, params)?;
        let mut values = Params::zeros(&self.config).map_err(refused)?;
        let entries = values.entries().to_vec();
        for entry in entries {
            let found = read_wide(self.layer.params, params.get(entry.slot), entry.range.len())?;
            values.values_mut()[entry.range].copy_from_slice(&found);
        }
        Network::from_params(self.config, values).map_err(refused)
    }

    fn lengths(&self, address: u64) -> Result<Option<Vec<usize>>, Error> {
        if self.shape.lengths != (address != 0) {
            let why = format!("the plan's shape says {}", if self.shape.lengths { "there are some" } else { "none" });
            return Err(Error::Operand { what: "lengths", why });
        }
        if address == 0 {
            return Ok(None);
        }
        let mut found = vec![0i32; self.shape.batch];
        // SAFETY: the caller's promise.
        unsafe { call!(cuMemcpyDtoH_v2(found.as_mut_ptr().cast(), address, 4 * found.len()))? };
        // A length below 0 is refused by the engine, as one above T is.
        Ok(Some(found.iter().map(|&length| usize::try_from(length).unwrap_or(usize::MAX)).collect()))
    }

    fn tensor(&self, what: &'static str, address: u64, width: usize, pitch: usize) -> Result<Pitched, Error> {
        if address == 0 || pitch < width {
            let why = format!("expected rows of {width} elements or more, found {pitch} at {address:#x}");
            return Err(Error::Operand { what, why });
        }
        Ok(Pitched { address, rows: self.shape.steps * self.shape.batch, width, pitch })
    }

    fn sequences<'a, T>(&self, data: &'a [T], lengths: Option<&'a [usize]>) -> Sequences<'a, T> {
        let layout = match self.shape.order {
            Order::TimeFirst => Layout::TimeFirst,
            Order::BatchFirst => Layout::BatchFirst,
        };
        Sequences { data, steps: self.shape.steps, batch: self.shape.batch, layout, lengths }
    }

    /// As [`Plan::forward`](super::Plan::forward); the results are there when it returns.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn forward(&self, stream: Stream, run: &Run) -> Result<(), Error> {
        match self.layer.number {
            Number::F32 => self.forward_as::<f32>(stream, run),
            Number::F16 => self.forward_as::<f16>(stream, run),
            Number::Bf16 => self.forward_as::<bf16>(stream, run),
        }
    }

    fn forward_as<T: Element<Acc = f32>>(&self, stream: Stream, run: &Run) -> Result<(), Error> {
        if self.training {
            aligned("tape", run.tape)?;
        }
        self.wait(stream)?;
        let network = self.network(&run.params)?;
        let lengths = self.lengths(run.lengths)?;
        let x = self.tensor("x", run.x, self.layer.input, self.layer.input)?.read::<T>()?;
        let to = self.tensor("y", run.y, self.layer.hidden, run.y_pitch)?;
        // Steps behind a sequence's end stay as they are.
        let mut y = to.read::<T>()?;
        let (h, c) = self.state_sizes();
        let first = read_state(&run.first, h, c)?;
        if self.training {
            write_state(&self.taped(run.tape), &first)?;
        }
        let mut last = network.zero_state(self.shape.batch).map_err(refused)?;
        let sequences = self.sequences(&x, lengths.as_deref());
        let mut runner = self.runner.lock().unwrap_or_else(|held| held.into_inner());
        runner.forward_into(&network, &sequences, Some(&first), &mut y, &mut last).map_err(refused)?;
        to.write(&y)?;
        write_state(&run.last, &last)?;
        written()
    }

    /// As [`Plan::backward`](super::Plan::backward); the results are there when it returns.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn backward(&self, stream: Stream, run: &RunBack) -> Result<(), Error> {
        if !self.training {
            let why = "expected one for training, found one without a tape".into();
            return Err(Error::Operand { what: "plan", why });
        }
        match self.layer.number {
            Number::F32 => self.backward_as::<f32>(stream, run),
            Number::F16 => self.backward_as::<f16>(stream, run),
            Number::Bf16 => self.backward_as::<bf16>(stream, run),
        }
    }

    fn backward_as<T: Element<Acc = f32>>(&self, stream: Stream, run: &RunBack) -> Result<(), Error> {
        aligned("tape", run.tape)?;
        self.wait(stream)?;
        let network = self.network(&run.params)?;
        let lengths = self.lengths(run.lengths)?;
        let x = self.tensor("x", run.x, self.layer.input, self.layer.input)?.read::<T>()?;
        let dy = self.tensor("dy", run.dy, self.layer.hidden, run.dy_pitch)?.read::<T>()?;
        let (h, c) = self.state_sizes();
        let first = read_state(&self.taped(run.tape), h, c)?;
        let dlast = read_state(&run.dlast, h, c)?;
        let sequences = self.sequences(&x, lengths.as_deref());
        let mut runner = self.runner.lock().unwrap_or_else(|held| held.into_inner());
        runner.train(&network, &sequences, Some(&first), Training::default()).map_err(refused)?;
        let found = runner.backward(&network, &dy, Some(&dlast)).map_err(refused)?;
        self.hand_back(run, &found)
    }

    fn hand_back<T: Element<Acc = f32>>(&self, run: &RunBack, found: &rnn::Gradients<T>) -> Result<(), Error> {
        let wanted = &run.gradients;
        if wanted.x != 0 {
            let to = self.tensor("dx", wanted.x, self.layer.input, self.layer.input)?;
            if wanted.add_x {
                let sum = |(a, b): (&T, &T)| T::narrow(a.widen() + b.widen());
                to.write(&to.read::<T>()?.iter().zip(&found.input).map(sum).collect::<Vec<T>>())?;
            } else {
                to.write(&found.input)?;
            }
        }
        for entry in found.params.entries() {
            let address = wanted.params.get(entry.slot);
            if address != 0 {
                write_narrow(self.layer.params, address, &found.params.values()[entry.range.clone()])?;
            }
        }
        write_state(&wanted.first, &found.state)?;
        written()
    }
}
