//! NumPy and PyTorch, measured by the Python package: `python -m layernorm.implementations`.
//!
//! The study starts a Python once. Its first line of JSON says whether PyTorch will be imported, its second line has the
//! results; they are stored beside the records, in `<run>.python.json`. A Python that is missing, fails, hangs or prints
//! something else is ignored.
//!
//! ```text
//! start ─ first line, at most 2 s ─ results, at most 3 s after the start, or 10 s with PyTorch
//! ```

mod pictures;

pub(super) use pictures::add;

use super::{EPS, INPUTS, SHAPES};
use crate::studies::{Error, Observer};
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Environment variable with the Python to use; if it is empty, none is used.
const VARIABLE: &str = "LAYERNORM_PYTHON";
/// The Python to use otherwise.
const DEFAULT: &str = "python3";
const MODULE: &str = "layernorm.implementations";
/// Extension of the file.
const ENDING: &str = "python.json";
/// No output is longer, except by mistake.
const MOST_BYTES: u64 = 1 << 20;
/// Interval at which the observer is asked.
const PAUSE: Duration = Duration::from_millis(50);

/// How long to wait, each counted from the start.
#[derive(Clone, Copy, Debug)]
struct Limits {
    first_line: Duration,
    results: Duration,
    /// The limit for the results if PyTorch is imported, which takes seconds.
    with_torch: Duration,
}

const LIMITS: Limits =
    Limits { first_line: Duration::from_secs(2), results: Duration::from_secs(3), with_torch: Duration::from_secs(10) };

/// The first line.
#[derive(Debug, Deserialize)]
struct Begun {
    /// Whether PyTorch will be imported.
    torch: bool,
}

/// The second line, and contents of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Found {
    python: String,
    numpy: String,
    torch: Option<String>,
    layernorm: String,
    shapes: Vec<Shape>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Shape {
    rows: usize,
    elements: usize,
    packages: Vec<Measured>,
}

/// A package on one shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Measured {
    package: Package,
    nanoseconds_per_element: f64,
    errors: Vec<PackageError>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Package {
    Layernorm,
    Numpy,
    Torch,
}

/// The largest error on one kind of input; `units` is `None` if a row is completely wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct PackageError {
    mean: f64,
    spread: f64,
    units: Option<f64>,
    failure: Option<String>,
}

/// Measures the packages, if there is a Python that has them, and writes the file beside the run's. An existing file is
/// kept.
pub(super) fn measure(run: &Path, seed: u64, observer: &mut dyn Observer) -> Result<(), Error> {
    let program = std::env::var_os(VARIABLE).unwrap_or_else(|| DEFAULT.into());
    measure_with(&program, LIMITS, run, seed, observer)
}

fn measure_with(
    program: &OsStr,
    limits: Limits,
    run: &Path,
    seed: u64,
    observer: &mut dyn Observer,
) -> Result<(), Error> {
    let path = run.with_extension(ENDING);
    if path.is_file() || program.is_empty() {
        return Ok(());
    }
    let found = ask(program, &arguments(seed), limits, &|| observer.stop());
    if observer.stop() {
        return Err(Error::Stopped);
    }
    let Some(found) = found else { return Ok(()) };
    let text = serde_json::to_string_pretty(&found).map_err(|error| Error::Run(error.to_string()))?;
    let put = layernorm_files::replace_own(&path, |file| file.write_all((text + "\n").as_bytes()));
    put.map_err(|error: io::Error| Error::Run(error.to_string()))
}

/// What to measure, as arguments of the module.
fn arguments(seed: u64) -> Vec<OsString> {
    let shapes = SHAPES.map(|(rows, elements)| format!("{rows}x{elements}")).join(",");
    let inputs = INPUTS.map(|(mean, spread)| format!("{mean}:{spread}")).join(",");
    let mut words: Vec<OsString> = ["-m", MODULE, "--json"].map(OsString::from).to_vec();
    let options =
        [format!("--eps={EPS}"), format!("--seed={seed}"), format!("--shapes={shapes}"), format!("--inputs={inputs}")];
    words.extend(options.map(OsString::from));
    words
}

/// What Python prints, or `None` if it does not print it in time.
fn ask(program: &OsStr, arguments: &[OsString], limits: Limits, stop: &dyn Fn() -> bool) -> Option<Found> {
    let start = Instant::now();
    let mut child = Command::new(program)
        .args(arguments)
        // No modules of the current folder, and one thread for the libraries below NumPy and PyTorch.
        .env("PYTHONSAFEPATH", "1")
        .envs(["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"].map(|name| (name, "1")))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let found = lines(&mut child).and_then(|lines| {
        let next = |limit: Duration| next_line(&lines, start + limit, stop);
        let begun: Begun = serde_json::from_str(&next(limits.first_line)?).ok()?;
        let found: Found =
            serde_json::from_str(&next(if begun.torch { limits.with_torch } else { limits.results })?).ok()?;
        found.is_sound().then_some(found)
    });
    // It has nothing more to say; if it has ended, this does nothing.
    let _ = child.kill();
    let _ = child.wait();
    found
}

/// The lines that a process prints. The thread that reads them ends with the process and those that it has started, which
/// nobody waits for.
fn lines(child: &mut Child) -> Option<Receiver<String>> {
    let (sender, receiver) = mpsc::channel();
    let output = BufReader::new(child.stdout.take()?.take(MOST_BYTES));
    let read = move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line));
    std::thread::Builder::new().spawn(read).ok()?;
    Some(receiver)
}

fn next_line(lines: &Receiver<String>, deadline: Instant, stop: &dyn Fn() -> bool) -> Option<String> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match lines.recv_timeout(left.min(PAUSE)) {
            Ok(line) => return Some(line),
            Err(RecvTimeoutError::Timeout) if left > Duration::ZERO && !stop() => {}
            Err(_) => return None,
        }
    }
}

impl Found {
    /// Whether the times are numbers above 0, and this package and NumPy were measured on every shape.
    fn is_sound(&self) -> bool {
        let measured = |shape: &Shape, package| shape.packages.iter().any(|measured| measured.package == package);
        let positive = |measured: &Measured| {
            measured.nanoseconds_per_element.is_finite() && measured.nanoseconds_per_element > 0.0
        };
        let sound = |shape: &Shape| {
            [Package::Layernorm, Package::Numpy].into_iter().all(|package| measured(shape, package))
                && shape.packages.iter().all(positive)
        };
        !self.shapes.is_empty() && self.shapes.iter().all(sound)
    }
}

#[cfg(all(test, unix))]
mod tests;
