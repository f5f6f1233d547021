//! Machine code on disk, so that a kernel is compiled once a machine and not once a process.
//!
//! An entry is a file `<key>.cubin`: a magic word, the SHA-256 of what follows, the machine code. The key is the SHA-256 of
//! all that the code depends on. A damaged entry is no entry. A file is written beside its place and renamed, so processes
//! may race. Where the folder cannot be used, nothing is kept and nothing fails.

use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The environment variable that names the folder; empty for none.
pub const FOLDER_VARIABLE: &str = "LAYERNORM_CUDA_CACHE";

const MAGIC: &[u8; 8] = b"lncubin1";
const HEAD: usize = MAGIC.len() + 32;

/// A folder of compiled kernels.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: Option<PathBuf>,
}

impl Cache {
    /// The folder that the environment names, else one of the user's caches.
    pub fn from_environment() -> Self {
        if let Some(folder) = std::env::var_os(FOLDER_VARIABLE) {
            return Cache { folder: (!folder.is_empty()).then(|| folder.into()) };
        }
        let home = |name: &str, rest: &str| {
            std::env::var_os(name).filter(|value| !value.is_empty()).map(|value| PathBuf::from(value).join(rest))
        };
        let folder = home("XDG_CACHE_HOME", "layernorm/cuda")
            .or_else(|| home("LOCALAPPDATA", "layernorm/cuda"))
            .or_else(|| home("HOME", ".cache/layernorm/cuda"));
        Cache { folder }
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
    let mut bytes = std::fs::read(path).ok()?;
    let whole = bytes.len() > HEAD && bytes[..MAGIC.len()] == *MAGIC;
    if !whole || Sha256::digest(&bytes[HEAD..])[..] != bytes[MAGIC.len()..HEAD] {
        return None;
    }
    Some(bytes.split_off(HEAD))
}

fn write(folder: &Path, path: &Path, code: &[u8]) -> std::io::Result<()> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    std::fs::create_dir_all(folder)?;
    let name = format!(".{}-{}.tmp", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let beside = folder.join(name);
    let bytes = [&MAGIC[..], &Sha256::digest(code)[..], code].concat();
    let written = std::fs::write(&beside, bytes).and_then(|()| std::fs::rename(&beside, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written
}
