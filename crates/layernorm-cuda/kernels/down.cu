// dγ and dβ of rows in one launch (rule 5), with one warp per chunk and tile of columns:
//
//   of a chunk of 64 rows, in order: fma(dy, x̂, ·) and · + dy      chunks: a tree of adjacent pairs
//
// Each thread sums WIDE columns, with many rows in flight. Each of the HIGH warps of a block has a power-of-two number
// of chunks.
#include "down.cuh"

constexpr int HIGH = THREADS / 32;
constexpr int BATCH = BYTES > 8 ? 8 : BYTES > 4 ? 16 : 32;  // rows loaded at once: 64 registers of x and dy
static_assert(CHUNK % BATCH == 0, "whole batches");

// The compiler of CUDA 13.2 crashes with the register limit that more than 12 blocks imply on sm_100 and sm_103.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
constexpr int BLOCKS_AT_ONCE = MIN_BLOCKS < 12 ? MIN_BLOCKS : 12;
#else
constexpr int BLOCKS_AT_ONCE = MIN_BLOCKS;
#endif

struct Shared {
    Line lines[HIGH][CHUNK];            // statistics of the rows of each warp's chunk
    A stack[LEVELS][2][WIDE][THREADS];  // partial sums over 1, 2, 4, … chunks; a warp has up to 2^LEVELS chunks
    A warps[HIGH][2][TILE];
    Finish finish;
};
static_assert(sizeof(Shared) <= SHARED_BYTES, "what the launch gives");

// A thread's columns in the rows of a chunk.
struct Chunk {
    const T *x, *dy;  // of the row that is read next
    i64 x_next, dy_next;
    int rows;

    // Loads the next rows of x and dy; `first` is the index of the first one.
    __device__ void load(int first, Raw (&xs)[BATCH], Raw (&dys)[BATCH]) {
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            if (first + i < rows) {
                xs[i] = from_l2((const Raw*)x);
                dys[i] = from_l2((const Raw*)dy);
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

    // Must follow `load` of the first rows.
    __device__ void sum(Raw (&xs)[BATCH], Raw (&dys)[BATCH], const Line* lines, A (&gain)[WIDE], A (&bias)[WIDE]) {
#pragma unroll 1
        for (int first = 0;;) {
            add(first, xs, dys, lines, gain, bias);
            first += BATCH;
            if (first >= rows) break;
            load(first, xs, dys);
        }
    }

    // For chunks with scaled rows: row by row, from the first one on.
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

// The sums of a chunk, by one warp. The statistics of its rows go through shared memory.
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
            own[i] = Line{p.c.m ? from_l2(p.c.m + at) : A(0), p.c.delta ? from_l2(p.c.delta + at) : A(0), from_l2(p.c.rstd + at), 0};
            scaled |= p.c.lines && was_scaled(own[i].r, p.c.eps);
        }
    scaled = __any_sync(~0u, scaled);
    if (scaled) wait_for_earlier();
#pragma unroll
    for (int i = 0; i < CHUNK / 32; i++)
        if (lane + 32 * i < rows) {
            bool other = scaled && was_scaled(own[i].r, p.c.eps);
            lines[lane + 32 * i] = other ? p.c.lines[first + lane + 32 * i] : own[i];
        }
    __syncwarp();
    if (scaled) scaled_here.sum_scaled(lines, gain, bias);
    else here.sum(xs, dys, lines, gain, bias);
    __syncwarp();
}

// The tree over `each` chunks: the sum of 2^h chunks waits at level h for its neighbor.
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
        // The last chunk of a power of two has been carried up to the root.
        if (turn + 1 < p.each)
#pragma unroll
            for (int j = 0; j < WIDE; j++) {
                shared.stack[level][0][j][threadIdx.x] = gain[j];
                shared.stack[level][1][j][threadIdx.x] = bias[j];
            }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_AT_ONCE) down(const __grid_constant__ Params p) {
    extern __shared__ __align__(128) Words memory[];
    Shared& shared = *(Shared*)memory;
    // The next launch reads nothing of this one before it has ended.
    let_next_start();
    u32 rank = block_rank();
    i64 base = i64(blockIdx.x) / CLUSTER * TILE;
    // Uniform across the warp, which the compiler could not know otherwise.
    int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
    i64 column = base + lane * WIDE;
    A gain[WIDE], bias[WIDE];
    // Threads without columns of their own recompute the last ones.
    tree_sums(p, shared, (i64(rank) * HIGH + warp) * p.each, column < p.c.columns ? column : p.c.columns - WIDE, gain, bias);
    blocks_started();
#pragma unroll
    for (int j = 0; j < WIDE; j++) {
        shared.warps[warp][0][lane * WIDE + j] = gain[j];
        shared.warps[warp][1][lane * WIDE + j] = bias[j];
    }
    __syncthreads();
    for (int at = threadIdx.x; at < 2 * TILE; at += THREADS) {
        A value[HIGH];
#pragma unroll
        for (int w = 0; w < HIGH; w++) value[w] = shared.warps[w][at / TILE][at % TILE];
        put(&shared.finish.blocks[rank][at / TILE][at % TILE], fold(value));
    }
    finish(p, shared.finish, rank, base);
}
