//! What a run's folder already holds.

use super::Error;
use super::frame;
use super::protobuf::read_event;
use std::fs::{self, File};
use std::io::{BufReader, ErrorKind};
use std::path::{Path, PathBuf};

/// An event with values.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) step: u64,
    /// The values, encoded.
    pub(super) summary: Vec<u8>,
}

/// The event files of a folder, in the order in which TensorBoard reads them; none if the folder does not exist.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(Error::io(folder))?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(Error::io(folder))?;
        // A FIFO would block the reader.
        let regular = entry.file_type().is_ok_and(|kind| kind.is_file());
        if regular && entry.file_name().to_string_lossy().contains("tfevents") {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

/// Calls `found` for the events of a file, with `None` and the step where a session starts, until it returns false.
fn each(path: &Path, mut found: impl FnMut(u64, Option<&[u8]>) -> bool) -> Result<(), Error> {
    let mut file = BufReader::new(File::open(path).map_err(Error::io(path))?);
    while let Some(bytes) = frame::next(&mut file).map_err(Error::io(path))? {
        let Some(event) = read_event(&bytes) else { break };
        if (event.start || event.summary.is_some()) && !found(event.step, event.summary) {
            break;
        }
    }
    Ok(())
}

/// What TensorBoard would show: the events of all files, without those that the start of a session made obsolete.
pub(super) fn all(folder: &Path) -> Result<Vec<Entry>, Error> {
    let mut entries: Vec<Entry> = Vec::new();
    for file in files(folder)? {
        each(&file, |step, summary| {
            match summary {
                Some(summary) => entries.push(Entry { step, summary: summary.to_vec() }),
                None => entries.retain(|entry| entry.step < step),
            }
            true
        })?;
    }
    Ok(entries)
}

/// The first event of the folder.
pub(super) fn first(folder: &Path) -> Result<Option<Entry>, Error> {
    for file in files(folder)? {
        let mut entry = None;
        each(&file, |step, summary| {
            entry = summary.map(|summary| Entry { step, summary: summary.to_vec() });
            entry.is_none()
        })?;
        if entry.is_some() {
            return Ok(entry);
        }
    }
    Ok(None)
}
