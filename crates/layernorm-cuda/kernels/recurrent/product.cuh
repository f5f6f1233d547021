// The recurrent product of a chunk of sequences: rows of the block (MT tiles of 16) times a vector for each sequence.
//
// A warp has PAIRS pairs of k and all rows, so that it alone reads its part of the vectors, straight from L2 into the
// fragments; the warps' sums meet in shared memory and are added in the order of the warps. The matrix stays in registers
// (first PR pairs), shared memory (next PS) and L2 (the rest), packed in the order in which lanes want it.
//   packed: [block][warp][pair][tile][2][lane][4 words]
#define FRAG 128  // words of a fragment of all lanes
#define ROWS_PAD (16 * MT + 4)

struct Matrix {
    u32 regs[PR > 0 ? PR : 1][MT][2][4];
};

__device__ __forceinline__ const u32 *pair_at(const u32 *packed, int rank, int warp, int pair) {
    return packed + (size_t(rank * WARPS + warp) * PAIRS + pair) * (MT * 2 * FRAG);
}

__device__ __forceinline__ void load_matrix(Matrix &m, u32 *shared, const u32 *packed, int rank, int warp, int lane) {
#pragma unroll
    for (int p = 0; p < PR; p++)
#pragma unroll
        for (int i = 0; i < MT; i++)
#pragma unroll
            for (int k = 0; k < 2; k++) {
                uint4 v = *(const uint4 *)(pair_at(packed, rank, warp, p) + (i * 2 + k) * FRAG + lane * 4);
                m.regs[p][i][k][0] = v.x, m.regs[p][i][k][1] = v.y, m.regs[p][i][k][2] = v.z, m.regs[p][i][k][3] = v.w;
            }
    for (int p = 0; p < PS; p++)
        for (int f = 0; f < MT * 2; f++)
            *(uint4 *)(shared + ((warp * PS + p) * (MT * 2) + f) * FRAG + lane * 4) =
                *(const uint4 *)(pair_at(packed, rank, warp, PR + p) + f * FRAG + lane * 4);
}

// Vectors of the chunk: sequence 8n+g of it starts at `vectors + (8n+g)·stride`, in words.
struct Vectors {
    const u32 *start;
    size_t stride;
    int count;  // sequences of the chunk that exist
};

// Pairs that exist, of all warps together.
#define REAL_PAIRS ((WORDS + 15) / 16)

__device__ __forceinline__ void peek_pair(uint4 b[NT], const Vectors &v, int pair, int lane) {
#pragma unroll
    for (int n = 0; n < NT; n++) {
        int column = n * 8 + (lane >> 2);
        b[n] = make_uint4(0, 0, 0, 0);
        if (column < v.count) b[n] = peek4(v.start + column * v.stride + pair * 16 + (lane & 3) * 4);
    }
}
__device__ __forceinline__ bool pair_empty(const uint4 b[NT]) {
    bool is = false;
#pragma unroll
    for (int n = 0; n < NT; n++) is |= empty4(b[n]);
    return is;
}

__device__ __forceinline__ void multiply_pair(float acc[MT][NT][4], const u32 a[MT][2][4], const uint4 b[NT]) {
#pragma unroll
    for (int k = 0; k < 2; k++) {
        FragB fb[NT];
#pragma unroll
        for (int n = 0; n < NT; n++) fb[n] = k ? frag_b(b[n].z, b[n].w) : frag_b(b[n].x, b[n].y);
#pragma unroll
        for (int i = 0; i < MT; i++) {
            FragA fa = frag_a(a[i][k][0], a[i][k][1], a[i][k][2], a[i][k][3]);
#pragma unroll
            for (int n = 0; n < NT; n++) multiply(acc[i][n], fa, fb[n]);
        }
    }
}

__device__ __forceinline__ void multiply_from(float acc[MT][NT][4], const u32 *at, const uint4 b[NT], int lane) {
    u32 a[MT][2][4];
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
        for (int k = 0; k < 2; k++) {
            uint4 v = *(const uint4 *)(at + (i * 2 + k) * FRAG + lane * 4);
            a[i][k][0] = v.x, a[i][k][1] = v.y, a[i][k][2] = v.z, a[i][k][3] = v.w;
        }
    multiply_pair(acc, a, b);
}

// AHEAD pairs are on their way at a time; they are waited for together.
#ifndef AHEAD
#define AHEAD (NT == 1 ? 8 : 4)
#endif
#define DEPTH (AHEAD < PAIRS ? AHEAD : PAIRS)

__device__ __forceinline__ void settle(uint4 b[DEPTH][NT], const Vectors &v, int pair, int lane, Patience &patience) {
    while (true) {
        bool is = false;
#pragma unroll
        for (int p = 0; p < DEPTH; p++)
            if (pair + p < REAL_PAIRS) is |= pair_empty(b[p]);
        if (!__any_sync(0xffffffffu, is) || !__all_sync(0xffffffffu, wait_more(patience))) return;
#pragma unroll
        for (int p = 0; p < DEPTH; p++)
            if (pair + p < REAL_PAIRS && pair_empty(b[p])) peek_pair(b[p], v, pair + p, lane);
    }
}

__device__ __forceinline__ void clear(float x[MT][NT][4]) {
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int k = 0; k < 4; k++) x[i][n][k] = 0;
}
// to += from, and from is 0.
__device__ __forceinline__ void flush(float to[MT][NT][4], float from[MT][NT][4]) {
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int k = 0; k < 4; k++) to[i][n][k] = __fadd_rn(to[i][n][k], from[i][n][k]);
    clear(from);
}

__device__ __forceinline__ void product(
    float *parts, const Matrix &m, const u32 *shared, const u32 *packed, const Vectors &v, int rank, int warp, int lane,
    Patience &patience) {
    float acc[MT][NT][4];
    clear(acc);
    float total[MT][NT][4];
    if (TYPE == 0 && !TF32 && MT == 1) clear(total);
    const int first = warp * PAIRS;
    uint4 b[DEPTH][NT];
#pragma unroll
    for (int p = 0; p < DEPTH; p++)
        if (first + p < REAL_PAIRS) peek_pair(b[p], v, first + p, lane);
#pragma unroll
    for (int p = 0; p < PAIRS; p++)
        if (first + p < REAL_PAIRS) {
            if (p % DEPTH == 0) settle(b, v, first + p, lane, patience);
            if (p < PR) multiply_pair(acc, m.regs[p < PR ? p : 0], b[p % DEPTH]);
            else if (p < PR + PS) multiply_from(acc, shared + (warp * PS + p - PR) * (MT * 2 * FRAG), b[p % DEPTH], lane);
            else multiply_from(acc, pair_at(packed, rank, warp, p), b[p % DEPTH], lane);
            // Tensor cores cut off what they add: long sums of f32 are put together with proper rounding.
            if (TYPE == 0 && !TF32 && MT == 1 && p % 8 == 7) flush(total, acc);
            if (p + DEPTH < PAIRS && first + p + DEPTH < REAL_PAIRS) peek_pair(b[p % DEPTH], v, first + p + DEPTH, lane);
        }
    if (TYPE == 0 && !TF32 && MT == 1) flush(acc, total);
    // parts: [warp][sequence][row], rows padded so that neither side meets in a bank.
    const int g = lane >> 2, t = lane & 3;
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
        for (int n = 0; n < NT; n++) {
            float *to = parts + (warp * CC + n * 8 + 2 * t) * ROWS_PAD + i * 16 + g;
            to[0] = acc[i][n][0], to[ROWS_PAD] = acc[i][n][1];
            to[8] = acc[i][n][2], to[ROWS_PAD + 8] = acc[i][n][3];
        }
}

// The warps' sums of N neighbouring rows, added as a tree of neighbours.
template <int N> __device__ __forceinline__ void fold_warps(float sum[N], const float *from) {
    float part[WARPS][N];
#pragma unroll
    for (int w = 0; w < WARPS; w++, from += CC * ROWS_PAD) {
        if constexpr (N == 4) {
            const float4 f = *(const float4 *)from;
            part[w][0] = f.x, part[w][1] = f.y, part[w][N - 2] = f.z, part[w][N - 1] = f.w;
        } else {
#pragma unroll
            for (int q = 0; q < N; q++) part[w][q] = from[q];
        }
    }
#pragma unroll
    for (int d = 1; d < WARPS; d *= 2)
#pragma unroll
        for (int w = 0; w < WARPS; w += 2 * d)
#pragma unroll
            for (int q = 0; q < N; q++) part[w][q] = __fadd_rn(part[w][q], part[w + d][q]);
#pragma unroll
    for (int q = 0; q < N; q++) sum[q] = part[0][q];
}
