//! 128-bit vectors of WebAssembly.
//!
//! WebAssembly has no choice at run time: a module with these instructions does not start where they are missing. So
//! they take the place of plain Rust in a module that was compiled with the target feature `simd128`.
//!
//! There is no fused multiply-add, so that of f32 is computed in f64, exactly. Let p = a·b, which has at most 48 bits and
//! is exact, and s = p + c, rounded to f64. Rounding s to f32 gives p + c rounded once, unless s is halfway between two
//! f32 (normal or subnormal): an f64 that is not halfway lies on the same side of every halfway point as p + c, because
//! those points are f64 themselves. Halfway points, and the limit above which f32 is infinite, end in 28 zero bits, so the
//! rare sums that do are computed again.
//!
//! Then let e be the rounding error of s (from Knuth's sum of two numbers). If e is not 0, s is replaced by the one of the
//! two f64 around p + c whose last bit is 1 ("rounding to odd"). Rounding that to f32 gives p + c rounded once: f64 has at
//! least two bits more than any f32 result, and the last bit shows on which side of a halfway point p + c lies (Boldo and
//! Melquiond, 2008). f64 neither overflows here nor has subnormal numbers. An infinity or a NaN makes e a NaN, which
//! changes nothing.
//!
//! The fused multiply-add of f64 is the one of Rust, lane by lane, in software.
//!
//! The tests compare every operation with plain Rust, bit for bit; they run on a model of the intrinsics
//! (`simd128_model`). The crate `layernorm-web` compares the instructions themselves, in a browser.

use super::scalar::Scalar;
use crate::element::Element;
use crate::kernels::vector::{Simd, Vector};
use half::{bf16, f16};

#[cfg(not(target_arch = "wasm32"))]
use super::simd128_model::*;
#[cfg(target_arch = "wasm32")]
use std::arch::wasm32::*;

/// The instruction set of 128-bit vectors.
#[derive(Clone, Copy)]
pub struct Simd128;

/// Four f32.
#[derive(Clone, Copy)]
pub struct F32x4(v128);

/// Two f64.
#[derive(Clone, Copy)]
pub struct F64x2(v128);

/// Returns the lower two of four f32 as f64.
#[inline(always)]
fn lower(v: v128) -> v128 {
    f64x2_promote_low_f32x4(v)
}

/// Returns the upper two of four f32 as f64.
#[inline(always)]
fn upper(v: v128) -> v128 {
    f64x2_promote_low_f32x4(i64x2_shuffle::<1, 1>(v, v))
}

/// Rounds two pairs of f64 to four f32.
#[inline(always)]
fn rounded(low: v128, high: v128) -> v128 {
    i64x2_shuffle::<0, 2>(f32x4_demote_f64x2_zero(low), f32x4_demote_f64x2_zero(high))
}

/// Returns a·b + c of two f64 that hold f32, rounded to odd.
#[inline(always)]
fn fused_to_odd(a: v128, b: v128, c: v128) -> v128 {
    let p = f64x2_mul(a, b);
    let s = f64x2_add(p, c);
    let c_of_s = f64x2_sub(s, p);
    let p_of_s = f64x2_sub(s, c_of_s);
    let e = f64x2_add(f64x2_sub(p, p_of_s), f64x2_sub(c, c_of_s));
    // False if e is a NaN.
    let inexact = f64x2_gt(f64x2_abs(e), f64x2_splat(0.0));
    // 1 where s is too large in magnitude: truncate it. Then the last bit says that bits are missing.
    let beyond = v128_and(u64x2_shr(v128_xor(e, s), 63), inexact);
    v128_or(i64x2_sub(s, beyond), u64x2_shr(inexact, 63))
}

/// Computes a·b + c of four f32, for sums that may lie halfway.
#[cold]
#[inline(never)]
fn fused_halfway(a: v128, b: v128, c: v128) -> v128 {
    let low = fused_to_odd(lower(a), lower(b), lower(c));
    rounded(low, fused_to_odd(upper(a), upper(b), upper(c)))
}

// SAFETY: the type holds `LANES` lanes and is private to this crate.
unsafe impl Vector for F32x4 {
    type Elem = f32;
    const LANES: usize = 4;

    #[inline(always)]
    fn splat(x: f32) -> Self {
        Self(f32x4_splat(x))
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: the caller guarantees that the memory is valid; no alignment is required.
        Self(unsafe { v128_load(p.cast()) })
    }
    #[inline(always)]
    unsafe fn load_first(p: *const f32, n: usize) -> Self {
        // SAFETY: element i is read only if i < n, and the caller guarantees n valid elements.
        let at = |i: usize| if i < n { unsafe { *p.add(i) } } else { 0.0 };
        Self(f32x4(at(0), at(1), at(2), 0.0))
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: the caller guarantees that the memory is valid; no alignment is required.
        unsafe { v128_store(p.cast(), self.0) }
    }
    #[inline(always)]
    unsafe fn store_first(self, p: *mut f32, n: usize) {
        // SAFETY: lane i is stored only if i < n, and the caller guarantees n < 4 valid elements.
        unsafe {
            if n > 0 {
                *p = f32x4_extract_lane::<0>(self.0);
            }
            if n > 1 {
                *p.add(1) = f32x4_extract_lane::<1>(self.0);
            }
            if n > 2 {
                *p.add(2) = f32x4_extract_lane::<2>(self.0);
            }
        }
    }
    #[inline(always)]
    unsafe fn stream(self, p: *mut f32) {
        // SAFETY: the caller guarantees what a plain store requires.
        unsafe { self.store(p) }
    }
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        Self(f32x4_add(self.0, b.0))
    }
    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        Self(f32x4_sub(self.0, b.0))
    }
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        Self(f32x4_mul(self.0, b.0))
    }
    #[inline(always)]
    fn div(self, b: Self) -> Self {
        Self(f32x4_div(self.0, b.0))
    }
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        let low = f64x2_add(f64x2_mul(lower(self.0), lower(b.0)), lower(c.0));
        let high = f64x2_add(f64x2_mul(upper(self.0), upper(b.0)), upper(c.0));
        let last_28_bits = i32x4_shl(i32x4_shuffle::<0, 2, 4, 6>(low, high), 4);
        if i32x4_all_true(last_28_bits) { Self(rounded(low, high)) } else { Self(fused_halfway(self.0, b.0, c.0)) }
    }
    #[inline(always)]
    fn neg_fma(self, b: Self, c: Self) -> Self {
        Self(f32x4_neg(self.0)).fma(b, c)
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        Self(f32x4_sqrt(self.0))
    }
    #[inline(always)]
    fn or_zero(self) -> Self {
        Self(v128_andnot(self.0, f32x4_lt(self.0, f32x4_splat(0.0))))
    }
    #[inline(always)]
    fn at_least(self, limit: Self) -> Self {
        Self(v128_bitselect(limit.0, self.0, f32x4_lt(self.0, limit.0)))
    }
    #[inline(always)]
    fn at_most(self, limit: Self) -> Self {
        Self(v128_bitselect(limit.0, self.0, f32x4_gt(self.0, limit.0)))
    }
    #[inline(always)]
    fn power_of_two(self) -> Self {
        Self(i32x4_add(i32x4_shl(self.0, 23), f32x4_splat(1.0)))
    }
    #[inline(always)]
    fn keep_first(self, n: usize) -> Self {
        Self(v128_and(self.0, u32x4_lt(u32x4(0, 1, 2, 3), u32x4_splat(n as u32))))
    }
    #[inline(always)]
    fn fold(self) -> f32 {
        let v = f32x4_add(self.0, i64x2_shuffle::<1, 1>(self.0, self.0));
        f32x4_extract_lane::<0>(v) + f32x4_extract_lane::<1>(v)
    }
}

// SAFETY: the type holds `LANES` lanes and is private to this crate.
unsafe impl Vector for F64x2 {
    type Elem = f64;
    const LANES: usize = 2;

    #[inline(always)]
    fn splat(x: f64) -> Self {
        Self(f64x2_splat(x))
    }
    #[inline(always)]
    unsafe fn load(p: *const f64) -> Self {
        // SAFETY: the caller guarantees that the memory is valid; no alignment is required.
        Self(unsafe { v128_load(p.cast()) })
    }
    #[inline(always)]
    unsafe fn load_first(p: *const f64, n: usize) -> Self {
        // SAFETY: the element is read only if n is 1, and the caller guarantees n valid elements.
        Self(f64x2(if n > 0 { unsafe { *p } } else { 0.0 }, 0.0))
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f64) {
        // SAFETY: the caller guarantees that the memory is valid; no alignment is required.
        unsafe { v128_store(p.cast(), self.0) }
    }
    #[inline(always)]
    unsafe fn store_first(self, p: *mut f64, n: usize) {
        if n > 0 {
            // SAFETY: the caller guarantees that the element is valid.
            unsafe { *p = f64x2_extract_lane::<0>(self.0) }
        }
    }
    #[inline(always)]
    unsafe fn stream(self, p: *mut f64) {
        // SAFETY: the caller guarantees what a plain store requires.
        unsafe { self.store(p) }
    }
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        Self(f64x2_add(self.0, b.0))
    }
    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        Self(f64x2_sub(self.0, b.0))
    }
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        Self(f64x2_mul(self.0, b.0))
    }
    #[inline(always)]
    fn div(self, b: Self) -> Self {
        Self(f64x2_div(self.0, b.0))
    }
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        let low = f64x2_extract_lane::<0>(self.0).mul_add(f64x2_extract_lane::<0>(b.0), f64x2_extract_lane::<0>(c.0));
        let high = f64x2_extract_lane::<1>(self.0).mul_add(f64x2_extract_lane::<1>(b.0), f64x2_extract_lane::<1>(c.0));
        Self(f64x2(low, high))
    }
    #[inline(always)]
    fn neg_fma(self, b: Self, c: Self) -> Self {
        Self(f64x2_neg(self.0)).fma(b, c)
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        Self(f64x2_sqrt(self.0))
    }
    #[inline(always)]
    fn or_zero(self) -> Self {
        Self(v128_andnot(self.0, f64x2_lt(self.0, f64x2_splat(0.0))))
    }
    #[inline(always)]
    fn at_least(self, limit: Self) -> Self {
        Self(v128_bitselect(limit.0, self.0, f64x2_lt(self.0, limit.0)))
    }
    #[inline(always)]
    fn at_most(self, limit: Self) -> Self {
        Self(v128_bitselect(limit.0, self.0, f64x2_gt(self.0, limit.0)))
    }
    #[inline(always)]
    fn power_of_two(self) -> Self {
        Self(i64x2_add(i64x2_shl(self.0, 52), f64x2_splat(1.0)))
    }
    #[inline(always)]
    fn keep_first(self, n: usize) -> Self {
        Self(v128_and(self.0, f64x2_lt(f64x2(0.0, 1.0), f64x2_splat(n as f64))))
    }
    #[inline(always)]
    fn fold(self) -> f64 {
        f64x2_extract_lane::<0>(self.0) + f64x2_extract_lane::<1>(self.0)
    }
}

/// Half precision lane by lane: the page's numbers are f32.
#[inline(always)]
unsafe fn widen<T: Element<Acc = f32>>(p: *const T) -> F32x4 {
    // SAFETY: the caller guarantees 4 valid elements.
    let at = |i: usize| unsafe { *p.add(i) }.widen();
    F32x4(f32x4(at(0), at(1), at(2), at(3)))
}

#[inline(always)]
unsafe fn narrow<T: Element<Acc = f32>>(p: *mut T, F32x4(v): F32x4) {
    let lanes = [
        f32x4_extract_lane::<0>(v),
        f32x4_extract_lane::<1>(v),
        f32x4_extract_lane::<2>(v),
        f32x4_extract_lane::<3>(v),
    ];
    // SAFETY: the caller guarantees 4 valid elements.
    unsafe { *p.cast::<[T; 4]>() = lanes.map(T::narrow) }
}

// SAFETY: as above.
unsafe impl Simd for Simd128 {
    type F32 = F32x4;
    type F64 = F64x2;
    #[inline(always)]
    unsafe fn load_f16(p: *const f16) -> F32x4 {
        // SAFETY: the caller upholds the same requirements.
        unsafe { widen(p) }
    }
    #[inline(always)]
    unsafe fn store_f16(p: *mut f16, v: F32x4) {
        // SAFETY: the caller upholds the same requirements.
        unsafe { narrow(p, v) }
    }
    #[inline(always)]
    unsafe fn stream_f16(p: *mut f16, v: F32x4) {
        // SAFETY: the caller upholds the same requirements.
        unsafe { narrow(p, v) }
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const bf16) -> F32x4 {
        // SAFETY: the caller upholds the same requirements.
        unsafe { widen(p) }
    }
    #[inline(always)]
    unsafe fn store_bf16(p: *mut bf16, v: F32x4) {
        // SAFETY: the caller upholds the same requirements.
        unsafe { narrow(p, v) }
    }
    #[inline(always)]
    unsafe fn stream_bf16(p: *mut bf16, v: F32x4) {
        // SAFETY: the caller upholds the same requirements.
        unsafe { narrow(p, v) }
    }
    #[inline(always)]
    fn prefetch<T>(p: *const T) {
        Scalar::prefetch(p);
    }
    #[inline(always)]
    fn prefetch_write<T>(p: *mut T) {
        Scalar::prefetch_write(p);
    }
    #[inline(always)]
    fn stream_fence() {
        Scalar::stream_fence();
    }
}

#[cfg(test)]
mod tests {
    use super::super::against_scalar;
    use super::*;
    use crate::element::Float;
    use crate::random::SplitMix64;

    #[test]
    fn vectors_are_scalar_lane_by_lane() {
        against_scalar::vectors_are_scalar_lane_by_lane::<Simd128>();
    }

    #[test]
    fn half_precision_rounds_as_the_half_crate_does() {
        against_scalar::half_precision_rounds_as_the_half_crate_does::<Simd128>();
    }

    #[test]
    fn kernels_give_the_bits_of_the_scalar_path() {
        against_scalar::kernels_give_the_bits_of_the_scalar_path::<Simd128>();
    }

    /// Compares a·b + c with Rust's, whatever the bits.
    fn fuse(a: f32, b: f32, c: f32) {
        let found = F32x4::splat(a).fma(F32x4::splat(b), F32x4::splat(c));
        let (found, expected) = (f32x4_extract_lane::<0>(found.0), a.mul_add(b, c));
        let same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
        assert!(same, "{a:e} · {b:e} + {c:e}: found {found:e}, expected {expected:e}");
    }

    #[test]
    fn the_fused_product_of_any_bits_is_rounded_once() {
        let mut random = SplitMix64::new(3);
        let mut float = || f32::from_bits(random.next_u64() as u32);
        for _ in 0..300_000 {
            let (a, b) = (float(), float());
            fuse(a, b, float());
            // Cancellation: the sum is a rounding error of the product, or a few units.
            let product = (-(a * b)).to_bits().cast_signed();
            (-2..=2).for_each(|units| fuse(a, b, f32::from_bits(product.wrapping_add(units).cast_unsigned())));
        }
        for (a, b, c) in against_scalar::triples(&against_scalar::f32_values()) {
            fuse(a, b, c);
        }
    }

    /// Sums that lie so close to the middle between two f32, normal or subnormal, that an f64 cannot tell.
    #[test]
    fn near_ties_are_rounded_once() {
        let mut random = SplitMix64::new(4);
        let power = |e: i32| Float::scale(1.0f32, e);
        let unit = f32::EPSILON;
        for round in 0..200_000 {
            // a·b is 2^e(1 ± 2⁻⁴⁶) or near it, half a unit of c, or half of the smallest subnormal.
            let (d, e) = ((1 + random.below(3)) as f32, random.below(240) as i32 - 150);
            let e = if round % 4 == 0 { -150 } else { e };
            let split = random.below(20) as i32 - 10;
            let sign = if random.below(2) == 0 { 1.0 } else { -1.0 };
            let (a, b) = ((1.0 + d * unit) * power(e / 2 + split), (1.0 - sign * d * unit) * power(e - e / 2 - split));
            let mantissa = 1.0 + (random.next_u64() >> 41) as f32 * unit;
            let c = mantissa * power(if e == -150 { random.below(24) as i32 - 149 } else { (e + 24).min(127) });
            for (a, c) in [(a, c), (-a, c), (a, -c), (-a, -c)] {
                fuse(a, b, c);
            }
        }
    }
}
