//! Why event files could not be written.

use crate::records;
use layernorm_files::shown;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// An error, with advice.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// An I/O error.
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The run's folder holds event files of a run with other settings, or of another program.
    Taken {
        /// The folder.
        folder: PathBuf,
    },
}

impl Error {
    /// For `map_err`: an I/O error at this place.
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::Io { path, source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { path, source } => write!(f, "--tensorboard: {}: {source}", shown(path)),
            Error::Taken { folder } => write!(
                f,
                "--tensorboard: {}: expected event files of a run with the same settings, found others; choose another folder \
                 or remove this one",
                shown(folder)
            ),
        }
    }
}

// No `source`: the message already includes it.
impl std::error::Error for Error {}

impl From<Error> for records::Error {
    fn from(error: Error) -> records::Error {
        records::Error::Follower { what: error.to_string() }
    }
}
