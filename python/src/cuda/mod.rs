//! Calls on NVIDIA GPUs, with device memory, streams and contexts (the primary one of a device) of PyTorch. CUDA is not loaded
//! before the first call.

mod norms;
mod recurrent;

pub use norms::{cuda_backward, cuda_forward, cuda_workspace};
pub use recurrent::{CudaLayer, cuda_lacks};

use crate::detach::detached;
use crate::failure::Failure;
use layernorm_cuda::{Device, Stream, nvrtc};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

/// `(device, stream)`: the device's index, and the handle of a PyTorch stream.
pub type Place = (usize, usize);

static OPENED: Mutex<BTreeMap<usize, Device>> = Mutex::new(BTreeMap::new());

/// Returns a device, which is opened once.
fn open(ordinal: usize) -> Result<Device, Failure> {
    let mut devices = OPENED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(device) = devices.get(&ordinal) {
        return Ok(device.clone());
    }
    let device = Device::open(ordinal)?;
    devices.insert(ordinal, device.clone());
    Ok(device)
}

/// Runs a call without the interpreter's lock, because the first call of a kernel compiles it.
fn run(py: Python<'_>, place: Place, call: impl FnOnce(&Device, Stream) -> Result<(), Failure> + Send) -> PyResult<()> {
    // SAFETY: the handle is that of PyTorch's current stream, which lives as long as its device.
    Ok(detached(py, || call(&open(place.0)?, unsafe { Stream::from_raw(place.1) }))?)
}

/// Sets the path of NVRTC, which compiles the kernels. By default it is looked up by name. Returns false if a path was already
/// set.
#[pyfunction]
#[pyo3(signature = (path, /))]
pub fn cuda_use_nvrtc(path: PathBuf) -> bool {
    // SAFETY: the caller found it among PyTorch's libraries, under NVRTC's name.
    unsafe { nvrtc::prefer(path) }
}

/// Raises RuntimeError if a recurrent pass on this device timed out since the last check. With `wait`, waits for all work on the GPU;
/// otherwise checks only finished passes, which costs nothing. Does nothing for a device that no call has used.
#[pyfunction]
#[pyo3(signature = (device, wait, /))]
pub fn cuda_check(py: Python<'_>, device: usize, wait: bool) -> PyResult<()> {
    let device = OPENED.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get(&device).cloned();
    let Some(device) = device else { return Ok(()) };
    Ok(detached(py, || if wait { device.synchronize() } else { device.check() }).map_err(Failure::from)?)
}
