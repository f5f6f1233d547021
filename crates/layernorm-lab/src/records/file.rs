//! A run's file, open for appending.

use super::Error;
use super::lines::{self, Event, Header, Line, Mark, Parsed, Record};
use layernorm_files::open_regular;
use serde_json::Value;
use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Opens or creates a run's file.
fn open_file(folder: &Path, header: &Header) -> Result<(PathBuf, File), Error> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if header.run.is_empty() || header.run.starts_with('.') || !header.run.chars().all(fits) {
        return Err(Error::Name { run: header.run.clone() });
    }
    let path = folder.join(format!("{}.jsonl", header.run));
    std::fs::create_dir_all(folder).map_err(Error::io(folder))?;
    let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).to_owned();
    let file = open_regular(&path, &options).map_err(|error| Error::io(&path)(error.into_parts().2))?;
    Ok((path, file))
}

/// Is told about changes of a run's records, for example to show them elsewhere.
pub trait Follower: fmt::Debug + Send {
    /// Events were added or removed at the end of the record, or the run has finished. The change is on disk.
    ///
    /// # Errors
    /// Ends the run with this error; the records stay valid.
    fn changed(&mut self, record: &Record) -> Result<(), Error>;
}

/// A run's file, open for appending.
#[derive(Debug)]
pub struct RunFile {
    path: PathBuf,
    file: File,
    record: Record,
    /// End of each line, starting with the header.
    marks: Vec<Mark>,
    follower: Option<Box<dyn Follower>>,
}

impl RunFile {
    /// Opens or creates a run's file in a folder. Records of a killed run are kept; a broken last line is removed. A
    /// file of another run is an error and is not changed.
    pub fn open(folder: &Path, header: Header) -> Result<RunFile, Error> {
        let (path, file) = open_file(folder, &header)?;
        RunFile::read(path, file, header)
    }

    /// Like [`open`](Self::open), for processes that share the folder: locks the file until it is dropped or the process
    /// ends. `None` if another process has locked it.
    pub fn claim(folder: &Path, header: Header) -> Result<Option<RunFile>, Error> {
        let (path, file) = open_file(folder, &header)?;
        match file.try_lock() {
            Ok(()) => RunFile::read(path, file, header).map(Some),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(Error::io(&path)(error)),
        }
    }

    fn read(path: PathBuf, mut file: File, header: Header) -> Result<RunFile, Error> {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(Error::io(&path))?;
        let Parsed { record, marks } = match lines::parse(&bytes).map_err(Error::of(&path))? {
            Some(Parsed { record, .. }) if record.header != header => {
                let (expected, found) = (Box::new(header), Box::new(record.header));
                return Err(Error::Settings { path, expected, found });
            }
            Some(parsed) => parsed,
            None => Parsed { record: Record::new(header), marks: Vec::new() },
        };
        let mut run = RunFile { path, file, record, marks, follower: None };
        run.cut()?;
        if run.marks.is_empty() {
            run.write(&Line::Start(run.record.header.clone()))?;
        }
        Ok(run)
    }

    /// Its contents.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Tells a follower about the record as it is, and then about every change.
    pub fn follow(&mut self, follower: impl Follower + 'static) -> Result<(), Error> {
        self.follower = Some(Box::new(follower));
        self.tell()
    }

    fn tell(&mut self) -> Result<(), Error> {
        self.follower.as_mut().map_or(Ok(()), |follower| follower.changed(&self.record))
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends an event.
    pub fn event(&mut self, name: &str, data: Value) -> Result<(), Error> {
        let event = Event { name: name.to_owned(), data };
        self.write(&Line::Event(event.clone()))?;
        self.record.events.push(event);
        self.tell()
    }

    /// Marks the run as finished.
    pub fn finish(&mut self) -> Result<(), Error> {
        if !self.record.finished {
            self.write(&Line::End)?;
            self.record.finished = true;
            self.tell()?;
        }
        Ok(())
    }

    /// Truncates the file to `events` events; the later ones will be recomputed, with the same result.
    pub fn rewind(&mut self, events: usize) -> Result<(), Error> {
        if events > self.record.events.len() || events == self.record.events.len() && !self.record.finished {
            return Ok(());
        }
        self.record.events.truncate(events);
        self.record.finished = false;
        self.marks.truncate(1 + events);
        self.cut()?;
        self.tell()
    }

    /// Removes everything after the last complete line.
    fn cut(&mut self) -> Result<(), Error> {
        let end = self.mark().bytes;
        self.file.set_len(end).map_err(Error::io(&self.path))?;
        self.file.seek(SeekFrom::Start(end)).map_err(Error::io(&self.path))?;
        Ok(())
    }

    fn mark(&self) -> Mark {
        self.marks.last().copied().unwrap_or(Mark::START)
    }

    /// Appends a line, in one write.
    fn write(&mut self, line: &Line) -> Result<(), Error> {
        let (bytes, mark) = lines::write(line, &self.mark()).map_err(|error| Error::io(&self.path)(error.into()))?;
        self.file.write_all(&bytes).map_err(Error::io(&self.path))?;
        self.marks.push(mark);
        Ok(())
    }
}
