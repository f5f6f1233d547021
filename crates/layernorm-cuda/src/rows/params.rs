//! Kernel parameters, field by field, as declared in `kernels/params.cuh` and `long.cu`.

use super::{Backward, Forward, Job, RowNorm};
use crate::layout::{by_accumulator, device_struct};
use crate::types::{Accumulator, Count, Rows, Stats, address, lines_assertion};

/// Layout assertions for `params.cuh`.
pub(crate) fn forward_layout() -> String {
    by_accumulator!(Count, ForwardParams, BackwardParams)
}

/// The same for kernels that write the statistics of scaled rows.
pub(crate) fn backward_layout() -> String {
    forward_layout() + &lines_assertion()
}

/// Layout assertions for `long.cu`.
pub(crate) fn long_layout() -> String {
    by_accumulator!(Count, LongParams) + &lines_assertion()
}

device_struct! {
    /// As declared in `params.cuh`.
    pub(super) struct ForwardParams<A> as "ForwardParams" {
        x: u64,
        residual: u64,
        h: u64,
        y: u64,
        gain: u64,
        bias: u64,
        m: u64,
        delta: u64,
        rstd: u64,
        rows: i64,
        n: i64,
        stride_x: i64,
        stride_residual: i64,
        stride_h: i64,
        stride_y: i64,
        span: i64,
        groups: i64,
        count: Count<A>,
        eps: A,
    }
}

device_struct! {
    /// As declared in `params.cuh`.
    pub(super) struct BackwardParams<A> as "BackwardParams" {
        x: u64,
        dy: u64,
        dh: u64,
        dx: u64,
        gain: u64,
        m: u64,
        delta: u64,
        rstd: u64,
        sums: u64,
        lines: u64,
        messages: u64,
        rows: i64,
        n: i64,
        parts: i64,
        stride_x: i64,
        stride_dy: i64,
        stride_dh: i64,
        stride_dx: i64,
        span: i64,
        groups: i64,
        count: Count<A>,
        eps: A,
    }
}

device_struct! {
    /// As declared in `long.cu`.
    pub(super) struct LongParams<A> as "Params" {
        x: u64,
        other: u64,
        dh: u64,
        h: u64,
        to: u64,
        gain: u64,
        bias: u64,
        m: u64,
        delta: u64,
        rstd: u64,
        lines: u64,
        rows: i64,
        n: i64,
        stride_x: i64,
        stride_other: i64,
        stride_dh: i64,
        stride_h: i64,
        stride_to: i64,
        span: i64,
        groups: i64,
        count: Count<A>,
        eps: A,
    }
}

/// Where a backward pass puts what the sums for γ and β need: device addresses in the workspace, or 0.
#[derive(Clone, Copy)]
pub(super) struct Scratch {
    /// Statistics of scaled rows.
    pub(super) lines: u64,
    /// Messages between blocks that share a row.
    pub(super) messages: u64,
    /// Partial sums of a pass that computes them.
    pub(super) sums: u64,
    /// Number of partial sums per column.
    pub(super) parts: usize,
}

const NO_STATS: Stats = Stats { m: 0, delta: 0, rstd: 0 };

/// No rows: a null pointer.
pub(super) fn rows_or_null(rows: Option<Rows>) -> Rows {
    rows.unwrap_or(Rows { address: 0, stride: 0 })
}

impl<A: Accumulator> ForwardParams<A> {
    pub(super) fn new(job: &Job, call: &Forward) -> Self {
        let RowNorm { rows, n, affine, eps, .. } = job.norm;
        let (residual, h) = call.residual.unzip();
        let (residual, h, stats) = (rows_or_null(residual), rows_or_null(h), call.stats.unwrap_or(NO_STATS));
        ForwardParams {
            x: call.x.address,
            residual: residual.address,
            h: h.address,
            y: call.y.address,
            gain: address(affine.gain),
            bias: address(affine.bias),
            m: stats.m,
            delta: stats.delta,
            rstd: stats.rstd,
            rows: rows as i64,
            n: n as i64,
            stride_x: call.x.stride,
            stride_residual: residual.stride,
            stride_h: h.stride,
            stride_y: call.y.stride,
            span: job.channels.span as i64,
            groups: job.channels.groups as i64,
            count: A::count(n),
            eps: A::eps(eps),
        }
    }
}

impl<A: Accumulator> BackwardParams<A> {
    pub(super) fn new(job: &Job, call: &Backward, scratch: &Scratch) -> Self {
        let RowNorm { rows, n, affine, eps, .. } = job.norm;
        let (dh, dx) = (rows_or_null(call.dh), rows_or_null(call.dx));
        BackwardParams {
            x: call.x.address,
            dy: call.dy.address,
            dh: dh.address,
            dx: dx.address,
            gain: address(affine.gain),
            m: call.stats.m,
            delta: call.stats.delta,
            rstd: call.stats.rstd,
            sums: scratch.sums,
            lines: scratch.lines,
            messages: scratch.messages,
            rows: rows as i64,
            n: n as i64,
            parts: scratch.parts as i64,
            stride_x: call.x.stride,
            stride_dy: call.dy.stride,
            stride_dh: dh.stride,
            stride_dx: dx.stride,
            span: job.channels.span as i64,
            groups: job.channels.groups as i64,
            count: A::count(n),
            eps: A::eps(eps),
        }
    }
}

impl<A: Accumulator> LongParams<A> {
    pub(super) fn forward(job: &Job, call: &Forward) -> Self {
        let RowNorm { rows, n, affine, eps, .. } = job.norm;
        let (residual, h) = call.residual.unzip();
        let (residual, h, stats) = (rows_or_null(residual), rows_or_null(h), call.stats.unwrap_or(NO_STATS));
        LongParams {
            x: call.x.address,
            other: residual.address,
            dh: 0,
            h: h.address,
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
            stride_other: residual.stride,
            stride_dh: 0,
            stride_h: h.stride,
            stride_to: call.y.stride,
            span: job.channels.span as i64,
            groups: job.channels.groups as i64,
            count: A::count(n),
            eps: A::eps(eps),
        }
    }

    /// `lines`: where the statistics of scaled rows are written, or 0.
    pub(super) fn backward(job: &Job, call: &Backward, lines: u64) -> Self {
        let RowNorm { rows, n, affine, eps, .. } = job.norm;
        let (dh, dx) = (rows_or_null(call.dh), rows_or_null(call.dx));
        LongParams {
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
            span: job.channels.span as i64,
            groups: job.channels.groups as i64,
            count: A::count(n),
            eps: A::eps(eps),
        }
    }
}
