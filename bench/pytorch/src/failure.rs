//! Why a call failed, in words.

use std::any::Any;
use std::fmt;

/// Why a call was refused.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A pointer is null.
    Null { what: &'static str },
    /// No element type has this code.
    Dtype { found: i32 },
    /// Text was asked for in a buffer of 0 bytes.
    NoRoom,
    /// No kind of network, no variant or no result has this code.
    Code { what: &'static str, found: i32 },
    /// Memory of another length than asked for.
    Count { what: &'static str, expected: usize, found: usize },
    /// The library's own words.
    Library(layernorm::Error),
    /// The words of the recurrent networks.
    Recurrent(layernorm_rnn::Error),
}

impl From<layernorm::Error> for Failure {
    fn from(error: layernorm::Error) -> Self {
        Failure::Library(error)
    }
}

impl From<layernorm_rnn::Error> for Failure {
    fn from(error: layernorm_rnn::Error) -> Self {
        Failure::Recurrent(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Null { what } => write!(f, "{what}: expected memory, found null"),
            Failure::Dtype { found } => write!(f, "dtype: expected {} or {}, found {found}", crate::F32, crate::BF16),
            Failure::Code { what, found } => write!(f, "{what}: expected a code of src/recurrent.rs, found {found}"),
            Failure::Count { what, expected, found } => write!(f, "{what}: expected {expected} numbers, found {found}"),
            Failure::NoRoom => f.write_str("text: expected room for 1 byte or more, found 0"),
            Failure::Library(error) => error.fmt(f),
            Failure::Recurrent(error) => error.fmt(f),
        }
    }
}

/// The message of a panic.
pub(crate) fn panic_words(panic: &(dyn Any + Send)) -> String {
    let message = panic.downcast_ref::<&str>().copied();
    let message = message.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", message.unwrap_or("no message"))
}
