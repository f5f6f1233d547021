//! The report: a JSON document and a page in one self-contained HTML file.
//!
//! [`Report`] is the page's data; the page is a function of it and of the URL hash. [`html`] combines both, and
//! [`write()`] writes the result to disk.

mod chart;
mod finding;
mod json;
mod packed;
mod page;
mod story;
#[cfg(test)]
mod tests;

use page::Place;
use serde::Serialize;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub use chart::{
    Axis, Bars, Cell, Chart, Frame, Group, Highlight, Link, Map, Matrix, Panel, Picture, Question, Series, Sheets,
    Step, Table, Tile, Tone,
};
pub use finding::{Evidence, Finding, Paired, Side, Verdict, Verdicts};
pub use story::{About, Report, RunRow, Story, SummaryRow};

/// Maximum size of the page in bytes: reports are mailed and opened on phones.
pub const LARGEST: usize = 4 * 1000 * 1000;

/// Why a report could not be made.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The report could not be converted to JSON.
    Json(serde_json::Error),
    /// The page would be larger than [`LARGEST`].
    TooLarge {
        /// The page's size.
        bytes: usize,
        /// The maximum.
        largest: usize,
    },
    /// The file could not be written.
    Io {
        /// Path of the report.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Json(source) => write!(f, "cannot convert the report to JSON: {source}"),
            Self::TooLarge { bytes, largest } => {
                write!(
                    f,
                    "the report has {bytes} bytes, but at most {largest} are allowed; show fewer points or \
                           frames"
                )
            }
            Self::Io { source, .. } => write!(f, "cannot write the report: {source}"),
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

/// Returns the page as text.
///
/// # Errors
/// [`Error::Json`], or [`Error::TooLarge`] over [`LARGEST`] bytes.
pub fn html(report: &Report) -> Result<String, Error> {
    let data = json::text(report).map_err(Error::Json)?;
    limited(page::join(&report.title, &data, Place::File))
}

/// The page as a server shows it.
#[derive(Clone, Debug)]
pub struct Served {
    /// The page.
    pub page: String,
    /// Its data as JSON, with which an open page is brought up to date.
    pub data: String,
}

/// The Content-Security-Policy of a served page: like that of a report, but it may connect to its server.
pub const SERVED_POLICY: &str = Place::Server.policy();

/// Returns the page for a server. It shows a panel with progress and controls, which `live` describes; `page/live.js` lists
/// its fields.
///
/// # Errors
/// Those of [`html`].
pub fn served(report: &Report, live: &impl Serialize) -> Result<Served, Error> {
    #[derive(Serialize)]
    struct Data<'a, L> {
        #[serde(flatten)]
        report: &'a Report,
        live: &'a L,
    }
    let data = json::text(&Data { report, live }).map_err(Error::Json)?;
    let page = limited(page::join(&report.title, &data, Place::Server))?;
    Ok(Served { page, data })
}

/// The page, unless it is too large.
fn limited(page: String) -> Result<String, Error> {
    if page.len() > LARGEST {
        return Err(Error::TooLarge { bytes: page.len(), largest: LARGEST });
    }
    Ok(page)
}

/// Writes the page to `path`: first to a temporary file that is then renamed, so readers never see a partial report and
/// a failure leaves the old one unchanged.
///
/// # Errors
/// Those of [`html`], and [`Error::Io`].
pub fn write(report: &Report, path: &Path) -> Result<(), Error> {
    let page = html(report)?;
    let put = layernorm_files::replace_own(path, |file| file.write_all(page.as_bytes()));
    put.map_err(|source| Error::Io { path: path.to_owned(), source })
}
