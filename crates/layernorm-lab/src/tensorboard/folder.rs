//! A folder of runs for TensorBoard.

use super::translation::Translation;
use super::{Error, Writer, read};
use crate::records::{Header, Record};
use serde_json::Value;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A folder that `tensorboard --logdir` shows, with a folder for each run.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
}

/// The name of a study's run: `study/case/seed-01`, so that TensorBoard groups and sorts runs.
pub fn name(header: &Header) -> String {
    let part = |key: &str| match &header.settings[key] {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(format!("seed-{number:0>2}", number = number.to_string())),
        _ => None,
    };
    let parts = match (part("case"), part("seed")) {
        (Some(case), Some(seed)) => vec![header.study.clone(), case, seed],
        _ => vec![header.study.clone(), header.run.clone()],
    };
    parts.iter().map(|part| folder_name(part)).collect::<Vec<_>>().join("/")
}

/// The name of a run with a folder of its own for its records: that folder's name.
pub fn name_of_folder(records: &Path) -> String {
    let path = records.canonicalize().unwrap_or_else(|_| records.to_owned());
    folder_name(&path.file_name().unwrap_or_default().to_string_lossy())
}

/// A name without characters that have a meaning in paths: records may come from anywhere.
fn folder_name(text: &str) -> String {
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '+');
    let name: String = text.chars().map(|c| if fits(c) { c } else { '_' }).collect();
    if name.is_empty() || name.starts_with('.') { format!("_{name}") } else { name }
}

impl Folder {
    /// Opens or creates a folder.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be written.
    pub fn open(path: &Path) -> Result<Folder, Error> {
        fs::create_dir_all(path).map_err(Error::io(path))?;
        // Found out now rather than after hours of training.
        let probe = path.join(format!(".layernorm-{}", std::process::id()));
        OpenOptions::new().write(true).create(true).truncate(true).open(&probe).map_err(Error::io(path))?;
        // It may be gone already: a process with this number on another machine.
        let _ = fs::remove_file(&probe);
        Ok(Folder { path: path.to_owned() })
    }

    /// Checks that a run can be written: its folder holds nothing, or events of a run with the same settings. Returns
    /// whether there is anything to write: `false` if the run trains no network.
    ///
    /// # Errors
    /// [`Error::Taken`], [`Error::Io`].
    pub fn check(&self, name: &str, header: &Header) -> Result<bool, Error> {
        let Some(translation) = Translation::new(header) else { return Ok(false) };
        let folder = self.run(name);
        let expected = translation.settings(header).summary();
        match read::first(&folder)? {
            Some(first) if Some(&first.summary) != expected.as_ref() => Err(Error::Taken { folder }),
            _ => Ok(true),
        }
    }

    /// A writer for a run, to follow its records; `None` if the run trains no network.
    ///
    /// # Errors
    /// [`Error::Taken`], [`Error::Io`].
    pub fn writer(&self, name: &str, header: &Header) -> Result<Option<Writer>, Error> {
        self.writer_at(name, header, None)
    }

    fn writer_at(&self, name: &str, header: &Header, time: Option<SystemTime>) -> Result<Option<Writer>, Error> {
        self.check(name, header)?;
        let writer = |translation| Writer::new(self.run(name), translation, time);
        Translation::new(header).map(writer).transpose()
    }

    /// Writes what the folder lacks of an existing record; returns whether the run trains a network. The events have the
    /// time `changed`, when the record was last changed.
    ///
    /// # Errors
    /// [`Error::Taken`], [`Error::Io`].
    pub fn write(&self, name: &str, record: &Record, changed: SystemTime) -> Result<bool, Error> {
        let Some(mut writer) = self.writer_at(name, &record.header, Some(changed))? else { return Ok(false) };
        writer.write(record)?;
        Ok(true)
    }

    fn run(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}
