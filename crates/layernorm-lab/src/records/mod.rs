//! Records: what a run has seen, one file a run, one JSON object a line. A file is only ever appended to, and every line is
//! handed to the system as a whole before the run goes on; so whatever kills a run, its file is a run up to some line, with
//! at most one broken line behind it, which is cut off when the run goes on.
//!
//! ```text
//! {"record":"start","version":2,"study":"epsilon","run":"epsilon-layer-1","settings":{…},"sum":"0f3a…"}
//! {"record":"event","name":"loss","data":{…},"sum":"91c4…"}
//! {"record":"end","sum":"d200…"}
//! ```
//!
//! `sum` is a checksum of the line and of all lines before it ([`lines`]): a line that was changed, removed, doubled or moved is
//! found when the file is read, in a run that goes on as in one that is finished. Version 1 had no checksums; its files are
//! refused, not read without one and not overwritten.
//!
//! Records hold no clock: the same settings give the same bytes.

mod file;
pub mod lines;
#[cfg(test)]
mod tests;

pub use file::RunFile;
pub use lines::{Event, Header, Record, VERSION};

use layernorm_files::shown;
use lines::Wrong;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a file of records was refused.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The system says no.
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line in the middle is not a record.
    Line {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// The file was written by another version of this program.
    Version {
        /// Which file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// The file is of a run with other settings.
    Settings {
        /// Which file.
        path: PathBuf,
        /// The header wanted.
        expected: Box<Header>,
        /// The header found.
        found: Box<Header>,
    },
    /// A run's name cannot be a file's.
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
                    0..VERSION => {
                        f.write_str(", which has no checksums; choose another folder, and the runs are made anew")
                    }
                    _ => Ok(()),
                }
            }
            Error::Settings { path, expected, found } => write!(
                f,
                "{}: expected the run {} with settings {}, found {} with {}; choose another folder or remove the file",
                shown(path),
                expected.run,
                expected.settings,
                found.run,
                found.settings
            ),
            Error::Name { run } => {
                write!(f, "name of a run: expected letters, digits, '-', '_' and '.', found {run:?}")
            }
        }
    }
}

impl Error {
    /// For `map_err`: what the system says of this file.
    fn io(path: &Path) -> impl Fn(io::Error) -> Error {
        move |source| Error::Io { path: path.to_owned(), source }
    }

    /// For `map_err`: what is wrong with the bytes of this file.
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
    /// Reads a file; `None` if it ends before the header does. A broken last line does not count.
    pub fn read(path: &Path) -> Result<Option<Record>, Error> {
        // Before it is opened: opening a FIFO would wait for a writer.
        if !std::fs::metadata(path).map_err(Error::io(path))?.is_file() {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "expected a regular file, found something else");
            return Err(Error::io(path)(source));
        }
        let bytes = std::fs::read(path).map_err(Error::io(path))?;
        Ok(lines::parse(&bytes).map_err(Error::of(path))?.map(|parsed| parsed.record))
    }
}

/// All records of a folder, by file name.
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
