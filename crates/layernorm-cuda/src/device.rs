//! A GPU: its primary context (the one that PyTorch and CUDA's runtime use), what it has, and the kernels loaded on it.

use crate::cache::Cache;
use crate::driver::{self, call};
use crate::error::Error;
use crate::module::{Function, Modules, Variant};
use crate::nvrtc::Arch;
use crate::report::Report;
use cudarc::driver::sys::{self, CUdevice_attribute as Attribute};
use std::sync::{Arc, OnceLock};

/// What a GPU has.
#[derive(Clone, Debug, PartialEq)]
pub struct Properties {
    /// Its name.
    pub name: String,
    /// Compute capability as one number: 90 for 9.0.
    pub capability: u32,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Shared memory that one block may have, in bytes.
    pub shared_per_block: usize,
    /// Shared memory of a multiprocessor, in bytes.
    pub shared_per_multiprocessor: usize,
    /// Threads that a multiprocessor holds.
    pub threads_per_multiprocessor: u32,
    /// Bytes of L2.
    pub l2: usize,
    /// Whether blocks can be launched in clusters.
    pub clusters: bool,
    /// Whether all blocks of a launch can be made to run at once.
    pub cooperative: bool,
}

#[derive(Debug)]
pub(crate) struct Inner {
    ordinal: usize,
    context: sys::CUcontext,
    properties: Properties,
    modules: Modules,
    report: OnceLock<Report>,
}

// SAFETY: CUDA's contexts may be used from any thread; the modules are behind a lock.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// A GPU. Clones share it. Its context and the kernels loaded in it stay for the life of the process: handles of them, and graphs
/// that were captured, may outlive every `Device`.
#[derive(Clone, Debug)]
pub struct Device(Arc<Inner>);

impl Device {
    /// How many GPUs the driver shows.
    pub fn count() -> Result<usize, Error> {
        driver::open()?;
        let mut count = 0;
        // SAFETY: the driver is there.
        unsafe { call!(cuDeviceGetCount(&mut count))? };
        Ok(count as usize)
    }

    /// The GPU of this number, with the user's folder for compiled kernels.
    pub fn open(ordinal: usize) -> Result<Self, Error> {
        Device::with_cache(ordinal, Cache::from_environment())
    }

    /// [`Device::open`] with this folder for compiled kernels.
    pub fn with_cache(ordinal: usize, cache: Cache) -> Result<Self, Error> {
        let count = Device::count()?;
        if ordinal >= count {
            return Err(Error::NoDevice { ordinal, count });
        }
        let (mut device, mut context) = (0, std::ptr::null_mut());
        // SAFETY: the driver is there, and so is the device.
        unsafe {
            call!(cuDeviceGet(&mut device, ordinal as i32))?;
            call!(cuDevicePrimaryCtxRetain(&mut context, device))?;
        }
        let properties = read_properties(device)?;
        Ok(Device(Arc::new(Inner {
            ordinal,
            context,
            properties,
            modules: Modules::new(cache),
            report: OnceLock::new(),
        })))
    }

    /// What it has.
    pub fn properties(&self) -> &Properties {
        &self.0.properties
    }

    /// Its architecture.
    pub fn arch(&self) -> Arch {
        Arch::new(self.0.properties.capability)
    }

    /// Makes the context this thread's current one. Every call of this crate that needs it does so itself.
    pub fn bind(&self) -> Result<(), Error> {
        // SAFETY: the context is retained for the life of the process.
        unsafe { call!(cuCtxSetCurrent(self.0.context)) }
    }

    /// A kernel, compiled and loaded: from memory, from disk, or by NVRTC.
    pub fn function(&self, variant: &Variant) -> Result<Function, Error> {
        self.0.modules.get(self, variant)
    }

    /// Waits until the GPU has done all that was asked of it, then [`Device::check`]s.
    pub fn synchronize(&self) -> Result<(), Error> {
        self.bind()?;
        // SAFETY: the context is current.
        unsafe { call!(cuCtxSynchronize())? };
        self.check()
    }

    /// [`Error::GaveUp`] if a recurrent pass has given up since this was asked last. It does not wait for the GPU: passes that are
    /// still running count later. Every recurrent call asks before it launches anything.
    pub fn check(&self) -> Result<(), Error> {
        self.0.report.get().map_or(Ok(()), |report| report.take(self.0.ordinal))
    }

    /// The address of the word that a kernel sets when it gives up.
    pub(crate) fn report(&self) -> Result<u64, Error> {
        if let Some(report) = self.0.report.get() {
            return Ok(report.address);
        }
        self.bind()?;
        // SAFETY: the context is current.
        let report = unsafe { Report::new()? };
        Ok(self.0.report.get_or_init(|| report).address)
    }
}

fn attribute(device: sys::CUdevice, attribute: Attribute) -> Result<usize, Error> {
    let mut value = 0;
    // SAFETY: the device exists.
    unsafe { call!(cuDeviceGetAttribute(&mut value, attribute, device))? };
    Ok(value as usize)
}

fn read_properties(device: sys::CUdevice) -> Result<Properties, Error> {
    let mut name = [0u8; 256];
    // SAFETY: the driver writes at most so many bytes, the last of them zero.
    unsafe { call!(cuDeviceGetName(name.as_mut_ptr().cast(), name.len() as i32, device))? };
    let get = |which| attribute(device, which);
    let capability = 10 * get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?
        + get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    Ok(Properties {
        name: String::from_utf8_lossy(name.split(|&byte| byte == 0).next().unwrap_or(&[])).into_owned(),
        capability: capability as u32,
        multiprocessors: get(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as u32,
        shared_per_block: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        shared_per_multiprocessor: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)?,
        threads_per_multiprocessor: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)? as u32,
        l2: get(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?,
        clusters: capability >= 90 && get(Attribute::CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH)? != 0,
        cooperative: get(Attribute::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH)? != 0,
    })
}
