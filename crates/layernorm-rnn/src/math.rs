//! exp, sigmoid and tanh over vectors, implemented here so that they have the same bits on every instruction set.
//!
//! ```text
//! x = n·ln 2 + r, n an integer, |r| ≤ ln 2 / 2   p = r + r²/2 + r³/6 + …  (Taylor, up to r⁷; f64: r¹³)
//! exp(x)   = 2ⁿ·p + 2ⁿ
//! exp(x)−1 = 2ⁿ·p + (2ⁿ − 1)                     no cancellation near 0: for n = 0 it is p
//! σ(x)     = 1/(1 + exp(−x))
//! tanh(x)  = e/(e + 2), e = exp(2x) − 1
//! ```
//! For the error, measured by `tests/functions.rs`, see [`crate::functions`].

use layernorm::Float;
use layernorm::parts::{Simd, Vector};

/// Constants of the functions in one arithmetic type.
pub trait Constants: Float {
    /// log₂ e.
    const LOG2_E: Self;
    /// ln 2, upper part: its product with any n is exact.
    const LN2_HIGH: Self;
    /// ln 2, lower part.
    const LN2_LOW: Self;
    /// 1/k! for k from the highest power down to 2.
    const TAYLOR: &'static [Self];
    /// tanh is ±1 beyond this.
    const TANH_LIMIT: Self;
    /// σ is constant beyond this.
    const SIGMOID_LIMIT: Self;
    /// 2.
    const TWO: Self;
}

impl Constants for f32 {
    const LOG2_E: f32 = std::f32::consts::LOG2_E;
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    const TAYLOR: &'static [f32] = &[1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5];
    const TANH_LIMIT: f32 = 10.0;
    const SIGMOID_LIMIT: f32 = 87.0;
    const TWO: f32 = 2.0;
}

impl Constants for f64 {
    const LOG2_E: f64 = std::f64::consts::LOG2_E;
    const LN2_HIGH: f64 = f64::from_bits(0x3FE6_2E42_FEE0_0000);
    const LN2_LOW: f64 = f64::from_bits(0x3DEA_39EF_3579_3C76);
    const TAYLOR: &'static [f64] = &[
        1.0 / 6_227_020_800.0,
        1.0 / 479_001_600.0,
        1.0 / 39_916_800.0,
        1.0 / 3_628_800.0,
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
    ];
    const TANH_LIMIT: f64 = 20.0;
    const SIGMOID_LIMIT: f64 = 708.0;
    const TWO: f64 = 2.0;
}

/// Returns (2ⁿ, p) of x, which must be in the range where 2ⁿ is normal.
#[inline(always)]
fn reduce<V: Vector<Elem: Constants>>(x: V) -> (V, V) {
    let rounder = V::splat(V::Elem::ROUNDER);
    let shifted = x.fma(V::splat(V::Elem::LOG2_E), rounder);
    let n = shifted.sub(rounder);
    let r = n.neg_fma(V::splat(V::Elem::LN2_HIGH), x);
    let r = n.neg_fma(V::splat(V::Elem::LN2_LOW), r);
    let mut q = V::splat(V::Elem::TAYLOR[0]);
    for &coefficient in &V::Elem::TAYLOR[1..] {
        q = q.fma(r, V::splat(coefficient));
    }
    (shifted.power_of_two(), r.mul(r).fma(q, r))
}

/// Computes exp(x), with x clamped to the limits of σ.
#[inline(always)]
pub fn exp<V: Vector<Elem: Constants>>(x: V) -> V {
    let limit = V::Elem::SIGMOID_LIMIT;
    let (power, p) = reduce(x.at_least(V::splat(-limit)).at_most(V::splat(limit)));
    power.fma(p, power)
}

/// Computes 1/(1 + exp(−x)).
#[inline(always)]
pub fn sigmoid<V: Vector<Elem: Constants>>(x: V) -> V {
    let one = V::splat(V::Elem::ONE);
    one.div(one.add(exp(V::splat(V::Elem::ZERO).sub(x))))
}

/// Computes tanh(x).
#[inline(always)]
pub fn tanh<V: Vector<Elem: Constants>>(x: V) -> V {
    let (one, limit) = (V::splat(V::Elem::ONE), V::Elem::TANH_LIMIT);
    let x = x.at_least(V::splat(-limit)).at_most(V::splat(limit));
    let (power, p) = reduce(x.add(x));
    let e = power.fma(p, power.sub(one));
    e.div(e.add(V::splat(V::Elem::TWO)))
}

/// Which function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Exp,
    Sigmoid,
    Tanh,
}

/// Applies a function to every element in place.
pub(crate) struct Map<'a, A> {
    pub(crate) function: Function,
    pub(crate) values: &'a mut [A],
}

impl<A: Constants> layernorm::parts::Kernel for Map<'_, A> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let lanes = <A::V<S> as Vector>::LANES;
        for part in self.values.chunks_mut(lanes) {
            // SAFETY: the part has as many elements as are read and written.
            unsafe {
                let (p, n) = (part.as_mut_ptr(), part.len());
                let x = if n == lanes { A::V::<S>::load(p) } else { A::V::<S>::load_first(p, n) };
                let y = match self.function {
                    Function::Exp => exp(x),
                    Function::Sigmoid => sigmoid(x),
                    Function::Tanh => tanh(x),
                };
                if n == lanes { y.store(p) } else { y.store_first(p, n) }
            }
        }
    }
}
