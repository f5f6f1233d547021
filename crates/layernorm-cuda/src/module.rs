//! Kernels as data: a source and its specialization. Each is compiled once, then cached in memory and on disk.

use crate::cache::{Cache, Key};
use crate::device::Device;
use crate::driver::{self, call};
use crate::error::Error;
use crate::nvrtc::{self, Arch, Source};
use cudarc::driver::sys;
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::Mutex;

/// A kernel: a source, its specialization, and the name of the function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Variant {
    /// The source.
    pub source: &'static Source,
    /// `NAME=VALUE` definitions for the preprocessor.
    pub defines: Vec<String>,
    /// Name of the kernel function, which is `extern "C"`.
    pub entry: &'static str,
    /// Whether it may use features that only the device's own architecture has (`sm_90a`).
    pub specific: bool,
    /// Dynamic shared memory per block, in bytes.
    pub shared: usize,
    /// Whether its clusters may have more than 8 blocks.
    pub large_clusters: bool,
}

impl Variant {
    /// A function of a source, without any specialization.
    pub fn new(source: &'static Source, entry: &'static str) -> Self {
        Variant { source, defines: Vec::new(), entry, specific: false, shared: 0, large_clusters: false }
    }

    /// Adds a definition `NAME=VALUE` for the preprocessor.
    pub fn define(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        self.defines.push(format!("{name}={value}"));
        self
    }

    /// Sets the dynamic shared memory per block, in bytes.
    pub fn shared(self, bytes: usize) -> Self {
        Variant { shared: bytes, ..self }
    }

    /// Compiles it for an architecture, without a GPU and without the cache.
    pub fn compile(&self, arch: Arch) -> Result<Vec<u8>, Error> {
        nvrtc::compile(self.source, Arch { specific: self.specific, ..arch }, &self.defines)
    }

    /// The same with fewer optimizations, for tests.
    pub fn compile_quickly(&self, arch: Arch) -> Result<Vec<u8>, Error> {
        nvrtc::compile_quickly(self.source, Arch { specific: self.specific, ..arch }, &self.defines)
    }

    /// The cache key: everything that the machine code depends on.
    fn key(&self, arch: Arch) -> Result<Key, Error> {
        let versions = format!("nvrtc {:?} driver {}", nvrtc::version()?, driver::version()?);
        let options = nvrtc::options(Arch { specific: self.specific, ..arch }, &self.defines);
        let text = self.source.checked_text();
        let headers = self.source.headers.iter().flat_map(|header| [header.0, header.1]);
        let text = [versions.as_str(), self.source.name, &text];
        Ok(Key::new(text.into_iter().chain(headers).chain(options.iter().map(String::as_str))))
    }
}

/// A kernel loaded on a device. It stays loaded for the life of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    pub(crate) raw: sys::CUfunction,
    /// Dynamic shared memory per block, in bytes.
    pub shared: usize,
}

// SAFETY: a handle that the driver accepts from any thread.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl Function {
    /// Registers per thread, and bytes of local memory per thread (nonzero if registers are spilled).
    pub fn registers_and_local(&self) -> Result<(u32, u32), Error> {
        let read = |attribute| {
            let mut value = 0;
            // SAFETY: the function is loaded.
            unsafe { call!(cuFuncGetAttribute(&mut value, attribute, self.raw)) }.map(|()| value as u32)
        };
        use sys::CUfunction_attribute as Of;
        Ok((read(Of::CU_FUNC_ATTRIBUTE_NUM_REGS)?, read(Of::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?))
    }

    /// How many blocks of `threads` threads fit on a multiprocessor.
    pub fn blocks_per_multiprocessor(&self, threads: u32) -> Result<u32, Error> {
        let mut blocks = 0;
        // SAFETY: the function is loaded.
        unsafe {
            call!(cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, self.raw, threads as i32, self.shared))?;
        }
        Ok(blocks as u32)
    }
}

/// The kernels loaded on a device.
#[derive(Debug)]
pub(crate) struct Modules {
    cache: Cache,
    loaded: Mutex<HashMap<Variant, Function>>,
}

impl Modules {
    pub(crate) fn new(cache: Cache) -> Self {
        Modules { cache, loaded: Mutex::default() }
    }

    pub(crate) fn get(&self, device: &Device, variant: &Variant) -> Result<Function, Error> {
        let lock = || self.loaded.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(function) = lock().get(variant) {
            return Ok(*function);
        }
        device.bind()?;
        let arch = device.arch();
        // Not under the lock: several threads may compile at a time. If two compile the same kernel, the second result
        // is discarded.
        let code = self.cache.get(&variant.key(arch)?, || variant.compile(arch))?;
        // SAFETY: the device's context is current.
        let function = unsafe { load(&code, variant)? };
        Ok(*lock().entry(variant.clone()).or_insert(function))
    }
}

/// # Safety
/// The device's context must be current. The module stays loaded as long as the context exists.
unsafe fn load(code: &[u8], variant: &Variant) -> Result<Function, Error> {
    use sys::CUfunction_attribute as Of;
    let (mut module, mut raw) = (std::ptr::null_mut(), std::ptr::null_mut());
    let entry = CString::new(variant.entry).unwrap_or_default();
    // SAFETY: the machine code is complete, and the driver copies it.
    unsafe {
        call!(cuModuleLoadData(&mut module, code.as_ptr().cast()))?;
        call!(cuModuleGetFunction(&mut raw, module, entry.as_ptr()))?;
        if variant.shared > 0 {
            let bytes = variant.shared as i32;
            call!(cuFuncSetAttribute(raw, Of::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes))?;
        }
        if variant.large_clusters {
            call!(cuFuncSetAttribute(raw, Of::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1))?;
        }
    }
    Ok(Function { raw, shared: variant.shared })
}
