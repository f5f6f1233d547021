// dγ and dβ of rows in one launch (rule 5):
//
//   of a chunk of 64 rows, in order: fma(dy, x̂, ·) and · + dy      chunks: a tree of adjacent pairs
//
// A block has 32·WIDE columns and an aligned power of two of chunks; CLUSTER blocks, each with its own, make the whole tree, padded
// with +0. All warps of a block read rows of a chunk and leave x̂ and dy in shared memory; then a thread goes down each column of
// either, while the next chunk is on its way. Nothing waits for the pass over the rows but what needs the statistics of scaled
// rows (rule 6), which that pass leaves at `lines`; so both run beside each other.
#define FLAT 1
#include "columns.cuh"

struct Params {
    Columns c;
    i64 each;  // chunks of a block
    void* dgain;
    void* dbias;
};

constexpr int WARPS = THREADS / 32;
constexpr int TILE = 32 * WIDE;        // columns of a block
constexpr int EACH = HEIGHT / WARPS;   // rows of a chunk that a warp reads; HEIGHT: rows of a chunk, if there is only one
constexpr int BYTES = WIDE * sizeof(T);
static_assert(HEIGHT % WARPS == 0 && HEIGHT <= CHUNK && THREADS >= CHUNK, "whole rows a warp, and a thread for each row");

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

// ---- blocks of a cluster ----

__device__ inline u32 block_rank() {
    u32 rank = 0;
#if CLUSTER > 1
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
    return rank;
}
// All blocks have started.
__device__ inline void blocks_started() {
#if CLUSTER > 1
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
#endif
}
__device__ inline void blocks_meet() {
#if CLUSTER > 1
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}
// Writes into the first block's shared memory.
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

struct Shared {
    A rows[HEIGHT][2][TILE];   // x̂ and dy of a chunk
    Line lines[HEIGHT];        // of its rows
    A stack[LEVELS][2][TILE];  // sums of powers of two of chunks; a block has up to 2^LEVELS
    A blocks[CLUSTER][2][TILE];
    A again[THREADS];
    int bad[2][TILE];
};

// What a thread has of a chunk on its way: WIDE columns of EACH rows, and the statistics of one.
struct Chunk {
    Raw x[EACH], dy[EACH];
    Line line;
    int rows;

    __device__ void load(const Params& p, i64 chunk, i64 column, int warp) {
        i64 first = chunk * CHUNK, left = p.c.samples - first;
        rows = left < 0 ? 0 : left < HEIGHT ? int(left) : HEIGHT;
        const T* x_from = p.c.x + (first + warp) * p.c.x_sample + column;
        const T* dy_from = p.c.dy + (first + warp) * p.c.dy_sample + column;
        i64 x_next = WARPS * p.c.x_sample, dy_next = WARPS * p.c.dy_sample;
#pragma unroll
        for (int i = 0; i < EACH; i++, x_from += x_next, dy_from += dy_next)
            if (warp + i * WARPS < rows) {
                x[i] = *(const Raw*)x_from;
                dy[i] = *(const Raw*)dy_from;
            }
        i64 own = first + threadIdx.x;
        if (threadIdx.x < rows) line = Line{p.c.m ? p.c.m[own] : A(0), p.c.delta ? p.c.delta[own] : A(0), p.c.rstd[own], 0};
    }

    // The statistics into shared memory; those of a scaled row are what the pass over the rows has left.
    __device__ void show_lines(const Params& p, i64 chunk, Line (&lines)[HEIGHT]) {
        if (threadIdx.x >= rows) return;
        if (p.c.lines && line.r < LEAST_RSTD) {
            wait_for_earlier();
            line = p.c.lines[chunk * CHUNK + threadIdx.x];
        }
        lines[threadIdx.x] = line;
    }

    __device__ void show_rows(const Line (&lines)[HEIGHT], A (&to)[HEIGHT][2][TILE], int warp) const {
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            int row = warp + i * WARPS;
            if (row >= rows) continue;
            Line own = lines[row];
            A xs[WIDE], dys[WIDE];
            open(x[i], xs);
            open(dy[i], dys);
            if (own.k != 0)
                for (int j = 0; j < WIDE; j++) xs[j] = scale(xs[j], own.k);
#pragma unroll
            for (int j = 0; j < WIDE; j++) {
                to[row][0][threadIdx.x % 32 * WIDE + j] = ((xs[j] - own.m) - own.delta) * own.r;
                to[row][1][threadIdx.x % 32 * WIDE + j] = dys[j];
            }
        }
    }
};

// Down a column of a chunk; the first of each pair of columns is dγ's, the second dβ's.
__device__ inline A sum_column(const A (&from)[HEIGHT][2][TILE], int kind, int column, int rows) {
    A sum = 0;
    if (kind == 0) {
#pragma unroll 8
        for (int row = 0; row < rows; row++) sum = fused(from[row][1][column], from[row][0][column], sum);
    } else {
#pragma unroll 8
        for (int row = 0; row < rows; row++) sum = sum + from[row][1][column];
    }
    return sum;
}

// The tree over the chunks of a block, of which a thread has the columns `threadIdx.x + i·THREADS` of both kinds. The sum of 2^h of
// them waits at level h for the next.
constexpr int COLUMNS = (2 * TILE + THREADS - 1) / THREADS;
__device__ inline void tree_sums(const Params& p, Shared& shared, i64 first, i64 column, int warp, A (&sums)[COLUMNS]) {
    Chunk chunk;
    chunk.load(p, first, column, warp);
#pragma unroll 1
    for (int turn = 0; turn < p.each; turn++) {
        chunk.show_lines(p, first + turn, shared.lines);
        __syncthreads();
        chunk.show_rows(shared.lines, shared.rows, warp);
        int count = chunk.rows;
        if (turn + 1 < p.each) chunk.load(p, first + turn + 1, column, warp);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < COLUMNS; i++) {
            int at = threadIdx.x + i * THREADS, level = 0;
            if (at >= 2 * TILE) break;
            A sum = sum_column(shared.rows, at / TILE, at % TILE, count);
            for (; turn >> level & 1; level++) sum = shared.stack[level][at / TILE][at % TILE] + sum;
            // The last of a power of two has carried all the way.
            if (turn + 1 < p.each) shared.stack[level][at / TILE][at % TILE] = sum;
            sums[i] = sum;
        }
    }
}

// A tree of adjacent pairs.
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

// Rule 6: a sum that is not finite is done again scaled, by the whole block.
__device__ __noinline__ void sums_again(const Params& p, Shared& shared, i64 base) {
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

extern "C" __global__ void __launch_bounds__(THREADS, 1) down(const __grid_constant__ Params p) {
    extern __shared__ __align__(128) Words memory[];
    Shared& shared = *(Shared*)memory;
    // Nothing of this is read by the next launch before it has ended.
    let_next_start();
    u32 rank = block_rank();
    i64 base = i64(blockIdx.x) / CLUSTER * TILE, column = base + threadIdx.x % 32 * WIDE;
    // The same for all of a warp, which the compiler would not know otherwise.
    int warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
    A sums[COLUMNS];
    // A thread without columns goes along with the last ones.
    tree_sums(p, shared, i64(rank) * p.each, column < p.c.columns ? column : p.c.columns - WIDE, warp, sums);
    blocks_started();
#pragma unroll
    for (int i = 0; i < COLUMNS; i++) {
        int at = threadIdx.x + i * THREADS;
        if (at < 2 * TILE) put(&shared.blocks[rank][at / TILE][at % TILE], sums[i]);
    }
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
        // Nearly always there is nothing more to do.
        if (__syncthreads_or(any)) sums_again(p, shared, base);
    }
    // This launch has ended only after the one that it runs beside.
    wait_for_earlier();
}
