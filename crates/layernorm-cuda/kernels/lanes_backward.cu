// Backward pass of few rows (rule 4); the sums for γ and β are computed by down.cu, which overlaps with this kernel.
//
//   g = dy·γ   x̂ = (d − δ)·r   a = sum(g)/N   b = sum(g·x̂)/N   dx = r·fma(−x̂, b, g − a)
//
// One thread block per row. Rule 6 as in backward.cu: a row is extreme if its r says so (then it is rescaled by 2^k) or
// a sum is not finite. It is recomputed with g′ = (dy·2^j)·(γ·2^l), using the powers of the row's largest |dy| and |γ|,
// and dx is scaled back.
#include "lanes.cuh"
#include "params.cuh"

typedef BackwardParams Params;

__device__ inline A x_hat(A x, const Stat& stat) { return ((x - stat.m) - stat.delta) * stat.r; }

// a and b of rule 4.
__device__ inline void dots(const Params& p, Row& row, const Held& x, const Held& g, Terms& terms) {
    A sum[2] = {0, 0};
#pragma unroll
    for (int k = 0; k < STEPS; k++)
        if (row.exists(k)) {
            sum[0] = sum[0] + g[k];
            sum[1] = fused(g[k], x_hat(x[k], terms.stat), sum[1]);
        }
    row.sum(sum);
    terms.a = CENTERED ? divide(sum[0], p.count) : A(0);
    terms.b = divide(sum[1], p.count);
}

// Rule 6. Leaves x and g scaled.
__device__ inline void again(const Params& p, Row& row, Held& x, const Held& dy, const Held& gain, Held& g, Terms& terms) {
    A most_x = row.largest(x), most_dy = row.largest(dy), most_gain = row.largest(gain);
    if (was_scaled(terms.stat.r, p.eps) && finite(most_x)) terms.stat = scaled_statistics(row, x, p.count, p.eps, most_x, terms.k);
    if (finite(most_dy) && finite(most_gain)) {
        terms.j = power(most_dy);
        terms.l = power(most_gain);
    }
    for (int i = 0; i < STEPS; i++) g[i] = scale(dy[i], terms.j) * scale(gain[i], terms.l);
    dots(p, row, x, g, terms);
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS) backward(const __grid_constant__ Params p) {
    __shared__ Exchange exchange;
    Row row(&exchange, p.n);
    wait_for_earlier();
    let_next_start();
    for (i64 i = blockIdx.x; i < p.rows; i += gridDim.x) {
        Held x, dy, gain, g, dx, dh;
        Terms terms = {{CENTERED ? p.m[i] : A(0), CENTERED ? p.delta[i] : A(0), p.rstd[i]}, 0, 0, 0, 0, 0};
        load(row, p.x + i * p.stride_x, x);
        load(row, p.dy + i * p.stride_dy, dy);
        load_params<GAIN>(row, p.gain, A(1), gain);
        if (RESIDUAL && DX) load(row, p.dh + i * p.stride_dh, dh);
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
            // Elements that do not exist must not count as the largest.
            gain[k] = row.exists(k) ? gain_of(gain[k]) : A(0);
            g[k] = dy[k] * gain[k];
        }
        dots(p, row, x, g, terms);
        bool scaled = was_scaled(terms.stat.r, p.eps), extreme = scaled || !finite(terms.a + terms.b);
        if (extreme) {
            again(p, row, x, dy, gain, g, terms);
            if (scaled && p.lines && threadIdx.x == 0) p.lines[i] = Line{terms.stat.m, terms.stat.delta, terms.stat.r, terms.k};
        }
        if (!DX) continue;
#pragma unroll
        for (int k = 0; k < STEPS; k++) dx[k] = terms.stat.r * fused(-x_hat(x[k], terms.stat), terms.b, g[k] - terms.a);
        if (extreme)
            for (int k = 0; k < STEPS; k++) dx[k] = scale(dx[k], terms.k - terms.j - terms.l);
        if (RESIDUAL)
#pragma unroll
            for (int k = 0; k < STEPS; k++) {
                T rounded;
                narrow(dx[k], rounded);
                dx[k] = A(widen(rounded)) + dh[k];
            }
        store(row, p.dx + i * p.stride_dx, dx);
    }
}
