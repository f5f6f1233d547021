//! What went wrong, and where.

use crate::shown;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a file could not be opened, written or put in its place. It converts into an [`io::Error`] of the same kind.
#[derive(Debug)]
pub struct Error {
    path: PathBuf,
    action: &'static str,
    source: io::Error,
}

impl Error {
    /// For `map_err`: what was tried with the file at `path`.
    pub(crate) fn of<'a>(path: &'a Path, action: &'static str) -> impl Fn(io::Error) -> Self + 'a {
        move |source| Self { path: path.to_path_buf(), action, source }
    }

    /// The path, as the caller gave it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was tried: `write`, `rename into place`, …
    pub fn action(&self) -> &'static str {
        self.action
    }

    /// What came of it.
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }

    /// The three parts: path, action, and what came of it, for callers with an error type of their own.
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
        // Not `source` itself: the message says it already.
        self.source.source()
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        Self::new(error.kind(), error)
    }
}
