//! What the tests share: the reference, inputs, and comparison of bits.
#![allow(dead_code, reason = "each test file uses a part of this")]

pub mod reference;
pub mod rule_six;

use layernorm::parts::SplitMix64;
use layernorm::{Context, Element, Float, Isa};

/// A generator of the same numbers on every machine.
pub struct Random(SplitMix64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(SplitMix64::new(seed))
    }

    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }

    pub fn uniform(&mut self) -> f64 {
        self.0.uniform()
    }

    /// Standard normal.
    pub fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.uniform()).ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    pub fn normals<T: Element>(&mut self, n: usize) -> Vec<T> {
        self.map(n, |z| z)
    }

    pub fn map<T: Element>(&mut self, n: usize, f: impl Fn(f64) -> f64) -> Vec<T> {
        (0..n).map(|_| T::narrow(T::Acc::from_f64(f(self.normal())))).collect()
    }
}

/// The bits of a number; every NaN counts as the same.
pub fn bits<T: Element>(x: T) -> u64 {
    let wide = x.widen().to_f64();
    if wide.is_nan() { u64::MAX } else { wide.to_bits() }
}

#[track_caller]
pub fn assert_same_bits<T: Element>(found: &[T], expected: &[T], what: impl Fn() -> String) {
    assert_eq!(found.len(), expected.len(), "{}", what());
    for (i, (&f, &e)) in found.iter().zip(expected).enumerate() {
        assert!(bits(f) == bits(e), "{}: element {i}: found {f:?}, expected {e:?}", what());
    }
}

/// One context for each instruction set of this machine and each of some thread counts. `instruction_sets.rs` reports those that it lacks.
pub fn contexts() -> Vec<Context> {
    let with = |isa, threads| Context::new().with_isa(isa).unwrap().with_threads(threads).unwrap();
    Isa::available().into_iter().flat_map(|isa| [1, 2, 3].map(|threads| with(isa, threads))).collect()
}

pub fn name(cx: &Context) -> String {
    format!("{} on {} threads", cx.isa().unwrap(), cx.threads())
}

/// Widens a slice to the arithmetic type.
pub fn widen<T: Element>(x: &[T]) -> Vec<T::Acc> {
    x.iter().map(|x| x.widen()).collect()
}
