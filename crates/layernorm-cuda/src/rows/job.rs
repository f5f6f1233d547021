//! Turns a checked call into launches: the strategy, its kernel and the kernel's parameters.

use super::params::{BackwardParams, ForwardParams, LongParams, Scratch, rows_or_null};
use super::{Backward, Forward, RowNorm};
use crate::columns::{self, ColumnParams, Fold, Output, Terms};
use crate::config::{CHUNK, Long, Pass, Request, Strategy, Sums};
use crate::device::Device;
use crate::driver::call;
use crate::error::Error;
use crate::kernels::{self, Options};
use crate::launch::{Launch, Stream};
use crate::types::{Accumulator, Rows, Stats, Workspace, check_address, check_eps, counted, with_accumulator};

/// Which γ and β an element has. Parameters repeat every `groups` rows; within a row there is one of each per `span`
/// elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Channels {
    pub(crate) groups: usize,
    pub(crate) span: usize,
}

impl Channels {
    /// One of each per element of a row, the same for all rows.
    pub(crate) const FEATURES: Channels = Channels { groups: 1, span: 1 };
}

/// A norm on a device, with the mapping from elements to parameters.
#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    pub(crate) device: &'a Device,
    pub(crate) norm: RowNorm,
    pub(crate) channels: Channels,
}

/// Sets `bytes` bytes of each statistic to NaN.
unsafe fn fill(stats: Option<Stats>, bytes: usize, stream: Stream, device: &Device) -> Result<(), Error> {
    let Some(Stats { m, delta, rstd }) = stats.filter(|_| bytes > 0) else { return Ok(()) };
    device.bind()?;
    for place in [m, delta, rstd].into_iter().filter(|&place| place != 0) {
        // SAFETY: guaranteed by the caller.
        unsafe { call!(cuMemsetD8Async(place, 0xff, bytes, stream.0))? };
    }
    Ok(())
}

impl Job<'_> {
    /// Whether all operands can be accessed as whole 16-byte vectors.
    fn aligned(&self, operands: &[Rows]) -> bool {
        let RowNorm { element, n, affine, .. } = self.norm;
        let per = element.per_vector();
        let rows = |rows: &Rows| rows.address.is_multiple_of(16) && rows.stride % per as i64 == 0;
        let params = [affine.gain, affine.bias].into_iter().flatten();
        n.is_multiple_of(per)
            && operands.iter().all(rows)
            && params.into_iter().all(|param| param.address.is_multiple_of(16))
    }

    /// The given strategy, unless it has no kernel for the call; otherwise the fastest.
    fn strategy(&self, given: Option<Strategy>, request: &Request) -> Strategy {
        let given = given.filter(|strategy| strategy.can_run(request));
        given.unwrap_or_else(|| Strategy::choose(request, self.device.properties()))
    }

    fn forward_request(&self, call: &Forward) -> Request {
        let RowNorm { element, rows, n, .. } = self.norm;
        let (residual, h) = call.residual.unzip();
        let packed = [call.x, call.y].iter().all(|rows| rows.stride == n as i64);
        Request {
            element,
            rows,
            n,
            params: self.norm.params(true),
            aligned: self.aligned(&[call.x, call.y, rows_or_null(residual), rows_or_null(h)]),
            per_feature: self.channels == Channels::FEATURES,
            pass: Pass::Forward { residual: residual.is_some(), packed },
        }
    }

    fn backward_request(&self, call: &Backward) -> Request {
        let RowNorm { element, rows, n, .. } = self.norm;
        let (dh, dx, gradients) = (call.dh.is_some(), call.dx.is_some(), call.gradients.wanted());
        Request {
            element,
            rows,
            n,
            params: self.norm.params(false),
            aligned: self.aligned(&[call.x, call.dy, rows_or_null(call.dh), rows_or_null(call.dx)]),
            per_feature: self.channels == Channels::FEATURES,
            pass: Pass::Backward { dh, dx, gradients },
        }
    }

    fn options(&self, aligned: bool, residual: bool) -> Options {
        Options { per_channel: self.channels.span > 1, aligned, residual }
    }

    fn check(&self, what: &'static str, rows: Rows) -> Result<(), Error> {
        check_address(what, rows.address, self.norm.element.bytes())
    }

    /// Checks ε and the sizes, which come from the caller.
    fn check_norm(&self) -> Result<(), Error> {
        check_eps(self.norm.eps, self.norm.element)?;
        counted("rows", &[self.norm.rows])?;
        counted("elements of a row", &[self.norm.n])?;
        counted("rows of elements", &[self.norm.rows, self.norm.n]).map(drop)
    }

    fn is_empty(&self) -> bool {
        self.norm.rows == 0 || self.norm.n == 0
    }

    pub(crate) unsafe fn forward(&self, call: &Forward, given: Option<Strategy>, stream: Stream) -> Result<(), Error> {
        self.check_norm()?;
        if self.is_empty() {
            // A row without elements has no mean. All bits set is a NaN.
            let rows = if self.norm.n == 0 { self.norm.rows } else { 0 };
            // SAFETY: the caller guarantees the addresses of the statistics.
            return unsafe { fill(call.stats, rows * self.norm.element.accumulator_bytes(), stream, self.device) };
        }
        self.check("input", call.x)?;
        self.check("output", call.y)?;
        if let Some((residual, h)) = call.residual {
            self.check("residual", residual)?;
            self.check("residual output", h)?;
        }
        self.device.bind()?;
        // SAFETY: guaranteed by the caller.
        unsafe { with_accumulator!(self.norm.element, self.forward_in(call, given, stream)) }
    }

    unsafe fn forward_in<A: Accumulator>(
        &self,
        call: &Forward,
        given: Option<Strategy>,
        stream: Stream,
    ) -> Result<(), Error> {
        let request = self.forward_request(call);
        let residual = call.residual.is_some();
        let (variant, schedule) = match self.strategy(given, &request) {
            Strategy::ThreadPerLane(shape) => (kernels::lanes_forward(&self.norm, &shape, residual), shape.schedule()),
            Strategy::ThreadPerRow(shape) => (kernels::each_forward(&self.norm, &shape), shape.schedule()),
            Strategy::Streaming(shape) => (kernels::stream_forward(&self.norm, &shape), shape.forward_schedule()),
            Strategy::Registers(shape) => {
                let options = self.options(request.aligned, residual);
                (kernels::forward(&self.norm, &shape, options), shape.forward_schedule())
            }
            Strategy::Long(shape) => {
                let params = LongParams::<A>::forward(self, call);
                // SAFETY: guaranteed by the caller.
                return unsafe { self.launch_long(&shape, "forward", residual, stream, &params) };
            }
        };
        let params = ForwardParams::<A>::new(self, call);
        // SAFETY: the structure has the kernel's layout; the caller guarantees valid memory.
        unsafe { self.launch(&variant, &schedule, self.norm.rows, 0, stream, &params) }
    }

    pub(crate) unsafe fn backward(
        &self,
        call: &Backward,
        workspace: Workspace,
        given: Option<Strategy>,
        stream: Stream,
    ) -> Result<(), Error> {
        self.check_norm()?;
        self.device.bind()?;
        if self.is_empty() {
            // SAFETY: the caller guarantees the addresses of the gradients.
            return unsafe { call.gradients.zero(self.norm.element, self.norm.n, stream) };
        }
        for (what, rows) in [("input", Some(call.x)), ("gradient of the output", Some(call.dy)), ("dh", call.dh)] {
            rows.map_or(Ok(()), |rows| self.check(what, rows))?;
        }
        call.dx.map_or(Ok(()), |rows| self.check("gradient of the input", rows))?;
        workspace.check(self.norm.workspace(&call.gradients))?;
        // SAFETY: guaranteed by the caller.
        unsafe { with_accumulator!(self.norm.element, self.backward_in(call, workspace, given, stream)) }
    }

    /// Computes dx of groups, whose γ and β are per channel. The statistics of scaled rows are stored at `lines`, for
    /// the sums per channel.
    pub(crate) unsafe fn rows_of_groups(&self, call: &Backward, lines: u64, stream: Stream) -> Result<(), Error> {
        self.check_norm()?;
        if self.is_empty() || (call.dx.is_none() && lines == 0) {
            return Ok(());
        }
        self.check("input", call.x)?;
        self.check("gradient of the output", call.dy)?;
        self.device.bind()?;
        // SAFETY: guaranteed by the caller.
        unsafe { with_accumulator!(self.norm.element, self.rows_alone(call, lines, stream)) }
    }

    unsafe fn rows_alone<A: Accumulator>(&self, call: &Backward, lines: u64, stream: Stream) -> Result<(), Error> {
        // The kernels for parameters per feature are not used, even if a group has one place.
        let request = Request { per_feature: false, ..self.backward_request(call) };
        let strategy = self.strategy(None, &request);
        let scratch = Scratch { lines, messages: 0, sums: 0, parts: 0 };
        // SAFETY: guaranteed by the caller.
        unsafe { self.rows_backward::<A>(call, &strategy, request.aligned, &scratch, stream) }
    }

    unsafe fn backward_in<A: Accumulator>(
        &self,
        call: &Backward,
        workspace: Workspace,
        given: Option<Strategy>,
        stream: Stream,
    ) -> Result<(), Error> {
        let request = self.backward_request(call);
        let wanted = call.gradients.wanted();
        let strategy = self.strategy(given, &request);
        let parts = strategy.partial_sums(self.norm.rows).unwrap_or(self.norm.rows.div_ceil(CHUNK));
        // Layout of the workspace: the statistics of scaled rows, then messages between blocks, then the sums.
        let lines = if wanted { workspace.address } else { 0 };
        let messages = workspace.address + self.norm.lines_bytes() as u64;
        let sums = messages + self.norm.messages_bytes() as u64;
        // SAFETY: guaranteed by the caller.
        unsafe {
            if wanted || call.dx.is_some() {
                let scratch = Scratch { lines, messages, sums, parts };
                self.rows_backward::<A>(call, &strategy, request.aligned, &scratch, stream)?;
            }
            if wanted {
                let view = ColumnParams::<A>::rows(&self.norm, call, lines);
                let kinds = self.norm.into();
                let width = view.vector_width(self.norm.element);
                match Sums::choose(&strategy, &request, width, self.device.properties()) {
                    Sums::Fused => {}
                    Sums::Down(shape) => {
                        return columns::down(self.device, &kinds, &view, &shape, &call.gradients, stream);
                    }
                    Sums::Chunks => columns::sums(self.device, &kinds, &view, Terms::Parameters, 0, sums, stream)?,
                }
                let output = Output::Gradients(call.gradients);
                let fold = Fold { terms: Terms::Parameters, parts, sums, output };
                columns::finish(self.device, &kinds, &view, &fold, stream)?;
            }
        }
        Ok(())
    }

    /// Computes dx, and the sums for γ and β if the strategy does.
    unsafe fn rows_backward<A: Accumulator>(
        &self,
        call: &Backward,
        strategy: &Strategy,
        aligned: bool,
        scratch: &Scratch,
        stream: Stream,
    ) -> Result<(), Error> {
        let (dh, dx) = (call.dh.is_some(), call.dx.is_some());
        let (variant, schedule) = match strategy {
            Strategy::ThreadPerLane(shape) => (kernels::lanes_backward(&self.norm, shape, dh, dx), shape.schedule()),
            Strategy::Streaming(shape) => (kernels::stream_backward(&self.norm, shape), shape.backward_schedule()),
            Strategy::Registers(shape) => {
                let options = self.options(aligned, dh);
                (kernels::backward(&self.norm, shape, options, dx), shape.backward_schedule())
            }
            Strategy::Long(_) | Strategy::ThreadPerRow(_) => {
                // `Strategy::can_run` refuses one thread per row. The kernels for long rows run any row.
                let shape = if let Strategy::Long(shape) = strategy { *shape } else { Long::default() };
                let params = LongParams::<A>::backward(self, call, scratch.lines);
                // SAFETY: guaranteed by the caller.
                return unsafe { self.launch_long(&shape, "backward", dh, stream, &params) };
            }
        };
        let rows = self.norm.rows;
        let lines = if strategy.partial_sums(rows).is_some() { rows.div_ceil(CHUNK) } else { rows };
        let params = BackwardParams::<A>::new(self, call, scratch);
        // SAFETY: the structure has the kernel's layout; the caller guarantees valid memory.
        unsafe { self.launch(&variant, &schedule, lines, scratch.messages, stream, &params) }
    }

    /// Launches a kernel for rows of any length.
    unsafe fn launch_long<A: Accumulator>(
        &self,
        shape: &Long,
        entry: &'static str,
        residual: bool,
        stream: Stream,
        params: &LongParams<A>,
    ) -> Result<(), Error> {
        let function = self.device.function(&kernels::long(&self.norm, shape, entry, residual))?;
        let blocks = shape.blocks(self.norm.rows, self.device.properties()) as u32;
        // SAFETY: the structure has the kernel's layout; the caller guarantees valid memory.
        unsafe { Launch::new(blocks, shape.threads as u32).run(&function, stream, params) }
    }
}
