// The time loop of an LSTM or GRU, backward: one launch for all steps.
//
//   dh = dy + Uᵀ dzh of the step behind it
//   LSTM  dn = dh·o·(1 − tanh²)      dc = LNc'(dn) + what the next step's f let through
//         da_i = dc·g·i(1−i)   da_f = dc·c₋·f(1−f)   da_g = dc·i(1−g²)   da_o = dh·tanh·o(1−o)      dc₋ = dc·f
//   GRU   dn = dh·(1−z)·(1−n²)   dz = dh·(h₋−n)·z(1−z)   dr = dn·h_n·r(1−r)   dh_n = dn·r   dh₋ += dh·z
//   dzh = LNh'(da·GH)      dzx = LNx'(da·GX)      LN'(g) = r·(g − mean(g) − x̂·mean(g·x̂))
//
// Gates are computed again from the tape. Who owns what is as in forward.cu; a block's rows here are its UNITS units, and
// k goes over all gates. Sums for the gradients of gains and biases are kept for each unit and sequence, in order of time.
#include "common.cuh"
#include "cell.cuh"
#define MT ((UNITS + 15) / 16)
#define WORDS (GW / PER_WORD)
#include "product.cuh"

struct Backward {
    const u32 *ut;          // Uᵀ, packed
    const float *zx, *zh;   // the tape, as forward.cu left it
    const float *rh, *rx;   // 1/σ: [T, B, NGRP], and [rows, XGRP] of the input's norm
    const float *state, *cell;
    elem *dzh;              // [T, B, G·HP], EMPTY at the start
    elem *dzx;              // [rows, G·HP]
    uint2 *gates, *inputs;  // [T, B, NGRP, GS] and [T, B, XGRP, GS] messages
    uint2 *cells;           // [T, B, GS] messages
    const float *consts;
    const elem *dy;
    long long y_time, y_batch;
    const float *dh_last, *dc_last;  // [B, H] or null
    float *dh0, *dc0;                // [B, H] or null
    float *sums;                     // [B, 4·G·HP + 2·HP]: of every constant
    const int *lengths;
    u32 *fail;
    int steps, batch, first, end, cols;
    int row_time, row_batch;
    int reverse;
    u32 patience;
};

#define XGROUP(q) (XGRP == 1 ? 0 : XGRP == 2 ? ((q) == G - 1) : (q))
#define XGATES(k) (XGRP == 1 ? G : XGRP == 2 ? ((k) ? 1 : G - 1) : 1)

#define SLOT_A 0      // gates, then dha; a GRU's fourth is dxa of the candidate
#define SLOT_O 4      // da_o
#define SLOT_N 5      // dn·γ
#define SLOT_X 6      // ĉ
#define SLOT_B 7      // c₋
#define SLOT_CARRY 8  // dc, or dh of a GRU by way of the mixture
#define SUM_GX 9
#define SUM_CX (9 + G)
#define SUM_GH (9 + 2 * G)
#define SUM_CELL (9 + 3 * G)  // of γ and β of the cell; the first is CH of the candidate in a GRU
#define SLOTS (11 + 3 * G)

extern "C" __global__ void __launch_bounds__(256, 1) rnn_backward(Backward a) {
    extern __shared__ __align__(16) float shared[];
    float *parts = shared;
    float *consts = parts + 2 * WARPS * CC * ROWS_PAD;
    u32 *matrix = (u32 *)(consts + (4 * G + 2) * UNITS);
    float *slots = (float *)(matrix + WARPS * PS * MT * 2 * FRAG);  // [chunk][SLOTS][256]

    const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31;
    const int rank = blockIdx.x % GS, group = blockIdx.x / GS;
    const int b0 = a.first + group * a.cols, count = min(a.cols, a.end - b0);
    if (count <= 0) return;
    const int u = tid % UNITS, column = tid / UNITS, unit = rank * UNITS + u;
    const bool worker = column < CC, real = H == HP || unit < H;
    Patience patience = {a.patience, a.fail};

    for (int i = tid; i < 4 * G * UNITS; i += 256) {
        int q = i / UNITS, k = q / G, gate = q % G;
        consts[i] = a.consts[k * GW + gate * HP + rank * UNITS + i % UNITS];
    }
    for (int i = tid; i < 2 * UNITS; i += 256)
        consts[4 * G * UNITS + i] = a.consts[CONST_CELL + (i / UNITS) * HP + rank * UNITS + i % UNITS];
    Matrix m;
    load_matrix(m, matrix, a.ut, rank, warp, lane);
    __syncthreads();
    auto constant = [&](int kind, int gate) { return consts[(kind * G + gate) * UNITS + u]; };
#if ONE
    // Those of a step are in registers, the sums and what is carried in shared memory.
    float own[SLOT_CARRY];
    auto slot = [&](int, int k) -> float & { return k < SLOT_CARRY ? own[k < SLOT_CARRY ? k : 0] : slots[k * 256 + tid]; };
    const int chunks = 1;
#else
    auto slot = [&](int chunk, int k) -> float & { return slots[(chunk * SLOTS + k) * 256 + tid]; };
    const int chunks = (count + CC - 1) / CC;
#endif
#if CNORM
    const float gain_c = consts[4 * G * UNITS + u], bias_c = consts[(4 * G + 1) * UNITS + u];
#endif

    if (worker)
        for (int ch = 0; ch < (ONE ? 1 : chunks); ch++) {
#pragma unroll
            for (int k = 0; k < SLOTS; k++) slot(ch, k) = 0;
            if (LSTM && a.dc_last && ch * CC + column < count && real)
                slot(ch, SLOT_CARRY) = a.dc_last[size_t(b0 + ch * CC + column) * H + unit];
        }

    int turn = 0;
    for (int s = a.steps - 1; s >= -1; s--) {
        if (patience.left) patience.left = a.patience;
        // 1. dh, and what it means for the cell.
        for (int ch = 0; ch < (ONE ? 1 : chunks); ch++, turn ^= 1) {
            const int b = b0 + ch * CC + column, in_chunk = min(CC, count - ch * CC);
            const bool mine = worker && column < in_chunk;
            const int length = mine && a.lengths ? a.lengths[b] : a.steps;
            const bool valid = mine && real && s < length && s >= 0;
            const long long time = time_of(s, length, a.reverse);
            const size_t at = size_t(max(s, 0)) * a.batch + b;
            float x[G], z[G], dh = 0, before = 0;
#if LSTM
            float c = 0;
#endif
            if (valid) {
                const float *row = a.zx + size_t(time * a.row_time + b * (long long)a.row_batch) * GW + unit;
#pragma unroll
                for (int q = 0; q < G; q++) x[q] = row[q * HP];
#if !SNORM
#pragma unroll
                for (int q = 0; q < G; q++) z[q] = a.zh[at * GW + q * HP + unit];
#endif
                dh = widen(a.dy[time * a.y_time + b * a.y_batch + unit]);
                if (s == length - 1 && a.dh_last) dh = __fadd_rn(dh, a.dh_last[size_t(b) * H + unit]);
                before = a.state[at * HP + unit];
#if LSTM
                c = a.state[(at + a.batch) * HP + unit];
#endif
            }
#if CNORM
            float mean = 0, rstd = 0, mean0 = 0, rstd0 = 0;
            if (valid) mean = a.cell[at * 2], rstd = a.cell[at * 2 + 1];
            if (CARRIED && valid && s > 0) mean0 = a.cell[(at - a.batch) * 2], rstd0 = a.cell[(at - a.batch) * 2 + 1];
#endif
            if (s + 1 < a.steps) {
                Vectors v = {(const u32 *)(a.dzh + (size_t(s + 1) * a.batch + b0 + ch * CC) * GW), GW / PER_WORD, in_chunk};
                float *mail = parts + turn * (WARPS * CC * ROWS_PAD);
                product(mail, m, matrix, a.ut, v, rank, warp, lane, patience);
                __syncthreads();
                if (worker) {
                    float sum[1];
                    fold_warps<1>(sum, mail + column * ROWS_PAD + u);
                    dh = __fadd_rn(dh, sum[0]);
                }
            }
            if (!worker) continue;
#if !LSTM
            dh = __fadd_rn(dh, slot(ch, SLOT_CARRY));
#endif
            if (s < 0) {
                if (mine && real && a.dh0) a.dh0[size_t(b) * H + unit] = dh;
                if (LSTM && mine && real && a.dc0) a.dc0[size_t(b) * H + unit] = slot(ch, SLOT_CARRY);
                continue;
            }
            float ha[G], xa[G];
#pragma unroll
            for (int q = 0; q < G; q++) {
                if (!valid) x[q] = 0, z[q] = 0;
                if (SNORM) z[q] = x[q], xa[q] = constant(CONST_CX, q);
                else xa[q] = fmaf(constant(CONST_GX, q), x[q], constant(CONST_CX, q));
                ha[q] = fmaf(constant(CONST_GH, q), z[q], constant(CONST_CH, q));
            }
#if LSTM
            const float i = sigmoid(__fadd_rn(xa[0], ha[0])), f = sigmoid(__fadd_rn(xa[1], ha[1]));
            const float g = tanh_of(__fadd_rn(xa[2], ha[2])), o = sigmoid(__fadd_rn(xa[G - 1], ha[G - 1]));
#if CNORM
            const float cn = __fmul_rn(__fsub_rn(c, mean), rstd);
            const float t = tanh_of(fmaf(gain_c, cn, bias_c));
            if (CARRIED && s > 0) before = fmaf(gain_c, __fmul_rn(__fsub_rn(before, mean0), rstd0), bias_c);
#else
            const float t = tanh_of(c);
#endif
            float dn = __fmul_rn(__fmul_rn(dh, o), fmaf(-t, t, 1.0f));
            if ((CARRIED || !CNORM)) dn = __fadd_rn(dn, slot(ch, SLOT_CARRY));
            if (!valid) dn = 0;
            slot(ch, SLOT_A) = i, slot(ch, SLOT_A + 1) = f, slot(ch, SLOT_A + 2) = g, slot(ch, SLOT_A + 3) = o;
            slot(ch, SLOT_O) = valid ? __fmul_rn(__fmul_rn(dh, t), __fmul_rn(o, __fsub_rn(1.0f, o))) : 0.0f;
            slot(ch, SLOT_B) = before;
#if CNORM
            const float gc = __fmul_rn(dn, gain_c);
            const float sum = sum_lanes<UNITS>(gc), dot = sum_lanes<UNITS>(__fmul_rn(gc, cn));
            if (mine && u == 0) send2(a.cells + at * GS + rank, sum, dot);
            slot(ch, SLOT_N) = gc, slot(ch, SLOT_X) = cn;
            slot(ch, SUM_CELL) = fmaf(dn, cn, slot(ch, SUM_CELL));
            slot(ch, SUM_CELL + 1) = __fadd_rn(slot(ch, SUM_CELL + 1), dn);
#else
            slot(ch, SLOT_N) = dn;
#endif
#else
            const float r = sigmoid(__fadd_rn(xa[0], ha[0])), zg = sigmoid(__fadd_rn(xa[1], ha[1]));
            const float n = tanh_of(fmaf(r, ha[2], xa[2]));
            const float rest = __fsub_rn(1.0f, zg), fresh = KEEPS ? rest : zg, old = KEEPS ? zg : rest;
            const float dn = __fmul_rn(__fmul_rn(dh, fresh), fmaf(-n, n, 1.0f));
            const float dz = __fmul_rn(__fmul_rn(__fmul_rn(dh, zg), rest), KEEPS ? __fsub_rn(before, n) : __fsub_rn(n, before));
            const float dr = __fmul_rn(__fmul_rn(dn, ha[2]), __fmul_rn(r, __fsub_rn(1.0f, r)));
            slot(ch, SLOT_A) = valid ? dr : 0.0f, slot(ch, SLOT_A + 1) = valid ? dz : 0.0f;
            slot(ch, SLOT_A + 2) = valid ? __fmul_rn(dn, r) : 0.0f, slot(ch, SLOT_A + 3) = valid ? dn : 0.0f;
            if (valid) slot(ch, SLOT_CARRY) = __fmul_rn(dh, old);
#endif
        }
        if (s < 0) break;
        if (worker)
        // 2. The gates, and each block's part of the sums that their norms need.
        for (int ch = 0; ch < (ONE ? 1 : chunks); ch++) {
            const int b = b0 + ch * CC + column;
            const bool mine = ch * CC + column < count;
            const int length = mine && a.lengths ? a.lengths[b] : a.steps;
            const bool valid = mine && real && s < length;
            const long long time = time_of(s, length, a.reverse);
            const size_t at = size_t(s) * a.batch + b;
            float x[G], z[G], dha[G], dxa[G];
#pragma unroll
            for (int q = 0; q < G; q++) x[q] = 0, z[q] = 0;
            if (valid && (NORM || XNORM)) {
                const float *row = a.zx + size_t(time * a.row_time + b * (long long)a.row_batch) * GW + unit;
#pragma unroll
                for (int q = 0; q < G; q++) {
                    x[q] = row[q * HP];
                    z[q] = SNORM ? x[q] : a.zh[at * GW + q * HP + unit];
                }
            }
#if LSTM
            float dc = slot(ch, SLOT_N);
#if CNORM
            float ma, mb, rstd = 0;
            if (valid) rstd = a.cell[at * 2 + 1];
            row_sums(a.cells + at * GS, mine, u, 1.0f / H, patience, ma, mb);
            dc = __fmul_rn(rstd, fmaf(-slot(ch, SLOT_X), mb, __fsub_rn(dc, ma)));
            if (!CARRIED) dc = __fadd_rn(dc, slot(ch, SLOT_CARRY));
#endif
            const float i = slot(ch, SLOT_A), f = slot(ch, SLOT_A + 1), g = slot(ch, SLOT_A + 2);
            dha[0] = __fmul_rn(__fmul_rn(dc, g), __fmul_rn(i, __fsub_rn(1.0f, i)));
            dha[1] = __fmul_rn(__fmul_rn(dc, slot(ch, SLOT_B)), __fmul_rn(f, __fsub_rn(1.0f, f)));
            dha[2] = __fmul_rn(__fmul_rn(dc, i), fmaf(-g, g, 1.0f));
            dha[G - 1] = slot(ch, SLOT_O);
            if (valid) slot(ch, SLOT_CARRY) = __fmul_rn(dc, f);
#pragma unroll
            for (int q = 0; q < G; q++) dha[q] = valid ? dha[q] : 0.0f, dxa[q] = dha[q], slot(ch, SLOT_A + q) = dha[q];
#else
#pragma unroll
            for (int q = 0; q < G; q++) dha[q] = slot(ch, SLOT_A + q), dxa[q] = slot(ch, SLOT_A + (q == 2 ? 3 : q));
#endif
#if NORM
#pragma unroll
            for (int k = 0; k < NGRP; k++) {
                float sum = 0, dot = 0;
#pragma unroll
                for (int q = 0; q < G; q++)
                    if (group_of(q) == k) {
                        float gq = __fmul_rn(dha[q], constant(CONST_GH, q));
                        sum = __fadd_rn(sum, gq), dot = fmaf(gq, z[q], dot);
                    }
                sum = sum_lanes<UNITS>(sum), dot = sum_lanes<UNITS>(dot);
                if (mine && u == 0) send2(a.gates + (at * NGRP + k) * GS + rank, sum, dot);
            }
#endif
#if XNORM
#pragma unroll
            for (int k = 0; k < XGRP; k++) {
                float sum = 0, dot = 0;
#pragma unroll
                for (int q = 0; q < G; q++)
                    if (XGROUP(q) == k) {
                        float gq = __fmul_rn(dxa[q], constant(CONST_GX, q));
                        sum = __fadd_rn(sum, gq), dot = fmaf(gq, x[q], dot);
                    }
                sum = sum_lanes<UNITS>(sum), dot = sum_lanes<UNITS>(dot);
                if (mine && u == 0) send2(a.inputs + (at * XGRP + k) * GS + rank, sum, dot);
            }
#endif
        }
        if (worker)
        // 3. Through the norms: dzh goes out, dzx and the sums are kept.
        for (int ch = 0; ch < (ONE ? 1 : chunks); ch++) {
            const int b = b0 + ch * CC + column;
            const bool mine = ch * CC + column < count;
            const int length = mine && a.lengths ? a.lengths[b] : a.steps;
            const bool valid = mine && real && s < length;
            const long long time = time_of(s, length, a.reverse);
            const size_t at = size_t(s) * a.batch + b, row = size_t(time * a.row_time + b * (long long)a.row_batch);
            float x[G], z[G], dha[G], dxa[G], dz[G];
#pragma unroll
            for (int q = 0; q < G; q++) {
                x[q] = 0, z[q] = 0;
                if (valid && (NORM || XNORM)) {
                    x[q] = a.zx[row * GW + q * HP + unit];
                    z[q] = SNORM ? x[q] : a.zh[at * GW + q * HP + unit];
                }
                dha[q] = slot(ch, SLOT_A + q), dxa[q] = slot(ch, SLOT_A + (!LSTM && q == 2 ? 3 : q)), dz[q] = dha[q];
            }
#if NORM
            float ma[NGRP], mb[NGRP], rstd[NGRP];
#pragma unroll
            for (int k = 0; k < NGRP; k++) rstd[k] = valid ? a.rh[at * NGRP + k] : 0.0f;
#pragma unroll
            for (int k = 0; k < NGRP; k++)
                row_sums(a.gates + (at * NGRP + k) * GS, mine, u, 1.0f / (gates_of(k) * H), patience, ma[k], mb[k]);
#pragma unroll
            for (int q = 0; q < G; q++) {
                const int k = group_of(q);
                const float gq = __fmul_rn(dha[q], constant(CONST_GH, q));
                dz[q] = valid ? __fmul_rn(rstd[k], fmaf(-z[q], mb[k], __fsub_rn(gq, ma[k]))) : 0.0f;
            }
#endif
#pragma unroll
            for (int q = 0; q < G; q++) send_elem(a.dzh + at * GW + q * HP + unit, narrow(dz[q]), u, mine);
            float dx[G];
#pragma unroll
            for (int q = 0; q < G; q++) dx[q] = SNORM ? dz[q] : dxa[q];
#if XNORM
#pragma unroll
            for (int k = 0; k < XGRP; k++) {
                float xa, xb;
                row_sums(a.inputs + (at * XGRP + k) * GS, mine, u, 1.0f / (XGATES(k) * H), patience, xa, xb);
                const float rx = valid ? a.rx[row * XGRP + k] : 0.0f;
#pragma unroll
                for (int q = 0; q < G; q++)
                    if (XGROUP(q) == k)
                        dx[q] = valid ? __fmul_rn(rx, fmaf(-x[q], xb, __fsub_rn(__fmul_rn(dxa[q], constant(CONST_GX, q)), xa))) : 0.0f;
            }
#endif
            if (mine)
#pragma unroll
                for (int q = 0; q < G; q++) a.dzx[row * GW + q * HP + unit] = narrow(dx[q]);
            if (valid) {
#pragma unroll
                for (int q = 0; q < G; q++) {
                    if (XNORM) slot(ch, SUM_GX + q) = fmaf(dxa[q], x[q], slot(ch, SUM_GX + q));
                    slot(ch, SUM_CX + q) = __fadd_rn(slot(ch, SUM_CX + q), dxa[q]);
                    if (NORM) slot(ch, SUM_GH + q) = fmaf(dha[q], z[q], slot(ch, SUM_GH + q));
                }
                if (!LSTM) slot(ch, SUM_CELL) = __fadd_rn(slot(ch, SUM_CELL), dha[2]);
            }
            if (valid && s > 0) {
                const float *next = a.zx + size_t(time_of(s - 1, length, a.reverse) * (long long)a.row_time + b * (long long)a.row_batch) * GW + unit;
                const size_t back = at - a.batch;
                if (u % 8 == 0) {
#pragma unroll
                    for (int q = 0; q < G; q++) {
                        prefetch(next + q * HP);
                        if (!SNORM) prefetch(a.zh + back * GW + q * HP + unit);
                    }
                    prefetch(a.state + back * HP + unit);
                }
                if (u == 0) prefetch(a.dy + time_of(s - 1, length, a.reverse) * a.y_time + b * a.y_batch + unit);
            }
        }
        // Whoever has no more to do must not look for dzh in vain: that would slow the others.
        __syncthreads();
    }
    if (worker)
        for (int ch = 0; ch < (ONE ? 1 : chunks); ch++)
            if (ch * CC + column < count) {
                float *to = a.sums + size_t(b0 + ch * CC + column) * (4 * GW + 2 * HP) + unit;
#pragma unroll
                for (int q = 0; q < G; q++) {
                    to[CONST_GX * GW + q * HP] = slot(ch, SUM_GX + q);
                    to[CONST_CX * GW + q * HP] = slot(ch, SUM_CX + q);
                    to[CONST_GH * GW + q * HP] = slot(ch, SUM_GH + q);
                    to[CONST_CH * GW + q * HP] = slot(ch, !LSTM && q == 2 ? SUM_CELL : SUM_CX + q);
                }
                to[CONST_CELL] = LSTM ? slot(ch, SUM_CELL) : 0.0f;
                to[CONST_CELL + HP] = LSTM ? slot(ch, SUM_CELL + 1) : 0.0f;
            }
}
