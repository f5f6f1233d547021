//! Errors: the path, the action that failed and the cause.

use crate::shown;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a file could not be opened, written or renamed into place. It converts into an [`io::Error`] of the same kind.
#[derive(Debug)]
pub struct Error {
    path: PathBuf,
    action: &'static str,
    source: io::Error,
}

impl Error {
    /// For `map_err`: the error of `action` on the file at `path`.
    pub(crate) fn of<'a>(path: &'a Path, action: &'static str) -> impl Fn(io::Error) -> Self + 'a {
        move |source| Self { path: path.to_path_buf(), action, source }
    }

    /// The path as given by the caller.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The action that failed: `write`, `rename into place`, …
    pub fn action(&self) -> &'static str {
        self.action
    }

    /// The kind of the underlying I/O error.
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }

    /// The path, the action and the I/O error, for callers with their own error type.
    pub fn into_parts(self) -> (PathBuf, &'static str, io::Error) {
        (self.path, self.action, self.source)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: cannot {}: {}", shown(&self.path), self.action, self.source)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // Not `source` itself: the message already contains it.
        self.source.source()
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        Self::new(error.kind(), error)
    }
}
