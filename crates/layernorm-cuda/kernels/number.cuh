// Element types, arithmetic types, and exact powers of two.
//
// f16, bf16 and f32 are widened to f32; f64 stays f64. Compiled without contraction, so + and * are rounded separately,
// and `fused` is the only fused operation.
#pragma once

#define F32 0
#define F16 1
#define BF16 2
#define F64 3

typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

struct half_t { u16 bits; };
struct bfloat_t { u16 bits; };

#if ELEM == F64
typedef double T;
typedef double A;
#elif ELEM == F16
typedef half_t T;
typedef float A;
#elif ELEM == BF16
typedef bfloat_t T;
typedef float A;
#else
typedef float T;
typedef float A;
#endif

// A vector: the contiguous elements that a thread accesses at once. Streaming rows, and some short ones, use vectors of
// four elements, so that threads of 16-bit types hold as few lanes of a sum as those of f32, and folding costs as
// little.
#ifndef WORD_BYTES
#define WORD_BYTES 16
#endif
constexpr int VEC = WORD_BYTES / sizeof(T);

// ---- widening is exact, narrowing rounds once, to nearest even ----

__device__ inline float widen(float x) { return x; }
__device__ inline double widen(double x) { return x; }
__device__ inline float widen(bfloat_t x) { return __uint_as_float(u32(x.bits) << 16); }
__device__ inline float widen(half_t x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}

__device__ inline void narrow(float x, float& y) { y = x; }
__device__ inline void narrow(double x, double& y) { y = x; }
__device__ inline void narrow(double x, float& y) { y = float(x); }
__device__ inline void narrow(float x, bfloat_t& y) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); }
__device__ inline void narrow(float x, half_t& y) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); }

// A vector as it lies in memory. A built-in type, so that it is loaded and stored as a whole.
#if WORD_BYTES == 8
typedef uint2 Words;
#else
typedef uint4 Words;
#endif

#if ELEM == BF16
__device__ inline void unpack_two(u32 from, A& low, A& high) {
    low = __uint_as_float(from << 16);
    high = __uint_as_float(from & 0xffff0000u);
}
__device__ inline u32 pack_two(A low, A high) {
    u32 to;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(to) : "f"(high), "f"(low));
    return to;
}
#elif ELEM == F16
__device__ inline void unpack_two(u32 from, A& low, A& high) {
    low = widen(half_t{u16(from)});
    high = widen(half_t{u16(from >> 16)});
}
__device__ inline u32 pack_two(A low, A high) {
    u32 to;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(to) : "f"(high), "f"(low));
    return to;
}
#endif

__device__ inline void unpack(const Words& from, A (&to)[VEC]) {
#if ELEM == F64
    to[0] = __hiloint2double(from.y, from.x);
    to[1] = __hiloint2double(from.w, from.z);
#elif ELEM == F32
    to[0] = __uint_as_float(from.x);
    to[1] = __uint_as_float(from.y);
    to[2] = __uint_as_float(from.z);
    to[3] = __uint_as_float(from.w);
#else
    unpack_two(from.x, to[0], to[1]);
    unpack_two(from.y, to[2], to[3]);
#if WORD_BYTES == 16
    unpack_two(from.z, to[4], to[5]);
    unpack_two(from.w, to[6], to[7]);
#endif
#endif
}

__device__ inline Words pack(const A (&from)[VEC]) {
#if ELEM == F64
    return Words{u32(__double2loint(from[0])), u32(__double2hiint(from[0])), u32(__double2loint(from[1])), u32(__double2hiint(from[1]))};
#elif ELEM == F32
    return Words{__float_as_uint(from[0]), __float_as_uint(from[1]), __float_as_uint(from[2]), __float_as_uint(from[3])};
#elif WORD_BYTES == 8
    return Words{pack_two(from[0], from[1]), pack_two(from[2], from[3])};
#else
    return Words{pack_two(from[0], from[1]), pack_two(from[2], from[3]), pack_two(from[4], from[5]), pack_two(from[6], from[7])};
#endif
}

// ---- the arithmetic type ----

#if ELEM == F64
#define LEAST_RSTD 0x1p-512
#define LEAST_VARIANCE 0x1p-512
#define MOST_RSTD 0x1p256
#define MIN_POSITIVE 0x1p-1022
__device__ inline A nan_value() { return __longlong_as_double(0x7ff8000000000000ll); }
#else
#define LEAST_RSTD 0x1p-64f
#define LEAST_VARIANCE 0x1p-64f
#define MOST_RSTD 0x1p32f
#define MIN_POSITIVE 0x1p-126f
__device__ inline A nan_value() { return __uint_as_float(0x7fc00000u); }
#endif

__device__ inline float magnitude(float x) { return fabsf(x); }
__device__ inline double magnitude(double x) { return fabs(x); }
__device__ inline float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ inline double fused(double a, double b, double c) { return __fma_rn(a, b, c); }
__device__ inline float root(float x) { return __fsqrt_rn(x); }
__device__ inline double root(double x) { return __dsqrt_rn(x); }
__device__ inline bool finite(float x) { return (__float_as_uint(x) & 0x7f800000u) != 0x7f800000u; }
__device__ inline bool finite(double x) { return (__double2hiint(x) & 0x7ff00000) != 0x7ff00000; }

// ⌊log₂ |x|⌋ of a finite nonzero x.
__device__ inline int exponent(double x) {
    int up = 0;
    if (fabs(x) < 0x1p-1022) {
        x *= 0x1p54;
        up = 54;
    }
    return ((__double2hiint(x) >> 20) & 0x7ff) - 1023 - up;
}
__device__ inline int exponent(float x) { return exponent(double(x)); }

__device__ inline double power_of_two(int e) { return __hiloint2double((e + 1023) << 20, 0); }

// x·2^e, rounded once. For f32 the product is exact in f64.
__device__ inline float scale(float x, int e) {
    e = e > 600 ? 600 : e < -600 ? -600 : e;
    return float(double(x) * power_of_two(e));
}
// Every step but the last is exact, because it keeps the number normal.
__device__ __noinline__ double scale(double x, int e) {
    if (x == 0 || !finite(x)) return x;
    while (e > 0) {
        int step = e < 1022 ? e : 1022;
        x *= power_of_two(step);
        e -= step;
        if (!finite(x)) return x;
    }
    while (e < 0) {
        int room = exponent(x) + 1022;
        int step = -e;
        if (room > 0) {
            step = step < room ? step : room;
            step = step < 1022 ? step : 1022;
        }
        if (step > 1022) return x * power_of_two(-1022) * power_of_two(-1022);
        x *= power_of_two(-step);
        e += step;
    }
    return x;
}

// The exponent that brings a largest magnitude into [1, 2); 0 for zero.
__device__ inline int power(A max) { return max == 0 ? 0 : -exponent(max); }

// ---- rule 6 ----

// Whether a row with this v + ε ≥ 0 is extreme: not finite, or below LEAST_VARIANCE. Decided from the exponent bits.
__device__ inline bool is_extreme(float variance) { return __float_as_uint(variance) - 0x1f800000u >= 0x7f800000u - 0x1f800000u; }
__device__ inline bool is_extreme(double variance) { return u32(__double2hiint(variance)) - 0x1ff00000u >= 0x7ff00000u - 0x1ff00000u; }

// Whether the saved r says that the row was large or small.
__device__ inline bool was_scaled(A r, A eps) { return r < LEAST_RSTD || (eps < LEAST_VARIANCE && r > MOST_RSTD); }

// The exponent k for a row with this largest magnitude; ε > 0 is scaled to at most [1, 4).
__device__ inline int scaling_power(A max, A eps) {
    int k = power(max);
    if (eps > 0) {
        int most = -(exponent(eps) >> 1);
        k = k < most ? k : most;
    }
    return k;
}

// ε for a row scaled by 2^k.
__device__ inline A scaled_eps(A eps, int k) {
    A scaled = scale(eps, 2 * k);
    return k < 0 && eps > 0 && scaled < MIN_POSITIVE ? A(MIN_POSITIVE) : scaled;
}

// N, and 1/N if N is a power of two, else 0: multiplying by it then gives the bits of the quotient.
struct Count { A n; A inverse; };
__device__ inline A divide(A sum, const Count& count) { return count.inverse != 0 ? sum * count.inverse : sum / count.n; }

// Type of gain and bias. 0: absent, 1: the element type, 2: f32.
template <int KIND> struct ParamType { typedef float type; };
template <> struct ParamType<1> { typedef T type; };

template <int KIND> __device__ inline A parameter(const void* from, i64 at, A absent) {
    if (KIND == 0) return absent;
    return A(widen(((const typename ParamType<KIND>::type*)from)[at]));
}

// Zero-centered gain: 1 + γ takes the place of γ.
__device__ inline A gain_of(A gain) { return ONE_PLUS ? A(1) + gain : gain; }

// ---- programmatic dependent launch (Launch::overlapping); these do nothing in ordinary launches ----

// Waits until all earlier launches on the stream have ended and their writes are visible.
__device__ inline void wait_for_earlier() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// Allows the next launch to start. Row kernels call it after `wait_for_earlier`, so that a launch that reads before it waits
// (down.cuh) finds everything before the row kernel complete.
__device__ inline void let_next_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
