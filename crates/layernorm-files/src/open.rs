//! Files with fixed names that are reopened: locks, checkpoints, partial downloads.

use crate::Error;
use crate::replacement::sync_directory;
use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

/// Opens a regular file with `options`. Anything else is an error: a link is not followed, a FIFO does not block, and directories,
/// devices and sockets are rejected.
///
/// Only the last component is guarded: directories on the path may be links. On Unix and Windows the check applies to the file
/// that is actually opened, whatever happens to its name in the meantime. Custom flags in `options` are replaced.
///
/// ```
/// use std::fs::OpenOptions;
///
/// # let path = std::env::temp_dir().join(format!("layernorm-files-part-{}", std::process::id()));
/// let part = layernorm_files::open_regular(&path, OpenOptions::new().append(true).create(true))?;
/// # drop(part);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn open_regular(path: impl AsRef<Path>, options: &OpenOptions) -> Result<File, Error> {
    let path = path.as_ref();
    let failed = Error::of(path, "open");
    // Checked by name first, because opening some devices has side effects; then the opened file is checked.
    if let Ok(metadata) = fs::symlink_metadata(path) {
        expect_regular(metadata.file_type()).map_err(&failed)?;
    }
    let file = guarded(options).open(path).map_err(&failed)?;
    let metadata = file.metadata().map_err(&failed)?;
    expect_regular(metadata.file_type()).map_err(&failed)?;
    Ok(file)
}

/// The most bytes that [`read`] takes from a pipe or a device.
const STREAM_LIMIT: u64 = 1 << 30;

/// Reads a whole input file. Pipes and devices have no known size, and some never end: more than a gibibyte from one is
/// an error.
///
/// ```
/// # #[cfg(unix)]
/// assert!(layernorm_files::read("/dev/zero").is_err());
/// ```
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let metadata = file.metadata()?;
    let mut bytes = Vec::new();
    if metadata.is_file() {
        bytes.try_reserve_exact(usize::try_from(metadata.len()).unwrap_or(usize::MAX))?;
        file.read_to_end(&mut bytes)?;
    } else {
        file.take(STREAM_LIMIT + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > STREAM_LIMIT {
            return Err(io::Error::other(format!(
                "expected at most {STREAM_LIMIT} bytes from a pipe or device, found more"
            )));
        }
    }
    Ok(bytes)
}

/// Options that neither follow a link nor block on a FIFO.
fn guarded(options: &OpenOptions) -> OpenOptions {
    #[allow(unused_mut, reason = "changed on Unix and Windows only")]
    let mut options = options.clone();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NOFOLLOW | libc::O_NONBLOCK);
    #[cfg(windows)]
    {
        /// Opens a link itself, which is then not a regular file.
        const FILE_FLAG_OPEN_REPARSE_POINT: u32 = 0x0020_0000;
        std::os::windows::fs::OpenOptionsExt::custom_flags(&mut options, FILE_FLAG_OPEN_REPARSE_POINT);
    }
    options
}

pub(crate) fn expect_regular(kind: FileType) -> io::Result<()> {
    if kind.is_file() {
        return Ok(());
    }
    let found = if kind.is_symlink() {
        "a link"
    } else if kind.is_dir() {
        "a directory"
    } else {
        special(kind)
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("expected a regular file, found {found}")))
}

#[cfg(unix)]
fn special(kind: FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    match () {
        () if kind.is_fifo() => "a FIFO",
        () if kind.is_socket() => "a socket",
        () => "a device",
    }
}

#[cfg(not(unix))]
fn special(_: FileType) -> &'static str {
    "something else"
}

/// Publishes a finished partial file: syncs `file`, which is open at `part`, to disk and renames it to `path`. Replaces a regular
/// file or a link at `path`; anything else there is an error. On an error the partial file is kept, so that it can be resumed.
pub fn publish(file: File, part: impl AsRef<Path>, path: impl AsRef<Path>) -> Result<(), Error> {
    let (part, path) = (part.as_ref(), path.as_ref());
    if let Ok(metadata) = fs::symlink_metadata(path)
        && !metadata.is_symlink()
    {
        expect_regular(metadata.file_type()).map_err(Error::of(path, "replace"))?;
    }
    file.sync_all().map_err(Error::of(part, "sync to disk"))?;
    // Some systems cannot rename an open file.
    drop(file);
    fs::rename(part, path).map_err(Error::of(path, "rename into place"))?;
    sync_directory(path);
    Ok(())
}
