//! A GPU: its primary context (the one that PyTorch and the CUDA runtime use), its properties, and the kernels loaded
//! on it.

use crate::cache::Cache;
use crate::driver::{self, call};
use crate::error::Error;
use crate::module::{Function, Modules, Variant};
use crate::nvrtc::Arch;
use crate::report::Report;
use cudarc::driver::sys::{self, CUdevice_attribute as Attribute};
use std::sync::{Arc, OnceLock};

/// Properties of a GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Properties {
    /// Name of the device.
    pub name: String,
    /// Compute capability as one number: 90 for 9.0.
    pub capability: u32,
    /// Number of multiprocessors.
    pub multiprocessors: u32,
    /// Maximum shared memory per block, in bytes.
    pub shared_per_block: usize,
    /// Shared memory per multiprocessor, in bytes.
    pub shared_per_multiprocessor: usize,
    /// Maximum resident threads per multiprocessor.
    pub threads_per_multiprocessor: u32,
    /// Size of L2 in bytes.
    pub l2: usize,
    /// Whether it supports thread block clusters.
    pub clusters: bool,
    /// Whether it supports cooperative launches, in which all blocks are resident at once.
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

// SAFETY: CUDA contexts may be used from any thread; the modules are behind a lock.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// A GPU. Clones share it. Its context and the kernels loaded in it live as long as the process, because handles to
/// them and captured graphs may outlive every `Device`.
#[derive(Clone, Debug)]
pub struct Device(Arc<Inner>);

impl Device {
    /// The number of GPUs that the driver reports.
    pub fn count() -> Result<usize, Error> {
        driver::open()?;
        let mut count = 0;
        // SAFETY: the driver is loaded.
        unsafe { call!(cuDeviceGetCount(&mut count))? };
        Ok(count as usize)
    }

    /// Opens the GPU with this ordinal, with the default folder for compiled kernels.
    pub fn open(ordinal: usize) -> Result<Self, Error> {
        Device::with_cache(ordinal, Cache::from_environment())
    }

    /// [`Device::open`] with a given folder for compiled kernels.
    pub fn with_cache(ordinal: usize, cache: Cache) -> Result<Self, Error> {
        let count = Device::count()?;
        if ordinal >= count {
            return Err(Error::NoDevice { ordinal, count });
        }
        let (mut device, mut context) = (0, std::ptr::null_mut());
        // SAFETY: the driver is loaded, and the device exists.
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

    /// The device's properties.
    pub fn properties(&self) -> &Properties {
        &self.0.properties
    }

    /// The device's architecture.
    pub fn arch(&self) -> Arch {
        Arch::new(self.0.properties.capability)
    }

    /// Makes the context current on this thread. Every call of this crate that needs the context does so itself.
    pub fn bind(&self) -> Result<(), Error> {
        // SAFETY: the context is retained for the life of the process.
        unsafe { call!(cuCtxSetCurrent(self.0.context)) }
    }

    /// A compiled and loaded kernel: from memory, from disk, or by NVRTC.
    pub fn function(&self, variant: &Variant) -> Result<Function, Error> {
        self.0.modules.get(self, variant)
    }

    /// Waits until the GPU has finished all work, then calls [`Device::check`].
    pub fn synchronize(&self) -> Result<(), Error> {
        self.bind()?;
        // SAFETY: the context is current.
        unsafe { call!(cuCtxSynchronize())? };
        self.check()
    }

    /// Returns [`Error::GaveUp`] if a recurrent pass has timed out since the last check. Does not wait for the GPU:
    /// passes that are still running are reported later. Every recurrent call checks before it launches anything.
    pub fn check(&self) -> Result<(), Error> {
        self.0.report.get().map_or(Ok(()), |report| report.take(self.0.ordinal))
    }

    /// Device address of the word that a kernel sets when it gives up.
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
    // SAFETY: the driver writes at most `name.len()` bytes, including a terminating zero.
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
