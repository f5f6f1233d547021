//! Launches on a caller's stream: plain, cooperative (all blocks resident at once) or in clusters. Nothing is
//! allocated, so all of them can be captured in a graph.

use crate::driver::call;
use crate::error::Error;
use crate::module::Function;
use cudarc::driver::sys::{self, CUlaunchAttributeID as Id};
use std::marker::PhantomData;

/// A handle of a stream that lives at least for `'a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream<'a>(pub(crate) sys::CUstream, PhantomData<&'a ()>);

// SAFETY: a handle that the driver accepts from any thread.
unsafe impl Send for Stream<'_> {}
// SAFETY: as above.
unsafe impl Sync for Stream<'_> {}

impl Stream<'_> {
    /// The default stream.
    pub const DEFAULT: Stream<'static> = Stream(std::ptr::null_mut(), PhantomData);

    /// A stream from its handle as an integer, as PyTorch returns it; 0 is the default stream.
    ///
    /// # Safety
    /// The handle must belong to a stream that is not destroyed before `'a` ends.
    pub unsafe fn from_raw<'a>(handle: usize) -> Stream<'a> {
        Stream(handle as sys::CUstream, PhantomData)
    }
}

/// Converts a number of blocks; fails if it exceeds the maximum grid size.
pub(crate) fn grid(blocks: usize) -> Result<u32, Error> {
    let most = i32::MAX as usize;
    if blocks <= most {
        return Ok(blocks as u32);
    }
    Err(Error::Shape { why: format!("the launch needs {blocks} blocks; the maximum is {most}") })
}

/// The configuration of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Grid size in blocks.
    pub grid: (u32, u32, u32),
    /// Threads per block.
    pub threads: u32,
    /// Blocks per cluster along x; 1 for no clusters. Must divide `grid.0`.
    pub cluster: u32,
    /// Whether all blocks must be resident at once, as grid-wide barriers require.
    pub cooperative: bool,
    /// Whether it may start before the previous launch on the stream has ended. The kernel then waits for that launch
    /// itself.
    pub overlapping: bool,
}

impl Launch {
    /// `blocks` blocks of `threads` threads.
    pub fn new(blocks: u32, threads: u32) -> Self {
        Launch { grid: (blocks, 1, 1), threads, cluster: 1, cooperative: false, overlapping: false }
    }

    /// In clusters of `blocks` blocks.
    pub fn cluster(self, blocks: u32) -> Self {
        Launch { cluster: blocks, ..self }
    }

    /// With all blocks resident at once.
    pub fn cooperative(self) -> Self {
        Launch { cooperative: true, ..self }
    }

    /// If `wanted`, allows it to start before the previous launch has ended. Devices with clusters support that.
    pub fn overlapping(self, wanted: bool) -> Self {
        Launch { overlapping: wanted, ..self }
    }

    /// Launches a kernel whose only parameter is the structure `params`.
    ///
    /// # Safety
    /// `P` must have the layout of the kernel's parameter, and its pointers must stay valid until the kernel has run.
    /// The function's device must be current.
    pub unsafe fn run<P: Copy>(&self, function: &Function, stream: Stream, params: &P) -> Result<(), Error> {
        let mut attributes = [attribute(Id::CU_LAUNCH_ATTRIBUTE_IGNORE); 3];
        let mut count = 0;
        let mut add = |one: sys::CUlaunchAttribute| {
            attributes[count] = one;
            count += 1;
        };
        if self.cluster > 1 {
            let mut one = attribute(Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
            one.value.clusterDim = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x: self.cluster, y: 1, z: 1 };
            add(one);
        }
        if self.cooperative {
            let mut one = attribute(Id::CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
            one.value.cooperative = 1;
            add(one);
        }
        if self.overlapping {
            let mut one = attribute(Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
            one.value.programmaticStreamSerializationAllowed = 1;
            add(one);
        }
        let config = sys::CUlaunchConfig {
            gridDimX: self.grid.0,
            gridDimY: self.grid.1,
            gridDimZ: self.grid.2,
            blockDimX: self.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: function.shared as u32,
            hStream: stream.0,
            attrs: attributes.as_mut_ptr(),
            numAttrs: count as u32,
        };
        let mut list = [std::ptr::from_ref(params).cast_mut().cast()];
        // SAFETY: guaranteed by the caller; the driver copies the parameters before it returns.
        unsafe { call!(cuLaunchKernelEx(&config, function.raw, list.as_mut_ptr(), std::ptr::null_mut())) }
    }

    /// How many clusters of this launch the device can hold at once.
    pub fn active_clusters(&self, function: &Function) -> Result<u32, Error> {
        let mut one = attribute(Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
        one.value.clusterDim = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x: self.cluster, y: 1, z: 1 };
        let config = sys::CUlaunchConfig {
            gridDimX: self.grid.0,
            gridDimY: self.grid.1,
            gridDimZ: self.grid.2,
            blockDimX: self.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: function.shared as u32,
            hStream: std::ptr::null_mut(),
            attrs: &mut one,
            numAttrs: 1,
        };
        let mut clusters = 0;
        // SAFETY: the function is loaded.
        unsafe { call!(cuOccupancyMaxActiveClusters(&mut clusters, function.raw, &config))? };
        Ok(clusters as u32)
    }
}

fn attribute(id: Id) -> sys::CUlaunchAttribute {
    sys::CUlaunchAttribute { id, pad: [0; 4], value: sys::CUlaunchAttributeValue { pad: [0; 64] } }
}
