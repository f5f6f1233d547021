//! A file that takes the place of another in one step.

use crate::target::{Target, create_beside};
use crate::{Error, unfinished};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// What is going to be at a path. It is an [`io::Write`], with a buffer; nothing is at the path before
/// [`commit`](Self::commit), and nothing changes if it is dropped without.
///
/// What is no regular file, like a FIFO or `/dev/null`, is written to directly and at once.
#[derive(Debug)]
pub struct Replacement {
    /// As the caller gave it.
    path: PathBuf,
    /// `None` once it is complete.
    writer: Option<BufWriter<File>>,
    /// `None` for what is written to directly.
    place: Option<Place>,
}

/// Absolute paths: the working directory may change.
#[derive(Debug)]
struct Place {
    temporary: PathBuf,
    target: PathBuf,
}

impl Replacement {
    /// Begins to write what is going to be at `path`: creates a temporary file beside it, or opens what is no file.
    /// Opening a FIFO waits for its reader.
    pub fn new(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::at(path.as_ref(), Target::find)
    }

    /// The same under a name that the program chose and not its user: what is no regular file is an error, and a link that is
    /// put there in the meantime is replaced, not followed.
    pub fn own(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::at(path.as_ref(), Target::own)
    }

    fn at(path: &Path, find: impl Fn(&Path) -> io::Result<Target>) -> Result<Self, Error> {
        let (file, place) = match find(path).map_err(Error::of(path, "write"))? {
            Target::File(target, old) => {
                // Held, so that no signal comes between the file and its entry.
                let mut unfinished = unfinished::lock();
                let (temporary, file) =
                    create_beside(&target, old.as_ref()).map_err(Error::of(path, "create a file beside it"))?;
                unfinished.insert(temporary.clone());
                (file, Some(Place { temporary, target }))
            }
            Target::Stream => (open_stream(path).map_err(Error::of(path, "open for writing"))?, None),
        };
        Ok(Self { path: path.to_path_buf(), writer: Some(BufWriter::new(file)), place })
    }

    /// The path, as the caller gave it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether bytes go to a device or a FIFO at once, and cannot be taken back.
    pub fn is_stream(&self) -> bool {
        self.place.is_none()
    }

    /// Brings the file to disk and puts it in its place. On an error the path is as it was.
    pub fn commit(self) -> Result<(), Error> {
        commit_all([self])
    }

    /// Everything written and on disk, under the temporary name.
    fn complete(&mut self) -> Result<(), Error> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let file = writer.into_inner().map_err(|error| Error::of(&self.path, "write")(error.into_error()))?;
        // Devices and FIFOs have no disk to bring bytes to.
        if self.place.is_some() { file.sync_all().map_err(Error::of(&self.path, "bring to disk")) } else { Ok(()) }
    }

    fn written<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| Error::of(&self.path, "write")(error).into())
    }
}

/// Errors name the path.
impl Write for Replacement {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // There is a writer until the value is consumed.
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
            // Not by dropping the writer, which would still write what it holds.
            let (_closed, _unwritten) = writer.into_parts();
        }
        if let Some(place) = self.place.take() {
            let mut unfinished = unfinished::lock();
            if unfinished.remove(&place.temporary) {
                // Nothing more can be done about one that stays.
                let _ = fs::remove_file(&place.temporary);
            }
        }
    }
}

/// Puts several files in their places together.
///
/// All are complete and on disk before the first is renamed: an error before that (a full disk, say) leaves every path as
/// it was. Renaming itself hardly ever fails; if it does, files before that one in the order are in place, and the others
/// are as they were. Signal handlers that use [`remove_unfinished`](crate::remove_unfinished) wait until all are in place.
pub fn commit_all(replacements: impl IntoIterator<Item = Replacement>) -> Result<(), Error> {
    let mut replacements: Vec<Replacement> = replacements.into_iter().collect();
    for replacement in &mut replacements {
        replacement.complete()?;
    }
    let renamed = rename_all(&mut replacements);
    // Those that are not in place remove their temporary files, and need the lock for it.
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

/// Lets `fill` write what belongs at `path`, and commits. If `fill` fails, nothing changes.
///
/// `E` may be [`Error`], [`io::Error`] or any other that [`Error`] converts into.
pub fn replace<E: From<Error>>(
    path: impl AsRef<Path>,
    fill: impl FnOnce(&mut Replacement) -> Result<(), E>,
) -> Result<(), E> {
    let mut replacement = Replacement::new(path)?;
    fill(&mut replacement)?;
    Ok(replacement.commit()?)
}

/// As [`replace`], under a name that the program chose: see [`Replacement::own`].
pub fn replace_own<E: From<Error>>(
    path: impl AsRef<Path>,
    fill: impl FnOnce(&mut Replacement) -> Result<(), E>,
) -> Result<(), E> {
    let mut replacement = Replacement::own(path)?;
    fill(&mut replacement)?;
    Ok(replacement.commit()?)
}

/// Brings a rename to disk, where the system can. If it cannot, the file is in its place all the same.
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
