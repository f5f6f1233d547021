//! Chooses where a layer runs: on the GPU if the kernels support it, else on the CPU.

use super::host::HostPlan;
use super::operands::{Layer, Run, RunBack, Shape};
use super::plan::Plan;
use crate::device::Device;
use crate::error::Error;
use crate::launch::Stream;

/// A layer for one batch shape, on the fastest path that supports it.
#[derive(Debug)]
pub enum Route {
    /// On the device.
    Device(Box<Plan>),
    /// On the CPU: slower, and cannot be captured in a graph.
    Host {
        /// The plan that runs it.
        plan: Box<HostPlan>,
        /// What the kernels do not support.
        why: String,
    },
}

impl Route {
    /// Creates a plan for a layer and a batch shape, for training or inference. Cells and sizes that the kernels do not
    /// support run on the CPU.
    pub fn new(device: &Device, layer: Layer, shape: Shape, training: bool) -> Result<Route, Error> {
        match Plan::new(device, layer, shape, training) {
            Ok(plan) => Ok(Route::Device(Box::new(plan))),
            Err(Error::Unsupported { why }) => {
                Ok(Route::Host { plan: Box::new(HostPlan::new(device, layer, shape, training)?), why })
            }
            Err(error) => Err(error),
        }
    }

    /// See [`Plan::tape_bytes`].
    pub fn tape_bytes(&self) -> usize {
        match self {
            Route::Device(plan) => plan.tape_bytes(),
            Route::Host { plan, .. } => plan.tape_bytes(),
        }
    }

    /// See [`Plan::workspace_bytes`].
    pub fn workspace_bytes(&self) -> usize {
        match self {
            Route::Device(plan) => plan.workspace_bytes(),
            Route::Host { .. } => 0,
        }
    }

    /// See [`Plan::check`].
    pub fn check(&self) -> Result<(), Error> {
        match self {
            Route::Device(plan) => plan.check(),
            Route::Host { .. } => Ok(()),
        }
    }

    /// See [`Plan::resources`]; empty if the layer runs on the CPU.
    pub fn resources(&self) -> Result<Vec<(u32, u32, usize)>, Error> {
        match self {
            Route::Device(plan) => plan.resources(),
            Route::Host { .. } => Ok(Vec::new()),
        }
    }

    /// See [`Plan::forward`].
    ///
    /// # Safety
    /// As for [`Plan::forward`].
    pub unsafe fn forward(&self, stream: Stream, run: &Run) -> Result<(), Error> {
        // SAFETY: guaranteed by the caller.
        unsafe {
            match self {
                Route::Device(plan) => plan.forward(stream, run),
                Route::Host { plan, .. } => plan.forward(stream, run),
            }
        }
    }

    /// See [`Plan::backward`].
    ///
    /// # Safety
    /// As for [`Plan::backward`].
    pub unsafe fn backward(&self, stream: Stream, run: &RunBack) -> Result<(), Error> {
        // SAFETY: guaranteed by the caller.
        unsafe {
            match self {
                Route::Device(plan) => plan.backward(stream, run),
                Route::Host { plan, .. } => plan.backward(stream, run),
            }
        }
    }
}
