// Folds the sums of chunks as adjacent pairs (rule 5) and writes the result:
//
//   OUTPUT 0   the sums as they are, [kinds][columns]
//   OUTPUT 1   sum/M, one kind
//   OUTPUT 2   dγ and dβ, rounded once to their types; a sum that is not finite is recomputed with scaling (rule 6)
//
// A block has WIDE columns of one kind. Each of its THREADS/WIDE threads per column folds an aligned,
// power-of-two number of sums.
#include "columns.cuh"

struct Params {
    Columns c;
    const A* sums;  // [kinds][parts][columns]
    i64 parts;
    A* raw;
    void* dgain;
    void* dbias;
    Count count;
};

constexpr int HIGH = THREADS / WIDE;
constexpr int TOGETHER = 16;
constexpr int LEVELS = 28;

template <int KIND> __device__ inline void write(void* to, i64 at, A value) {
    if (to) narrow(value, ((typename ParamType<KIND>::type*)to)[at]);
}

// The sum of `each` values starting at `first`, `each` being a power of two; values past `parts` count as +0.
__device__ inline A fold_range(const A* from, i64 stride, i64 first, i64 each, i64 parts) {
    auto get = [&](i64 i) { return i < parts ? from[i * stride] : A(0); };
    if (each < TOGETHER) {
        A value[TOGETHER];
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) value[i] = i < each ? get(first + i) : A(0);
#pragma unroll
        for (int w = 1; w < TOGETHER; w *= 2)
#pragma unroll
            for (int i = 0; i < TOGETHER; i += 2 * w)
                if (w < each) value[i] = value[i] + value[i + w];
        return value[0];
    }
    A stack[LEVELS], carried = 0;
    for (i64 turn = 0; turn < each / TOGETHER; turn++) {
        A value[TOGETHER];
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) value[i] = get(first + turn * TOGETHER + i);
#pragma unroll
        for (int w = 1; w < TOGETHER; w *= 2)
#pragma unroll
            for (int i = 0; i < TOGETHER; i += 2 * w) value[i] = value[i] + value[i + w];
        carried = value[0];
        bool done = false;
#pragma unroll
        for (int h = 0; h < LEVELS; h++) {
            if (done) continue;
            if (turn >> h & 1) {
                carried = stack[h] + carried;
            } else {
                stack[h] = carried;
                done = true;
            }
        }
    }
    // The last value of a power of two has been carried up to the root.
    return carried;
}

extern "C" __global__ void __launch_bounds__(THREADS) finish(const __grid_constant__ Params p) {
    __shared__ A shared[THREADS];
    __shared__ int bad[WIDE];
    i64 columns = p.c.columns;
    int c = threadIdx.x % WIDE, t = threadIdx.x / WIDE;
    i64 column = i64(blockIdx.x) * WIDE + c, each = 1;
    while (each * HIGH < p.parts) each *= 2;
    for (int kind = blockIdx.y; kind < KINDS; kind += gridDim.y) {
        A sum = 0;
        if (column < columns) sum = fold_range(p.sums + kind * p.parts * columns + column, columns, t * each, each, p.parts);
        for (int width = 1; width < HIGH && width * each < p.parts; width *= 2) {
            shared[threadIdx.x] = sum;
            __syncthreads();
            if (t % (2 * width) == 0) sum = sum + shared[threadIdx.x + width * WIDE];
            __syncthreads();
        }
        bool mine = t == 0 && column < columns;
        if (OUTPUT == 0 && mine) p.raw[kind * columns + column] = sum;
        if (OUTPUT == 1 && mine) p.raw[column] = divide(sum, p.count);
        if (OUTPUT == 2) {
            bool wanted = kind == 0 ? p.dgain != nullptr : p.dbias != nullptr;
            if (mine && kind == 0) write<GAIN>(p.dgain, column, sum);
            if (mine && kind == 1) write<BIAS>(p.dbias, column, sum);
            bool overflown = mine && wanted && !finite(sum);
            if (t == 0) bad[c] = overflown;
            // Almost always the case.
            if (!__syncthreads_or(overflown)) continue;
            for (int i = 0; i < WIDE; i++) {
                if (!bad[i]) continue;
                i64 which = i64(blockIdx.x) * WIDE + i;
                auto dy = [&](i64 at) { return dy_at(p.c, at, which); };
                auto x_hat = [&](i64 at) { return kind == 1 ? A(1) : line_x_hat(line_of(p.c, at, which), x_at(p.c, at, which)); };
                A again = scaled_sum_down(positions(p.c), shared, nan_value(), dy, x_hat);
                if (threadIdx.x == 0 && again == again) {
                    if (kind == 0) write<GAIN>(p.dgain, which, again);
                    else write<BIAS>(p.dbias, which, again);
                }
            }
            __syncthreads();
        }
    }
}
