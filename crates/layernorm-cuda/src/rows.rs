//! Layer norm and RMS norm of rows in device memory, with and without a residual (docs/NUMERICS.md, rules 2 to 7):
//!
//! ```text
//! m = sum(x)/N    d = x − m    δ = sum(d)/N    v = max(0, fma(−δ, δ, sum(d·d)/N))    r = 1/sqrt(v + ε)
//! y = fma((d − δ)·r, γ, β)                        RMS norm: m = δ = 0
//!
//! g = dy·γ    x̂ = (d − δ)·r    a = sum(g)/N    b = sum(g·x̂)/N    dx = r·fma(−x̂, b, g − a)
//! dγ = Σ dy·x̂    dβ = Σ dy     over the rows
//! ```
//! Calls are asynchronous: they launch kernels and return before the GPU has finished. They allocate nothing.

mod job;
mod launches;
pub(crate) mod params;

pub(crate) use job::{Channels, Job};

use crate::columns::Gradients;
use crate::config::{BLOCK, CHUNK, MESSAGE_BYTES, Strategy};
use crate::device::Device;
use crate::error::Error;
use crate::launch::Stream;
use crate::types::{Affine, Rows, Stats, Type, Workspace, padded, product};

/// A norm over rows: sizes, ε and parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowNorm {
    /// Element type.
    pub element: Type,
    /// Number of rows.
    pub rows: usize,
    /// Elements per row.
    pub n: usize,
    /// True for layer norm, false for RMS norm.
    pub centered: bool,
    /// ε: finite, 0 or more.
    pub eps: f64,
    /// γ and β, one per element of a row.
    pub affine: Affine,
}

/// Operands of a forward pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forward {
    /// Input.
    pub x: Rows,
    /// The residual that is added to x, and where h = x + residual is written.
    pub residual: Option<(Rows, Rows)>,
    /// Output; may be the input itself.
    pub y: Rows,
    /// Where the statistics are written, if wanted.
    pub stats: Option<Stats>,
}

/// Operands of a backward pass. dx, dγ and dβ are optional.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backward {
    /// What was normalized: x, or h if there was a residual.
    pub x: Rows,
    /// Gradient of the output.
    pub dy: Rows,
    /// Gradient of h from its other uses.
    pub dh: Option<Rows>,
    /// The statistics that the forward pass saved.
    pub stats: Stats,
    /// Gradient of the input.
    pub dx: Option<Rows>,
    /// Gradients of γ and β.
    pub gradients: Gradients,
}

impl RowNorm {
    /// Number of parameters: γ, and with `bias` also β.
    pub(crate) fn params(&self, bias: bool) -> usize {
        usize::from(self.affine.gain.is_some()) + usize::from(bias && self.affine.bias.is_some())
    }

    /// Computes y = norm(x) on a stream.
    ///
    /// # Safety
    /// All addresses must be device memory of this device, large enough, and valid until the stream has finished. The
    /// output must not overlap an input, but may be the input itself.
    pub unsafe fn forward(&self, device: &Device, call: &Forward, stream: Stream) -> Result<(), Error> {
        let job = Job { device, norm: *self, channels: Channels::FEATURES };
        // SAFETY: guaranteed by the caller.
        unsafe { job.forward(call, None, stream) }
    }

    /// [`RowNorm::forward`] with a given strategy. If it has no kernel for the call, the library chooses another one.
    ///
    /// # Safety
    /// As for [`RowNorm::forward`]; and the strategy must hold a row and suit the operands.
    pub unsafe fn forward_with(
        &self,
        device: &Device,
        call: &Forward,
        strategy: Strategy,
        stream: Stream,
    ) -> Result<(), Error> {
        let job = Job { device, norm: *self, channels: Channels::FEATURES };
        // SAFETY: guaranteed by the caller.
        unsafe { job.forward(call, Some(strategy), stream) }
    }

    /// Bytes of workspace that [`RowNorm::backward`] needs; `usize::MAX` on overflow.
    pub fn workspace(&self, gradients: &Gradients) -> usize {
        if !gradients.wanted() {
            return 0;
        }
        let sums = product(&[2, self.rows.div_ceil(CHUNK), self.n, self.element.accumulator_bytes()]);
        self.lines_bytes().saturating_add(self.messages_bytes()).saturating_add(sums)
    }

    /// Bytes for the messages of blocks that share a row; they follow the statistics.
    pub(crate) fn messages_bytes(&self) -> usize {
        if self.n > BLOCK { MESSAGE_BYTES } else { 0 }
    }

    /// Bytes for the statistics of scaled rows, at the start of a workspace.
    pub(crate) fn lines_bytes(&self) -> usize {
        padded(product(&[self.rows, self.element.line_bytes()]))
    }

    /// Computes the gradients on a stream.
    ///
    /// # Safety
    /// As for [`RowNorm::forward`]. If gradients of γ or β are wanted, dx must not overlap an input, because their sums
    /// may be computed at the same time or later. Nothing else may use the workspace meanwhile.
    pub unsafe fn backward(
        &self,
        device: &Device,
        call: &Backward,
        workspace: Workspace,
        stream: Stream,
    ) -> Result<(), Error> {
        let job = Job { device, norm: *self, channels: Channels::FEATURES };
        // SAFETY: guaranteed by the caller.
        unsafe { job.backward(call, workspace, None, stream) }
    }

    /// [`RowNorm::backward`] with a given strategy. If it has no kernel for the call, the library chooses another one.
    ///
    /// # Safety
    /// As for [`RowNorm::backward`]; and the strategy must hold a row and suit the operands.
    pub unsafe fn backward_with(
        &self,
        device: &Device,
        call: &Backward,
        workspace: Workspace,
        strategy: Strategy,
        stream: Stream,
    ) -> Result<(), Error> {
        let job = Job { device, norm: *self, channels: Channels::FEATURES };
        // SAFETY: guaranteed by the caller.
        unsafe { job.backward(call, workspace, Some(strategy), stream) }
    }
}
