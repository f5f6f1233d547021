// The time loop of a small 16-bit LSTM or GRU, forward, in clusters of blocks (cluster.cuh). The step is that of forward.cu,
// and so is the tape.
//
// The product: rows in tiles of 16, 4 units with 4 gates each (a GRU's fourth is 0). Two warps share two tiles and take half
// of k each; then each gives the other its sum of the other's tile, and two shuffles bring the four gates of a unit and a
// sequence to one lane. So nothing of a step but h and statistics goes through shared memory.
#include "common.cuh"
#include "cell.cuh"
#include "cluster.cuh"
#define PW ((CS + 1) / 2)  // pairs of k (32 units) a warp

struct Forward {
    const u32 *u;         // [block][warp][PW][2 tiles][2][lane][4 words]
    float *zx;            // [rows, G·HP]: LNx(W x) without γ and β, or W x; in training LNs of the sum takes its place
    float *zh;            // [T, B, G·HP] tape: ẑ, where it is not in zx
    float *rh;            // [T, B, NGRP] tape: 1/σ
    float *state;         // [T + 1, B, HP] tape: c before its norm, or h of a GRU
    float *cell;          // [T, B, 2] tape: mean and 1/σ of c
    elem *h;              // [T + 1, B, HP]: slot 0 is given, the rest tape
    const float *consts;  // GX, CX, GH, CH [G·HP] each, γ and β of the cell [HP]
    elem *y;
    long long y_time, y_batch;  // elements from a step, a sequence, to the next
    const float *h0, *c0;       // [B, H] or null
    float *h_last, *c_last;     // [B, H]
    const int *lengths;         // [B] or null
    int steps, batch;
    int row_time, row_batch;    // rows of zx from a step, a sequence, to the next
    int reverse;
};

struct Shared {
    u64 bars[4];                        // h by turns, gates, cells
    u32 h[2][CS][NT][8][16];            // of all blocks
    u32 mine[2][NT][8][16];             // h of this block, to be sent
    __align__(16) float2 gates[NT][NGRP][8][ROW];  // messages, by column
    __align__(16) float2 cells[NT][8][ROW];
    float2 gate_parts[8][NT][NGRP][8];  // of the warps
    float2 cell_parts[8][NT][8];
    float4 swap[8][NT][32];
    float consts[4 * G + 2][32];
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

// zh of the lane's unit and sequences, all gates.
__device__ __forceinline__ void product(float z[NT][4], const Matrix &m, Shared &sh, int turn, int warp, int lane) {
    float acc[2][2][NT][4];
#pragma unroll
    for (int i = 0; i < 2 * 2 * NT * 4; i++) (&acc[0][0][0][0])[i] = 0;
#pragma unroll
    for (int p = 0; p < PW; p++) {
        const int pair = (warp & 1) * PW + p;
        if (CS % 2 == 0 || pair < CS)
#pragma unroll
            for (int n = 0; n < NT; n++) {
                const uint4 b = *(const uint4 *)&sh.h[turn][pair][n][lane >> 2][4 * (lane & 3)];
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
    const bool second = warp & 1, odd = lane >> 2 & 1;
    float kept[NT][4];
#pragma unroll
    for (int n = 0; n < NT; n++) {
        float given[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float first = __fadd_rn(acc[0][0][n][j], acc[0][1][n][j]), other = __fadd_rn(acc[1][0][n][j], acc[1][1][n][j]);
            kept[n][j] = second ? other : first, given[j] = second ? first : other;
        }
        sh.swap[warp][n][lane] = make_float4(given[0], given[1], given[2], given[3]);
    }
    partners_meet(warp);
#pragma unroll
    for (int n = 0; n < NT; n++) {
        const float4 other = sh.swap[warp ^ 1][n][lane];
        // Rows g and g + 8 are two gates, of g odd the last two; sequences 2t and 2t + 1.
        const float c0 = __fadd_rn(kept[n][0], other.x), c1 = __fadd_rn(kept[n][1], other.y);
        const float c2 = __fadd_rn(kept[n][2], other.z), c3 = __fadd_rn(kept[n][3], other.w);
        const float r0 = __shfl_xor_sync(0xffffffffu, odd ? c0 : c1, 4), r1 = __shfl_xor_sync(0xffffffffu, odd ? c2 : c3, 4);
        z[n][0] = odd ? r0 : c0, z[n][1] = odd ? r1 : c2, z[n][2] = odd ? c1 : r0, z[n][3] = odd ? c3 : r1;
    }
}

extern "C" __global__ void __launch_bounds__(256, 1) rnn_cluster_forward(Forward a) {
    extern __shared__ __align__(16) unsigned char memory[];
    Shared &sh = *(Shared *)memory;
    const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31, quarter = lane >> 3, q = lane & 7;
    const int rank = block_of_cluster(), b0 = blockIdx.x / CS * (8 * NT);
    const int u = warp * 4 + quarter, unit = rank * 32 + u;
    const bool real = H == HP || unit < H;
    const u32 bar_h = shared_at(&sh.bars[0]), bar_gates = shared_at(&sh.bars[2]), bar_cells = shared_at(&sh.bars[3]);
    constexpr u32 H_BYTES = CS * NT * 512, GATE_BYTES = CS * NT * NGRP * 64, CELL_BYTES = CS * NT * 64;

    if (tid == 0) {
        for (int i = 0; i < 4; i++) barrier_init(bar_h + 8 * i);
        // h of step 0 is there.
        barrier_arrive(bar_h), barrier_expect(bar_h + 8, H_BYTES);
        barrier_expect(bar_gates, GATE_BYTES), barrier_expect(bar_cells, CELL_BYTES);
    }
    for (int i = tid; i < (4 * G + 2) * 32; i += 256)
        sh.consts[0][i] = a.consts[i / 32 < 4 * G ? i / 32 / G * GW + i / 32 % G * HP + rank * 32 + i % 32
                                                  : CONST_CELL + (i / 32 - 4 * G) * HP + rank * 32 + i % 32];
    for (int i = tid; i < CS * NT * 8 * 16; i += 256) {
        const int b = b0 + i / 128 % NT * 8 + i / 16 % 8;
        sh.h[0][0][0][0][i] = b < a.batch ? *((const u32 *)(a.h + size_t(b) * HP) + i / 128 / NT * 16 + i % 16) : 0;
    }
    Matrix m;
    load_matrix(m, a.u, rank, warp, lane);
    cluster_barrier();

    auto constant = [&](int kind, int gate) { return sh.consts[kind * G + gate][u]; };
    int length[NT] = {};
    bool mine[NT];
    float x[NT][G], carried[NT], before[NT];
    auto row_of = [&](int n, int s) {
        const long long time = time_of(s, length[n], a.reverse), b = b0 + n * 8 + SEQ(lane);
        return a.zx + size_t(time * a.row_time + b * a.row_batch) * GW + unit;
    };
    auto fetch = [&](int s) {
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int k = 0; k < G; k++)
                if (mine[n]) x[n][k] = __ldcg(row_of(n, s) + k * HP);
    };
#pragma unroll
    for (int n = 0; n < NT; n++) {
        const int b = b0 + n * 8 + SEQ(lane);
        mine[n] = b < a.batch;
        length[n] = mine[n] && a.lengths ? a.lengths[b] : a.steps;
        carried[n] = mine[n] && real && a.c0 ? a.c0[size_t(b) * H + unit] : 0.0f;
        before[n] = mine[n] && real && a.h0 ? a.h0[size_t(b) * H + unit] : 0.0f;
#pragma unroll
        for (int k = 0; k < G; k++) x[n][k] = 0;
#if TRAIN
        if (mine[n]) a.state[size_t(b) * HP + unit] = LSTM ? carried[n] : before[n];
#endif
    }
    fetch(0);
    // Who sends: warp w to the blocks 2w and 2w + 1.
    const u32 here = shared_at(&sh);
    const int to = 2 * warp + (lane >> 3 & 1), from_n = NT == 1 ? 0 : lane >> 4;
    const u32 there = at_block(here, to < CS ? to : 0);
    const bool sends = to < CS && lane < 16 * NT;

    for (int s = 0; s < a.steps; s++) {
        // 1. The product, and this block's part of the gates' statistics.
        float z[NT][4], xa[NT][G];
        barrier_wait(bar_h + 8 * (s & 1), s >> 1 & 1);
        if (tid == 0) barrier_expect(bar_h + 8 * (s & 1), H_BYTES);
        product(z, m, sh, s & 1, warp, lane);
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int k = 0; k < G; k++) {
                if (SNORM) z[n][k] = __fadd_rn(z[n][k], x[n][k]), xa[n][k] = constant(CONST_CX, k);
                else xa[n][k] = fmaf(constant(CONST_GX, k), x[n][k], constant(CONST_CX, k));
            }
        if (s + 1 < a.steps) fetch(s + 1);
#if NORM
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int k = 0; k < NGRP; k++) {
                float sum = 0, square = 0, pivot = 0;
#pragma unroll
                for (int j = G - 1; j >= 0; j--)
                    if (group_of(j) == k) pivot = z[n][j];
                pivot = __shfl_sync(0xffffffffu, pivot, q);
#pragma unroll
                for (int j = 0; j < G; j++)
                    if (group_of(j) == k && real) {
                        const float d = __fsub_rn(z[n][j], pivot);
                        sum = __fadd_rn(sum, d), square = fmaf(d, d, square);
                    }
                const float2 part = k == 0 ? warp_part<gates_of(0)>(sum, square, pivot, warp_numbers<gates_of(0)>(rank, warp))
                                           : warp_part<gates_of(NGRP - 1)>(sum, square, pivot, warp_numbers<gates_of(NGRP - 1)>(rank, warp));
                if (quarter == 0) sh.gate_parts[warp][n][k][q] = part;
            }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < NGRP; k++) {
            const float2 *parts = &sh.gate_parts[0][from_n][k][q];
            const float2 part = k == 0 ? block_part<gates_of(0), NT * NGRP * 8>(parts, rank)
                                       : block_part<gates_of(NGRP - 1), NT * NGRP * 8>(parts, rank);
            if (sends) post2(there + (shared_at(&sh.gates[from_n][k][q][rank]) - here), there + (bar_gates - here), part.x, part.y);
        }
        barrier_wait(bar_gates, s & 1);
        if (tid == 0) barrier_expect(bar_gates, GATE_BYTES);
#endif
        // 2. The gates; this block's part of the cell's statistics.
        float o[NT], c[NT], h[NT];
#if NORM && TRAIN
        float rstds[NT][NGRP];
#endif
#pragma unroll
        for (int n = 0; n < NT; n++) {
            const bool valid = mine[n] && s < length[n];
            float ha[G];
#if NORM
            float mean[NGRP], rstd[NGRP];
            row_of_cluster<gates_of(0)>(sh.gates[n][0][q], quarter, EPS_R, DEV_R, mean[0], rstd[0]);
#pragma unroll
            for (int k = 1; k < NGRP; k++)
                row_of_cluster<gates_of(NGRP - 1)>(sh.gates[n][k][q], quarter, EPS_R, DEV_R, mean[k], rstd[k]);
#pragma unroll
            for (int k = 0; k < G; k++) z[n][k] = __fmul_rn(__fsub_rn(z[n][k], mean[group_of(k)]), rstd[group_of(k)]);
#if TRAIN
#pragma unroll
            for (int k = 0; k < NGRP; k++) rstds[n][k] = rstd[k];
#endif
#endif
#pragma unroll
            for (int k = 0; k < G; k++) ha[k] = fmaf(constant(CONST_GH, k), z[n][k], constant(CONST_CH, k));
#if LSTM
            const float i = sigmoid(__fadd_rn(xa[n][0], ha[0])), f = sigmoid(__fadd_rn(xa[n][1], ha[1]));
            const float g = tanh_of(__fadd_rn(xa[n][2], ha[2]));
            o[n] = sigmoid(__fadd_rn(xa[n][G - 1], ha[G - 1]));
            c[n] = real ? fmaf(f, carried[n], __fmul_rn(i, g)) : 0.0f;
#if CNORM
            const float pivot = __shfl_sync(0xffffffffu, c[n], q), d = real ? __fsub_rn(c[n], pivot) : 0.0f;
            const float2 part = warp_part<1>(d, __fmul_rn(d, d), pivot, warp_numbers<1>(rank, warp));
            if (quarter == 0) sh.cell_parts[warp][n][q] = part;
#else
            h[n] = real && valid ? __fmul_rn(o[n], tanh_of(c[n])) : before[n];
#endif
#else
            const float r = sigmoid(__fadd_rn(xa[n][0], ha[0])), zg = sigmoid(__fadd_rn(xa[n][1], ha[1]));
            const float fresh = tanh_of(fmaf(r, ha[2], xa[n][2]));
            const float mixed = KEEPS ? fmaf(zg, __fsub_rn(before[n], fresh), fresh) : fmaf(zg, __fsub_rn(fresh, before[n]), before[n]);
            h[n] = real && valid ? mixed : before[n];
#endif
        }
#if LSTM && CNORM
        // 3. The cell's norm and h.
        float means[NT], cell_rstds[NT], next[NT];
        __syncthreads();
        {
            const float2 part = block_part<1, NT * 8>(&sh.cell_parts[0][from_n][q], rank);
            if (sends) post2(there + (shared_at(&sh.cells[from_n][q][rank]) - here), there + (bar_cells - here), part.x, part.y);
        }
        barrier_wait(bar_cells, s & 1);
        if (tid == 0) barrier_expect(bar_cells, CELL_BYTES);
#pragma unroll
        for (int n = 0; n < NT; n++) {
            const bool valid = mine[n] && s < length[n];
            row_of_cluster<1>(sh.cells[n][q], quarter, EPS_C, DEV_C, means[n], cell_rstds[n]);
            next[n] = fmaf(constant(4, 0), __fmul_rn(__fsub_rn(c[n], means[n]), cell_rstds[n]), constant(4, 1));
            h[n] = !real ? 0.0f : valid ? __fmul_rn(o[n], tanh_of(next[n])) : before[n];
        }
#endif
        // h goes to all blocks.
        const int turn = s + 1 & 1;
#pragma unroll
        for (int n = 0; n < NT; n++) ((elem *)sh.mine[turn][n][SEQ(lane)])[u] = narrow(h[n]);
        __syncthreads();
#pragma unroll
        for (int n = 0; n < NT; n++) {
            const uint4 v = *(const uint4 *)&sh.mine[turn][n][lane >> 2][4 * (lane & 3)];
            if (s + 1 < a.steps)
#pragma unroll
                for (int k = 0; k < 2; k++)
                    if (2 * warp + k < CS)
                        post4(at_block(shared_at(&sh.h[turn][rank][n][lane >> 2][4 * (lane & 3)]), 2 * warp + k),
                              at_block(bar_h + 8 * turn, 2 * warp + k), v);
#if TRAIN
            const int b = b0 + n * 8 + (lane >> 2);
            if (warp == 7 - n && b < a.batch)
                *(uint4 *)(a.h + (size_t(s + 1) * a.batch + b) * HP + rank * 32 + 8 * (lane & 3)) = v;
#endif
        }
        // What nobody waits for.
#pragma unroll
        for (int n = 0; n < NT; n++) {
            const int b = b0 + n * 8 + SEQ(lane);
            const bool valid = mine[n] && s < length[n];
            const size_t at = size_t(s) * a.batch + b;
#if TRAIN
            if (mine[n]) {
                float *row = SNORM ? row_of(n, s) : a.zh + at * GW + unit;
#pragma unroll
                for (int k = 0; k < G; k++) row[k * HP] = z[n][k];
                a.state[(at + a.batch) * HP + unit] = LSTM ? (valid ? c[n] : carried[n]) : h[n];
#if NORM
                if (rank == 0 && warp == 0 && quarter == 0)
#pragma unroll
                    for (int k = 0; k < NGRP; k++) a.rh[at * NGRP + k] = rstds[n][k];
#endif
#if LSTM && CNORM
                if (rank == 0 && warp == 0 && quarter == 0) a.cell[at * 2] = means[n], a.cell[at * 2 + 1] = cell_rstds[n];
#endif
            }
#endif
            if (valid && real) a.y[time_of(s, length[n], a.reverse) * a.y_time + b * a.y_batch + unit] = narrow(h[n]);
#if LSTM && CNORM
            if (valid && real) carried[n] = CARRIED ? next[n] : c[n], before[n] = h[n];
#else
            if (LSTM && valid) carried[n] = c[n];
            before[n] = h[n];
#endif
        }
    }
#pragma unroll
    for (int n = 0; n < NT; n++)
        if (mine[n] && real) {
            const size_t at = size_t(b0 + n * 8 + SEQ(lane)) * H + unit;
            if (a.h_last) a.h_last[at] = before[n];
            if (LSTM && a.c_last) a.c_last[at] = carried[n];
        }
    // No block may go while another could still write to it.
    cluster_barrier();
}
