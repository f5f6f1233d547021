//! The slower path for layers that the kernels do not support: the CPU engine, with copies to and from the device.
//!
//! It takes the same calls as a [`Plan`](super::Plan) and returns the CPU's results, for every cell and every size. It
//! waits for the stream and for the copies, so it cannot be captured in a graph. The backward pass recomputes what it
//! needs from x; the tape holds only the state before the first step.

use super::cell::Number;
use super::operands::{Layer, Order, Parameters, Run, RunBack, Shape, State};
use super::plan::{aligned, check, check_params};
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

/// A layer for one batch shape, run on the CPU.
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
    match error {
        rnn::Error::OutOfMemory { bytes } => Error::OutOfMemory { bytes, place: "host" },
        error => Error::Shape { why: error.to_string() },
    }
}

/// A vector of zeros, or an error if there is no memory for it.
fn zeros<T: Copy + Default>(count: usize) -> Result<Vec<T>, Error> {
    let mut found = Vec::new();
    let refused = |_| Error::OutOfMemory { bytes: count.saturating_mul(size_of::<T>()), place: "host" };
    found.try_reserve_exact(count).map_err(refused)?;
    found.resize(count, T::default());
    Ok(found)
}

/// The numbers converted to another type, or an error if there is no memory for them.
fn converted<A: Copy, B>(from: &[A], convert: impl Fn(A) -> B) -> Result<Vec<B>, Error> {
    let mut found = Vec::new();
    let refused = |_| Error::OutOfMemory { bytes: size_of::<B>().saturating_mul(from.len()), place: "host" };
    found.try_reserve_exact(from.len()).map_err(refused)?;
    found.extend(from.iter().map(|&x| convert(x)));
    Ok(found)
}

/// Rows of a tensor on the device, `pitch` elements apart. The code that creates one guarantees that the memory is
/// valid.
#[derive(Clone, Copy)]
struct Pitched {
    address: u64,
    rows: usize,
    width: usize,
    pitch: usize,
}

impl Pitched {
    /// # Safety
    /// `host` must point to rows × width elements; they are only read unless `out`.
    unsafe fn copy<T>(&self, host: *mut T, out: bool) -> Result<(), Error> {
        let (width, pitch) = (self.width * size_of::<T>(), self.pitch * size_of::<T>());
        if self.rows == 1 || width == pitch {
            let bytes = self.rows * width;
            // SAFETY: whoever created `self` guarantees that the device memory is valid; the caller guarantees the host
            // memory.
            return unsafe {
                match out {
                    true => call!(cuMemcpyDtoH_v2(host.cast(), self.address, bytes)),
                    false => call!(cuMemcpyHtoD_v2(self.address, host.cast_const().cast(), bytes)),
                }
            };
        }
        // SAFETY: a structure of integers and pointers, for which all zeros is valid.
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
        // SAFETY: whoever created `self` guarantees that the device memory is valid; the caller guarantees the host
        // memory.
        unsafe { call!(cuMemcpy2DUnaligned_v2(&args)) }
    }

    fn read<T: Element>(&self) -> Result<Vec<T>, Error> {
        let mut to = zeros(self.rows * self.width)?;
        // SAFETY: the vector has rows × width elements.
        unsafe { self.copy::<T>(to.as_mut_ptr(), true)? };
        Ok(to)
    }

    fn write<T: Element>(&self, from: &[T]) -> Result<(), Error> {
        assert_eq!(from.len(), self.rows * self.width, "elements of both sides");
        // SAFETY: the slice has rows × width elements.
        unsafe { self.copy::<T>(from.as_ptr().cast_mut(), false) }
    }
}

/// Contiguous elements.
///
/// # Safety
/// `count` elements at `address` must be valid.
unsafe fn flat(address: u64, count: usize) -> Pitched {
    Pitched { address, rows: 1, width: count, pitch: count }
}

/// Reads numbers of a given type as f32.
fn read_wide(number: Number, from: Pitched) -> Result<Vec<f32>, Error> {
    match number {
        Number::F32 => from.read::<f32>(),
        Number::F16 => converted(&from.read::<f16>()?, f16::widen),
        Number::Bf16 => converted(&from.read::<bf16>()?, bf16::widen),
    }
}

fn write_narrow(number: Number, to: Pitched, values: &[f32]) -> Result<(), Error> {
    match number {
        Number::F32 => to.write(values),
        Number::F16 => to.write(&converted(values, <f16 as Element>::narrow)?),
        Number::Bf16 => to.write(&converted(values, <bf16 as Element>::narrow)?),
    }
}

/// Reads a state from the device; an address of 0 gives zeros.
///
/// # Safety
/// Addresses other than 0 must be valid for that many elements.
unsafe fn read_state(state: &State, h: usize, c: usize) -> Result<rnn::State<f32>, Error> {
    // SAFETY: guaranteed by the caller.
    let read = |address, count| if address == 0 { zeros(count) } else { unsafe { flat(address, count) }.read() };
    Ok(rnn::State { h: read(state.h, h)?, c: read(state.c, c)? })
}

/// # Safety
/// As for [`read_state`].
unsafe fn write_state(state: &State, from: &rnn::State<f32>) -> Result<(), Error> {
    for (address, values) in [(state.h, &from.h), (state.c, &from.c)] {
        if address != 0 && !values.is_empty() {
            // SAFETY: guaranteed by the caller.
            unsafe { flat(address, values.len()) }.write(values)?;
        }
    }
    Ok(())
}

/// Waits for copies to the device: they may still be in flight when the call returns, and other streams do not wait for
/// them.
fn written() -> Result<(), Error> {
    // SAFETY: the default stream always exists.
    unsafe { call!(cuStreamSynchronize(std::ptr::null_mut())) }
}

impl HostPlan {
    /// Creates a plan for a layer and a batch shape, for training or inference.
    pub fn new(device: &Device, layer: Layer, shape: Shape, training: bool) -> Result<HostPlan, Error> {
        check(&layer, &shape)?;
        let direction = if layer.reverse { Direction::Reverse } else { Direction::Forward };
        let config = Config::new(layer.variant, layer.input, layer.hidden).with_direction(direction);
        config.check().map_err(refused)?;
        let runner = Mutex::new(Runner::default());
        Ok(HostPlan { device: device.clone(), layer, shape, config, training, runner })
    }

    /// Bytes that the forward pass stores for the backward pass; 0 for inference.
    pub fn tape_bytes(&self) -> usize {
        let (h, c) = self.state_sizes();
        if self.training { 4 * (h + c) } else { 0 }
    }

    /// Number of elements of h and of c.
    fn state_sizes(&self) -> (usize, usize) {
        let h = self.shape.batch * self.layer.hidden;
        (h, if self.config.has_cell() { h } else { 0 })
    }

    /// The state before the first step, as stored on the tape.
    fn taped(&self, tape: u64) -> State {
        let (h, c) = self.state_sizes();
        State { h: tape, c: if c > 0 { tape + 4 * h as u64 } else { 0 } }
    }

    /// Waits for the stream, so that its results are available. Fails if the stream is being captured.
    fn wait(&self, stream: Stream) -> Result<(), Error> {
        self.device.bind()?;
        let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: the caller's stream exists.
        unsafe {
            call!(cuStreamIsCapturing(stream.0, &mut status))?;
            if status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE {
                let why = format!(
                    "the cell `{}` runs on the CPU, which cannot be captured in a graph",
                    self.layer.variant.name
                );
                return Err(Error::Unsupported { why });
            }
            call!(cuStreamSynchronize(stream.0))
        }
    }

    /// # Safety
    /// The parameters' addresses must be valid.
    unsafe fn network(&self, params: &Parameters) -> Result<Network<f32>, Error> {
        check_params(&self.layer, params)?;
        let mut values = Params::zeros(&self.config).map_err(refused)?;
        let entries = values.entries().to_vec();
        for entry in entries {
            // SAFETY: guaranteed by the caller.
            let found = read_wide(self.layer.params, unsafe { flat(params.get(entry.slot), entry.range.len()) })?;
            values.values_mut()[entry.range].copy_from_slice(&found);
        }
        Network::from_params(self.config, values).map_err(refused)
    }

    /// # Safety
    /// If not 0, the address must be valid for B lengths.
    unsafe fn lengths(&self, address: u64) -> Result<Option<Vec<usize>>, Error> {
        if self.shape.lengths != (address != 0) {
            let why = format!("the plan's shape has {}", if self.shape.lengths { "lengths" } else { "no lengths" });
            return Err(Error::Operand { what: "lengths", why });
        }
        if address == 0 {
            return Ok(None);
        }
        let mut found = zeros::<i32>(self.shape.batch)?;
        // SAFETY: guaranteed by the caller.
        unsafe { call!(cuMemcpyDtoH_v2(found.as_mut_ptr().cast(), address, 4 * found.len()))? };
        // The engine rejects negative lengths, just as it rejects lengths above T.
        converted(&found, |length| usize::try_from(length).unwrap_or(usize::MAX)).map(Some)
    }

    /// # Safety
    /// Rows of this width and pitch must exist for all steps of all sequences.
    unsafe fn tensor(&self, what: &'static str, address: u64, width: usize, pitch: usize) -> Result<Pitched, Error> {
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

    /// Like [`Plan::forward`](super::Plan::forward), but the results are complete when it returns.
    ///
    /// # Safety
    /// As for [`Plan::forward`](super::Plan::forward).
    pub unsafe fn forward(&self, stream: Stream, run: &Run) -> Result<(), Error> {
        // SAFETY: guaranteed by the caller.
        unsafe {
            match self.layer.number {
                Number::F32 => self.forward_as::<f32>(stream, run),
                Number::F16 => self.forward_as::<f16>(stream, run),
                Number::Bf16 => self.forward_as::<bf16>(stream, run),
            }
        }
    }

    /// # Safety
    /// As for [`HostPlan::forward`].
    unsafe fn forward_as<T: Element<Acc = f32>>(&self, stream: Stream, run: &Run) -> Result<(), Error> {
        if self.training {
            aligned("tape", run.tape)?;
        }
        self.wait(stream)?;
        // SAFETY: guaranteed by the caller.
        let (network, lengths, x, to) = unsafe {
            (
                self.network(&run.params)?,
                self.lengths(run.lengths)?,
                self.tensor("x", run.x, self.layer.input, self.layer.input)?.read::<T>()?,
                self.tensor("y", run.y, self.layer.hidden, run.y_pitch)?,
            )
        };
        // Steps past the end of a sequence must stay unchanged.
        let mut y = to.read::<T>()?;
        let (h, c) = self.state_sizes();
        // SAFETY: guaranteed by the caller.
        let first = unsafe { read_state(&run.first, h, c)? };
        if self.training {
            // SAFETY: the caller guarantees that the tape has room for a state.
            unsafe { write_state(&self.taped(run.tape), &first)? };
        }
        let mut last = network.zero_state(self.shape.batch).map_err(refused)?;
        let sequences = self.sequences(&x, lengths.as_deref());
        let mut runner = self.runner.lock().unwrap_or_else(|held| held.into_inner());
        runner.forward_into(&network, &sequences, Some(&first), &mut y, &mut last).map_err(refused)?;
        to.write(&y)?;
        // SAFETY: guaranteed by the caller.
        unsafe { write_state(&run.last, &last)? };
        written()
    }

    /// Like [`Plan::backward`](super::Plan::backward), but the results are complete when it returns.
    ///
    /// # Safety
    /// As for [`Plan::backward`](super::Plan::backward).
    pub unsafe fn backward(&self, stream: Stream, run: &RunBack) -> Result<(), Error> {
        if !self.training {
            let why = "expected one for training, found one without a tape".into();
            return Err(Error::Operand { what: "plan", why });
        }
        // SAFETY: guaranteed by the caller.
        unsafe {
            match self.layer.number {
                Number::F32 => self.backward_as::<f32>(stream, run),
                Number::F16 => self.backward_as::<f16>(stream, run),
                Number::Bf16 => self.backward_as::<bf16>(stream, run),
            }
        }
    }

    /// # Safety
    /// As for [`HostPlan::backward`].
    unsafe fn backward_as<T: Element<Acc = f32>>(&self, stream: Stream, run: &RunBack) -> Result<(), Error> {
        aligned("tape", run.tape)?;
        self.wait(stream)?;
        let (h, c) = self.state_sizes();
        // SAFETY: guaranteed by the caller.
        let (network, lengths, x, dy, first, dlast) = unsafe {
            (
                self.network(&run.params)?,
                self.lengths(run.lengths)?,
                self.tensor("x", run.x, self.layer.input, self.layer.input)?.read::<T>()?,
                self.tensor("dy", run.dy, self.layer.hidden, run.dy_pitch)?.read::<T>()?,
                read_state(&self.taped(run.tape), h, c)?,
                read_state(&run.dlast, h, c)?,
            )
        };
        let sequences = self.sequences(&x, lengths.as_deref());
        let mut runner = self.runner.lock().unwrap_or_else(|held| held.into_inner());
        runner.train(&network, &sequences, Some(&first), Training::default()).map_err(refused)?;
        let found = runner.backward(&network, &dy, Some(&dlast)).map_err(refused)?;
        // SAFETY: guaranteed by the caller.
        unsafe { self.hand_back(run, &found) }
    }

    /// # Safety
    /// As for [`HostPlan::backward`].
    unsafe fn hand_back<T: Element<Acc = f32>>(&self, run: &RunBack, found: &rnn::Gradients<T>) -> Result<(), Error> {
        let wanted = &run.gradients;
        if wanted.x != 0 {
            // SAFETY: guaranteed by the caller.
            let to = unsafe { self.tensor("dx", wanted.x, self.layer.input, self.layer.input)? };
            if wanted.add_x {
                let mut sum = to.read::<T>()?;
                sum.iter_mut().zip(&found.input).for_each(|(a, b)| *a = T::narrow(a.widen() + b.widen()));
                to.write(&sum)?;
            } else {
                to.write(&found.input)?;
            }
        }
        for entry in found.params.entries() {
            let address = wanted.params.get(entry.slot);
            if address != 0 {
                let values = &found.params.values()[entry.range.clone()];
                // SAFETY: guaranteed by the caller.
                write_narrow(self.layer.params, unsafe { flat(address, values.len()) }, values)?;
            }
        }
        // SAFETY: guaranteed by the caller.
        unsafe { write_state(&wanted.first, &found.state)? };
        written()
    }
}
