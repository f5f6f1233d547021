//! The child process: checks files until one terminates it.

use super::arguments::Arguments;
use super::seeds;
use layernorm_fuzz::mutation::mutated;
use std::path::Path;

/// Maximum memory of a child, in bytes, and maximum seconds per file.
const MEMORY: u64 = 2_000_000_000;
const SECONDS: u32 = 20;

/// Checks the files with these numbers. Before each check, writes the file's number and bytes to `current`.
pub fn run(arguments: &Arguments, current: &Path) {
    let limit = libc::rlimit { rlim_cur: MEMORY, rlim_max: MEMORY };
    // SAFETY: `limit` is a valid structure.
    let set = unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) };
    assert_eq!(set, 0, "cannot limit the memory of a child");
    let mut accepted = 0;
    for format in arguments.formats() {
        let seeds = seeds(&arguments.seeds, format.name);
        for number in arguments.numbers() {
            let bytes = mutated(format.name, &seeds, number);
            std::fs::write(current, [&number.to_le_bytes()[..], &bytes].concat())
                .expect("cannot create the file for the current input");
            // SAFETY: without a handler, the signal terminates the process, as intended.
            unsafe { libc::alarm(SECONDS) };
            accepted += u64::from((format.check)(&bytes));
        }
    }
    println!("{accepted}");
}
