//! A model in plain Rust of the intrinsics that `neon.rs` uses, so that its tests run without 64-bit ARM.
//!
//! Names, parameters and constants are those of `std::arch::aarch64`; each function follows Arm's reference. There,
//! most are safe functions with the target feature `neon`, which callers without that feature must call from
//! `unsafe`; here all are `unsafe`, so that callers look the same.

#![allow(non_camel_case_types)]

use half::f16;
use std::array::from_fn;

macro_rules! types {
    ($($name:ident: [$t:ty; $lanes:literal])*) => {$(
        #[derive(Clone, Copy)]
        pub struct $name([$t; $lanes]);
    )*};
}

types! {
    float16x4_t: [f16; 4]
    float32x2_t: [f32; 2]
    float32x4_t: [f32; 4]
    float64x2_t: [f64; 2]
    uint16x4_t: [u16; 4]
    uint32x4_t: [u32; 4]
    uint64x2_t: [u64; 2]
}

/// Defines functions that work lane by lane: `name(parameters) -> type = |lane of each parameter| lane of the
/// result`.
macro_rules! lane_by_lane {
    ($($name:ident($($p:ident: $t:ty),+) -> $to:ident = $lane:expr;)*) => {$(
        pub unsafe fn $name($($p: $t),+) -> $to {
            $to(from_fn(|i| $lane($($p.0[i]),+)))
        }
    )*};
}

lane_by_lane! {
    vadd_f32(a: float32x2_t, b: float32x2_t) -> float32x2_t = |a: f32, b: f32| a + b;
    vaddq_f32(a: float32x4_t, b: float32x4_t) -> float32x4_t = |a: f32, b: f32| a + b;
    vaddq_f64(a: float64x2_t, b: float64x2_t) -> float64x2_t = |a: f64, b: f64| a + b;
    vsubq_f32(a: float32x4_t, b: float32x4_t) -> float32x4_t = |a: f32, b: f32| a - b;
    vsubq_f64(a: float64x2_t, b: float64x2_t) -> float64x2_t = |a: f64, b: f64| a - b;
    vmulq_f32(a: float32x4_t, b: float32x4_t) -> float32x4_t = |a: f32, b: f32| a * b;
    vmulq_f64(a: float64x2_t, b: float64x2_t) -> float64x2_t = |a: f64, b: f64| a * b;
    vdivq_f32(a: float32x4_t, b: float32x4_t) -> float32x4_t = |a: f32, b: f32| a / b;
    vdivq_f64(a: float64x2_t, b: float64x2_t) -> float64x2_t = |a: f64, b: f64| a / b;
    vsqrtq_f32(a: float32x4_t) -> float32x4_t = f32::sqrt;
    vsqrtq_f64(a: float64x2_t) -> float64x2_t = f64::sqrt;
    vfmaq_f32(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t = |a, b: f32, c| b.mul_add(c, a);
    vfmaq_f64(a: float64x2_t, b: float64x2_t, c: float64x2_t) -> float64x2_t = |a, b: f64, c| b.mul_add(c, a);
    vfmsq_f32(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t = |a, b: f32, c| (-b).mul_add(c, a);
    vfmsq_f64(a: float64x2_t, b: float64x2_t, c: float64x2_t) -> float64x2_t = |a, b: f64, c| (-b).mul_add(c, a);

    vceqq_f32(a: float32x4_t, b: float32x4_t) -> uint32x4_t = |a: f32, b: f32| if a == b { u32::MAX } else { 0 };
    vcltzq_f32(a: float32x4_t) -> uint32x4_t = |a: f32| if a < 0.0 { u32::MAX } else { 0 };
    vcltzq_f64(a: float64x2_t) -> uint64x2_t = |a: f64| if a < 0.0 { u64::MAX } else { 0 };
    vcltq_u32(a: uint32x4_t, b: uint32x4_t) -> uint32x4_t = |a: u32, b: u32| if a < b { u32::MAX } else { 0 };
    vcltq_u64(a: uint64x2_t, b: uint64x2_t) -> uint64x2_t = |a: u64, b: u64| if a < b { u64::MAX } else { 0 };

    vcltq_f32(a: float32x4_t, b: float32x4_t) -> uint32x4_t = |a: f32, b: f32| if a < b { u32::MAX } else { 0 };
    vcltq_f64(a: float64x2_t, b: float64x2_t) -> uint64x2_t = |a: f64, b: f64| if a < b { u64::MAX } else { 0 };
    vbslq_f32(a: uint32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t = |a: u32, b, c| if a != 0 { b } else { c };
    vbslq_f64(a: uint64x2_t, b: float64x2_t, c: float64x2_t) -> float64x2_t = |a: u64, b, c| if a != 0 { b } else { c };

    vaddq_u64(a: uint64x2_t, b: uint64x2_t) -> uint64x2_t = u64::wrapping_add;
    vaddq_u32(a: uint32x4_t, b: uint32x4_t) -> uint32x4_t = u32::wrapping_add;
    vandq_u32(a: uint32x4_t, b: uint32x4_t) -> uint32x4_t = |a: u32, b: u32| a & b;
    vandq_u64(a: uint64x2_t, b: uint64x2_t) -> uint64x2_t = |a: u64, b: u64| a & b;
    vorrq_u32(a: uint32x4_t, b: uint32x4_t) -> uint32x4_t = |a: u32, b: u32| a | b;
    vbicq_u32(a: uint32x4_t, b: uint32x4_t) -> uint32x4_t = |a: u32, b: u32| a & !b;
    vbicq_u64(a: uint64x2_t, b: uint64x2_t) -> uint64x2_t = |a: u64, b: u64| a & !b;
    vbslq_u32(a: uint32x4_t, b: uint32x4_t, c: uint32x4_t) -> uint32x4_t = |a: u32, b, c| a & b | !a & c;

    vreinterpretq_u32_f32(a: float32x4_t) -> uint32x4_t = f32::to_bits;
    vreinterpretq_f32_u32(a: uint32x4_t) -> float32x4_t = f32::from_bits;
    vreinterpretq_u64_f64(a: float64x2_t) -> uint64x2_t = f64::to_bits;
    vreinterpretq_f64_u64(a: uint64x2_t) -> float64x2_t = f64::from_bits;
    vreinterpret_f16_u16(a: uint16x4_t) -> float16x4_t = f16::from_bits;
    vreinterpret_u16_f16(a: float16x4_t) -> uint16x4_t = f16::to_bits;
    vcvt_f32_f16(a: float16x4_t) -> float32x4_t = f16::to_f32;
    vcvt_f16_f32(a: float32x4_t) -> float16x4_t = f16::from_f32;
}

/// Defines broadcasts, and loads and stores of a whole vector.
macro_rules! memory {
    ($($v:ident of $t:ty: $($dup:ident)?, $load:ident, $($store:ident)?;)*) => {$(
        $(pub unsafe fn $dup(value: $t) -> $v {
            $v([value; _])
        })?
        pub unsafe fn $load(ptr: *const $t) -> $v {
            // SAFETY: the caller guarantees that the memory is valid.
            $v(from_fn(|i| unsafe { *ptr.add(i) }))
        }
        $(pub unsafe fn $store(ptr: *mut $t, a: $v) {
            for (i, lane) in a.0.into_iter().enumerate() {
                // SAFETY: the caller guarantees that the memory is valid.
                unsafe { *ptr.add(i) = lane }
            }
        })?
    )*};
}

memory! {
    float32x4_t of f32: vdupq_n_f32, vld1q_f32, vst1q_f32;
    float64x2_t of f64: vdupq_n_f64, vld1q_f64, vst1q_f64;
    uint16x4_t of u16: , vld1_u16, vst1_u16;
    uint32x4_t of u32: vdupq_n_u32, vld1q_u32, ;
    uint64x2_t of u64: vdupq_n_u64, vld1q_u64, ;
}

/// Defines loads and stores of one lane.
macro_rules! one_lane {
    ($($v:ident of $t:ty: $load:ident, $store:ident;)*) => {$(
        pub unsafe fn $load<const LANE: i32>(ptr: *const $t, mut src: $v) -> $v {
            // SAFETY: the caller guarantees that the element is valid.
            src.0[LANE as usize] = unsafe { *ptr };
            src
        }
        pub unsafe fn $store<const LANE: i32>(a: *mut $t, b: $v) {
            // SAFETY: the caller guarantees that the element is valid.
            unsafe { *a = b.0[LANE as usize] }
        }
    )*};
}

one_lane! {
    float32x4_t of f32: vld1q_lane_f32, vst1q_lane_f32;
    float64x2_t of f64: vld1q_lane_f64, vst1q_lane_f64;
}

pub unsafe fn vget_lane_f32<const IMM5: i32>(v: float32x2_t) -> f32 {
    v.0[IMM5 as usize]
}

pub unsafe fn vgetq_lane_f64<const IMM5: i32>(v: float64x2_t) -> f64 {
    v.0[IMM5 as usize]
}

pub unsafe fn vget_low_f32(a: float32x4_t) -> float32x2_t {
    float32x2_t([a.0[0], a.0[1]])
}

pub unsafe fn vget_high_f32(a: float32x4_t) -> float32x2_t {
    float32x2_t([a.0[2], a.0[3]])
}

pub unsafe fn vcombine_f32(a: float32x2_t, b: float32x2_t) -> float32x4_t {
    float32x4_t([a.0[0], a.0[1], b.0[0], b.0[1]])
}

pub unsafe fn vpaddq_f32(a: float32x4_t, b: float32x4_t) -> float32x4_t {
    float32x4_t([a.0[0] + a.0[1], a.0[2] + a.0[3], b.0[0] + b.0[1], b.0[2] + b.0[3]])
}

pub unsafe fn vpaddq_f64(a: float64x2_t, b: float64x2_t) -> float64x2_t {
    float64x2_t([a.0[0] + a.0[1], b.0[0] + b.0[1]])
}

pub unsafe fn vshlq_n_u32<const N: i32>(a: uint32x4_t) -> uint32x4_t {
    uint32x4_t(a.0.map(|lane| lane << N))
}

pub unsafe fn vshlq_n_u64<const N: i32>(a: uint64x2_t) -> uint64x2_t {
    uint64x2_t(a.0.map(|lane| lane << N))
}

pub unsafe fn vshrq_n_u32<const N: i32>(a: uint32x4_t) -> uint32x4_t {
    const { assert!(N >= 1 && N <= 32) };
    uint32x4_t(a.0.map(|a| a.checked_shr(N as u32).unwrap_or(0)))
}

pub unsafe fn vshll_n_u16<const N: i32>(a: uint16x4_t) -> uint32x4_t {
    const { assert!(N >= 0 && N <= 16) };
    uint32x4_t(a.0.map(|a| u32::from(a) << N))
}

pub unsafe fn vshrn_n_u32<const N: i32>(a: uint32x4_t) -> uint16x4_t {
    const { assert!(N >= 1 && N <= 16) };
    uint16x4_t(a.0.map(|a| (a >> N) as u16))
}
