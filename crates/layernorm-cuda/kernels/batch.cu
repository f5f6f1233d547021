// Batch norm apart from its sums (rule 5): statistics and running statistics, a and b, and the element-wise passes.
//
//   r = 1/sqrt(v + ε)      y = fma(x̂, γ, β)      dx = r·fma(−x̂, b, g − a), or r·g where the statistics are fixed
//   running = fma(f, batch, (1 − f)·running)
//
// One block per channel computes the channel's numbers; it also recomputes a channel that overflows (rule 6).
#include "columns.cuh"

// The types of dγ and dβ, if they are wanted.
#ifndef GAIN_TO
#define GAIN_TO 0
#define BIAS_TO 0
#endif

struct Numbers { A m, delta, r, a, b; int k, j, l; };  // per channel, for the element-wise pass

struct Params {
    Columns c;
    const void* gain;
    const void* bias;
    const A* sums;       // [kinds][columns]
    A* m;                // saved
    A* delta;
    A* rstd;
    A* running_mean;
    A* running_var;
    A factor, correction;
    Count count;
    Numbers* numbers;
    void* dgain;
    void* dbias;
    T* to;
    i64 to_sample, to_column, to_place;
};

// Statistics of a column by rule 6: those of a constant column, or scaled. If an element is not finite, k = 0 and
// `fine` is false.
__device__ Line scaled_column(const Params& p, i64 column, A* shared, bool& fine, A& v) {
    i64 n = positions(p.c);
    auto value = [&](i64 i) { return x_at(p.c, i, column); };
    A max = largest_down(n, shared, value);
    fine = finite(max);
    Line line = {0, 0, 0, 0};
    if (!fine) return line;
    auto all = [&](A number) { return largest_down(n, shared, [&](i64 i) { return A(value(i) != number); }) == 0; };
    bool above = all(max);
    if (above || all(-max)) {
        v = 0;
        return Line{above ? max : -max, 0, A(1) / root(p.c.eps), 0};
    }
    line.k = scaling_power(max, p.c.eps);
    auto x = [&](i64 i) { return scale(value(i), line.k); };
    line.m = divide(sum_down(n, shared, [&](i64 i, A acc) { return acc + x(i); }), p.count);
    line.delta = divide(sum_down(n, shared, [&](i64 i, A acc) { return acc + (x(i) - line.m); }), p.count);
    A squares = sum_down(n, shared, [&](i64 i, A acc) { A d = x(i) - line.m; return fused(d, d, acc); });
    v = fused(-line.delta, line.delta, divide(squares, p.count));
    if (v < 0) v = 0;
    line.r = A(1) / root(v + scaled_eps(p.c.eps, line.k));
    return line;
}

// A value with weight 0 must not count at all: 0·∞ would be NaN.
__device__ inline A blend(A factor, A old, A fresh) {
    return factor == 0 ? old : factor == 1 ? fresh : fused(factor, fresh, (A(1) - factor) * old);
}

#ifdef ENTRY_statistics
extern "C" __global__ void __launch_bounds__(THREADS) statistics(const __grid_constant__ Params p) {
    __shared__ A shared[THREADS];
    i64 c = blockIdx.x;
    A delta = divide(p.sums[c], p.count);
    A v = fused(-delta, delta, divide(p.sums[p.c.columns + c], p.count));
    if (v < 0) v = 0;
    A variance = v + p.c.eps;
    Line line = {p.m[c], delta, A(1) / root(variance), 0}, saved = line;
    if (is_extreme(variance)) {
        bool fine;
        A scaled_v;
        line = scaled_column(p, c, shared, fine, scaled_v);
        if (fine) {
            saved = Line{scale(line.m, -line.k), scale(line.delta, -line.k), scale(line.r, line.k), 0};
            v = scale(scaled_v, -2 * line.k);
        } else {
            line = saved = Line{nan_value(), nan_value(), nan_value(), 0};
        }
    }
    if (threadIdx.x != 0) return;
    p.m[c] = saved.m;
    p.delta[c] = saved.delta;
    p.rstd[c] = saved.r;
    p.numbers[c] = Numbers{line.m, line.delta, line.r, 0, 0, line.k, 0, 0};
    if (p.running_mean) p.running_mean[c] = blend(p.factor, p.running_mean[c], saved.m + saved.delta);
    if (p.running_var) p.running_var[c] = blend(p.factor, p.running_var[c], v * p.correction);
}
#endif

// Statistics from running moments, written to m, delta and rstd (in the workspace) and to the numbers.
#ifdef ENTRY_moments
extern "C" __global__ void __launch_bounds__(THREADS) moments(const __grid_constant__ Params p) {
    i64 c = i64(blockIdx.x) * THREADS + threadIdx.x;
    if (c >= p.c.columns) return;
    A r = A(1) / root(p.running_var[c] + p.c.eps);
    p.m[c] = p.running_mean[c];
    p.delta[c] = 0;
    p.rstd[c] = r;
    p.numbers[c] = Numbers{p.running_mean[c], 0, r, 0, 0, 0, 0, 0};
}
#endif

template <int KIND> __device__ inline void write(void* to, i64 at, A value) {
    if (to) narrow(value, ((typename ParamType<KIND>::type*)to)[at]);
}

// Sums: dγ, dβ, sum(g·x̂), sum(g).
#ifdef ENTRY_gradients
extern "C" __global__ void __launch_bounds__(THREADS) gradients(const __grid_constant__ Params p) {
    __shared__ A shared[THREADS];
    i64 c = blockIdx.x, columns = p.c.columns, n = positions(p.c);
    A dgain = p.sums[c], dbias = p.sums[columns + c];
    A b = divide(p.sums[2 * columns + c], p.count), a = divide(p.sums[3 * columns + c], p.count);
    A gain = gain_of(parameter<GAIN>(p.gain, c, A(1)));
    Line line = {p.c.m[c], p.c.delta[c], p.c.rstd[c], 0};
    Numbers numbers = {line.m, line.delta, line.r, a, b, 0, 0, 0};
    bool scaled = !p.c.fixed && was_scaled(line.r, p.c.eps);
    if (!finite((a + b) + (dgain + dbias)) || scaled) {
        if (scaled) {
            bool fine;
            A v;
            Line again = scaled_column(p, c, shared, fine, v);
            if (fine) line = again;
        }
        auto dy = [&](i64 i) { return dy_at(p.c, i, c); };
        auto x_hat = [&](i64 i) { return line_x_hat(line, x_at(p.c, i, c)); };
        if (!p.c.fixed) {
            A most = largest_down(n, shared, dy);
            bool fine = finite(most) && finite(gain);
            int j = fine ? power(most) : 0, l = fine ? power(magnitude(gain)) : 0;
            auto g = [&](i64 i) { return scale(dy(i), j) * scale(gain, l); };
            a = divide(sum_down(n, shared, [&](i64 i, A acc) { return acc + g(i); }), p.count);
            b = divide(sum_down(n, shared, [&](i64 i, A acc) { return fused(g(i), x_hat(i), acc); }), p.count);
            numbers = Numbers{line.m, line.delta, line.r, a, b, line.k, j, l};
        }
        dgain = scaled_sum_down(n, shared, dgain, dy, x_hat);
        dbias = scaled_sum_down(n, shared, dbias, dy, [&](i64) { return A(1); });
    }
    if (threadIdx.x != 0) return;
    p.numbers[c] = numbers;
    write<GAIN_TO>(p.dgain, c, dgain);
    write<BIAS_TO>(p.dbias, c, dbias);
}
#endif

// One element of the output; with BACK, of dx.
template <bool BACK> __device__ inline void element(const Params& p, i64 sample, i64 channel, i64 place, const Numbers& s, A gain, A bias) {
    A x = widen(p.c.x[sample * p.c.x_sample + channel * p.c.x_column + place * p.c.x_place]), out;
    if (s.k != 0) x = scale(x, s.k);
    A x_hat = ((x - s.m) - s.delta) * s.r;
    if (BACK) {
        A dy = widen(p.c.dy[sample * p.c.dy_sample + channel * p.c.dy_column + place * p.c.dy_place]);
        bool plain = s.k == 0 && s.j == 0 && s.l == 0;
        A g = plain ? dy * gain : scale(dy, s.j) * scale(gain, s.l);
        out = p.c.fixed ? s.r * g : s.r * fused(-x_hat, s.b, g - s.a);
        if (!plain) out = scale(out, s.k - s.j - s.l);
    } else {
        out = fused(x_hat, gain, bias);
    }
    narrow(out, p.to[sample * p.to_sample + channel * p.to_column + place * p.to_place]);
}

template <bool BACK> __device__ inline void map(const Params& p) {
    i64 outer = ACROSS ? p.c.samples : p.c.samples * p.c.columns, inner = ACROSS ? p.c.columns : p.c.space;
    for (i64 o = blockIdx.x; o < outer; o += gridDim.x) {
        i64 sample = ACROSS ? o : o / p.c.columns, channel = ACROSS ? 0 : o % p.c.columns;
        Numbers s;
        A gain = 1, bias = A(-0.0);
        for (i64 i = threadIdx.x; i < inner; i += THREADS) {
            if (ACROSS || i == threadIdx.x) {
                i64 c = ACROSS ? i : channel;
                s = p.numbers[c];
                gain = gain_of(parameter<GAIN>(p.gain, c, A(1)));
                bias = parameter<BIAS>(p.bias, c, A(-0.0));
            }
            element<BACK>(p, sample, ACROSS ? i : channel, ACROSS ? 0 : i, s, gain, bias);
        }
    }
}

#ifdef ENTRY_map_forward
extern "C" __global__ void __launch_bounds__(THREADS) map_forward(const __grid_constant__ Params p) { map<false>(p); }
#endif
#ifdef ENTRY_map_backward
extern "C" __global__ void __launch_bounds__(THREADS) map_backward(const __grid_constant__ Params p) { map<true>(p); }
#endif
