//! Launches on a caller's stream: plain, cooperative (all blocks at once) or in clusters. Nothing is allocated, so all of
//! them can be captured in a graph.

use crate::driver::call;
use crate::error::Error;
use crate::module::Function;
use cudarc::driver::sys::{self, CUlaunchAttributeID as Id};
use std::marker::PhantomData;

/// A stream that exists for as long as `'a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream<'a>(pub(crate) sys::CUstream, PhantomData<&'a ()>);

// SAFETY: a handle that the driver accepts from any thread.
unsafe impl Send for Stream<'_> {}
// SAFETY: as above.
unsafe impl Sync for Stream<'_> {}

impl Stream<'_> {
    /// The default stream.
    pub const DEFAULT: Stream<'static> = Stream(std::ptr::null_mut(), PhantomData);

    /// A stream from its handle as a number, as PyTorch gives it; 0 is the default stream.
    ///
    /// # Safety
    /// The handle is that of a stream that is not destroyed before `'a` ends.
    pub unsafe fn from_raw<'a>(handle: usize) -> Stream<'a> {
        Stream(handle as sys::CUstream, PhantomData)
    }
}

/// So many blocks, if a grid has them.
pub(crate) fn grid(blocks: usize) -> Result<u32, Error> {
    let most = i32::MAX as usize;
    if blocks <= most {
        return Ok(blocks as u32);
    }
    Err(Error::Shape { why: format!("a launch of {blocks} blocks is needed, and {most} are the most") })
}

/// The geometry of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Blocks.
    pub grid: (u32, u32, u32),
    /// Threads of a block.
    pub threads: u32,
    /// Blocks of a cluster along x; 1 for no clusters. Divides `grid.0`.
    pub cluster: u32,
    /// Whether all blocks must run at once, as barriers of the whole grid need.
    pub cooperative: bool,
    /// Whether it may start before the launch before it on the stream has ended. Its kernel then waits itself.
    pub overlapping: bool,
}

impl Launch {
    /// So many blocks of so many threads.
    pub fn new(blocks: u32, threads: u32) -> Self {
        Launch { grid: (blocks, 1, 1), threads, cluster: 1, cooperative: false, overlapping: false }
    }

    /// In clusters of so many blocks.
    pub fn cluster(self, blocks: u32) -> Self {
        Launch { cluster: blocks, ..self }
    }

    /// All blocks at once.
    pub fn cooperative(self) -> Self {
        Launch { cooperative: true, ..self }
    }

    /// If `wanted`, before the launch before it has ended: for devices with clusters, which can do that.
    pub fn overlapping(self, wanted: bool) -> Self {
        Launch { overlapping: wanted, ..self }
    }

    /// Launches a kernel whose one parameter is the structure `params`.
    ///
    /// # Safety
    /// `P` has the layout of the kernel's parameter, and what its pointers point to is valid until the kernel has run. The
    /// device of the function is current.
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
        // SAFETY: the caller's promise; the driver copies the parameters before it returns.
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
