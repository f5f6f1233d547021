//! The report: one JSON document and one page, in one HTML file that needs nothing else.
//!
//! [`Report`] is what the page gets; the page is a function of it and of its URL's hash. [`html`] puts both together,
//! [`write()`] puts the result on disk.

mod chart;
mod json;
mod page;
mod story;
#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub use chart::{
    Axis, Bars, Cell, Chart, Frame, Group, Highlight, Map, Matrix, Panel, Picture, Question, Series, Step, Table, Tile,
    Tone,
};
pub use story::{About, Report, RunRow, Story, SummaryRow};

/// The largest file that [`html`] makes: a report is mailed and opened on a phone.
pub const LARGEST: usize = 12 * 1000 * 1000;

/// Why a report could not be made.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The report could not be put into JSON.
    Json(serde_json::Error),
    /// The page would be larger than [`LARGEST`].
    TooLarge {
        /// The page's size.
        bytes: usize,
        /// What is allowed.
        largest: usize,
    },
    /// The file could not be written.
    Io {
        /// Where the report should have gone.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Json(source) => write!(f, "the report cannot be put into JSON: {source}"),
            Self::TooLarge { bytes, largest } => {
                write!(f, "the report has {bytes} bytes, at most {largest} are allowed: show fewer points or frames")
            }
            Self::Io { source, .. } => write!(f, "the report cannot be written: {source}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Json(source) => Some(source),
            Self::TooLarge { .. } => None,
            Self::Io { source, .. } => Some(source),
        }
    }
}

/// The whole page as text.
///
/// # Errors
/// [`Error::Json`], or [`Error::TooLarge`] over [`LARGEST`] bytes.
pub fn html(report: &Report) -> Result<String, Error> {
    let data = json::for_script(report).map_err(Error::Json)?;
    let page = page::join(&report.title, &data);
    if page.len() > LARGEST {
        return Err(Error::TooLarge { bytes: page.len(), largest: LARGEST });
    }
    Ok(page)
}

/// Writes the page to `path`: first beside it, then renamed, so that no reader ever sees half a report and a failure
/// leaves the old one as it was.
///
/// # Errors
/// Those of [`html`], and [`Error::Io`].
pub fn write(report: &Report, path: &Path) -> Result<(), Error> {
    let page = html(report)?;
    let put = layernorm_files::replace_own(path, |file| file.write_all(page.as_bytes()));
    put.map_err(|source| Error::Io { path: path.to_owned(), source })
}
