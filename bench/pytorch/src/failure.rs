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
    /// The library's own words.
    Library(layernorm::Error),
}

impl From<layernorm::Error> for Failure {
    fn from(error: layernorm::Error) -> Self {
        Failure::Library(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Null { what } => write!(f, "{what}: expected memory, found null"),
            Failure::Dtype { found } => write!(f, "dtype: expected {} or {}, found {found}", crate::F32, crate::BF16),
            Failure::NoRoom => f.write_str("text: expected room for 1 byte or more, found 0"),
            Failure::Library(error) => error.fmt(f),
        }
    }
}

/// The message of a panic.
pub(crate) fn panic_words(panic: &(dyn Any + Send)) -> String {
    let message = panic.downcast_ref::<&str>().copied();
    let message = message.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", message.unwrap_or("no message"))
}
