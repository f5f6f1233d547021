//! Why a session cannot start, or a report cannot be made.

use crate::{records, report, tensorboard};
use layernorm_files::shown;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// An error, with advice.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Unknown study.
    Unknown {
        /// The name.
        name: String,
        /// The closest known name.
        near: Option<String>,
        /// All known names.
        names: Vec<String>,
    },
    /// Another process is using the folder.
    Busy {
        /// The folder.
        folder: PathBuf,
        /// Its description; empty if it cannot be read.
        holder: String,
    },
    /// A record cannot be read.
    Records(records::Error),
    /// A record's file name differs from its run's name.
    Misplaced {
        /// The file.
        path: PathBuf,
        /// The run in it.
        run: String,
    },
    /// `resume` is set, and an existing run has different settings.
    OtherSettings {
        /// Its file, its settings and those wanted: a [`records::Error::Settings`].
        found: records::Error,
        /// Where it would be moved without `resume`.
        aside: PathBuf,
    },
    /// A run is impossible with this data or these settings.
    Unfit {
        /// Which.
        run: String,
        /// Why.
        what: String,
        /// How many other runs are impossible too.
        others: usize,
    },
    /// Too little memory for the runs.
    Memory {
        /// Required and available memory.
        what: String,
    },
    /// The lock file belongs to another program.
    ForeignLock {
        /// The file.
        path: PathBuf,
    },
    /// Records that cannot be in one folder.
    Conflict {
        /// The two files.
        paths: [PathBuf; 2],
        /// Why.
        what: String,
    },
    /// The folder's file system has no file locks, which processes that share a folder need.
    NoLocks {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder has no finished run.
    Nothing {
        /// The folder searched for runs.
        runs: PathBuf,
    },
    /// Event files for TensorBoard could not be written.
    Tensorboard(tensorboard::Error),
    /// The report could not be made.
    Report(report::Error),
    /// An I/O error.
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Error {
    /// For `map_err`: an I/O error at this place.
    pub(super) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io { path, source }
    }
}

impl Error {
    /// For `map_err`: converts a file error.
    pub(super) fn file(error: layernorm_files::Error) -> Error {
        let (path, _, source) = error.into_parts();
        Error::Io { path, source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unknown { name, near, names } => {
                write!(f, "unknown study {name:?}")?;
                if let Some(near) = near {
                    write!(f, ", did you mean {near}?")?;
                }
                write!(f, "\n  expected one or more of: all, {}", names.join(", "))
            }
            Error::Busy { folder, holder } => {
                let holder = if holder.is_empty() { "another process" } else { holder };
                write!(
                    f,
                    "{}: {holder} is using this folder; wait until it finishes or choose another folder",
                    shown(folder)
                )
            }
            Error::Records(error @ records::Error::Line { .. }) => {
                write!(f, "{error}\n  move the file elsewhere to repeat the run")
            }
            Error::Records(error @ records::Error::Settings { .. }) => {
                write!(f, "{error}; choose another folder or move the file elsewhere")
            }
            Error::Records(error @ records::Error::Version { .. }) => {
                write!(f, "{error}; choose another folder to repeat the runs")
            }
            Error::Records(error) => error.fmt(f),
            Error::Misplaced { path, run } => write!(
                f,
                "{}: expected the run of that name, found {run}; copied or renamed records would be counted twice: move the \
                 file elsewhere",
                shown(path)
            ),
            Error::OtherSettings { found, aside } => {
                let aside = shown(aside);
                write!(
                    f,
                    "{found}\n  choose another folder; without --resume and --shared, earlier runs of this study are moved to \
                     {aside}"
                )
            }
            Error::Unfit { run, what, others } => {
                write!(f, "cannot run {run}: {what}")?;
                match others {
                    0 => Ok(()),
                    1 => f.write_str("; another run cannot run either"),
                    others => write!(f, "; {others} others cannot run either"),
                }
            }
            Error::Memory { what } => f.write_str(what),
            Error::ForeignLock { path } => write!(
                f,
                "{}: expected this program's lock file, found another file, which was not changed; choose another folder",
                shown(path)
            ),
            Error::Conflict { paths: [one, other], what } => {
                write!(f, "cannot merge {} and {}: {what}", shown(one), shown(other))
            }
            Error::NoLocks { folder } => write!(
                f,
                "{}: this file system has no file locks, which --shared needs; give each shard a folder of its own and \
                 merge them",
                shown(folder)
            ),
            Error::Nothing { runs } => {
                write!(
                    f,
                    "{}: expected records of finished runs, found none; create them with `layernorm study`",
                    shown(runs)
                )
            }
            Error::Tensorboard(error) => error.fmt(f),
            Error::Report(error) => error.fmt(f),
            Error::Io { path, source } => write!(f, "{}: {source}", shown(path)),
        }
    }
}

// No `source`: the messages already include it.
impl std::error::Error for Error {}

impl From<records::Error> for Error {
    fn from(error: records::Error) -> Self {
        Error::Records(error)
    }
}

impl From<tensorboard::Error> for Error {
    fn from(error: tensorboard::Error) -> Self {
        Error::Tensorboard(error)
    }
}

impl From<report::Error> for Error {
    fn from(error: report::Error) -> Self {
        Error::Report(error)
    }
}
