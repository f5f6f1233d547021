//! Element types of tensors, and the two types that arithmetic is done in.
//!
//! f16, bf16 and f32 are widened exactly to f32; f64 stays f64. Results are rounded once, to nearest even.

use crate::kernels::Kernels;
use crate::kernels::vector::{Simd, Vector};
use half::{bf16, f16};

/// Element type of a tensor: [`f32`], [`f64`], [`struct@f16`] or [`struct@bf16`].
pub trait Element:
    Copy + Default + PartialEq + Send + Sync + std::fmt::Debug + 'static + lanes::Lanes + Kernels
{
    /// Type in which arithmetic on these elements is done: f64 for f64, otherwise f32.
    type Acc: Float;
    /// Name of the type in error messages.
    const NAME: &'static str;
    /// Converts to the arithmetic type, exactly.
    fn widen(self) -> Self::Acc;
    /// Rounds to this type, to nearest, ties to even.
    fn narrow(value: Self::Acc) -> Self;
}

/// Type that arithmetic is done in: [`f32`] or [`f64`].
pub trait Float:
    Element<Acc = Self>
    + PartialOrd
    + std::ops::Add<Output = Self>
    + std::ops::Sub<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::Div<Output = Self>
    + std::ops::Neg<Output = Self>
{
    /// Vector of this type on the instruction set `S`.
    #[doc(hidden)]
    type V<S: Simd>: Vector<Elem = Self>;
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// −0. Adding it changes nothing, not even the sign of a zero, so it represents an absent bias.
    const NEG_ZERO: Self;
    /// Smallest positive normal number.
    const MIN_POSITIVE: Self;
    /// 1.5 · 2²³ (f64: 1.5 · 2⁵²). Adding it rounds a small number to an integer, which then occupies the lowest
    /// bits.
    const ROUNDER: Self;
    /// 2⁻⁶⁴ or 2⁻⁵¹², half the exponent range: r = 1/σ of a row with finite sums is never smaller.
    const LEAST_RSTD: Self;
    /// 2⁻⁶⁴ or 2⁻⁵¹²: a v + ε of at least this has no error from underflow.
    const LEAST_VARIANCE: Self;
    /// r = 1/σ of that variance: 2³² or 2²⁵⁶.
    const MOST_RSTD: Self;
    /// Rounds an f64 to this type.
    fn from_f64(value: f64) -> Self;
    /// Converts to f64; exact for f32 and f64.
    fn to_f64(self) -> f64;
    /// Converts a count to the nearest number.
    fn from_count(count: usize) -> Self;
    /// Returns 2ⁿ for an argument n + [`Float::ROUNDER`], where n is an integer and 2ⁿ is normal.
    #[doc(hidden)]
    fn power_of_two(self) -> Self;
    /// Fused multiply-add: computes `self · a + b`, rounded once.
    fn fma(self, a: Self, b: Self) -> Self;
    /// Computes the square root, correctly rounded.
    fn sqrt(self) -> Self;
    /// Returns |x|.
    fn abs(self) -> Self;
    /// Returns whether the number is neither infinite nor NaN.
    fn is_finite(self) -> bool;
    /// Returns ⌊log₂|x|⌋ of a finite number other than 0.
    fn exponent(self) -> i32;
    /// Computes `self · 2^e`, rounded once.
    fn scale(self, e: i32) -> Self;
}

/// Loads and stores of an element type through a vector of its arithmetic type. Public only so that [`Element`] can
/// require it: no other crate can name it, so no other crate can add an element type.
pub mod lanes {
    use super::{Element, Float, Simd};

    /// Vector on `S` in which elements of type `T` are computed.
    pub type Of<S, T> = <<T as Element>::Acc as Float>::V<S>;

    #[doc(hidden)]
    pub trait Lanes: Sized {
        /// # Safety
        /// `p` is valid for reads of one whole vector of elements; this machine has `S`.
        unsafe fn load<S: Simd>(p: *const Self) -> Of<S, Self>
        where
            Self: Element;
        /// Loads the first `n` lanes from memory and sets the others to 0.
        /// # Safety
        /// `p` is valid for reads of `n` elements, with `n` less than the number of lanes; this machine has `S`.
        unsafe fn load_first<S: Simd>(p: *const Self, n: usize) -> Of<S, Self>
        where
            Self: Element;
        /// # Safety
        /// `p` is valid for writes of one whole vector of elements; this machine has `S`.
        unsafe fn store<S: Simd>(p: *mut Self, v: Of<S, Self>)
        where
            Self: Element;
        /// # Safety
        /// `p` is valid for writes of `n` elements, with `n` less than the number of lanes; this machine has `S`.
        unsafe fn store_first<S: Simd>(p: *mut Self, v: Of<S, Self>, n: usize)
        where
            Self: Element;
        /// Stores a vector, bypassing the cache where the machine can.
        /// # Safety
        /// As `store`, and `p` is aligned to the size of a vector of elements.
        unsafe fn stream<S: Simd>(p: *mut Self, v: Of<S, Self>)
        where
            Self: Element;
    }
}

macro_rules! float {
    ($t:ty, $bits:ty, $v:ident, $min_exp:expr, $half_range:expr, $quarter_range:expr, $mantissa:expr) => {
        impl Element for $t {
            type Acc = $t;
            const NAME: &'static str = stringify!($t);
            #[inline(always)]
            fn widen(self) -> $t {
                self
            }
            #[inline(always)]
            fn narrow(value: $t) -> $t {
                value
            }
        }

        impl Float for $t {
            type V<S: Simd> = S::$v;
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;
            const NEG_ZERO: $t = -0.0;
            const MIN_POSITIVE: $t = <$t>::MIN_POSITIVE;
            const LEAST_RSTD: $t = $half_range;
            const LEAST_VARIANCE: $t = $half_range;
            const MOST_RSTD: $t = $quarter_range;
            const ROUNDER: $t = 1.5 * ((1u64 << $mantissa) as $t);
            #[inline(always)]
            fn from_f64(value: f64) -> $t {
                value as $t
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn from_count(count: usize) -> $t {
                count as $t
            }
            #[inline(always)]
            fn power_of_two(self) -> $t {
                // The lowest bits of the number become the exponent; the bits above them are shifted out.
                <$t>::from_bits((self.to_bits() << $mantissa).wrapping_add((1.0 as $t).to_bits()))
            }
            #[inline(always)]
            fn fma(self, a: $t, b: $t) -> $t {
                self.mul_add(a, b)
            }
            #[inline(always)]
            fn sqrt(self) -> $t {
                self.sqrt()
            }
            #[inline(always)]
            fn abs(self) -> $t {
                self.abs()
            }
            #[inline(always)]
            fn is_finite(self) -> bool {
                self.is_finite()
            }
            fn exponent(self) -> i32 {
                let field = |x: $t| ((x.to_bits() >> $mantissa) & ((1 << (<$bits>::BITS - 1 - $mantissa)) - 1)) as i32;
                if self.abs() < <$t>::MIN_POSITIVE {
                    // A subnormal: make it normal first.
                    let up = $mantissa + 1;
                    field(self * ((1u64 << up) as $t)) - up as i32 + $min_exp - 1
                } else {
                    field(self) + $min_exp - 1
                }
            }
            fn scale(self, e: i32) -> $t {
                // Every step but the last keeps the number normal and is exact. The last one rounds.
                let power = |e: i32| <$t>::from_bits(((e - $min_exp + 1) as $bits) << $mantissa);
                let (mut x, mut e) = (self, e);
                if x == 0.0 || !x.is_finite() {
                    return x;
                }
                while e > 0 {
                    let step = e.min(-$min_exp);
                    x *= power(step);
                    e -= step;
                    if !x.is_finite() {
                        return x;
                    }
                }
                while e < 0 {
                    let room = x.exponent() - $min_exp;
                    let step = if room > 0 { (-e).min(room).min(-$min_exp) } else { -e };
                    if step > -$min_exp {
                        // Smaller than half of any subnormal: only the sign remains.
                        return x * power($min_exp) * power($min_exp);
                    }
                    x *= power(-step);
                    e += step;
                }
                x
            }
        }

        impl lanes::Lanes for $t {
            #[inline(always)]
            unsafe fn load<S: Simd>(p: *const Self) -> S::$v {
                // SAFETY: the caller upholds the same requirements.
                unsafe { <S::$v>::load(p) }
            }
            #[inline(always)]
            unsafe fn load_first<S: Simd>(p: *const Self, n: usize) -> S::$v {
                // SAFETY: the caller upholds the same requirements.
                unsafe { <S::$v>::load_first(p, n) }
            }
            #[inline(always)]
            unsafe fn store<S: Simd>(p: *mut Self, v: S::$v) {
                // SAFETY: the caller upholds the same requirements.
                unsafe { v.store(p) }
            }
            #[inline(always)]
            unsafe fn store_first<S: Simd>(p: *mut Self, v: S::$v, n: usize) {
                // SAFETY: the caller upholds the same requirements.
                unsafe { v.store_first(p, n) }
            }
            #[inline(always)]
            unsafe fn stream<S: Simd>(p: *mut Self, v: S::$v) {
                // SAFETY: the caller upholds the same requirements.
                unsafe { v.stream(p) }
            }
        }
    };
}

float!(f32, u32, F32, -126, f32::from_bits((127 - 64) << 23), f32::from_bits((127 + 32) << 23), 23);
float!(f64, u64, F64, -1022, f64::from_bits((1023 - 512) << 52), f64::from_bits((1023 + 256) << 52), 52);

macro_rules! narrow {
    ($t:ty, $load:ident, $store:ident, $stream:ident) => {
        impl Element for $t {
            type Acc = f32;
            const NAME: &'static str = stringify!($t);
            #[inline(always)]
            fn widen(self) -> f32 {
                self.to_f32()
            }
            #[inline(always)]
            fn narrow(value: f32) -> $t {
                <$t>::from_f32(value)
            }
        }

        impl lanes::Lanes for $t {
            #[inline(always)]
            unsafe fn load<S: Simd>(p: *const Self) -> S::F32 {
                // SAFETY: the caller upholds the same requirements.
                unsafe { S::$load(p) }
            }
            #[inline(always)]
            unsafe fn load_first<S: Simd>(p: *const Self, n: usize) -> S::F32 {
                let mut full = [<$t>::ZERO; MAX_LANES];
                // SAFETY: `n` elements can be read, and a vector has at most MAX_LANES.
                unsafe {
                    std::ptr::copy_nonoverlapping(p, full.as_mut_ptr(), n);
                    S::$load(full.as_ptr())
                }
            }
            #[inline(always)]
            unsafe fn store<S: Simd>(p: *mut Self, v: S::F32) {
                // SAFETY: the caller upholds the same requirements.
                unsafe { S::$store(p, v) }
            }
            #[inline(always)]
            unsafe fn store_first<S: Simd>(p: *mut Self, v: S::F32, n: usize) {
                let mut full = [<$t>::ZERO; MAX_LANES];
                // SAFETY: `n` elements can be written, and a vector has at most MAX_LANES.
                unsafe {
                    S::$store(full.as_mut_ptr(), v);
                    std::ptr::copy_nonoverlapping(full.as_ptr(), p, n);
                }
            }
            #[inline(always)]
            unsafe fn stream<S: Simd>(p: *mut Self, v: S::F32) {
                // SAFETY: the caller upholds the same requirements.
                unsafe { S::$stream(p, v) }
            }
        }
    };
}

use crate::kernels::vector::MAX_LANES;
narrow!(f16, load_f16, store_f16, stream_f16);
narrow!(bf16, load_bf16, store_bf16, stream_bf16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scale_rounds_once_and_reaches_every_exponent() {
        for x in [1.0f32, 1.9999999, -3.4e38, 1.2e-38, 1.0e-45, 0.0, -0.0] {
            for e in [-400, -277, -150, -149, -130, -127, -1, 0, 1, 100, 127, 128, 253, 300] {
                let exact = x as f64 * 2f64.powi(e);
                assert_eq!(x.scale(e).to_bits(), (exact as f32).to_bits(), "{x:e} · 2^{e}");
            }
        }
        // Halfway between one and two times the smallest subnormal: ties to even.
        assert_eq!(1.5f64.scale(-1074), f64::from_bits(2));
        assert_eq!(f64::MAX.scale(-2100), 0.0);
        assert_eq!(5e-324f64.scale(1074), 1.0);
        assert_eq!(1.0f64.scale(1024), f64::INFINITY);
    }

    #[test]
    fn exponent_is_floor_log2() {
        for (x, e) in [(1.0f32, 0), (1.99, 0), (2.0, 1), (0.75, -1), (3.4e38, 127), (1e-45, -149), (1.2e-38, -126)] {
            assert_eq!(x.exponent(), e, "{x:e}");
        }
        assert_eq!(f64::MAX.exponent(), 1023);
        assert_eq!(5e-324f64.exponent(), -1074);
    }
}
