//! The kernels by name, and their parameter structures.

use super::cell::{Cell, Number};
use super::cluster::{self, Cluster};
use super::geometry::Geometry;
use crate::catalog::properties;
use crate::error::Error;
use crate::layout::{Described, device_struct};
use crate::module::Variant;
use crate::nvrtc::Source;
use layernorm_rnn::Kind;

macro_rules! source {
    ($name:ident, $file:literal, $($shared:ty),*) => {
        pub(super) static $name: Source = Source {
            name: concat!("recurrent/", $file),
            text: include_str!(concat!("../../kernels/recurrent/", $file)),
            headers: &[
                ("cluster.cuh", include_str!("../../kernels/recurrent/cluster.cuh")),
                ("cluster_dh.cuh", include_str!("../../kernels/recurrent/cluster_dh.cuh")),
                ("common.cuh", include_str!("../../kernels/recurrent/common.cuh")),
                ("cell.cuh", include_str!("../../kernels/recurrent/cell.cuh")),
                ("product.cuh", include_str!("../../kernels/recurrent/product.cuh")),
                ("block.cuh", include_str!("../../kernels/recurrent/block.cuh")),
                ("tape.cuh", include_str!("../../kernels/recurrent/tape.cuh")),
                ("team.cuh", include_str!("../../kernels/recurrent/team.cuh")),
            ],
            layout: || [$(<$shared as Described>::layout().assertions()),*].concat(),
        };
    };
}
source!(FORWARD, "forward.cu", ForwardArgs);
source!(BACKWARD, "backward.cu", BackwardArgs);
source!(CLUSTER_FORWARD, "cluster_forward.cu", cluster::ForwardArgs);
source!(CLUSTER_BACKWARD, "cluster_backward.cu", cluster::BackwardArgs);
source!(GEMM, "gemm.cu", GemmArgs);
source!(PREPARE, "prepare.cu", PackArgs, cluster::PackArgs, PadWeightArgs, PadInputArgs, StartArgs, ConstsArgs);
source!(INPUT_NORM, "input_norm.cu", InputNormArgs);
source!(FINISH, "finish.cu", FinishArgs);

pub(super) fn with(mut variant: Variant, defines: Vec<(&'static str, String)>) -> Variant {
    for (name, value) in defines {
        variant = variant.define(name, value);
    }
    variant
}

/// The forward time loop.
pub(super) fn forward(cell: &Cell, geometry: &Geometry, number: Number, tf32: bool, training: bool) -> Variant {
    let base = Variant::new(&FORWARD, "rnn_forward").define("TYPE", number.code()).define("TRAIN", u8::from(training));
    let base = base.define("TF32", u8::from(tf32));
    with(with(base, cell.defines()), geometry.defines(&geometry.forward)).shared(geometry.forward.shared)
}

/// The backward time loop.
pub(super) fn backward(cell: &Cell, geometry: &Geometry, number: Number, tf32: bool) -> Variant {
    let base = Variant::new(&BACKWARD, "rnn_backward").define("TYPE", number.code()).define("TF32", u8::from(tf32));
    with(with(base, cell.defines()), geometry.defines(&geometry.backward)).shared(geometry.backward.shared)
}

/// C = A·B. `trans`: whether A is `[K, M]`, and whether B is `[K, N]`. `out`: type of C.
pub(super) fn gemm(number: Number, tf32: bool, trans: (bool, bool), out: Number) -> Variant {
    Variant::new(&GEMM, "rnn_gemm")
        .define("TYPE", number.code())
        .define("TRANS_A", u8::from(trans.0))
        .define("TRANS_B", u8::from(trans.1))
        .define("OUT", out.code())
        .define("TF32", u8::from(tf32))
        .shared(65536)
}

/// A kernel of prepare.cu.
pub(super) fn prepare(entry: &'static str, number: Number, params: Number) -> Variant {
    Variant::new(&PREPARE, entry).define("TYPE", number.code()).define("PARAM", params.code())
}

/// LNx.
pub(super) fn input_norm(cell: &Cell, geometry: &Geometry) -> Variant {
    Variant::new(&INPUT_NORM, "rnn_input_norm")
        .define("TYPE", 0)
        .define("H", geometry.hidden)
        .define("HP", geometry.padded)
        .define("G", cell.gates)
        .define("NGRP", cell.input_groups())
}

/// Sums the gradients of gains and biases over the batch.
pub(super) fn finish(params: Number) -> Variant {
    Variant::new(&FINISH, "rnn_finish").define("TYPE", 0).define("PARAM", params.code())
}

/// One variant of every kernel, to be compiled without a GPU for a device of this compute capability: each cell in one
/// type, and each type with the cell `paper`, also in a size whose matrix is kept in registers, in shared memory and in
/// L2.
pub fn all_variants(capability: u32) -> Result<Vec<Variant>, Error> {
    let gpu = properties(capability);
    let mut all = Vec::new();
    for number in Number::ALL {
        for params in [number, Number::F32] {
            for entry in ["rnn_pack", "rnn_pad_weight", "rnn_pad_input", "rnn_start", "rnn_consts"] {
                all.push(prepare(entry, number, params));
            }
            if number != Number::F32 {
                all.push(prepare("rnn_pack_cluster", number, params));
                all.push(prepare("rnn_pack_cluster_back", number, params));
            }
            for trans in [(false, false), (false, true), (true, true)] {
                all.extend([false, number == Number::F32].map(|tf32| gemm(number, tf32, trans, params)));
            }
        }
        all.push(finish(number));
        for variant in Kind::ALL.into_iter().flat_map(layernorm_rnn::Variant::all) {
            let Ok(cell) = Cell::of(variant) else { continue };
            let sizes: &[(usize, usize)] = match (variant.name, number) {
                ("paper", _) => &[(100, 3), (2048, 64)],
                (_, Number::Bf16) => &[(100, 3)],
                _ => &[],
            };
            let clusters: &[(usize, usize)] = match (variant.name, number) {
                ("paper", _) => &[(70, 1), (100, 2), (512, 1), (512, 2)],
                (_, Number::Bf16) => &[(100, 1)],
                _ => &[],
            };
            let cut = |&(hidden, tiles): &(usize, usize)| Cluster::of(hidden, number, tiles);
            for cluster in clusters.iter().filter_map(cut).filter(|_| gpu.clusters) {
                all.extend([true, false].map(|training| cluster.forward(&cell, number, training)));
                all.push(cluster.backward(&cell, number));
            }
            for &(hidden, batch) in sizes {
                for tf32 in [false, number == Number::F32] {
                    let geometry = Geometry::new(&cell, hidden, batch, (number, tf32), &gpu)?;
                    all.extend([true, false].map(|training| forward(&cell, &geometry, number, tf32, training)));
                    all.push(backward(&cell, &geometry, number, tf32));
                    all.push(input_norm(&cell, &geometry));
                }
            }
        }
    }
    let mut seen = std::collections::HashSet::new();
    all.retain(|variant| seen.insert(variant.clone()));
    Ok(all)
}

/// A device address; 0 is null.
pub(super) type Address = u64;

device_struct! {
    /// The last part of `Forward` and `Backward`: the sequences of one launch of a time loop.
    #[derive(Default)]
    pub(super) struct Round as "Round" {
        lengths: Address,
        fail: Address,
        report: Address,
        steps: i32,
        batch: i32,
        first: i32,
        end: i32,
        cols: i32,
        row_time: i32,
        row_batch: i32,
        reverse: i32,
        patience: u32,
    }
}

device_struct! {
    /// Part of `Forward`: the tape as the forward loops write it.
    pub(super) struct ForwardTape as "ForwardTape" {
        zx: Address,
        zh: Address,
        rh: Address,
        state: Address,
        cell: Address,
        h: Address,
    }
}

device_struct! {
    /// Part of `Forward`: the caller's operands.
    pub(super) struct ForwardCall as "ForwardCall" {
        y: Address,
        y_time: i64,
        y_batch: i64,
        h0: Address,
        c0: Address,
        h_last: Address,
        c_last: Address,
    }
}

device_struct! {
    /// `Forward` of forward.cu.
    pub(super) struct ForwardArgs as "Forward" {
        u: Address,
        .. tape: ForwardTape,
        gates: Address,
        cells: Address,
        consts: Address,
        .. call: ForwardCall,
        .. round: Round,
    }
}

device_struct! {
    /// Part of `Backward`: the tape as the backward loops read it.
    pub(super) struct BackwardTape as "BackwardTape" {
        zx: Address,
        zh: Address,
        rh: Address,
        rx: Address,
        state: Address,
        cell: Address,
    }
}

device_struct! {
    /// Part of `Backward`: the caller's operands, and the sums for the parameters.
    pub(super) struct BackwardCall as "BackwardCall" {
        dy: Address,
        y_time: i64,
        y_batch: i64,
        dh_last: Address,
        dc_last: Address,
        dh0: Address,
        dc0: Address,
        sums: Address,
    }
}

device_struct! {
    /// `Backward` of backward.cu.
    pub(super) struct BackwardArgs as "Backward" {
        ut: Address,
        .. tape: BackwardTape,
        dzh: Address,
        dzx: Address,
        gates: Address,
        inputs: Address,
        cells: Address,
        mail: Address,
        consts: Address,
        .. call: BackwardCall,
        .. round: Round,
    }
}

device_struct! {
    /// `Gemm` of gemm.cu.
    pub(super) struct GemmArgs as "Gemm" {
        a: Address,
        b: Address,
        c: Address,
        lda: i64,
        ldb: i64,
        ldc: i64,
        m: i32,
        n: i32,
        k: i32,
        add: i32,
    }
}

device_struct! {
    /// `Pack` of prepare.cu.
    pub(super) struct PackArgs as "Pack" {
        u: Address,
        packed: Address,
        hidden: i32,
        padded: i32,
        gates: i32,
        units: i32,
        group: i32,
        pairs: i32,
        tiles: i32,
        split: i32,
        back: i32,
    }
}

device_struct! {
    /// `PadWeight` of prepare.cu.
    pub(super) struct PadWeightArgs as "PadWeight" {
        w: Address,
        out: Address,
        hidden: i32,
        padded: i32,
        gates: i32,
        input: i32,
        input_padded: i32,
    }
}

device_struct! {
    /// `PadInput` of prepare.cu.
    pub(super) struct PadInputArgs as "PadInput" {
        x: Address,
        x_time: i64,
        x_batch: i64,
        out: Address,
        lengths: Address,
        steps: i32,
        batch: i32,
        row_time: i32,
        row_batch: i32,
        input: i32,
        input_padded: i32,
    }
}

device_struct! {
    /// `Start` of prepare.cu.
    pub(super) struct StartArgs as "Start" {
        h0: Address,
        h: Address,
        batch: i32,
        hidden: i32,
        padded: i32,
    }
}

device_struct! {
    /// The parameters that are not matrices, or their gradients.
    #[derive(Default)]
    pub(super) struct Vectors as "Vectors" {
        gx: Address,
        bx_norm: Address,
        gh: Address,
        bh_norm: Address,
        bias: Address,
        bx: Address,
        bh: Address,
        gc: Address,
        bc: Address,
    }
}

device_struct! {
    /// `Consts` of prepare.cu.
    pub(super) struct ConstsArgs as "Consts" {
        .. vectors: Vectors,
        out: Address,
        hidden: i32,
        padded: i32,
        gates: i32,
        offset_gate: i32,
        offset: f32,
    }
}

device_struct! {
    /// `InputNorm` of input_norm.cu.
    pub(super) struct InputNormArgs as "InputNorm" {
        z: Address,
        r: Address,
        eps: f32,
        deviation: i32,
    }
}

device_struct! {
    /// `Finish` of finish.cu.
    pub(super) struct FinishArgs as "Finish" {
        sums: Address,
        .. vectors: Vectors,
        batch: i32,
        hidden: i32,
        padded: i32,
        gates: i32,
    }
}
