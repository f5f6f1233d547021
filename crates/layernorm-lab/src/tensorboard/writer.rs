//! Writes the events of a run that its folder lacks.
//!
//! TensorBoard reads the files of a folder in the order of their names. Where a file begins with the start of a session, it
//! forgets what earlier files say about that step and later ones.

use super::Error;
use super::frame::framed;
use super::protobuf::{What, event};
use super::read::{self, Entry};
use super::settings;
use super::translation::Translation;
use crate::records::{self, Follower, Record};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The event files of a run.
#[derive(Debug)]
pub struct Writer {
    folder: PathBuf,
    translation: Translation,
    /// What the folder holds.
    known: Vec<Entry>,
    /// For the settings and for each event of the record, how many of the folder's events are theirs and those before.
    ends: Vec<usize>,
    /// The file of this writer, if it has written something.
    file: Option<EventFile>,
    /// The time of the events; `None` for the time when they are written.
    time: Option<SystemTime>,
}

impl Writer {
    /// A writer for the run of this record, of which nothing is written yet.
    pub(super) fn new(folder: PathBuf, translation: Translation, time: Option<SystemTime>) -> Result<Writer, Error> {
        let known = read::all(&folder)?;
        Ok(Writer { folder, translation, known, ends: Vec::new(), file: None, time })
    }

    /// Writes what the folder lacks of a record.
    pub(super) fn write(&mut self, record: &Record) -> Result<(), Error> {
        if self.ends.is_empty() {
            let settings = self.translation.settings(&record.header).summary();
            self.add(settings.map(|summary| Entry { step: 0, summary }))?;
        }
        // A rewound record has lost events, which come again.
        self.ends.truncate(1 + record.events.len());
        for event in &record.events[self.ends.len() - 1..] {
            let step = event.data["step"].as_u64().unwrap_or(0).max(self.step());
            self.add(self.translation.values(event).summary().map(|summary| Entry { step, summary }))?;
        }
        if record.finished && self.ends.len() == 1 + record.events.len() {
            let diverged = record.named("diverged").next().is_some();
            let summary = settings::end(diverged).summary();
            self.add(summary.map(|summary| Entry { step: self.step(), summary }))?;
        }
        Ok(())
    }

    /// The step of the last event.
    fn step(&self) -> u64 {
        let end = self.ends.last().copied().unwrap_or(0);
        self.known[..end].last().map_or(0, |entry| entry.step)
    }

    /// Adds the next event of the record, if it has values.
    fn add(&mut self, entry: Option<Entry>) -> Result<(), Error> {
        let at = self.ends.last().copied().unwrap_or(0);
        if let Some(entry) = entry {
            match self.known.get(at) {
                Some(known) if *known == entry => {}
                // The end of what the folder holds, and of this writer's file.
                None if self.file.is_some() => {
                    self.put(&entry)?;
                    self.known.push(entry);
                }
                _ => self.start(at, entry)?,
            }
            self.ends.push(at + 1);
        } else {
            self.ends.push(at);
        }
        Ok(())
    }

    /// Starts a session at an event that the folder lacks: the first `at` events stay valid.
    fn start(&mut self, at: usize, entry: Entry) -> Result<(), Error> {
        // The start makes all events at this step obsolete, so those that stay valid are repeated.
        let same = self.known[..at].iter().filter(|known| known.step >= entry.step).count();
        self.known.truncate(at);
        let (seconds, mut file) = (self.seconds(), EventFile::create(&self.folder)?);
        file.put(&event(seconds, 0, &What::Version))?;
        file.put(&event(seconds, entry.step, &What::Start))?;
        self.file = Some(file);
        self.known.push(entry);
        for again in at - same..=at {
            let entry = self.known[again].clone();
            self.put(&entry)?;
        }
        Ok(())
    }

    fn put(&mut self, entry: &Entry) -> Result<(), Error> {
        let bytes = event(self.seconds(), entry.step, &What::Summary(&entry.summary));
        self.file.as_mut().map_or(Ok(()), |file| file.put(&bytes))
    }

    /// The time of an event, in seconds since 1970.
    fn seconds(&self) -> f64 {
        since_1970(self.time.unwrap_or_else(SystemTime::now))
    }
}

fn since_1970(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

impl Follower for Writer {
    fn changed(&mut self, record: &Record) -> Result<(), records::Error> {
        Ok(self.write(record)?)
    }
}

/// An event file, open for appending.
#[derive(Debug)]
struct EventFile {
    path: PathBuf,
    file: File,
    /// Number of bytes of whole events.
    bytes: u64,
}

impl EventFile {
    /// Creates a file whose name sorts after those of the folder's other event files.
    fn create(folder: &Path) -> Result<EventFile, Error> {
        fs::create_dir_all(folder).map_err(Error::io(folder))?;
        let second = |path: &PathBuf| {
            let rest = path.file_name()?.to_str()?.strip_prefix("events.out.tfevents.")?;
            rest.split('.').next()?.parse::<u64>().ok()
        };
        let last = read::files(folder)?.iter().filter_map(second).max();
        let mut number = (since_1970(SystemTime::now()) as u64).max(last.map_or(0, |last| last.saturating_add(1)));
        loop {
            let path = folder.join(format!("events.out.tfevents.{number:010}.layernorm"));
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => return Ok(EventFile { path, file, bytes: 0 }),
                // Another process was faster.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => number = number.saturating_add(1),
                Err(error) => return Err(Error::io(&path)(error)),
            }
        }
    }

    /// Appends an event, in one write: TensorBoard sees it at once.
    fn put(&mut self, message: &[u8]) -> Result<(), Error> {
        let frame = framed(message);
        self.file.write_all(&frame).map_err(|error| {
            // On a full disk, no half event is left. If that fails too, readers ignore it.
            let _ = self.file.set_len(self.bytes);
            Error::io(&self.path)(error)
        })?;
        self.bytes += frame.len() as u64;
        Ok(())
    }
}
