//! Turns a checked call into launches: which kernel, with which geometry and parameters.

use super::params::{BackwardParams, ForwardParams, LongParams};
use super::{Backward, Forward, RowNorm};
use crate::columns::{self, ColumnParams};
use crate::config::{self, CHUNK, Geometry};
use crate::device::Device;
use crate::driver::call;
use crate::error::Error;
use crate::kernels;
use crate::launch::{Launch, Stream};
use crate::types::{Accumulator, Rows, Stats, Type, Workspace, address, check_address, check_eps, counted};

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
        // SAFETY: the caller's promise.
        unsafe { call!(cuMemsetD8Async(place, 0xff, bytes, stream.0))? };
    }
    Ok(())
}

fn rows_or_null(rows: Option<Rows>) -> Rows {
    rows.unwrap_or(Rows { address: 0, stride: 0 })
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

    fn per_channel(&self) -> bool {
        self.channels.span > 1
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

    fn long_grid(&self) -> u32 {
        self.norm.rows.min(4 * self.device.properties().multiprocessors as usize) as u32
    }

    pub(crate) unsafe fn forward(
        &self,
        call: &Forward,
        geometry: Option<Geometry>,
        stream: Stream,
    ) -> Result<(), Error> {
        self.check_norm()?;
        if self.is_empty() {
            // A row without elements has no mean. All bits set is a NaN.
            let rows = if self.norm.n == 0 { self.norm.rows } else { 0 };
            // SAFETY: the caller vouches for the addresses of the statistics.
            return unsafe { fill(call.stats, rows * self.norm.element.accumulator_bytes(), stream, self.device) };
        }
        self.check("input", call.x)?;
        self.check("output", call.y)?;
        if let Some((residual, h)) = call.residual {
            self.check("residual", residual)?;
            self.check("residual output", h)?;
        }
        self.device.bind()?;
        // SAFETY: the caller's promise.
        unsafe {
            match self.norm.element {
                Type::F64 => self.forward_in::<f64>(call, geometry, stream),
                _ => self.forward_in::<f32>(call, geometry, stream),
            }
        }
    }

    unsafe fn forward_in<A: Accumulator>(
        &self,
        call: &Forward,
        geometry: Option<Geometry>,
        stream: Stream,
    ) -> Result<(), Error> {
        let RowNorm { element, rows, n, affine, eps, .. } = self.norm;
        let (residual, h) = call.residual.unzip();
        let (residual_rows, h_rows) = (rows_or_null(residual), rows_or_null(h));
        let stats = call.stats.unwrap_or(Stats { m: 0, delta: 0, rstd: 0 });
        let aligned = self.aligned(&[call.x, call.y, residual_rows, h_rows]);
        let tensors = 1 + usize::from(residual.is_some());
        let properties = self.device.properties();
        let plain = aligned && residual.is_none() && self.channels == Channels::FEATURES;
        let streams = || {
            let found = config::stream_forward(element, n, self.norm.params(true), properties);
            found.filter(|found| plain && config::streams_forward(element, rows, n, found, properties))
        };
        let few = || config::lanes(rows, n, false, properties).filter(|_| self.channels == Channels::FEATURES);
        let fallback = || config::forward(element, rows, n, aligned, tensors, properties);
        // One thread per row requires contiguous rows without gaps.
        let packed = [call.x, call.y].iter().all(|rows| rows.stride == n as i64);
        let each = || config::each_forward(element, rows, n, properties);
        let possible = |one: &Geometry| !one.each || (plain && packed);
        let short = geometry.or_else(few).or_else(each).filter(possible);
        let Some(geometry) = short.or_else(streams).or_else(fallback) else {
            let params = LongParams::<A> {
                x: call.x.address,
                other: residual_rows.address,
                dh: 0,
                h: h_rows.address,
                to: call.y.address,
                gain: address(affine.gain),
                bias: address(affine.bias),
                m: stats.m,
                delta: stats.delta,
                rstd: stats.rstd,
                lines: 0,
                rows: rows as i64,
                n: n as i64,
                stride_x: call.x.stride,
                stride_other: residual_rows.stride,
                stride_dh: 0,
                stride_h: h_rows.stride,
                stride_to: call.y.stride,
                span: self.channels.span as i64,
                groups: self.channels.groups as i64,
                count: A::count(n),
                eps: A::eps(eps),
            };
            let function = self.device.function(&kernels::long(&self.norm, "forward", residual.is_some()))?;
            // SAFETY: the structure has the kernel's layout; the caller vouches for the memory.
            return unsafe { Launch::new(self.long_grid(), kernels::LONG_THREADS).run(&function, stream, &params) };
        };
        let variant = match &geometry.flow {
            Some(flow) => kernels::stream_forward(&self.norm, &geometry, flow),
            None if geometry.lanes => kernels::lanes_forward(&self.norm, &geometry, residual.is_some()),
            None if geometry.each => kernels::each_forward(&self.norm, &geometry),
            None => kernels::forward(&self.norm, &geometry, self.per_channel(), aligned, residual.is_some()),
        };
        let params = ForwardParams::<A> {
            x: call.x.address,
            residual: residual_rows.address,
            h: h_rows.address,
            y: call.y.address,
            gain: address(affine.gain),
            bias: address(affine.bias),
            m: stats.m,
            delta: stats.delta,
            rstd: stats.rstd,
            rows: rows as i64,
            n: n as i64,
            stride_x: call.x.stride,
            stride_residual: residual_rows.stride,
            stride_h: h_rows.stride,
            stride_y: call.y.stride,
            span: self.channels.span as i64,
            groups: self.channels.groups as i64,
            count: A::count(n),
            eps: A::eps(eps),
        };
        // SAFETY: the structure has the kernel's layout; the caller vouches for the memory.
        unsafe { self.launch(&variant, &geometry, rows, geometry.ring > 0, stream, &params) }
    }

    pub(crate) unsafe fn backward(
        &self,
        call: &Backward,
        workspace: Workspace,
        geometry: Option<(Geometry, bool)>,
        stream: Stream,
    ) -> Result<(), Error> {
        self.check_norm()?;
        self.device.bind()?;
        if self.is_empty() {
            // SAFETY: the caller vouches for the addresses of the gradients.
            return unsafe { call.gradients.zero(self.norm.element, self.norm.n, stream) };
        }
        for (what, rows) in [("input", Some(call.x)), ("gradient of the output", Some(call.dy)), ("dh", call.dh)] {
            rows.map_or(Ok(()), |rows| self.check(what, rows))?;
        }
        call.dx.map_or(Ok(()), |rows| self.check("gradient of the input", rows))?;
        workspace.check(self.norm.workspace(&call.gradients))?;
        // SAFETY: the caller's promise.
        unsafe {
            match self.norm.element {
                Type::F64 => self.backward_in::<f64>(call, workspace, geometry, stream),
                _ => self.backward_in::<f32>(call, workspace, geometry, stream),
            }
        }
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
        // SAFETY: the caller's promise.
        unsafe {
            match self.norm.element {
                Type::F64 => self.rows_alone::<f64>(call, lines, stream),
                _ => self.rows_alone::<f32>(call, lines, stream),
            }
        }
    }

    unsafe fn rows_alone<A: Accumulator>(&self, call: &Backward, lines: u64, stream: Stream) -> Result<(), Error> {
        let RowNorm { element, rows, n, .. } = self.norm;
        let aligned = self.aligned(&[call.x, call.dy, rows_or_null(call.dx)]);
        // SAFETY: the caller's promise.
        unsafe {
            match config::backward(element, rows, n, aligned, false, self.device.properties()) {
                Some(geometry) => self.rows_backward::<A>(call, &geometry, false, aligned, (0, 0, lines, 0), stream),
                None => self.long_backward::<A>(call, lines, stream),
            }
        }
    }

    unsafe fn backward_in<A: Accumulator>(
        &self,
        call: &Backward,
        workspace: Workspace,
        geometry: Option<(Geometry, bool)>,
        stream: Stream,
    ) -> Result<(), Error> {
        let RowNorm { element, rows, n, .. } = self.norm;
        let properties = self.device.properties();
        let aligned = self.aligned(&[call.x, call.dy, rows_or_null(call.dh), rows_or_null(call.dx)]);
        let wanted = call.gradients.wanted();
        let fused = wanted && self.channels == Channels::FEATURES && config::fuses_sums(element, rows, n, properties);
        let streams = || {
            let plain = fused && aligned && call.dh.is_none() && call.dx.is_some();
            let found = || config::stream_backward(element, n, self.norm.params(false), properties);
            plain.then(found).flatten().map(|found| (found, true))
        };
        let few = || {
            let plain = self.channels == Channels::FEATURES && !fused;
            config::lanes(rows, n, true, properties).filter(|_| plain).map(|found| (found, false))
        };
        let fallback = || config::backward(element, rows, n, aligned, fused, properties).map(|found| (found, fused));
        let chosen = geometry.or_else(few).or_else(streams).or_else(fallback);
        let fused = chosen.is_some_and(|(_, fused)| fused);
        // Layout of the workspace: the statistics of scaled rows, then messages between blocks, then the sums.
        let lines = if wanted { workspace.address } else { 0 };
        let messages = workspace.address + self.norm.lines_bytes() as u64;
        let sums = messages + self.norm.messages_bytes() as u64;
        // SAFETY: the caller's promise.
        unsafe {
            let mut parts = rows.div_ceil(CHUNK);
            match chosen {
                Some((geometry, fused)) if wanted || call.dx.is_some() => {
                    if fused {
                        parts = parts.div_ceil(32 / geometry.team.min(32));
                    }
                    self.rows_backward::<A>(call, &geometry, fused, aligned, (parts, sums, lines, messages), stream)?;
                }
                None if wanted || call.dx.is_some() => self.long_backward::<A>(call, lines, stream)?,
                _ => {}
            }
            if wanted {
                let view = ColumnParams::<A>::rows(&self.norm, call, lines);
                let kinds = self.norm.into();
                if let Some(shape) = columns::down_shape(&kinds, &view, self.device).filter(|_| !fused) {
                    return columns::down(self.device, &kinds, &view, &shape, &call.gradients, stream);
                }
                if !fused {
                    columns::sums(self.device, &kinds, &view, columns::Terms::Parameters, 0, sums, stream)?;
                }
                columns::finish_gradients(self.device, &kinds, &view, parts, &call.gradients, sums, stream)?;
            }
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments, reason = "one call site; all are plain numbers of the launch")]
    unsafe fn rows_backward<A: Accumulator>(
        &self,
        call: &Backward,
        geometry: &Geometry,
        fused: bool,
        aligned: bool,
        (parts, sums, lines, messages): (usize, u64, u64, u64),
        stream: Stream,
    ) -> Result<(), Error> {
        let RowNorm { rows, n, affine, eps, .. } = self.norm;
        let (dh, dx) = (rows_or_null(call.dh), rows_or_null(call.dx));
        let params = BackwardParams::<A> {
            x: call.x.address,
            dy: call.dy.address,
            dh: dh.address,
            dx: dx.address,
            gain: address(affine.gain),
            m: call.stats.m,
            delta: call.stats.delta,
            rstd: call.stats.rstd,
            sums,
            lines,
            messages,
            rows: rows as i64,
            n: n as i64,
            parts: parts as i64,
            stride_x: call.x.stride,
            stride_dy: call.dy.stride,
            stride_dh: dh.stride,
            stride_dx: dx.stride,
            span: self.channels.span as i64,
            groups: self.channels.groups as i64,
            count: A::count(n),
            eps: A::eps(eps),
        };
        let per_channel = self.per_channel();
        let variant = match &geometry.flow {
            Some(flow) => kernels::stream_backward(&self.norm, geometry, flow),
            None if geometry.lanes => {
                kernels::lanes_backward(&self.norm, geometry, call.dh.is_some(), call.dx.is_some())
            }
            None => {
                let wanted = (fused, call.dx.is_some());
                kernels::backward(&self.norm, geometry, per_channel, aligned, call.dh.is_some(), wanted)
            }
        };
        let lines = if fused { rows.div_ceil(CHUNK) } else { rows };
        if geometry.across() {
            // SAFETY: as below.
            return unsafe { self.launch_across(&variant, geometry, lines, messages, stream, &params) };
        }
        let in_turn = (!fused && !geometry.lanes) || (geometry.flow.is_some() && geometry.cluster > 1);
        // SAFETY: the structure has the kernel's layout; the caller vouches for the memory.
        unsafe { self.launch(&variant, geometry, lines, in_turn, stream, &params) }
    }

    unsafe fn long_backward<A: Accumulator>(&self, call: &Backward, lines: u64, stream: Stream) -> Result<(), Error> {
        let RowNorm { rows, n, affine, eps, .. } = self.norm;
        let (dh, dx) = (rows_or_null(call.dh), rows_or_null(call.dx));
        let params = LongParams::<A> {
            x: call.x.address,
            other: call.dy.address,
            dh: dh.address,
            h: 0,
            to: dx.address,
            gain: address(affine.gain),
            bias: 0,
            m: call.stats.m,
            delta: call.stats.delta,
            rstd: call.stats.rstd,
            lines,
            rows: rows as i64,
            n: n as i64,
            stride_x: call.x.stride,
            stride_other: call.dy.stride,
            stride_dh: dh.stride,
            stride_h: 0,
            stride_to: dx.stride,
            span: self.channels.span as i64,
            groups: self.channels.groups as i64,
            count: A::count(n),
            eps: A::eps(eps),
        };
        let function = self.device.function(&kernels::long(&self.norm, "backward", call.dh.is_some()))?;
        // SAFETY: the structure has the kernel's layout; the caller vouches for the memory.
        unsafe { Launch::new(self.long_grid(), kernels::LONG_THREADS).run(&function, stream, &params) }
    }
}
