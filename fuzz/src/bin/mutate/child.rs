//! A child: checks files until one ends it.

use super::arguments::Arguments;
use super::seeds;
use layernorm_fuzz::mutation::mutated;
use std::path::Path;

/// The most memory of a child, in bytes, and the most seconds of a file.
const MEMORY: u64 = 2_000_000_000;
const SECONDS: u32 = 20;

/// Checks the files of these numbers. Before each, its number and bytes go to `current`.
pub fn run(arguments: &Arguments, current: &Path) {
    let limit = libc::rlimit { rlim_cur: MEMORY, rlim_max: MEMORY };
    // SAFETY: `limit` is a valid structure.
    let set = unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) };
    assert_eq!(set, 0, "the memory of a child can be limited");
    let mut accepted = 0;
    for format in arguments.formats() {
        let seeds = seeds(&arguments.seeds, format.name);
        for number in arguments.numbers() {
            let bytes = mutated(format.name, &seeds, number);
            std::fs::write(current, [&number.to_le_bytes()[..], &bytes].concat())
                .expect("a place for the file at hand");
            // SAFETY: without a handler, the signal ends the process, which is what is wanted.
            unsafe { libc::alarm(SECONDS) };
            accepted += u64::from((format.check)(&bytes));
        }
    }
    println!("{accepted}");
}
