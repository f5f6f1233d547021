//! A model in plain Rust of the intrinsics that `simd128.rs` uses, so that its tests run on every machine.
//!
//! Names, parameters and results are those of `std::arch::wasm32`.

#![allow(non_camel_case_types)]

/// 16 bytes; lane 0 comes first.
#[derive(Clone, Copy)]
pub struct v128([u8; 16]);

macro_rules! lanes {
    ($($to:ident $from:ident: [$t:ty; $lanes:literal])*) => {$(
        fn $to(v: v128) -> [$t; $lanes] {
            let (parts, _) = v.0.as_chunks();
            std::array::from_fn(|i| <$t>::from_le_bytes(parts[i]))
        }
        fn $from(lanes: [$t; $lanes]) -> v128 {
            let mut bytes = [0; 16];
            bytes.as_chunks_mut().0.iter_mut().zip(lanes).for_each(|(part, lane)| *part = lane.to_le_bytes());
            v128(bytes)
        }
    )*};
}

lanes! {
    f32s of_f32s: [f32; 4]
    f64s of_f64s: [f64; 2]
    u32s of_u32s: [u32; 4]
    u64s of_u64s: [u64; 2]
}

/// Defines functions that work lane by lane: `name(parameters) = read, write, |lanes| lane of the result`.
macro_rules! lane_by_lane {
    ($($name:ident($($p:ident),+) = $read:ident, $write:ident, $lane:expr;)*) => {$(
        pub fn $name($($p: v128),+) -> v128 {
            $(let $p = $read($p);)+
            $write(std::array::from_fn(|i| $lane($($p[i]),+)))
        }
    )*};
}

lane_by_lane! {
    f32x4_add(a, b) = f32s, of_f32s, |a: f32, b: f32| a + b;
    f32x4_sub(a, b) = f32s, of_f32s, |a: f32, b: f32| a - b;
    f32x4_mul(a, b) = f32s, of_f32s, |a: f32, b: f32| a * b;
    f32x4_div(a, b) = f32s, of_f32s, |a: f32, b: f32| a / b;
    f32x4_neg(a) = f32s, of_f32s, |a: f32| -a;
    f32x4_sqrt(a) = f32s, of_f32s, f32::sqrt;
    f32x4_lt(a, b) = f32s, of_u32s, |a: f32, b: f32| if a < b { u32::MAX } else { 0 };
    f32x4_gt(a, b) = f32s, of_u32s, |a: f32, b: f32| if a > b { u32::MAX } else { 0 };
    f64x2_add(a, b) = f64s, of_f64s, |a: f64, b: f64| a + b;
    f64x2_sub(a, b) = f64s, of_f64s, |a: f64, b: f64| a - b;
    f64x2_mul(a, b) = f64s, of_f64s, |a: f64, b: f64| a * b;
    f64x2_div(a, b) = f64s, of_f64s, |a: f64, b: f64| a / b;
    f64x2_neg(a) = f64s, of_f64s, |a: f64| -a;
    f64x2_abs(a) = f64s, of_f64s, f64::abs;
    f64x2_sqrt(a) = f64s, of_f64s, f64::sqrt;
    f64x2_lt(a, b) = f64s, of_u64s, |a: f64, b: f64| if a < b { u64::MAX } else { 0 };
    f64x2_gt(a, b) = f64s, of_u64s, |a: f64, b: f64| if a > b { u64::MAX } else { 0 };
    v128_and(a, b) = u64s, of_u64s, |a: u64, b: u64| a & b;
    v128_or(a, b) = u64s, of_u64s, |a: u64, b: u64| a | b;
    v128_xor(a, b) = u64s, of_u64s, |a: u64, b: u64| a ^ b;
    v128_andnot(a, b) = u64s, of_u64s, |a: u64, b: u64| a & !b;
    v128_bitselect(a, b, mask) = u64s, of_u64s, |a: u64, b: u64, mask: u64| a & mask | b & !mask;
    i32x4_add(a, b) = u32s, of_u32s, u32::wrapping_add;
    u32x4_lt(a, b) = u32s, of_u32s, |a: u32, b: u32| if a < b { u32::MAX } else { 0 };
    i64x2_add(a, b) = u64s, of_u64s, u64::wrapping_add;
    i64x2_sub(a, b) = u64s, of_u64s, u64::wrapping_sub;
}

pub fn f32x4(a: f32, b: f32, c: f32, d: f32) -> v128 {
    of_f32s([a, b, c, d])
}

pub fn u32x4(a: u32, b: u32, c: u32, d: u32) -> v128 {
    of_u32s([a, b, c, d])
}

pub fn f64x2(a: f64, b: f64) -> v128 {
    of_f64s([a, b])
}

pub fn f32x4_splat(x: f32) -> v128 {
    of_f32s([x; 4])
}

pub fn u32x4_splat(x: u32) -> v128 {
    of_u32s([x; 4])
}

pub fn f64x2_splat(x: f64) -> v128 {
    of_f64s([x; 2])
}

pub fn f32x4_extract_lane<const LANE: usize>(v: v128) -> f32 {
    f32s(v)[LANE]
}

pub fn f64x2_extract_lane<const LANE: usize>(v: v128) -> f64 {
    f64s(v)[LANE]
}

/// The count is taken modulo the number of bits.
pub fn i32x4_shl(v: v128, count: u32) -> v128 {
    of_u32s(u32s(v).map(|lane| lane << (count % 32)))
}

/// The count is taken modulo the number of bits.
pub fn i64x2_shl(v: v128, count: u32) -> v128 {
    of_u64s(u64s(v).map(|lane| lane << (count % 64)))
}

/// The count is taken modulo the number of bits.
pub fn u64x2_shr(v: v128, count: u32) -> v128 {
    of_u64s(u64s(v).map(|lane| lane >> (count % 64)))
}

/// Lanes 0 and 1 are those of a, 2 and 3 those of b.
pub fn i64x2_shuffle<const I: usize, const J: usize>(a: v128, b: v128) -> v128 {
    let lanes = [u64s(a), u64s(b)].concat();
    of_u64s([lanes[I], lanes[J]])
}

/// Lanes 0 to 3 are those of a, 4 to 7 those of b.
pub fn i32x4_shuffle<const I: usize, const J: usize, const K: usize, const L: usize>(a: v128, b: v128) -> v128 {
    let lanes = [u32s(a), u32s(b)].concat();
    of_u32s([lanes[I], lanes[J], lanes[K], lanes[L]])
}

/// Returns whether no lane is 0.
pub fn i32x4_all_true(v: v128) -> bool {
    u32s(v).iter().all(|&lane| lane != 0)
}

/// Widens lanes 0 and 1.
pub fn f64x2_promote_low_f32x4(v: v128) -> v128 {
    let [a, b, ..] = f32s(v);
    of_f64s([f64::from(a), f64::from(b)])
}

/// Rounds both lanes, to nearest even, to lanes 0 and 1; the others are 0.
pub fn f32x4_demote_f64x2_zero(v: v128) -> v128 {
    let [a, b] = f64s(v);
    of_f32s([a as f32, b as f32, 0.0, 0.0])
}

pub unsafe fn v128_load(p: *const v128) -> v128 {
    // SAFETY: the caller guarantees 16 valid bytes.
    unsafe { p.read_unaligned() }
}

pub unsafe fn v128_store(p: *mut v128, v: v128) {
    // SAFETY: the caller guarantees 16 valid bytes.
    unsafe { p.write_unaligned(v) }
}
