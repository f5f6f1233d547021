//! Records: the events of a run, one file per run, one JSON object per line. Files are append-only, and every line is
//! written with one call before the run continues. If a run is killed, its file therefore holds complete lines and at
//! most one broken line at the end, which is removed when the run resumes.
//!
//! ```text
//! {"record":"start","version":2,"study":"epsilon","run":"epsilon-layer-1","settings":{…},"sum":"0f3a…"}
//! {"record":"event","name":"loss","data":{…},"sum":"91c4…"}
//! {"record":"end","sum":"d200…"}
//! ```
//!
//! `sum` is a checksum of the line and of all lines before it ([`lines`]), so lines that were changed, removed,
//! duplicated or moved are detected when the file is read. Files of version 1 had no checksums; they are rejected and
//! never overwritten.
//!
//! Records contain no times: the same settings give the same bytes.

mod differences;
mod file;
pub mod lines;
#[cfg(test)]
mod tests;

pub(crate) use differences::Differences;
pub use file::{Follower, RunFile};
pub use lines::{Event, Header, Record, VERSION};

use layernorm_files::shown;
use lines::Wrong;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a file of records could not be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// An I/O error.
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A line is not a valid record.
    Line {
        /// The file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// What was found.
        what: String,
    },
    /// The file was written by another version of this program.
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// The file belongs to a run with different settings.
    Settings {
        /// The file.
        path: PathBuf,
        /// The expected header.
        expected: Box<Header>,
        /// The header in the file.
        found: Box<Header>,
    },
    /// The run's [`Follower`] failed.
    Follower {
        /// Why.
        what: String,
    },
    /// The run's name is not valid as a file name.
    Name {
        /// The name.
        run: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { path, source } => write!(f, "{}: {source}", shown(path)),
            Error::Line { path, line, what } => {
                write!(f, "{}, line {line}: expected a record, found {what}", shown(path))
            }
            Error::Version { path, found } => {
                write!(f, "{}: expected records of version {VERSION}, found version {found}", shown(path))?;
                match found {
                    0..VERSION => f.write_str(", which has no checksums"),
                    _ => Ok(()),
                }
            }
            Error::Settings { path, expected, found } => {
                write!(f, "{}: a run with other settings: {}", shown(path), Differences::new(expected, found))
            }
            Error::Follower { what } => f.write_str(what),
            Error::Name { run } => {
                write!(f, "name of a run: expected letters, digits, '-', '_' and '.', found {run:?}")
            }
        }
    }
}

impl Error {
    /// For `map_err`: an I/O error of this file.
    fn io(path: &Path) -> impl Fn(io::Error) -> Error {
        move |source| Error::Io { path: path.to_owned(), source }
    }

    /// For `map_err`: invalid contents of this file.
    fn of(path: &Path) -> impl Fn(Wrong) -> Error {
        move |wrong| match wrong {
            Wrong::Line { line, what } => Error::Line { path: path.to_owned(), line, what },
            Wrong::Version { found } => Error::Version { path: path.to_owned(), found },
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl Record {
    /// Reads a file; `None` if it ends within the header. A broken last line is ignored.
    pub fn read(path: &Path) -> Result<Option<Record>, Error> {
        // Checked before opening, because opening a FIFO would block.
        if !std::fs::metadata(path).map_err(Error::io(path))?.is_file() {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "expected a regular file, found something else");
            return Err(Error::io(path)(source));
        }
        let bytes = std::fs::read(path).map_err(Error::io(path))?;
        Ok(lines::parse(&bytes).map_err(Error::of(path))?.map(|parsed| parsed.record))
    }
}

/// Reads all records of a folder, sorted by file name.
pub fn read_all(folder: &Path) -> Result<Vec<Record>, Error> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(Error::io(folder))? {
        let path = entry.map_err(Error::io(folder))?.path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            paths.push(path);
        }
    }
    paths.sort();
    let mut records = Vec::new();
    for path in paths {
        records.extend(Record::read(&path)?);
    }
    Ok(records)
}
