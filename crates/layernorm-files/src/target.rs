//! Where writing to a path goes, and temporary files with the right permissions.

use crate::open::expect_regular;
use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

/// The maximum number of links to follow, as in the operating system.
const MAX_LINKS: usize = 40;

/// The number of random names to try in a directory.
const MAX_NAMES: usize = 100;

pub(crate) enum Target {
    /// Put a file at this absolute path; the metadata of the existing file, if any.
    File(PathBuf, Option<Metadata>),
    /// Write into the existing device or FIFO.
    Stream,
}

impl Target {
    pub(crate) fn find(path: &Path) -> io::Result<Self> {
        if path.as_os_str().is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "expected a file name, found none"));
        }
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self::File(std::path::absolute(end_of_links(path)?)?, None));
            }
            Err(error) => return Err(error),
        };
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if !metadata.is_file() {
            return Ok(Self::Stream);
        }
        let place = if path.is_symlink() { fs::canonicalize(path)? } else { std::path::absolute(path)? };
        Ok(Self::File(place, Some(metadata)))
    }
}

impl Target {
    /// The target for a name chosen by the program: a regular file or an unused name.
    pub(crate) fn own(path: &Path) -> io::Result<Self> {
        let old = match fs::symlink_metadata(path) {
            Ok(old) => Some(old),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        old.as_ref().map_or(Ok(()), |old| expect_regular(old.file_type()))?;
        Ok(Self::File(std::path::absolute(path)?, old))
    }
}

/// The path that a dangling link leads to.
fn end_of_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&path) {
            Ok(next) => path = path.parent().unwrap_or(Path::new("")).join(next),
            // Not a link, or nothing there.
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other(format!("expected at most {MAX_LINKS} links in a row, found more")))
}

/// Creates a file with a random name in the directory of `place`. `create_new` neither opens an existing file nor follows a
/// link. The file gets the permissions of `old`, or those of any new file.
pub(crate) fn create_beside(place: &Path, old: Option<&Metadata>) -> io::Result<(PathBuf, File)> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
        // The system applies the umask. A replacement is accessible only to its owner at first.
        options.mode(old.map_or(0o666, |old| old.mode() & 0o600));
    }
    for _ in 0..MAX_NAMES {
        let temporary = place.with_file_name(random_name());
        match options.open(&temporary) {
            Ok(file) => {
                if let Err(error) = keep_permissions(&file, old) {
                    // The error above is the one to report.
                    let _ = fs::remove_file(&temporary);
                    return Err(error);
                }
                return Ok((temporary, file));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Each `RandomState` has different keys, derived from the system's random numbers.
fn random_name() -> OsString {
    format!(".layernorm-{:016x}.tmp", RandomState::new().build_hasher().finish()).into()
}

/// Copies owner, group and permission bits of `old`. If the group cannot be kept, the new group gets only the permissions of everyone.
#[cfg(unix)]
fn keep_permissions(file: &File, old: Option<&Metadata>) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};

    let Some(old) = old else { return Ok(()) };
    let (new, mut mode) = (file.metadata()?, old.mode() & 0o777);
    if (new.uid(), new.gid()) != (old.uid(), old.gid())
        && fchown(file, Some(old.uid()), Some(old.gid())).is_err()
        && fchown(file, None, Some(old.gid())).is_err()
    {
        mode &= 0o707 | (mode & 0o007) << 3;
    }
    file.set_permissions(fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn keep_permissions(_: &File, _: Option<&Metadata>) -> io::Result<()> {
    Ok(())
}
