//! Machine code on disk, so that a kernel is compiled once per machine and not once per process.
//!
//! An entry is a file `<key>.cubin`: a magic word, the SHA-256 of the rest, and the machine code. The key is the
//! SHA-256 of everything that the code depends on. Damaged entries, links, FIFOs and anything else that is not a
//! regular file are ignored. Entries are replaced atomically, so processes may race. If the folder cannot be used or is
//! world-writable, nothing is cached and nothing fails.

use crate::environment;
use sha2::{Digest, Sha256};
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"lncubin1";
const HEAD: usize = MAGIC.len() + 32;
/// Size limit of an entry in bytes: a hundred times the size of a kernel.
const MOST_BYTES: u64 = 64 << 20;

/// A folder of compiled kernels.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: Option<PathBuf>,
}

impl Cache {
    /// The folder from the environment, or else one in the user's cache folder.
    pub fn from_environment() -> Self {
        Cache { folder: environment::cache_folder() }
    }

    /// A cache in this folder.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Cache { folder: Some(folder.into()) }
    }

    /// No cache: every kernel is compiled.
    pub fn none() -> Self {
        Cache { folder: None }
    }

    /// Returns the machine code of a key: from the folder, or else from `make`, and stores it.
    pub fn get<E>(&self, key: &Key, make: impl FnOnce() -> Result<Vec<u8>, E>) -> Result<Vec<u8>, E> {
        let Some(folder) = &self.folder else { return make() };
        let path = folder.join(format!("{}.cubin", key.0));
        if let Some(code) = read(&path) {
            return Ok(code);
        }
        let code = make()?;
        // Failing to write the cache is not an error.
        let _ = write(folder, &path, &code);
        Ok(code)
    }
}

/// Identifies a piece of machine code by everything it depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// The key of these parts, in this order.
    pub fn new<'a>(parts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            // The lengths distinguish "ab", "c" from "a", "bc".
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Key(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

fn read(path: &Path) -> Option<Vec<u8>> {
    if is_open_to_all(path.parent()?) {
        return None;
    }
    let file = layernorm_files::open_regular(path, OpenOptions::new().read(true)).ok()?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).ok()?;
    let whole = bytes.len() > HEAD && bytes.len() as u64 <= MOST_BYTES && bytes[..MAGIC.len()] == *MAGIC;
    if !whole || Sha256::digest(&bytes[HEAD..])[..] != bytes[MAGIC.len()..HEAD] {
        return None;
    }
    Some(bytes.split_off(HEAD))
}

fn write(folder: &Path, path: &Path, code: &[u8]) -> io::Result<()> {
    create(folder)?;
    // A link would be followed, and opening a FIFO would block.
    let other = fs::symlink_metadata(path).is_ok_and(|found| !found.is_file());
    if other || is_open_to_all(folder) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    layernorm_files::replace_own(path, |file| {
        file.write_all(MAGIC)?;
        file.write_all(&Sha256::digest(code))?;
        file.write_all(code)
    })?;
    Ok(())
}

/// Creates the folder, accessible to its user only.
fn create(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

/// Whether the folder is world-writable, so that any user could put code there.
#[cfg(unix)]
fn is_open_to_all(folder: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(folder).is_ok_and(|folder| folder.permissions().mode() & 0o002 != 0)
}

#[cfg(not(unix))]
fn is_open_to_all(_: &Path) -> bool {
    false
}
