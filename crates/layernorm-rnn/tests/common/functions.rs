//! The functions exp, sigmoid and tanh, and numbers to call them with.
#![allow(dead_code, reason = "each test takes what it needs")]

use super::sample::Rng;
use layernorm::{Context, Isa};
use layernorm_rnn::{Error, Real, functions};

pub const NAMES: [&str; 3] = ["exp", "sigmoid", "tanh"];

pub type Function<A> = fn(&Context, &mut [A]) -> Result<(), Error>;

pub fn all<A: Real>() -> [Function<A>; 3] {
    [functions::exp::<A>, functions::sigmoid::<A>, functions::tanh::<A>]
}

pub fn map<A: Real>(function: Function<A>, isa: Isa, x: &[A]) -> Vec<A> {
    let mut y = x.to_vec();
    function(&Context::new().with_isa(isa).unwrap(), &mut y).unwrap();
    y
}

/// Numbers of all sizes up to a limit, and many around 1 and at multiples of ln 2 / 2, where the reduction changes.
pub fn numbers(limit: f64, count: usize) -> Vec<f64> {
    let mut rng = Rng::new(23);
    let mut x = Vec::new();
    for _ in 0..count {
        let uniform = rng.uniform();
        x.push(uniform * limit);
        x.push(uniform * 2.0);
        x.push(uniform * 2f64.powi(-(rng.below(60) as i32)));
        let near = (rng.below(40) as f64 + 0.5) * std::f64::consts::LN_2 / 2.0;
        x.push(near * (1.0 + (uniform - 0.5) * 1e-3));
    }
    x.retain(|x| x.abs() <= limit);
    let negative: Vec<f64> = x.iter().map(|x| -x).collect();
    x.extend(negative);
    x
}

/// Finite, infinite, none, tiny and huge numbers.
pub fn specials() -> Vec<f64> {
    let mut x =
        vec![0.0, f64::MIN_POSITIVE, 5e-324, 1e-310, 1e-45, 1e-40, f64::from(f32::MIN_POSITIVE), 1.0, 9.999, 10.0];
    x.extend([
        10.001, 19.99, 20.0, 20.01, 86.99, 87.0, 87.01, 88.0, 89.0, 104.0, 707.0, 708.0, 708.01, 709.9, 746.0, 1e30,
    ]);
    x.extend([f64::from(f32::MAX), f64::MAX, f64::INFINITY, f64::NAN]);
    let negative: Vec<f64> = x.iter().map(|x| -x).collect();
    x.extend(negative);
    x
}

/// Bits, with one NaN for all.
pub fn canonical(y: f32) -> u32 {
    if y.is_nan() { f32::NAN.to_bits() } else { y.to_bits() }
}

pub fn canonical64(y: f64) -> u64 {
    if y.is_nan() { f64::NAN.to_bits() } else { y.to_bits() }
}
