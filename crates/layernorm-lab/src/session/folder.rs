//! Reads and checks the records of a folder.

use super::Error;
use crate::records::{Header, Record};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The subfolder with the records.
pub(super) fn runs_of(folder: &Path) -> PathBuf {
    folder.join("runs")
}

/// The records of a run.
pub(super) fn path(folder: &Path, run: &str) -> PathBuf {
    runs_of(folder).join(format!("{run}.jsonl"))
}

/// An existing run.
pub(super) struct Run {
    pub(super) header: Header,
    pub(super) finished: bool,
}

/// Removes the checkpoint of a finished run.
pub(super) fn tidy(runs: &Path, run: &str) {
    // Usually there is none, and a remaining one does no harm.
    let _ = std::fs::remove_file(runs.join(format!("{run}.checkpoint")));
}

/// Removes temporary files of a killed session. The folder is locked, so no other process is writing them.
pub(super) fn remove_unfinished(folder: &Path) {
    let unfinished = |name: &str| {
        let number = name.strip_prefix(".layernorm-").and_then(|rest| rest.strip_suffix(".tmp"));
        number.is_some_and(|number| number.len() == 16 && number.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    for entry in runs_of(folder).read_dir().into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(unfinished) {
            // A remaining one does no harm.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// The runs of a folder, by name; none if the folder does not exist.
pub(super) fn runs(folder: &Path) -> Result<Vec<Run>, Error> {
    let run = |record: Record| Run { header: record.header, finished: record.finished };
    Ok(records(folder)?.into_iter().map(run).collect())
}

/// The records of a folder, by name; none if the folder does not exist.
pub(super) fn records(folder: &Path) -> Result<Vec<Record>, Error> {
    let runs = runs_of(folder);
    let mut records = Vec::new();
    for path in paths(&runs)? {
        let Some(record) = Record::read(&path)? else { continue };
        if path.file_stem().is_none_or(|stem| stem != record.header.run.as_str()) {
            return Err(Error::Misplaced { path, run: record.header.run });
        }
        records.push(record);
    }
    Ok(records)
}

/// The records of all runs, by name.
pub(super) fn paths(runs: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = match runs.read_dir() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(Error::io(runs))?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(Error::io(runs))?.path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}
