// Tensors as positions and columns: rows and features, or the places and channels of [N, C, …].
//
// The sums of a column run down its positions in chunks of 64, each from +0 in order, and the chunks are folded as
// adjacent pairs (rule 5). The rest of this file serves rule 6, where speed does not matter: sums down a column by a
// whole block.
#pragma once
#include "terms.cuh"

constexpr int CHUNK = 64;

struct Columns {
    const T* x;
    const T* dy;
    i64 samples, columns, space;  // positions = samples·space
    i64 x_sample, x_column, x_place;
    i64 dy_sample, dy_column, dy_place;
    const A* m;  // one per sample and group; if groups = 0, one per column
    const A* delta;
    const A* rstd;
    i64 groups;
    i64 fixed;       // running statistics: no row was scaled
    const Line* lines;  // statistics of rows that were scaled
    A eps;
};

// FLAT: positions are samples, and statistics are per sample or per column. Known at compile time, so that no division
// separates loads whose latencies could overlap.
#ifndef FLAT
#define FLAT 0
#endif
__device__ inline i64 sample_of(const Columns& c, i64 position) { return FLAT || c.space == 1 ? position : position / c.space; }
__device__ inline i64 place_of(const Columns& c, i64 position) { return FLAT || c.space == 1 ? 0 : position % c.space; }

__device__ inline i64 positions(const Columns& c) { return c.samples * c.space; }
__device__ inline A x_at(const Columns& c, i64 position, i64 column) {
    return widen(c.x[sample_of(c, position) * c.x_sample + column * c.x_column + place_of(c, position) * c.x_place]);
}
__device__ inline A dy_at(const Columns& c, i64 position, i64 column) {
    return widen(c.dy[sample_of(c, position) * c.dy_sample + column * c.dy_column + place_of(c, position) * c.dy_place]);
}

// Folds values that arrive in order, as a balanced tree of adjacent pairs padded with +0.
struct PairTree {
    A slot[40];
    u64 count;
    __device__ PairTree() : count(0) {}
    __device__ void push(A value) {
        int height = 0;
        for (; count >> height & 1; height++) value = slot[height] + value;
        slot[height] = value;
        count++;
    }
    __device__ A finish() {
        if (count == 0) return 0;
        int height = 0;
        while (!(count >> height & 1)) height++;
        A right = slot[height];
        // Padding turns a sum of −0 into +0.
        if (count != u64(1) << height) right = right + A(0);
        for (height++; height < 40; height++)
            if (count >> height & 1) right = slot[height] + right;
        return right;
    }
};

__device__ inline A line_x_hat(const Line& line, A x) {
    if (line.k != 0) x = scale(x, line.k);
    return ((x - line.m) - line.delta) * line.r;
}

// Index of the statistics of an element's row (or column).
__device__ inline i64 stat_at(const Columns& c, i64 position, i64 column) {
    if (c.groups == 0) return column;
    i64 sample = sample_of(c, position);
    return FLAT || c.groups == 1 ? sample : sample * c.groups + column / (c.columns / c.groups);
}

// The statistics that the forward pass saved.
__device__ inline Line saved_line(const Columns& c, i64 position, i64 column) {
    i64 at = stat_at(c, position, column);
    return Line{c.m ? c.m[at] : A(0), c.delta ? c.delta[at] : A(0), c.rstd[at], 0};
}

// The statistics of a scaled row, which the pass over the rows has stored.
__device__ inline Line scaled_line(const Columns& c, i64 position, i64 column, const Line& saved) {
    return c.lines && was_scaled(saved.r, c.eps) ? c.lines[stat_at(c, position, column)] : saved;
}

// The statistics from which x̂ of an element is computed.
__device__ inline Line line_of(const Columns& c, i64 position, i64 column) {
    return scaled_line(c, position, column, saved_line(c, position, column));
}

// ---- a whole block down one column ----

// The largest of non-negative numbers over the block; infinity if one is not finite.
__device__ inline A block_largest(A value, A* shared) {
    __syncthreads();
    shared[threadIdx.x] = value;
    __syncthreads();
    A max = 0;
    for (int i = 0; i < THREADS; i++) max = shared[i] > max ? shared[i] : max;
    return max;
}
template <class F> __device__ A largest_down(i64 n, A* shared, F value) {
    A max = 0;
    for (i64 i = threadIdx.x; i < n; i += THREADS) {
        A x = magnitude(value(i));
        if (!finite(x)) x = A(1) / A(0);
        max = x > max ? x : max;
    }
    return block_largest(max, shared);
}

// Rule 5 over n positions: each thread takes an aligned, power-of-two number of chunks.
template <class F> __device__ A sum_down(i64 n, A* shared, F term) {
    i64 chunks = (n + CHUNK - 1) / CHUNK, each = 1;
    while (each * THREADS < chunks) each *= 2;
    PairTree tree;
    for (i64 chunk = threadIdx.x * each; chunk < (threadIdx.x + 1) * each; chunk++) {
        A acc = 0;
        for (i64 i = chunk * CHUNK; i < n && i < (chunk + 1) * CHUNK; i++) acc = term(i, acc);
        tree.push(acc);
    }
    __syncthreads();
    shared[threadIdx.x] = tree.finish();
    __syncthreads();
    for (int width = 1; width < THREADS && width * each < chunks; width *= 2) {
        A sum = 0;
        bool mine = threadIdx.x % (2 * width) == 0;
        if (mine) sum = shared[threadIdx.x] + shared[threadIdx.x + width];
        __syncthreads();
        if (mine) shared[threadIdx.x] = sum;
        __syncthreads();
    }
    A total = shared[0];
    __syncthreads();
    return total;
}

// Recomputes a sum that is not finite, with the first factor scaled by the power of its largest magnitude. Returns
// `plain` if a factor is not finite.
template <class F, class G> __device__ A scaled_sum_down(i64 n, A* shared, A plain, F first, G second) {
    A max = largest_down(n, shared, first), other = largest_down(n, shared, second);
    if (!finite(max) || !finite(other)) return plain;
    int j = power(max);
    return scale(sum_down(n, shared, [&](i64 i, A acc) { return fused(scale(first(i), j), second(i), acc); }), -j);
}
