//! Kernel parameters, field by field, as declared in `kernels/params.cuh` and `long.cu`.

use crate::layout::{by_accumulator, device_struct};
use crate::types::{Count, lines_assertion};

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
