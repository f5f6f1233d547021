//! The kernels by name, and the structures that they take.

use super::cell::{Cell, Number};
use super::cluster::Cluster;
use super::geometry::Geometry;
use crate::catalog::properties;
use crate::error::Error;
use crate::module::Variant;
use crate::nvrtc::Source;
use layernorm_rnn::Kind;

macro_rules! source {
    ($name:ident, $file:literal) => {
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
        };
    };
}
source!(FORWARD, "forward.cu");
source!(BACKWARD, "backward.cu");
source!(CLUSTER_FORWARD, "cluster_forward.cu");
source!(CLUSTER_BACKWARD, "cluster_backward.cu");
source!(GEMM, "gemm.cu");
source!(PREPARE, "prepare.cu");
source!(INPUT_NORM, "input_norm.cu");
source!(FINISH, "finish.cu");

pub(super) fn with(mut variant: Variant, defines: Vec<(&'static str, String)>) -> Variant {
    for (name, value) in defines {
        variant = variant.define(name, value);
    }
    variant
}

/// The time loop forward.
pub(super) fn forward(cell: &Cell, geometry: &Geometry, number: Number, tf32: bool, training: bool) -> Variant {
    let base = Variant::new(&FORWARD, "rnn_forward").define("TYPE", number.code()).define("TRAIN", u8::from(training));
    let base = base.define("TF32", u8::from(tf32));
    with(with(base, cell.defines()), geometry.defines(&geometry.forward)).shared(geometry.forward.shared)
}

/// The time loop backward.
pub(super) fn backward(cell: &Cell, geometry: &Geometry, number: Number, tf32: bool) -> Variant {
    let base = Variant::new(&BACKWARD, "rnn_backward").define("TYPE", number.code()).define("TF32", u8::from(tf32));
    with(with(base, cell.defines()), geometry.defines(&geometry.backward)).shared(geometry.backward.shared)
}

/// C = A·B; whether A is `[K, M]`, whether B is `[K, N]`, and the type of C.
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

/// Sums of the gains' and biases' gradients.
pub(super) fn finish(params: Number) -> Variant {
    Variant::new(&FINISH, "rnn_finish").define("TYPE", 0).define("PARAM", params.code())
}

/// Every kernel in the ways that matter, to be compiled without a GPU: each cell in one type, each type with `paper`, and for
/// that also a size whose matrix lies in registers, in shared memory and in L2; for a device of this compute capability.
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

/// An address on the device; 0 is null.
pub(super) type Address = u64;

/// How `Forward` and `Backward` end: the sequences of one launch of a time loop.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    pub(super) lengths: Address,
    pub(super) fail: Address,
    pub(super) steps: i32,
    pub(super) batch: i32,
    pub(super) first: i32,
    pub(super) end: i32,
    pub(super) columns: i32,
    pub(super) row_time: i32,
    pub(super) row_batch: i32,
    pub(super) reverse: i32,
    pub(super) patience: u32,
}

/// `Forward` of forward.cu.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ForwardArgs {
    pub(super) u: Address,
    pub(super) zx: Address,
    pub(super) zh: Address,
    pub(super) rh: Address,
    pub(super) state: Address,
    pub(super) cell: Address,
    pub(super) h: Address,
    pub(super) gates: Address,
    pub(super) cells: Address,
    pub(super) consts: Address,
    pub(super) y: Address,
    pub(super) y_time: i64,
    pub(super) y_batch: i64,
    pub(super) h0: Address,
    pub(super) c0: Address,
    pub(super) h_last: Address,
    pub(super) c_last: Address,
    pub(super) round: Round,
}

/// `Backward` of backward.cu.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BackwardArgs {
    pub(super) ut: Address,
    pub(super) zx: Address,
    pub(super) zh: Address,
    pub(super) rh: Address,
    pub(super) rx: Address,
    pub(super) state: Address,
    pub(super) cell: Address,
    pub(super) dzh: Address,
    pub(super) dzx: Address,
    pub(super) gates: Address,
    pub(super) inputs: Address,
    pub(super) cells: Address,
    pub(super) mail: Address,
    pub(super) consts: Address,
    pub(super) dy: Address,
    pub(super) y_time: i64,
    pub(super) y_batch: i64,
    pub(super) dh_last: Address,
    pub(super) dc_last: Address,
    pub(super) dh0: Address,
    pub(super) dc0: Address,
    pub(super) sums: Address,
    pub(super) round: Round,
}

/// `Gemm` of gemm.cu.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct GemmArgs {
    pub(super) a: Address,
    pub(super) b: Address,
    pub(super) c: Address,
    pub(super) lda: i64,
    pub(super) ldb: i64,
    pub(super) ldc: i64,
    pub(super) m: i32,
    pub(super) n: i32,
    pub(super) k: i32,
    pub(super) add: i32,
}

/// `Pack` of prepare.cu.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct PackArgs {
    pub(super) u: Address,
    pub(super) packed: Address,
    pub(super) hidden: i32,
    pub(super) padded: i32,
    pub(super) gates: i32,
    pub(super) units: i32,
    pub(super) group: i32,
    pub(super) pairs: i32,
    pub(super) tiles: i32,
    pub(super) split: i32,
    pub(super) back: i32,
}

/// `PadWeight` of prepare.cu.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct PadWeightArgs {
    pub(super) w: Address,
    pub(super) out: Address,
    pub(super) hidden: i32,
    pub(super) padded: i32,
    pub(super) gates: i32,
    pub(super) input: i32,
    pub(super) input_padded: i32,
}

/// `PadInput` of prepare.cu.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct PadInputArgs {
    pub(super) x: Address,
    pub(super) x_time: i64,
    pub(super) x_batch: i64,
    pub(super) out: Address,
    pub(super) lengths: Address,
    pub(super) steps: i32,
    pub(super) batch: i32,
    pub(super) row_time: i32,
    pub(super) row_batch: i32,
    pub(super) input: i32,
    pub(super) input_padded: i32,
}

/// `Start` of prepare.cu.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct StartArgs {
    pub(super) h0: Address,
    pub(super) h: Address,
    pub(super) batch: i32,
    pub(super) hidden: i32,
    pub(super) padded: i32,
}

/// The parameters that are no matrices, or their gradients.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Vectors {
    pub(super) gx: Address,
    pub(super) bx_norm: Address,
    pub(super) gh: Address,
    pub(super) bh_norm: Address,
    pub(super) bias: Address,
    pub(super) bx: Address,
    pub(super) bh: Address,
    pub(super) gc: Address,
    pub(super) bc: Address,
}

/// `Consts` of prepare.cu.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct ConstsArgs {
    pub(super) vectors: Vectors,
    pub(super) out: Address,
    pub(super) hidden: i32,
    pub(super) padded: i32,
    pub(super) gates: i32,
    pub(super) offset_gate: i32,
    pub(super) offset: f32,
}

/// `InputNorm` of input_norm.cu.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct InputNormArgs {
    pub(super) z: Address,
    pub(super) r: Address,
    pub(super) eps: f32,
    pub(super) deviation: i32,
}

/// `Finish` of finish.cu.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct FinishArgs {
    pub(super) sums: Address,
    pub(super) vectors: Vectors,
    pub(super) batch: i32,
    pub(super) hidden: i32,
    pub(super) padded: i32,
    pub(super) gates: i32,
}
