//! What lies in a folder: every record with its run, read and checked.

use super::Error;
use crate::records::{Header, Record};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Where the records of a folder are.
pub(super) fn runs_of(folder: &Path) -> PathBuf {
    folder.join("runs")
}

/// A run that is there.
pub(super) struct Run {
    pub(super) header: Header,
    pub(super) finished: bool,
}

/// What a run may leave beside its records when it is killed, and does not need once it is finished.
const LEFTOVERS: [&str; 3] = ["checkpoint", "checkpoint.partial", "times.json.partial"];

/// Removes what a finished run no longer needs.
pub(super) fn tidy(runs: &Path, run: &str) {
    for ending in LEFTOVERS {
        // Most are not there, and one that stays does no harm.
        let _ = std::fs::remove_file(runs.join(format!("{run}.{ending}")));
    }
}

/// The runs of a folder, by name; none where there is no folder.
pub(super) fn runs(folder: &Path) -> Result<Vec<Run>, Error> {
    let run = |record: Record| Run { header: record.header, finished: record.finished };
    Ok(records(folder)?.into_iter().map(run).collect())
}

/// The records of a folder, by name; none where there is no folder.
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

fn paths(runs: &Path) -> Result<Vec<PathBuf>, Error> {
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
