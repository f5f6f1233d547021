//! ONNX, and the equations of the paper.

use super::super::table::*;
use super::*;

/// ONNX, with the names of the operators' inputs.
pub(in crate::weights) static ONNX: Spec = Spec {
    stacked: true,
    coupling: Coupling::ByInput,
    ..spec(
        "onnx",
        BARE,
        &[&[Mark("W", 3), Mark("R", 3)]],
        &[lstm("none", &[I, O, F, G], ONNX_RULES), gru("none", ZRN, ANY, ONNX_RULES), rnn("none", ONNX_RULES)],
    )
};
const ONNX_RULES: &[Rule] = &[rule("W", &[W]), rule("R", &[U]), rule("B", &[BX, BH]).below(), rule("P", &[PEEPHOLE])];

/// The paper's equations, with its letters as names.
pub(in crate::weights) static PAPER: Spec = spec(
    "paper",
    BARE,
    &[&[Mark("W_h", 2), Mark("W_x", 2), Mark("alpha_1", 1)], &[Mark("W_hh", 2), Mark("W_xh", 2), Mark("g", 1)]],
    &[
        lstm(
            "paper",
            &[F, I, O, G],
            &[
                rule("W_x", &[W]),
                rule("W_h", &[U]),
                rule("b", &[RAW_BIAS]),
                rule("alpha_1", &[RECURRENT_GAIN]),
                rule("beta_1", &[RECURRENT_SHIFT]),
                rule("alpha_2", &[INPUT_GAIN]),
                rule("beta_2", &[INPUT_SHIFT]),
                rule("alpha_3", &[CELL_GAIN]).whole(),
                rule("beta_3", &[CELL_SHIFT]).whole(),
            ],
        ),
        gru(
            "paper",
            ZRN,
            AFTER,
            &[
                rule("W_x", &[W]).only(&[Z, R]),
                rule("W_h", &[U]).only(&[Z, R]),
                rule("W", &[W]).only(ONE),
                rule("U", &[U]).only(ONE),
                rule("alpha_1", &[RECURRENT_GAIN]).only(&[Z, R]),
                rule("beta_1", &[RECURRENT_SHIFT]).only(&[Z, R]),
                rule("alpha_2", &[INPUT_GAIN]).only(&[Z, R]),
                rule("beta_2", &[INPUT_SHIFT]).only(&[Z, R]),
                rule("alpha_3", &[INPUT_GAIN]).only(ONE),
                rule("beta_3", &[INPUT_SHIFT]).only(ONE),
                rule("alpha_4", &[RECURRENT_GAIN]).only(ONE),
                rule("beta_4", &[RECURRENT_SHIFT]).only(ONE),
            ],
        ),
        rnn("paper", &[rule("W_xh", &[W]), rule("W_hh", &[U]), rule("g", &[SUM_GAIN]), rule("b", &[SUM_SHIFT])]),
    ],
);
