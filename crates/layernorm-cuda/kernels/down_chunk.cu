// dγ and dβ of few rows in one launch (rule 5), with one block per chunk and tile of columns:
//
//   of a chunk of 64 rows, in order: fma(dy, x̂, ·) and · + dy      chunks: a tree of adjacent pairs
//
// All warps read rows of the chunk and store x̂ and dy in shared memory. Then one thread per column and gradient sums
// down the rows.
#include "down.cuh"

constexpr int WARPS = THREADS / 32;
constexpr int EACH = HEIGHT / WARPS;  // rows that a warp reads; HEIGHT: maximum rows of a chunk
static_assert(HEIGHT % WARPS == 0 && HEIGHT <= CHUNK && THREADS >= CHUNK, "whole rows a warp, and a thread for each row");

struct Shared {
    A rows[HEIGHT][TILE][2];  // x̂ and dy of the chunk
    Line lines[HEIGHT];       // statistics of its rows
    Finish finish;
};
static_assert(sizeof(Shared) <= SHARED_BYTES, "what the launch gives");

// What a thread loads of the chunk: WIDE columns of EACH rows, and the statistics of one row.
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
                x[i] = from_l2((const Raw*)x_from);
                dy[i] = from_l2((const Raw*)dy_from);
            }
        i64 own = first + threadIdx.x;
        if (threadIdx.x < rows) line = Line{p.c.m ? from_l2(p.c.m + own) : A(0), p.c.delta ? from_l2(p.c.delta + own) : A(0), from_l2(p.c.rstd + own), 0};
    }

    // Writes the statistics to shared memory; those of a scaled row come from the pass over the rows.
    __device__ void show_lines(const Params& p, i64 chunk, Line (&lines)[HEIGHT]) {
        if (threadIdx.x >= rows) return;
        if (p.c.lines && was_scaled(line.r, p.c.eps)) {
            wait_for_earlier();
            line = p.c.lines[chunk * CHUNK + threadIdx.x];
        }
        lines[threadIdx.x] = line;
    }

    __device__ void show_rows(const Line (&lines)[HEIGHT], A (&to)[HEIGHT][TILE][2], int warp) const {
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
                A(&both)[2] = to[row][threadIdx.x % 32 * WIDE + j];
                both[0] = ((xs[j] - own.m) - own.delta) * own.r;
                both[1] = dys[j];
            }
        }
    }
};

// Sums ROWS rows of a column: for dγ, or for dβ with x̂ = 1, where the product is dy itself.
template <int ROWS> __device__ inline A sum_rows(const A (&from)[HEIGHT][TILE][2], int first, int kind, int column, A sum) {
    A x_hat[ROWS], dy[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        x_hat[i] = kind == 0 ? from[first + i][column][0] : A(1);
        dy[i] = from[first + i][column][1];
    }
#pragma unroll
    for (int i = 0; i < ROWS; i++) sum = fused(dy[i], x_hat[i], sum);
    return sum;
}

__device__ inline A sum_column(const A (&from)[HEIGHT][TILE][2], int kind, int column, int rows) {
    if (rows == HEIGHT) return sum_rows<HEIGHT>(from, 0, kind, column, 0);
    A sum = 0;
    int row = 0;
#pragma unroll 1
    for (; row + 8 <= rows; row += 8) sum = sum_rows<8>(from, row, kind, column, sum);
#pragma unroll 1
    for (; row < rows; row++) sum = sum_rows<1>(from, row, kind, column, sum);
    return sum;
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS) down(const __grid_constant__ Params p) {
    extern __shared__ __align__(128) Words memory[];
    Shared& shared = *(Shared*)memory;
    // The next launch reads nothing of this one before it has ended.
    let_next_start();
    u32 rank = block_rank();
    i64 base = i64(blockIdx.x) / CLUSTER * TILE, column = base + threadIdx.x % 32 * WIDE;
    // Uniform across the warp, which the compiler could not know otherwise.
    int warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
    Chunk chunk;
    // Threads without columns of their own recompute the last ones.
    chunk.load(p, rank, column < p.c.columns ? column : p.c.columns - WIDE, warp);
    chunk.show_lines(p, rank, shared.lines);
    __syncthreads();
    chunk.show_rows(shared.lines, shared.rows, warp);
    __syncthreads();
    blocks_started();
    for (int at = threadIdx.x; at < 2 * TILE; at += THREADS) {
        A sum = sum_column(shared.rows, at / TILE, at % TILE, chunk.rows);
        put(&shared.finish.blocks[rank][at / TILE][at % TILE], sum);
    }
    finish(p, shared.finish, rank, base);
}
