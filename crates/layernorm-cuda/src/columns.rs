//! Sums down the columns of a tensor of positions and columns (rule 5), and the gradients of γ and β computed from
//! them.

use crate::config::{self, CHUNK, Down};
use crate::device::Device;
use crate::driver::call;
use crate::error::Error;
use crate::kernels::{self, COLUMN_THREADS, Kinds};
use crate::launch::{Launch, Stream, grid};
use crate::layout::{by_accumulator, device_struct};
use crate::rows::{Backward, RowNorm};
use crate::types::{Accumulator, Count, Param, Type, address, lines_assertion, product};

/// Where the gradients of γ and β are written. A gradient that is `None` is not computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gradients {
    /// dγ.
    pub gain: Option<Param>,
    /// dβ.
    pub bias: Option<Param>,
}

impl Gradients {
    /// Whether any gradient is wanted.
    pub fn wanted(&self) -> bool {
        self.gain.is_some() || self.bias.is_some()
    }

    /// Sets the gradients to 0, as they are for zero rows.
    ///
    /// # Safety
    /// The gradients have `count` elements each; the device's context is current.
    pub(crate) unsafe fn zero(&self, element: Type, count: usize, stream: Stream) -> Result<(), Error> {
        for param in [self.gain, self.bias].into_iter().flatten() {
            let bytes = product(&[count, if param.f32 { 4 } else { element.bytes() }]);
            if bytes > 0 {
                // SAFETY: guaranteed by the caller.
                unsafe { call!(cuMemsetD8Async(param.address, 0, bytes, stream.0))? };
            }
        }
        Ok(())
    }
}

/// Which sums are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Terms {
    /// sum(x).
    Values,
    /// sum(d) and sum(d·d).
    Deviations,
    /// sum(dy·x̂) and sum(dy).
    Parameters,
    /// sum(dy·x̂), sum(dy), sum(g·x̂) and sum(g).
    Gradients,
}

impl Terms {
    pub(crate) fn count(self) -> usize {
        match self {
            Terms::Values => 1,
            Terms::Deviations | Terms::Parameters => 2,
            Terms::Gradients => 4,
        }
    }
}

device_struct! {
    /// A tensor as positions and columns, with strides for samples, columns and places. If `groups` > 0, each sample
    /// has that many groups of columns that share statistics; if 0, statistics are per column. `lines`: address of the
    /// statistics of scaled rows, or 0.
    pub(crate) struct ColumnParams<A> as "Columns" {
        x: u64,
        dy: u64,
        samples: i64,
        columns: i64,
        space: i64,
        x_sample: i64,
        x_column: i64,
        x_place: i64,
        dy_sample: i64,
        dy_column: i64,
        dy_place: i64,
        m: u64,
        delta: u64,
        rstd: u64,
        groups: i64,
        fixed: i64,
        lines: u64,
        eps: A,
    }
}

/// Layout assertions for `columns.cuh`.
fn view_layout() -> String {
    by_accumulator!(Count, ColumnParams) + &lines_assertion()
}

/// Layout assertions for `columns.cu`.
pub(crate) fn sums_layout() -> String {
    view_layout() + &by_accumulator!(SumParams)
}

/// Layout assertions for `finish.cu`.
pub(crate) fn finish_layout() -> String {
    view_layout() + &by_accumulator!(FinishParams)
}

/// Layout assertions for `down.cuh`.
pub(crate) fn down_layout() -> String {
    view_layout() + &by_accumulator!(DownParams)
}

/// Layout assertions for `batch.cu`, without its own structures.
pub(crate) fn columns_layout() -> String {
    view_layout()
}

impl<A: Accumulator> ColumnParams<A> {
    /// Rows as samples, their features as columns.
    pub(crate) fn rows(norm: &RowNorm, call: &Backward, lines: u64) -> Self {
        ColumnParams {
            x: call.x.address,
            dy: call.dy.address,
            samples: norm.rows as i64,
            columns: norm.n as i64,
            space: 1,
            x_sample: call.x.stride,
            x_column: 1,
            x_place: 0,
            dy_sample: call.dy.stride,
            dy_column: 1,
            dy_place: 0,
            m: if norm.centered { call.stats.m } else { 0 },
            delta: if norm.centered { call.stats.delta } else { 0 },
            rstd: call.stats.rstd,
            groups: 1,
            fixed: 0,
            lines,
            eps: A::eps(norm.eps),
        }
    }

    fn positions(&self) -> usize {
        (self.samples * self.space) as usize
    }

    /// Number of chunks of positions.
    pub(crate) fn chunks(&self) -> usize {
        self.positions().div_ceil(CHUNK)
    }

    /// Whether positions are samples, with statistics per sample or per column.
    fn flat(&self) -> bool {
        self.space == 1 && self.groups <= 1
    }

    /// Width, in elements, of the widest vectors to which the rows of both tensors are aligned.
    pub(crate) fn vector_width(&self, element: Type) -> usize {
        let bytes = element.bytes() as u64;
        let whole = |wide: u64| {
            let rows = |address: u64, stride: i64| address.is_multiple_of(wide * bytes) && stride % wide as i64 == 0;
            rows(self.x, self.x_sample) && rows(self.dy, self.dy_sample) && self.columns % wide as i64 == 0
        };
        [8, 4, 2].into_iter().find(|&wide| whole(wide)).unwrap_or(1) as usize
    }

    /// Whether neighboring threads should have neighboring columns.
    pub(crate) fn across(&self) -> bool {
        self.x_column == 1
    }
}

device_struct! {
    struct SumParams<A> as "Params" {
        c: ColumnParams<A>,
        gain: u64,
        sums: u64,
    }
}

/// Computes the sums of every chunk, `[kinds][chunks][columns]`, into `sums`.
///
/// # Safety
/// The addresses are valid; the device's context is current.
pub(crate) unsafe fn sums<A: Accumulator>(
    device: &Device,
    kinds: &Kinds,
    view: &ColumnParams<A>,
    terms: Terms,
    gain: u64,
    sums: u64,
    stream: Stream,
) -> Result<(), Error> {
    let kinds = if gain == 0 { Kinds { gain: 0, zero_centered: false, ..*kinds } } else { *kinds };
    let function = device.function(&kernels::columns(kinds, terms as u32, view.across(), view.flat()))?;
    let work = view.chunks() * view.columns as usize;
    let blocks = work.div_ceil(COLUMN_THREADS as usize).min(i32::MAX as usize) as u32;
    let params = SumParams { c: *view, gain, sums };
    // SAFETY: the structure has the kernel's layout; the caller guarantees valid memory.
    unsafe { Launch::new(blocks, COLUMN_THREADS).run(&function, stream, &params) }
}

device_struct! {
    struct FinishParams<A> as "Params" {
        c: ColumnParams<A>,
        sums: u64,
        parts: i64,
        raw: u64,
        dgain: u64,
        dbias: u64,
        count: Count<A>,
    }
}

/// What is computed from the sums of the chunks.
pub(crate) enum Output {
    /// The sums, `[kinds][columns]`, written to this address.
    Raw(u64),
    /// Their means, written to this address.
    Mean(u64),
    /// dγ and dβ.
    Gradients(Gradients),
}

/// The sums of the chunks, and what is computed from them.
pub(crate) struct Fold {
    /// Which sums there are.
    pub(crate) terms: Terms,
    /// Number of chunks, or of partial sums per column.
    pub(crate) parts: usize,
    /// Device address of the sums, `[kinds][parts][columns]`.
    pub(crate) sums: u64,
    /// What is computed.
    pub(crate) output: Output,
}

/// Folds the sums of the chunks.
///
/// # Safety
/// The addresses are valid; the device's context is current.
pub(crate) unsafe fn finish<A: Accumulator>(
    device: &Device,
    kinds: &Kinds,
    view: &ColumnParams<A>,
    fold: &Fold,
    stream: Stream,
) -> Result<(), Error> {
    let Fold { terms, parts, sums, .. } = *fold;
    let shape = config::finish_shape(view.columns as usize, parts);
    let mut params = FinishParams {
        c: *view,
        sums,
        parts: parts as i64,
        raw: 0,
        dgain: 0,
        dbias: 0,
        count: A::count(view.positions()),
    };
    let kinds = Kinds { zero_centered: false, ..*kinds };
    let (kinds, number) = match &fold.output {
        Output::Raw(to) => {
            params.raw = *to;
            (Kinds { gain: 0, bias: 0, ..kinds }, 0)
        }
        Output::Mean(to) => {
            params.raw = *to;
            (Kinds { gain: 0, bias: 0, ..kinds }, 1)
        }
        Output::Gradients(to) => {
            (params.dgain, params.dbias) = (address(to.gain), address(to.bias));
            (kinds.of(to.gain, to.bias), 2)
        }
    };
    let function = device.function(&kernels::finish(kinds, terms.count(), number, shape))?;
    let blocks = grid((view.columns as usize).div_ceil(shape.0))?;
    let launch = Launch { grid: (blocks, terms.count() as u32, 1), ..Launch::new(blocks, shape.1 as u32) };
    // SAFETY: the structure has the kernel's layout; the caller guarantees valid memory.
    unsafe { launch.run(&function, stream, &params) }
}

device_struct! {
    struct DownParams<A> as "Params" {
        c: ColumnParams<A>,
        each: i64,
        dgain: u64,
        dbias: u64,
    }
}

/// Computes dγ and dβ of rows in one launch, which may overlap with the pass over the rows launched before it.
///
/// # Safety
/// The addresses are valid; the device's context is current; the previous launch on the stream is the pass over the
/// rows.
pub(crate) unsafe fn down<A: Accumulator>(
    device: &Device,
    kinds: &Kinds,
    view: &ColumnParams<A>,
    shape: &Down,
    gradients: &Gradients,
    stream: Stream,
) -> Result<(), Error> {
    let kinds = Kinds { zero_centered: false, ..*kinds }.of(gradients.gain, gradients.bias);
    let function = device.function(&kernels::down(kinds, shape))?;
    let params = DownParams {
        c: *view,
        each: shape.warp_chunks as i64,
        dgain: address(gradients.gain),
        dbias: address(gradients.bias),
    };
    let blocks = (view.columns as usize).div_ceil(shape.tile()) * shape.cluster;
    let launch = Launch::new(grid(blocks)?, shape.threads() as u32).cluster(shape.cluster as u32);
    let launch = launch.overlapping(device.properties().clusters);
    // SAFETY: the structure has the kernel's layout; the caller guarantees valid memory.
    unsafe { launch.run(&function, stream, &params) }
}
