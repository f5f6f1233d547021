//! Merges the records of several folders into one: the union, with the bytes that one session would have written.
//!
//! Folders of shards must have the same plan. A run that several folders hold must have the same settings in all of them,
//! and the same bytes where it is finished. Training runs of a study must come from the same command. All of this is
//! checked before anything is written.

use super::folder::{self, runs_of};
use super::plan_file::PlanFile;
use super::{Error, Lock};
use crate::records::{Differences, Header, Record};
use crate::studies::Common;
use layernorm_files::{Replacement, commit_all};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// What a merge did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Runs copied to the folder.
    pub copied: usize,
    /// Finished runs that it already held.
    pub kept: usize,
    /// Runs that are finished in no folder, by name: those with records, which are not copied, and those that the shards
    /// planned and never began.
    pub unfinished: Vec<String>,
}

/// A record and where it is.
struct Found {
    path: PathBuf,
    bytes: Vec<u8>,
    record: Record,
}

/// Copies the finished runs of `sources` to `out`, and the files beside them. Checkpoints are left behind.
///
/// # Errors
/// [`Error::Busy`] if a session is using one of the folders, [`Error::Conflict`] if records differ in their settings or
/// contents, [`Error::Records`], [`Error::Io`]. After an I/O error, every run in `out` is still whole; the same call
/// continues.
pub fn merge(out: &Path, sources: &[PathBuf]) -> Result<Merged, Error> {
    for source in sources {
        // Locking would create it. A shard without runs has its plan alone.
        if !runs_of(source).is_dir() && !PlanFile::path(source).is_file() {
            return Err(Error::Nothing { runs: runs_of(source) });
        }
    }
    let mut locks = vec![Lock::take(out)?];
    for source in sources {
        if !same_folder(out, source) {
            locks.push(Lock::take(source)?);
        }
    }
    let planned = planned(out, sources)?;
    let mut runs: BTreeMap<String, Found> = BTreeMap::new();
    let mut studies: BTreeMap<String, String> = BTreeMap::new();
    let mut kept = 0;
    for source in std::iter::once(out).chain(sources.iter().map(PathBuf::as_path)) {
        for found in records(source)? {
            kept += usize::from(source == out && found.record.finished);
            add(&mut runs, &mut studies, found)?;
        }
    }
    let unfinished = runs.values().filter(|found| !found.record.finished);
    let mut unfinished: Vec<String> = unfinished.map(|found| found.record.header.run.clone()).collect();
    unfinished.extend(planned.into_iter().filter(|run| !runs.contains_key(run)));
    unfinished.sort();
    let there = runs_of(out);
    let new: Vec<&Found> =
        runs.values().filter(|found| found.record.finished && found.path.parent() != Some(&*there)).collect();
    fs::create_dir_all(&there).map_err(Error::io(&there))?;
    for found in &new {
        copy(found, &there)?;
    }
    Ok(Merged { copied: new.len(), kept, unfinished })
}

fn same_folder(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// The runs that the shards among the folders planned; none if there is no shard.
fn planned(out: &Path, sources: &[PathBuf]) -> Result<Vec<String>, Error> {
    let mut first: Option<(PathBuf, PlanFile)> = None;
    for source in std::iter::once(out).chain(sources.iter().map(PathBuf::as_path)) {
        let Some(plan) = PlanFile::read(source)? else { continue };
        match &first {
            Some((other, same)) if *same != plan => {
                let what = "these shards have different plans: they come from different commands, data or versions";
                let paths = [other, source].map(PlanFile::path);
                return Err(Error::Conflict { paths, what: what.to_owned() });
            }
            Some(_) => {}
            None => first = Some((source.to_owned(), plan)),
        }
    }
    Ok(first.map_or(Vec::new(), |(_, plan)| plan.runs))
}

/// The records of a folder with their bytes.
fn records(source: &Path) -> Result<Vec<Found>, Error> {
    let mut all = Vec::new();
    for record in folder::records(source)? {
        let path = runs_of(source).join(format!("{}.jsonl", record.header.run));
        let bytes = fs::read(&path).map_err(Error::io(&path))?;
        all.push(Found { path, bytes, record });
    }
    Ok(all)
}

/// Adds a record to the union. `studies` holds the first training run of each study.
fn add(runs: &mut BTreeMap<String, Found>, studies: &mut BTreeMap<String, String>, found: Found) -> Result<(), Error> {
    let header = &found.record.header;
    if let Some(other) = runs.get(&header.run) {
        let conflict = |what| Err(Error::Conflict { paths: [other.path.clone(), found.path.clone()], what });
        if other.record.header != *header {
            let differences = Differences::new(&other.record.header, header);
            return conflict(format!("they have different settings: {differences}"));
        }
        if other.record.finished && found.record.finished && other.bytes != found.bytes {
            return conflict("both are finished, with different results".to_owned());
        }
        if other.record.finished {
            return Ok(());
        }
    }
    if let Some(own) = command(header) {
        let other = studies.get(&header.study).and_then(|run| runs.get(run));
        let others = other.and_then(|other| Some((other, command(&other.record.header)?)));
        if let Some((other, theirs)) = others.filter(|(_, theirs)| *theirs != own) {
            let what = format!("they come from different commands: {theirs} and {own}");
            return Err(Error::Conflict { paths: [other.path.clone(), found.path], what });
        }
        studies.entry(header.study.clone()).or_insert_with(|| header.run.clone());
    }
    runs.insert(header.run.clone(), found);
    Ok(())
}

/// The command of a training run, as far as its settings tell; `None` for other runs.
fn command(header: &Header) -> Option<String> {
    let Common { full, options, .. } = Common::read(&Record::new(header.clone()));
    let options = options?;
    let space = if options.is_empty() { "" } else { " " };
    Some(format!("study {}{}{space}{options}", header.study, if full { " --full" } else { "" }))
}

/// Copies a run's records, and with them the files beside them, such as its times.
fn copy(found: &Found, there: &Path) -> Result<(), Error> {
    let mut files = vec![(there.join(format!("{}.jsonl", found.record.header.run)), found.bytes.clone())];
    let runs = found.path.parent().unwrap_or(Path::new("."));
    for entry in runs.read_dir().map_err(Error::io(runs))? {
        let path = entry.map_err(Error::io(runs))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let rest = name.strip_prefix(&*found.record.header.run);
        if rest.is_some_and(|rest| rest.starts_with('.') && rest.ends_with(".json")) {
            files.push((there.join(name), fs::read(&path).map_err(Error::io(&path))?));
        }
    }
    let mut replacements = Vec::new();
    for (path, bytes) in files {
        let mut file = Replacement::own(&path).map_err(Error::file)?;
        file.write_all(&bytes).map_err(Error::io(&path))?;
        replacements.push(file);
    }
    commit_all(replacements).map_err(Error::file)
}
