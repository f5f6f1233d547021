// Forward pass of few rows (rule 3), with the residual of rule 7:
//
//   h = x + residual, rounded to the type      y = fma((d − δ)·r, γ, β)
//
// One thread block per row. γ and β are loaded together with x, before the first sum.
#include "lanes.cuh"
#include "params.cuh"

typedef ForwardParams Params;

// Rule 6: reads x again and computes d of x·2^k and its statistics; NaN if an element is not finite. `saved`: the
// statistics of x itself.
__device__ inline Stat again(const Params& p, Row& row, const T* from, Held& x, Stat& saved) {
    load(row, from, x);
    A most = row.largest(x);
    if (!finite(most)) return saved = Stat{nan_value(), nan_value(), nan_value()};
    int k;
    Stat stat = scaled_statistics(row, x, p.count, p.eps, most, k);
    for (int i = 0; i < STEPS; i++) x[i] = x[i] - stat.m;
    saved = Stat{scale(stat.m, -k), scale(stat.delta, -k), scale(stat.r, k)};
    return stat;
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS) forward(const __grid_constant__ Params p) {
    __shared__ Exchange exchange;
    Row row(&exchange, p.n);
    wait_for_earlier();
    let_next_start();
    for (i64 i = blockIdx.x; i < p.rows; i += gridDim.x) {
        Held x, residual, gain, bias, y;
        load(row, p.x + i * p.stride_x, x);
        if (RESIDUAL) load(row, p.residual + i * p.stride_residual, residual);
        load_params<GAIN>(row, p.gain, A(1), gain);
        load_params<BIAS>(row, p.bias, A(-0.0), bias);
        if (RESIDUAL) {
#pragma unroll
            for (int k = 0; k < STEPS; k++) {
                T rounded;
                narrow(x[k] + residual[k], rounded);
                x[k] = widen(rounded);
            }
            store(row, p.h + i * p.stride_h, x);
        }
        bool extreme;
        Stat stat = statistics(row, x, p.count, p.eps, extreme), saved = stat;
        if (extreme) stat = again(p, row, RESIDUAL ? p.h + i * p.stride_h : p.x + i * p.stride_x, x, saved);
        if (threadIdx.x == 0 && p.rstd) {
            if (p.m) p.m[i] = saved.m;
            if (p.delta) p.delta[i] = saved.delta;
            p.rstd[i] = saved.r;
        }
#pragma unroll
        for (int k = 0; k < STEPS; k++) y[k] = fused((x[k] - stat.delta) * stat.r, gain_of(gain[k]), bias[k]);
        store(row, p.y + i * p.stride_y, y);
    }
}
