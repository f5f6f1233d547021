//! Feeds mutated files to the parsers, as the fuzz targets do, but without sanitizers and many more of them.
//!
//! ```text
//! mutate [--count N] [--first N] [--format NAME] [--seeds DIR]     N mutated files of each format, the checks of the targets
//! mutate --save DIR …                                              the files themselves, for other programs
//! mutate --check FILE --format NAME                                one file
//! ```
//!
//! A child process checks a range of files, with at most 2 GB of memory and 20 seconds per file. If a file terminates
//! it, that is a finding: the file is kept in `artifacts/mutate`, and the next child continues after it.

mod arguments;
mod child;
mod parent;

use arguments::Arguments;
use layernorm_fuzz::mutation::mutated;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = match Arguments::parse() {
        Ok(arguments) => arguments,
        Err(what) => {
            eprintln!("mutate: {what}");
            return ExitCode::from(2);
        }
    };
    match (&arguments.child, &arguments.save) {
        (Some(current), _) => child::run(&arguments, current),
        (None, None) if arguments.check.is_some() => check(&arguments),
        (None, Some(folder)) => save(&arguments, folder),
        (None, None) => return parent::run(&arguments),
    }
    ExitCode::SUCCESS
}

fn check(arguments: &Arguments) {
    let bytes = arguments
        .check
        .as_ref()
        .map(|path| std::fs::read(path).expect("cannot read the file to check"))
        .unwrap_or_default();
    for format in arguments.formats() {
        println!("{}: {}", format.name, if (format.check)(&bytes) { "accepted" } else { "refused" });
    }
}

fn save(arguments: &Arguments, folder: &Path) {
    std::fs::create_dir_all(folder).expect("cannot create the folder for mutated files");
    for format in arguments.formats() {
        let seeds = seeds(&arguments.seeds, format.name);
        for number in arguments.numbers() {
            let path = folder.join(format!("{}-{number}", format.name));
            std::fs::write(path, mutated(format.name, &seeds, number)).expect("cannot write a mutated file");
        }
    }
}

/// Returns the valid files of a format, sorted by name.
fn seeds(folder: &Path, format: &str) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(folder.join(format)).expect("cannot read the folder of seeds");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("cannot list the seeds").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{}: expected seeds of {format}, found none", folder.display());
    paths.iter().map(|path| std::fs::read(path).expect("cannot read a seed")).collect()
}
