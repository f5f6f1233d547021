//! A file that replaces another atomically.

use crate::target::{Target, create_beside};
use crate::{Error, unfinished};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The new contents of a path. It is a buffered [`io::Write`]. The path is unchanged until [`commit`](Self::commit), and stays
/// unchanged if the value is dropped without it.
///
/// A path that is not a regular file, such as a FIFO or `/dev/null`, is written to directly.
#[derive(Debug)]
pub struct Replacement {
    /// As given by the caller.
    path: PathBuf,
    /// `None` once everything is written.
    writer: Option<BufWriter<File>>,
    /// `None` if the path is written to directly.
    place: Option<Place>,
}

/// Absolute paths, because the working directory may change.
#[derive(Debug)]
struct Place {
    temporary: PathBuf,
    target: PathBuf,
}

impl Replacement {
    /// Starts new contents for `path`: creates a temporary file next to it, or opens it if it is not a regular file.
    /// Opening a FIFO blocks until it has a reader.
    pub fn new(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::at(path.as_ref(), Target::find)
    }

    /// Like [`new`](Self::new), for a name chosen by the program rather than its user: anything but a regular file is an error, and
    /// a link that appears there in the meantime is replaced, not followed.
    pub fn own(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::at(path.as_ref(), Target::own)
    }

    fn at(path: &Path, find: impl Fn(&Path) -> io::Result<Target>) -> Result<Self, Error> {
        let (file, place) = match find(path).map_err(Error::of(path, "write"))? {
            Target::File(target, old) => {
                // The lock is held, so that no signal arrives between creating the file and registering it.
                let mut unfinished = unfinished::lock();
                let (temporary, file) = create_beside(&target, old.as_ref())
                    .map_err(Error::of(path, "create a temporary file next to it"))?;
                unfinished.insert(temporary.clone());
                (file, Some(Place { temporary, target }))
            }
            Target::Stream => (open_stream(path).map_err(Error::of(path, "open for writing"))?, None),
        };
        Ok(Self { path: path.to_path_buf(), writer: Some(BufWriter::new(file)), place })
    }

    /// The path as given by the caller.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether bytes go directly to a device or a FIFO and cannot be undone.
    pub fn is_stream(&self) -> bool {
        self.place.is_none()
    }

    /// Syncs the file to disk and renames it into place. On an error the path is unchanged.
    pub fn commit(self) -> Result<(), Error> {
        commit_all([self])
    }

    /// Writes everything and syncs it to disk, under the temporary name.
    fn complete(&mut self) -> Result<(), Error> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let file = writer.into_inner().map_err(|error| Error::of(&self.path, "write")(error.into_error()))?;
        // Devices and FIFOs cannot be synced.
        if self.place.is_some() { file.sync_all().map_err(Error::of(&self.path, "sync to disk")) } else { Ok(()) }
    }

    fn written<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| Error::of(&self.path, "write")(error).into())
    }
}

/// Errors contain the path.
impl Write for Replacement {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The writer exists until the value is consumed.
        let result = self.writer.as_mut().map_or(Ok(0), |writer| writer.write(bytes));
        self.written(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.writer.as_mut().map_or(Ok(()), BufWriter::flush);
        self.written(result)
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if let Some(writer) = self.writer.take() {
            // Dropping the writer would flush its buffer.
            let (_closed, _unwritten) = writer.into_parts();
        }
        if let Some(place) = self.place.take() {
            let mut unfinished = unfinished::lock();
            if unfinished.remove(&place.temporary) {
                // If the file cannot be removed, nothing more can be done.
                let _ = fs::remove_file(&place.temporary);
            }
        }
    }
}

/// Renames several files into place together.
///
/// All files are complete and on disk before the first is renamed: an error before that, such as a full disk, leaves every path
/// unchanged. Renaming itself rarely fails; if it does, the files before that one are in place and the others are unchanged.
/// Signal handlers that use [`remove_unfinished`](crate::remove_unfinished) wait until all are in place.
pub fn commit_all(replacements: impl IntoIterator<Item = Replacement>) -> Result<(), Error> {
    let mut replacements: Vec<Replacement> = replacements.into_iter().collect();
    for replacement in &mut replacements {
        replacement.complete()?;
    }
    let renamed = rename_all(&mut replacements);
    // Files that are not in place remove their temporary files when dropped, which needs the lock.
    drop(replacements);
    renamed
}

fn rename_all(replacements: &mut [Replacement]) -> Result<(), Error> {
    let mut unfinished = unfinished::lock();
    for replacement in replacements {
        let Some(Place { temporary, target }) = &replacement.place else { continue };
        fs::rename(temporary, target).map_err(Error::of(&replacement.path, "rename into place"))?;
        unfinished.remove(temporary);
        sync_directory(target);
        replacement.place = None;
    }
    Ok(())
}

/// Calls `fill` to write the new contents of `path`, and commits them. If `fill` fails, nothing changes.
///
/// `E` may be [`Error`], [`io::Error`] or any other type that [`Error`] converts into.
pub fn replace<E: From<Error>>(
    path: impl AsRef<Path>,
    fill: impl FnOnce(&mut Replacement) -> Result<(), E>,
) -> Result<(), E> {
    let mut replacement = Replacement::new(path)?;
    fill(&mut replacement)?;
    Ok(replacement.commit()?)
}

/// Like [`replace`], for a name chosen by the program: see [`Replacement::own`].
pub fn replace_own<E: From<Error>>(
    path: impl AsRef<Path>,
    fill: impl FnOnce(&mut Replacement) -> Result<(), E>,
) -> Result<(), E> {
    let mut replacement = Replacement::own(path)?;
    fill(&mut replacement)?;
    Ok(replacement.commit()?)
}

/// Syncs a rename to disk, if the system can. If it cannot, the file is in place anyway.
pub(crate) fn sync_directory(target: &Path) {
    if cfg!(unix)
        && let Some(directory) = target.parent()
    {
        let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        let _ = File::open(directory).and_then(|directory| directory.sync_all());
    }
}

fn open_stream(path: &Path) -> io::Result<File> {
    let file = File::options().write(true).open(path)?;
    if file.metadata()?.is_file() {
        return Err(io::Error::other("expected a device or a FIFO, found a regular file that took its place"));
    }
    Ok(file)
}
