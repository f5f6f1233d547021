//! Libraries for PyTorch and Torch.

use super::super::table::*;
use super::*;

/// `torch.nn.LSTM`, `GRU`, `RNN`, and their cells.
pub(in crate::weights) static TORCH: Spec = spec(
    "torch",
    Naming {
        behind: true,
        one: "_l{l}",
        many: Some("_l{l}"),
        both: Some("_l{l}{d}"),
        directions: ["", "_reverse"],
        ..BARE
    },
    &[&[Mark("weight_ih_l0", 2), Mark("weight_hh_l0", 2)]],
    &[lstm("none", IFGO, TORCH_RULES), gru("none", RZN, AFTER, TORCH_RULES), rnn("none", TORCH_RULES)],
);
const TORCH_RULES: &[Rule] = &[
    rule("weight_ih", &[W]),
    rule("weight_hh", &[U]),
    rule("bias_ih", &[BX]),
    rule("bias_hh", &[BH]),
    rule("weight_hr", &[PROJECTION]).whole(),
];

/// torchaudio's `_CustomLSTM`; without norms it has one bias.
pub(in crate::weights) static TORCHAUDIO: Spec = spec(
    "torchaudio",
    Naming { many: Some("lstm_layers.{l}."), ..BARE },
    &[&[Mark("x2g.weight", 2), Mark("p2g.weight", 2)]],
    &[lstm(
        "torchaudio",
        IFGO,
        &[
            rule("x2g.weight", &[W]),
            rule("p2g.weight", &[U]),
            rule("x2g.bias", &[B]),
            rule("g_norm.weight", &[SUM_GAIN]),
            rule("g_norm.bias", &[SUM_SHIFT]),
            rule("c_norm.weight", &[CELL_GAIN]).whole(),
            rule("c_norm.bias", &[CELL_SHIFT]).whole(),
        ],
    )],
);

/// PyTorch's `benchmarks/fastrnns`; without norms it has two biases.
pub(in crate::weights) static FASTRNNS: Spec = spec(
    "fastrnns",
    Naming {
        one: "layers.{l}.cell.",
        many: Some("layers.{l}.cell."),
        both: Some("layers.{l}.{d}cell."),
        directions: ["directions.0.", "directions.1."],
        ..BARE
    },
    &[&[Mark("layernorm_i.weight", 1), Mark("weight_ih", 2)], &[Mark("cell.weight_ih", 2)]],
    &[lstm(
        "fastrnns",
        IFGO,
        &[
            rule("weight_ih", &[W]),
            rule("weight_hh", &[U]),
            rule("bias_ih", &[BX]),
            rule("bias_hh", &[BH]),
            rule("layernorm_i.weight", &[INPUT_GAIN]),
            rule("layernorm_i.bias", &[INPUT_SHIFT]),
            rule("layernorm_h.weight", &[RECURRENT_GAIN]),
            rule("layernorm_h.bias", &[RECURRENT_SHIFT]),
            rule("layernorm_c.weight", &[CELL_GAIN]).whole(),
            rule("layernorm_c.bias", &[CELL_SHIFT]).whole(),
        ],
    )],
);

/// haste's PyTorch modules, one layer each.
pub(in crate::weights) static HASTE: Spec = spec(
    "haste",
    Naming { many: Some("{l}."), ..BARE },
    &[&[Mark("recurrent_kernel", 2), Mark("kernel", 2), Mark("gamma", 2)]],
    &[
        lstm(
            "haste",
            IGFO,
            &[
                rule("kernel", &[W]).transposed(),
                rule("recurrent_kernel", &[U]).transposed(),
                rule("bias", &[RAW_BIAS]),
                rule("gamma", &[INPUT_GAIN, RECURRENT_GAIN]).transposed(),
                rule("gamma_h", &[CELL_GAIN]).whole(),
                rule("beta_h", &[CELL_SHIFT]).whole(),
            ],
        ),
        gru(
            "haste",
            ZRN,
            AFTER,
            &[
                rule("kernel", &[W]).transposed(),
                rule("recurrent_kernel", &[U]).transposed(),
                rule("bias", &[RAW_BIAS]),
                rule("recurrent_bias", &[RECURRENT_SHIFT]),
                rule("gamma", &[INPUT_GAIN, RECURRENT_GAIN]).transposed(),
            ],
        ),
    ],
);

/// NM512's port of DreamerV3 (PyTorch), one matrix on `[x, h]`.
pub(in crate::weights) static DREAMER_TORCH: Spec = spec(
    "dreamer-torch",
    BARE,
    &[&[Mark("_layer.weight", 2), Mark("_norm.weight", 1)]],
    &[gru(
        "dreamer",
        DREAMER_GATES,
        &[Reset::Sum],
        &[rule("_layer.weight", &[W, U]), rule("_norm.weight", &[SUM_GAIN]), rule("_norm.bias", &[SUM_SHIFT])],
    )],
);

/// The Torch module of the paper's authors, with one layer per gate.
pub(in crate::weights) static DRAW: Spec = spec(
    "draw",
    BARE,
    &[&[Mark("in_gate.i2h.weight", 2), Mark("in_transform.i2h.weight", 2)]],
    &[lstm(
        "draw",
        IFOG,
        &[
            rule("in_gate.i2h.weight", &[W]).only(&[I]),
            rule("in_gate.i2h.bias", &[BX]).only(&[I]),
            rule("in_gate.h2h.weight", &[U]).only(&[I]),
            rule("in_gate.h2h.bias", &[BH]).only(&[I]),
            rule("forget_gate.i2h.weight", &[W]).only(&[F]),
            rule("forget_gate.i2h.bias", &[BX]).only(&[F]),
            rule("forget_gate.h2h.weight", &[U]).only(&[F]),
            rule("forget_gate.h2h.bias", &[BH]).only(&[F]),
            rule("out_gate.i2h.weight", &[W]).only(&[O]),
            rule("out_gate.i2h.bias", &[BX]).only(&[O]),
            rule("out_gate.h2h.weight", &[U]).only(&[O]),
            rule("out_gate.h2h.bias", &[BH]).only(&[O]),
            rule("in_transform.i2h.weight", &[W]).only(&[G]),
            rule("in_transform.i2h.bias", &[BX]).only(&[G]),
            rule("in_transform.h2h.weight", &[U]).only(&[G]),
            rule("in_transform.h2h.bias", &[BH]).only(&[G]),
            rule("ln.gamma", &[CELL_GAIN]).whole(),
            rule("ln.beta", &[CELL_SHIFT]).whole(),
        ],
    )],
);
