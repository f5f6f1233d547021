//! exp, sigmoid and tanh as the cells compute them: vectorized, with the same bits on every instruction set.
//!
//! `tests/functions.rs` measures the error against arithmetic of about twice the precision. In units in the last place
//! of the result, it is at most 1.5 for exp, 2.5 for sigmoid and 3.5 for tanh (also near 0), in f32 and in f64. tanh is
//! within ±1 and sigmoid within 0..1. A NaN stays a NaN. Beyond ±87 (f64: ±708) exp and sigmoid are constant: sigmoid
//! is then within 2⁻¹²⁵ (2⁻¹⁰²¹) of the exact value.

use crate::error::Error;
use crate::math::Function;
use crate::real::Real;
use layernorm::Context;

/// Computes exp(x) of every element in place, with x clamped to ±87 (f64: ±708).
pub fn exp<A: Real>(context: &Context, values: &mut [A]) -> Result<(), Error> {
    A::map(context.machine_isa()?, Function::Exp, values);
    Ok(())
}

/// Computes 1/(1 + exp(−x)) of every element in place.
///
/// ```
/// let mut x = [0.0f32, 2.0, -200.0];
/// layernorm_rnn::functions::sigmoid(&layernorm::Context::new(), &mut x)?;
/// assert_eq!(x[0], 0.5);
/// assert!((x[1] - 0.880797).abs() < 1e-6 && x[2] < 1e-37);
/// # Ok::<(), layernorm_rnn::Error>(())
/// ```
pub fn sigmoid<A: Real>(context: &Context, values: &mut [A]) -> Result<(), Error> {
    A::map(context.machine_isa()?, Function::Sigmoid, values);
    Ok(())
}

/// Computes tanh(x) of every element in place.
pub fn tanh<A: Real>(context: &Context, values: &mut [A]) -> Result<(), Error> {
    A::map(context.machine_isa()?, Function::Tanh, values);
    Ok(())
}
