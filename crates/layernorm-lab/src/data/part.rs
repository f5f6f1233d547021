//! An unfinished download: stored as `NAME.part` and renamed to `NAME` once it is verified.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use layernorm_files::{open_regular, publish};
use sha2::{Digest, Sha256};

use super::error::{Error, Problem};

/// An unfinished file, locked against other processes.
pub(super) struct Part {
    file: File,
    path: PathBuf,
    target: PathBuf,
    len: u64,
    /// Whether there are bytes from another URL.
    pub(super) inherited: bool,
}

impl Part {
    /// Opens the partial file of an earlier download, or creates a new one.
    pub(super) fn open(target: &Path) -> Result<Self, Error> {
        let path = part_path(target);
        let options = File::options().create(true).truncate(false).read(true).write(true).to_owned();
        let mut file = open_regular(&path, &options).map_err(Problem::file)?;
        // File systems without locks are used without locking.
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(Error::Busy { path });
        }
        let len = file.seek(SeekFrom::End(0)).map_err(|source| Problem::Io { action: "read", source }.of(&path))?;
        Ok(Self { file, path, target: target.to_path_buf(), len, inherited: len > 0 })
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_all(bytes).map_err(|source| self.problem("write", source))?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// Discards the contents.
    pub(super) fn restart(&mut self) -> Result<(), Error> {
        let result = self.file.set_len(0).and_then(|()| self.file.rewind());
        result.map_err(|source| self.problem("truncate", source))?;
        (self.len, self.inherited) = (0, false);
        Ok(())
    }

    /// The checksum of all bytes.
    pub(super) fn sha256(&mut self) -> Result<String, Error> {
        let result = self.file.rewind().and_then(|()| sha256(&mut self.file));
        result.map_err(|source| self.problem("read", source))
    }

    /// Syncs the file to disk and renames it.
    pub(super) fn finish(self) -> Result<(), Error> {
        publish(self.file, &self.path, &self.target).map_err(Problem::file)
    }

    /// Keeps the contents for the next attempt; removes an empty file.
    pub(super) fn leave(self) -> Result<(), Error> {
        match self.len {
            0 => fs::remove_file(&self.path).map_err(|source| self.problem("remove", source)),
            _ => Ok(()),
        }
    }

    fn problem(&self, action: &'static str, source: io::Error) -> Error {
        Problem::Io { action, source }.of(&self.path)
    }
}

/// `NAME.part` beside `NAME`.
fn part_path(target: &Path) -> PathBuf {
    let mut path = target.as_os_str().to_owned();
    path.push(".part");
    path.into()
}

/// The SHA-256 of a reader's contents in hexadecimal digits.
pub(super) fn sha256(mut reader: impl Read) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(hexadecimal(&hash.finalize())),
            Ok(count) => hash.update(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
