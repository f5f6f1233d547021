// Few rows: one thread per lane of the canonical sum (rule 2), so that 256 threads share the work on a row instead of
// 32.
//
// A thread block has one row of up to BLOCKS·1024 elements, with 256 threads per 1024. Thread t has the elements
// ⌊t/256⌋·1024 + k·256 + t mod 256, k = 0..3: the chain of its lane. Lanes fold high bit first. The three high bits are
// the warp; every warp adds up the eight values itself, from shared memory. The other bits are folded by shuffles
// within a warp. Then blocks of 1024 are folded as adjacent pairs. So every thread has every sum after one barrier, or
// two.
#pragma once
#include "terms.cuh"

constexpr int STEPS = 4;
constexpr int PADDED = BLOCKS > 2 ? 4 : BLOCKS;
static_assert(BLOCKS <= 4 && THREADS == 256 * BLOCKS, "256 threads for each 1024 elements");

// Elements of this thread.
typedef A Held[STEPS];

// Values exchanged between threads, double-buffered: one set is read while the next is written.
struct Exchange {
    A lanes[2][2][THREADS];
    A blocks[2][2][PADDED];
};

struct Row {
    int first;  // index of the first element
    int turn;   // exchanges so far
    i64 n;
    Exchange* exchange;

    __device__ Row(Exchange* exchange, i64 n) : turn(0), n(n), exchange(exchange) {
        first = threadIdx.x / 256 * 1024 + threadIdx.x % 256;
        // Entries past the last block are the +0 of the padded tree; the first barrier precedes their first read.
        if (PADDED > BLOCKS && threadIdx.x < 4) exchange->blocks[threadIdx.x / 2][threadIdx.x % 2][PADDED - 1] = 0;
    }

    __device__ int at(int step) const { return first + step * 256; }
    __device__ bool exists(int step) const { return FULL || at(step) < n; }

    // Reduces one value per thread, NS reductions at once. All threads get the results.
    template <int NS, class F> __device__ void join(A (&value)[NS], F both) {
        int set = turn++ & 1, lane = threadIdx.x % 32, block = threadIdx.x / 256;
#pragma unroll
        for (int s = 0; s < NS; s++) exchange->lanes[set][s][threadIdx.x] = value[s];
        __syncthreads();
#pragma unroll
        for (int s = 0; s < NS; s++) {
            A part[8];
#pragma unroll
            for (int i = 0; i < 8; i++) part[i] = exchange->lanes[set][s][block * 256 + i * 32 + lane];
#pragma unroll
            for (int h = 4; h > 0; h /= 2)
#pragma unroll
                for (int i = 0; i < h; i++) part[i] = both(part[i], part[i + h]);
            value[s] = part[0];
        }
#pragma unroll
        for (int o = 16; o > 0; o /= 2)
#pragma unroll
            for (int s = 0; s < NS; s++) value[s] = both(value[s], __shfl_xor_sync(~0u, value[s], o));
        if constexpr (BLOCKS > 1) join_blocks(value, both, set);
    }

    template <int NS, class F> __device__ void join_blocks(A (&value)[NS], F both, int set) {
#pragma unroll
        for (int s = 0; s < NS; s++)
            if (threadIdx.x % 256 == 0) exchange->blocks[set][s][threadIdx.x / 256] = value[s];
        __syncthreads();
#pragma unroll
        for (int s = 0; s < NS; s++) {
            const A(&block)[PADDED] = exchange->blocks[set][s];
            value[s] = both(block[0], block[PADDED > 1 ? 1 : 0]);
            if constexpr (PADDED == 4) value[s] = both(value[s], both(block[2], block[3]));
        }
    }

    template <int NS> __device__ void sum(A (&value)[NS]) {
        join<NS>(value, [](A a, A b) { return a + b; });
    }

    // Whether every element equals this number.
    __device__ bool all(const Held& x, A number) {
        A other[1] = {0};
        for (int k = 0; k < STEPS; k++)
            if (exists(k) && x[k] != number) other[0] = 1;
        join<1>(other, [](A a, A b) { return a > b ? a : b; });
        return other[0] == 0;
    }

    // The largest magnitude in the row; infinity if an element is not finite.
    __device__ A largest(const Held& x) {
        A infinity = A(1) / A(0), most[1] = {0};
        for (int k = 0; k < STEPS; k++)
            if (exists(k)) {
                A value = finite(x[k]) ? magnitude(x[k]) : infinity;
                most[0] = value > most[0] ? value : most[0];
            }
        join<1>(most, [](A a, A b) { return a > b ? a : b; });
        return most[0];
    }
};

// Rule 3. Replaces x by d.
__device__ inline Stat statistics(Row& row, Held& x, const Count& count, A eps, bool& extreme) {
    Stat stat = {0, 0, 0};
    A mean_square;
    if (CENTERED) {
        A sum[1] = {0};
#pragma unroll
        for (int k = 0; k < STEPS; k++)
            if (row.exists(k)) sum[0] = sum[0] + x[k];
        row.sum(sum);
        stat.m = divide(sum[0], count);
        A sums[2] = {0, 0};
#pragma unroll
        for (int k = 0; k < STEPS; k++)
            if (row.exists(k)) {
                x[k] = x[k] - stat.m;
                sums[0] = sums[0] + x[k];
                sums[1] = fused(x[k], x[k], sums[1]);
            }
        row.sum(sums);
        stat.delta = divide(sums[0], count);
        mean_square = fused(-stat.delta, stat.delta, divide(sums[1], count));
        // A NaN stays a NaN.
        if (mean_square < 0) mean_square = 0;
    } else {
        A sum[1] = {0};
#pragma unroll
        for (int k = 0; k < STEPS; k++)
            if (row.exists(k)) sum[0] = fused(x[k], x[k], sum[0]);
        row.sum(sum);
        mean_square = divide(sum[0], count);
    }
    A variance = mean_square + eps;
    extreme = is_extreme(variance);
    stat.r = A(1) / root(variance);
    return stat;
}

// Rule 6 for a row with a finite largest magnitude `most`: scales it by 2^k and returns the statistics of the scaled
// row. For a constant row, k = 0.
__device__ inline Stat scaled_statistics(Row& row, Held& x, const Count& count, A eps, A most, int& k) {
    A m = most + A(0);
    bool same = CENTERED && row.all(x, m);
    if (CENTERED && !same) {
        m = -most;
        same = row.all(x, m);
    }
    k = 0;
    if (same) return Stat{m, 0, A(1) / root(eps)};
    k = scaling_power(most, eps);
    Held d;
    for (int i = 0; i < STEPS; i++) d[i] = x[i] = scale(x[i], k);
    bool extreme;
    return statistics(row, d, count, scaled_eps(eps, k), extreme);
}

template <int KIND> __device__ inline void load_params(const Row& row, const void* from, A absent, Held& to) {
#pragma unroll
    for (int k = 0; k < STEPS; k++) to[k] = row.exists(k) ? parameter<KIND>(from, row.at(k), absent) : absent;
}
__device__ inline void load(const Row& row, const T* from, Held& to) {
#pragma unroll
    for (int k = 0; k < STEPS; k++) to[k] = row.exists(k) ? A(widen(from[row.at(k)])) : A(0);
}
__device__ inline void store(const Row& row, T* to, const Held& from) {
#pragma unroll
    for (int k = 0; k < STEPS; k++)
        if (row.exists(k)) narrow(from[k], to[row.at(k)]);
}
