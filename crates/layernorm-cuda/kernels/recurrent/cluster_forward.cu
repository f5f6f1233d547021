// Forward time loop of a small 16-bit LSTM or GRU in clusters (cluster.cuh). The step and the tape are those of
// forward.cu.
//
// The product: rows in tiles of 16, 4 units with 4 gates each (a GRU's fourth is 0). Two warps share two tiles, and
// each takes half of k. Their sums are combined in shared memory, where the lane of a unit finds its gates. Blocks send
// h to their nearer neighbors first, so each block starts its product with that half of k.
#include "common.cuh"
#include "cell.cuh"
#include "cluster.cuh"
#define PW ((CS + 1) / 2)                   // pairs of k (32 units) per warp
#define NEAR (CS % 4 == 0 ? CS / 2 : CS)    // blocks whose h is awaited first
#define COLUMN 132                          // words per sequence: the gates of 32 units, padded against bank conflicts

struct Forward {
    const u32 *u;         // [block][warp][PW][2 tiles][2][lane][4 words]
    float *zx;            // [rows, G·HP]: LNx(W x) without γ and β, or W x; in training overwritten by LNs of the sum
    float *zh;            // [T, B, G·HP] tape: ẑ, unless it is in zx
    float *rh;            // [T, B, NGRP] tape: 1/σ
    float *state;         // [T + 1, B, HP] tape: c before its norm, or h of a GRU
    float *cell;          // [T, B, 2] tape: mean and 1/σ of c
    elem *h;              // [T + 1, B, HP]: slot 0 is given, the rest is tape
    const float *consts;  // GX, CX, GH, CH [G·HP] each, γ and β of the cell [HP]
    elem *y;
    long long y_time, y_batch;  // strides in elements, by step and by sequence
    const float *h0, *c0;       // [B, H] or null
    float *h_last, *c_last;     // [B, H]
    const int *lengths;         // [B] or null
    int steps, batch;
    int row_time, row_batch;    // strides of zx in rows, by step and by sequence
    int reverse;
};

struct Shared {
    u64 bars[4 + 16 * NT];            // h, double-buffered, near and far; gates and cells of each sequence
    u32 h[2][CS][NT][8][16];          // h of all blocks
    u32 mine[8 * NT][16];             // h of this block, to be sent
    float2 gates[8 * NT][NGRP][ROW];  // messages
    float2 cells[8 * NT][ROW];
    float parts[2][2][8 * NT][COLUMN];  // partial sums of zh for both halves of k, double-buffered
};
static_assert(sizeof(Shared) == SHARED, "the host counts otherwise");

struct Matrix {
    u32 w[PW][2][2][4];
};

__device__ __forceinline__ void load_matrix(Matrix &m, const u32 *packed, int rank, int warp, int lane) {
    const uint4 *from = (const uint4 *)packed + (rank * 8 + warp) * (PW * 4 * 32) + lane;
#pragma unroll
    for (int f = 0; f < PW * 4; f++) {
        const uint4 v = from[f * 32];
        u32 *to = m.w[f / 4][f / 2 % 2][f % 2];
        to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
    }
}

// Which block's h belongs to a pair of a warp: by distance from this block, the nearer half first (as in
// rnn_pack_cluster).
__device__ __forceinline__ int distance_of(int warp, int p) {
    return NEAR < CS ? p / (CS / 4) * (CS / 2) + (warp & 1) * (CS / 4) + p % (CS / 4) : (warp & 1) * PW + p;
}

// Computes the warp's sums of its two tiles over its half of k, and stores them where the lanes of the units read them.
__device__ __forceinline__ void product(const Matrix &m, Shared &sh, int turn, u32 bar_far, u32 parity, int rank, int warp, int lane) {
    float acc[2][2][NT][4];
#pragma unroll
    for (int i = 0; i < 2 * 2 * NT * 4; i++) (&acc[0][0][0][0])[i] = 0;
#pragma unroll
    for (int p = 0; p < PW; p++) {
        if (NEAR < CS && p == PW / 2) barrier_wait(bar_far, parity);
        const int distance = distance_of(warp, p), block = (rank + CS - distance) % CS;
        if (CS % 2 == 0 || distance < CS)
#pragma unroll
            for (int n = 0; n < NT; n++) {
                const uint4 b = *(const uint4 *)&sh.h[turn][block][n][lane >> 2][4 * (lane & 3)];
#pragma unroll
                for (int k = 0; k < 2; k++) {
                    const FragB fb = k ? frag_b(b.z, b.w) : frag_b(b.x, b.y);
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        const u32 *w = m.w[p][i][k];
                        multiply(acc[i][k][n], frag_a(w[0], w[1], w[2], w[3]), fb);
                    }
                }
            }
    }
    // Rows g and g + 8 of a tile are two gates of unit g/2, the last two if g is odd; columns 2t and 2t + 1.
    const int g = lane >> 2, t = lane & 3;
#pragma unroll
    for (int n = 0; n < NT; n++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float sum[4];
#pragma unroll
            for (int j = 0; j < 4; j++) sum[j] = __fadd_rn(acc[i][0][n][j], acc[i][1][n][j]);
            float *to = &sh.parts[turn][warp & 1][n * 8 + 2 * t][((warp >> 1) * 2 + i) * 16 + 2 * g];
            *(float2 *)to = make_float2(sum[0], sum[2]), *(float2 *)(to + COLUMN) = make_float2(sum[1], sum[3]);
        }
}

extern "C" __global__ void __launch_bounds__(256, 1) rnn_cluster_forward(Forward a) {
    extern __shared__ __align__(16) unsigned char memory[];
    Shared &sh = *(Shared *)memory;
    const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31;
    const int rank = block_of_cluster(), b0 = blockIdx.x / CS * (8 * NT), unit = rank * 32 + lane;
    const bool real = H == HP || unit < H;
    const float inv_units = 1.0f / real_units(rank);
    const u32 bar_h = shared_at(&sh.bars[0]), bar_gates = shared_at(&sh.bars[4]), bar_cells = shared_at(&sh.bars[4 + 8 * NT]);
    constexpr u32 NEAR_BYTES = NEAR * NT * 512, FAR_BYTES = (CS - NEAR) * NT * 512;
    constexpr u32 GATE_BYTES = CS * NGRP * 8, CELL_BYTES = CS * 8;

    if (tid == 0) {
        for (int i = 0; i < 4 + 16 * NT; i++) barrier_init(bar_h + 8 * i);
        // h of step 0 is already there.
        barrier_arrive(bar_h), barrier_arrive(bar_h + 8);
        barrier_expect(bar_h + 16, NEAR_BYTES), barrier_expect(bar_h + 24, FAR_BYTES);
        for (int i = 0; i < 8 * NT; i++) barrier_expect(bar_gates + 8 * i, GATE_BYTES), barrier_expect(bar_cells + 8 * i, CELL_BYTES);
    }
    for (int i = tid; i < CS * NT * 8 * 16; i += 256) {
        const int b = b0 + i / 128 % NT * 8 + i / 16 % 8;
        ((u32 *)sh.h)[i] = b < a.batch ? *((const u32 *)(a.h + size_t(b) * HP) + i / 128 / NT * 16 + i % 16) : 0;
    }
    Matrix m;
    load_matrix(m, a.u, rank, warp, lane);
    float fixed[4 * G + 2];
#pragma unroll
    for (int k = 0; k < 4 * G + 2; k++) fixed[k] = a.consts[k < 4 * G ? k / G * GW + k % G * HP + unit : CONST_CELL + (k - 4 * G) * HP + unit];
    auto constant = [&](int kind, int gate) { return fixed[kind * G + gate]; };

    // The warp's sequences. Past its end, a sequence reads and writes nothing but its state on the tape.
    int length[NT];
    bool mine[NT];
    float x[NT][G], carried[NT], before[NT];
    float *row[NT];
    elem *y[NT];
    const long long row_step = (a.reverse ? -1LL : 1LL) * a.row_time * GW, y_step = a.reverse ? -a.y_time : a.y_time;
#pragma unroll
    for (int n = 0; n < NT; n++) {
        const int b = b0 + n * 8 + warp;
        mine[n] = b < a.batch;
        length[n] = !mine[n] ? 0 : a.lengths ? a.lengths[b] : a.steps;
        carried[n] = mine[n] && real && a.c0 ? a.c0[size_t(b) * H + unit] : 0.0f;
        before[n] = mine[n] && real && a.h0 ? a.h0[size_t(b) * H + unit] : 0.0f;
        const long long first = a.reverse ? length[n] - 1 : 0;
        row[n] = a.zx + (first * a.row_time + (long long)b * a.row_batch) * GW + unit;
        y[n] = a.y + first * a.y_time + b * a.y_batch + unit;
#pragma unroll
        for (int k = 0; k < G; k++) x[n][k] = length[n] > 0 ? __ldcg(row[n] + k * HP) : 0.0f;
#if TRAIN
        if (mine[n]) a.state[size_t(b) * HP + unit] = LSTM ? carried[n] : before[n];
#endif
    }
    cluster_barrier();

    for (int s = 0; s < a.steps; s++) {
        // Phase 1: the product, and this block's part of the gates' statistics.
        const int turn = s & 1, next_turn = turn ^ 1;
        const u32 parity = s >> 1 & 1, bar = bar_h + 16 * turn;
        barrier_wait(bar, parity);
        product(m, sh, turn, bar + 8, parity, rank, warp, lane);
        if (tid == 0) {
            barrier_expect(bar, NEAR_BYTES);
            if (NEAR < CS) barrier_expect(bar + 8, FAR_BYTES);
        }
        __syncthreads();
        float z[NT][4], xa[NT][G];
#pragma unroll
        for (int n = 0; n < NT; n++) {
            const float4 p = *(const float4 *)&sh.parts[turn][0][n * 8 + warp][4 * lane];
            const float4 r = *(const float4 *)&sh.parts[turn][1][n * 8 + warp][4 * lane];
            z[n][0] = __fadd_rn(p.x, r.x), z[n][1] = __fadd_rn(p.y, r.y), z[n][2] = __fadd_rn(p.z, r.z), z[n][3] = __fadd_rn(p.w, r.w);
#pragma unroll
            for (int k = 0; k < G; k++) {
                if (SNORM) z[n][k] = __fadd_rn(z[n][k], x[n][k]), xa[n][k] = constant(CONST_CX, k);
                else xa[n][k] = fmaf(constant(CONST_GX, k), x[n][k], constant(CONST_CX, k));
            }
#if NORM
#pragma unroll
            for (int k = 0; k < NGRP; k++) {
                float sum = 0, square = 0, pivot = 0, mean, rest;
#pragma unroll
                for (int j = G - 1; j >= 0; j--)
                    if (group_of(j) == k) pivot = z[n][j];
                pivot = __shfl_sync(0xffffffffu, pivot, 0);
#pragma unroll
                for (int j = 0; j < G; j++)
                    if (group_of(j) == k && real) {
                        const float d = __fsub_rn(z[n][j], pivot);
                        sum = __fadd_rn(sum, d), square = fmaf(d, d, square);
                    }
                block_statistics(sum, square, pivot, inv_units * (1.0f / gates_of(k)), mean, rest);
                if (lane < CS)
                    post2(at_block(shared_at(&sh.gates[n * 8 + warp][k][rank]), lane), at_block(bar_gates + 8 * (n * 8 + warp), lane), mean, rest);
            }
#endif
        }
        // Load the next step's input while the statistics are in flight.
#pragma unroll
        for (int n = 0; n < NT; n++)
            if (s + 1 < length[n])
#pragma unroll
                for (int k = 0; k < G; k++) x[n][k] = __ldcg(row[n] + row_step + k * HP);
        // Phase 2: the gates, and this block's part of the cell's statistics.
        float o[NT], c[NT], h[NT], rstd[NT][NGRP];
#pragma unroll
        for (int n = 0; n < NT; n++) {
            float ha[G];
#if NORM
            float mean[NGRP];
            const u32 bar = bar_gates + 8 * (n * 8 + warp);
            barrier_wait(bar, s & 1);
            if (lane == 0) barrier_expect(bar, GATE_BYTES);
            row_of_cluster<gates_of(0)>(sh.gates[n * 8 + warp][0], lane, EPS_R, DEV_R, mean[0], rstd[n][0]);
#pragma unroll
            for (int k = 1; k < NGRP; k++)
                row_of_cluster<gates_of(NGRP - 1)>(sh.gates[n * 8 + warp][k], lane, EPS_R, DEV_R, mean[k], rstd[n][k]);
#pragma unroll
            for (int k = 0; k < G; k++) z[n][k] = __fmul_rn(__fsub_rn(z[n][k], mean[group_of(k)]), rstd[n][group_of(k)]);
#endif
#pragma unroll
            for (int k = 0; k < G; k++) ha[k] = fmaf(constant(CONST_GH, k), z[n][k], constant(CONST_CH, k));
#if LSTM
            const float i = sigmoid(__fadd_rn(xa[n][0], ha[0])), f = sigmoid(__fadd_rn(xa[n][1], ha[1]));
            const float g = tanh_of(__fadd_rn(xa[n][2], ha[2]));
            o[n] = sigmoid(__fadd_rn(xa[n][G - 1], ha[G - 1]));
            c[n] = real ? fmaf(f, carried[n], __fmul_rn(i, g)) : 0.0f;
#if CNORM
            const float pivot = __shfl_sync(0xffffffffu, c[n], 0), d = real ? __fsub_rn(c[n], pivot) : 0.0f;
            float part, rest;
            block_statistics(d, __fmul_rn(d, d), pivot, inv_units, part, rest);
            if (lane < CS)
                post2(at_block(shared_at(&sh.cells[n * 8 + warp][rank]), lane), at_block(bar_cells + 8 * (n * 8 + warp), lane), part, rest);
#else
            h[n] = real && s < length[n] ? __fmul_rn(o[n], tanh_of(c[n])) : before[n];
#endif
#else
            const float r = sigmoid(__fadd_rn(xa[n][0], ha[0])), zg = sigmoid(__fadd_rn(xa[n][1], ha[1]));
            const float fresh = tanh_of(fmaf(r, ha[2], xa[n][2]));
            const float mixed = KEEPS ? fmaf(zg, __fsub_rn(before[n], fresh), fresh) : fmaf(zg, __fsub_rn(fresh, before[n]), before[n]);
            h[n] = real && s < length[n] ? mixed : before[n];
#endif
        }
        // Phase 3: the cell's norm; send h to all blocks.
        float cell_mean[NT], cell_rstd[NT], next[NT];
#pragma unroll
        for (int n = 0; n < NT; n++) {
#if LSTM && CNORM
            const u32 bar = bar_cells + 8 * (n * 8 + warp);
            barrier_wait(bar, s & 1);
            if (lane == 0) barrier_expect(bar, CELL_BYTES);
            row_of_cluster<1>(sh.cells[n * 8 + warp], lane, EPS_C, DEV_C, cell_mean[n], cell_rstd[n]);
            next[n] = fmaf(constant(4, 0), __fmul_rn(__fsub_rn(c[n], cell_mean[n]), cell_rstd[n]), constant(4, 1));
            h[n] = !real ? 0.0f : s < length[n] ? __fmul_rn(o[n], tanh_of(next[n])) : before[n];
#endif
            ((elem *)sh.mine[n * 8 + warp])[lane] = narrow(h[n]);
            __syncwarp();
            const uint4 v = *(const uint4 *)&sh.mine[n * 8 + warp][4 * (lane & 3)];
            if (s + 1 < a.steps)
#pragma unroll
                for (int k = 0; k < CS; k += 8) {
                    const int distance = k + (lane >> 2), to = (rank + distance) % CS;
                    if (CS % 8 == 0 || distance < CS)
                        post4(at_block(shared_at(&sh.h[next_turn][rank][n][warp][4 * (lane & 3)]), to),
                              at_block(bar_h + 16 * next_turn + (distance < NEAR ? 0 : 8), to), v);
                }
#if TRAIN
            const int b = b0 + n * 8 + warp;
            if (mine[n] && lane < 4) *(uint4 *)(a.h + (size_t(s + 1) * a.batch + b) * HP + rank * 32 + 8 * lane) = v;
#endif
        }
        // Not on the critical path.
#pragma unroll
        for (int n = 0; n < NT; n++) {
            const bool valid = s < length[n];
            if (valid && real) *y[n] = narrow(h[n]);
#if TRAIN
            const size_t at = size_t(s) * a.batch + b0 + n * 8 + warp;
            float *kept = SNORM ? row[n] : a.zh + at * GW + unit;
            if (valid)
#pragma unroll
                for (int k = 0; k < G; k++) kept[k * HP] = z[n][k];
            if (mine[n]) a.state[(at + a.batch) * HP + unit] = !LSTM ? h[n] : valid ? c[n] : carried[n];
            // Values that exist once per sequence are written by different blocks.
            if (valid && lane == 0 && rank == warp % CS) {
#pragma unroll
                for (int k = 0; k < NGRP; k++)
                    if (NORM) a.rh[at * NGRP + k] = rstd[n][k];
                if (LSTM && CNORM) *(float2 *)(a.cell + at * 2) = make_float2(cell_mean[n], cell_rstd[n]);
            }
#endif
            row[n] += row_step, y[n] += y_step;
#if LSTM
            if (valid && real) carried[n] = CNORM && CARRIED ? next[n] : c[n];
#endif
            before[n] = h[n];
        }
    }
#pragma unroll
    for (int n = 0; n < NT; n++)
        if (mine[n] && real) {
            const size_t at = size_t(b0 + n * 8 + warp) * H + unit;
            if (a.h_last) a.h_last[at] = before[n];
            if (LSTM && a.c_last) a.c_last[at] = carried[n];
        }
    // No block may exit while another could still write to it.
    cluster_barrier();
}
