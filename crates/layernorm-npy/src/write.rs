//! Writing: shape checked → header → data, into a temporary file that then takes the target's place.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::array::check_length;
use crate::dtype::with_elements;
use crate::header::preamble;
use crate::{Array, Error, Order, Scalar};

/// Elements are converted in pieces of this many, which are at most 64 KiB.
const PIECE: usize = 8 * 1024;

/// Writes an array in C order to a file, as `numpy.save` does but in one step: what was there before stays until the
/// new file is complete and on disk.
///
/// - A file that is there is replaced and keeps its permission bits; a new one gets those that new files get. A link
///   stays, and the file that it leads to is replaced.
/// - On an error the target is as it was and the temporary file, which lies beside it, is gone. Only a process that is
///   killed leaves one behind, named `.npy-*.tmp`.
/// - What is no file, like a pipe or `/dev/null`, is written to directly.
pub fn write<T: Scalar>(path: impl AsRef<Path>, shape: &[usize], values: &[T]) -> Result<(), Error> {
    let path = path.as_ref();
    check_length(shape, T::DTYPE, values.len())
        .and_then(|()| save(path, |file| emit(file, shape, Order::C, values)))
        .map_err(|error| error.in_file(path))
}

/// Writes an array in C order to any writer, as the bytes of a file.
pub fn to_writer<T: Scalar>(mut writer: impl Write, shape: &[usize], values: &[T]) -> Result<(), Error> {
    check_length(shape, T::DTYPE, values.len())?;
    emit(&mut writer, shape, Order::C, values).map_err(Error::io("write"))
}

impl Array {
    /// Writes the array to a file, in its own order, in the way of [`write()`].
    ///
    /// Where both orders are the same (a vector, or no elements) the file says C, as NumPy's does.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        save(path, |file| self.emit(file)).map_err(|error| error.in_file(path))
    }

    /// Writes the array to any writer, in its own order, as the bytes of a file.
    pub fn to_writer(&self, mut writer: impl Write) -> Result<(), Error> {
        self.emit(&mut writer).map_err(Error::io("write"))
    }

    fn emit(&self, writer: &mut dyn Write) -> io::Result<()> {
        with_elements!(self.data(), values => emit(writer, self.shape(), self.order(), values))
    }
}

/// Writes what has been checked.
fn emit<T: Scalar>(writer: &mut dyn Write, shape: &[usize], order: Order, values: &[T]) -> io::Result<()> {
    writer.write_all(&preamble(T::DTYPE, order, shape))?;
    let mut bytes = Vec::new();
    for piece in values.chunks(PIECE) {
        bytes.clear();
        T::encode(piece, &mut bytes);
        writer.write_all(&bytes)?;
    }
    writer.flush()
}

/// What writing to a path means.
enum Target {
    /// Put a file in this place; its present metadata, where there is one.
    File(PathBuf, Option<Metadata>),
    /// Write into what is there.
    Stream,
}

impl Target {
    fn find(path: &Path) -> io::Result<Self> {
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self::File(path.to_path_buf(), None));
            }
            Err(error) => return Err(error),
        };
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if !metadata.is_file() {
            return Ok(Self::Stream);
        }
        let place = if path.is_symlink() { fs::canonicalize(path)? } else { path.to_path_buf() };
        Ok(Self::File(place, Some(metadata)))
    }
}

/// Lets `fill` write what belongs at `path`.
fn save(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Error> {
    match Target::find(path).map_err(Error::io("write"))? {
        Target::File(place, metadata) => replace(&place, metadata.as_ref(), fill),
        Target::Stream => {
            let mut stream = File::options().write(true).open(path).map_err(Error::io("open for writing"))?;
            fill(&mut stream).map_err(Error::io("write"))
        }
    }
}

/// Writes a file beside `place` and renames it to that. The temporary file removes itself when it is dropped.
fn replace(
    place: &Path,
    old: Option<&Metadata>,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Error> {
    let mut temporary = create_beside(place, old).map_err(Error::io("create a file beside it"))?;
    fill(temporary.as_file_mut()).map_err(Error::io("write"))?;
    temporary.as_file().sync_all().map_err(Error::io("bring to disk"))?;
    temporary.persist(place).map_err(|failed| Error::io("rename into place")(failed.error))?;
    Ok(())
}

/// A temporary file with the permission bits of `old`, or with those of any new file.
fn create_beside(place: &Path, old: Option<&Metadata>) -> io::Result<NamedTempFile> {
    let directory = match place.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".npy-").suffix(".tmp");

    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = old.map_or(0o666, |old| old.permissions().mode() & 0o777);
        let permissions = fs::Permissions::from_mode(mode);
        // The operating system takes the umask off.
        let file = builder.permissions(permissions.clone()).tempfile_in(directory)?;
        if old.is_some() {
            file.as_file().set_permissions(permissions)?;
        }
        Ok(file)
    }
    #[cfg(not(unix))]
    {
        let _ = old;
        builder.tempfile_in(directory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that fills up, say: the old file stays and nothing lies beside it.
    #[test]
    fn failure_halfway_leaves_everything_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.npy");
        let fail = |writer: &mut dyn Write| {
            writer.write_all(b"half of")?;
            Err(io::ErrorKind::StorageFull.into())
        };

        let error = save(&path, fail).unwrap_err();
        assert_eq!(error.to_string(), "cannot write: no storage space");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);

        fs::write(&path, "old").unwrap();
        save(&path, fail).unwrap_err();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    /// The target becomes a directory after it was looked at.
    #[test]
    fn failed_rename_removes_the_temporary_file() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("folder");
        fs::create_dir(&place).unwrap();
        let error = replace(&place, None, |writer| writer.write_all(b"all")).unwrap_err();
        assert!(matches!(error, Error::Io { action: "rename into place", .. }));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    /// A device is written to and not replaced; a full one is an error.
    #[cfg(target_os = "linux")]
    #[test]
    fn devices_are_streams() {
        let full = Path::new("/dev/full");
        // First, so that a mistake cannot replace the device where the user may do so.
        assert!(matches!(Target::find(full), Ok(Target::Stream)));
        let error = save(full, |writer| writer.write_all(b"all")).unwrap_err();
        assert!(matches!(error, Error::Io { action: "write", .. }));
    }
}
