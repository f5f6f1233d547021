//! Layer norm and RMS norm of rows in device memory, with and without a residual (docs/NUMERICS.md, rules 2 to 7):
//!
//! ```text
//! m = sum(x)/N    d = x − m    δ = sum(d)/N    v = max(0, fma(−δ, δ, sum(d·d)/N))    r = 1/sqrt(v + ε)
//! y = fma((d − δ)·r, γ, β)                        RMS norm: m = δ = 0
//!
//! g = dy·γ    x̂ = (d − δ)·r    a = sum(g)/N    b = sum(g·x̂)/N    dx = r·fma(−x̂, b, g − a)
//! dγ = Σ dy·x̂    dβ = Σ dy     over the rows
//! ```
//! Calls only launch: they return before the GPU has done the work, and allocate nothing.

mod job;
mod launches;
pub(crate) mod params;

pub(crate) use job::{Channels, Job};

use crate::columns::Gradients;
use crate::config::{BLOCK, CHUNK, Geometry, MESSAGE_BYTES};
use crate::device::Device;
use crate::error::Error;
use crate::launch::Stream;
use crate::types::{Affine, Rows, Stats, Type, Workspace, padded, product};

/// What rows are normalized, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowNorm {
    /// Type of the elements.
    pub element: Type,
    /// Number of rows.
    pub rows: usize,
    /// Elements of a row.
    pub n: usize,
    /// Layer norm; else RMS norm.
    pub centered: bool,
    /// ε: finite, 0 or more.
    pub eps: f64,
    /// γ and β, one an element of a row.
    pub affine: Affine,
}

/// A forward pass: y, and what is wanted besides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forward {
    /// Input.
    pub x: Rows,
    /// The residual that is added to x, and where h = x + residual goes.
    pub residual: Option<(Rows, Rows)>,
    /// Output; may be the input itself.
    pub y: Rows,
    /// Where the statistics go.
    pub stats: Option<Stats>,
}

/// A backward pass: dx, dγ and dβ, those that are wanted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backward {
    /// What was normalized (h, where there was a residual).
    pub x: Rows,
    /// Gradient of the output.
    pub dy: Rows,
    /// Gradient of h that comes from its other users.
    pub dh: Option<Rows>,
    /// What forward saved.
    pub stats: Stats,
    /// Gradient of the input.
    pub dx: Option<Rows>,
    /// Gradient of γ and of β.
    pub gradients: Gradients,
}

impl RowNorm {
    /// How many there are of γ, and with `bias` of β too.
    pub(crate) fn params(&self, bias: bool) -> usize {
        usize::from(self.affine.gain.is_some()) + usize::from(bias && self.affine.bias.is_some())
    }

    /// y = norm(x), on a stream.
    ///
    /// # Safety
    /// The addresses are those of device memory of the device, large enough, and stay valid until the stream has done it. The
    /// output overlaps no input, but may be the input itself.
    pub unsafe fn forward(&self, device: &Device, call: &Forward, stream: Stream) -> Result<(), Error> {
        let job = Job { device, norm: *self, channels: Channels::FEATURES };
        // SAFETY: the caller's promise.
        unsafe { job.forward(call, None, stream) }
    }

    /// [`RowNorm::forward`] with this geometry.
    ///
    /// # Safety
    /// As there; and the geometry holds a row.
    pub unsafe fn forward_with(
        &self,
        device: &Device,
        call: &Forward,
        geometry: Geometry,
        stream: Stream,
    ) -> Result<(), Error> {
        let job = Job { device, norm: *self, channels: Channels::FEATURES };
        // SAFETY: the caller's promise.
        unsafe { job.forward(call, Some(geometry), stream) }
    }

    /// Bytes of workspace that [`RowNorm::backward`] takes; `usize::MAX` if they cannot be counted.
    pub fn workspace(&self, gradients: &Gradients) -> usize {
        if !gradients.wanted() {
            return 0;
        }
        let sums = product(&[2, self.rows.div_ceil(CHUNK), self.n, self.element.accumulator_bytes()]);
        self.lines_bytes().saturating_add(self.messages_bytes()).saturating_add(sums)
    }

    /// Bytes for what blocks that share a row tell each other, after the statistics.
    pub(crate) fn messages_bytes(&self) -> usize {
        if self.n > BLOCK { MESSAGE_BYTES } else { 0 }
    }

    /// Bytes for the statistics of scaled rows, at the start of a workspace.
    pub(crate) fn lines_bytes(&self) -> usize {
        padded(product(&[self.rows, self.element.line_bytes()]))
    }

    /// Gradients, on a stream.
    ///
    /// # Safety
    /// As [`RowNorm::forward`]; dx overlaps no input where gradients of γ or β are wanted, whose sums may be taken beside it or after
    /// it; the workspace is not used by anything else meanwhile.
    pub unsafe fn backward(
        &self,
        device: &Device,
        call: &Backward,
        workspace: Workspace,
        stream: Stream,
    ) -> Result<(), Error> {
        let job = Job { device, norm: *self, channels: Channels::FEATURES };
        // SAFETY: the caller's promise.
        unsafe { job.backward(call, workspace, None, stream) }
    }

    /// [`RowNorm::backward`] with this geometry: fused with the sums for γ and β, or apart from them.
    ///
    /// # Safety
    /// As there; and the geometry holds a row.
    pub unsafe fn backward_with(
        &self,
        device: &Device,
        call: &Backward,
        workspace: Workspace,
        geometry: (Geometry, bool),
        stream: Stream,
    ) -> Result<(), Error> {
        let job = Job { device, norm: *self, channels: Channels::FEATURES };
        // SAFETY: the caller's promise.
        unsafe { job.backward(call, workspace, Some(geometry), stream) }
    }
}
