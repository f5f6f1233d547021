//! Machine code on disk, so that a kernel is compiled once a machine and not once a process.
//!
//! An entry is a file `<key>.cubin`: a magic word, the SHA-256 of what follows, the machine code. The key is the SHA-256 of
//! all that the code depends on. A damaged entry is no entry, nor is a link, a FIFO or what else is no file. Entries are replaced in one
//! step, so processes may race. Where the folder cannot be used, or everybody may write to it, nothing is kept and nothing fails.

use crate::environment;
use sha2::{Digest, Sha256};
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"lncubin1";
const HEAD: usize = MAGIC.len() + 32;
/// Bytes of the largest entry that is read: a hundred times what a kernel has.
const MOST_BYTES: u64 = 64 << 20;

/// A folder of compiled kernels.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: Option<PathBuf>,
}

impl Cache {
    /// The folder that the environment names, else one of the user's caches.
    pub fn from_environment() -> Self {
        Cache { folder: environment::cache_folder() }
    }

    /// This folder.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Cache { folder: Some(folder.into()) }
    }

    /// Nothing is kept.
    pub fn none() -> Self {
        Cache { folder: None }
    }

    /// The machine code of a key: from the folder, or made and put there.
    pub fn get<E>(&self, key: &Key, make: impl FnOnce() -> Result<Vec<u8>, E>) -> Result<Vec<u8>, E> {
        let Some(folder) = &self.folder else { return make() };
        let path = folder.join(format!("{}.cubin", key.0));
        if let Some(code) = read(&path) {
            return Ok(code);
        }
        let code = make()?;
        // A cache that cannot be written is no reason to fail.
        let _ = write(folder, &path, &code);
        Ok(code)
    }
}

/// What a piece of machine code depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// The key of these parts, in this order.
    pub fn new<'a>(parts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            // Lengths keep "ab", "c" and "a", "bc" apart.
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
    // A link would be followed, and a FIFO waited for.
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

/// The folder, for its user alone where it is made.
fn create(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

/// Whether any user of the machine may put code there.
#[cfg(unix)]
fn is_open_to_all(folder: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(folder).is_ok_and(|folder| folder.permissions().mode() & 0o002 != 0)
}

#[cfg(not(unix))]
fn is_open_to_all(_: &Path) -> bool {
    false
}
