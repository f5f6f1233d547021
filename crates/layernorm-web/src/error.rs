//! Errors, with the expected and the actual values. The page shows them as text.

use std::fmt;

/// Reason why a call was rejected. Nothing has changed then.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// The bytes of a call do not follow the protocol: the script and the module do not belong together.
    Protocol {
        /// What was expected.
        expected: &'static str,
    },
    /// There is no command of this name.
    Command {
        /// The name.
        found: String,
    },
    /// A required option is absent.
    Missing {
        /// Which option.
        option: String,
        /// What it should be.
        expected: &'static str,
    },
    /// An option has the wrong type or is out of range.
    Value {
        /// Which option.
        option: String,
        /// What it should be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// An option has an unknown name.
    Unknown {
        /// The name.
        option: String,
        /// The options that exist.
        known: Vec<String>,
    },
    /// An array does not have the length that the sizes require.
    Length {
        /// Which option.
        option: &'static str,
        /// The sizes that determine the length, as text: `[steps, batch, input] = [5, 2, 3]`.
        shape: String,
        /// Required number of elements.
        expected: usize,
        /// Actual number of elements.
        found: usize,
    },
    /// The trainer was freed, or never existed.
    Trainer {
        /// Its number.
        found: usize,
    },
    /// An error of the normalizations.
    Norm(layernorm::Error),
    /// An error of the recurrent networks.
    Recurrent(layernorm_rnn::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Protocol { expected } => {
                write!(f, "engine.js and the module do not belong together: expected {expected}")
            }
            Error::Command { found } => write!(f, "unknown command {found:?}"),
            Error::Missing { option, expected } => write!(f, "{option}: expected {expected}, found nothing"),
            Error::Value { option, expected, found } => write!(f, "{option}: expected {expected}, found {found}"),
            Error::Unknown { option, known } => {
                write!(f, "unknown option {option:?}: expected one of {}", known.join(", "))
            }
            Error::Length { option, shape, expected, found } => {
                write!(f, "{option}: expected {expected} elements for {shape}, found {found}")
            }
            Error::Trainer { found } => write!(f, "trainer {found} does not exist: it was freed"),
            Error::Norm(error) => error.fmt(f),
            Error::Recurrent(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<layernorm::Error> for Error {
    fn from(error: layernorm::Error) -> Self {
        Error::Norm(error)
    }
}

impl From<layernorm_rnn::Error> for Error {
    fn from(error: layernorm_rnn::Error) -> Self {
        Error::Recurrent(error)
    }
}
