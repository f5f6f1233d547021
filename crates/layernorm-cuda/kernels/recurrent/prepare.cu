// What a pass needs before its time loop: the recurrent matrix in the order of the tensor core fragments, padded inputs
// and weights, combined biases. PARAM is the type of the parameters: 0 f32, 1 f16, 2 bf16.
#include "common.cuh"
#define STRIDE_LOOP(i, n) for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < (n); i += size_t(gridDim.x) * blockDim.x)

#if PARAM == 0
typedef float param;
#else
typedef u16 param;
#endif
__device__ __forceinline__ float value(param x) {
#if PARAM == 0
    return x;
#elif PARAM == 1
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
#else
    return __uint_as_float(u32(x) << 16);
#endif
}

struct Pack {
    const param *u;  // [G·H, H]
    u32 *packed;     // [GS][8][pairs][tiles][2][32][4]
    int hidden, padded, gates, units, group, pairs, tiles;
    int split;       // blocks that have the same rows, and each one part of k
    int back;        // rows are units, and k runs over all gates
};

extern "C" __global__ void rnn_pack(Pack p) {
    size_t words = size_t(p.group) * 8 * p.pairs * p.tiles * 256;
    STRIDE_LOOP(i, words) {
        int j = i & 3, lane = i >> 2 & 31, half = i >> 7 & 1;
        size_t rest = i >> 8;
        int tile = rest % p.tiles;
        rest /= p.tiles;
        int pair = rest % p.pairs, warp = rest / p.pairs % 8, rank = rest / p.pairs / 8;
        int row = tile * 16 + (lane >> 2) + (j & 1) * 8;
        int word = ((rank % p.split * 8 + warp) * p.pairs + pair) * 16 + 4 * (lane & 3) + 2 * half + (j >> 1);
        elem out[PER_WORD];
        for (int e = 0; e < PER_WORD; e++) {
            int k = word * PER_WORD + e;
            int unit = rank / p.split * p.split * p.units + (p.back ? row : row / p.gates), gate = p.back ? k / p.padded : row % p.gates;
            int other = p.back ? k % p.padded : k;
            bool there = row < p.split * (p.back ? p.units : p.units * p.gates) && unit < p.hidden && gate < p.gates && other < p.hidden;
            size_t at = p.back ? (size_t(gate) * p.hidden + other) * p.hidden + unit
                               : (size_t(gate) * p.hidden + unit) * p.hidden + other;
            out[e] = there ? narrow(value(p.u[at])) : narrow(0.0f);
        }
#if PER_WORD == 1
        p.packed[i] = __float_as_uint(out[0]);
#else
        p.packed[i] = u32(out[0]) | u32(out[1]) << 16;
#endif
    }
}

struct PackCluster {
    const param *u;  // [G·H, H]
    u32 *packed;     // [blocks][8][pairs][2][2][32][4], or [blocks][8][peers][2][G][2][32][4]
    int hidden, gates, blocks;
};

#if TYPE != 0
__device__ __forceinline__ u32 two(const PackCluster &p, int gate, int row, int column, int row_step, int column_step) {
    u32 out = 0;
    for (int e = 0; e < 2; e++, row += row_step, column += column_step) {
        bool there = gate < p.gates && row < p.hidden && column < p.hidden;
        out |= u32(narrow(there ? value(p.u[(size_t(gate) * p.hidden + row) * p.hidden + column]) : 0.0f)) << 16 * e;
    }
    return out;
}

// U in the order of cluster_forward.cu: rows g and g + 8 of a tile are two gates of unit g/2, the last two if g is odd.
extern "C" __global__ void rnn_pack_cluster(PackCluster p) {
    const int pairs = (p.blocks + 1) / 2, quarter = p.blocks / 4;
    STRIDE_LOOP(i, size_t(p.blocks) * 8 * pairs * 512) {
        int j = i & 3, lane = i >> 2 & 31, half = i >> 7 & 1, tile = i >> 8 & 1, rest = i >> 9;
        int pair = rest % pairs, warp = rest / pairs % 8, rank = rest / pairs / 8, g = lane >> 2;
        int distance = p.blocks % 4 == 0 ? pair / quarter * 2 * quarter + (warp & 1) * quarter + pair % quarter
                                         : (warp & 1) * pairs + pair;
        int unit = rank * 32 + ((warp >> 1) * 2 + tile) * 4 + (g >> 1), gate = (g & 1) * 2 + (j & 1);
        int word = (rank + p.blocks - distance) % p.blocks * 16 + 4 * (lane & 3) + 2 * half + (j >> 1);
        p.packed[i] = distance < p.blocks ? two(p, gate, unit, word * 2, 0, 1) : 0;
    }
}

// Uᵀ in the order of cluster_backward.cu: rows g and g + 8 of two tiles are four neighboring units.
extern "C" __global__ void rnn_pack_cluster_back(PackCluster p) {
    const int peers = (p.blocks + 7) / 8;
    STRIDE_LOOP(i, size_t(p.blocks) * 8 * peers * 2 * p.gates * 256) {
        int j = i & 3, lane = i >> 2 & 31, half = i >> 7 & 1, rest = i >> 8;
        int gate = rest % p.gates, tile = rest / p.gates % 2, peer = rest / p.gates / 2 % peers;
        int warp = rest / p.gates / 2 / peers % 8, rank = rest / p.gates / 2 / peers / 8;
        int column = (warp * peers + peer) * 32 + (lane >> 2) * 4 + tile * 2 + (j & 1);
        int row = rank * 32 + 2 * (4 * (lane & 3) + 2 * half + (j >> 1));
        p.packed[i] = two(p, gate, row, column, 1, 0);
    }
}
#endif

struct PadWeight {
    const param *w;  // [G·H, I]
    elem *out;       // [G·HP, IP]
    int hidden, padded, gates, input, input_padded;
};

extern "C" __global__ void rnn_pad_weight(PadWeight p) {
    STRIDE_LOOP(i, size_t(p.gates) * p.padded * p.input_padded) {
        int column = i % p.input_padded;
        int row = i / p.input_padded, gate = row / p.padded, unit = row % p.padded;
        bool there = column < p.input && unit < p.hidden;
        p.out[i] = narrow(there ? value(p.w[(size_t(gate) * p.hidden + unit) * p.input + column]) : 0.0f);
    }
}

struct PadInput {
    const elem *x;
    long long x_time, x_batch;  // strides in elements, by step and by sequence
    elem *out;                  // [rows, IP]
    const int *lengths;
    int steps, batch, row_time, row_batch, input, input_padded;
};

extern "C" __global__ void rnn_pad_input(PadInput p) {
    STRIDE_LOOP(i, size_t(p.steps) * p.batch * p.input_padded) {
        int column = i % p.input_padded;
        size_t row = i / p.input_padded;
        // One of the two strides is 1; with a single step or sequence, both are.
        int t = row / p.row_time % p.steps, b = row / p.row_batch % p.batch;
        bool there = column < p.input && (!p.lengths || t < p.lengths[b]);
        p.out[i] = there ? p.x[t * p.x_time + b * p.x_batch + column] : narrow(0.0f);
    }
}

struct Start {
    const float *h0;  // [B, H] or null
    elem *h;          // [B, HP]
    int batch, hidden, padded;
};

extern "C" __global__ void rnn_start(Start p) {
    STRIDE_LOOP(i, size_t(p.batch) * p.padded) {
        int unit = i % p.padded;
        p.h[i] = narrow(p.h0 && unit < p.hidden ? p.h0[i / p.padded * p.hidden + unit] : 0.0f);
    }
}

struct Consts {
    const param *gx, *bx_norm, *gh, *bh_norm, *bias, *bx, *bh, *gc, *bc;  // null if absent
    float *out;  // GX, CX, GH, CH [G·HP] each, γ and β of the cell [HP]
    int hidden, padded, gates, offset_gate;
    float offset;
};

extern "C" __global__ void rnn_consts(Consts p) {
    auto get = [](const param *from, size_t at, float absent) { return from ? value(from[at]) : absent; };
    size_t width = size_t(p.gates) * p.padded;
    STRIDE_LOOP(i, width + p.padded) {
        int gate = i / p.padded, unit = i % p.padded;
        bool there = unit < p.hidden;
        if (i < width) {
            size_t at = size_t(gate) * p.hidden + unit;
            float cx = get(p.bx_norm, at * there, 0.0f) + get(p.bx, at * there, 0.0f) + get(p.bias, at * there, 0.0f) +
                       (gate == p.offset_gate ? p.offset : 0.0f);
            p.out[i] = there ? get(p.gx, at, 1.0f) : 0.0f;
            p.out[width + i] = there ? cx : 0.0f;
            p.out[2 * width + i] = there ? get(p.gh, at, 1.0f) : 0.0f;
            p.out[3 * width + i] = there ? get(p.bh_norm, at, 0.0f) + get(p.bh, at, 0.0f) : 0.0f;
        } else {
            p.out[4 * width + unit] = there ? get(p.gc, unit, 1.0f) : 0.0f;
            p.out[4 * width + p.padded + unit] = there ? get(p.bc, unit, 0.0f) : 0.0f;
        }
    }
}
