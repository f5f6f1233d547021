//! Networks, sequences and states to test with: random, but the same in every run.
#![allow(dead_code, reason = "each test takes what it needs")]

use layernorm::parts::SplitMix64;
use layernorm_rnn::{Config, Kind, Network, Params, State, Variant};

pub struct Rng(SplitMix64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(SplitMix64::new(seed))
    }

    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// From 0 to 1.
    pub fn uniform(&mut self) -> f64 {
        self.0.uniform()
    }

    /// Within ±1, and a number that f32 has too.
    pub fn next(&mut self) -> f64 {
        f64::from((self.uniform() * 2.0 - 1.0) as f32)
    }

    /// Less than n.
    pub fn below(&mut self, n: usize) -> usize {
        self.0.below(n as u64) as usize
    }

    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    pub fn vec(&mut self, n: usize) -> Vec<f64> {
        (0..n).map(|_| self.next()).collect()
    }

    pub fn vec32(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.next() as f32).collect()
    }
}

/// Every variant that has a name.
pub fn variants() -> impl Iterator<Item = Variant> {
    Kind::ALL.into_iter().flat_map(Variant::all).copied()
}

pub fn label(variant: &Variant) -> String {
    format!("{} {}", variant.kind.name(), variant.name)
}

pub fn named(kind: Kind, name: &str) -> Variant {
    Variant::named(kind, name).unwrap()
}

/// A network in which every parameter matters: gains around 1, the rest within ±0.6. All of them are numbers that f32 has.
pub fn network(config: &Config, seed: u64) -> Network<f64> {
    let mut rng = Rng::new(seed);
    let mut params = Params::zeros(config).unwrap();
    for entry in params.entries().to_vec() {
        let middle = if entry.slot.is_gain() { 1.0 } else { 0.0 };
        let values = &mut params.values_mut()[entry.range];
        values.iter_mut().for_each(|p| *p = f64::from((middle + 0.6 * rng.next()) as f32));
    }
    Network::from_params(*config, params).unwrap()
}

/// The same network in f32.
pub fn narrow(network: &Network<f64>) -> Network<f32> {
    let mut params = Params::zeros(network.config()).unwrap();
    params.values_mut().iter_mut().zip(network.params().values()).for_each(|(to, &p)| *to = p as f32);
    Network::from_params(*network.config(), params).unwrap()
}

pub fn network32(config: &Config, seed: u64) -> Network<f32> {
    narrow(&network(config, seed))
}

pub fn narrow_state(state: &State<f64>) -> State<f32> {
    let narrow = |values: &[f64]| values.iter().map(|&v| v as f32).collect();
    State { h: narrow(&state.h), c: narrow(&state.c) }
}

/// Numbers in the shape of a state.
pub fn state(network: &Network<f64>, batch: usize, rng: &mut Rng) -> State<f64> {
    let mut state = network.zero_state(batch).unwrap();
    state.h.iter_mut().chain(&mut state.c).for_each(|v| *v = rng.next());
    state
}

pub fn state32(network: &Network<f32>, batch: usize, rng: &mut Rng) -> State<f32> {
    let mut state = network.zero_state(batch).unwrap();
    state.h.iter_mut().chain(&mut state.c).for_each(|v| *v = rng.next() as f32);
    state
}
