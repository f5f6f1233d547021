//! Calls on NVIDIA GPUs: device addresses from PyTorch, on its streams, in its contexts (a device's primary one), with memory
//! that PyTorch has allocated. Nothing of CUDA is opened before the first call.

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

/// `(device, stream)`: the device's number, and the stream's handle as PyTorch gives it.
pub type Place = (usize, usize);

static OPENED: Mutex<BTreeMap<usize, Device>> = Mutex::new(BTreeMap::new());

/// A device, opened once.
fn open(ordinal: usize) -> Result<Device, Failure> {
    let mut devices = OPENED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(device) = devices.get(&ordinal) {
        return Ok(device.clone());
    }
    let device = Device::open(ordinal)?;
    devices.insert(ordinal, device.clone());
    Ok(device)
}

/// Runs a call without the interpreter's lock: a kernel's first call compiles it.
fn run(py: Python<'_>, place: Place, call: impl FnOnce(&Device, Stream) -> Result<(), Failure> + Send) -> PyResult<()> {
    // SAFETY: the handle is that of PyTorch's current stream, which lives as long as its device.
    Ok(detached(py, || call(&open(place.0)?, unsafe { Stream::from_raw(place.1) }))?)
}

/// The file of NVRTC, which compiles the kernels; without it, it is looked for by its names. False if it was opened already.
#[pyfunction]
#[pyo3(signature = (path, /))]
pub fn cuda_use_nvrtc(path: PathBuf) -> bool {
    // SAFETY: the caller found it among PyTorch's own libraries, by NVRTC's name.
    unsafe { nvrtc::prefer(path) }
}

/// RuntimeError if a recurrent pass on this device gave up since this was asked last. `wait`: after all that was asked of the GPU;
/// else of what is done already, which costs nothing. A device that no call has used has nothing to tell.
#[pyfunction]
#[pyo3(signature = (device, wait, /))]
pub fn cuda_check(py: Python<'_>, device: usize, wait: bool) -> PyResult<()> {
    let device = OPENED.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get(&device).cloned();
    let Some(device) = device else { return Ok(()) };
    Ok(detached(py, || if wait { device.synchronize() } else { device.check() }).map_err(Failure::from)?)
}
