//! What can go wrong, with the file, what was expected and what came.

use layernorm_files::shown;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why data could not be had.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A file is there and cannot be used.
    File {
        /// The file; of embedded data its name.
        path: PathBuf,
        /// What is wrong with it.
        problem: Problem,
    },
    /// A folder lacks one of the four files.
    Missing {
        /// The folder.
        dir: PathBuf,
        /// The names that were looked for.
        names: Vec<String>,
    },
    /// There are not as many labels as images.
    Count {
        /// The file of the images.
        images: PathBuf,
        /// How many images there are.
        expected: usize,
        /// The file of the labels.
        labels: PathBuf,
        /// How many labels there are.
        found: usize,
    },
    /// Test images of another size than the training images.
    Size {
        /// The file of the test images.
        path: PathBuf,
        /// Rows and columns of the training images.
        expected: (usize, usize),
        /// Rows and columns of the test images.
        found: (usize, usize),
    },
    /// More images were asked for than there are. A split must leave at least one on either side.
    TooFew {
        /// How many were asked for.
        asked: usize,
        /// How many there are.
        there: usize,
    },
    /// No address gave the file.
    Download {
        /// Where the file was to be.
        path: PathBuf,
        /// What was tried, in order.
        attempts: Vec<Attempt>,
    },
    /// Another process is fetching this file.
    Busy {
        /// The unfinished file.
        path: PathBuf,
    },
}

/// One address that did not give the file.
#[derive(Debug)]
pub struct Attempt {
    /// The address.
    pub url: String,
    /// What came instead.
    pub fault: Fault,
}

/// Why an address did not give a file.
#[derive(Debug)]
#[non_exhaustive]
pub enum Fault {
    /// No network, no such host, refused, not trusted, too slow, or an answer that is not HTTP.
    Unreachable {
        /// What the network said.
        reason: String,
    },
    /// The server answered with something else than the file.
    Status {
        /// The HTTP status.
        code: u16,
    },
    /// The answer has another length than the file.
    Length {
        /// The bytes of the file.
        expected: u64,
        /// The bytes of the answer, or more than were expected.
        found: u64,
    },
    /// The connection ended early, more often than it was taken up again.
    Cut {
        /// The bytes of the file.
        expected: u64,
        /// The bytes that are there; the next download goes on from them.
        found: u64,
        /// What the network said.
        reason: String,
    },
    /// The server sends so slowly that it is left.
    Slow {
        /// The bytes of the file.
        expected: u64,
        /// The bytes that are there; the next download goes on from them.
        found: u64,
        /// The bytes that came in the time.
        bytes: u64,
        /// The time.
        time: Duration,
        /// The bytes a second that would be enough.
        slowest: u64,
    },
    /// All bytes came and they are not the file. They were removed.
    Checksum {
        /// The sha256 of the file, in hexadecimal digits.
        expected: String,
        /// The sha256 of what came.
        found: String,
    },
}

/// What is wrong with a file.
#[derive(Debug)]
#[non_exhaustive]
pub enum Problem {
    /// The operating system refused.
    Io {
        /// What was tried: `open`, `read`, …
        action: &'static str,
        /// What came of it.
        source: io::Error,
    },
    /// The gzip stream cannot be unpacked.
    Gzip {
        /// The bytes that could be.
        after: u64,
        /// What the unpacker said.
        source: io::Error,
    },
    /// The first two bytes are not zero, or there are no four.
    NotIdx {
        /// The first bytes, at most four.
        found: Vec<u8>,
    },
    /// Elements of another type than unsigned bytes.
    Type {
        /// The type's code.
        found: u8,
    },
    /// Other dimensions than images (3) or labels (1) have.
    Dimensions {
        /// How many there must be.
        expected: usize,
        /// How many there are.
        found: usize,
    },
    /// A dimension of length zero.
    Empty {
        /// All lengths.
        shape: Vec<usize>,
    },
    /// More than is read at all: [`idx::MAX_BYTES`](super::idx::MAX_BYTES).
    TooLarge {
        /// The lengths that the header promises.
        shape: Vec<usize>,
        /// The most bytes that are read.
        limit: u64,
    },
    /// The file ends early.
    Truncated {
        /// The bytes that header and lengths promise.
        expected: u64,
        /// The bytes that are there (unpacked).
        found: u64,
    },
    /// There are bytes after the last element.
    Trailing {
        /// The bytes that there must be (unpacked).
        expected: u64,
    },
    /// A label that is no digit.
    Label {
        /// Which one, from zero.
        index: usize,
        /// The label.
        found: u8,
        /// The largest that there may be.
        largest: u8,
    },
}

impl Problem {
    /// For `map_err`: an I/O error of what was tried.
    pub(super) fn io(action: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { action, source }
    }

    /// The error, of what came of a file.
    pub(super) fn file(error: layernorm_files::Error) -> Error {
        let (path, action, source) = error.into_parts();
        Self::Io { action, source }.of(path)
    }

    /// The error, of this file.
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
                "{}: expected {expected} labels, as many as there are images in {}, found {found}",
                shown(labels),
                shown(images)
            ),
            Self::Size { path, expected, found } => write!(
                f,
                "{}: expected images of {}×{}, as those for training, found {}×{}",
                shown(path),
                expected.0,
                expected.1,
                found.0,
                found.1
            ),
            Self::TooFew { asked, there } => write!(f, "cannot take {asked} of {there} images: at least one must stay"),
            Self::Download { path, attempts } => {
                write!(f, "{}: cannot be downloaded", shown(path))?;
                attempts.iter().try_for_each(|Attempt { url, fault }| write!(f, "\n  {url}: {fault}"))?;
                match attempts.iter().all(|attempt| matches!(attempt.fault, Fault::Unreachable { .. })) {
                    true => f.write_str("\n  is there a network, or a proxy in between?"),
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
            Self::Unreachable { reason } => write!(f, "cannot be reached: {reason}"),
            Self::Status { code } => write!(f, "expected the file, found HTTP status {code}"),
            Self::Length { expected, found } => write!(f, "expected {expected} bytes, found {found}"),
            Self::Cut { expected, found, reason } => {
                write!(f, "cut off after {found} of {expected} bytes ({reason}); the next download goes on from there")
            }
            Self::Slow { expected, found, bytes, time, slowest } => write!(
                f,
                "too slow: expected {slowest} bytes a second or more, found {bytes} in {:.0} s; {found} of {expected} bytes are \
                 there, and the next download goes on from them",
                time.as_secs_f64()
            ),
            Self::Checksum { expected, found } => {
                write!(f, "wrong checksum: expected sha256 {expected}, found {found}; what came was removed")
            }
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { action, source } => write!(f, "cannot {action}: {source}"),
            Self::Gzip { after, source } => {
                write!(f, "the gzip stream is damaged: unpacked {after} bytes, then: {source}")
            }
            Self::NotIdx { found } => {
                write!(
                    f,
                    "not an idx file: expected it to begin with \"\\x00\\x00\\x08\", found \"{}\"",
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
                let kind = if *expected == 1 { "labels" } else { "images" };
                write!(f, "expected {kind} (dimensions: {expected}), found dimensions: {found}")
            }
            Self::Empty { shape } => write!(f, "expected at least one image, found shape {shape:?}"),
            Self::TooLarge { shape, limit } => {
                write!(f, "the header promises shape {shape:?}; expected at most {limit} bytes")
            }
            Self::Truncated { expected, found } => {
                write!(f, "cut short: expected {expected} bytes, found {found}")
            }
            Self::Trailing { expected } => write!(f, "expected {expected} bytes, found more"),
            Self::Label { index, found, largest } => {
                write!(f, "label {index}: expected 0 to {largest}, found {found}")
            }
        }
    }
}

/// What idx calls its types.
fn type_name(code: u8) -> &'static str {
    match code {
        0x08 => "unsigned bytes",
        0x09 => "signed bytes",
        0x0b => "16-bit integers",
        0x0c => "32-bit integers",
        0x0d => "32-bit floats",
        0x0e => "64-bit floats",
        _ => "no type of idx",
    }
}

// No `source`: the messages say what is below them already.
impl std::error::Error for Error {}
impl std::error::Error for Problem {}
