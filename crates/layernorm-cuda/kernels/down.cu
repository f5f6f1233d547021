// dγ and dβ of rows in one launch (rule 5):
//
//   of a chunk of 64 rows, in order: fma(dy, x̂, ·) and · + dy      chunks: a tree of adjacent pairs
//
// A warp has 32·WIDE columns and an aligned power of two of chunks; HIGH warps of a block and CLUSTER blocks, each with its own,
// make the whole tree, padded with +0. Nothing waits for the pass over the rows but what needs the statistics of scaled rows
// (rule 6), which that pass leaves at `lines`; so both run beside each other.
#include "columns.cuh"

struct Params {
    Columns c;
    i64 each;  // chunks of a warp
    void* dgain;
    void* dbias;
};

constexpr int HIGH = THREADS / 32;
constexpr int TILE = 32 * WIDE;  // columns of a block
constexpr int BYTES = WIDE * sizeof(T);
constexpr int BATCH = BYTES > 8 ? 16 : BYTES == 4 ? 64 : 32;  // rows that are asked for at once: up to 128 registers of x and dy
static_assert(CHUNK % BATCH == 0, "whole batches");

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
    Line lines[HIGH][CHUNK];              // of the rows of each warp's chunk
    A stack[LEVELS][2][WIDE][THREADS];    // sums of powers of two of chunks; a warp has up to 2^LEVELS
    A warps[HIGH][2][TILE];
    A blocks[CLUSTER][2][TILE];
    A again[THREADS];
    int bad[2][TILE];
};

// The columns of a thread in the rows of a chunk.
struct Chunk {
    const T *x, *dy;  // of the row that is read next
    i64 x_next, dy_next;
    int rows;

    // The next rows of x and dy, of which `first` is the number of the first.
    __device__ void load(int first, Raw (&xs)[BATCH], Raw (&dys)[BATCH]) {
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            if (first + i < rows) {
                xs[i] = *(const Raw*)x;
                dys[i] = *(const Raw*)dy;
            }
            x += x_next;
            dy += dy_next;
        }
    }

    __device__ void add(int first, const Raw (&xs)[BATCH], const Raw (&dys)[BATCH], const Line* lines, A (&gain)[WIDE], A (&bias)[WIDE]) const {
#pragma unroll
        for (int i = 0; i < BATCH; i++)
            if (first + i < rows) {
                const Line& line = lines[first + i];
                A x[WIDE], dy[WIDE];
                open(xs[i], x);
                open(dys[i], dy);
#pragma unroll
                for (int j = 0; j < WIDE; j++) {
                    gain[j] = fused(dy[j], ((x[j] - line.m) - line.delta) * line.r, gain[j]);
                    bias[j] = bias[j] + dy[j];
                }
            }
    }

    // After `load` of the first rows.
    __device__ void sum(Raw (&xs)[BATCH], Raw (&dys)[BATCH], const Line* lines, A (&gain)[WIDE], A (&bias)[WIDE]) {
#pragma unroll 1
        for (int first = 0;;) {
            add(first, xs, dys, lines, gain, bias);
            first += BATCH;
            if (first >= rows) break;
            load(first, xs, dys);
        }
    }

    // Some rows are scaled. From the first row on, one by one.
    __device__ void sum_scaled(const Line* lines, A (&gain)[WIDE], A (&bias)[WIDE]) {
#pragma unroll 1
        for (int row = 0; row < rows; row++, x += x_next, dy += dy_next)
#pragma unroll
            for (int j = 0; j < WIDE; j++) {
                A own = widen(dy[j]);
                gain[j] = fused(own, line_x_hat(lines[row], widen(x[j])), gain[j]);
                bias[j] = bias[j] + own;
            }
    }
};

// The sums of a chunk. A warp's: the statistics of its rows go through shared memory.
__device__ inline void chunk_sums(const Params& p, i64 chunk, i64 column, Line* lines, A (&gain)[WIDE], A (&bias)[WIDE]) {
    i64 first = chunk * CHUNK, left = p.c.samples - first;
    if (left <= 0) return;
    int rows = left < CHUNK ? int(left) : CHUNK, lane = threadIdx.x % 32;
    Chunk here = {p.c.x + first * p.c.x_sample + column, p.c.dy + first * p.c.dy_sample + column, p.c.x_sample, p.c.dy_sample, rows};
    Chunk scaled_here = here;
    Raw xs[BATCH], dys[BATCH];
    here.load(0, xs, dys);
    Line own[CHUNK / 32];
    bool scaled = false;
#pragma unroll
    for (int i = 0; i < CHUNK / 32; i++)
        if (lane + 32 * i < rows) {
            i64 at = first + lane + 32 * i;
            own[i] = Line{p.c.m ? p.c.m[at] : A(0), p.c.delta ? p.c.delta[at] : A(0), p.c.rstd[at], 0};
            scaled |= p.c.lines && own[i].r < LEAST_RSTD;
        }
    scaled = __any_sync(~0u, scaled);
    if (scaled) wait_for_earlier();
#pragma unroll
    for (int i = 0; i < CHUNK / 32; i++)
        if (lane + 32 * i < rows) {
            bool other = scaled && own[i].r < LEAST_RSTD;
            lines[lane + 32 * i] = other ? p.c.lines[first + lane + 32 * i] : own[i];
        }
    __syncwarp();
    if (scaled) scaled_here.sum_scaled(lines, gain, bias);
    else here.sum(xs, dys, lines, gain, bias);
    __syncwarp();
}

// The tree over `each` chunks: the sum of 2^h of them waits at level h for the next.
__device__ inline void tree_sums(const Params& p, Shared& shared, i64 first, i64 column, A (&gain)[WIDE], A (&bias)[WIDE]) {
#pragma unroll 1
    for (int turn = 0; turn < p.each; turn++) {
        int level = 0;
#pragma unroll
        for (int j = 0; j < WIDE; j++) gain[j] = bias[j] = 0;
        chunk_sums(p, first + turn, column, shared.lines[threadIdx.x / 32], gain, bias);
        for (; turn >> level & 1; level++)
#pragma unroll
            for (int j = 0; j < WIDE; j++) {
                gain[j] = shared.stack[level][0][j][threadIdx.x] + gain[j];
                bias[j] = shared.stack[level][1][j][threadIdx.x] + bias[j];
            }
        // The last of a power of two has carried all the way.
        if (turn + 1 < p.each)
#pragma unroll
            for (int j = 0; j < WIDE; j++) {
                shared.stack[level][0][j][threadIdx.x] = gain[j];
                shared.stack[level][1][j][threadIdx.x] = bias[j];
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
    i64 base = i64(blockIdx.x) / CLUSTER * TILE;
    // The same for all of a warp, which the compiler would not know otherwise.
    int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
    i64 column = base + lane * WIDE;
    A gain[WIDE], bias[WIDE];
    // A thread without columns goes along with the last ones.
    tree_sums(p, shared, (i64(rank) * HIGH + warp) * p.each, column < p.c.columns ? column : p.c.columns - WIDE, gain, bias);
    blocks_started();
#pragma unroll
    for (int j = 0; j < WIDE; j++) {
        shared.warps[warp][0][lane * WIDE + j] = gain[j];
        shared.warps[warp][1][lane * WIDE + j] = bias[j];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 2 * TILE; i += THREADS) {
        A value[HIGH];
#pragma unroll
        for (int w = 0; w < HIGH; w++) value[w] = shared.warps[w][i / TILE][i % TILE];
        put(&shared.blocks[rank][i / TILE][i % TILE], fold(value));
    }
    blocks_meet();
    if (rank == 0) {
        bool any = false;
        for (int i = threadIdx.x; i < 2 * TILE; i += THREADS) {
            int kind = i / TILE;
            i64 column = base + i % TILE;
            A value[CLUSTER];
#pragma unroll
            for (int b = 0; b < CLUSTER; b++) value[b] = shared.blocks[b][kind][i % TILE];
            A sum = fold(value);
            bool mine = column < p.c.columns && (kind == 0 ? p.dgain : p.dbias);
            if (mine) write(p, kind, column, sum);
            shared.bad[kind][i % TILE] = mine && !finite(sum);
            any |= mine && !finite(sum);
        }
        // Nearly always there is nothing more to do.
        if (__syncthreads_or(any)) sums_again(p, shared, base);
    }
    // This launch has ended only after the one that it runs beside.
    wait_for_earlier();
}
