// LNx of every row of W x, without γ and β, in place: x̂ = (z − mean)·r, and r for the backward pass.
// H, HP, G and NGRP as in cell.cuh. One block per row; the row stays in registers.
#include "common.cuh"
#define GW (G * HP)
#define EACH ((GW + 255) / 256)
__device__ __forceinline__ constexpr int group_of(int gate) { return NGRP == 1 ? 0 : NGRP == 2 ? (gate == G - 1) : gate; }
__device__ __forceinline__ constexpr int gates_of(int group) { return NGRP == 1 ? G : NGRP == 2 ? (group ? 1 : G - 1) : 1; }

struct InputNorm {
    float *z;   // [rows, G·HP]
    float *r;   // [rows, NGRP]
    float eps;
    int deviation;
};

// The sum over the block, in the order of its warps.
__device__ __forceinline__ float sum_block(float x, float *shared) {
    x = sum_lanes<32>(x);
    __syncthreads();
    if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = x;
    __syncthreads();
    float sum = 0;
#pragma unroll
    for (int w = 0; w < 8; w++) sum = __fadd_rn(sum, shared[w]);
    return sum;
}

extern "C" __global__ void __launch_bounds__(256) rnn_input_norm(InputNorm p) {
    __shared__ float shared[8];
    float *row = p.z + size_t(blockIdx.x) * GW;
    float x[EACH];
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        int at = threadIdx.x + 256 * j;
        x[j] = at < GW ? row[at] : 0.0f;
    }
#pragma unroll
    for (int k = 0; k < NGRP; k++) {
        auto in = [&](int j) {
            int at = threadIdx.x + 256 * j;
            return at < GW && at % HP < H && group_of(at / HP) == k;
        };
        float sum = 0, square = 0;
#pragma unroll
        for (int j = 0; j < EACH; j++)
            if (in(j)) sum = __fadd_rn(sum, x[j]);
        const float mean = __fmul_rn(sum_block(sum, shared), 1.0f / (gates_of(k) * H));
#pragma unroll
        for (int j = 0; j < EACH; j++)
            if (in(j)) {
                float d = __fsub_rn(x[j], mean);
                square = fmaf(d, d, square);
            }
        const float var = __fmul_rn(sum_block(square, shared), 1.0f / (gates_of(k) * H));
        const float r = p.deviation ? __fdiv_rn(1.0f, __fadd_rn(__fsqrt_rn(var), p.eps)) : __frsqrt_rn(__fadd_rn(var, p.eps));
#pragma unroll
        for (int j = 0; j < EACH; j++)
            if (in(j)) row[threadIdx.x + 256 * j] = __fmul_rn(__fsub_rn(x[j], mean), r);
        if (threadIdx.x == 0) p.r[size_t(blockIdx.x) * NGRP + k] = r;
    }
}
