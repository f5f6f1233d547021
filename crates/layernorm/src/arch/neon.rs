//! NEON on 64-bit ARM: 128-bit vectors.
//!
//! The tests compare every operation and the kernels with plain Rust, bit for bit. On 64-bit ARM they run the
//! intrinsics; elsewhere they run `neon_model`, a model of those intrinsics in plain Rust. They have passed on the
//! model and under a processor emulator, not on hardware.

use crate::kernels::vector::{MAX_LANES, Simd, Vector};
use half::{bf16, f16};

#[cfg(not(target_arch = "aarch64"))]
use super::neon_model::*;
#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::*;

/// The instruction set NEON.
#[derive(Clone, Copy)]
pub struct Neon;

/// Four f32.
#[derive(Clone, Copy)]
pub struct F32x4(float32x4_t);

/// Two f64.
#[derive(Clone, Copy)]
pub struct F64x2(float64x2_t);

/// Returns the mask of the first n of four lanes.
#[inline(always)]
fn first_4(n: usize) -> uint32x4_t {
    // SAFETY: a mask is created only where the machine has the instruction set; the array has four elements.
    unsafe { vcltq_u32(vld1q_u32([0, 1, 2, 3].as_ptr()), vdupq_n_u32(n as u32)) }
}

/// Returns the mask of the first n of two lanes.
#[inline(always)]
fn first_2(n: usize) -> uint64x2_t {
    // SAFETY: a mask is created only where the machine has the instruction set; the array has two elements.
    unsafe { vcltq_u64(vld1q_u64([0, 1].as_ptr()), vdupq_n_u64(n as u64)) }
}

// SAFETY: the type holds `LANES` lanes and is private to this crate.
unsafe impl Vector for F32x4 {
    type Elem = f32;
    const LANES: usize = 4;

    #[inline(always)]
    fn splat(x: f32) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { vdupq_n_f32(x) })
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: the caller guarantees that the memory is valid.
        Self(unsafe { vld1q_f32(p) })
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: the caller guarantees that the memory is valid.
        unsafe { vst1q_f32(p, self.0) }
    }
    #[inline(always)]
    unsafe fn stream(self, p: *mut f32) {
        // SAFETY: the caller guarantees what a plain store requires.
        unsafe { self.store(p) }
    }
    #[inline(always)]
    unsafe fn load_first(p: *const f32, n: usize) -> Self {
        // SAFETY: lane i is loaded only if i < n, and the caller guarantees n < 4 valid elements.
        unsafe {
            let mut v = vdupq_n_f32(0.0);
            if n > 0 {
                v = vld1q_lane_f32::<0>(p, v);
            }
            if n > 1 {
                v = vld1q_lane_f32::<1>(p.add(1), v);
            }
            if n > 2 {
                v = vld1q_lane_f32::<2>(p.add(2), v);
            }
            Self(v)
        }
    }
    #[inline(always)]
    unsafe fn store_first(self, p: *mut f32, n: usize) {
        // SAFETY: lane i is stored only if i < n, and the caller guarantees n < 4 valid elements.
        unsafe {
            if n > 0 {
                vst1q_lane_f32::<0>(p, self.0);
            }
            if n > 1 {
                vst1q_lane_f32::<1>(p.add(1), self.0);
            }
            if n > 2 {
                vst1q_lane_f32::<2>(p.add(2), self.0);
            }
        }
    }
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { vaddq_f32(self.0, b.0) })
    }
    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { vsubq_f32(self.0, b.0) })
    }
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { vmulq_f32(self.0, b.0) })
    }
    #[inline(always)]
    fn div(self, b: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { vdivq_f32(self.0, b.0) })
    }
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set. The addend comes first.
        Self(unsafe { vfmaq_f32(c.0, self.0, b.0) })
    }
    #[inline(always)]
    fn neg_fma(self, b: Self, c: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set. The addend comes first.
        Self(unsafe { vfmsq_f32(c.0, self.0, b.0) })
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { vsqrtq_f32(self.0) })
    }
    /// Avoids `vmaxq_f32`, which turns −0 into +0: the other instruction sets keep −0.
    #[inline(always)]
    fn or_zero(self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set. A NaN does not compare less than 0.
        Self(unsafe { vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(self.0), vcltzq_f32(self.0))) })
    }
    #[inline(always)]
    fn at_least(self, limit: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set. A NaN does not compare less than
        // anything.
        Self(unsafe { vbslq_f32(vcltq_f32(self.0, limit.0), limit.0, self.0) })
    }
    #[inline(always)]
    fn at_most(self, limit: Self) -> Self {
        // SAFETY: as `at_least`.
        Self(unsafe { vbslq_f32(vcltq_f32(limit.0, self.0), limit.0, self.0) })
    }
    #[inline(always)]
    fn power_of_two(self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        unsafe {
            let exponent = vshlq_n_u32::<23>(vreinterpretq_u32_f32(self.0));
            Self(vreinterpretq_f32_u32(vaddq_u32(exponent, vreinterpretq_u32_f32(vdupq_n_f32(1.0)))))
        }
    }
    #[inline(always)]
    fn keep_first(self, n: usize) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(self.0), first_4(n))) })
    }
    #[inline(always)]
    fn fold(self) -> f32 {
        // SAFETY: a vector exists only where the machine has the instruction set.
        unsafe {
            let v = vadd_f32(vget_low_f32(self.0), vget_high_f32(self.0));
            vget_lane_f32::<0>(v) + vget_lane_f32::<1>(v)
        }
    }
    /// One addition folds the halves of two vectors, the next one adds neighbouring lanes: 3 additions for 4 vectors.
    #[inline(always)]
    fn fold_each(rows: &[Self; MAX_LANES]) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        unsafe {
            let halves = |a: Self, b: Self| {
                let low = vcombine_f32(vget_low_f32(a.0), vget_low_f32(b.0));
                vaddq_f32(low, vcombine_f32(vget_high_f32(a.0), vget_high_f32(b.0)))
            };
            Self(vpaddq_f32(halves(rows[0], rows[1]), halves(rows[2], rows[3])))
        }
    }
}

// SAFETY: the type holds `LANES` lanes and is private to this crate.
unsafe impl Vector for F64x2 {
    type Elem = f64;
    const LANES: usize = 2;

    #[inline(always)]
    fn splat(x: f64) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { vdupq_n_f64(x) })
    }
    #[inline(always)]
    unsafe fn load(p: *const f64) -> Self {
        // SAFETY: the caller guarantees that the memory is valid.
        Self(unsafe { vld1q_f64(p) })
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f64) {
        // SAFETY: the caller guarantees that the memory is valid.
        unsafe { vst1q_f64(p, self.0) }
    }
    #[inline(always)]
    unsafe fn stream(self, p: *mut f64) {
        // SAFETY: the caller guarantees what a plain store requires.
        unsafe { self.store(p) }
    }
    #[inline(always)]
    unsafe fn load_first(p: *const f64, n: usize) -> Self {
        // SAFETY: the lane is loaded only if n is 1, and the caller guarantees n valid elements.
        unsafe {
            let zero = vdupq_n_f64(0.0);
            Self(if n > 0 { vld1q_lane_f64::<0>(p, zero) } else { zero })
        }
    }
    #[inline(always)]
    unsafe fn store_first(self, p: *mut f64, n: usize) {
        if n > 0 {
            // SAFETY: the caller guarantees that the element is valid.
            unsafe { vst1q_lane_f64::<0>(p, self.0) }
        }
    }
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { vaddq_f64(self.0, b.0) })
    }
    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { vsubq_f64(self.0, b.0) })
    }
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { vmulq_f64(self.0, b.0) })
    }
    #[inline(always)]
    fn div(self, b: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { vdivq_f64(self.0, b.0) })
    }
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set. The addend comes first.
        Self(unsafe { vfmaq_f64(c.0, self.0, b.0) })
    }
    #[inline(always)]
    fn neg_fma(self, b: Self, c: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set. The addend comes first.
        Self(unsafe { vfmsq_f64(c.0, self.0, b.0) })
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { vsqrtq_f64(self.0) })
    }
    /// Avoids `vmaxq_f64`, which turns −0 into +0: the other instruction sets keep −0.
    #[inline(always)]
    fn or_zero(self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set. A NaN does not compare less than 0.
        Self(unsafe { vreinterpretq_f64_u64(vbicq_u64(vreinterpretq_u64_f64(self.0), vcltzq_f64(self.0))) })
    }
    #[inline(always)]
    fn at_least(self, limit: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set. A NaN does not compare less than
        // anything.
        Self(unsafe { vbslq_f64(vcltq_f64(self.0, limit.0), limit.0, self.0) })
    }
    #[inline(always)]
    fn at_most(self, limit: Self) -> Self {
        // SAFETY: as `at_least`.
        Self(unsafe { vbslq_f64(vcltq_f64(limit.0, self.0), limit.0, self.0) })
    }
    #[inline(always)]
    fn power_of_two(self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        unsafe {
            let exponent = vshlq_n_u64::<52>(vreinterpretq_u64_f64(self.0));
            Self(vreinterpretq_f64_u64(vaddq_u64(exponent, vreinterpretq_u64_f64(vdupq_n_f64(1.0)))))
        }
    }
    #[inline(always)]
    fn keep_first(self, n: usize) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { vreinterpretq_f64_u64(vandq_u64(vreinterpretq_u64_f64(self.0), first_2(n))) })
    }
    #[inline(always)]
    fn fold(self) -> f64 {
        // SAFETY: a vector exists only where the machine has the instruction set.
        unsafe { vgetq_lane_f64::<0>(self.0) + vgetq_lane_f64::<1>(self.0) }
    }
    #[inline(always)]
    fn fold_each(rows: &[Self; MAX_LANES]) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { vpaddq_f64(rows[0].0, rows[1].0) })
    }
}

/// Rounds to bf16, ties to even; a NaN keeps its upper bits and becomes quiet.
#[inline(always)]
fn to_bf16(v: float32x4_t) -> uint16x4_t {
    // SAFETY: a vector exists only where the machine has the instruction set.
    unsafe {
        let bits = vreinterpretq_u32_f32(v);
        let odd = vandq_u32(vshrq_n_u32::<16>(bits), vdupq_n_u32(1));
        let rounded = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7FFF)));
        let quiet = vorrq_u32(bits, vdupq_n_u32(0x40_0000));
        let number = vceqq_f32(v, v);
        vshrn_n_u32::<16>(vbslq_u32(number, rounded, quiet))
    }
}

// SAFETY: as above.
unsafe impl Simd for Neon {
    type F32 = F32x4;
    type F64 = F64x2;
    #[inline(always)]
    unsafe fn load_f16(p: *const f16) -> F32x4 {
        // SAFETY: the caller guarantees 4 valid elements.
        F32x4(unsafe { vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p.cast()))) })
    }
    #[inline(always)]
    unsafe fn store_f16(p: *mut f16, v: F32x4) {
        // SAFETY: the caller guarantees 4 valid elements. Rust keeps the processor's rounding mode at nearest even.
        unsafe { vst1_u16(p.cast(), vreinterpret_u16_f16(vcvt_f16_f32(v.0))) }
    }
    #[inline(always)]
    unsafe fn stream_f16(p: *mut f16, v: F32x4) {
        // SAFETY: the caller guarantees what a plain store requires.
        unsafe { Self::store_f16(p, v) }
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const bf16) -> F32x4 {
        // SAFETY: the caller guarantees 4 valid elements. A bf16 is the upper half of an f32.
        F32x4(unsafe { vreinterpretq_f32_u32(vshll_n_u16::<16>(vld1_u16(p.cast()))) })
    }
    #[inline(always)]
    unsafe fn store_bf16(p: *mut bf16, v: F32x4) {
        // SAFETY: the caller guarantees 4 valid elements.
        unsafe { vst1_u16(p.cast(), to_bf16(v.0)) }
    }
    #[inline(always)]
    unsafe fn stream_bf16(p: *mut bf16, v: F32x4) {
        // SAFETY: the caller guarantees what a plain store requires.
        unsafe { Self::store_bf16(p, v) }
    }
    /// Inline assembly, because stable Rust lacks `_prefetch`. Does nothing on the model.
    #[inline(always)]
    fn prefetch<T>(p: *const T) {
        #[cfg(target_arch = "aarch64")]
        // SAFETY: prefetching any address is harmless.
        unsafe {
            std::arch::asm!("prfm pldl1keep, [{}]", in(reg) p.addr(), options(nomem, nostack, preserves_flags));
        }
        #[cfg(not(target_arch = "aarch64"))]
        let _ = p;
    }
    #[inline(always)]
    fn prefetch_write<T>(_: *mut T) {}
    #[inline(always)]
    fn stream_fence() {}
}

#[cfg(test)]
mod tests {
    use super::super::against_scalar;
    use super::*;

    #[test]
    fn vectors_are_scalar_lane_by_lane() {
        against_scalar::vectors_are_scalar_lane_by_lane::<Neon>();
    }

    #[test]
    fn half_precision_rounds_as_the_half_crate_does() {
        against_scalar::half_precision_rounds_as_the_half_crate_does::<Neon>();
    }

    #[test]
    fn kernels_give_the_bits_of_the_scalar_path() {
        against_scalar::kernels_give_the_bits_of_the_scalar_path::<Neon>();
    }
}
