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
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Mutex;

/// `(device, stream)`: the device's number, and the stream's handle as PyTorch gives it.
pub type Place = (usize, usize);

/// A device, opened once.
fn open(ordinal: usize) -> Result<Device, Failure> {
    static OPENED: Mutex<Option<HashMap<usize, Device>>> = Mutex::new(None);
    let mut opened = OPENED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let devices = opened.get_or_insert_with(HashMap::new);
    if let Some(device) = devices.get(&ordinal) {
        return Ok(device.clone());
    }
    let device = Device::open(ordinal)?;
    devices.insert(ordinal, device.clone());
    Ok(device)
}

/// Runs a call without the interpreter's lock: a kernel's first call compiles it.
fn run(py: Python<'_>, place: Place, call: impl FnOnce(&Device, Stream) -> Result<(), Failure> + Send) -> PyResult<()> {
    Ok(detached(py, || call(&open(place.0)?, Stream::from_raw(place.1)))?)
}

/// The file of NVRTC, which compiles the kernels; without it, it is looked for by its names. False if it was opened already.
#[pyfunction]
#[pyo3(signature = (path, /))]
pub fn cuda_use_nvrtc(path: PathBuf) -> bool {
    nvrtc::prefer(path)
}
