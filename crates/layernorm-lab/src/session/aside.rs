//! Runs of other settings make room. They go to `old-<n>/runs/`, so that `old-<n>` is a folder whose report can be made.
//!
//! A study is in the way if a run that is wanted is there with other settings. Then all its runs that are not wanted go,
//! also those whose names are free: they belong together. A study that is not in the way stays as it is; so more seeds
//! than are wanted now remain in the report.

use super::folder::{Run, runs_of};
use super::{Error, folder};
use crate::records::{self, Header};
use std::fs;
use std::path::{Path, PathBuf};

/// Moves what is in the way, or refuses to. Where it went, if there was any.
pub(super) fn make_room(
    folder: &Path,
    there: &[Run],
    wanted: &[Header],
    resume: bool,
) -> Result<Option<PathBuf>, Error> {
    let there: Vec<&Header> = there.iter().map(|run| &run.header).collect();
    let in_the_way = in_the_way(&there, wanted);
    let Some(&last) = in_the_way.last() else { return Ok(None) };
    let aside = free(folder);
    if resume {
        return Err(refusal(folder, last, wanted, aside));
    }
    let runs = runs_of(&aside);
    fs::create_dir_all(&runs).map_err(Error::io(&runs))?;
    for header in in_the_way {
        for name in files(folder, &header.run, &there)? {
            let path = folder::runs_of(folder).join(&name);
            fs::rename(&path, runs.join(&name)).map_err(Error::io(path))?;
        }
    }
    Ok(Some(aside))
}

/// The runs that are in the way; those whose names are wanted come last, so that a move that is broken off is seen and
/// finished the next time.
fn in_the_way<'a>(there: &[&'a Header], wanted: &[Header]) -> Vec<&'a Header> {
    let differs = |header: &Header| wanted.iter().any(|one| one.run == header.run && one != header);
    let is_wanted = |header: &Header| wanted.contains(header);
    let studies: Vec<&str> = there.iter().filter(|header| differs(header)).map(|header| &*header.study).collect();
    let of_these = there.iter().copied().filter(|header| studies.contains(&&*header.study) && !is_wanted(header));
    let (last, mut all): (Vec<_>, Vec<_>) = of_these.partition(|header| differs(header));
    all.extend(last);
    all
}

/// The first `old-<n>` that is not there.
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

fn refusal(folder: &Path, found: &Header, wanted: &[Header], aside: PathBuf) -> Error {
    let path = runs_of(folder).join(format!("{}.jsonl", found.run));
    let expected = wanted.iter().find(|one| one.run == found.run).unwrap_or(found);
    let (expected, found) = (Box::new(expected.clone()), Box::new(found.clone()));
    Error::OtherSettings { found: records::Error::Settings { path, expected, found }, aside }
}

/// A run's files: its records, and what else begins with its name and a dot, if no longer name of a run fits. The records
/// come last: as long as they are there, the others are known to be theirs.
fn files(folder: &Path, run: &str, there: &[&Header]) -> Result<Vec<String>, Error> {
    let runs = runs_of(folder);
    let belongs = |name: &str, run: &str| name.strip_prefix(run).is_some_and(|rest| rest.starts_with('.'));
    let records = format!("{run}.jsonl");
    let mut names = Vec::new();
    for entry in runs.read_dir().map_err(Error::io(&runs))? {
        let Ok(name) = entry.map_err(Error::io(&runs))?.file_name().into_string() else { continue };
        let longer = there.iter().any(|other| other.run.len() > run.len() && belongs(&name, &other.run));
        if belongs(&name, run) && !longer && name != records {
            names.push(name);
        }
    }
    names.push(records);
    Ok(names)
}
