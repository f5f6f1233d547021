// Rows that no team can hold: one block per row, which reads it once for each sum and once more to write. Slow but
// correct.
//
// Warps take aligned ranges of 2^k blocks of 1024, fold each block as the other kernels do, and
// fold the ranges as adjacent pairs. Forward and dx. Rule 6 scales every element as it is read.
#include "rows.cuh"
#include "columns.cuh"

struct Params {
    const T* x;
    const T* other;  // residual (forward) or dy (backward)
    const T* dh;
    T* h;
    T* to;           // y (forward) or dx (backward)
    const void* gain;
    const void* bias;
    A* m;
    A* delta;
    A* rstd;
    Line* lines;
    i64 rows, n;
    i64 stride_x, stride_other, stride_dh, stride_h, stride_to;
    i64 span, groups;
    Count count;
    A eps;
};

struct Row {
    Team& team;
    i64 n;

    // NS sums of `term(i, lanes)` over the row, with one warp per range.
    template <int NS, class F> __device__ void sum(A (&total)[NS], F term) {
        i64 blocks = (n + 1023) / 1024, each = 1;
        while (each * WARPS < blocks) each *= 2;
        PairTree tree[NS];
        int warp = threadIdx.x / 32;
        for (i64 block = warp * each; block < (warp + 1) * each && block < blocks; block++) {
            A lane[NS][PARTS][VEC] = {};
#pragma unroll
            for (int v = 0; v < VECS; v++)
#pragma unroll
                for (int j = 0; j < VEC; j++) {
                    i64 i = block * 1024 + v * SPREAD + team.thread * VEC + j;
                    if (i < n) {
                        A one[NS];
#pragma unroll
                        for (int s = 0; s < NS; s++) one[s] = lane[s][v % PARTS][j];
                        term(i, one);
#pragma unroll
                        for (int s = 0; s < NS; s++) lane[s][v % PARTS][j] = one[s];
                    }
                }
#pragma unroll
            for (int s = 0; s < NS; s++) tree[s].push(team.fold(lane[s]));
        }
#pragma unroll
        for (int s = 0; s < NS; s++) {
            total[s] = tree[s].finish();
            // A range that is not full is padded with +0.
            if ((warp + 1) * each > blocks) total[s] = total[s] + A(0);
        }
        team.template blocks<NS>(total);
    }

    template <class F> __device__ A largest(F value) {
        A max = 0;
        for (i64 i = threadIdx.x; i < n; i += THREADS) {
            A x = magnitude(value(i));
            if (!finite(x)) x = A(1) / A(0);
            max = x > max ? x : max;
        }
        return team.largest(max);
    }
};

template <class F> __device__ Line statistics(Row& row, const Count& count, A eps, F x, A& variance) {
    Line line = {0, 0, 0, 0};
    A v;
    A sum[1], two[2];
    if (CENTERED) {
        row.sum<1>(sum, [&](i64 i, A(&acc)[1]) { acc[0] = acc[0] + x(i); });
        line.m = divide(sum[0], count);
        row.sum<2>(two, [&](i64 i, A(&acc)[2]) {
            A d = x(i) - line.m;
            acc[0] = acc[0] + d;
            acc[1] = fused(d, d, acc[1]);
        });
        line.delta = divide(two[0], count);
        v = fused(-line.delta, line.delta, divide(two[1], count));
        if (v < 0) v = 0;
    } else {
        row.sum<1>(sum, [&](i64 i, A(&acc)[1]) { A one = x(i); acc[0] = fused(one, one, acc[0]); });
        v = divide(sum[0], count);
    }
    variance = v + eps;
    line.r = A(1) / root(variance);
    return line;
}

// Rule 6: the statistics of a constant row, or of the row scaled by the power of its largest magnitude. Returns false
// if an element is not finite.
template <class F> __device__ bool scaled(Row& row, const Params& p, F x, Line& line) {
    A max = row.largest(x), variance;
    if (!finite(max)) return false;
    auto all = [&](A number) { return row.largest([&](i64 i) { return A(x(i) != number); }) == 0; };
    if (CENTERED) {
        bool above = all(max);
        if (above || all(-max)) {
            line = Line{above ? max : -max, 0, A(1) / root(p.eps), 0};
            return true;
        }
    }
    int k = scaling_power(max, p.eps);
    line = statistics(row, p.count, scaled_eps(p.eps, k), [&](i64 i) { return scale(x(i), k); }, variance);
    line.k = k;
    return true;
}

__device__ inline i64 param_index(const Params& p, i64 row, i64 i) { return row % p.groups * (p.n / p.span) + i / p.span; }

#ifdef ENTRY_forward
extern "C" __global__ void __launch_bounds__(THREADS) forward(const __grid_constant__ Params p) {
    __shared__ Exchange exchange;
    Team team(&exchange);
    Row line_of_row = {team, p.n};
    for (i64 row = blockIdx.x; row < p.rows; row += gridDim.x) {
        const T* from = p.x + row * p.stride_x;
        if (RESIDUAL) {
            T* h = p.h + row * p.stride_h;
            const T* residual = p.other + row * p.stride_other;
            for (i64 i = threadIdx.x; i < p.n; i += THREADS) narrow(A(widen(from[i]) + widen(residual[i])), h[i]);
            __syncthreads();
            from = h;
        }
        auto x = [&](i64 i) { return A(widen(from[i])); };
        A variance;
        Line line = statistics(line_of_row, p.count, p.eps, x, variance), saved = line;
        if (is_extreme(variance)) {
            if (scaled(line_of_row, p, x, line)) saved = Line{scale(line.m, -line.k), scale(line.delta, -line.k), scale(line.r, line.k), 0};
            else line = saved = Line{nan_value(), nan_value(), nan_value(), 0};
        }
        if (threadIdx.x == 0 && p.rstd) {
            if (p.m) p.m[row] = saved.m;
            if (p.delta) p.delta[row] = saved.delta;
            p.rstd[row] = saved.r;
        }
        for (i64 i = threadIdx.x; i < p.n; i += THREADS) {
            i64 at = param_index(p, row, i);
            A gain = gain_of(parameter<GAIN>(p.gain, at, A(1))), bias = parameter<BIAS>(p.bias, at, A(-0.0));
            narrow(fused(line_x_hat(line, x(i)), gain, bias), p.to[row * p.stride_to + i]);
        }
    }
}
#endif

#ifdef ENTRY_backward
extern "C" __global__ void __launch_bounds__(THREADS) backward(const __grid_constant__ Params p) {
    __shared__ Exchange exchange;
    Team team(&exchange);
    Row line_of_row = {team, p.n};
    for (i64 row = blockIdx.x; row < p.rows; row += gridDim.x) {
        const T *from = p.x + row * p.stride_x, *dy_row = p.other + row * p.stride_other;
        auto x = [&](i64 i) { return A(widen(from[i])); };
        auto dy = [&](i64 i) { return A(widen(dy_row[i])); };
        auto gain = [&](i64 i) { return gain_of(parameter<GAIN>(p.gain, param_index(p, row, i), A(1))); };
        Line line = {CENTERED ? p.m[row] : A(0), CENTERED ? p.delta[row] : A(0), p.rstd[row], 0};
        int j = 0, l = 0;
        A sum[2];
        auto g = [&](i64 i) { return scale(dy(i), j) * scale(gain(i), l); };
        auto term = [&](i64 i, A(&acc)[2]) {
            A value = g(i);
            acc[0] = acc[0] + value;
            acc[1] = fused(value, line_x_hat(line, x(i)), acc[1]);
        };
        line_of_row.sum<2>(sum, term);
        if (!CENTERED) sum[0] = 0;
        bool again = was_scaled(line.r, p.eps);
        if (again || !finite(divide(sum[0], p.count) + divide(sum[1], p.count))) {
            if (again) {
                scaled(line_of_row, p, x, line);
                if (threadIdx.x == 0 && p.lines) p.lines[row] = line;
            }
            A most_dy = line_of_row.largest(dy), most_gain = line_of_row.largest(gain);
            if (finite(most_dy) && finite(most_gain)) {
                j = power(most_dy);
                l = power(most_gain);
            }
            line_of_row.sum<2>(sum, term);
        }
        A a = CENTERED ? divide(sum[0], p.count) : A(0), b = divide(sum[1], p.count);
        for (i64 i = threadIdx.x; i < p.n; i += THREADS) {
            A x_hat = line_x_hat(line, x(i));
            A dx = scale(line.r * fused(-x_hat, b, g(i) - a), line.k - j - l);
            T rounded;
            narrow(dx, rounded);
            if (RESIDUAL) narrow(A(widen(rounded) + widen(p.dh[row * p.stride_dh + i])), rounded);
            if (p.to) p.to[row * p.stride_to + i] = rounded;
        }
    }
}
#endif
