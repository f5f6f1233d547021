//! The way of a layer: the kernels where they have it, else the CPU.

use super::host::HostPlan;
use super::plan::{Layer, Plan, Run, RunBack, Shape};
use crate::device::Device;
use crate::error::Error;
use crate::launch::Stream;

/// A layer for one shape of batch, by the fastest way that there is for it.
#[derive(Debug)]
pub enum Route {
    /// On the device.
    Device(Box<Plan>),
    /// By the CPU: slower, and not in graphs.
    Host {
        /// What runs it.
        plan: Box<HostPlan>,
        /// What the kernels lack.
        why: String,
    },
}

impl Route {
    /// A layer for a shape, in training or not. Cells and sizes that the kernels do not have go by way of the host.
    pub fn new(device: &Device, layer: Layer, shape: Shape, training: bool) -> Result<Route, Error> {
        match Plan::new(device, layer, shape, training) {
            Ok(plan) => Ok(Route::Device(Box::new(plan))),
            Err(Error::Unsupported { why }) => {
                Ok(Route::Host { plan: Box::new(HostPlan::new(device, layer, shape, training)?), why })
            }
            Err(error) => Err(error),
        }
    }

    /// As [`Plan::tape_bytes`].
    pub fn tape_bytes(&self) -> usize {
        match self {
            Route::Device(plan) => plan.tape_bytes(),
            Route::Host { plan, .. } => plan.tape_bytes(),
        }
    }

    /// As [`Plan::workspace_bytes`].
    pub fn workspace_bytes(&self) -> usize {
        match self {
            Route::Device(plan) => plan.workspace_bytes(),
            Route::Host { .. } => 0,
        }
    }

    /// As [`Plan::check`].
    pub fn check(&self) -> Result<(), Error> {
        match self {
            Route::Device(plan) => plan.check(),
            Route::Host { .. } => Ok(()),
        }
    }

    /// As [`Plan::resources`]; nothing where the CPU runs it.
    pub fn resources(&self) -> Result<Vec<(u32, u32, usize)>, Error> {
        match self {
            Route::Device(plan) => plan.resources(),
            Route::Host { .. } => Ok(Vec::new()),
        }
    }

    /// As [`Plan::forward`].
    ///
    /// # Safety
    /// As there.
    pub unsafe fn forward(&self, stream: Stream, run: &Run) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Route::Device(plan) => plan.forward(stream, run),
                Route::Host { plan, .. } => plan.forward(stream, run),
            }
        }
    }

    /// As [`Plan::backward`].
    ///
    /// # Safety
    /// As there.
    pub unsafe fn backward(&self, stream: Stream, run: &RunBack) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Route::Device(plan) => plan.backward(stream, run),
                Route::Host { plan, .. } => plan.backward(stream, run),
            }
        }
    }
}
