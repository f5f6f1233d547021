//! Device memory, streams, events and graphs, for tests, benchmarks and callers without a framework.

use crate::device::Device;
use crate::driver::call;
use crate::error::Error;
use crate::launch::Stream;
use cudarc::driver::sys;
use half::{bf16, f16};
use std::marker::PhantomData;

/// A number type for which every bit pattern is valid, without padding.
///
/// # Safety
/// Every bit pattern must be a valid value, and the type must have no padding.
pub unsafe trait Plain: Copy + Send + Sync + 'static {}

macro_rules! plain {
    ($($number:ty)*) => {
        $(
            // SAFETY: a primitive number, or a wrapper around 16 bits; every bit pattern is valid.
            unsafe impl Plain for $number {}
        )*
    };
}
plain!(u8 u16 u32 u64 i8 i16 i32 i64 usize f16 bf16 f32 f64);

/// Device memory for numbers.
#[derive(Debug)]
pub struct Buffer<T> {
    device: Device,
    address: u64,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Plain> Buffer<T> {
    /// Allocates room for `len` elements; the contents are uninitialized.
    pub fn new(device: &Device, len: usize) -> Result<Self, Error> {
        let refused = |bytes| Error::OutOfMemory { bytes, place: "device" };
        let bytes = len.checked_mul(size_of::<T>()).ok_or(refused(usize::MAX))?;
        device.bind()?;
        let mut address = 0;
        // SAFETY: the context is current. `max(1)` because the driver rejects 0 bytes.
        match unsafe { call!(cuMemAlloc_v2(&mut address, bytes.max(1))) } {
            Err(error) if error.is_out_of_memory() => Err(refused(bytes)),
            result => result.map(|()| Buffer { device: device.clone(), address, len, element: PhantomData }),
        }
    }

    /// The address of `count` elements from index `at` on, if they lie within the buffer.
    fn part(&self, at: usize, count: usize) -> Result<u64, Error> {
        if at.checked_add(count).is_none_or(|end| end > self.len) {
            let why = format!("{count} elements from index {at} on exceed a buffer of {}", self.len);
            return Err(Error::Operand { what: "buffer", why });
        }
        Ok(self.at(at))
    }

    /// Allocates a buffer and copies the elements into it.
    pub fn from_slice(device: &Device, from: &[T]) -> Result<Self, Error> {
        let mut buffer = Buffer::new(device, from.len())?;
        buffer.write(0, from)?;
        Ok(buffer)
    }

    /// Copies elements to index `at` and waits for the copy.
    pub fn write(&mut self, at: usize, from: &[T]) -> Result<(), Error> {
        let to = self.part(at, from.len())?;
        self.device.bind()?;
        // The copy may still be in flight when the call returns, and other streams do not wait for it.
        // SAFETY: source and destination have that many bytes.
        unsafe {
            call!(cuMemcpyHtoD_v2(to, from.as_ptr().cast(), size_of_val(from)))?;
            call!(cuStreamSynchronize(std::ptr::null_mut()))
        }
    }

    /// Copies elements from index `at` to the host, after waiting for all work on the GPU.
    pub fn read(&self, at: usize, to: &mut [T]) -> Result<(), Error> {
        let from = self.part(at, to.len())?;
        self.device.synchronize()?;
        // SAFETY: source and destination have that many bytes, and any bytes are a valid `T`.
        unsafe { call!(cuMemcpyDtoH_v2(to.as_mut_ptr().cast(), from, size_of_val(to))) }
    }

    /// Sets every byte.
    pub fn fill_bytes(&mut self, byte: u8, stream: Stream) -> Result<(), Error> {
        self.device.bind()?;
        // SAFETY: the memory has that many bytes.
        unsafe { call!(cuMemsetD8Async(self.address, byte, self.len * size_of::<T>(), stream.0)) }
    }

    /// Copies the first `len` elements of another buffer, on a stream.
    pub fn copy_from(&self, from: &Buffer<T>, len: usize, stream: Stream) -> Result<(), Error> {
        let (to, from) = (self.part(0, len)?, from.part(0, len)?);
        self.device.bind()?;
        // SAFETY: both buffers have at least `len` elements; memory is freed only after the GPU has finished with it.
        unsafe { call!(cuMemcpyDtoDAsync_v2(to, from, len * size_of::<T>(), stream.0)) }
    }

    /// The address of element `at`. Not checked against the length: an address past the end must not be used.
    pub fn at(&self, at: usize) -> u64 {
        self.address.wrapping_add((at as u64).wrapping_mul(size_of::<T>() as u64))
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the buffer is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        let _ = self.device.bind();
        // SAFETY: we own the memory, and it is not used again; the driver waits for work that uses it.
        let _ = unsafe { call!(cuMemFree_v2(self.address)) };
    }
}

/// A stream owned by this value.
#[derive(Debug)]
pub struct OwnedStream {
    device: Device,
    raw: sys::CUstream,
}

// SAFETY: a handle that the driver accepts from any thread.
unsafe impl Send for OwnedStream {}
// SAFETY: as above.
unsafe impl Sync for OwnedStream {}

impl OwnedStream {
    /// Creates a stream that does not synchronize with the default stream.
    pub fn new(device: &Device) -> Result<Self, Error> {
        device.bind()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the context is current.
        unsafe { call!(cuStreamCreate(&mut raw, sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32))? };
        Ok(OwnedStream { device: device.clone(), raw })
    }

    /// The stream's handle, valid as long as it is borrowed.
    pub fn stream(&self) -> Stream<'_> {
        // SAFETY: the stream is not destroyed while it is borrowed.
        unsafe { Stream::from_raw(self.raw as usize) }
    }

    /// Waits for all work on the stream, then calls [`Device::check`].
    pub fn synchronize(&self) -> Result<(), Error> {
        self.device.bind()?;
        // SAFETY: the stream exists.
        unsafe { call!(cuStreamSynchronize(self.raw))? };
        self.device.check()
    }

    /// Captures the work that `work` puts on the stream as a graph that can be replayed.
    pub fn capture(&self, work: impl FnOnce(Stream) -> Result<(), Error>) -> Result<Graph, Error> {
        self.device.bind()?;
        let (mut graph, mut exec) = (std::ptr::null_mut(), std::ptr::null_mut());
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream exists; the capture is ended whatever the result of `work` is.
        unsafe {
            call!(cuStreamBeginCapture_v2(self.raw, mode))?;
            let done = work(self.stream());
            let ended = call!(cuStreamEndCapture(self.raw, &mut graph));
            let made = done.and(ended).and_then(|()| call!(cuGraphInstantiateWithFlags(&mut exec, graph, 0)));
            if !graph.is_null() {
                let _ = call!(cuGraphDestroy(graph));
            }
            made?;
        }
        Ok(Graph { device: self.device.clone(), exec })
    }
}

impl Drop for OwnedStream {
    fn drop(&mut self) {
        let _ = self.device.bind();
        // SAFETY: we own the stream, and it is not used again.
        let _ = unsafe { call!(cuStreamDestroy_v2(self.raw)) };
    }
}

/// A captured graph.
#[derive(Debug)]
pub struct Graph {
    device: Device,
    exec: sys::CUgraphExec,
}

impl Graph {
    /// Replays the graph on a stream.
    ///
    /// # Safety
    /// The memory that the captured work reads and writes must still exist, and stay valid until the stream has
    /// finished.
    pub unsafe fn launch(&self, stream: Stream) -> Result<(), Error> {
        self.device.bind()?;
        // SAFETY: the graph exists; the caller guarantees the rest.
        unsafe { call!(cuGraphLaunch(self.exec, stream.0)) }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let _ = self.device.bind();
        // SAFETY: we own the graph, and it is not used again.
        let _ = unsafe { call!(cuGraphExecDestroy(self.exec)) };
    }
}

/// A point in a stream, for timing.
#[derive(Debug)]
pub struct Event {
    device: Device,
    raw: sys::CUevent,
}

impl Event {
    /// Creates an event that is not yet recorded.
    pub fn new(device: &Device) -> Result<Self, Error> {
        device.bind()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the context is current.
        unsafe { call!(cuEventCreate(&mut raw, 0))? };
        Ok(Event { device: device.clone(), raw })
    }

    /// Records the event on a stream.
    pub fn record(&self, stream: Stream) -> Result<(), Error> {
        self.device.bind()?;
        // SAFETY: the event and the stream exist.
        unsafe { call!(cuEventRecord(self.raw, stream.0)) }
    }

    /// Waits for the event and returns the seconds since an earlier one.
    pub fn seconds_since(&self, start: &Event) -> Result<f64, Error> {
        let mut milliseconds = 0.0f32;
        // SAFETY: both events exist. The driver reports an error if one was not recorded.
        unsafe {
            call!(cuEventSynchronize(self.raw))?;
            call!(cuEventElapsedTime_v2(&mut milliseconds, start.raw, self.raw))?;
        }
        Ok(f64::from(milliseconds) / 1e3)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let _ = self.device.bind();
        // SAFETY: we own the event, and it is not used again.
        let _ = unsafe { call!(cuEventDestroy_v2(self.raw)) };
    }
}
