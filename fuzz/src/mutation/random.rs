//! Random numbers that are the same on every machine.

use layernorm::parts::SplitMix64;

/// A generator of the choices that mutations make.
#[derive(Debug)]
pub struct Random(SplitMix64);

impl Random {
    /// Creates a generator. The same seed gives the same numbers.
    pub fn new(seed: u64) -> Random {
        Random(SplitMix64::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// Returns the next number.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.bits() % end.max(1) as u64) as usize
    }

    /// Returns true once in `times`.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Returns one of these.
    pub fn choose<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}
