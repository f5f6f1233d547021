//! Moves runs with different settings to `old-<n>/runs/`, so that `old-<n>` is a folder for which a report can be made.
//!
//! A study conflicts if one of its planned runs exists with different settings. Then all its runs that are not planned
//! are moved, including those without a conflicting name, because they belong together. Other studies are not touched,
//! so additional seeds stay in the report.

use super::folder::{Run, runs_of};
use super::{Error, folder};
use crate::records::{self, Header};
use std::fs;
use std::path::{Path, PathBuf};

/// Moves conflicting runs, or fails with `resume`. Returns where they were moved, if there were any.
pub(super) fn make_room(
    folder: &Path,
    existing: &[Run],
    wanted: &[&Header],
    resume: bool,
) -> Result<Option<PathBuf>, Error> {
    let existing: Vec<&Header> = existing.iter().map(|run| &run.header).collect();
    let conflicting = conflicting(&existing, wanted);
    let Some(&last) = conflicting.last() else { return Ok(None) };
    let aside = free(folder);
    if resume {
        return Err(refusal(folder, last, wanted, aside));
    }
    let runs = runs_of(&aside);
    fs::create_dir_all(&runs).map_err(Error::io(&runs))?;
    for header in conflicting {
        for name in files(folder, &header.run, &existing)? {
            let path = folder::runs_of(folder).join(&name);
            fs::rename(&path, runs.join(&name)).map_err(Error::io(path))?;
        }
    }
    Ok(Some(aside))
}

/// The conflicting runs. Those whose names are planned come last, so that an interrupted move is detected and completed
/// the next time.
fn conflicting<'a>(existing: &[&'a Header], wanted: &[&Header]) -> Vec<&'a Header> {
    let differs = |header: &Header| wanted.iter().any(|one| one.run == header.run && *one != header);
    let is_wanted = |header: &Header| wanted.contains(&header);
    let studies: Vec<&str> = existing.iter().filter(|header| differs(header)).map(|header| &*header.study).collect();
    let of_these = existing.iter().copied().filter(|header| studies.contains(&&*header.study) && !is_wanted(header));
    let (last, mut all): (Vec<_>, Vec<_>) = of_these.partition(|header| differs(header));
    all.extend(last);
    all
}

/// The first `old-<n>` that does not exist.
fn free(folder: &Path) -> PathBuf {
    let mut number = 1;
    loop {
        let path = folder.join(format!("old-{number}"));
        if path.symlink_metadata().is_err() {
            return path;
        }
        number += 1;
    }
}

fn refusal(folder: &Path, found: &Header, wanted: &[&Header], aside: PathBuf) -> Error {
    let path = runs_of(folder).join(format!("{}.jsonl", found.run));
    let expected = wanted.iter().copied().find(|one| one.run == found.run).unwrap_or(found);
    let (expected, found) = (Box::new(expected.clone()), Box::new(found.clone()));
    Error::OtherSettings { found: records::Error::Settings { path, expected, found }, aside }
}

/// A run's files: its records, and other files whose name starts with the run's name and a dot, unless a longer run
/// name matches. The records come last, because they identify the other files.
fn files(folder: &Path, run: &str, existing: &[&Header]) -> Result<Vec<String>, Error> {
    let runs = runs_of(folder);
    let belongs = |name: &str, run: &str| name.strip_prefix(run).is_some_and(|rest| rest.starts_with('.'));
    let records = format!("{run}.jsonl");
    let mut names = Vec::new();
    for entry in runs.read_dir().map_err(Error::io(&runs))? {
        let Ok(name) = entry.map_err(Error::io(&runs))?.file_name().into_string() else { continue };
        let longer = existing.iter().any(|other| other.run.len() > run.len() && belongs(&name, &other.run));
        if belongs(&name, run) && !longer && name != records {
            names.push(name);
        }
    }
    names.push(records);
    Ok(names)
}
