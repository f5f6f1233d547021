mod damage;
mod events;
mod numbers;
mod probes;
mod resume;
mod saved;
mod spec;
mod stream;
mod trials;

use super::*;
use crate::data::{Dataset, Digits};
use crate::models::{Arch, Norm, Reads, RecurrentSize, Start};
use crate::records::{Header, Record, RunFile};
use crate::studies::{Error, Observer};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tempfile::TempDir;

/// The first MNIST digits at half size, 14×14: 300 training and 100 test images.
fn data() -> &'static Dataset {
    static DATA: OnceLock<Dataset> = OnceLock::new();
    DATA.get_or_init(|| {
        let embedded = Dataset::embedded().unwrap();
        let (train, test) = (embedded.train.first(300).unwrap(), embedded.test.first(100).unwrap());
        Dataset { name: "half".into(), train: halved(&train), test: halved(&test), fingerprint: "0".repeat(64) }
    })
}

/// Each pixel is the mean of four.
fn halved(digits: &Digits) -> Digits {
    let (rows, columns) = (digits.rows() / 2, digits.columns() / 2);
    let mut pixels = Vec::new();
    for image in 0..digits.len() {
        let pixel = |row: usize, column: usize| u32::from(digits.image(image)[row * digits.columns() + column]);
        for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (2 * row, 2 * column))) {
            let sum = pixel(row, column) + pixel(row, column + 1) + pixel(row + 1, column) + pixel(row + 1, column + 1);
            pixels.push((sum / 4) as u8);
        }
    }
    Digits::new(rows, columns, pixels, digits.labels().to_vec()).unwrap()
}

/// A few steps on few images: 200 for training, 50 for validation, 60 for testing; three evaluations besides the first.
fn small(arch: Arch, norm: Norm) -> Spec {
    Spec {
        batch_size: 32,
        steps: 7,
        evaluations: 3,
        train: 200,
        validation: 50,
        test: 60,
        ..Spec::new(arch, norm, 5, &data().label())
    }
}

fn mlp(norm: Norm) -> Spec {
    small(Arch::mlp(&[24, 16]), norm)
}

fn lstm(norm: Norm) -> Spec {
    small(Arch::lstm(12, Reads::Rows), norm)
}

/// Small runs of every architecture.
fn kinds() -> Vec<Spec> {
    let transformer = Arch::Transformer { width: 8, heads: 2, blocks: 1, pre_norm: true };
    vec![
        mlp(Norm::Layer),
        mlp(Norm::Batch),
        Spec { start: Start { affine: false, ..Start::new(5) }, ..mlp(Norm::Layer) },
        lstm(Norm::Layer),
        lstm(Norm::Batch),
        lstm(Norm::Rms),
        lstm(Norm::Weight),
        small(Arch::Gru(RecurrentSize { hidden: 10, reads: Reads::Rows, layers: 1 }), Norm::Layer),
        small(Arch::Gru(RecurrentSize { hidden: 10, reads: Reads::Rows, layers: 1 }), Norm::Batch),
        small(Arch::Rnn(RecurrentSize { hidden: 10, reads: Reads::Rows, layers: 2 }), Norm::Layer),
        small(Arch::Rnn(RecurrentSize { hidden: 10, reads: Reads::Rows, layers: 1 }), Norm::Rms),
        small(Arch::Cnn { channels: [4, 6] }, Norm::Batch),
        small(transformer, Norm::Batch),
    ]
}

/// Stops after a number of progress reports.
struct StopsAfter {
    calls: usize,
    told: Vec<(f64, String)>,
}

impl Observer for StopsAfter {
    fn progress(&mut self, done: f64, words: &str) {
        self.told.push((done, words.to_owned()));
    }
    fn stop(&self) -> bool {
        self.told.len() >= self.calls
    }
}

/// A run in a temporary folder.
struct Place {
    folder: TempDir,
    spec: Spec,
}

impl Place {
    fn new(spec: &Spec) -> Place {
        Place { folder: tempfile::tempdir().unwrap(), spec: spec.clone() }
    }

    fn open(&self) -> RunFile {
        let header = Header::new("test", "run", json!({ "spec": self.spec }));
        RunFile::open(self.folder.path(), header).unwrap()
    }

    /// Continues until the end, or for a number of progress reports.
    fn go(&self, calls: usize) -> Result<Outcome, Error> {
        run(&self.spec, data(), &mut self.open(), &mut StopsAfter { calls, told: Vec::new() })
    }

    fn finish(&self) -> Outcome {
        self.go(usize::MAX).unwrap()
    }

    fn stop_after(&self, calls: usize) {
        assert!(matches!(self.go(calls), Err(Error::Stopped)), "the run was over before {calls} calls");
    }

    fn records(&self) -> PathBuf {
        self.folder.path().join("run.jsonl")
    }

    fn checkpoint(&self) -> PathBuf {
        self.folder.path().join("run.checkpoint")
    }

    fn bytes(&self) -> Vec<u8> {
        std::fs::read(self.records()).unwrap()
    }

    fn record(&self) -> Record {
        Record::read(&self.records()).unwrap().unwrap()
    }
}

/// The records of an uninterrupted run.
fn unbroken(spec: &Spec) -> Vec<u8> {
    let place = Place::new(spec);
    place.finish();
    place.bytes()
}

fn record_of(spec: &Spec) -> Record {
    let place = Place::new(spec);
    place.finish();
    place.record()
}

fn files(folder: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().to_string_lossy().into_owned();
    let mut names: Vec<String> = std::fs::read_dir(folder).unwrap().map(name).collect();
    names.sort();
    names
}

/// Only the events with these names.
fn named(record: &Record, names: &[&str]) -> Vec<(String, Value)> {
    let there = record.events.iter().filter(|event| names.contains(&event.name.as_str()));
    there.map(|event| (event.name.clone(), event.data.clone())).collect()
}
