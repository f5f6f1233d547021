//! A folder for parsers that read files: in memory where the system has such a place.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The folder of this process. What is in it stays until the next input overwrites it.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let folder = parent.join(format!("layernorm-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for files of a fuzz target");
        // SAFETY: `remove` is a function without arguments that does not unwind.
        unsafe { libc::atexit(remove) };
        folder
    })
}

extern "C" fn remove() {
    // At the end of the process: that it cannot be removed changes nothing.
    let _ = std::fs::remove_dir_all(folder());
}

/// A file of these bytes.
pub fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder().join(name);
    std::fs::write(&path, bytes).expect("a file of a fuzz target");
    path
}
