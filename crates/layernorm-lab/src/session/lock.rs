//! Only one session per folder, or several that share it: a file lock of the operating system, which is released when the
//! process ends.

use super::Error;
use layernorm_files::open_regular;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// The locked file. It is never removed, because a lock on a removed file excludes no other process.
const NAME: &str = ".lock";

/// A lock of a folder, released on drop.
#[derive(Debug)]
pub struct Lock {
    /// Held, not used.
    _file: File,
}

impl Lock {
    /// Creates the folder if it does not exist, and locks it for this process alone.
    ///
    /// # Errors
    /// [`Error::Busy`] if another process holds it, [`Error::ForeignLock`] if the file is not ours, [`Error::Io`]; also
    /// for a symbolic link, which is not followed.
    pub fn take(folder: &Path) -> Result<Lock, Error> {
        let (mut file, path, holder) = open(folder)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::Busy { folder: folder.to_owned(), holder }),
            // Some network drives do not support locks; work without one there.
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {}
            Err(TryLockError::Error(error)) => return Err(Error::Io { path, source: error }),
        }
        let name = format!("process {}\n", std::process::id());
        let put = |file: &mut File| {
            file.set_len(0)?;
            file.rewind()?;
            file.write_all(name.as_bytes())
        };
        put(&mut file).map_err(Error::io(&path))?;
        Ok(Lock { _file: file })
    }

    /// The same, together with other processes that share the folder.
    ///
    /// # Errors
    /// Those of [`take`](Self::take), and [`Error::NoLocks`].
    pub fn share(folder: &Path) -> Result<Lock, Error> {
        let (file, path, holder) = open(folder)?;
        match file.try_lock_shared() {
            Ok(()) => Ok(Lock { _file: file }),
            Err(TryLockError::WouldBlock) => Err(Error::Busy { folder: folder.to_owned(), holder }),
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {
                Err(Error::NoLocks { folder: folder.to_owned() })
            }
            Err(TryLockError::Error(error)) => Err(Error::Io { path, source: error }),
        }
    }
}

/// Opens the lock file of a folder, which is created if it does not exist. Returns the file, its path and its last holder.
fn open(folder: &Path) -> Result<(File, PathBuf, String), Error> {
    fs::create_dir_all(folder).map_err(Error::io(folder))?;
    let path = folder.join(NAME);
    let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).to_owned();
    let mut file = open_regular(&path, &options).map_err(Error::file)?;
    // If the system does not allow reading locked files, the holder stays unknown.
    let holder = holder(&mut file).unwrap_or_default();
    if !is_ours(&holder) {
        return Err(Error::ForeignLock { path });
    }
    Ok((file, path, String::from_utf8_lossy(&holder).trim().to_owned()))
}

/// Reads the file, up to one byte more than our locks have.
fn holder(file: &mut File) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut text)?;
    Ok(text)
}

/// Maximum length of our locks.
const MOST_BYTES: u64 = 32;

/// Whether a lock's text is `process N`, or a prefix of it left by a killed process.
fn is_ours(text: &[u8]) -> bool {
    let word = b"process ";
    let Some(number) = text.strip_prefix(word) else { return word.starts_with(text) };
    let digits = number.strip_suffix(b"\n").unwrap_or(number);
    text.len() as u64 <= MOST_BYTES && digits.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_locks_are_known() {
        for ours in ["", "pro", "process ", "process 12", "process 4194304\n"] {
            assert!(is_ours(ours.as_bytes()), "{ours:?}");
        }
        for other in ["x", "12\n", "process of mine", "process 1\n\n", "process 12345678901234567890123456789\n"] {
            assert!(!is_ours(other.as_bytes()), "{other:?}");
        }
    }

    #[test]
    fn what_is_not_ours_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        fs::write(&path, "host 7, user me\n").unwrap();
        let error = Lock::take(folder.path()).unwrap_err();
        assert!(error.to_string().contains(".lock: expected this program's lock file, found another file"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "host 7, user me\n");
    }

    #[cfg(unix)]
    #[test]
    fn links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join(NAME), folder.path().join("other"));
        for contents in ["", "process 1\n"] {
            fs::write(&other, contents).unwrap();
            std::os::unix::fs::symlink(&other, &path).unwrap();
            let error = Lock::take(folder.path()).unwrap_err();
            assert!(error.to_string().contains("expected a regular file, found a link"), "{error}");
            assert_eq!(fs::read_to_string(&other).unwrap(), contents);
            fs::remove_file(&path).unwrap();
        }
    }
}
