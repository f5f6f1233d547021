//! Libraries for TensorFlow, JAX and Theano. They compute x W instead of W x, so their matrices are transposed.

use super::super::table::*;
use super::*;

/// Keras, and the cells of TensorFlow Addons.
pub(in crate::weights) static KERAS: Spec = spec(
    "keras",
    Naming {
        one: "{class}/{class}_cell/",
        many: Some("{class}_{l}/{class}_cell/"),
        both: Some("bidirectional_{l}/{d}{class}/{class}_cell/"),
        directions: ["forward_", "backward_"],
        ..BARE
    },
    &[&[Mark("/recurrent_kernel", 2), Mark("/kernel", 2)], &[Mark("recurrent_kernel", 2), Mark("kernel", 2)]],
    &[
        lstm(
            "keras",
            IFGO,
            &[
                rule("kernel", &[W]).transposed(),
                rule("recurrent_kernel", &[U]).transposed(),
                rule("bias", &[B]),
                rule("kernel_norm/gamma", &[INPUT_GAIN]),
                rule("kernel_norm/beta", &[INPUT_SHIFT]),
                rule("recurrent_norm/gamma", &[RECURRENT_GAIN]),
                rule("recurrent_norm/beta", &[RECURRENT_SHIFT]),
                rule("state_norm/gamma", &[CELL_GAIN]).whole(),
                rule("state_norm/beta", &[CELL_SHIFT]).whole(),
            ],
        ),
        gru(
            "none",
            ZRN,
            ANY,
            &[
                rule("kernel", &[W]).transposed(),
                rule("recurrent_kernel", &[U]).transposed(),
                rule("bias", &[BX, BH]).transposed().when(When::ResetProduct),
                rule("bias", &[B]).when(When::ResetElse),
            ],
        ),
        rnn(
            "keras",
            &[
                rule("kernel", &[W]).transposed(),
                rule("recurrent_kernel", &[U]).transposed(),
                rule("bias", &[B]),
                rule("gamma", &[SUM_GAIN]),
            ],
        ),
    ],
);

/// tf.contrib's LayerNormBasicLSTMCell, with `layer_norm=True` or `False`, and TensorFlow 1's LSTMCell and
/// BasicLSTMCell. All of them add `forget_bias`, 1 by default, to the forget gate, in addition to any bias or norm:
/// that is the variant's `offset`. (TensorFlow's documentation: "We add forget_bias (default: 1) to the biases of the
/// forget gate in order to reduce the scale of forgetting in the beginning of the training.") LayerNormLSTMCell
/// creates a bias but, with norms, does not read it; its peepholes, which come after the norms, have no counterpart
/// here.
pub(in crate::weights) static CONTRIB: Spec = Spec {
    clips: true,
    ignored: &["bias"],
    ..spec(
        "contrib",
        Naming {
            one: "rnn/layer_norm_basic_lstm_cell/",
            many: Some("rnn/multi_rnn_cell/cell_{l}/layer_norm_basic_lstm_cell/"),
            both: Some("stack_bidirectional_rnn/cell_{l}/bidirectional_rnn/{d}layer_norm_basic_lstm_cell/"),
            directions: ["fw/", "bw/"],
            inner: "projection/",
            ..BARE
        },
        &[&[Mark("kernel", 2), Mark("transform/gamma", 1)], &[Mark("layer_norm_basic_lstm_cell/kernel", 2)]],
        &[lstm(
            "per-gate",
            IGFO,
            &[
                rule("kernel", &[W, U]).transposed(),
                rule("bias", &[B]),
                rule("input/gamma", &[SUM_GAIN]).only(&[I]),
                rule("input/beta", &[SUM_SHIFT]).only(&[I]),
                rule("transform/gamma", &[SUM_GAIN]).only(&[G]),
                rule("transform/beta", &[SUM_SHIFT]).only(&[G]),
                rule("forget/gamma", &[SUM_GAIN]).only(&[F]),
                rule("forget/beta", &[SUM_SHIFT]).only(&[F]),
                rule("output/gamma", &[SUM_GAIN]).only(&[O]),
                rule("output/beta", &[SUM_SHIFT]).only(&[O]),
                rule("state/gamma", &[CELL_GAIN]).whole(),
                rule("state/beta", &[CELL_SHIFT]).whole(),
                rule("projection/kernel", &[PROJECTION]).whole().transposed(),
            ],
        )],
    )
};

/// TensorFlow Lite, with the names of its tensors in `lstm_eval.cc`.
pub(in crate::weights) static TFLITE: Spec = Spec {
    coupling: Coupling::Without("input_to_input_weights"),
    clips: true,
    ..spec(
        "tflite",
        Naming { separators: "_./", both: Some("{d}"), directions: ["fw_", "bw_"], ..BARE },
        &[&[Mark("input_to_forget_weights", 2), Mark("recurrent_to_forget_weights", 2)]],
        &[lstm(
            "tflite",
            IFGO,
            &[
                rule("input_to_forget_weights", &[W]).only(&[F]),
                rule("input_to_input_weights", &[W]).only(&[I]),
                rule("input_to_cell_weights", &[W]).only(&[G]),
                rule("input_to_output_weights", &[W]).only(&[O]),
                rule("recurrent_to_input_weights", &[U]).only(&[I]),
                rule("recurrent_to_forget_weights", &[U]).only(&[F]),
                rule("recurrent_to_cell_weights", &[U]).only(&[G]),
                rule("recurrent_to_output_weights", &[U]).only(&[O]),
                rule("cell_to_input_weights", &[PEEPHOLE]).only(&[I]),
                rule("cell_to_forget_weights", &[PEEPHOLE]).only(&[F]),
                rule("cell_to_output_weights", &[PEEPHOLE]).only(&[O]),
                rule("input_gate_bias", &[B]).only(&[I]),
                rule("forget_gate_bias", &[B]).only(&[F]),
                rule("cell_gate_bias", &[B]).only(&[G]),
                rule("output_gate_bias", &[B]).only(&[O]),
                rule("input_layer_norm_coefficients", &[SUM_GAIN]).only(&[I]),
                rule("forget_layer_norm_coefficients", &[SUM_GAIN]).only(&[F]),
                rule("cell_layer_norm_coefficients", &[SUM_GAIN]).only(&[G]),
                rule("output_layer_norm_coefficients", &[SUM_GAIN]).only(&[O]),
                rule("projection_weights", &[PROJECTION]).whole(),
                rule("projection_bias", &[PROJECTION_BIAS]).whole(),
            ],
        )],
    )
};

/// DreamerV3 (JAX), one kernel on `[h, x]`.
pub(in crate::weights) static DREAMER: Spec = spec(
    "dreamer",
    Naming { one: "gru/", ..BARE },
    &[&[Mark("gru/kernel", 2), Mark("norm/scale", 1)]],
    &[gru(
        "dreamer",
        DREAMER_GATES,
        &[Reset::Sum],
        &[rule("kernel", &[U, W]).transposed(), rule("norm/scale", &[SUM_GAIN]), rule("norm/bias", &[SUM_SHIFT])],
    )],
);

/// The Theano code of the paper's authors.
pub(in crate::weights) static THEANO: Spec = spec(
    "theano",
    Naming { separators: "_", one: "ln{kind}_", ..BARE },
    &[&[Mark("_U", 2), Mark("_W", 2), Mark("_s1", 1)]],
    &[
        lstm(
            "theano",
            IFOG,
            &[
                rule("W", &[W]).transposed(),
                rule("U", &[U]).transposed(),
                rule("b", &[RAW_BIAS]),
                rule("s1", &[INPUT_GAIN]),
                rule("b1", &[INPUT_SHIFT]),
                rule("s2", &[RECURRENT_GAIN]),
                rule("b2", &[RECURRENT_SHIFT]),
                rule("s3", &[CELL_GAIN]).whole(),
                rule("b3", &[CELL_SHIFT]).whole(),
            ],
        ),
        gru(
            "theano",
            RZN,
            AFTER,
            &[
                rule("W", &[W]).only(&[R, Z]).transposed(),
                rule("Wx", &[W]).only(ONE).transposed(),
                rule("U", &[U]).only(&[R, Z]).transposed(),
                rule("Ux", &[U]).only(ONE).transposed(),
                rule("b", &[INPUT_BIAS]).only(&[R, Z]),
                rule("bx", &[INPUT_BIAS]).only(ONE),
                rule("s1", &[INPUT_GAIN]).only(&[R, Z]),
                rule("b1", &[INPUT_SHIFT]).only(&[R, Z]),
                rule("s2", &[INPUT_GAIN]).only(ONE),
                rule("b2", &[INPUT_SHIFT]).only(ONE),
                rule("s3", &[RECURRENT_GAIN]).only(&[R, Z]),
                rule("b3", &[RECURRENT_SHIFT]).only(&[R, Z]),
                rule("s4", &[RECURRENT_GAIN]).only(ONE),
                rule("b4", &[RECURRENT_SHIFT]).only(ONE),
            ],
        ),
    ],
);
