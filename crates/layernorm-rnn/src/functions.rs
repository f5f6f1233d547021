//! exp, sigmoid and tanh as the cells compute them: vectorised, and the same bits on every instruction set.
//!
//! Error, measured by `tests/functions.rs` against arithmetic of about twice the precision, in units in the last place of
//! the result: exp at most 1.5, sigmoid 2.5, tanh 3.5 (of its value, also near 0), in f32 and in f64. tanh lies within ±1
//! and sigmoid within 0..1. A NaN stays a NaN. Beyond ±87 (f64: ±708) exp and sigmoid stay what they are there: sigmoid is
//! then within 2⁻¹²⁵ (2⁻¹⁰²¹) of the truth.

use crate::error::Error;
use crate::math::Function;
use crate::real::Real;
use layernorm::Context;

/// exp(x) of every number, in place; x is kept within ±87 (f64: ±708).
pub fn exp<A: Real>(context: &Context, values: &mut [A]) -> Result<(), Error> {
    A::map(context.machine_isa()?, Function::Exp, values);
    Ok(())
}

/// 1/(1 + exp(−x)) of every number, in place.
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

/// tanh(x) of every number, in place.
pub fn tanh<A: Real>(context: &Context, values: &mut [A]) -> Result<(), Error> {
    A::map(context.machine_isa()?, Function::Tanh, values);
    Ok(())
}
