//! AVX-512 (F, BW, DQ, VL), with FMA and F16C: 512-bit vectors, masks for row ends.

use crate::kernels::vector::{MAX_LANES, Simd, Vector};
use half::{bf16, f16};
use std::arch::x86_64::*;

/// The instruction set AVX-512.
#[derive(Clone, Copy)]
pub struct Avx512;

/// Sixteen f32.
#[derive(Clone, Copy)]
pub struct F32x16(__m512);

/// Eight f64.
#[derive(Clone, Copy)]
pub struct F64x8(__m512d);

/// Returns the mask of the first n of sixteen lanes.
#[inline(always)]
fn first_16(n: usize) -> __mmask16 {
    ((1u32 << n) - 1) as __mmask16
}

/// Returns the mask of the first n of eight lanes.
#[inline(always)]
fn first_8(n: usize) -> __mmask8 {
    ((1u32 << n) - 1) as __mmask8
}

// SAFETY: the type holds `LANES` lanes and is private to this crate.
unsafe impl Vector for F32x16 {
    type Elem = f32;
    const LANES: usize = 16;

    #[inline(always)]
    fn splat(x: f32) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { _mm512_set1_ps(x) })
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: the caller guarantees that the memory is valid.
        Self(unsafe { _mm512_loadu_ps(p) })
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: the caller guarantees that the memory is valid.
        unsafe { _mm512_storeu_ps(p, self.0) }
    }
    #[inline(always)]
    unsafe fn stream(self, p: *mut f32) {
        // SAFETY: the caller guarantees valid, aligned memory.
        unsafe { _mm512_stream_ps(p, self.0) }
    }
    #[inline(always)]
    unsafe fn load_first(p: *const f32, n: usize) -> Self {
        // SAFETY: the mask keeps the load inside the n elements that the caller guarantees.
        Self(unsafe { _mm512_maskz_loadu_ps(first_16(n), p) })
    }
    #[inline(always)]
    unsafe fn store_first(self, p: *mut f32, n: usize) {
        // SAFETY: the mask keeps the store inside the n elements that the caller guarantees.
        unsafe { _mm512_mask_storeu_ps(p, first_16(n), self.0) }
    }
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { _mm512_add_ps(self.0, b.0) })
    }
    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { _mm512_sub_ps(self.0, b.0) })
    }
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { _mm512_mul_ps(self.0, b.0) })
    }
    #[inline(always)]
    fn div(self, b: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { _mm512_div_ps(self.0, b.0) })
    }
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { _mm512_fmadd_ps(self.0, b.0, c.0) })
    }
    #[inline(always)]
    fn neg_fma(self, b: Self, c: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { _mm512_fnmadd_ps(self.0, b.0, c.0) })
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { _mm512_sqrt_ps(self.0) })
    }
    #[inline(always)]
    fn or_zero(self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set. If an operand is NaN, the second one is returned.
        Self(unsafe { _mm512_max_ps(_mm512_setzero_ps(), self.0) })
    }
    #[inline(always)]
    fn at_least(self, limit: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set. If an operand is NaN, the second one is returned.
        Self(unsafe { _mm512_max_ps(limit.0, self.0) })
    }
    #[inline(always)]
    fn at_most(self, limit: Self) -> Self {
        // SAFETY: as `at_least`.
        Self(unsafe { _mm512_min_ps(limit.0, self.0) })
    }
    #[inline(always)]
    fn power_of_two(self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        unsafe {
            let exponent = _mm512_slli_epi32::<23>(_mm512_castps_si512(self.0));
            Self(_mm512_castsi512_ps(_mm512_add_epi32(exponent, _mm512_castps_si512(_mm512_set1_ps(1.0)))))
        }
    }
    #[inline(always)]
    fn keep_first(self, n: usize) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { _mm512_maskz_mov_ps(first_16(n), self.0) })
    }
    #[inline(always)]
    fn fold(self) -> f32 {
        // SAFETY: a vector exists only where the machine has the instruction set.
        unsafe {
            let v = _mm256_add_ps(_mm512_castps512_ps256(self.0), _mm512_extractf32x8_ps::<1>(self.0));
            let v = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
            let v = _mm_add_ps(v, _mm_movehl_ps(v, v));
            _mm_cvtss_f32(_mm_add_ss(v, _mm_movehdup_ps(v)))
        }
    }
    /// One addition folds the halves of two vectors, the next one the quarters, and so on: 15 additions for 16
    /// vectors.
    #[inline(always)]
    fn fold_each(rows: &[Self; MAX_LANES]) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        unsafe {
            let a = quarters(halves(rows[0], rows[1]), halves(rows[2], rows[3]));
            let b = quarters(halves(rows[4], rows[5]), halves(rows[6], rows[7]));
            let c = quarters(halves(rows[8], rows[9]), halves(rows[10], rows[11]));
            let d = quarters(halves(rows[12], rows[13]), halves(rows[14], rows[15]));
            let v = ones(pairs(a, b), pairs(c, d));
            // Vector 4i + j is now in lane 4j + i.
            let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
            Self(_mm512_permutexvar_ps(order, v))
        }
    }
}

// SAFETY: the type holds `LANES` lanes and is private to this crate.
unsafe impl Vector for F64x8 {
    type Elem = f64;
    const LANES: usize = 8;

    #[inline(always)]
    fn splat(x: f64) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { _mm512_set1_pd(x) })
    }
    #[inline(always)]
    unsafe fn load(p: *const f64) -> Self {
        // SAFETY: the caller guarantees that the memory is valid.
        Self(unsafe { _mm512_loadu_pd(p) })
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f64) {
        // SAFETY: the caller guarantees that the memory is valid.
        unsafe { _mm512_storeu_pd(p, self.0) }
    }
    #[inline(always)]
    unsafe fn stream(self, p: *mut f64) {
        // SAFETY: the caller guarantees valid, aligned memory.
        unsafe { _mm512_stream_pd(p, self.0) }
    }
    #[inline(always)]
    unsafe fn load_first(p: *const f64, n: usize) -> Self {
        // SAFETY: the mask keeps the load inside the n elements that the caller guarantees.
        Self(unsafe { _mm512_maskz_loadu_pd(first_8(n), p) })
    }
    #[inline(always)]
    unsafe fn store_first(self, p: *mut f64, n: usize) {
        // SAFETY: the mask keeps the store inside the n elements that the caller guarantees.
        unsafe { _mm512_mask_storeu_pd(p, first_8(n), self.0) }
    }
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { _mm512_add_pd(self.0, b.0) })
    }
    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { _mm512_sub_pd(self.0, b.0) })
    }
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { _mm512_mul_pd(self.0, b.0) })
    }
    #[inline(always)]
    fn div(self, b: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { _mm512_div_pd(self.0, b.0) })
    }
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { _mm512_fmadd_pd(self.0, b.0, c.0) })
    }
    #[inline(always)]
    fn neg_fma(self, b: Self, c: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { _mm512_fnmadd_pd(self.0, b.0, c.0) })
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { _mm512_sqrt_pd(self.0) })
    }
    #[inline(always)]
    fn or_zero(self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set. If an operand is NaN, the second one is returned.
        Self(unsafe { _mm512_max_pd(_mm512_setzero_pd(), self.0) })
    }
    #[inline(always)]
    fn at_least(self, limit: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set. If an operand is NaN, the second one is returned.
        Self(unsafe { _mm512_max_pd(limit.0, self.0) })
    }
    #[inline(always)]
    fn at_most(self, limit: Self) -> Self {
        // SAFETY: as `at_least`.
        Self(unsafe { _mm512_min_pd(limit.0, self.0) })
    }
    #[inline(always)]
    fn power_of_two(self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        unsafe {
            let exponent = _mm512_slli_epi64::<52>(_mm512_castpd_si512(self.0));
            Self(_mm512_castsi512_pd(_mm512_add_epi64(exponent, _mm512_castpd_si512(_mm512_set1_pd(1.0)))))
        }
    }
    #[inline(always)]
    fn keep_first(self, n: usize) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { _mm512_maskz_mov_pd(first_8(n), self.0) })
    }
    #[inline(always)]
    fn fold(self) -> f64 {
        // SAFETY: a vector exists only where the machine has the instruction set.
        unsafe {
            let v = _mm256_add_pd(_mm512_castpd512_pd256(self.0), _mm512_extractf64x4_pd::<1>(self.0));
            let v = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd::<1>(v));
            _mm_cvtsd_f64(_mm_add_sd(v, _mm_unpackhi_pd(v, v)))
        }
    }
}

/// Adds the upper half of each vector to its lower half: eight lanes of a, then eight of b.
#[inline(always)]
unsafe fn halves(a: F32x16, b: F32x16) -> __m512 {
    // SAFETY: the caller is a kernel of this instruction set; the same holds for the functions below.
    unsafe { _mm512_add_ps(_mm512_shuffle_f32x4::<0x44>(a.0, b.0), _mm512_shuffle_f32x4::<0xEE>(a.0, b.0)) }
}

/// Folds one level further, for two pairs of vectors: four lanes each.
#[inline(always)]
unsafe fn quarters(a: __m512, b: __m512) -> __m512 {
    // SAFETY: see `halves`.
    unsafe { _mm512_add_ps(_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xDD>(a, b)) }
}

/// Folds one level further: two lanes each.
#[inline(always)]
unsafe fn pairs(a: __m512, b: __m512) -> __m512 {
    // SAFETY: see `halves`.
    unsafe {
        let (a, b) = (_mm512_castps_pd(a), _mm512_castps_pd(b));
        _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)))
    }
}

/// Folds the last level: one lane each.
#[inline(always)]
unsafe fn ones(a: __m512, b: __m512) -> __m512 {
    // SAFETY: see `halves`.
    unsafe { _mm512_add_ps(_mm512_shuffle_ps::<0x88>(a, b), _mm512_shuffle_ps::<0xDD>(a, b)) }
}

/// Rounds to bf16, ties to even; a NaN keeps its upper bits and becomes quiet. (`vcvtneps2bf16` would flush subnormals.)
#[inline(always)]
fn to_bf16(v: __m512) -> __m256i {
    // SAFETY: a vector exists only where the machine has the instruction set.
    unsafe {
        let bits = _mm512_castps_si512(v);
        // Add half a unit, or slightly less where the result is already even.
        let odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x1_0000));
        let up = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF));
        let up = _mm512_mask_add_epi32(up, odd, up, _mm512_set1_epi32(1));
        let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(v, v);
        let up = _mm512_mask_or_epi32(up, nan, bits, _mm512_set1_epi32(0x40_0000));
        _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(up))
    }
}

// SAFETY: as above.
unsafe impl Simd for Avx512 {
    type F32 = F32x16;
    type F64 = F64x8;
    #[inline(always)]
    unsafe fn load_f16(p: *const f16) -> F32x16 {
        // SAFETY: the caller guarantees 16 valid elements.
        F32x16(unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(p.cast())) })
    }
    #[inline(always)]
    unsafe fn store_f16(p: *mut f16, v: F32x16) {
        // SAFETY: the caller guarantees 16 valid elements.
        unsafe { _mm256_storeu_si256(p.cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v.0)) }
    }
    #[inline(always)]
    unsafe fn stream_f16(p: *mut f16, v: F32x16) {
        // SAFETY: the caller guarantees 16 valid elements, aligned.
        unsafe { _mm256_stream_si256(p.cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v.0)) }
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const bf16) -> F32x16 {
        // SAFETY: the caller guarantees 16 valid elements. A bf16 is the upper half of an f32.
        unsafe {
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast()));
            F32x16(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide)))
        }
    }
    #[inline(always)]
    unsafe fn store_bf16(p: *mut bf16, v: F32x16) {
        // SAFETY: the caller guarantees 16 valid elements.
        unsafe { _mm256_storeu_si256(p.cast(), to_bf16(v.0)) }
    }
    #[inline(always)]
    unsafe fn stream_bf16(p: *mut bf16, v: F32x16) {
        // SAFETY: the caller guarantees 16 valid elements, aligned.
        unsafe { _mm256_stream_si256(p.cast(), to_bf16(v.0)) }
    }
    #[inline(always)]
    fn prefetch<T>(p: *const T) {
        // SAFETY: prefetching any address is harmless.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(p.cast()) }
    }
    #[inline(always)]
    fn prefetch_write<T>(p: *mut T) {
        // SAFETY: prefetching any address is harmless; machines without the instruction ignore it.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(p.cast()) }
    }
    #[inline(always)]
    fn stream_fence() {
        // SAFETY: every machine with these vectors has the fence.
        unsafe { _mm_sfence() }
    }
}
