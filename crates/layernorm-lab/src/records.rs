//! Records: what a run has seen, one file a run, one JSON object a line. A file is only ever appended to, and every line is
//! handed to the system as a whole before the run goes on; so whatever kills a run, its file is a run up to some line, with
//! at most one broken line behind it, which is cut off when the run goes on.
//!
//! ```text
//! {"record":"start","version":1,"study":"epsilon","run":"epsilon-layer-1","settings":{…}}
//! {"record":"event","name":"loss","data":{…}}
//! {"record":"end"}
//! ```
//!
//! Records hold no clock: the same settings give the same bytes.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The version of the format. A file of a later version is refused.
pub const VERSION: u32 = 1;

/// What a run is: enough to do it again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The version of the format.
    pub version: u32,
    /// The study that it belongs to.
    pub study: String,
    /// Its name in the study, which is also the file's.
    pub run: String,
    /// Everything that decides its numbers.
    pub settings: Value,
}

impl Header {
    /// A run of a study.
    pub fn new(study: &str, run: &str, settings: Value) -> Header {
        Header { version: VERSION, study: study.to_owned(), run: run.to_owned(), settings }
    }
}

/// Something that a run has seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// What kind of thing.
    pub name: String,
    /// The thing.
    pub data: Value,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "lowercase")]
enum Line {
    Start(Header),
    Event(Event),
    End,
}

/// Why a file of records was refused.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The system says no.
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line in the middle is not a record.
    Line {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// The file was written by a later version of this program.
    Version {
        /// Which file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// The file is of a run with other settings.
    Settings {
        /// Which file.
        path: PathBuf,
        /// The header wanted.
        expected: Box<Header>,
        /// The header found.
        found: Box<Header>,
    },
    /// A run's name cannot be a file's.
    Name {
        /// The name.
        run: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { path, source } => write!(f, "{}: {source}", path.display()),
            Error::Line { path, line, what } => {
                write!(f, "{}, line {line}: expected a record, found {what}", path.display())
            }
            Error::Version { path, found } => {
                write!(f, "{}: expected records of version {VERSION} or earlier, found version {found}", path.display())
            }
            Error::Settings { path, expected, found } => write!(
                f,
                "{}: expected the run {} with settings {}, found {} with {}; choose another folder or remove the file",
                path.display(),
                expected.run,
                expected.settings,
                found.run,
                found.settings
            ),
            Error::Name { run } => {
                write!(f, "name of a run: expected letters, digits, '-', '_' and '.', found {run:?}")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// What a file of records holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// What the run is.
    pub header: Header,
    /// What it has seen.
    pub events: Vec<Event>,
    /// Whether it went to its end.
    pub finished: bool,
}

impl Record {
    /// Reads a file. A broken last line does not count.
    pub fn read(path: &Path) -> Result<Option<Record>, Error> {
        let mut bytes = Vec::new();
        let read = File::open(path).and_then(|mut file| file.read_to_end(&mut bytes));
        read.map_err(|source| Error::Io { path: path.to_owned(), source })?;
        Ok(parse(path, &bytes)?.map(|(record, _)| record))
    }

    /// The events of one name.
    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Value> {
        self.events.iter().filter(move |event| event.name == name).map(|event| &event.data)
    }
}

/// All records of a folder, by file name.
pub fn read_all(folder: &Path) -> Result<Vec<Record>, Error> {
    let io = |source| Error::Io { path: folder.to_owned(), source };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            paths.push(path);
        }
    }
    paths.sort();
    let mut records = Vec::new();
    for path in paths {
        records.extend(Record::read(&path)?);
    }
    Ok(records)
}

/// The record in some bytes and the number of bytes that are whole lines of it; `None` if there is not even a header.
fn parse(path: &Path, bytes: &[u8]) -> Result<Option<(Record, usize)>, Error> {
    let whole = bytes.iter().rposition(|&b| b == b'\n').map_or(0, |last| last + 1);
    let mut record: Option<Record> = None;
    let lines = bytes[..whole].split(|&b| b == b'\n');
    for (number, line) in lines.enumerate().filter(|(_, line)| !line.is_empty()) {
        let wrong = |what: String| Error::Line { path: path.to_owned(), line: number + 1, what };
        // A later version may have other lines: its header is looked at first, and for its version alone.
        if record.is_none()
            && let Ok(value) = serde_json::from_slice::<Value>(line)
            && let Some(found) = value["version"].as_u64().filter(|&found| found > u64::from(VERSION))
        {
            return Err(Error::Version { path: path.to_owned(), found: u32::try_from(found).unwrap_or(u32::MAX) });
        }
        let parsed = serde_json::from_slice(line).map_err(|error| wrong(error.to_string()))?;
        match (&mut record, parsed) {
            (None, Line::Start(header)) => record = Some(Record { header, events: Vec::new(), finished: false }),
            (Some(record), Line::Event(event)) if !record.finished => record.events.push(event),
            (Some(record), Line::End) if !record.finished => record.finished = true,
            (None, _) => return Err(wrong("something before the start".into())),
            (Some(record), _) if record.finished => return Err(wrong("something behind the end".into())),
            (Some(_), _) => return Err(wrong("a second start".into())),
        }
    }
    Ok(record.map(|record| (record, whole)))
}

/// A run's file, open to be appended to.
#[derive(Debug)]
pub struct RunFile {
    path: PathBuf,
    file: File,
    record: Record,
    /// Where each event's line ends.
    ends: Vec<u64>,
}

impl RunFile {
    /// Opens a run's file in a folder, or makes it. What a killed run left is kept; a broken last line is cut off.
    pub fn open(folder: &Path, header: Header) -> Result<RunFile, Error> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if header.run.is_empty() || header.run.starts_with('.') || !header.run.chars().all(fits) {
            return Err(Error::Name { run: header.run });
        }
        let path = folder.join(format!("{}.jsonl", header.run));
        let io = |source| Error::Io { path: path.clone(), source };
        std::fs::create_dir_all(folder).map_err(io)?;
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(io)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(io)?;
        let (record, whole) = match parse(&path, &bytes)? {
            Some((record, _)) if record.header != header => {
                let (expected, found) = (Box::new(header), Box::new(record.header));
                return Err(Error::Settings { path, expected, found });
            }
            Some(found) => found,
            None => (Record { header, events: Vec::new(), finished: false }, 0),
        };
        file.set_len(whole as u64).map_err(io)?;
        file.seek(SeekFrom::End(0)).map_err(io)?;
        let line_ends = bytes[..whole].iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(at, _)| at as u64 + 1);
        let mut run = RunFile { path: path.clone(), file, record, ends: line_ends.skip(1).collect() };
        run.ends.truncate(run.record.events.len());
        if whole == 0 {
            let start = Line::Start(run.record.header.clone());
            run.write(&start)?;
        }
        Ok(run)
    }

    /// What is in it.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends an event.
    pub fn event(&mut self, name: &str, data: Value) -> Result<(), Error> {
        let event = Event { name: name.to_owned(), data };
        let end = self.write(&Line::Event(event.clone()))?;
        self.record.events.push(event);
        self.ends.push(end);
        Ok(())
    }

    /// Says that the run went to its end.
    pub fn finish(&mut self) -> Result<(), Error> {
        if !self.record.finished {
            self.write(&Line::End)?;
            self.record.finished = true;
        }
        Ok(())
    }

    /// Goes back to where there were so many events: what came later is done again, with the same result.
    pub fn rewind(&mut self, events: usize) -> Result<(), Error> {
        if events >= self.record.events.len() && !self.record.finished {
            return Ok(());
        }
        let path = self.path.clone();
        let io = |source| Error::Io { path, source };
        let end = match events.checked_sub(1) {
            Some(last) if last < self.ends.len() => self.ends[last],
            Some(_) => return Ok(()),
            None => {
                let mut header = serde_json::to_vec(&Line::Start(self.record.header.clone())).unwrap_or_default();
                header.push(b'\n');
                header.len() as u64
            }
        };
        self.file.set_len(end).and_then(|()| self.file.seek(SeekFrom::End(0)).map(|_| ())).map_err(io)?;
        self.record.events.truncate(events);
        self.record.finished = false;
        self.ends.truncate(events);
        Ok(())
    }

    /// A line, in one write.
    fn write(&mut self, line: &Line) -> Result<u64, Error> {
        let io = |source| Error::Io { path: self.path.clone(), source };
        let mut bytes = serde_json::to_vec(line).map_err(|error| io(error.into()))?;
        bytes.push(b'\n');
        self.file.write_all(&bytes).map_err(io)?;
        self.file.stream_position().map_err(io)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn header() -> Header {
        Header::new("test", "a-run", json!({"seed": 1}))
    }

    fn whole(folder: &Path) -> Vec<u8> {
        let mut run = RunFile::open(folder, header()).unwrap();
        for step in run.record().events.len()..5 {
            run.event("loss", json!({"step": step, "loss": 1.0 / (step + 1) as f64})).unwrap();
        }
        run.finish().unwrap();
        std::fs::read(run.path()).unwrap()
    }

    #[test]
    fn a_run_killed_at_any_byte_ends_as_an_unbroken_one() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = whole(folder.path());
        for cut in 0..bytes.len() {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join("a-run.jsonl"), &bytes[..cut]).unwrap();
            assert_eq!(whole(folder.path()), bytes, "cut at byte {cut}");
        }
    }

    #[test]
    fn rewinding_cuts_off_what_came_later() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = whole(folder.path());
        for events in 0..=5 {
            let mut run = RunFile::open(folder.path(), header()).unwrap();
            run.rewind(events).unwrap();
            assert_eq!((run.record().events.len(), run.record().finished), (events, false));
            drop(run);
            assert_eq!(whole(folder.path()), bytes, "after rewinding to {events}");
        }
    }

    #[test]
    fn other_settings_later_versions_and_broken_lines_are_named() {
        let folder = tempfile::tempdir().unwrap();
        whole(folder.path());
        let other = Header::new("test", "a-run", json!({"seed": 2}));
        let error = RunFile::open(folder.path(), other).unwrap_err().to_string();
        assert!(error.contains("\"seed\":2") && error.contains("\"seed\":1"), "{error}");
        let path = folder.path().join("b.jsonl");
        std::fs::write(&path, "{\"record\":\"start\",\"version\":9,\"new\":true}\n").unwrap();
        assert!(Record::read(&path).unwrap_err().to_string().contains("version 9"));
        std::fs::write(&path, "no JSON\n").unwrap();
        assert!(Record::read(&path).unwrap_err().to_string().contains("line 1"));
        std::fs::write(&path, "").unwrap();
        assert_eq!(Record::read(&path).unwrap(), None);
        for name in ["", "..", "a/b", ".hidden"] {
            let header = Header::new("test", name, json!({}));
            assert!(RunFile::open(folder.path(), header).is_err(), "{name}");
        }
    }

    #[test]
    fn a_folder_is_read_in_order() {
        let folder = tempfile::tempdir().unwrap();
        for run in ["b", "a"] {
            RunFile::open(folder.path(), Header::new("s", run, json!({}))).unwrap().event("x", json!(1)).unwrap();
        }
        let records = read_all(folder.path()).unwrap();
        assert_eq!(records.iter().map(|r| r.header.run.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(records[0].named("x").count(), 1);
    }
}
