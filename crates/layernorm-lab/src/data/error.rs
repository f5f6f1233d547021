//! Errors: the file, what was expected and what was found.

use layernorm_files::shown;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why data could not be loaded.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be used.
    File {
        /// The file, or the name of embedded data.
        path: PathBuf,
        /// What is wrong with it.
        problem: Problem,
    },
    /// A folder lacks one of the four files.
    Missing {
        /// The folder.
        dir: PathBuf,
        /// The accepted names.
        names: Vec<String>,
    },
    /// The numbers of labels and images differ.
    Count {
        /// The image file.
        images: PathBuf,
        /// Number of images.
        expected: usize,
        /// The label file.
        labels: PathBuf,
        /// Number of labels.
        found: usize,
    },
    /// Test and training images differ in size.
    Size {
        /// The file with the test images.
        path: PathBuf,
        /// Rows and columns of the training images.
        expected: (usize, usize),
        /// Rows and columns of the test images.
        found: (usize, usize),
    },
    /// More images were requested than available. A split must leave at least one image on either side.
    TooFew {
        /// Number of requested images.
        asked: usize,
        /// The actual number.
        there: usize,
    },
    /// The file could not be downloaded from any URL.
    Download {
        /// Destination of the file.
        path: PathBuf,
        /// The attempts, in order.
        attempts: Vec<Attempt>,
    },
    /// Another process is downloading this file.
    Busy {
        /// The unfinished file.
        path: PathBuf,
    },
}

/// A failed download attempt.
#[derive(Debug)]
pub struct Attempt {
    /// The URL.
    pub url: String,
    /// Why it failed.
    pub fault: Fault,
}

/// Why a download failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Fault {
    /// No network, unknown host, connection refused, untrusted certificate, timeout, or a response that is not HTTP.
    Unreachable {
        /// The network error.
        reason: String,
    },
    /// The server did not return the file.
    Status {
        /// The HTTP status.
        code: u16,
    },
    /// The response has the wrong length.
    Length {
        /// Size of the file in bytes.
        expected: u64,
        /// Size of the response, or the bytes received so far if they are already too many.
        found: u64,
    },
    /// The connection was closed early too many times.
    Cut {
        /// Size of the file in bytes.
        expected: u64,
        /// Bytes received so far; the next download resumes from there.
        found: u64,
        /// The network error.
        reason: String,
    },
    /// The server is too slow.
    Slow {
        /// Size of the file in bytes.
        expected: u64,
        /// Bytes received so far; the next download resumes from there.
        found: u64,
        /// Bytes received in the interval.
        bytes: u64,
        /// The interval.
        time: Duration,
        /// The minimum rate in bytes per second.
        slowest: u64,
    },
    /// The checksum of the download is wrong. The download was removed.
    Checksum {
        /// The expected SHA-256 in hexadecimal digits.
        expected: String,
        /// The SHA-256 of the download.
        found: String,
    },
}

/// A problem with a file.
#[derive(Debug)]
#[non_exhaustive]
pub enum Problem {
    /// An I/O error.
    Io {
        /// The action: `open`, `read`, …
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The gzip stream cannot be decompressed.
    Gzip {
        /// Number of bytes decompressed.
        after: u64,
        /// The decompressor's error.
        source: io::Error,
    },
    /// The first two bytes are not zero, or there are fewer than four.
    NotIdx {
        /// The first bytes, at most four.
        found: Vec<u8>,
    },
    /// The elements are not unsigned bytes.
    Type {
        /// The type's code.
        found: u8,
    },
    /// The number of dimensions is not that of images (3) or labels (1).
    Dimensions {
        /// The expected number.
        expected: usize,
        /// The actual number.
        found: usize,
    },
    /// A dimension of length zero.
    Empty {
        /// The shape.
        shape: Vec<usize>,
    },
    /// The file is larger than [`idx::MAX_BYTES`](super::idx::MAX_BYTES).
    TooLarge {
        /// The shape in the header.
        shape: Vec<usize>,
        /// The maximum number of bytes.
        limit: u64,
    },
    /// The file is truncated.
    Truncated {
        /// The size according to the header.
        expected: u64,
        /// The actual size (decompressed).
        found: u64,
    },
    /// There are bytes after the last element.
    Trailing {
        /// The expected size (decompressed).
        expected: u64,
    },
    /// A label is not a digit.
    Label {
        /// Index of the label, from 0.
        index: usize,
        /// The label.
        found: u8,
        /// The largest valid label.
        largest: u8,
    },
    /// A text is not UTF-8.
    Utf8 {
        /// Number of valid bytes before the first invalid one.
        after: usize,
        /// The invalid byte.
        found: u8,
    },
    /// A text is too short to be split into training, validation and test.
    Short {
        /// The minimum number of characters.
        expected: usize,
        /// The actual number.
        found: usize,
    },
    /// A text is too long.
    Long {
        /// The maximum number of bytes.
        limit: u64,
    },
    /// A text has too few or too many different characters.
    Vocabulary {
        /// The minimum and the maximum number.
        expected: [usize; 2],
        /// The actual number.
        found: usize,
    },
}

impl Problem {
    /// For `map_err`: an I/O error of an action.
    pub(super) fn io(action: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { action, source }
    }

    /// Converts a file error.
    pub(super) fn file(error: layernorm_files::Error) -> Error {
        let (path, action, source) = error.into_parts();
        Self::Io { action, source }.of(path)
    }

    /// Adds the file to the problem.
    pub(super) fn of(self, path: impl Into<PathBuf>) -> Error {
        Error::File { path: path.into(), problem: self }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, problem } => write!(f, "{}: {problem}", shown(path)),
            Self::Missing { dir, names } => {
                write!(f, "{}: expected one of the files {}, found none", shown(dir), names.join(", "))
            }
            Self::Count { images, expected, labels, found } => write!(
                f,
                "{}: expected {expected} labels, one per image in {}, found {found}",
                shown(labels),
                shown(images)
            ),
            Self::Size { path, expected, found } => write!(
                f,
                "{}: expected images of {}×{}, like the training images, found {}×{}",
                shown(path),
                expected.0,
                expected.1,
                found.0,
                found.1
            ),
            Self::TooFew { asked, there } => write!(
                f,
                "cannot take {asked} of {there} images: at least one must be \
                 left"
            ),
            Self::Download { path, attempts } => {
                write!(f, "{}: download failed", shown(path))?;
                attempts.iter().try_for_each(|Attempt { url, fault }| write!(f, "\n  {url}: {fault}"))?;
                match attempts.iter().all(|attempt| matches!(attempt.fault, Fault::Unreachable { .. })) {
                    true => f.write_str("\n  check the network connection and the proxy settings"),
                    false => Ok(()),
                }
            }
            Self::Busy { path } => write!(f, "{}: another process is downloading this file", shown(path)),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { reason } => write!(f, "not reachable: {reason}"),
            Self::Status { code } => write!(f, "expected the file, found HTTP status {code}"),
            Self::Length { expected, found } => write!(f, "expected {expected} bytes, found {found}"),
            Self::Cut { expected, found, reason } => {
                write!(
                    f,
                    "interrupted after {found} of {expected} bytes ({reason}); the next download resumes from \
                           there"
                )
            }
            Self::Slow { expected, found, bytes, time, slowest } => write!(
                f,
                "too slow: expected {slowest} bytes per second or more, found {bytes} in {:.0} s; the next download \
                 resumes after {found} of {expected} bytes",
                time.as_secs_f64()
            ),
            Self::Checksum { expected, found } => {
                write!(f, "wrong checksum: expected SHA-256 {expected}, found {found}; the download was removed")
            }
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { action, source } => write!(f, "cannot {action}: {source}"),
            Self::Gzip { after, source } => {
                write!(f, "the gzip stream is damaged: decompressed {after} bytes, then: {source}")
            }
            Self::NotIdx { found } => {
                write!(
                    f,
                    "not an idx file: expected it to start with \"\\x00\\x00\\x08\", found \"{}\"",
                    found.escape_ascii()
                )
            }
            Self::Type { found } => {
                write!(
                    f,
                    "expected elements of type 0x08 (unsigned bytes), found 0x{found:02x} ({})",
                    type_name(*found)
                )
            }
            Self::Dimensions { expected, found } => {
                let kind = if *expected == 1 { "labels (1 dimension)" } else { "images (3 dimensions)" };
                write!(f, "expected {kind}, found {found}")
            }
            Self::Empty { shape } => write!(f, "expected at least one image, found shape {shape:?}"),
            Self::TooLarge { shape, limit } => {
                write!(f, "the header has shape {shape:?}; expected at most {limit} bytes")
            }
            Self::Truncated { expected, found } => {
                write!(f, "truncated: expected {expected} bytes, found {found}")
            }
            Self::Trailing { expected } => write!(f, "expected {expected} bytes, found more"),
            Self::Label { index, found, largest } => {
                write!(f, "label {index}: expected 0 to {largest}, found {found}")
            }
            Self::Utf8 { after, found } => {
                write!(f, "expected text in UTF-8, found the invalid byte 0x{found:02x} after {after} bytes")
            }
            Self::Short { expected, found } => write!(f, "expected at least {expected} characters, found {found}"),
            Self::Long { limit } => write!(f, "expected at most {limit} bytes of text, found more"),
            Self::Vocabulary { expected: [least, most], found } => {
                write!(f, "expected {least} to {most} different characters, found {found}")
            }
        }
    }
}

/// Names of the idx types.
fn type_name(code: u8) -> &'static str {
    match code {
        0x08 => "unsigned bytes",
        0x09 => "signed bytes",
        0x0b => "16-bit integers",
        0x0c => "32-bit integers",
        0x0d => "32-bit floats",
        0x0e => "64-bit floats",
        _ => "not an idx type",
    }
}

// No `source`: the messages already include it.
impl std::error::Error for Error {}
impl std::error::Error for Problem {}
