//! Why a session does not begin, or a report is not made.

use crate::{records, report};
use layernorm_files::shown;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// What is wrong, with what to do about it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// There is no study of this name.
    Unknown {
        /// The name.
        name: String,
        /// What was probably meant.
        near: Option<String>,
        /// The names that there are.
        names: Vec<String>,
    },
    /// Another process writes into the folder.
    Busy {
        /// The folder.
        folder: PathBuf,
        /// What it says of itself; empty where that cannot be read.
        holder: String,
    },
    /// A record cannot be read.
    Records(records::Error),
    /// A record lies under another name than its run's.
    Misplaced {
        /// The file.
        path: PathBuf,
        /// The run that is in it.
        run: String,
    },
    /// The user wants to go on, and a run that is there has other settings.
    OtherSettings {
        /// Its file, its settings and those wanted: a [`records::Error::Settings`].
        found: records::Error,
        /// Where it would go otherwise.
        aside: PathBuf,
    },
    /// A run cannot be done with this data or these settings.
    Unfit {
        /// Which.
        run: String,
        /// Why.
        what: String,
        /// How many others cannot either.
        others: usize,
    },
    /// There is too little memory for the runs.
    Memory {
        /// How much they need, and how much there is.
        what: String,
    },
    /// Another program's lock lies where ours would be.
    ForeignLock {
        /// The file.
        path: PathBuf,
    },
    /// The folder has no finished run.
    Nothing {
        /// Where runs were looked for.
        runs: PathBuf,
    },
    /// The page could not be made.
    Report(report::Error),
    /// The system says no.
    Io {
        /// Which file or folder.
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
    /// For `map_err`: what came of a file.
    pub(super) fn file(error: layernorm_files::Error) -> Error {
        let (path, _, source) = error.into_parts();
        Error::Io { path, source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unknown { name, near, names } => {
                write!(f, "there is no study {name:?}")?;
                if let Some(near) = near {
                    write!(f, ", did you mean {near}?")?;
                }
                write!(f, "\n  expected one or more of: all, {}", names.join(", "))
            }
            Error::Busy { folder, holder } => {
                let holder = if holder.is_empty() { "another process" } else { holder };
                write!(f, "{}: {holder} is writing here; wait for its end or choose another folder", shown(folder))
            }
            Error::Records(error @ records::Error::Line { .. }) => {
                write!(f, "{error}\n  move the file elsewhere, and the run is made anew")
            }
            Error::Records(error) => error.fmt(f),
            Error::Misplaced { path, run } => write!(
                f,
                "{}: expected the run of that name, found {run}: records that are copied or renamed would count twice; \
                 move the file elsewhere",
                shown(path)
            ),
            Error::OtherSettings { found, aside } => {
                write!(f, "{found}\n  without --resume, earlier runs of this study are moved to {}", shown(aside))
            }
            Error::Unfit { run, what, others } => {
                write!(f, "the run {run} cannot be done: {what}")?;
                if *others > 0 { write!(f, "; nor can {others} others") } else { Ok(()) }
            }
            Error::Memory { what } => f.write_str(what),
            Error::ForeignLock { path } => write!(
                f,
                "{}: expected a lock of this program, found another file, which stays as it is; choose another folder",
                shown(path)
            ),
            Error::Nothing { runs } => {
                write!(
                    f,
                    "{}: expected records of finished runs, found none; `layernorm study` makes them",
                    shown(runs)
                )
            }
            Error::Report(error) => error.fmt(f),
            Error::Io { path, source } => write!(f, "{}: {source}", shown(path)),
        }
    }
}

// No `source`: the messages say what is below them already.
impl std::error::Error for Error {}

impl From<records::Error> for Error {
    fn from(error: records::Error) -> Self {
        Error::Records(error)
    }
}

impl From<report::Error> for Error {
    fn from(error: report::Error) -> Self {
        Error::Report(error)
    }
}
