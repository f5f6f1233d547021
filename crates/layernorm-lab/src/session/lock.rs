//! One session a folder: the system's lock on a file, which goes away with the process however that ends.

use super::Error;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::Path;

/// The file that is locked. It stays: a lock on a file that was removed would lock nobody out.
const NAME: &str = ".lock";

/// A folder that is ours until this is dropped.
#[derive(Debug)]
pub struct Lock {
    /// Held, not used.
    _file: File,
}

impl Lock {
    /// Makes the folder where it is not there, and takes it.
    ///
    /// # Errors
    /// [`Error::Busy`] where another process has it, [`Error::Io`].
    pub fn take(folder: &Path) -> Result<Lock, Error> {
        fs::create_dir_all(folder).map_err(Error::io(folder))?;
        let path = folder.join(NAME);
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = open.map_err(Error::io(&path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                // Where the system lets nobody read what is locked, the holder stays unknown.
                let holder = fs::read_to_string(&path).unwrap_or_default().trim().to_owned();
                return Err(Error::Busy { folder: folder.to_owned(), holder });
            }
            // Some network drives have no locks; that is no reason not to work on them.
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {}
            Err(TryLockError::Error(error)) => return Err(Error::Io { path, source: error }),
        }
        let name = format!("process {}\n", std::process::id());
        file.set_len(0).and_then(|()| file.write_all(name.as_bytes())).map_err(Error::io(&path))?;
        Ok(Lock { _file: file })
    }
}
