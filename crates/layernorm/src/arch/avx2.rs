//! AVX2 with FMA and F16C: 256-bit vectors.

use crate::kernels::vector::{MAX_LANES, Simd, Vector};
use half::{bf16, f16};
use std::arch::x86_64::*;

/// The instruction set AVX2 with FMA and F16C.
#[derive(Clone, Copy)]
pub struct Avx2;

/// Eight f32.
#[derive(Clone, Copy)]
pub struct F32x8(__m256);

/// Four f64.
#[derive(Clone, Copy)]
pub struct F64x4(__m256d);

/// Returns the mask of the first n of eight lanes.
#[inline(always)]
fn first_8(n: usize) -> __m256i {
    // SAFETY: a mask is created only where the machine has the instruction set.
    unsafe { _mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)) }
}

/// Returns the mask of the first n of four lanes.
#[inline(always)]
fn first_4(n: usize) -> __m256i {
    // SAFETY: a mask is created only where the machine has the instruction set.
    unsafe { _mm256_cmpgt_epi64(_mm256_set1_epi64x(n as i64), _mm256_setr_epi64x(0, 1, 2, 3)) }
}

// SAFETY: the type holds `LANES` lanes and is private to this crate.
unsafe impl Vector for F32x8 {
    type Elem = f32;
    const LANES: usize = 8;

    #[inline(always)]
    fn splat(x: f32) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { _mm256_set1_ps(x) })
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: the caller guarantees that the memory is valid.
        Self(unsafe { _mm256_loadu_ps(p) })
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: the caller guarantees that the memory is valid.
        unsafe { _mm256_storeu_ps(p, self.0) }
    }
    #[inline(always)]
    unsafe fn stream(self, p: *mut f32) {
        // SAFETY: the caller guarantees valid, aligned memory.
        unsafe { _mm256_stream_ps(p, self.0) }
    }
    #[inline(always)]
    unsafe fn load_first(p: *const f32, n: usize) -> Self {
        // SAFETY: the mask keeps the load inside the n elements that the caller guarantees.
        Self(unsafe { _mm256_maskload_ps(p, first_8(n)) })
    }
    #[inline(always)]
    unsafe fn store_first(self, p: *mut f32, n: usize) {
        // SAFETY: the mask keeps the store inside the n elements that the caller guarantees.
        unsafe { _mm256_maskstore_ps(p, first_8(n), self.0) }
    }
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { _mm256_add_ps(self.0, b.0) })
    }
    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { _mm256_sub_ps(self.0, b.0) })
    }
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { _mm256_mul_ps(self.0, b.0) })
    }
    #[inline(always)]
    fn div(self, b: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { _mm256_div_ps(self.0, b.0) })
    }
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { _mm256_fmadd_ps(self.0, b.0, c.0) })
    }
    #[inline(always)]
    fn neg_fma(self, b: Self, c: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { _mm256_fnmadd_ps(self.0, b.0, c.0) })
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { _mm256_sqrt_ps(self.0) })
    }
    #[inline(always)]
    fn or_zero(self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set. If an operand is NaN, the second one is returned.
        Self(unsafe { _mm256_max_ps(_mm256_setzero_ps(), self.0) })
    }
    #[inline(always)]
    fn at_least(self, limit: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set. If an operand is NaN, the second one is returned.
        Self(unsafe { _mm256_max_ps(limit.0, self.0) })
    }
    #[inline(always)]
    fn at_most(self, limit: Self) -> Self {
        // SAFETY: as `at_least`.
        Self(unsafe { _mm256_min_ps(limit.0, self.0) })
    }
    #[inline(always)]
    fn power_of_two(self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        unsafe {
            let exponent = _mm256_slli_epi32::<23>(_mm256_castps_si256(self.0));
            Self(_mm256_castsi256_ps(_mm256_add_epi32(exponent, _mm256_castps_si256(_mm256_set1_ps(1.0)))))
        }
    }
    #[inline(always)]
    fn keep_first(self, n: usize) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { _mm256_and_ps(self.0, _mm256_castsi256_ps(first_8(n))) })
    }
    #[inline(always)]
    fn fold(self) -> f32 {
        // SAFETY: a vector exists only where the machine has the instruction set.
        unsafe {
            let v = _mm_add_ps(_mm256_castps256_ps128(self.0), _mm256_extractf128_ps::<1>(self.0));
            let v = _mm_add_ps(v, _mm_movehl_ps(v, v));
            _mm_cvtss_f32(_mm_add_ss(v, _mm_movehdup_ps(v)))
        }
    }
    /// One addition folds the halves of two vectors, the next one the quarters, and so on: 7 additions for 8 vectors.
    #[inline(always)]
    fn fold_each(rows: &[Self; MAX_LANES]) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        unsafe {
            let a = pairs(halves(rows[0], rows[1]), halves(rows[2], rows[3]));
            let b = pairs(halves(rows[4], rows[5]), halves(rows[6], rows[7]));
            // Vector 2i + j is now in lane 4j + i.
            let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
            Self(_mm256_permutevar8x32_ps(ones(a, b), order))
        }
    }
}

// SAFETY: the type holds `LANES` lanes and is private to this crate.
unsafe impl Vector for F64x4 {
    type Elem = f64;
    const LANES: usize = 4;

    #[inline(always)]
    fn splat(x: f64) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { _mm256_set1_pd(x) })
    }
    #[inline(always)]
    unsafe fn load(p: *const f64) -> Self {
        // SAFETY: the caller guarantees that the memory is valid.
        Self(unsafe { _mm256_loadu_pd(p) })
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f64) {
        // SAFETY: the caller guarantees that the memory is valid.
        unsafe { _mm256_storeu_pd(p, self.0) }
    }
    #[inline(always)]
    unsafe fn stream(self, p: *mut f64) {
        // SAFETY: the caller guarantees valid, aligned memory.
        unsafe { _mm256_stream_pd(p, self.0) }
    }
    #[inline(always)]
    unsafe fn load_first(p: *const f64, n: usize) -> Self {
        // SAFETY: the mask keeps the load inside the n elements that the caller guarantees.
        Self(unsafe { _mm256_maskload_pd(p, first_4(n)) })
    }
    #[inline(always)]
    unsafe fn store_first(self, p: *mut f64, n: usize) {
        // SAFETY: the mask keeps the store inside the n elements that the caller guarantees.
        unsafe { _mm256_maskstore_pd(p, first_4(n), self.0) }
    }
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { _mm256_add_pd(self.0, b.0) })
    }
    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { _mm256_sub_pd(self.0, b.0) })
    }
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { _mm256_mul_pd(self.0, b.0) })
    }
    #[inline(always)]
    fn div(self, b: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { _mm256_div_pd(self.0, b.0) })
    }
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { _mm256_fmadd_pd(self.0, b.0, c.0) })
    }
    #[inline(always)]
    fn neg_fma(self, b: Self, c: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { _mm256_fnmadd_pd(self.0, b.0, c.0) })
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { _mm256_sqrt_pd(self.0) })
    }
    #[inline(always)]
    fn or_zero(self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set. If an operand is NaN, the second one is returned.
        Self(unsafe { _mm256_max_pd(_mm256_setzero_pd(), self.0) })
    }
    #[inline(always)]
    fn at_least(self, limit: Self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set. If an operand is NaN, the second one is returned.
        Self(unsafe { _mm256_max_pd(limit.0, self.0) })
    }
    #[inline(always)]
    fn at_most(self, limit: Self) -> Self {
        // SAFETY: as `at_least`.
        Self(unsafe { _mm256_min_pd(limit.0, self.0) })
    }
    #[inline(always)]
    fn power_of_two(self) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        unsafe {
            let exponent = _mm256_slli_epi64::<52>(_mm256_castpd_si256(self.0));
            Self(_mm256_castsi256_pd(_mm256_add_epi64(exponent, _mm256_castpd_si256(_mm256_set1_pd(1.0)))))
        }
    }
    #[inline(always)]
    fn keep_first(self, n: usize) -> Self {
        // SAFETY: a vector exists only where the machine has the instruction set.
        Self(unsafe { _mm256_and_pd(self.0, _mm256_castsi256_pd(first_4(n))) })
    }
    #[inline(always)]
    fn fold(self) -> f64 {
        // SAFETY: a vector exists only where the machine has the instruction set.
        unsafe {
            let v = _mm_add_pd(_mm256_castpd256_pd128(self.0), _mm256_extractf128_pd::<1>(self.0));
            _mm_cvtsd_f64(_mm_add_sd(v, _mm_unpackhi_pd(v, v)))
        }
    }
}

/// Adds the upper half of each vector to its lower half: four lanes of a, then four of b.
#[inline(always)]
unsafe fn halves(a: F32x8, b: F32x8) -> __m256 {
    // SAFETY: the caller is a kernel of this instruction set; the same holds for the functions below.
    unsafe { _mm256_add_ps(_mm256_permute2f128_ps::<0x20>(a.0, b.0), _mm256_permute2f128_ps::<0x31>(a.0, b.0)) }
}

/// Folds one level further, for two pairs of vectors: two lanes each.
#[inline(always)]
unsafe fn pairs(a: __m256, b: __m256) -> __m256 {
    // SAFETY: see `halves`.
    unsafe {
        let (a, b) = (_mm256_castps_pd(a), _mm256_castps_pd(b));
        _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(a, b)), _mm256_castpd_ps(_mm256_unpackhi_pd(a, b)))
    }
}

/// Folds the last level: one lane each.
#[inline(always)]
unsafe fn ones(a: __m256, b: __m256) -> __m256 {
    // SAFETY: see `halves`.
    unsafe { _mm256_add_ps(_mm256_shuffle_ps::<0x88>(a, b), _mm256_shuffle_ps::<0xDD>(a, b)) }
}

/// Rounds to bf16, ties to even; a NaN keeps its upper bits and becomes quiet.
#[inline(always)]
fn to_bf16(v: __m256) -> __m128i {
    // SAFETY: a vector exists only where the machine has the instruction set.
    unsafe {
        let bits = _mm256_castps_si256(v);
        let upper = _mm256_srli_epi32::<16>(bits);
        let odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
        let rounded = _mm256_srli_epi32::<16>(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF))));
        let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(v, v));
        let quiet = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
        let wide = _mm256_blendv_epi8(rounded, quiet, nan);
        _mm_packus_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256::<1>(wide))
    }
}

// SAFETY: as above.
unsafe impl Simd for Avx2 {
    type F32 = F32x8;
    type F64 = F64x4;
    #[inline(always)]
    unsafe fn load_f16(p: *const f16) -> F32x8 {
        // SAFETY: the caller guarantees 8 valid elements.
        F32x8(unsafe { _mm256_cvtph_ps(_mm_loadu_si128(p.cast())) })
    }
    #[inline(always)]
    unsafe fn store_f16(p: *mut f16, v: F32x8) {
        // SAFETY: the caller guarantees 8 valid elements.
        unsafe { _mm_storeu_si128(p.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v.0)) }
    }
    #[inline(always)]
    unsafe fn stream_f16(p: *mut f16, v: F32x8) {
        // SAFETY: the caller guarantees 8 valid elements, aligned.
        unsafe { _mm_stream_si128(p.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v.0)) }
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const bf16) -> F32x8 {
        // SAFETY: the caller guarantees 8 valid elements. A bf16 is the upper half of an f32.
        unsafe {
            let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast()));
            F32x8(_mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide)))
        }
    }
    #[inline(always)]
    unsafe fn store_bf16(p: *mut bf16, v: F32x8) {
        // SAFETY: the caller guarantees 8 valid elements.
        unsafe { _mm_storeu_si128(p.cast(), to_bf16(v.0)) }
    }
    #[inline(always)]
    unsafe fn stream_bf16(p: *mut bf16, v: F32x8) {
        // SAFETY: the caller guarantees 8 valid elements, aligned.
        unsafe { _mm_stream_si128(p.cast(), to_bf16(v.0)) }
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
