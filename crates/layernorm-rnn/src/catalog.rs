//! The named variants. docs/RECURRENT.md gives the source and the equations of each.

use crate::error::Error;
use crate::variant::{Activation, CellNorm, EpsPlace, Kind, NormSpec, Over, Reset, Update, Variant};

const LN: NormSpec = NormSpec::new(1e-5);
const LSTM: Variant = Variant::plain(Kind::Lstm);
const GRU: Variant = Variant::plain(Kind::Gru);
const RNN: Variant = Variant::plain(Kind::Rnn);

const fn shown(norm: NormSpec) -> Option<CellNorm> {
    Some(CellNorm { norm, carried: false })
}

const fn carried(norm: NormSpec) -> Option<CellNorm> {
    Some(CellNorm { norm, carried: true })
}

/// Sets the input norm and the recurrent norm.
const fn both(norm: NormSpec, variant: Variant) -> Variant {
    let (input_norm, recurrent_norm) = (Some(norm), Some(norm));
    Variant { input_norm, recurrent_norm, ..variant }
}

const fn named(name: &'static str, variant: Variant) -> Variant {
    Variant { name, ..variant }
}

/// Adds a bias to each product, as in PyTorch, cuDNN and ONNX.
const fn two_biases(variant: Variant) -> Variant {
    Variant { input_bias: true, recurrent_bias: true, bias: false, ..variant }
}

const PAPER_LSTM: Variant = both(LN, Variant { cell_norm: shown(LN), ..LSTM });
const PAPER_RNN: Variant = Variant { sum_norm: Some(LN), bias: false, ..RNN };
const SPLIT_RNN: Variant = both(LN, Variant { bias: false, ..RNN });
const KERAS_RNN: Variant = Variant { sum_norm: Some(LN.without_bias()), ..RNN };

const fn relu(variant: Variant) -> Variant {
    Variant { activation: Activation::Relu, ..variant }
}

const SPLIT: NormSpec = LN.over(Over::GatesAndCandidate);
const TFLITE: Variant = Variant {
    sum_norm: Some(NormSpec::new(1e-8).over(Over::EachGate).without_bias()),
    peephole: true,
    projection_bias: true,
    ..LSTM
};

/// All named variants.
static CATALOG: [Variant; 25] = [
    named("paper", PAPER_LSTM),
    named("theano", Variant { tied_bias: true, ..PAPER_LSTM }),
    named("draw", Variant { cell_norm: shown(NormSpec { eps_place: EpsPlace::Deviation, ..LN }), ..LSTM }),
    named("fastrnns", both(LN, Variant { cell_norm: carried(LN), bias: false, ..LSTM })),
    named("torchaudio", Variant { sum_norm: Some(LN), cell_norm: carried(LN), bias: false, ..LSTM }),
    named("keras", both(NormSpec::new(1e-3), Variant { cell_norm: carried(NormSpec::new(1e-3)), ..LSTM })),
    named("haste", both(LN.without_bias(), Variant { cell_norm: shown(LN), ..LSTM })),
    named("tflite", TFLITE),
    named("tflite-cifg", Variant { coupled: true, ..TFLITE }),
    named(
        "per-gate",
        Variant {
            sum_norm: Some(NormSpec::new(1e-12).over(Over::EachGate)),
            cell_norm: carried(NormSpec::new(1e-12)),
            bias: false,
            offset: 1.0,
            ..LSTM
        },
    ),
    named("none", two_biases(LSTM)),
    named("paper", both(SPLIT, Variant { bias: false, update: Update::TakesNew, ..GRU })),
    named("theano", both(SPLIT, Variant { bias: false, input_bias: true, ..GRU })),
    // haste's recurrent bias is the β of the recurrent norm: after the norm, inside the reset gate's product.
    named("haste", Variant { input_norm: Some(LN.without_bias()), recurrent_norm: Some(LN), ..GRU }),
    named(
        "dreamer",
        Variant {
            sum_norm: Some(NormSpec::new(1e-3)),
            bias: false,
            offset: -1.0,
            reset: Reset::Sum,
            update: Update::TakesNew,
            ..GRU
        },
    ),
    named("none", two_biases(GRU)),
    named("none-reset-before", Variant { reset: Reset::State, ..two_biases(GRU) }),
    named("paper", PAPER_RNN),
    named("paper-relu", relu(PAPER_RNN)),
    named("split", SPLIT_RNN),
    named("split-relu", relu(SPLIT_RNN)),
    named("keras", KERAS_RNN),
    named("keras-relu", relu(KERAS_RNN)),
    named("none", two_biases(RNN)),
    named("none-relu", relu(two_biases(RNN))),
];

impl Variant {
    /// Returns the named variants of a kind.
    pub fn all(kind: Kind) -> impl Iterator<Item = &'static Variant> {
        CATALOG.iter().filter(move |variant| variant.kind == kind)
    }

    /// Returns a variant by its name. Fails if the kind has no variant of this name.
    ///
    /// ```
    /// use layernorm_rnn::{Kind, Variant};
    /// let variant = Variant::named(Kind::Lstm, "paper")?;
    /// assert!(variant.cell_norm.is_some());
    /// assert!(Variant::named(Kind::Gru, "papier").unwrap_err().to_string().contains("dreamer"));
    /// # Ok::<(), layernorm_rnn::Error>(())
    /// ```
    pub fn named(kind: Kind, name: &str) -> Result<Variant, Error> {
        Variant::all(kind).find(|variant| variant.name == name).copied().ok_or_else(|| {
            let known = Variant::all(kind).map(|variant| variant.name).collect();
            Error::UnknownVariant { kind: kind.name(), name: name.to_owned(), known }
        })
    }
}
