//! Errors, with what was expected and what was found.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::DType;

/// Why an array could not be read, created or written.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Another error, in a file whose path is known.
    InFile {
        /// The path as given by the caller.
        path: PathBuf,
        /// The error; never `InFile` itself.
        error: Box<Error>,
    },
    /// The operating system, the reader or the writer failed.
    Io {
        /// The action that failed: `open`, `read`, …
        action: &'static str,
        /// The underlying error.
        source: io::Error,
    },
    /// The first six bytes are not `\x93NUMPY`.
    NotNpy {
        /// The bytes found.
        found: [u8; 6],
    },
    /// A format version other than 1.0, 2.0 and 3.0.
    Version {
        /// The first version byte.
        major: u8,
        /// The second version byte.
        minor: u8,
    },
    /// The file ends early.
    Truncated {
        /// The part in which it ends.
        part: Part,
        /// The length of this part in bytes, according to what precedes it.
        expected: u64,
        /// The bytes found.
        found: u64,
    },
    /// There are bytes after the data.
    TrailingBytes {
        /// The bytes of data according to the header.
        expected: u64,
        /// The bytes found. The reader is not read to its end, so there may be more.
        found: u64,
    },
    /// The header is longer than [`MAX_HEADER_LEN`](crate::MAX_HEADER_LEN).
    HeaderTooLong {
        /// The maximum length.
        limit: usize,
        /// The length according to the file.
        found: u64,
    },
    /// The header is not the expected Python dictionary.
    Header {
        /// The position of the error, in characters.
        offset: usize,
        /// What was expected there.
        expected: &'static str,
        /// What was found there, truncated after a few characters.
        found: String,
    },
    /// The header lacks one of its three keys.
    MissingKey {
        /// `descr`, `fortran_order` or `shape`.
        key: &'static str,
    },
    /// An element type that this crate does not support.
    UnsupportedDType {
        /// The type in the header, truncated if long.
        descr: String,
    },
    /// More dimensions than [`MAX_DIMENSIONS`](crate::MAX_DIMENSIONS).
    TooManyDimensions {
        /// The maximum number.
        limit: usize,
        /// The number found.
        found: usize,
    },
    /// An array of this shape has more bytes than this machine can address. Dimensions of length 0 are left out of the
    /// product, because strides would overflow anyway.
    ShapeTooLarge {
        /// The shape.
        shape: Vec<usize>,
        /// The type of the elements.
        dtype: DType,
    },
    /// The number of elements does not match the shape.
    LengthMismatch {
        /// The shape.
        shape: Vec<usize>,
        /// The number of elements of the shape.
        expected: usize,
        /// The number of elements found.
        found: usize,
    },
    /// The elements do not have the requested type.
    DTypeMismatch {
        /// The requested type.
        expected: DType,
        /// The actual type.
        found: DType,
    },
    /// There is not enough memory for the elements.
    OutOfMemory {
        /// The bytes requested.
        bytes: u64,
    },
}

/// A part of an `.npy` file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The magic string and the version, 8 bytes
    Magic,
    /// The length of the header, 2 or 4 bytes
    HeaderLength,
    /// The Python dictionary
    Header,
    /// The elements
    Data,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Magic => "magic string",
            Self::HeaderLength => "length of the header",
            Self::Header => "header",
            Self::Data => "data",
        })
    }
}

impl Error {
    /// The file it is about, if known.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::InFile { path, .. } => Some(path),
            _ => None,
        }
    }

    /// The error without the path.
    pub fn cause(&self) -> &Self {
        match self {
            Self::InFile { error, .. } => error,
            other => other,
        }
    }

    pub(crate) fn in_file(self, path: &Path) -> Self {
        Self::InFile { path: path.to_path_buf(), error: Box::new(self) }
    }

    /// For `map_err`: the I/O error of an action.
    pub(crate) fn io(action: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { action, source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InFile { path, error } => write!(f, "{}: {error}", layernorm_files::shown(path)),
            Self::Io { action, source } => write!(f, "cannot {action}: {source}"),
            Self::NotNpy { found } => write!(
                f,
                "not an .npy file: expected it to begin with \"\\x93NUMPY\", found \"{}\"",
                found.escape_ascii()
            ),
            Self::Version { major, minor } => {
                write!(f, "expected format version 1.0, 2.0 or 3.0, found {major}.{minor}")
            }
            Self::Truncated { part, expected, found } => {
                write!(f, "the {part} is truncated: expected {expected} bytes, found {found}")
            }
            Self::TrailingBytes { expected, found } => {
                write!(f, "extra bytes after the data: expected {expected} bytes, found at least {found}")
            }
            Self::HeaderTooLong { limit, found } => {
                write!(f, "the header is too long: expected at most {limit} bytes, found {found}")
            }
            Self::Header { offset, expected, found } => {
                write!(f, "the header is malformed at character {offset}: expected {expected}, found {found:?}")
            }
            Self::MissingKey { key } => write!(f, "the header has no key '{key}'"),
            Self::UnsupportedDType { descr } => write_unsupported(f, descr),
            Self::TooManyDimensions { limit, found } => {
                write!(f, "expected at most {limit} dimensions, found {found}")
            }
            Self::ShapeTooLarge { shape, dtype } => {
                write!(f, "shape {shape:?} of {dtype} has more bytes than can be addressed")
            }
            Self::LengthMismatch { shape, expected, found } => {
                write!(f, "shape {shape:?} has {expected} elements, found {found}")
            }
            Self::DTypeMismatch { expected, found } => {
                write!(f, "expected an array of {expected}, found {found}")
            }
            Self::OutOfMemory { bytes } => write!(f, "not enough memory for {bytes} bytes"),
        }
    }
}

fn write_unsupported(f: &mut fmt::Formatter<'_>, descr: &str) -> fmt::Result {
    write!(f, "elements of type {descr:?}")?;
    if let Some(kind) = kind(descr) {
        write!(f, " ({kind})")?;
    }
    f.write_str(" are not supported; the supported types are ")?;
    for (index, dtype) in DType::ALL.iter().enumerate() {
        let separator = match index {
            0 => "",
            last if last == DType::ALL.len() - 1 => " and ",
            _ => ", ",
        };
        write!(f, "{separator}{dtype}")?;
    }
    Ok(())
}

/// NumPy's name for the kind of type that a header denotes by one letter.
fn kind(descr: &str) -> Option<&'static str> {
    let letter = descr.trim_start_matches(['<', '>', '=', '|']).chars().next()?;
    Some(match letter {
        '[' | '(' => "structured",
        'O' => "Python objects",
        'b' | '?' => "boolean",
        'c' => "complex",
        'f' => "float",
        'i' => "signed integer",
        'u' => "unsigned integer",
        'S' | 'a' => "byte string",
        'U' => "string",
        'M' => "datetime",
        'm' => "timedelta",
        'V' => "void",
        _ => return None,
    })
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // Not `error` and `source` themselves: the message already contains them.
            Self::InFile { error, .. } => error.source(),
            Self::Io { source, .. } => source.source(),
            _ => None,
        }
    }
}
