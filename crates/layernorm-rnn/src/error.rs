//! Errors, with the expected and the actual values.

use std::fmt;

/// Reason why a call was rejected. When an error is returned, nothing has been written. The one exception: if memory
/// runs out while rows are recomputed by rule 6 of the contract, gradients may be partly written.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// A slice does not have the length that the sizes require.
    Length {
        /// Which argument.
        what: &'static str,
        /// The sizes that determine the length, as text: `[T, B, I] = [28, 64, 28]`.
        shape: String,
        /// Required number of elements.
        expected: usize,
        /// Actual number of elements.
        found: usize,
    },
    /// A size is out of range.
    Size {
        /// Which size.
        what: &'static str,
        /// Allowed values.
        expected: &'static str,
        /// Actual value.
        found: usize,
    },
    /// A number is out of range.
    Number {
        /// Which setting.
        what: &'static str,
        /// Allowed values.
        expected: &'static str,
        /// Actual value.
        found: f64,
    },
    /// The length of a sequence is 0 or more than the number of steps.
    SequenceLength {
        /// Index of the sequence in the batch.
        sequence: usize,
        /// Number of steps.
        steps: usize,
        /// Actual length.
        found: usize,
    },
    /// The settings of a variant contradict each other.
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
        /// The name.
        name: String,
        /// The known names.
        known: Vec<&'static str>,
    },
    /// The network does not support the request.
    Unsupported {
        /// What is not supported, and why.
        what: String,
    },
    /// Memory for the call could not be allocated.
    OutOfMemory {
        /// Bytes requested; `usize::MAX` if the number does not fit in a `usize`.
        bytes: usize,
    },
    /// Backward was called without a preceding forward pass in training.
    NothingRecorded,
    /// The network of a backward pass is not that of the preceding forward pass, or its parameters have changed.
    OtherNetwork,
    /// A file or set of weights is invalid.
    Weights {
        /// What is wrong.
        what: String,
    },
    /// An error from the normalizations: instruction set, threads, ε.
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
                f.write_str("backward: expected a preceding forward pass in training, found none")
            }
            Error::OtherNetwork => f.write_str(
                "backward: expected the unchanged network of the preceding forward pass, found another network or other parameters",
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
