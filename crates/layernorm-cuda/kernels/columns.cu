// The sums of each chunk of 64 positions, for every column (rule 5):
//
//   TERMS 0   sum(x)
//   TERMS 1   sum(d), sum(d·d), d = x − m
//   TERMS 2   sum(dy·x̂), sum(dy)
//   TERMS 3   sum(dy·x̂), sum(dy), sum(g·x̂), sum(g), g = dy·γ
//
// Each thread takes one chunk of one column. Neighboring threads have neighboring columns if these are adjacent in
// memory (ACROSS), else neighboring chunks.
#include "columns.cuh"

struct Params {
    Columns c;
    const void* gain;
    A* sums;  // [kinds][chunks][columns]
};

constexpr int KINDS = TERMS == 0 ? 1 : TERMS == 3 ? 4 : 2;

constexpr int TOGETHER = 8;

__device__ inline void add(A (&sum)[KINDS], A x, A mean) {
    if (TERMS == 0) {
        sum[0] = sum[0] + x;
    } else {
        A d = x - mean;
        sum[0] = sum[0] + d;
        sum[KINDS - 1] = fused(d, d, sum[KINDS - 1]);
    }
}

__device__ inline void add(A (&sum)[KINDS], A dy, A x_hat, A gain) {
    sum[0] = fused(dy, x_hat, sum[0]);
    if constexpr (KINDS > 1) sum[1] = sum[1] + dy;
    if constexpr (KINDS > 3) {
        A g = dy * gain;
        sum[2] = fused(g, x_hat, sum[2]);
        sum[3] = sum[3] + g;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) columns(const __grid_constant__ Params p) {
    const Columns& c = p.c;
    i64 n = positions(c), chunks = (n + CHUNK - 1) / CHUNK;
    for (i64 i = i64(blockIdx.x) * THREADS + threadIdx.x; i < chunks * c.columns; i += i64(gridDim.x) * THREADS) {
        i64 column = ACROSS ? i % c.columns : i / chunks, chunk = ACROSS ? i / c.columns : i % chunks;
        i64 first = chunk * CHUNK, end = first + CHUNK < n ? first + CHUNK : n;
        A sum[KINDS] = {};
        A mean = TERMS == 1 ? c.m[column] : A(0), gain = TERMS == 3 ? gain_of(parameter<GAIN>(p.gain, column, A(1))) : A(1);
        for (i64 at = first; at < end; at += TOGETHER) {
            // Issue all loads first, so that their latencies overlap.
            A x[TOGETHER], dy[TOGETHER];
            Line line[TOGETHER];
#pragma unroll
            for (int i = 0; i < TOGETHER; i++) {
                i64 place = at + i < end ? at + i : end - 1;
                x[i] = x_at(c, place, column);
                if (TERMS >= 2) {
                    dy[i] = dy_at(c, place, column);
                    line[i] = saved_line(c, place, column);
                }
            }
#pragma unroll
            for (int i = 0; i < TOGETHER; i++)
                if (at + i < end) {
                    if (TERMS >= 2) add(sum, dy[i], line_x_hat(scaled_line(c, at + i, column, line[i]), x[i]), gain);
                    else add(sum, x[i], mean);
                }
        }
#pragma unroll
        for (int k = 0; k < KINDS; k++) p.sums[(k * chunks + chunk) * c.columns + column] = sum[k];
    }
}
