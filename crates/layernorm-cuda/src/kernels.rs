//! The kernels and their specialization.

use crate::channels::batch;
use crate::columns;
use crate::config::{BLOCK, Down, Flow, Geometry, row_end};
use crate::module::Variant;
use crate::nvrtc::Source;
use crate::rows::{RowNorm, params};
use crate::types::{Param, Type, kind};

const NUMBER: (&str, &str) = ("number.cuh", include_str!("../kernels/number.cuh"));
const BULK: (&str, &str) = ("bulk.cuh", include_str!("../kernels/bulk.cuh"));
const MESSAGES: (&str, &str) = ("messages.cuh", include_str!("../kernels/messages.cuh"));
const PARAMS: (&str, &str) = ("params.cuh", include_str!("../kernels/params.cuh"));
const ROWS: (&str, &str) = ("rows.cuh", include_str!("../kernels/rows.cuh"));
const STATS: (&str, &str) = ("stats.cuh", include_str!("../kernels/stats.cuh"));
const STREAM: (&str, &str) = ("stream.cuh", include_str!("../kernels/stream.cuh"));
const LANES: (&str, &str) = ("lanes.cuh", include_str!("../kernels/lanes.cuh"));
const DOWN_H: (&str, &str) = ("down.cuh", include_str!("../kernels/down.cuh"));
const COLUMNS_H: (&str, &str) = ("columns.cuh", include_str!("../kernels/columns.cuh"));

static FORWARD: Source = Source {
    name: "forward.cu",
    text: include_str!("../kernels/forward.cu"),
    headers: &[NUMBER, PARAMS, BULK, MESSAGES, ROWS, STATS],
    layout: params::forward_layout,
};
static BACKWARD: Source = Source {
    name: "backward.cu",
    text: include_str!("../kernels/backward.cu"),
    headers: &[NUMBER, PARAMS, BULK, MESSAGES, ROWS, STATS],
    layout: params::backward_layout,
};
static STREAM_FORWARD: Source = Source {
    name: "stream_forward.cu",
    text: include_str!("../kernels/stream_forward.cu"),
    headers: &[NUMBER, PARAMS, BULK, MESSAGES, ROWS, STATS, STREAM],
    layout: params::forward_layout,
};
static STREAM_BACKWARD: Source = Source {
    name: "stream_backward.cu",
    text: include_str!("../kernels/stream_backward.cu"),
    headers: &[NUMBER, PARAMS, BULK, MESSAGES, ROWS, STATS, STREAM],
    layout: params::backward_layout,
};
static LONG: Source = Source {
    name: "long.cu",
    text: include_str!("../kernels/long.cu"),
    headers: &[NUMBER, BULK, MESSAGES, ROWS, COLUMNS_H],
    layout: params::long_layout,
};
static COLUMNS: Source = Source {
    name: "columns.cu",
    text: include_str!("../kernels/columns.cu"),
    headers: &[NUMBER, COLUMNS_H],
    layout: columns::sums_layout,
};
static FINISH: Source = Source {
    name: "finish.cu",
    text: include_str!("../kernels/finish.cu"),
    headers: &[NUMBER, COLUMNS_H],
    layout: columns::finish_layout,
};
static EACH_FORWARD: Source = Source {
    name: "each_forward.cu",
    text: include_str!("../kernels/each_forward.cu"),
    headers: &[NUMBER, PARAMS, BULK],
    layout: params::forward_layout,
};
static LANES_FORWARD: Source = Source {
    name: "lanes_forward.cu",
    text: include_str!("../kernels/lanes_forward.cu"),
    headers: &[NUMBER, PARAMS, LANES],
    layout: params::forward_layout,
};
static LANES_BACKWARD: Source = Source {
    name: "lanes_backward.cu",
    text: include_str!("../kernels/lanes_backward.cu"),
    headers: &[NUMBER, PARAMS, LANES],
    layout: params::backward_layout,
};
static DOWN: Source = Source {
    name: "down.cu",
    text: include_str!("../kernels/down.cu"),
    headers: &[NUMBER, COLUMNS_H, DOWN_H],
    layout: columns::down_layout,
};
static DOWN_CHUNK: Source = Source {
    name: "down_chunk.cu",
    text: include_str!("../kernels/down_chunk.cu"),
    headers: &[NUMBER, COLUMNS_H, DOWN_H],
    layout: columns::down_layout,
};
static BATCH: Source = Source {
    name: "batch.cu",
    text: include_str!("../kernels/batch.cu"),
    headers: &[NUMBER, COLUMNS_H],
    layout: batch::batch_layout,
};

/// Threads per block of the kernels for rows of any length.
pub(crate) const LONG_THREADS: u32 = 512;
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

fn rows(
    variant: Variant,
    norm: &RowNorm,
    geometry: &Geometry,
    per_channel: bool,
    aligned: bool,
    residual: bool,
) -> Variant {
    let full = aligned && geometry.is_full(norm.element, norm.n);
    let variant = variant
        .define("TEAM", geometry.team)
        .define("WARPS", geometry.warps)
        .define("CLUSTER", geometry.cluster)
        .define("VECS", geometry.vectors)
        .define("RING", geometry.ring)
        .define("THREADS", geometry.threads)
        .define("KEEP", u32::from(geometry.keep))
        .define("MIN_BLOCKS", geometry.blocks)
        .define("PER_CHANNEL", u32::from(per_channel))
        .define("ALIGNED", u32::from(aligned))
        .define("FULL", u32::from(full))
        .define("RESIDUAL", u32::from(residual));
    let variant = if geometry.four { words_of_four(variant, norm) } else { variant };
    Variant { large_clusters: geometry.cluster > 8, ..variant }
}

/// Few rows, one thread per lane of the canonical sum.
fn lanes(variant: Variant, norm: &RowNorm, geometry: &Geometry, residual: bool) -> Variant {
    variant
        .define("BLOCKS", geometry.threads / 256)
        .define("THREADS", geometry.threads)
        .define("MIN_BLOCKS", geometry.blocks)
        .define("FULL", u32::from(norm.n == geometry.threads * 4))
        .define("RESIDUAL", u32::from(residual))
}

pub(crate) fn lanes_forward(norm: &RowNorm, geometry: &Geometry, residual: bool) -> Variant {
    lanes(Kinds::from(*norm).define(Variant::new(&LANES_FORWARD, "forward")), norm, geometry, residual)
}

pub(crate) fn lanes_backward(norm: &RowNorm, geometry: &Geometry, residual: bool, dx: bool) -> Variant {
    let kinds = Kinds { bias: 0, ..Kinds::from(*norm) };
    let variant = kinds.define(Variant::new(&LANES_BACKWARD, "backward"));
    lanes(variant, norm, geometry, residual).define("DX", u32::from(dx))
}

/// Short rows, one thread per row.
pub(crate) fn each_forward(norm: &RowNorm, geometry: &Geometry) -> Variant {
    Kinds::from(*norm)
        .define(Variant::new(&EACH_FORWARD, "forward"))
        .define("VECS", geometry.vectors)
        .define("RING", geometry.ring)
        .define("THREADS", geometry.threads)
        .define("MIN_BLOCKS", geometry.blocks)
        .define("HINT", 0)
        .shared(geometry.ring_bytes(norm.element, 1))
}

/// The sums for γ and β in one launch; `kinds` has the types of the gradients.
pub(crate) fn down(kinds: Kinds, shape: &Down) -> Variant {
    let variant = match shape.height {
        Some(height) => Variant::new(&DOWN_CHUNK, "down").define("HEIGHT", height),
        None => Variant::new(&DOWN, "down").define("LEVELS", shape.levels()),
    };
    kinds
        .define(variant)
        .define("THREADS", shape.threads())
        .define("MIN_BLOCKS", shape.blocks())
        .define("WIDE", shape.wide)
        .define("CLUSTER", shape.cluster)
        .define("SHARED_BYTES", shape.shared(kinds.element))
        .shared(shape.shared(kinds.element))
}

pub(crate) fn forward(
    norm: &RowNorm,
    geometry: &Geometry,
    per_channel: bool,
    aligned: bool,
    residual: bool,
) -> Variant {
    let variant = Kinds::from(*norm).define(Variant::new(&FORWARD, "forward"));
    let tensors = 1 + usize::from(residual);
    rows(variant, norm, geometry, per_channel, aligned, residual)
        .define("OVERLAPS", u32::from(geometry.overlaps))
        .shared(geometry.ring_bytes(norm.element, tensors))
}

pub(crate) fn backward(
    norm: &RowNorm,
    geometry: &Geometry,
    per_channel: bool,
    aligned: bool,
    residual: bool,
    (sums, dx): (bool, bool),
) -> Variant {
    let variant = Kinds { bias: 0, ..Kinds::from(*norm) }.define(Variant::new(&BACKWARD, "backward"));
    rows(variant, norm, geometry, per_channel, aligned, residual)
        .define("OVERLAPS", u32::from(geometry.overlaps))
        .define("SUMS", u32::from(sums))
        .define("DX", u32::from(dx))
        .shared(geometry.ring_bytes(norm.element, 2))
}

/// Forward pass of rows that stream through shared memory.
pub(crate) fn stream_forward(norm: &RowNorm, geometry: &Geometry, flow: &Flow) -> Variant {
    let variant = Kinds::from(*norm).define(Variant::new(&STREAM_FORWARD, "forward"));
    let shared = geometry.ring_bytes(norm.element, 1) + geometry.columns_bytes(norm.params(true));
    flows(rows(variant, norm, geometry, false, true, false), norm, geometry, flow).shared(shared)
}

/// Backward pass of such rows: dx and the sums for γ and β.
pub(crate) fn stream_backward(norm: &RowNorm, geometry: &Geometry, flow: &Flow) -> Variant {
    let kinds = Kinds { bias: 0, ..Kinds::from(*norm) };
    let variant = kinds.define(Variant::new(&STREAM_BACKWARD, "backward"));
    let shared = geometry.ring_bytes(norm.element, 2) + geometry.columns_bytes(norm.params(false));
    flows(rows(variant, norm, geometry, false, true, false), norm, geometry, flow).shared(shared)
}

/// Sets the vector size to four elements, whatever their type.
fn words_of_four(variant: Variant, norm: &RowNorm) -> Variant {
    variant.define("WORD_BYTES", Flow::VECTOR * norm.element.bytes())
}

fn flows(variant: Variant, norm: &RowNorm, geometry: &Geometry, flow: &Flow) -> Variant {
    let across = geometry.across();
    let variant = words_of_four(variant, norm).define("PIECES", flow.pieces).define("HINT", flow.hint);
    let variant = variant.define("TALKING", u32::from(across));
    let variant = match row_end(geometry, norm.element, norm.n) {
        Some(end) => variant.define("LAST", end.whole).define("MORE", u32::from(end.more)),
        None => variant,
    };
    // Blocks that exchange messages do not form a cluster.
    Variant { large_clusters: variant.large_clusters && !across, ..variant }
}

/// Compiles only this kernel of a source with several, because each takes seconds.
fn only(variant: Variant) -> Variant {
    let name = format!("ENTRY_{}", variant.entry);
    variant.define(&name, 1)
}

pub(crate) fn long(norm: &RowNorm, entry: &'static str, residual: bool) -> Variant {
    let variant = Kinds::from(*norm).define(only(Variant::new(&LONG, entry)));
    let geometry = Geometry { warps: LONG_THREADS as usize / 32, ..Geometry::wide(norm.element, BLOCK, 1) };
    rows(variant, norm, &Geometry { threads: LONG_THREADS as usize, ..geometry }, false, false, residual)
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
