//! Group norm: rows are groups of channels, parameters are per channel.

use super::Shape;
use crate::columns::{self, ColumnParams, Fold, Gradients, Output, Terms};
use crate::config::CHUNK;
use crate::device::Device;
use crate::error::Error;
use crate::kernels::Kinds;
use crate::launch::Stream;
use crate::rows::{Backward, Channels, Forward, Job, RowNorm};
use crate::types::{Accumulator, Affine, Rows, Stats, Type, Workspace, counted, padded, product, with_accumulator};

/// Group norm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupNorm {
    /// Element type.
    pub element: Type,
    /// N, the number of samples.
    pub samples: usize,
    /// C, the number of channels.
    pub channels: usize,
    /// Places per sample and channel: the product of the dimensions after C.
    pub space: usize,
    /// G, the number of groups; must divide C.
    pub groups: usize,
    /// ε: finite, 0 or more.
    pub eps: f64,
    /// γ and β, `[C]`.
    pub affine: Affine,
}

/// Operands of a backward pass of [`GroupNorm`]; all tensors are contiguous.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupBackward {
    /// Device address of the input.
    pub x: u64,
    /// Device address of the output's gradient.
    pub dy: u64,
    /// The statistics that the forward pass saved, one of each per sample and group.
    pub stats: Stats,
    /// Device address of the input's gradient; 0 if it is not wanted.
    pub dx: u64,
    /// Gradients of γ and β.
    pub gradients: Gradients,
}

impl GroupNorm {
    /// The groups as rows, and which γ and β their elements have.
    fn rows(&self) -> Result<(RowNorm, Channels), Error> {
        if self.groups == 0 || !self.channels.is_multiple_of(self.groups) {
            let why = format!("{} channels cannot be split into {} groups of equal size", self.channels, self.groups);
            return Err(Error::Shape { why });
        }
        let n = counted("elements of a group", &[self.channels / self.groups, self.space])?;
        let (rows, affine) = (counted("groups of samples", &[self.samples, self.groups])?, self.affine);
        // Checked on their own: the products above are 0 if one of the other sizes is.
        counted("channels", &[self.channels])?;
        counted("places", &[self.samples, self.space])?;
        let norm = RowNorm { element: self.element, rows, n, centered: true, eps: self.eps, affine };
        Ok((norm, Channels { groups: self.groups, span: self.space.max(1) }))
    }

    /// Computes y = norm(x) on a stream, both contiguous. `stats` receives one of each per sample and group.
    ///
    /// # Safety
    /// As for [`RowNorm::forward`].
    pub unsafe fn forward(
        &self,
        device: &Device,
        x: u64,
        y: u64,
        stats: Option<Stats>,
        stream: Stream,
    ) -> Result<(), Error> {
        let (norm, channels) = self.rows()?;
        let at = |address| Rows { address, stride: norm.n as i64 };
        let call = Forward { x: at(x), residual: None, y: at(y), stats };
        // SAFETY: guaranteed by the caller.
        unsafe { Job { device, norm, channels }.forward(&call, None, stream) }
    }

    /// Bytes of workspace that [`GroupNorm::backward`] needs; `usize::MAX` on overflow.
    pub fn workspace(&self, gradients: &Gradients) -> usize {
        let chunks = product(&[self.samples, self.space]).div_ceil(CHUNK);
        if !gradients.wanted() {
            return 0;
        }
        let sums = product(&[2, chunks, self.channels, self.element.accumulator_bytes()]);
        self.lines_bytes().saturating_add(sums)
    }

    fn lines_bytes(&self) -> usize {
        padded(product(&[self.samples, self.groups, self.element.line_bytes()]))
    }

    /// Computes the gradients on a stream.
    ///
    /// # Safety
    /// As for [`RowNorm::backward`].
    pub unsafe fn backward(
        &self,
        device: &Device,
        call: &GroupBackward,
        workspace: Workspace,
        stream: Stream,
    ) -> Result<(), Error> {
        let (norm, channels) = self.rows()?;
        workspace.check(self.workspace(&call.gradients))?;
        let at = |address| Rows { address, stride: norm.n as i64 };
        let (x, dy, none) = (at(call.x), at(call.dy), Gradients::default());
        let dx = (call.dx != 0).then(|| at(call.dx));
        let rows = Backward { x, dy, dh: None, stats: call.stats, dx, gradients: none };
        // SAFETY: guaranteed by the caller.
        unsafe {
            let lines = if call.gradients.wanted() { workspace.address } else { 0 };
            Job { device, norm, channels }.rows_of_groups(&rows, lines, stream)?;
            if !call.gradients.wanted() {
                return Ok(());
            }
            if norm.rows == 0 || norm.n == 0 {
                return call.gradients.zero(self.element, self.channels, stream);
            }
            with_accumulator!(self.element, self.parameters(device, &norm, call, workspace, stream))
        }
    }

    unsafe fn parameters<A: Accumulator>(
        &self,
        device: &Device,
        norm: &RowNorm,
        call: &GroupBackward,
        workspace: Workspace,
        stream: Stream,
    ) -> Result<(), Error> {
        let shape = Shape { samples: self.samples, channels: self.channels, space: self.space };
        let view = ColumnParams::<A> {
            m: call.stats.m,
            delta: call.stats.delta,
            rstd: call.stats.rstd,
            groups: self.groups as i64,
            lines: workspace.address,
            ..shape.view(call.x, call.dy, self.eps)
        };
        let kinds = Kinds::from(*norm);
        let sums = workspace.address + self.lines_bytes() as u64;
        // SAFETY: guaranteed by the caller.
        unsafe {
            columns::sums(device, &kinds, &view, Terms::Parameters, 0, sums, stream)?;
            let output = Output::Gradients(call.gradients);
            let fold = Fold { terms: Terms::Parameters, parts: view.chunks(), sums, output };
            columns::finish(device, &kinds, &view, &fold, stream)
        }
    }
}
