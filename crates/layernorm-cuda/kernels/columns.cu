// The sums of each chunk of 64 positions, for every column (rule 5):
//
//   TERMS 0   sum(x)
//   TERMS 1   sum(d), sum(d·d), d = x − m
//   TERMS 2   sum(dy·x̂), sum(dy)
//   TERMS 3   sum(dy·x̂), sum(dy), sum(g·x̂), sum(g), g = dy·γ
//
// A thread takes one chunk of one column. Neighbours are columns where these lie side by side (ACROSS), else chunks.
#include "columns.cuh"

struct Params {
    Columns c;
    const void* gain;
    A* sums;  // [kinds][chunks][columns]
};

constexpr int KINDS = TERMS == 0 ? 1 : TERMS == 3 ? 4 : 2;

extern "C" __global__ void __launch_bounds__(THREADS) columns(const __grid_constant__ Params p) {
    const Columns& c = p.c;
    i64 n = positions(c), chunks = (n + CHUNK - 1) / CHUNK;
    for (i64 i = i64(blockIdx.x) * THREADS + threadIdx.x; i < chunks * c.columns; i += i64(gridDim.x) * THREADS) {
        i64 column = ACROSS ? i % c.columns : i / chunks, chunk = ACROSS ? i / c.columns : i % chunks;
        i64 first = chunk * CHUNK, end = first + CHUNK < n ? first + CHUNK : n;
        A sum[KINDS] = {};
        A mean = TERMS == 1 ? c.m[column] : A(0), gain = TERMS == 3 ? gain_of(parameter<GAIN>(p.gain, column, A(1))) : A(1);
#pragma unroll 8
        for (i64 at = first; at < end; at++) {
            A x = x_at(c, at, column);
            if (TERMS == 0) {
                sum[0] = sum[0] + x;
            } else if (TERMS == 1) {
                A d = x - mean;
                sum[0] = sum[0] + d;
                sum[KINDS - 1] = fused(d, d, sum[KINDS - 1]);
            } else {
                A dy = dy_at(c, at, column), x_hat = line_x_hat(line_of(c, at, column), x);
                sum[0] = fused(dy, x_hat, sum[0]);
                sum[KINDS > 1 ? 1 : 0] = sum[KINDS > 1 ? 1 : 0] + dy;
                if (TERMS == 3) {
                    A g = dy * gain;
                    sum[KINDS > 2 ? 2 : 0] = fused(g, x_hat, sum[KINDS > 2 ? 2 : 0]);
                    sum[KINDS > 3 ? 3 : 0] = sum[KINDS > 3 ? 3 : 0] + g;
                }
            }
        }
#pragma unroll
        for (int k = 0; k < KINDS; k++) p.sums[(k * chunks + chunk) * c.columns + column] = sum[k];
    }
}
