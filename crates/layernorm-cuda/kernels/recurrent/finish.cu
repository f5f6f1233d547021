// Gradients of gains and biases: sums over the sequences, in order.
// PARAM is the type of the gradients: 0 f32, 1 f16, 2 bf16.
#include "common.cuh"
struct Finish {
    const float *sums;  // [B, 4·G·HP + 2·HP]: for GX, CX, GH, CH and for γ and β of the cell
    void *gx, *bx_norm, *gh, *bh_norm, *bias, *bx, *bh, *gc, *bc;  // null if absent
    int batch, hidden, padded, gates;
};

__device__ __forceinline__ void put(void *to, size_t at, float x) {
    if (!to) return;
#if PARAM == 0
    ((float *)to)[at] = x;
#elif PARAM == 1
    u16 y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    ((u16 *)to)[at] = y;
#else
    u16 y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
    ((u16 *)to)[at] = y;
#endif
}

extern "C" __global__ void __launch_bounds__(128) rnn_finish(Finish p) {
    const int width = p.gates * p.padded, all = 4 * width + 2 * p.padded;
    const int i = blockIdx.x * 128 + threadIdx.x, unit = i % p.padded;
    if (i >= all || unit >= p.hidden) return;
    float sum = 0;
    for (int b = 0; b < p.batch; b++) sum = __fadd_rn(sum, p.sums[size_t(b) * all + i]);
    const int kind = i < 4 * width ? i / width : 4 + (i - 4 * width) / p.padded;
    const size_t at = size_t(i < 4 * width ? i % width / p.padded : 0) * p.hidden + unit;
    if (kind == 0) put(p.gx, at, sum);
    if (kind == 1) put(p.bx_norm, at, sum), put(p.bias, at, sum), put(p.bx, at, sum);
    if (kind == 2) put(p.gh, at, sum);
    if (kind == 3) put(p.bh_norm, at, sum), put(p.bh, at, sum);
    if (kind == 4) put(p.gc, at, sum);
    if (kind == 5) put(p.bc, at, sum);
}
