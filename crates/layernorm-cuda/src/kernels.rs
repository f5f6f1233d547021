//! The kernels and their specialization.

use crate::channels::batch;
use crate::columns;
use crate::config::{Down, Long, PORTABLE_CLUSTER, Registers, Streaming, ThreadPerLane, ThreadPerRow};
use crate::module::Variant;
use crate::nvrtc::Source;
use crate::rows::{RowNorm, params};
use crate::types::{Param, Type, kind};

type Header = (&'static str, &'static str);

macro_rules! header {
    ($name:ident, $file:literal) => {
        const $name: Header = ($file, include_str!(concat!("../kernels/", $file)));
    };
}
header!(NUMBER, "number.cuh");
header!(TERMS, "terms.cuh");
header!(BULK, "bulk.cuh");
header!(MESSAGES, "messages.cuh");
header!(PARAMS, "params.cuh");
header!(ROWS, "rows.cuh");
header!(STATS, "stats.cuh");
header!(STREAM, "stream.cuh");
header!(LANES, "lanes.cuh");
header!(DOWN_H, "down.cuh");
header!(COLUMNS_H, "columns.cuh");

macro_rules! source {
    ($name:ident, $file:literal, [$($header:ident),*], $layout:path) => {
        static $name: Source = Source {
            name: $file,
            text: include_str!(concat!("../kernels/", $file)),
            headers: &[$($header),*],
            layout: $layout,
        };
    };
}
source!(FORWARD, "forward.cu", [NUMBER, TERMS, PARAMS, BULK, MESSAGES, ROWS, STATS], params::forward_layout);
source!(BACKWARD, "backward.cu", [NUMBER, TERMS, PARAMS, BULK, MESSAGES, ROWS, STATS], params::backward_layout);
source!(
    STREAM_FORWARD,
    "stream_forward.cu",
    [NUMBER, TERMS, PARAMS, BULK, MESSAGES, ROWS, STATS, STREAM],
    params::forward_layout
);
source!(
    STREAM_BACKWARD,
    "stream_backward.cu",
    [NUMBER, TERMS, PARAMS, BULK, MESSAGES, ROWS, STATS, STREAM],
    params::backward_layout
);
source!(LONG, "long.cu", [NUMBER, TERMS, BULK, MESSAGES, ROWS, COLUMNS_H], params::long_layout);
source!(COLUMNS, "columns.cu", [NUMBER, TERMS, COLUMNS_H], columns::sums_layout);
source!(FINISH, "finish.cu", [NUMBER, TERMS, COLUMNS_H], columns::finish_layout);
source!(EACH_FORWARD, "each_forward.cu", [NUMBER, TERMS, PARAMS, BULK], params::forward_layout);
source!(LANES_FORWARD, "lanes_forward.cu", [NUMBER, TERMS, PARAMS, LANES], params::forward_layout);
source!(LANES_BACKWARD, "lanes_backward.cu", [NUMBER, TERMS, PARAMS, LANES], params::backward_layout);
source!(DOWN, "down.cu", [NUMBER, TERMS, COLUMNS_H, DOWN_H], columns::down_layout);
source!(DOWN_CHUNK, "down_chunk.cu", [NUMBER, TERMS, COLUMNS_H, DOWN_H], columns::down_layout);
source!(BATCH, "batch.cu", [NUMBER, TERMS, COLUMNS_H], batch::batch_layout);

/// Threads per block of the column kernels.
pub(crate) const COLUMN_THREADS: u32 = 256;

/// Types of the elements and parameters, as the kernels' preprocessor definitions need them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kinds {
    pub(crate) element: Type,
    pub(crate) centered: bool,
    pub(crate) zero_centered: bool,
    pub(crate) gain: u32,
    pub(crate) bias: u32,
}

impl From<RowNorm> for Kinds {
    fn from(norm: RowNorm) -> Self {
        Kinds {
            element: norm.element,
            centered: norm.centered,
            zero_centered: norm.affine.zero_centered && norm.affine.gain.is_some(),
            gain: kind(norm.affine.gain, norm.element),
            bias: kind(norm.affine.bias, norm.element),
        }
    }
}

impl Kinds {
    /// With the types of these in place of γ and β: used for gradients.
    pub(crate) fn of(self, gain: Option<Param>, bias: Option<Param>) -> Self {
        Kinds { gain: kind(gain, self.element), bias: kind(bias, self.element), ..self }
    }

    fn define(self, variant: Variant) -> Variant {
        variant
            .define("ELEM", self.element.number())
            .define("CENTERED", u32::from(self.centered))
            .define("ONE_PLUS", u32::from(self.zero_centered))
            .define("GAIN", self.gain)
            .define("BIAS", self.bias)
    }
}

/// The definitions of `rows.cuh`, on which all kernels with teams build.
#[derive(Clone, Copy)]
struct Teams {
    team: usize,
    warps: usize,
    cluster: usize,
    vectors: usize,
    /// In the kernel's own unit: steps or pieces.
    ring: usize,
    threads: usize,
    keeps_params: bool,
    min_blocks: usize,
    per_channel: bool,
    aligned: bool,
    /// Whether every vector of every thread exists.
    full: bool,
    residual: bool,
}

impl Teams {
    fn registers(shape: &Registers, n: usize, options: Options) -> Self {
        let Options { per_channel, aligned, residual } = options;
        let Registers { team, warps, cluster, vectors, ring_steps, threads, keeps_params, min_blocks, .. } = *shape;
        let full = aligned && shape.is_full(n);
        Teams {
            team,
            warps,
            cluster,
            vectors,
            ring: ring_steps,
            threads,
            keeps_params,
            min_blocks,
            per_channel,
            aligned,
            full,
            residual,
        }
    }

    fn streaming(shape: &Streaming, n: usize) -> Self {
        let Streaming { warps, row_blocks, vectors, ring_pieces, threads, min_blocks, .. } = *shape;
        Teams {
            team: 32,
            warps,
            cluster: row_blocks,
            vectors,
            ring: ring_pieces,
            threads,
            keeps_params: false,
            min_blocks,
            per_channel: false,
            aligned: true,
            full: shape.is_full(n),
            residual: false,
        }
    }

    fn long(shape: &Long, element: Type, residual: bool) -> Self {
        Teams {
            team: 32,
            warps: shape.warps(),
            cluster: 1,
            vectors: shape.vectors(element),
            ring: 0,
            threads: shape.threads,
            keeps_params: false,
            min_blocks: 1,
            per_channel: false,
            aligned: false,
            full: false,
            residual,
        }
    }

    fn define(self, variant: Variant) -> Variant {
        variant
            .define("TEAM", self.team)
            .define("WARPS", self.warps)
            .define("CLUSTER", self.cluster)
            .define("VECS", self.vectors)
            .define("RING", self.ring)
            .define("THREADS", self.threads)
            .define("KEEP", u32::from(self.keeps_params))
            .define("MIN_BLOCKS", self.min_blocks)
            .define("PER_CHANNEL", u32::from(self.per_channel))
            .define("ALIGNED", u32::from(self.aligned))
            .define("FULL", u32::from(self.full))
            .define("RESIDUAL", u32::from(self.residual))
    }
}

/// What a call to the kernels that hold rows in registers has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Whether γ and β are per channel.
    pub(crate) per_channel: bool,
    /// Whether all operands consist of whole 16-byte vectors.
    pub(crate) aligned: bool,
    /// Whether there is a residual, or in a backward pass its gradient dh.
    pub(crate) residual: bool,
}

/// Rows held in registers, without the kernel's own definitions.
fn registers(variant: Variant, norm: &RowNorm, shape: &Registers, options: Options) -> Variant {
    let variant = Teams::registers(shape, norm.n, options).define(variant);
    let variant = match shape.vector_elements * norm.element.bytes() {
        16 => variant,
        bytes => variant.define("WORD_BYTES", bytes),
    };
    Variant { large_clusters: shape.cluster > PORTABLE_CLUSTER, ..variant }
        .define("OVERLAPS", u32::from(shape.overlaps))
}

pub(crate) fn forward(norm: &RowNorm, shape: &Registers, options: Options) -> Variant {
    let variant = Kinds::from(*norm).define(Variant::new(&FORWARD, "forward"));
    let tensors = 1 + usize::from(options.residual);
    registers(variant, norm, shape, options).shared(shape.ring_bytes(tensors))
}

/// `dx`: whether dx is wanted.
pub(crate) fn backward(norm: &RowNorm, shape: &Registers, options: Options, dx: bool) -> Variant {
    let variant = Kinds { bias: 0, ..Kinds::from(*norm) }.define(Variant::new(&BACKWARD, "backward"));
    registers(variant, norm, shape, options)
        .define("SUMS", u32::from(shape.sums))
        .define("DX", u32::from(dx))
        .shared(shape.ring_bytes(2))
}

/// Few rows, one thread per lane of the canonical sum.
fn lanes(variant: Variant, norm: &RowNorm, shape: &ThreadPerLane, residual: bool) -> Variant {
    variant
        .define("BLOCKS", shape.sum_blocks)
        .define("THREADS", shape.threads())
        .define("MIN_BLOCKS", 1)
        .define("FULL", u32::from(shape.is_full(norm.n)))
        .define("RESIDUAL", u32::from(residual))
}

pub(crate) fn lanes_forward(norm: &RowNorm, shape: &ThreadPerLane, residual: bool) -> Variant {
    lanes(Kinds::from(*norm).define(Variant::new(&LANES_FORWARD, "forward")), norm, shape, residual)
}

pub(crate) fn lanes_backward(norm: &RowNorm, shape: &ThreadPerLane, residual: bool, dx: bool) -> Variant {
    let kinds = Kinds { bias: 0, ..Kinds::from(*norm) };
    let variant = kinds.define(Variant::new(&LANES_BACKWARD, "backward"));
    lanes(variant, norm, shape, residual).define("DX", u32::from(dx))
}

/// Short rows, one thread per row.
pub(crate) fn each_forward(norm: &RowNorm, shape: &ThreadPerRow) -> Variant {
    Kinds::from(*norm)
        .define(Variant::new(&EACH_FORWARD, "forward"))
        .define("VECS", shape.vectors)
        .define("RING", shape.buffered_rows)
        .define("THREADS", shape.threads)
        .define("MIN_BLOCKS", shape.min_blocks)
        .define("HINT", 0)
        .shared(shape.buffer_bytes())
}

/// The sums for γ and β in one launch; `kinds` has the types of the gradients.
pub(crate) fn down(kinds: Kinds, shape: &Down) -> Variant {
    let variant = match shape.block_rows {
        Some(rows) => Variant::new(&DOWN_CHUNK, "down").define("HEIGHT", rows),
        None => Variant::new(&DOWN, "down").define("LEVELS", shape.levels()),
    };
    kinds
        .define(variant)
        .define("THREADS", shape.threads())
        .define("MIN_BLOCKS", shape.blocks())
        .define("WIDE", shape.thread_columns)
        .define("CLUSTER", shape.cluster)
        .define("SHARED_BYTES", shape.shared(kinds.element))
        .shared(shape.shared(kinds.element))
}

/// Forward pass of rows that stream through shared memory.
pub(crate) fn stream_forward(norm: &RowNorm, shape: &Streaming) -> Variant {
    let variant = Kinds::from(*norm).define(Variant::new(&STREAM_FORWARD, "forward"));
    streaming(variant, norm, shape).shared(shape.shared_bytes(norm.element, 1, norm.params(true)))
}

/// Backward pass of such rows: dx and the sums for γ and β.
pub(crate) fn stream_backward(norm: &RowNorm, shape: &Streaming) -> Variant {
    let kinds = Kinds { bias: 0, ..Kinds::from(*norm) };
    let variant = kinds.define(Variant::new(&STREAM_BACKWARD, "backward"));
    streaming(variant, norm, shape).shared(shape.shared_bytes(norm.element, 2, norm.params(false)))
}

fn streaming(variant: Variant, norm: &RowNorm, shape: &Streaming) -> Variant {
    let messages = shape.exchanges_messages();
    let variant = Teams::streaming(shape, norm.n)
        .define(variant)
        .define("WORD_BYTES", Streaming::vector_bytes(norm.element))
        .define("PIECES", shape.pieces)
        .define("HINT", shape.hint)
        .define("TALKING", u32::from(messages));
    let variant = match shape.row_end(norm.n) {
        Some(end) => variant.define("LAST", end.whole).define("MORE", u32::from(end.more)),
        None => variant,
    };
    // Blocks that exchange messages do not form a cluster.
    Variant { large_clusters: shape.row_blocks > PORTABLE_CLUSTER && !messages, ..variant }
}

/// Compiles only this kernel of a source with several, because each takes seconds.
fn only(variant: Variant) -> Variant {
    let name = format!("ENTRY_{}", variant.entry);
    variant.define(&name, 1)
}

/// Rows of any length.
pub(crate) fn long(norm: &RowNorm, shape: &Long, entry: &'static str, residual: bool) -> Variant {
    let variant = Kinds::from(*norm).define(only(Variant::new(&LONG, entry)));
    Teams::long(shape, norm.element, residual).define(variant)
}

/// `across`: neighboring threads have neighboring columns. `flat`: positions are samples.
pub(crate) fn columns(kinds: Kinds, terms: u32, across: bool, flat: bool) -> Variant {
    Kinds { bias: 0, ..kinds }
        .define(Variant::new(&COLUMNS, "columns"))
        .define("THREADS", COLUMN_THREADS)
        .define("TERMS", terms)
        .define("FLAT", u32::from(flat))
        .define("ACROSS", u32::from(across))
}

/// `shape`: columns and threads per block.
pub(crate) fn finish(kinds: Kinds, count: usize, output: u32, shape: (usize, usize)) -> Variant {
    kinds
        .define(Variant::new(&FINISH, "finish"))
        .define("THREADS", shape.1)
        .define("KINDS", count)
        .define("OUTPUT", output)
        .define("WIDE", shape.0)
}

pub(crate) fn batch(kinds: Kinds, entry: &'static str, across: bool) -> Variant {
    kinds
        .define(only(Variant::new(&BATCH, entry)))
        .define("THREADS", COLUMN_THREADS)
        .define("ACROSS", u32::from(across))
}
