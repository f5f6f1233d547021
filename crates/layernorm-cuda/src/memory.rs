//! Device memory, streams, events and graphs for tests, benchmarks and callers without a framework of their own.

use crate::device::Device;
use crate::driver::call;
use crate::error::Error;
use crate::launch::Stream;
use cudarc::driver::sys;
use half::{bf16, f16};
use std::marker::PhantomData;

/// A number of which every pattern of bits is one, and which has no padding.
///
/// # Safety
/// That is so.
pub unsafe trait Plain: Copy + Send + Sync + 'static {}

macro_rules! plain {
    ($($number:ty)*) => {
        $(
            // SAFETY: a number of the machine's, or of 16 bits of one.
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
    /// Room for so many elements; what is in it is anything.
    pub fn new(device: &Device, len: usize) -> Result<Self, Error> {
        let refused = |bytes| Error::OutOfMemory { bytes, place: "device" };
        let bytes = len.checked_mul(size_of::<T>()).ok_or(refused(usize::MAX))?;
        device.bind()?;
        let mut address = 0;
        // SAFETY: the context is current. The driver refuses 0 bytes.
        match unsafe { call!(cuMemAlloc_v2(&mut address, bytes.max(1))) } {
            Err(error) if error.is_out_of_memory() => Err(refused(bytes)),
            result => result.map(|()| Buffer { device: device.clone(), address, len, element: PhantomData }),
        }
    }

    /// The address of `count` elements from place `at` on, if there are so many.
    fn part(&self, at: usize, count: usize) -> Result<u64, Error> {
        if at.checked_add(count).is_none_or(|end| end > self.len) {
            let why = format!("{count} elements at {at} of a buffer of {}", self.len);
            return Err(Error::Operand { what: "buffer", why });
        }
        Ok(self.at(at))
    }

    /// A copy of the caller's elements.
    pub fn from_slice(device: &Device, from: &[T]) -> Result<Self, Error> {
        let mut buffer = Buffer::new(device, from.len())?;
        buffer.write(0, from)?;
        Ok(buffer)
    }

    /// Copies elements to place `at` and waits.
    pub fn write(&mut self, at: usize, from: &[T]) -> Result<(), Error> {
        let to = self.part(at, from.len())?;
        self.device.bind()?;
        // The copy may be on its way when its call returns, and other streams do not wait for it.
        // SAFETY: both sides have so many bytes.
        unsafe {
            call!(cuMemcpyHtoD_v2(to, from.as_ptr().cast(), size_of_val(from)))?;
            call!(cuStreamSynchronize(std::ptr::null_mut()))
        }
    }

    /// Copies elements from place `at` to the host, after all that was asked of the GPU.
    pub fn read(&self, at: usize, to: &mut [T]) -> Result<(), Error> {
        let from = self.part(at, to.len())?;
        self.device.synchronize()?;
        // SAFETY: both sides have so many bytes, and any bytes are a `T`.
        unsafe { call!(cuMemcpyDtoH_v2(to.as_mut_ptr().cast(), from, size_of_val(to))) }
    }

    /// Fills every byte.
    pub fn fill_bytes(&mut self, byte: u8, stream: Stream) -> Result<(), Error> {
        self.device.bind()?;
        // SAFETY: the memory has so many bytes.
        unsafe { call!(cuMemsetD8Async(self.address, byte, self.len * size_of::<T>(), stream.0)) }
    }

    /// Copies so many elements from another buffer, on a stream.
    pub fn copy_from(&self, from: &Buffer<T>, len: usize, stream: Stream) -> Result<(), Error> {
        let (to, from) = (self.part(0, len)?, from.part(0, len)?);
        self.device.bind()?;
        // SAFETY: both have so many elements; memory is freed only when the GPU has done what was asked of it.
        unsafe { call!(cuMemcpyDtoDAsync_v2(to, from, len * size_of::<T>(), stream.0)) }
    }

    /// The address of element `at`: no use for one that is not there.
    pub fn at(&self, at: usize) -> u64 {
        self.address.wrapping_add((at as u64).wrapping_mul(size_of::<T>() as u64))
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        let _ = self.device.bind();
        // SAFETY: the memory is ours and not used again; the driver waits for work on it.
        let _ = unsafe { call!(cuMemFree_v2(self.address)) };
    }
}

/// A stream of one's own.
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
    /// A stream that does not wait for the default one.
    pub fn new(device: &Device) -> Result<Self, Error> {
        device.bind()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the context is current.
        unsafe { call!(cuStreamCreate(&mut raw, sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32))? };
        Ok(OwnedStream { device: device.clone(), raw })
    }

    /// Its handle, for as long as it lives.
    pub fn stream(&self) -> Stream<'_> {
        // SAFETY: the stream is not destroyed while it is borrowed.
        unsafe { Stream::from_raw(self.raw as usize) }
    }

    /// Waits for all that was put on it, then asks as [`Device::check`] does.
    pub fn synchronize(&self) -> Result<(), Error> {
        self.device.bind()?;
        // SAFETY: the stream exists.
        unsafe { call!(cuStreamSynchronize(self.raw))? };
        self.device.check()
    }

    /// What `work` puts on the stream, captured to be replayed.
    pub fn capture(&self, work: impl FnOnce(Stream) -> Result<(), Error>) -> Result<Graph, Error> {
        self.device.bind()?;
        let (mut graph, mut exec) = (std::ptr::null_mut(), std::ptr::null_mut());
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream exists; the capture is ended whatever the work does.
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
        // SAFETY: the stream is ours and not used again.
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
    /// Replays it on a stream.
    ///
    /// # Safety
    /// The memory that the captured work reads and writes is still there, and stays until the stream has done it.
    pub unsafe fn launch(&self, stream: Stream) -> Result<(), Error> {
        self.device.bind()?;
        // SAFETY: the graph exists; the rest is the caller's promise.
        unsafe { call!(cuGraphLaunch(self.exec, stream.0)) }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let _ = self.device.bind();
        // SAFETY: the graph is ours and not used again.
        let _ = unsafe { call!(cuGraphExecDestroy(self.exec)) };
    }
}

/// A point in a stream whose time is taken.
#[derive(Debug)]
pub struct Event {
    device: Device,
    raw: sys::CUevent,
}

impl Event {
    /// Not yet in any stream.
    pub fn new(device: &Device) -> Result<Self, Error> {
        device.bind()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the context is current.
        unsafe { call!(cuEventCreate(&mut raw, 0))? };
        Ok(Event { device: device.clone(), raw })
    }

    /// Puts it on a stream.
    pub fn record(&self, stream: Stream) -> Result<(), Error> {
        self.device.bind()?;
        // SAFETY: event and stream exist.
        unsafe { call!(cuEventRecord(self.raw, stream.0)) }
    }

    /// Waits for it, and gives the seconds since an earlier one.
    pub fn seconds_since(&self, start: &Event) -> Result<f64, Error> {
        let mut milliseconds = 0.0f32;
        // SAFETY: both events exist and were recorded.
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
        // SAFETY: the event is ours and not used again.
        let _ = unsafe { call!(cuEventDestroy_v2(self.raw)) };
    }
}
