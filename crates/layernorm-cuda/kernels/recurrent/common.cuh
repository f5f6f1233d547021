// Shared by all recurrent kernels: element types, products on tensor cores, messages between blocks.
//
// TYPE is 0 for f32, 1 for f16, 2 for bf16. A word is 32 bits: one f32, or two 16-bit numbers. In words, the fragments
// of m16n8k16 (16 bits) and m16n8k8 (tf32) are the same, so everything here counts k in words:
//   A, lane 4g+t: words (g, t) (g+8, t) (g, t+4) (g+8, t+4)      B: words (t, g) (t+4, g)      C: (g, 2t) (g, 2t+1) (g+8, …)
// The order of k within a product is free as long as A and B agree: a lane reads 16 bytes, words 4t..4t+3 of 16, which
// serve two products ("a pair").
//
// Products of f32 are three tf32 products, of a high and a low part of each number. With TF32 they are one, of numbers
// rounded to 11 bits.
#ifndef TF32
#define TF32 0
#endif
typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short u16;

#if TYPE == 0
typedef float elem;
#define PER_WORD 1
#else
typedef u16 elem;
#define PER_WORD 2
#endif

__device__ __forceinline__ float widen(elem x) {
#if TYPE == 0
    return x;
#elif TYPE == 1
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
#else
    return __uint_as_float(u32(x) << 16);
#endif
}

// Rounds to nearest even. A NaN becomes the canonical one, so that no number looks like EMPTY.
__device__ __forceinline__ elem narrow(float x) {
#if TYPE == 0
    return x == x ? x : __uint_as_float(0x7fffffffu);
#elif TYPE == 1
    u16 y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
#else
    u16 y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
#endif
}

#if TYPE == 0
__device__ __forceinline__ void mma_tf32(float c[4], const u32 a[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// x = high + low: 11 bits in high and the rest in low, of which tf32 uses 11 more. Volatile, so that the compiler does
// not hoist the split out of the time loop and keep both parts in registers.
__device__ __forceinline__ void split(u32 x, u32 &high, u32 &low) {
#if TF32
    high = x + 0x1000u, low = 0;
    return;
#endif
    asm volatile("{ .reg .u32 t; add.u32 t, %1, 0x1000; and.b32 %0, t, 0xffffe000; }" : "=r"(high) : "r"(x));
    low = __float_as_uint(__fsub_rn(__uint_as_float(x), __uint_as_float(high)));
}
#else
__device__ __forceinline__ void mma_16(float c[4], const u32 a[4], u32 b0, u32 b1) {
#if TYPE == 1
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
#else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
#endif
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif

// Fragments A and B of one product, split if the type requires it.
struct FragA {
    u32 w[4];
#if TYPE == 0
    u32 lo[4];
#endif
};
struct FragB {
    u32 w[2];
#if TYPE == 0
    u32 lo[2];
#endif
};
__device__ __forceinline__ FragA frag_a(u32 a0, u32 a1, u32 a2, u32 a3) {
    FragA f;
#if TYPE == 0
    split(a0, f.w[0], f.lo[0]), split(a1, f.w[1], f.lo[1]), split(a2, f.w[2], f.lo[2]), split(a3, f.w[3], f.lo[3]);
#else
    f.w[0] = a0, f.w[1] = a1, f.w[2] = a2, f.w[3] = a3;
#endif
    return f;
}
__device__ __forceinline__ FragB frag_b(u32 b0, u32 b1) {
    FragB f;
#if TYPE == 0
    split(b0, f.w[0], f.lo[0]), split(b1, f.w[1], f.lo[1]);
#else
    f.w[0] = b0, f.w[1] = b1;
#endif
    return f;
}
// c += A·B, accumulated in f32.
__device__ __forceinline__ void multiply(float c[4], const FragA &a, const FragB &b) {
#if TYPE == 0
#if !TF32
    mma_tf32(c, a.lo, b.w[0], b.w[1]);
    mma_tf32(c, a.w, b.lo[0], b.lo[1]);
#endif
    mma_tf32(c, a.w, b.w[0], b.w[1]);
#else
    mma_16(c, a.w, b.w[0], b.w[1]);
#endif
}

// Messages between blocks. Their memory is filled with EMPTY before the kernel starts; a receiver polls a word until it
// is not EMPTY. The word is both message and flag, so no fence is needed. Every step has its own memory, so nothing
// needs to be cleared. No number equals EMPTY, because `narrow` and the arithmetic return the canonical NaN.
#define EMPTY 0xffffffffu

__device__ __forceinline__ uint4 peek4(const void *p) {
    uint4 v;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
    return v;
}
__device__ __forceinline__ uint2 peek2(const void *p) {
    uint2 v;
    asm volatile("ld.relaxed.gpu.global.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
    return v;
}
__device__ __forceinline__ bool empty4(uint4 v) { return max(max(v.x, v.y), max(v.z, v.w)) == EMPTY; }
__device__ __forceinline__ bool empty2(uint2 v) { return max(v.x, v.y) == EMPTY; }
__device__ __forceinline__ u32 message(float x) { return __float_as_uint(x == x ? x : __uint_as_float(0x7fffffffu)); }
__device__ __forceinline__ void send1(void *p, u32 a) {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(a) : "memory");
}
__device__ __forceinline__ void send2(void *p, float a, float b) {
    asm volatile("st.relaxed.gpu.global.v2.u32 [%0], {%1,%2};" ::"l"(p), "r"(message(a)), "r"(message(b)) : "memory");
}
__device__ __forceinline__ void send4(void *p, float a, float b, float c, float d) {
    asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(p), "r"(message(a)), "r"(message(b)),
                 "r"(message(c)), "r"(message(d)) : "memory");
}

// A number and its step in one word, for memory that is reused: the step says whether the number has arrived.
__device__ __forceinline__ u64 peek_tagged(const u64 *p) {
    u64 v;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p));
    return v;
}
__device__ __forceinline__ void send_tagged(u64 *p, float x, u32 tag) {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(u64(tag) << 32 | __float_as_uint(x)) : "memory");
}

// Asynchronous copies of 16 bytes into shared memory, awaited in groups.
__device__ __forceinline__ u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void copy_aside(u32 to, const void *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ void end_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until all groups except the last LEFT have arrived.
template <int LEFT> __device__ __forceinline__ void await_groups() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}
__device__ __forceinline__ uint4 load_shared(u32 from) {
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(from) : "memory");
    return v;
}
// A barrier for two neighboring warps.
__device__ __forceinline__ void sync_neighbours(int warp) { asm volatile("bar.sync %0, 64;" ::"r"(1 + warp / 2) : "memory"); }

// Waits for this many cycles.
__device__ __forceinline__ void idle(int cycles) {
    u32 begun, now;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(begun)::"memory");
    do asm volatile("mov.u32 %0, %%clock;" : "=r"(now)::"memory");
    while (int(now - begun) < cycles);
}

// Number of unsuccessful polls left. At 0 the thread gives up: the result is wrong, `fail` is set, and the GPU is free
// again.
struct Patience {
    u32 left;
    u32 *fail;
};
__device__ __forceinline__ bool wait_more(Patience &p) {
    if (p.left == 0) return false;
    if (--p.left == 0) *(volatile u32 *)p.fail = 1;
    return true;
}

// Called at the end of a kernel: a thread that gave up tells the host by setting `to`, a word in host memory. The
// host's next call then fails.
__device__ __forceinline__ void tell_host(u32 *to) { asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(to), "r"(1) : "memory"); }
__device__ __forceinline__ void report(const Patience &p, u32 *to) {
    if (p.left == 0) tell_host(to);
}

// The sum over LANES neighboring lanes (a power of 2), with the same bits in each.
template <int LANES> __device__ __forceinline__ float sum_lanes(float x) {
#pragma unroll
    for (int d = LANES / 2; d; d /= 2) x = __fadd_rn(x, __shfl_xor_sync(0xffffffffu, x, d));
    return x;
}

// Clamps a variance that rounding made negative. A NaN stays a NaN, as on the CPU: a row with an infinite element is
// NaN.
__device__ __forceinline__ float not_below_zero(float x) { return x < 0.0f ? 0.0f : x; }

// Hardware approximations, accurate to about 2^-22. They flush subnormal numbers to 0, which is negligible next to the
// 1 that they are added to.
__device__ __forceinline__ float exp2_of(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ float inverse_of(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ float sigmoid(float x) { return inverse_of(__fadd_rn(1.0f, exp2_of(__fmul_rn(x, -1.44269504f)))); }
// Near 0 the series; elsewhere 1 − 2/(1 + e^2x).
__device__ __forceinline__ float tanh_of(float x) {
    const float q = __fmul_rn(x, x);
    float p = fmaf(q, 0.0218694885f, -0.0539682540f);
    p = fmaf(p, q, 0.133333333f);
    p = fmaf(p, q, -0.333333333f);
    const float near = fmaf(__fmul_rn(x, q), p, x);
    const float far = fmaf(-2.0f, inverse_of(__fadd_rn(1.0f, exp2_of(__fmul_rn(x, 2.88539008f)))), 1.0f);
    return fabsf(x) < 0.25f ? near : far;
}
__device__ __forceinline__ void prefetch(const void *p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }
