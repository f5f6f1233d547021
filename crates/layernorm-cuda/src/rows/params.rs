//! The kernels' parameters, field by field, as `kernels/params.cuh` and `long.cu` have them.

use crate::types::Count;

/// As `params.cuh` has them.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ForwardParams<A> {
    pub(super) x: u64,
    pub(super) residual: u64,
    pub(super) h: u64,
    pub(super) y: u64,
    pub(super) gain: u64,
    pub(super) bias: u64,
    pub(super) m: u64,
    pub(super) delta: u64,
    pub(super) rstd: u64,
    pub(super) rows: i64,
    pub(super) n: i64,
    pub(super) strides: [i64; 4],
    pub(super) span: i64,
    pub(super) groups: i64,
    pub(super) count: Count<A>,
    pub(super) eps: A,
}

/// As `params.cuh` has them.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct BackwardParams<A> {
    pub(super) x: u64,
    pub(super) dy: u64,
    pub(super) dh: u64,
    pub(super) dx: u64,
    pub(super) gain: u64,
    pub(super) m: u64,
    pub(super) delta: u64,
    pub(super) rstd: u64,
    pub(super) sums: u64,
    pub(super) lines: u64,
    pub(super) messages: u64,
    pub(super) rows: i64,
    pub(super) n: i64,
    pub(super) parts: i64,
    pub(super) strides: [i64; 4],
    pub(super) span: i64,
    pub(super) groups: i64,
    pub(super) count: Count<A>,
    pub(super) eps: A,
}

/// As `long.cu` has them.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct LongParams<A> {
    pub(super) x: u64,
    pub(super) other: u64,
    pub(super) dh: u64,
    pub(super) h: u64,
    pub(super) to: u64,
    pub(super) gain: u64,
    pub(super) bias: u64,
    pub(super) m: u64,
    pub(super) delta: u64,
    pub(super) rstd: u64,
    pub(super) lines: u64,
    pub(super) rows: i64,
    pub(super) n: i64,
    pub(super) strides: [i64; 5],
    pub(super) span: i64,
    pub(super) groups: i64,
    pub(super) count: Count<A>,
    pub(super) eps: A,
}
