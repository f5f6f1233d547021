//! Feeds mutated files to the parsers, as the fuzz targets do, without sanitizers and many more of them.
//!
//! ```text
//! mutate [--count N] [--first N] [--format NAME] [--seeds DIR]     N mutated files of each format, the checks of the targets
//! mutate --save DIR …                                              the files themselves, for other programs
//! mutate --check FILE --format NAME                                one file
//! ```
//!
//! A child process checks some files at a time, with at most 2 GB of memory and 20 seconds for a file. What ends it is a
//! finding: the file stays in `artifacts/mutate`, and the next child goes on behind it.

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
    let bytes = arguments.check.as_ref().map(|path| std::fs::read(path).expect("a file to check")).unwrap_or_default();
    for format in arguments.formats() {
        println!("{}: {}", format.name, if (format.check)(&bytes) { "accepted" } else { "refused" });
    }
}

fn save(arguments: &Arguments, folder: &Path) {
    std::fs::create_dir_all(folder).expect("a folder for mutated files");
    for format in arguments.formats() {
        let seeds = seeds(&arguments.seeds, format.name);
        for number in arguments.numbers() {
            let path = folder.join(format!("{}-{number}", format.name));
            std::fs::write(path, mutated(format.name, &seeds, number)).expect("a mutated file");
        }
    }
}

/// The valid files of a format, by name.
fn seeds(folder: &Path, format: &str) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(folder.join(format)).expect("a folder of seeds");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a seed").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{}: expected seeds of {format}, found none", folder.display());
    paths.iter().map(|path| std::fs::read(path).expect("a seed")).collect()
}
