//! A folder for parsers that read files: in memory if the system has such a location.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Returns the folder of this process. Its contents stay until the next input overwrites them.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let folder = parent.join(format!("layernorm-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("cannot create the folder for files of a fuzz target");
        // SAFETY: `remove` is a function without arguments that does not unwind.
        unsafe { libc::atexit(remove) };
        folder
    })
}

extern "C" fn remove() {
    // At the end of the process; a failure does not matter.
    let _ = std::fs::remove_dir_all(folder());
}

/// Writes a file with these bytes and returns its path.
pub fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder().join(name);
    std::fs::write(&path, bytes).expect("cannot write a file of a fuzz target");
    path
}
