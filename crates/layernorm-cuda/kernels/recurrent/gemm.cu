// C [M, N] = A·B. The sum over k has one fixed order for each element of C, whatever M and N are.
//   TRANS_A 0: A [M, K]    1: A [K, M]          TRANS_B 0: B [N, K]    1: B [K, N]          OUT: type of C
// Blocks of 128×128, 8 warps of 64×32, k in slices of 64 bytes, STAGES of them in flight. Rows of A and B are aligned
// to 16 bytes and contain numbers (or zeros) up to a multiple of 16 bytes.
#include "common.cuh"
#define STAGES 4
#define CHUNK (16 / (4 / PER_WORD))  // elements in 16 bytes
#define BK (4 * CHUNK)
#define TILE_BYTES 8192
// Tensor cores truncate when they add, so sums of f32 are accumulated with proper rounding every few slices.
#define PROMOTE (TYPE == 0 && !TF32)
#define SLICES 4

struct Gemm {
    const elem *a, *b;
    void *c;
    long long lda, ldb, ldc;
    int m, n, k;
    int add;  // C += A·B
};

__device__ __forceinline__ void copy16(u32 to, const void *from, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0));
}

// Loads a slice of an operand into shared memory. TRANS 0: [128][4 chunks]; 1: [BK][128 / CHUNK chunks]. Swizzled, so
// that neither writes nor reads have bank conflicts.
template <int TRANS> __device__ __forceinline__ u32 chunk_at(int row, int chunk) {
    if (TRANS == 0) return row * 64 + ((chunk ^ ((row >> 1) & 3)) << 4);
#if TYPE == 0
    return row * 512 + ((chunk ^ ((row & 3) << 1)) << 4);
#else
    return row * 256 + ((chunk ^ (row & 7)) << 4);
#endif
}
template <int TRANS> __device__ __forceinline__ void load_slice(
    u32 to, const elem *from, long long ld, int first, int count, int k0, int k, int tid) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int id = tid + 256 * i;
        if (TRANS == 0) {
            int row = id >> 2, chunk = id & 3;
            bool there = first + row < count && k0 + chunk * CHUNK < k;
            copy16(to + chunk_at<0>(row, chunk), there ? from + (first + row) * ld + k0 + chunk * CHUNK : from, there);
        } else {
            constexpr int ACROSS = 128 / CHUNK;
            int row = id / ACROSS, chunk = id % ACROSS;
            bool there = k0 + row < k && first + chunk * CHUNK < count;
            copy16(to + chunk_at<1>(row, chunk), there ? from + (k0 + row) * ld + first + chunk * CHUNK : from, there);
        }
    }
}

#if TYPE != 0
template <int TRANS> __device__ __forceinline__ void load_matrix4(u32 r[4], u32 at) {
    if (TRANS)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}
#endif

// The fragments of rows m..m+15 for step `ks` of a slice.
__device__ __forceinline__ FragA get_a(u32 tile, const char *shared, int m, int ks, int lane) {
#if TYPE != 0
    u32 r[4];
    if (TRANS_A == 0)
        load_matrix4<0>(r, tile + chunk_at<0>(m + (lane & 15), ks * 2 + (lane >> 4)));
    else
        load_matrix4<1>(r, tile + chunk_at<1>(ks * 16 + (lane & 7) + ((lane >> 4) & 1) * 8, m / 8 + ((lane >> 3) & 1)));
    return frag_a(r[0], r[1], r[2], r[3]);
#else
    const int g = lane >> 2, t = lane & 3;
    auto at = [&](int row, int k) {
        u32 byte = TRANS_A == 0 ? chunk_at<0>(row, k >> 2) + (k & 3) * 4 : chunk_at<1>(k, row >> 2) + (row & 3) * 4;
        return *(const u32 *)(shared + byte);
    };
    const int k = ks * 8 + t;
    return frag_a(at(m + g, k), at(m + g + 8, k), at(m + g, k + 4), at(m + g + 8, k + 4));
#endif
}
// The fragments of columns n..n+15: two of them.
__device__ __forceinline__ void get_b(FragB f[2], u32 tile, const char *shared, int n, int ks, int lane) {
#if TYPE != 0
    u32 r[4];
    if (TRANS_B == 0)
        load_matrix4<0>(r, tile + chunk_at<0>(n + (lane & 7) + ((lane >> 4) & 1) * 8, ks * 2 + ((lane >> 3) & 1)));
    else
        load_matrix4<1>(r, tile + chunk_at<1>(ks * 16 + (lane & 7) + ((lane >> 3) & 1) * 8, n / 8 + ((lane >> 4) & 1)));
    f[0] = frag_b(r[0], r[1]), f[1] = frag_b(r[2], r[3]);
#else
    const int g = lane >> 2, t = lane & 3;
    auto at = [&](int row, int k) {
        u32 byte = TRANS_B == 0 ? chunk_at<0>(row, k >> 2) + (k & 3) * 4 : chunk_at<1>(k, row >> 2) + (row & 3) * 4;
        return *(const u32 *)(shared + byte);
    };
    const int k = ks * 8 + t;
    f[0] = frag_b(at(n + g, k), at(n + g, k + 4)), f[1] = frag_b(at(n + 8 + g, k), at(n + 8 + g, k + 4));
#endif
}

__device__ __forceinline__ void put(void *c, size_t at, float x, int add) {
#if OUT == 0
    if (add) x = __fadd_rn(((float *)c)[at], x);
    ((float *)c)[at] = x;
#elif OUT == 1
    u16 y;
    if (add) {
        float old;
        asm("cvt.f32.f16 %0, %1;" : "=f"(old) : "h"(((u16 *)c)[at]));
        x = __fadd_rn(old, x);
    }
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    ((u16 *)c)[at] = y;
#else
    u16 y;
    if (add) x = __fadd_rn(__uint_as_float(u32(((u16 *)c)[at]) << 16), x);
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
    ((u16 *)c)[at] = y;
#endif
}

extern "C" __global__ void __launch_bounds__(256, PROMOTE ? 1 : 2) rnn_gemm(Gemm p) {
    extern __shared__ __align__(128) char shared[];
    const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31;
    // Tiles are ordered in bands of 8 tile rows, so that neighboring blocks share what they read.
    const int across = (p.n + 127) / 128, down = (p.m + 127) / 128;
    const int band = blockIdx.x / (8 * across), in = blockIdx.x % (8 * across), height = min(8, down - band * 8);
    const int m0 = (band * 8 + in % height) * 128, n0 = in / height * 128;
    const u32 base = (u32)__cvta_generic_to_shared(shared);
    const int slices = (p.k + BK - 1) / BK;
    auto fetch = [&](int slice) {
        if (slice < slices) {
            u32 to = base + (slice % STAGES) * (2 * TILE_BYTES);
            load_slice<TRANS_A>(to, p.a, p.lda, m0, p.m, slice * BK, p.k, tid);
            load_slice<TRANS_B>(to + TILE_BYTES, p.b, p.ldb, n0, p.n, slice * BK, p.k, tid);
        }
        asm volatile("cp.async.commit_group;");
    };
    for (int i = 0; i < STAGES - 1; i++) fetch(i);
    float acc[4][4][4];
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int k = 0; k < 4; k++) acc[i][j][k] = 0;
#if PROMOTE
    float total[4][4][4];
#pragma unroll
    for (int i = 0; i < 64; i++) (&total[0][0][0])[i] = 0;
#endif
    const int wm = (warp >> 2) * 64, wn = (warp & 3) * 32;
    for (int slice = 0; slice < slices; slice++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();
        fetch(slice + STAGES - 1);
        const int stage = (slice % STAGES) * (2 * TILE_BYTES);
#pragma unroll
        for (int ks = 0; ks < 2; ks++) {
            FragB b[4];
            get_b(b, base + stage + TILE_BYTES, shared + stage + TILE_BYTES, wn, ks, lane);
            get_b(b + 2, base + stage + TILE_BYTES, shared + stage + TILE_BYTES, wn + 16, ks, lane);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                FragA f = get_a(base + stage, shared + stage, wm + i * 16, ks, lane);
#pragma unroll
                for (int j = 0; j < 4; j++) multiply(acc[i][j], f, b[j]);
            }
        }
#if PROMOTE
        if (slice % SLICES == SLICES - 1)
#pragma unroll
            for (int i = 0; i < 64; i++) {
                float &to = (&total[0][0][0])[i], &from = (&acc[0][0][0])[i];
                to = __fadd_rn(to, from), from = 0;
            }
#endif
    }
#if PROMOTE
#pragma unroll
    for (int i = 0; i < 64; i++) (&acc[0][0][0])[i] = __fadd_rn((&total[0][0][0])[i], (&acc[0][0][0])[i]);
#endif
    const int g = lane >> 2, t = lane & 3;
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int k = 0; k < 4; k++) {
                int row = m0 + wm + i * 16 + g + (k >> 1) * 8, column = n0 + wn + j * 8 + 2 * t + (k & 1);
                if (row < p.m && column < p.n) put(p.c, row * p.ldc + column, acc[i][j][k], p.add);
            }
}
