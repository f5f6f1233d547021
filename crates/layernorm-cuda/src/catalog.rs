//! One kernel variant of every kind. They compile without a GPU, so any machine with NVRTC can find what a change
//! breaks.

use crate::config::{Down, Long, Registers, Streaming, ThreadPerLane, ThreadPerRow};
use crate::device::Properties;
use crate::kernels::{self, Kinds, Options};
use crate::module::Variant;
use crate::rows::RowNorm;
use crate::types::{Affine, Param, Type};

/// One size for each way in which rows are mapped onto the GPU.
const SIZES: [usize; 4] = [60, 384, 4096, 262_144];
/// For f16, which differs from bf16 only in conversions, and for f64.
const FEW_SIZES: [usize; 2] = [640, 1000];

/// Properties of a device of this compute capability, as far as the choice of a strategy depends on them.
pub(crate) fn properties(capability: u32) -> Properties {
    Properties {
        name: format!("compute capability {capability}"),
        capability,
        multiprocessors: 132,
        shared_per_block: 227 << 10,
        shared_per_multiprocessor: 228 << 10,
        threads_per_multiprocessor: 2048,
        l2: 50 << 20,
        clusters: capability >= 90,
        cooperative: true,
    }
}

fn norm(element: Type, n: usize, wide: bool) -> RowNorm {
    let param = Some(Param { address: 16, f32: wide });
    let affine = Affine { gain: param, bias: param, zero_centered: wide };
    RowNorm { element, rows: 1 << 20, n, centered: !wide, eps: 1e-5, affine }
}

fn row_variants(element: Type, n: usize, properties: &Properties, out: &mut Vec<Variant>) {
    // The two extremes: whole vectors with prefetching, and single elements with everything optional.
    for (aligned, other) in [(true, false), (false, true)] {
        let norm = norm(element, n, other);
        let rows = norm.rows;
        let options = Options { per_channel: other, aligned, residual: other };
        if let Some(shape) = Registers::forward(element, rows, n, aligned, 1 + usize::from(other), properties) {
            out.push(kernels::forward(&norm, &shape, options));
        } else {
            out.push(kernels::long(&norm, &Long::default(), "forward", other));
            out.push(kernels::long(&norm, &Long::default(), "backward", other));
        }
        let sums: &[bool] = if element == Type::F64 { &[false] } else { &[true, false] };
        for &sums in sums {
            if let Some(shape) = Registers::backward(element, rows, n, aligned, sums, properties) {
                let shape = Registers { keeps_params: sums && aligned, ..shape };
                let options = Options { per_channel: other && !sums, ..options };
                out.push(kernels::backward(&norm, &shape, options, true));
            }
        }
    }
}

/// Streaming rows: what the library chooses, and the other forms of the same kernels.
fn stream_variants(element: Type, n: usize, properties: &Properties, out: &mut Vec<Variant>) {
    for wide in [false, true] {
        let norm = norm(element, n, wide);
        let hint = if wide { 3 } else { 0 };
        let forward = Streaming::forward(element, n, norm.params(true), properties);
        let backward = Streaming::backward(element, n, norm.params(false), properties);
        out.extend(forward.map(|shape| kernels::stream_forward(&norm, &Streaming { hint, ..shape })));
        out.extend(backward.map(|shape| kernels::stream_backward(&norm, &Streaming { hint, ..shape })));
    }
}

/// Short rows, one thread per row.
fn each_variants(element: Type, properties: &Properties, out: &mut Vec<Variant>) {
    for n in [16, 32, 64, 128] {
        let norm = norm(element, n, n == 32);
        out.extend(ThreadPerRow::supported(element, n, properties).map(|shape| kernels::each_forward(&norm, &shape)));
    }
}

/// Few rows, full and partial, and the sums for γ and β over one chunk up to many.
fn small_variants(element: Type, properties: &Properties, out: &mut Vec<Variant>) {
    for (n, rows, other) in [(1024, 64, false), (2000, 100, true)] {
        let norm = RowNorm { rows, ..norm(element, n, other) };
        let forward = ThreadPerLane::forward(rows, n, properties);
        let backward = ThreadPerLane::backward(rows, n, properties);
        out.extend(forward.map(|shape| kernels::lanes_forward(&norm, &shape, other)));
        out.extend(backward.map(|shape| kernels::lanes_backward(&norm, &shape, other, true)));
    }
    // Rows with one block or cluster each, which issues all loads at once.
    for (rows, n) in [(64, 16384), (8, 262_144)] {
        let norm = RowNorm { rows, ..norm(element, n, false) };
        let options = Options { per_channel: false, aligned: true, residual: false };
        let forward = Registers::forward(element, rows, n, true, 1, properties);
        let backward = Registers::backward(element, rows, n, true, false, properties);
        out.extend(forward.map(|shape| kernels::forward(&norm, &shape, options)));
        out.extend(backward.map(|shape| kernels::backward(&norm, &shape, options, true)));
    }
    for (rows, n, whole) in [(64, 1024, 1), (4096, 1024, 8), (50_000, 64, 4), (8, 262_144, 8)] {
        let kinds = Kinds { zero_centered: false, ..norm(element, n, false).into() };
        out.extend(Down::new(element, rows, n, whole, properties).map(|shape| kernels::down(kinds, &shape)));
    }
}

/// The variants that a device of this compute capability may use, one of each kind.
pub fn variants(capability: u32) -> Vec<Variant> {
    let properties = properties(capability);
    let mut out = Vec::new();
    for element in Type::ALL {
        let sizes: &[usize] = if matches!(element, Type::F32 | Type::Bf16) { &SIZES } else { &FEW_SIZES };
        sizes.iter().for_each(|&n| row_variants(element, n, &properties, &mut out));
        for n in [320, 384, 640, 1536, 5000, 18432, 20480, 32768, 262_144] {
            stream_variants(element, n, &properties, &mut out);
        }
        each_variants(element, &properties, &mut out);
        small_variants(element, &properties, &mut out);
        for entry in ["forward", "backward"] {
            out.push(kernels::long(&norm(element, 1, true), &Long::default(), entry, true));
        }
        let kinds: Kinds = norm(element, 1, true).into();
        for (terms, across) in [(0, true), (1, false), (2, true), (3, false)] {
            out.push(kernels::columns(kinds, terms, across, across));
        }
        for (count, output) in [(4, 0), (1, 1), (2, 2)] {
            out.push(kernels::finish(Kinds { zero_centered: false, ..kinds }, count, output, (8, 512)));
        }
        for entry in ["statistics", "moments", "gradients", "map_forward", "map_backward"] {
            out.push(kernels::batch(kinds, entry, true).define("GAIN_TO", 1).define("BIAS_TO", 2));
        }
    }
    out
}
