// The recurrent product of a chunk of sequences: the block's rows (MT tiles of 16) times one vector per sequence.
//
// A warp has PAIRS pairs of k and all rows. So it alone reads its part of the vectors, straight from L2 into the
// fragments. The warps' sums are combined in shared memory, as a tree of neighbors. The matrix stays in registers (the
// first PR pairs) and in shared memory (the next PS). The rest is streamed from L2 through a ring of RING half pairs,
// of which every lane copies exactly what it will read itself. The matrix is packed in the order in which lanes read
// it:
//   packed: [block][warp][pair][tile][2][lane][4 words]
// With SPLIT > 1, blocks form teams of SPLIT: each has the rows of the whole team and one part of k.
#define FRAG 128  // words per fragment, over all lanes
#define ROWS_PAD (16 * MT + 4)
#define STREAMED (PAIRS - PR - PS)
#define HALF (MT * FRAG)  // words per half pair
// FOLDED: number of partial sums in shared memory, one per warp (8), or per two neighboring warps (4) if memory is
// short. TURNS: number of such buffers.
#define PARTS_SIZE (FOLDED * CC * ROWS_PAD)

struct Matrix {
    u32 regs[PR > 0 ? PR : 1][MT][2][4];
    const u32 *packed;  // this warp's part
    u32 *shared;        // this lane's words in the first fragment of the warp's pairs
    u32 ring;           // the same in the ring, as a shared memory address
    int stage, half;    // slot of the next half pair, and which half pair is copied next
};

__device__ __forceinline__ void copy_half(Matrix &m) {
#if STREAMED > 0
    const u32 *from = m.packed + (PR + PS) * (2 * HALF) + m.half * FRAG;
#pragma unroll
    for (int i = 0; i < MT; i++)
        copy_aside(m.ring + (m.stage * HALF + i * FRAG) * 4, from + i * 2 * FRAG);
    end_group();
    m.stage = m.stage + 1 == RING ? 0 : m.stage + 1;
    // The halves of a pair are interleaved: [tile][2].
    m.half += m.half & 1 ? 2 * MT - 1 : 1;
    if (m.half == STREAMED * 2 * MT) m.half = 0;
#endif
}

// `shared` has room for the pairs of all warps, followed by their rings.
__device__ __forceinline__ void load_matrix(Matrix &m, u32 *shared, const u32 *packed, int rank, int warp, int lane) {
    m.packed = packed + size_t(rank * WARPS + warp) * PAIRS * (2 * HALF) + lane * 4;
    m.shared = shared + warp * (PS * 2 * HALF) + lane * 4;
    m.ring = shared_address(shared + WARPS * (PS * 2 * HALF) + warp * (RING * HALF) + lane * 4);
    m.stage = 0, m.half = 0;
#pragma unroll
    for (int p = 0; p < PR; p++)
#pragma unroll
        for (int i = 0; i < MT; i++)
#pragma unroll
            for (int k = 0; k < 2; k++) {
                uint4 v = *(const uint4 *)(m.packed + (p * MT * 2 + i * 2 + k) * FRAG);
                m.regs[p][i][k][0] = v.x, m.regs[p][i][k][1] = v.y, m.regs[p][i][k][2] = v.z, m.regs[p][i][k][3] = v.w;
            }
    for (int f = 0; f < PS * MT * 2; f++)
        *(uint4 *)(m.shared + f * FRAG) = *(const uint4 *)(m.packed + (PR * MT * 2 + f) * FRAG);
    for (int i = 0; i < RING; i++) copy_half(m);
}

// Vectors of the chunk: that of sequence 8n+g starts at `start + (8n+g)·stride`, in words.
struct Vectors {
    const u32 *start;
    size_t stride;
    int count;  // existing sequences from the first of the chunk on
};

// Number of existing pairs, over all warps.
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

// Half k of a pair: c += A·B.
__device__ __forceinline__ void multiply_half(float acc[MT][NT][4], const u32 a[MT][4], const uint4 b[NT], int k) {
    FragB fb[NT];
#pragma unroll
    for (int n = 0; n < NT; n++) fb[n] = k ? frag_b(b[n].z, b[n].w) : frag_b(b[n].x, b[n].y);
#pragma unroll
    for (int i = 0; i < MT; i++) {
        FragA fa = frag_a(a[i][0], a[i][1], a[i][2], a[i][3]);
#pragma unroll
        for (int n = 0; n < NT; n++) multiply(acc[i][n], fa, fb[n]);
    }
}
__device__ __forceinline__ void multiply_registers(float acc[MT][NT][4], const u32 from[MT][2][4], const uint4 b[NT]) {
#pragma unroll
    for (int k = 0; k < 2; k++) {
        u32 a[MT][4];
#pragma unroll
        for (int i = 0; i < MT; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) a[i][j] = from[i][k][j];
        multiply_half(acc, a, b, k);
    }
}
__device__ __forceinline__ void multiply_shared(float acc[MT][NT][4], const u32 *from, const uint4 b[NT]) {
#pragma unroll
    for (int k = 0; k < 2; k++) {
        u32 a[MT][4];
#pragma unroll
        for (int i = 0; i < MT; i++) {
            const uint4 v = *(const uint4 *)(from + (i * 2 + k) * FRAG);
            a[i][0] = v.x, a[i][1] = v.y, a[i][2] = v.z, a[i][3] = v.w;
        }
        multiply_half(acc, a, b, k);
    }
}
#if STREAMED > 0
__device__ __forceinline__ void multiply_streamed(float acc[MT][NT][4], Matrix &m, const uint4 b[NT]) {
#pragma unroll
    for (int k = 0; k < 2; k++) {
        await_groups<RING - 1>();
        u32 a[MT][4];
#pragma unroll
        for (int i = 0; i < MT; i++) {
            const uint4 v = load_shared(m.ring + (m.stage * HALF + i * FRAG) * 4);
            a[i][0] = v.x, a[i][1] = v.y, a[i][2] = v.z, a[i][3] = v.w;
        }
        multiply_half(acc, a, b, k);
        copy_half(m);
    }
}

// For padding: advances the ring without multiplying.
__device__ __forceinline__ void skip_streamed(Matrix &m) {
    for (int k = 0; k < 2; k++) {
        await_groups<RING - 1>();
        copy_half(m);
    }
}
#else
__device__ __forceinline__ void multiply_streamed(float[MT][NT][4], Matrix &, const uint4[NT]) {}
__device__ __forceinline__ void skip_streamed(Matrix &) {}
#endif

// Number of pairs in flight.
#ifndef AHEAD
#define AHEAD (NT == 1 ? 8 : NT == 2 ? 4 : 2)
#endif
#define DEPTH (AHEAD < PAIRS ? AHEAD : PAIRS)

// The first pairs of a product, requested before it starts.
struct Window {
    uint4 b[DEPTH][NT];
};
__device__ __forceinline__ void ask(Window &w, const Vectors &v, int first, int lane) {
#pragma unroll
    for (int p = 0; p < DEPTH; p++)
        if (first + p < REAL_PAIRS) peek_pair(w.b[p], v, first + p, lane);
}
// Waits for all pairs in flight.
__device__ __forceinline__ void settle(Window &w, const Vectors &v, int pair, int lane, Patience &patience) {
    while (true) {
        bool is = false;
#pragma unroll
        for (int p = 0; p < DEPTH; p++)
            if (pair + p < REAL_PAIRS) is |= pair_empty(w.b[p]);
        if (!__any_sync(0xffffffffu, is) || !__all_sync(0xffffffffu, wait_more(patience))) return;
#pragma unroll
        for (int p = 0; p < DEPTH; p++)
            if (pair + p < REAL_PAIRS && pair_empty(w.b[p])) peek_pair(w.b[p], v, pair + p, lane);
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
// to += from, then from = 0.
__device__ __forceinline__ void flush(float to[MT][NT][4], float from[MT][NT][4]) {
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int k = 0; k < 4; k++) to[i][n][k] = __fadd_rn(to[i][n][k], from[i][n][k]);
    clear(from);
}

__device__ __forceinline__ float *parts_of(float *parts, int part) { return parts + part % TURNS * PARTS_SIZE; }

// Adds the sums of each odd warp to those of the even warp before it.
__device__ __forceinline__ void join_neighbours(float acc[MT][NT][4], float *slot, int warp, int lane) {
    float4 *swap = (float4 *)slot + lane;
    if (warp & 1)
#pragma unroll
        for (int i = 0; i < MT * NT; i++) {
            const float *c = acc[i / NT][i % NT];
            swap[i * 32] = make_float4(c[0], c[1], c[2], c[3]);
        }
    sync_neighbours(warp);
    if (!(warp & 1)) {
#pragma unroll
        for (int i = 0; i < MT * NT; i++) {
            float *c = acc[i / NT][i % NT];
            const float4 f = swap[i * 32];
            c[0] = __fadd_rn(c[0], f.x), c[1] = __fadd_rn(c[1], f.y), c[2] = __fadd_rn(c[2], f.z), c[3] = __fadd_rn(c[3], f.w);
        }
        __syncwarp();
    }
}

// The block's product for chunk `part`, stored as [FOLDED][sequence][row], with rows padded against bank conflicts.
// `first` is the warp's first pair; the first pairs have been requested already. A barrier must precede the reads of
// the sums.
__device__ __forceinline__ void product(
    float *parts, Matrix &m, Window &w, const Vectors &v, int part, int first, int warp, int lane, Patience &patience) {
    float acc[MT][NT][4];
    clear(acc);
    // Tensor cores truncate when they add, so long sums of f32 are accumulated with proper rounding, if there are
    // enough registers.
    constexpr bool LONG = TYPE == 0 && !TF32 && (MT == 1 || PAIRS > 24);
    float total[MT][NT][4];
    if (LONG) clear(total);
#pragma unroll
    for (int p = 0; p < PAIRS; p++)
        if (first + p < REAL_PAIRS) {
            if (p % DEPTH == 0) settle(w, v, first + p, lane, patience);
            uint4 *b = w.b[p % DEPTH];
            if (p < PR) multiply_registers(acc, m.regs[p < PR ? p : 0], b);
            else if (p < PR + PS) multiply_shared(acc, m.shared + (p - PR) * (2 * HALF), b);
            else multiply_streamed(acc, m, b);
            if (LONG && p % 8 == 7) flush(total, acc);
            if (p + DEPTH < PAIRS && first + p + DEPTH < REAL_PAIRS) peek_pair(b, v, first + p + DEPTH, lane);
        } else if (p >= PR + PS) {
            skip_streamed(m);
        }
    if (LONG) flush(acc, total);
    // The sums of the previous chunk may still be read.
    if (TURNS == 1 && part > 0) __syncthreads();
    float *slot = parts_of(parts, part) + warp * FOLDED / WARPS * (CC * ROWS_PAD);
    if (FOLDED < WARPS) {
        join_neighbours(acc, slot, warp, lane);
        if (warp & 1) return;
    }
    const int g = lane >> 2, t = lane & 3;
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
        for (int n = 0; n < NT; n++) {
            float *to = slot + (n * 8 + 2 * t) * ROWS_PAD + i * 16 + g;
            to[0] = acc[i][n][0], to[ROWS_PAD] = acc[i][n][1];
            to[8] = acc[i][n][2], to[ROWS_PAD + 8] = acc[i][n][3];
        }
}

// Adds the warps' sums of N neighboring rows, as a tree of neighbors.
template <int N> __device__ __forceinline__ void fold_warps(float sum[N], const float *from) {
    float part[FOLDED][N];
#pragma unroll
    for (int w = 0; w < FOLDED; w++, from += CC * ROWS_PAD) {
        if constexpr (N == 4) {
            const float4 f = *(const float4 *)from;
            part[w][0] = f.x, part[w][1] = f.y, part[w][N - 2] = f.z, part[w][N - 1] = f.w;
        } else {
#pragma unroll
            for (int q = 0; q < N; q++) part[w][q] = from[q];
        }
    }
#pragma unroll
    for (int d = 1; d < FOLDED; d *= 2)
#pragma unroll
        for (int w = 0; w < FOLDED; w += 2 * d)
#pragma unroll
            for (int q = 0; q < N; q++) part[w][q] = __fadd_rn(part[w][q], part[w + d][q]);
#pragma unroll
    for (int q = 0; q < N; q++) sum[q] = part[0][q];
}
