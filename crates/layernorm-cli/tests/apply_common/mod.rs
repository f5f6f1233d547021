//! Shared by the tests of `layernorm apply`: a folder to run the program in, random numbers, and the oracle.
#![allow(dead_code, reason = "each test file uses a part of this")]

pub mod case;
pub mod oracle;

use layernorm::parts::SplitMix64;
use layernorm::{Element, Float};
use layernorm_npy::{Array, Order, Scalar};
use std::process::{Command, Output};

/// A folder with the files of one test.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    /// Writes an array in C order.
    pub fn save<T: Scalar>(&self, name: &str, shape: &[usize], values: &[T]) {
        self.save_array(name, Array::new(shape, values.to_vec()).unwrap());
    }

    /// Writes an array in Fortran order; `values` are in C order.
    pub fn save_fortran<T: Scalar>(&self, name: &str, shape: &[usize], values: &[T]) {
        let axes: Vec<usize> = (0..shape.len()).rev().collect();
        let mut data = values.to_vec();
        for (&value, at) in values.iter().zip(oracle::labels(shape, &axes)) {
            data[at] = value;
        }
        self.save_array(name, Array::from_data(shape, Order::Fortran, T::wrap(data)).unwrap());
    }

    /// Does not sync to disk, unlike `Array::write`.
    fn save_array(&self, name: &str, array: Array) {
        let mut bytes = Vec::new();
        array.to_writer(&mut bytes).unwrap();
        std::fs::write(self.0.path().join(name), bytes).unwrap();
    }

    /// Reads an array, which must have this shape and type and be in C order.
    #[track_caller]
    pub fn load<T: Scalar>(&self, name: &str, shape: &[usize]) -> Vec<T> {
        let array = layernorm_npy::read(self.0.path().join(name)).unwrap();
        assert_eq!((array.shape(), array.order(), array.dtype()), (shape, Order::C, T::DTYPE), "{name}");
        array.into_vec().unwrap()
    }

    /// The bytes of a file.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.0.path().join(name)).unwrap()
    }

    /// The names of all files, sorted.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub fn path(&self) -> &std::path::Path {
        self.0.path()
    }

    /// Runs `layernorm apply` with these arguments, separated by blanks.
    pub fn run(&self, arguments: &str) -> Output {
        self.layernorm(&format!("apply {arguments}"))
    }

    /// Runs `layernorm` with these arguments, separated by blanks.
    pub fn layernorm(&self, arguments: &str) -> Output {
        Command::new(env!("CARGO_BIN_EXE_layernorm"))
            .args(arguments.split_whitespace())
            .current_dir(self.0.path())
            .env_remove(layernorm::ISA_VARIABLE)
            .output()
            .unwrap()
    }

    /// Like [`run`](Self::run); it must succeed and print nothing.
    #[track_caller]
    pub fn apply(&self, arguments: &str) {
        let output = self.run(arguments);
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{arguments}: {said}");
    }

    /// Like [`layernorm`](Self::layernorm); it must succeed. Returns its output.
    #[track_caller]
    pub fn succeed(&self, arguments: &str) -> String {
        let output = self.layernorm(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{arguments}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Like [`run`](Self::run); it must exit with status 2, print each of `words`, and leave the folder unchanged.
    #[track_caller]
    pub fn refuse(&self, arguments: &str, words: &[&str]) {
        self.refuse_any(&format!("apply {arguments}"), words);
    }

    /// Like [`refuse`](Self::refuse), for any command.
    #[track_caller]
    pub fn refuse_any(&self, arguments: &str, words: &[&str]) {
        let before = self.names();
        let output = self.layernorm(arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments}: {said}");
        assert!(output.stdout.is_empty(), "{arguments}");
        for word in words {
            assert!(said.contains(word), "{arguments}: expected {word:?} in {said:?}");
        }
        assert_eq!(self.names(), before, "{arguments}");
    }
}

/// Random numbers, the same on every machine.
pub struct Random(SplitMix64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(SplitMix64::new(seed))
    }

    /// From −1 to 1.
    pub fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    /// `n` numbers around a centre, rounded to the type.
    pub fn numbers<T: Element>(&mut self, count: usize, centre: f64) -> Vec<T> {
        (0..count).map(|_| T::narrow(T::Acc::from_f64(centre + self.uniform()))).collect()
    }
}

/// The same numbers in f64.
pub fn wide<T: Element>(values: &[T]) -> Vec<f64> {
    values.iter().map(|value| value.widen().to_f64()).collect()
}
