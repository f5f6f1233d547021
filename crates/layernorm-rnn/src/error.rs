//! What can be wrong with a call, with what was expected and what came.

use std::fmt;

/// Why a call was refused. Nothing has been written when an error is returned; only where memory is missing for rows that rule 6
/// of the contract does again, gradients may be written in part.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// A slice has another length than the sizes ask for.
    Length {
        /// Which argument.
        what: &'static str,
        /// The sizes that ask for it, as words: `[T, B, I] = [28, 64, 28]`.
        shape: String,
        /// Elements needed.
        expected: usize,
        /// Elements that came.
        found: usize,
    },
    /// A size is not possible.
    Size {
        /// Which size.
        what: &'static str,
        /// What is possible.
        expected: &'static str,
        /// What came.
        found: usize,
    },
    /// A number is not possible.
    Number {
        /// Which setting.
        what: &'static str,
        /// What is possible.
        expected: &'static str,
        /// What came.
        found: f64,
    },
    /// The length of a sequence is 0 or beyond the steps there are.
    SequenceLength {
        /// Which sequence of the batch.
        sequence: usize,
        /// Steps there are.
        steps: usize,
        /// The length that came.
        found: usize,
    },
    /// The parts of a variant do not go together.
    Variant {
        /// The variant.
        name: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// No variant has this name.
    UnknownVariant {
        /// `lstm`, `gru` or `rnn`.
        kind: &'static str,
        /// The name that came.
        name: String,
        /// The names there are.
        known: Vec<&'static str>,
    },
    /// What was asked for does not go with this network.
    Unsupported {
        /// What and why.
        what: String,
    },
    /// Memory that the call needs is not to be had.
    OutOfMemory {
        /// Bytes asked for; `usize::MAX` if they are more than can be counted.
        bytes: usize,
    },
    /// Backward was called without a forward pass in training before it.
    NothingRecorded,
    /// The network of a backward pass is not the one (or has not the parameters) of the forward pass before it.
    OtherNetwork,
    /// Something is wrong with a file or set of weights.
    Weights {
        /// What.
        what: String,
    },
    /// From the normalizations: instruction set, threads, ε.
    Norm(layernorm::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Length { what, shape, expected, found } => {
                write!(f, "{what}: expected {expected} elements for {shape}, found {found}")
            }
            Error::Size { what, expected, found } => write!(f, "{what}: expected {expected}, found {found}"),
            Error::Number { what, expected, found } => write!(f, "{what}: expected {expected}, found {found}"),
            Error::SequenceLength { sequence, steps, found } => {
                write!(f, "length of sequence {sequence}: expected 1 to {steps}, found {found}")
            }
            Error::Variant { name, what } => write!(f, "variant {name}: {what}"),
            Error::UnknownVariant { kind, name, known } => {
                write!(f, "variant of {kind}: expected one of {}, found {name:?}", known.join(", "))
            }
            Error::Unsupported { what } => f.write_str(what),
            Error::OutOfMemory { bytes } => layernorm::Error::OutOfMemory { bytes: *bytes }.fmt(f),
            Error::NothingRecorded => {
                f.write_str("backward: expected a forward pass in training before it, found none")
            }
            Error::OtherNetwork => f.write_str(
                "backward: expected the network of the forward pass before it, unchanged, found another one or other parameters",
            ),
            Error::Weights { what } => write!(f, "weights: {what}"),
            Error::Norm(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<layernorm::Error> for Error {
    fn from(error: layernorm::Error) -> Self {
        match error {
            layernorm::Error::OutOfMemory { bytes } => Error::OutOfMemory { bytes },
            error => Error::Norm(error),
        }
    }
}
