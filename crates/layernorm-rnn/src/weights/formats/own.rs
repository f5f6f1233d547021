//! This crate's own format.

use super::super::table::*;
use super::*;

/// This crate's own format: every parameter under its own name, as laid out in memory.
pub(in crate::weights) static NATIVE: Spec = Spec {
    coupling: Coupling::Own,
    clips: true,
    ..spec(
        "native",
        Naming { one: "l{l}.", many: Some("l{l}."), both: Some("l{l}.{d}"), directions: ["", "reverse."], ..BARE },
        &[&[Mark("l0.input_weight", 2), Mark("l0.recurrent_weight", 2)]],
        &[
            Cell { kind: Kind::Lstm, like: "", resets: &[], gates: &[], rules: NATIVE_RULES },
            Cell { kind: Kind::Gru, like: "", resets: &[], gates: &[], rules: NATIVE_RULES },
            Cell { kind: Kind::Rnn, like: "", resets: &[], gates: &[], rules: NATIVE_RULES },
        ],
    )
};
const NATIVE_RULES: &[Rule] = &[
    rule("input_weight", &[W]).whole(),
    rule("recurrent_weight", &[U]).whole(),
    rule("input_bias", &[INPUT_BIAS]).whole(),
    rule("recurrent_bias", &[RAW_RECURRENT_BIAS]).whole(),
    rule("bias", &[RAW_BIAS]).whole(),
    rule("input_norm.gain", &[INPUT_GAIN]).whole(),
    rule("input_norm.bias", &[INPUT_SHIFT]).whole(),
    rule("recurrent_norm.gain", &[RECURRENT_GAIN]).whole(),
    rule("recurrent_norm.bias", &[RECURRENT_SHIFT]).whole(),
    rule("sum_norm.gain", &[SUM_GAIN]).whole(),
    rule("sum_norm.bias", &[SUM_SHIFT]).whole(),
    rule("cell_norm.gain", &[CELL_GAIN]).whole(),
    rule("cell_norm.bias", &[CELL_SHIFT]).whole(),
    rule("peephole", &[PEEPHOLE]).whole(),
    rule("projection", &[PROJECTION]).whole(),
    rule("projection_bias", &[PROJECTION_BIAS]).whole(),
];
