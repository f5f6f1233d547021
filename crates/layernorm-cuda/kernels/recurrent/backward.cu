// Backward time loop of an LSTM or GRU: one launch for all steps.
//
//   dh = dy + Uᵀ dzh of the following step
//   LSTM  dn = dh·o·(1 − tanh²)      dc = LNc'(dn) + dc₋ of the following step
//         da_i = dc·g·i(1−i)   da_f = dc·c₋·f(1−f)   da_g = dc·i(1−g²)   da_o = dh·tanh·o(1−o)      dc₋ = dc·f
//   GRU   dn = dh·(1−z)·(1−n²)   dz = dh·(h₋−n)·z(1−z)   dr = dn·h_n·r(1−r)   dh_n = dn·r   dh₋ += dh·z
//   dzh = LNh'(da·GH)      dzx = LNx'(da·GX)      LN'(g) = r·(g − mean(g) − x̂·mean(g·x̂))
//
// Gates are recomputed from the tape. Ownership is as in forward.cu, except that a block's rows are the units of its
// team of SPLIT blocks, and its k is one part of all gates. So it reads only that part of dzh, and the blocks of a team
// send each other their partial sums, which are added in the order of the parts. Sums for the gradients of gains and
// biases are kept per unit and sequence, in the order of the time loop.
#include "common.cuh"
#include "cell.cuh"
#define ROWS (SPLIT * UNITS)
#define MT ((ROWS + 15) / 16)
#define WORDS (GW / PER_WORD)
#include "product.cuh"
#include "block.cuh"

struct Backward {
    const u32 *ut;          // Uᵀ, packed
    const float *zx, *zh;   // the tape, as forward.cu left it
    const float *rh, *rx;   // 1/σ: [T, B, NGRP], and [rows, XGRP] of the input's norm
    const float *state, *cell;
    elem *dzh;              // [T, B, G·HP], initially EMPTY
    elem *dzx;              // [rows, G·HP]
    uint2 *gates, *inputs;  // [T, B, NGRP, GS] and [T, B, XGRP, GS] messages
    uint2 *cells;           // [T, B, GS] messages
    u64 *mail;              // [2, B, SPLIT, HP]: partial sums within a team, each tagged with its step
    const float *consts;
    const elem *dy;
    long long y_time, y_batch;
    const float *dh_last, *dc_last;  // [B, H] or null
    float *dh0, *dc0;                // [B, H] or null
    float *sums;                     // [B, 4·G·HP + 2·HP]: gradients of all constants
    const int *lengths;
    u32 *fail, *report;
    int steps, batch, first, end, cols;
    int row_time, row_batch;
    int reverse;
    u32 patience;
};

#define XGROUP(q) (XGRP == 1 ? 0 : XGRP == 2 ? ((q) == G - 1) : (q))
#define XGATES(k) (XGRP == 1 ? G : XGRP == 2 ? ((k) ? 1 : G - 1) : 1)

// A thread's values per share. Kept from step to step: dc (GRU: the part of dh that bypasses the candidate), and the
// sums.
#define CARRY 0
#define SUM_GX 1
#define SUM_CX (1 + G)
#define SUM_GH (1 + 2 * G)
#define SUM_CELL (1 + 3 * G)  // for γ and β of the cell; in a GRU, the first is CH of the candidate
#define NKEPT (3 + 3 * G)
// Passed from phase to phase: i, f, g and da_o, then dha (GRU: dha, and dxa of the candidate). Then dn·γ, or before
// that the product, if no team has to add it up. In registers also c₋ and ĉ, which are recomputed otherwise.
#define GATE 0
#define DN 4
#define BEFORE 5
#define CHAT 6
#define NPASSED (IN_REGISTERS ? 7 : 5)

struct Own {
#if IN_REGISTERS
    float temp[NPASSED];
#endif
    Block k;
    __device__ __forceinline__ float constant(int kind, int gate) const { return k.consts[(kind * G + gate) * UNITS + k.u]; }
    __device__ __forceinline__ float &kept(int share, int which) {
        return k.keeps[(share * NKEPT + which) * 256 + k.tid];
    }
    __device__ __forceinline__ float &passed(int share, int which) {
#if IN_REGISTERS
        return temp[which];
#else
        return k.temps[(share * NPASSED + which) * 256 + k.tid];
#endif
    }
};

#include "tape.cuh"
#include "team.cuh"

__device__ __forceinline__ void first_sums(const Backward &a, Own &o) {
    EACH_SHARE(o.k) {
        const Place p = place(a, o.k, 0, share);
#pragma unroll
        for (int n = 0; n < NKEPT; n++) o.kept(share, n) = 0;
        if (LSTM && a.dc_last && p.mine && o.k.real) o.kept(share, CARRY) = a.dc_last[size_t(p.b) * H + o.k.unit];
    }
}
__device__ __forceinline__ void last_sums(const Backward &a, Own &o) {
    EACH_SHARE(o.k) {
        const Place p = place(a, o.k, 0, share);
        if (!p.mine) continue;
        float *to = a.sums + size_t(p.b) * (4 * GW + 2 * HP) + o.k.unit;
#pragma unroll
        for (int q = 0; q < G; q++) {
            to[CONST_GX * GW + q * HP] = o.kept(share, SUM_GX + q);
            to[CONST_CX * GW + q * HP] = o.kept(share, SUM_CX + q);
            to[CONST_GH * GW + q * HP] = o.kept(share, SUM_GH + q);
            to[CONST_CH * GW + q * HP] = o.kept(share, !LSTM && q == 2 ? SUM_CELL : SUM_CX + q);
        }
        to[CONST_CELL] = LSTM ? o.kept(share, SUM_CELL) : 0.0f;
        to[CONST_CELL + HP] = LSTM ? o.kept(share, SUM_CELL + 1) : 0.0f;
    }
}

// dzh of the following step.
__device__ __forceinline__ Vectors vectors_of(const Backward &a, const Block &k, int step, int part) {
    return {(const u32 *)(a.dzh + (size_t(step + 1) * a.batch + k.b0 + part * CC) * GW), GW / PER_WORD, k.count - part * CC};
}

#if LSTM
// From dh to dn·γ and da_o, with the block's part of the sums for the cell's norm.
__device__ __forceinline__ void cell_back(
    const Backward &a, Own &o, const Place &p, int share, const Cell &cell, float dh, const float xa[G], const float ha[G]) {
    const Block &k = o.k;
    const bool valid = p.valid && k.real;
    const float in = sigmoid(__fadd_rn(xa[0], ha[0])), f = sigmoid(__fadd_rn(xa[1], ha[1]));
    const float g = tanh_of(__fadd_rn(xa[2], ha[2])), out = sigmoid(__fadd_rn(xa[G - 1], ha[G - 1]));
#if CNORM
    const float gain = o.constant(4, 0), t = tanh_of(fmaf(gain, cell.chat, o.constant(4, 1)));
#else
    const float t = tanh_of(cell.chat);
#endif
    float dn = __fmul_rn(__fmul_rn(dh, out), fmaf(-t, t, 1.0f));
    if (CARRIED || !CNORM) dn = __fadd_rn(dn, o.kept(share, CARRY));
    if (!valid) dn = 0;
    o.passed(share, GATE) = in, o.passed(share, GATE + 1) = f, o.passed(share, GATE + 2) = g;
    o.passed(share, GATE + 3) = valid ? __fmul_rn(__fmul_rn(dh, t), __fmul_rn(out, __fsub_rn(1.0f, out))) : 0.0f;
    if (IN_REGISTERS) o.passed(share, BEFORE) = cell.before, o.passed(share, CHAT) = cell.chat;
#if CNORM
    const float gc = __fmul_rn(dn, gain);
    const float sum = sum_lanes<UNITS>(gc), dot = sum_lanes<UNITS>(__fmul_rn(gc, cell.chat));
    if (p.mine && k.u == 0) send2(a.cells + p.at * GS + k.rank, sum, dot);
    o.passed(share, DN) = gc;
    o.kept(share, SUM_CELL) = fmaf(dn, cell.chat, o.kept(share, SUM_CELL));
    o.kept(share, SUM_CELL + 1) = __fadd_rn(o.kept(share, SUM_CELL + 1), dn);
#else
    o.passed(share, DN) = dn;
#endif
}
#else
__device__ __forceinline__ void cell_back(
    const Backward &, Own &o, const Place &p, int share, const Cell &cell, float dh, const float xa[G], const float ha[G]) {
    const bool valid = p.valid && o.k.real;
    const float r = sigmoid(__fadd_rn(xa[0], ha[0])), z = sigmoid(__fadd_rn(xa[1], ha[1]));
    const float n = tanh_of(fmaf(r, ha[2], xa[2])), before = cell.before;
    const float rest = __fsub_rn(1.0f, z), fresh = KEEPS ? rest : z, old = KEEPS ? z : rest;
    const float dn = __fmul_rn(__fmul_rn(dh, fresh), fmaf(-n, n, 1.0f));
    const float dz = __fmul_rn(__fmul_rn(__fmul_rn(dh, z), rest), KEEPS ? __fsub_rn(before, n) : __fsub_rn(n, before));
    const float dr = __fmul_rn(__fmul_rn(dn, ha[2]), __fmul_rn(r, __fsub_rn(1.0f, r)));
    o.passed(share, GATE) = valid ? dr : 0.0f, o.passed(share, GATE + 1) = valid ? dz : 0.0f;
    o.passed(share, GATE + 2) = valid ? __fmul_rn(dn, r) : 0.0f, o.passed(share, GATE + 3) = valid ? dn : 0.0f;
    if (valid) o.kept(share, CARRY) = __fmul_rn(dh, old);
}
#endif

// Phase 1: dh, and the gradients within the cell that follow from it.
__device__ __forceinline__ void phase_cell(const Backward &a, Own &o, int step, int share, const Read &r) {
    Block &k = o.k;
    const Place p = place(a, k, step, share);
    const float sums = step + 1 < a.steps ? take_sums(a, o, p, step, share) : 0.0f;
    float dh = own_dh(a, k, p, step, r);
    if (step + 1 < a.steps) dh = __fadd_rn(dh, sums);
    if (!LSTM) dh = __fadd_rn(dh, o.kept(share, CARRY));
    if (step < 0) {
        if (p.mine && k.real && a.dh0) a.dh0[size_t(p.b) * H + k.unit] = dh;
        if (LSTM && p.mine && k.real && a.dc0) a.dc0[size_t(p.b) * H + k.unit] = o.kept(share, CARRY);
        return;
    }
    float ha[G], xa[G];
#pragma unroll
    for (int q = 0; q < G; q++) {
        if (SNORM) xa[q] = o.constant(CONST_CX, q);
        else xa[q] = fmaf(o.constant(CONST_GX, q), r.x[q], o.constant(CONST_CX, q));
        ha[q] = fmaf(o.constant(CONST_GH, q), SNORM ? r.x[q] : r.z[q], o.constant(CONST_CH, q));
    }
    cell_back(a, o, p, share, cell_of(o, p, step, r.kept), dh, xa, ha);
}

// Sends the block's part of Σ g and Σ g·x̂ for each row of a norm, g = da·γ.
template <int ROWS_OF> __device__ __forceinline__ void send_row_sums(
    uint2 *to, const Own &o, const Place &p, int gain, const float da[G], const float x[G], int (*row_of_gate)(int)) {
#pragma unroll
    for (int row = 0; row < ROWS_OF; row++) {
        float sum = 0, dot = 0;
#pragma unroll
        for (int q = 0; q < G; q++)
            if (row_of_gate(q) == row) {
                const float g = __fmul_rn(da[q], o.constant(gain, q));
                sum = __fadd_rn(sum, g), dot = fmaf(g, x[q], dot);
            }
        sum = sum_lanes<UNITS>(sum), dot = sum_lanes<UNITS>(dot);
        if (p.mine && o.k.u == 0) send2(to + (p.at * ROWS_OF + row) * GS + o.k.rank, sum, dot);
    }
}

// Phase 2: the gates, and each block's part of the sums that their norms need.
__device__ __forceinline__ void phase_gates(const Backward &a, Own &o, int step, int share) {
    Block &k = o.k;
    const Place p = place(a, k, step, share);
    const bool valid = p.valid && k.real;
    float x[G], z[G], dha[G], dxa[G];
    read_again(x, z, a, k, p);
#if LSTM
    float dc = o.passed(share, DN);
    Cell cell;
    if (IN_REGISTERS) cell.before = o.passed(share, BEFORE), cell.chat = o.passed(share, CHAT);
    else cell = cell_of(o, p, step, read_kept(a, k, p, step));
#if CNORM
    float ma, mb, rstd = 0;
    if (valid) rstd = a.cell[p.at * 2 + 1];
    uint2 m[1][EACH];
    hold_off();
    take<1>(m, a.cells + p.at * GS, p.mine, k.u, k.patience);
    row_sums(m[0], p.mine, k.u, 1.0f / H, ma, mb);
    dc = __fmul_rn(rstd, fmaf(-cell.chat, mb, __fsub_rn(dc, ma)));
    if (!CARRIED) dc = __fadd_rn(dc, o.kept(share, CARRY));
#endif
    const float in = o.passed(share, GATE), f = o.passed(share, GATE + 1), g = o.passed(share, GATE + 2);
    dha[0] = __fmul_rn(__fmul_rn(dc, g), __fmul_rn(in, __fsub_rn(1.0f, in)));
    dha[1] = __fmul_rn(__fmul_rn(dc, cell.before), __fmul_rn(f, __fsub_rn(1.0f, f)));
    dha[2] = __fmul_rn(__fmul_rn(dc, in), fmaf(-g, g, 1.0f));
    dha[G - 1] = o.passed(share, GATE + 3);
    if (valid) o.kept(share, CARRY) = __fmul_rn(dc, f);
#pragma unroll
    for (int q = 0; q < G; q++) dha[q] = valid ? dha[q] : 0.0f, dxa[q] = dha[q], o.passed(share, GATE + q) = dha[q];
#else
#pragma unroll
    for (int q = 0; q < G; q++) dha[q] = o.passed(share, GATE + q), dxa[q] = o.passed(share, GATE + (q == 2 ? 3 : q));
#endif
    if (NORM) send_row_sums<NGRP>(a.gates, o, p, CONST_GH, dha, z, [](int q) { return group_of(q); });
    if (XNORM) send_row_sums<XGRP>(a.inputs, o, p, CONST_GX, dxa, x, [](int q) { return XGROUP(q); });
}

__device__ __forceinline__ void keep_sums(
    Own &o, int share, const float x[G], const float z[G], const float dxa[G], const float dha[G]) {
#pragma unroll
    for (int q = 0; q < G; q++) {
        if (XNORM) o.kept(share, SUM_GX + q) = fmaf(dxa[q], x[q], o.kept(share, SUM_GX + q));
        o.kept(share, SUM_CX + q) = __fadd_rn(o.kept(share, SUM_CX + q), dxa[q]);
        if (NORM) o.kept(share, SUM_GH + q) = fmaf(dha[q], z[q], o.kept(share, SUM_GH + q));
    }
    if (!LSTM) o.kept(share, SUM_CELL) = __fadd_rn(o.kept(share, SUM_CELL), dha[2]);
}
// dzx, through the norm of the input if there is one.
__device__ __forceinline__ void input_back(
    float dx[G], const Backward &a, Own &o, const Place &p, size_t row, const float x[G], const float dxa[G]) {
#pragma unroll
    for (int q = 0; q < G; q++) dx[q] = dxa[q];
#if XNORM
    const bool valid = p.valid && o.k.real;
    uint2 m[TOGETHER(XGRP)][EACH];
#pragma unroll
    for (int n = 0; n < XGRP; n++) {
        const int row_of_m = n % TOGETHER(XGRP);
        if (row_of_m == 0) take<TOGETHER(XGRP)>(m, a.inputs + (p.at * XGRP + n) * GS, p.mine, o.k.u, o.k.patience);
        float xa, xb;
        row_sums(m[row_of_m], p.mine, o.k.u, 1.0f / (XGATES(n) * H), xa, xb);
        const float rx = valid ? a.rx[row * XGRP + n] : 0.0f;
#pragma unroll
        for (int q = 0; q < G; q++)
            if (XGROUP(q) == n)
                dx[q] = valid ? __fmul_rn(rx, fmaf(-x[q], xb, __fsub_rn(__fmul_rn(dxa[q], o.constant(CONST_GX, q)), xa))) : 0.0f;
    }
#endif
}

// Phase 3: through the norms. Sends dzh; stores dzx and the sums.
__device__ __forceinline__ void phase_norms(const Backward &a, Own &o, int step, int share) {
    Block &k = o.k;
    const Place p = place(a, k, step, share);
    const bool valid = p.valid && k.real;
    const size_t row = row_of(a, p);
    float x[G], z[G], dha[G], dxa[G], dz[G], dx[G];
    read_again(x, z, a, k, p);
#pragma unroll
    for (int q = 0; q < G; q++)
        dha[q] = o.passed(share, GATE + q), dxa[q] = o.passed(share, GATE + (!LSTM && q == 2 ? 3 : q)), dz[q] = dha[q];
#if NORM
    float ma[NGRP], mb[NGRP], rstd[NGRP];
#pragma unroll
    for (int n = 0; n < NGRP; n++) rstd[n] = valid ? a.rh[p.at * NGRP + n] : 0.0f;
    uint2 m[TOGETHER(NGRP)][EACH];
    hold_off();
#pragma unroll
    for (int n = 0; n < NGRP; n++) {
        if (n % TOGETHER(NGRP) == 0) take<TOGETHER(NGRP)>(m, a.gates + (p.at * NGRP + n) * GS, p.mine, k.u, k.patience);
        row_sums(m[n % TOGETHER(NGRP)], p.mine, k.u, 1.0f / (gates_of(n) * H), ma[n], mb[n]);
    }
#pragma unroll
    for (int q = 0; q < G; q++) {
        const int n = group_of(q);
        const float g = __fmul_rn(dha[q], o.constant(CONST_GH, q));
        dz[q] = valid ? __fmul_rn(rstd[n], fmaf(-z[q], mb[n], __fsub_rn(g, ma[n]))) : 0.0f;
    }
#endif
#pragma unroll
    for (int q = 0; q < G; q++) send_elem(a.dzh + p.at * GW + q * HP + k.unit, narrow(dz[q]), k.u, p.mine);
    input_back(dx, a, o, p, row, x, SNORM ? dz : dxa);
    if (p.mine)
#pragma unroll
        for (int q = 0; q < G; q++) a.dzx[row * GW + q * HP + k.unit] = narrow(dx[q]);
    if (valid) keep_sums(o, share, x, z, dxa, dha);
    if (step > 0) prefetch_tape(a, k, step - 1, share);
}

// The product for dh over all chunks, sent to the owners of the units.
__device__ __forceinline__ void multiply_back(const Backward &a, Own &o, Matrix &m, int step, int first) {
    Block &k = o.k;
    Window window;
    for (int part = 0; part < chunks_of(k); part++) {
        const Vectors v = vectors_of(a, k, step, part);
        if (part == 0) ask(window, v, first, k.lane);
        product(k.parts, m, window, v, part, first, k.warp, k.lane, k.patience);
        __syncthreads();
        // Request the first vectors of the next chunk while the sums of this one are combined.
        if (part + 1 < chunks_of(k)) ask(window, vectors_of(a, k, step, part + 1), first, k.lane);
        send_sums(a, o, step, part);
    }
}

extern "C" __global__ void __launch_bounds__(256, 1) rnn_backward(Backward a) {
    extern __shared__ __align__(16) float shared[];
    u32 *matrix;
    Own o;
    o.k = enter(a, shared, SHARES * NKEPT, IN_REGISTERS ? 0 : SHARES * NPASSED, &matrix);
    Block &k = o.k;
    if (k.count <= 0) return;
    Matrix m;
    load_matrix(m, matrix, a.ut, k.rank, k.warp, k.lane);
    __syncthreads();
    const int first = (k.rank % SPLIT * WARPS + k.warp) * PAIRS;
    if (k.worker) first_sums(a, o);
    for (int step = a.steps - 1; step >= -1; step--) {
        if (k.patience.left) k.patience.left = a.patience;
        Read read;
        if (IN_REGISTERS) read = read_tape(a, o, step, 0);
        if (step + 1 < a.steps) multiply_back(a, o, m, step, first);
        if (k.worker) EACH_SHARE(k) phase_cell(a, o, step, share, IN_REGISTERS ? read : read_tape(a, o, step, share));
        if (step < 0) break;
        if (k.worker) EACH_SHARE(k) phase_gates(a, o, step, share);
        if (k.worker) EACH_SHARE(k) phase_norms(a, o, step, share);
        // Threads that are done must not poll for dzh yet: polling would slow down the others.
        __syncthreads();
    }
    if (k.worker) last_sums(a, o);
    report(k.patience, a.report);
}
