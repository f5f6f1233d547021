// Shared by both kernels that sum down the rows (rule 5): loads of columns, and the tree over the blocks of a cluster.
//
// A block has TILE = 32·WIDE columns and an aligned, power-of-two number of chunks. CLUSTER blocks, each with its own
// chunks, make up the whole tree, padded with +0. Only what needs the statistics of scaled rows (rule 6), which the pass over
// the rows stores at `lines`, waits for that pass; everything else overlaps with it.
#pragma once
#define FLAT 1
#include "columns.cuh"

struct Params {
    Columns c;
    i64 each;  // chunks per warp
    void* dgain;
    void* dbias;
};

constexpr int TILE = 32 * WIDE;
constexpr int BYTES = WIDE * sizeof(T);

template <int B> struct RawOf { typedef u16 type; };
template <> struct RawOf<4> { typedef u32 type; };
template <> struct RawOf<8> { typedef uint2 type; };
template <> struct RawOf<16> { typedef uint4 type; };
typedef RawOf<BYTES>::type Raw;

#if ELEM == F64
__device__ inline double two_words(u32 low, u32 high) { return __hiloint2double(high, low); }
__device__ inline void open(uint2 raw, A (&to)[WIDE]) { to[0] = two_words(raw.x, raw.y); }
__device__ inline void open(uint4 raw, A (&to)[WIDE]) {
    to[0] = two_words(raw.x, raw.y);
    to[WIDE - 1] = two_words(raw.z, raw.w);
}
#elif ELEM == F32
__device__ inline void open(u32 raw, A (&to)[WIDE]) { to[0] = __uint_as_float(raw); }
__device__ inline void open(uint2 raw, A (&to)[WIDE]) {
    to[0] = __uint_as_float(raw.x);
    to[WIDE - 1] = __uint_as_float(raw.y);
}
__device__ inline void open(uint4 raw, A (&to)[WIDE]) { unpack(raw, (A(&)[VEC])to); }
#else
__device__ inline void open(u16 raw, A (&to)[WIDE]) { to[0] = widen(T{raw}); }
__device__ inline void open(u32 raw, A (&to)[WIDE]) { unpack_two(raw, to[0], to[WIDE - 1]); }
__device__ inline void open(uint2 raw, A (&to)[WIDE]) {
    A(&four)[4] = (A(&)[4])to;
    unpack_two(raw.x, four[0], four[1]);
    unpack_two(raw.y, four[2], four[3]);
}
__device__ inline void open(uint4 raw, A (&to)[WIDE]) { unpack(raw, (A(&)[VEC])to); }
#endif

// Reads what earlier launches have written, before this launch has waited for them. They have ended, but the L1 cache
// may still hold stale lines, so the read bypasses it.
template <class W> __device__ inline W from_l2(const W* place) { return __ldcg(place); }

// ---- blocks of a cluster ----

__device__ inline u32 block_rank() {
    u32 rank = 0;
#if CLUSTER > 1
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
    return rank;
}
// Waits until all blocks have started.
__device__ inline void blocks_started() {
#if CLUSTER > 1
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
#endif
}
__device__ inline void blocks_meet() {
#if CLUSTER > 1
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
    __syncthreads();
#endif
}
// Writes into the shared memory of the cluster's first block.
__device__ inline void put(A* place, A value) {
#if CLUSTER > 1
    u32 own = u32(__cvta_generic_to_shared(place)), to;
    asm volatile("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(to) : "r"(own));
#if ELEM == F64
    asm volatile("st.shared::cluster.f64 [%0], %1;" ::"r"(to), "d"(value) : "memory");
#else
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(to), "f"(value) : "memory");
#endif
#else
    *place = value;
#endif
}

// The sums of all blocks of a cluster, in the first one.
struct Finish {
    A blocks[CLUSTER][2][TILE];
    A again[THREADS];
    int bad[2][TILE];
};

// Folds as a tree of adjacent pairs.
template <int COUNT> __device__ inline A fold(A (&value)[COUNT]) {
#pragma unroll
    for (int w = 1; w < COUNT; w *= 2)
#pragma unroll
        for (int i = 0; i + w < COUNT; i += 2 * w) value[i] = value[i] + value[i + w];
    return value[0];
}

template <int KIND> __device__ inline void write(void* to, i64 at, A value) {
    if (to) narrow(value, ((typename ParamType<KIND>::type*)to)[at]);
}
__device__ inline void write(const Params& p, int kind, i64 column, A value) {
    if (kind == 0) write<GAIN>(p.dgain, column, value);
    else write<BIAS>(p.dbias, column, value);
}

// Rule 6: sums that are not finite are recomputed with scaling, by the whole block.
__device__ __noinline__ void sums_again(const Params& p, Finish& shared, i64 base) {
    wait_for_earlier();
    for (int i = 0; i < 2 * TILE; i++) {
        int kind = i / TILE;
        if (!shared.bad[kind][i % TILE]) continue;
        i64 column = base + i % TILE;
        auto dy = [&](i64 at) { return dy_at(p.c, at, column); };
        auto x_hat = [&](i64 at) { return kind == 1 ? A(1) : line_x_hat(line_of(p.c, at, column), x_at(p.c, at, column)); };
        A again = scaled_sum_down(positions(p.c), shared.again, nan_value(), dy, x_hat);
        if (threadIdx.x == 0 && again == again) write(p, kind, column, again);
    }
}

// The first block folds the sums of all blocks and writes the result. All threads of all blocks must call this.
__device__ inline void finish(const Params& p, Finish& shared, u32 rank, i64 base) {
    blocks_meet();
    if (rank == 0) {
        bool any = false;
        for (int at = threadIdx.x; at < 2 * TILE; at += THREADS) {
            int kind = at / TILE;
            i64 column = base + at % TILE;
            A value[CLUSTER];
#pragma unroll
            for (int b = 0; b < CLUSTER; b++) value[b] = shared.blocks[b][kind][at % TILE];
            A sum = fold(value);
            bool mine = column < p.c.columns && (kind == 0 ? p.dgain : p.dbias);
            if (mine) write(p, kind, column, sum);
            shared.bad[kind][at % TILE] = mine && !finite(sum);
            any |= mine && !finite(sum);
        }
        // Almost never true.
        if (__syncthreads_or(any)) sums_again(p, shared, base);
    }
    // This launch must not end before the one that it overlaps with.
    wait_for_earlier();
}
