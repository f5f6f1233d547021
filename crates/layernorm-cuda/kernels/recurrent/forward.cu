// The time loop of an LSTM or GRU, forward: one launch for all steps.
//
//   zh = U h      ẑ = LNh(zh) or LNs(zx + zh)      a = (GX·zx + CX) + (GH·ẑ + CH)
//   LSTM  c = σ(a_f)·c + σ(a_i)·tanh(a_g)          h = σ(a_o)·tanh(LNc(c))
//   GRU   n = tanh(x_n + σ(a_r)·h_n)               h = z·h + (1 − z)·n, or the other way round
//
// A block owns all gates of UNITS units; a group of GS blocks owns all units of `cols` sequences. In a step, blocks wait
// for each other up to three times: for h, for the statistics of the gates, for those of the cell (common.cuh: messages).
// What a thread owns beyond the product is one unit of one sequence of each chunk; lanes of a column are neighbours, so
// statistics need no shared memory. Rows in a block: row = unit·G + gate.
#include "common.cuh"
#include "cell.cuh"
#define MT ((UNITS * G + 15) / 16)
#define WORDS (HP / PER_WORD)
#include "product.cuh"

struct Forward {
    const u32 *u;         // U, packed
    float *zx;            // [rows, G·HP]: LNx(W x) without γ and β, or W x; in training LNs of the sum takes its place
    float *zh;            // [T, B, G·HP] tape: ẑ, where it is not in zx
    float *rh;            // [T, B, NGRP] tape: 1/σ
    float *state;         // [T + 1, B, HP] tape: c before its norm, or h of a GRU
    float *cell;          // [T, B, 2] tape: mean and 1/σ of c
    elem *h;              // [T + 1, B, HP]: h as the product sees it; slot 0 is given, the rest EMPTY
    uint2 *gates;         // [T, B, NGRP, GS] messages
    uint2 *cells;         // [T, B, GS] messages
    const float *consts;  // GX, CX, GH, CH [G·HP] each, γ and β of the cell [HP]
    elem *y;
    long long y_time, y_batch;     // elements from a step, a sequence, to the next
    const float *h0, *c0;          // [B, H] or null
    float *h_last, *c_last;        // [B, H]
    const int *lengths;            // [B] or null
    u32 *fail;
    int steps, batch, first, end, cols;
    int row_time, row_batch;       // rows of zx from a step, a sequence, to the next
    int reverse;
    u32 patience;
};

// A thread's own numbers between phases, for each chunk.
#define SLOT_X 0        // GX·zx + CX, G of them
#define SLOT_Z G        // zh or zx + zh, G of them; later o and c
#define SLOT_C (2 * G)  // the cell as it is carried
#define SLOT_H (2 * G + 1)
#define SLOTS (2 * G + 2)

extern "C" __global__ void __launch_bounds__(256, 1) rnn_forward(Forward a) {
    extern __shared__ __align__(16) float shared[];
    float *parts = shared;                                          // [2][WARPS][CC][ROWS_PAD]
    float *consts = parts + 2 * WARPS * CC * ROWS_PAD;              // [4][G][UNITS], [2][UNITS]
    u32 *matrix = (u32 *)(consts + (4 * G + 2) * UNITS);            // [WARPS][PS][MT][2][lane][4]
    float *slots = (float *)(matrix + WARPS * PS * MT * 2 * FRAG);  // [chunk][SLOTS][256]

    const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31;
    const int rank = blockIdx.x % GS, group = blockIdx.x / GS;
    const int b0 = a.first + group * a.cols, count = min(a.cols, a.end - b0);
    if (count <= 0) return;
    const int u = tid % UNITS, column = tid / UNITS, unit = rank * UNITS + u;
    const bool worker = column < CC, real = H == HP || unit < H;
    const float inv_units = 1.0f / max(1, real_units(rank));
    Patience patience = {a.patience, a.fail};

    for (int i = tid; i < 4 * G * UNITS; i += 256) {
        int q = i / UNITS, k = q / G, gate = q % G;
        consts[i] = a.consts[k * GW + gate * HP + rank * UNITS + i % UNITS];
    }
    for (int i = tid; i < 2 * UNITS; i += 256)
        consts[4 * G * UNITS + i] = a.consts[CONST_CELL + (i / UNITS) * HP + rank * UNITS + i % UNITS];
    Matrix m;
    load_matrix(m, matrix, a.u, rank, warp, lane);
    __syncthreads();
#if ONE
    float own[SLOTS], fixed[4 * G + 2];
#pragma unroll
    for (int k = 0; k < 4 * G + 2; k++) fixed[k] = consts[k * UNITS + u];
    auto constant = [&](int kind, int gate) { return fixed[kind * G + gate]; };
    auto slot = [&](int, int k) -> float & { return own[k]; };
    const int chunks = 1;
#else
    auto constant = [&](int kind, int gate) { return consts[(kind * G + gate) * UNITS + u]; };
    auto slot = [&](int chunk, int k) -> float & { return slots[(chunk * SLOTS + k) * 256 + tid]; };
    const int chunks = (count + CC - 1) / CC;
#endif

    if (worker)
        for (int ch = 0; ch < (ONE ? 1 : chunks); ch++) {
            int b = b0 + ch * CC + column;
            bool mine = ch * CC + column < count && real;
            slot(ch, SLOT_C) = mine && a.c0 ? a.c0[size_t(b) * H + unit] : 0.0f;
            slot(ch, SLOT_H) = mine && a.h0 ? a.h0[size_t(b) * H + unit] : 0.0f;
#if TRAIN
            if (ch * CC + column < count) a.state[size_t(b) * HP + unit] = slot(ch, LSTM ? SLOT_C : SLOT_H);
#endif
        }

    int turn = 0;
    for (int s = 0; s < a.steps; s++) {
        if (patience.left) patience.left = a.patience;
        // 1. The product, and each block's part of the gates' statistics.
        for (int ch = 0; ch < (ONE ? 1 : chunks); ch++, turn ^= 1) {
            const int b = b0 + ch * CC + column, in_chunk = min(CC, count - ch * CC);
            const bool mine = worker && column < in_chunk;
            const int length = mine && a.lengths ? a.lengths[b] : a.steps;
            float *row = a.zx + size_t(time_of(s, length, a.reverse) * (long long)a.row_time + b * (long long)a.row_batch) * GW + unit;
            float x[G];
            if (mine)
#pragma unroll
                for (int q = 0; q < G; q++) x[q] = __ldcg(row + q * HP);
            Vectors v = {(const u32 *)(a.h + (size_t(s) * a.batch + b0 + ch * CC) * HP), HP / PER_WORD, in_chunk};
            float *mail = parts + turn * (WARPS * CC * ROWS_PAD);
            product(mail, m, matrix, a.u, v, rank, warp, lane, patience);
            __syncthreads();
            float z[G];
            if (!worker) continue;
            fold_warps<G>(z, mail + column * ROWS_PAD + u * G);
#pragma unroll
            for (int q = 0; q < G; q++) {
                if (!mine) x[q] = 0;
                if (SNORM) z[q] = __fadd_rn(z[q], x[q]), x[q] = constant(CONST_CX, q);
                else x[q] = fmaf(constant(CONST_GX, q), x[q], constant(CONST_CX, q));
                slot(ch, SLOT_X + q) = x[q], slot(ch, SLOT_Z + q) = z[q];
            }
#if NORM
#pragma unroll
            for (int k = 0; k < NGRP; k++) {
                float sum = 0, square = 0, mean, rest, pivot = 0;
#pragma unroll
                for (int q = G - 1; q >= 0; q--)
                    if (group_of(q) == k) pivot = z[q];
                pivot = __shfl_sync(0xffffffffu, pivot, 0, UNITS);
#pragma unroll
                for (int q = 0; q < G; q++)
                    if (group_of(q) == k && real) {
                        const float d = __fsub_rn(z[q], pivot);
                        sum = __fadd_rn(sum, d), square = fmaf(d, d, square);
                    }
                block_statistics(sum, square, pivot, inv_units * (1.0f / gates_of(k)), mean, rest);
                if (mine && u == 0) send2(a.gates + ((size_t(s) * a.batch + b) * NGRP + k) * GS + rank, mean, rest);
            }
#endif
        }
        if (worker)
        // 2. The gates; each block's part of the cell's statistics.
        for (int ch = 0; ch < (ONE ? 1 : chunks); ch++) {
            const int b = b0 + ch * CC + column;
            const bool mine = ch * CC + column < count;
            const int length = mine && a.lengths ? a.lengths[b] : a.steps;
            const bool valid = mine && s < length;
            const size_t at = size_t(s) * a.batch + b;
            float ha[G], x[G], zn[G];
#pragma unroll
            for (int q = 0; q < G; q++) zn[q] = slot(ch, SLOT_Z + q), x[q] = slot(ch, SLOT_X + q);
#if NORM
            float mean[NGRP], rstd[NGRP];
            row_statistics<gates_of(0)>(a.gates + at * NGRP * GS, mine, u, EPS_R, DEV_R, patience, mean[0], rstd[0]);
#pragma unroll
            for (int k = 1; k < NGRP; k++)
                row_statistics<gates_of(NGRP - 1)>(a.gates + (at * NGRP + k) * GS, mine, u, EPS_R, DEV_R, patience, mean[k], rstd[k]);
#pragma unroll
            for (int q = 0; q < G; q++) zn[q] = __fmul_rn(__fsub_rn(zn[q], mean[group_of(q)]), rstd[group_of(q)]);
#endif
#pragma unroll
            for (int q = 0; q < G; q++) ha[q] = fmaf(constant(CONST_GH, q), zn[q], constant(CONST_CH, q));
#if LSTM
            const float i = sigmoid(__fadd_rn(x[0], ha[0])), f = sigmoid(__fadd_rn(x[1], ha[1]));
            const float g = tanh_of(__fadd_rn(x[2], ha[2])), o = sigmoid(__fadd_rn(x[G - 1], ha[G - 1]));
            const float c = real ? fmaf(f, slot(ch, SLOT_C), __fmul_rn(i, g)) : 0.0f;
            slot(ch, SLOT_Z) = o, slot(ch, SLOT_Z + 1) = c;
#if CNORM
            const float pivot = __shfl_sync(0xffffffffu, c, 0, UNITS), d = real ? __fsub_rn(c, pivot) : 0.0f;
            float mc, rest;
            block_statistics(d, __fmul_rn(d, d), pivot, inv_units, mc, rest);
            if (mine && u == 0) send2(a.cells + at * GS + rank, mc, rest);
#else
            const float h = real && valid ? __fmul_rn(o, tanh_of(c)) : slot(ch, SLOT_H);
            if (valid) slot(ch, SLOT_C) = c;
#endif
#else
            const float r = sigmoid(__fadd_rn(x[0], ha[0])), z = sigmoid(__fadd_rn(x[1], ha[1]));
            const float n = tanh_of(fmaf(r, ha[2], x[2]));
            const float before = slot(ch, SLOT_H);
            const float mixed = KEEPS ? fmaf(z, __fsub_rn(before, n), n) : fmaf(z, __fsub_rn(n, before), before);
            const float h = real && valid ? mixed : before;
#endif
#if !(LSTM && CNORM)
            slot(ch, SLOT_H) = h;
            send_elem(a.h + (at + a.batch) * HP + unit, narrow(h), u, mine);
            if (valid && real)
                a.y[time_of(s, length, a.reverse) * a.y_time + b * a.y_batch + unit] = narrow(h);
#endif
#if TRAIN
            if (mine) {
                float *row = a.zx + size_t(time_of(s, length, a.reverse) * (long long)a.row_time + b * (long long)a.row_batch) * GW + unit;
#pragma unroll
                for (int q = 0; q < G; q++) {
                    if (SNORM) row[q * HP] = zn[q];
                    else a.zh[at * GW + q * HP + unit] = zn[q];
                }
                a.state[(at + a.batch) * HP + unit] = LSTM ? (valid ? slot(ch, SLOT_Z + 1) : slot(ch, SLOT_C)) : slot(ch, SLOT_H);
#if NORM
                if (rank == 0 && u == 0)
#pragma unroll
                    for (int k = 0; k < NGRP; k++) a.rh[at * NGRP + k] = rstd[k];
#endif
            }
#endif
            if (mine && s + 1 < a.steps) {
                const float *next = a.zx + size_t(time_of(s + 1, length, a.reverse) * (long long)a.row_time + b * (long long)a.row_batch) * GW + unit;
#pragma unroll
                for (int q = 0; q < G; q++)
                    if (u % 8 == 0) prefetch(next + q * HP);
            }
        }
#if LSTM && CNORM
        if (worker)
        // 3. The cell's norm and h.
        for (int ch = 0; ch < (ONE ? 1 : chunks); ch++) {
            const int b = b0 + ch * CC + column;
            const bool mine = ch * CC + column < count;
            const int length = mine && a.lengths ? a.lengths[b] : a.steps;
            const bool valid = mine && s < length;
            const size_t at = size_t(s) * a.batch + b;
            float mean, rstd;
            row_statistics<1>(a.cells + at * GS, mine, u, EPS_C, DEV_C, patience, mean, rstd);
            const float o = slot(ch, SLOT_Z), c = slot(ch, SLOT_Z + 1);
            const float n = fmaf(constant(4, 0), __fmul_rn(__fsub_rn(c, mean), rstd), constant(4, 1));
            const float h = !real ? 0.0f : valid ? __fmul_rn(o, tanh_of(n)) : slot(ch, SLOT_H);
            send_elem(a.h + (at + a.batch) * HP + unit, narrow(h), u, mine);
            if (valid && real) {
                slot(ch, SLOT_C) = CARRIED ? n : c;
                slot(ch, SLOT_H) = h;
                a.y[time_of(s, length, a.reverse) * a.y_time + b * a.y_batch + unit] = narrow(h);
            }
#if TRAIN
            if (mine && rank == 0 && u == 0) a.cell[at * 2] = mean, a.cell[at * 2 + 1] = rstd;
#endif
        }
#endif
        // Whoever has no more to do must not look for h in vain: that would slow the others.
        __syncthreads();
    }
    if (worker)
        for (int ch = 0; ch < (ONE ? 1 : chunks); ch++)
            if (ch * CC + column < count && real) {
                const size_t at = size_t(b0 + ch * CC + column) * H + unit;
                if (a.h_last) a.h_last[at] = slot(ch, SLOT_H);
                if (LSTM && a.c_last) a.c_last[at] = slot(ch, SLOT_C);
            }
}
