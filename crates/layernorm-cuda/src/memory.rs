//! Device memory, streams, events and graphs for tests, benchmarks and callers without a framework of their own.

use crate::device::Device;
use crate::driver::call;
use crate::error::Error;
use crate::launch::Stream;
use cudarc::driver::sys;
use std::marker::PhantomData;

/// Device memory for elements of a plain type.
#[derive(Debug)]
pub struct Buffer<T> {
    device: Device,
    address: u64,
    len: usize,
    element: PhantomData<T>,
}

// SAFETY: device memory may be used from any thread.
unsafe impl<T: Send> Send for Buffer<T> {}
// SAFETY: as above; writes need `&mut` or go through the GPU's own order.
unsafe impl<T: Sync> Sync for Buffer<T> {}

impl<T: Copy> Buffer<T> {
    /// Room for so many elements; what is in it is undefined.
    pub fn new(device: &Device, len: usize) -> Result<Self, Error> {
        device.bind()?;
        let mut address = 0;
        // SAFETY: the context is current. The driver refuses 0 bytes.
        unsafe { call!(cuMemAlloc_v2(&mut address, (len * size_of::<T>()).max(1)))? };
        Ok(Buffer { device: device.clone(), address, len, element: PhantomData })
    }

    /// A copy of the caller's elements.
    pub fn from_slice(device: &Device, from: &[T]) -> Result<Self, Error> {
        let mut buffer = Buffer::new(device, from.len())?;
        buffer.write(0, from)?;
        Ok(buffer)
    }

    /// Copies elements to place `at` and waits.
    pub fn write(&mut self, at: usize, from: &[T]) -> Result<(), Error> {
        assert!(at + from.len() <= self.len, "{} elements at {at} of a buffer of {}", from.len(), self.len);
        self.device.bind()?;
        let to = self.address + (at * size_of::<T>()) as u64;
        // The copy may be on its way when its call returns, and other streams do not wait for it.
        // SAFETY: both sides have so many bytes.
        unsafe {
            call!(cuMemcpyHtoD_v2(to, from.as_ptr().cast(), size_of_val(from)))?;
            call!(cuStreamSynchronize(std::ptr::null_mut()))
        }
    }

    /// Copies elements from place `at` to the host, after all that was asked of the GPU.
    pub fn read(&self, at: usize, to: &mut [T]) -> Result<(), Error> {
        assert!(at + to.len() <= self.len, "{} elements at {at} of a buffer of {}", to.len(), self.len);
        self.device.synchronize()?;
        let from = self.address + (at * size_of::<T>()) as u64;
        // SAFETY: both sides have so many bytes.
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
        assert!(len <= self.len && len <= from.len, "{len} elements from {} to {}", from.len, self.len);
        self.device.bind()?;
        // SAFETY: both have so many elements.
        unsafe { call!(cuMemcpyDtoDAsync_v2(self.address, from.address, len * size_of::<T>(), stream.0)) }
    }

    /// The address of element `at`.
    pub fn at(&self, at: usize) -> u64 {
        self.address + (at * size_of::<T>()) as u64
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
        // SAFETY: the memory is ours and not used again.
        let _ = unsafe { call!(cuMemFree_v2(self.address)) };
    }
}

/// A stream of one's own.
#[derive(Debug)]
pub struct OwnedStream {
    device: Device,
    /// Its handle.
    pub stream: Stream,
}

impl OwnedStream {
    /// A stream that does not wait for the default one.
    pub fn new(device: &Device) -> Result<Self, Error> {
        device.bind()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the context is current.
        unsafe { call!(cuStreamCreate(&mut raw, sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32))? };
        Ok(OwnedStream { device: device.clone(), stream: Stream(raw) })
    }

    /// Waits for all that was put on it.
    pub fn synchronize(&self) -> Result<(), Error> {
        // SAFETY: the stream exists.
        unsafe { call!(cuStreamSynchronize(self.stream.0)) }
    }

    /// What `work` puts on the stream, captured to be replayed.
    pub fn capture(&self, work: impl FnOnce(Stream) -> Result<(), Error>) -> Result<Graph, Error> {
        self.device.bind()?;
        let (mut graph, mut exec) = (std::ptr::null_mut(), std::ptr::null_mut());
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream exists; the capture is ended whatever the work does.
        unsafe {
            call!(cuStreamBeginCapture_v2(self.stream.0, mode))?;
            let done = work(self.stream);
            call!(cuStreamEndCapture(self.stream.0, &mut graph))?;
            done?;
            let made = call!(cuGraphInstantiateWithFlags(&mut exec, graph, 0));
            let _ = call!(cuGraphDestroy(graph));
            made?;
        }
        Ok(Graph { device: self.device.clone(), exec })
    }
}

impl Drop for OwnedStream {
    fn drop(&mut self) {
        let _ = self.device.bind();
        // SAFETY: the stream is ours and not used again.
        let _ = unsafe { call!(cuStreamDestroy_v2(self.stream.0)) };
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
    pub fn launch(&self, stream: Stream) -> Result<(), Error> {
        self.device.bind()?;
        // SAFETY: the graph exists.
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
