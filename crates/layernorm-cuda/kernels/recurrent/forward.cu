// Forward time loop of an LSTM or GRU: one launch for all steps.
//
//   zh = U h      ẑ = LNh(zh) or LNs(zx + zh)      a = (GX·zx + CX) + (GH·ẑ + CH)
//   LSTM  c = σ(a_f)·c + σ(a_i)·tanh(a_g)          h = σ(a_o)·tanh(LNc(c))
//   GRU   n = tanh(x_n + σ(a_r)·h_n)               h = z·h + (1 − z)·n, or with z and 1 − z exchanged
//
// A block owns all gates of UNITS units; a group of GS blocks owns all units of `cols` sequences. In a step, blocks
// wait for each other up to three times: for h, for the statistics of the gates, and for those of the cell (messages,
// common.cuh). Apart from the product, a thread owns one unit of one sequence in each share of a chunk. The lanes of a
// column are neighbors, so statistics need no shared memory. Rows in a block: row = unit·G + gate.
#include "common.cuh"
#include "cell.cuh"
#define MT ((UNITS * G + 15) / 16)
#define WORDS (HP / PER_WORD)
#include "product.cuh"
#include "block.cuh"

struct Forward {
    const u32 *u;         // U, packed
    float *zx;            // [rows, G·HP]: LNx(W x) without γ and β, or W x; in training overwritten by LNs of the sum
    float *zh;            // [T, B, G·HP] tape: ẑ, unless it is in zx
    float *rh;            // [T, B, NGRP] tape: 1/σ
    float *state;         // [T + 1, B, HP] tape: c before its norm, or h of a GRU
    float *cell;          // [T, B, 2] tape: mean and 1/σ of c
    elem *h;              // [T + 1, B, HP]: h as the product reads it; slot 0 is given, the rest initially EMPTY
    uint2 *gates;         // [T, B, NGRP, GS] messages
    uint2 *cells;         // [T, B, GS] messages
    const float *consts;  // GX, CX, GH, CH [G·HP] each, γ and β of the cell [HP]
    elem *y;
    long long y_time, y_batch;     // strides in elements, by step and by sequence
    const float *h0, *c0;          // [B, H] or null
    float *h_last, *c_last;        // [B, H]
    const int *lengths;            // [B] or null
    u32 *fail, *report;            // words that a pass sets when it gives up, for the device and for the host
    int steps, batch, first, end, cols;
    int row_time, row_batch;       // strides of zx in rows, by step and by sequence
    int reverse;
    u32 patience;
};

// A thread's values per share. Kept from step to step: the cell as it is carried, h, and o and c until the cell's norm.
// Passed from phase to phase: GX·zx + CX, and zh or zx + zh.
#define KEEP_C 0
#define KEEP_H 1
#define KEEP_O 2
#define KEEP_NEW 3
#define NKEPT 4
#define NPASSED (2 * G)

// Constants are in registers if the product leaves room.
#define FIXED (IN_REGISTERS && PR * MT * 8 + (MT + DEPTH) * NT * 4 + (TYPE == 0 ? 32 : 0) <= 160)

struct Own {
#if IN_REGISTERS
    float keep[NKEPT], temp[NPASSED];
#endif
#if FIXED
    float fixed[4 * G + 2];
#endif
    Block k;
    __device__ __forceinline__ float constant(int kind, int gate) const {
#if FIXED
        return fixed[kind * G + gate];
#else
        return k.consts[(kind * G + gate) * UNITS + k.u];
#endif
    }
    __device__ __forceinline__ float &kept(int share, int which) {
#if IN_REGISTERS
        return keep[which];
#else
        return k.keeps[(share * NKEPT + which) * 256 + k.tid];
#endif
    }
    __device__ __forceinline__ float &passed(int share, int which) {
#if IN_REGISTERS
        return temp[which];
#else
        return k.temps[(share * NPASSED + which) * 256 + k.tid];
#endif
    }
};

struct Inputs {
    float x[CHUNK_SHARES][G];
};

__device__ __forceinline__ void first_state(const Forward &a, Own &o) {
    EACH_SHARE(o.k) {
        const Place p = place(a, o.k, 0, share);
        const size_t at = size_t(p.b) * H + o.k.unit;
        o.kept(share, KEEP_C) = p.mine && o.k.real && a.c0 ? a.c0[at] : 0.0f;
        o.kept(share, KEEP_H) = p.mine && o.k.real && a.h0 ? a.h0[at] : 0.0f;
        if (TRAIN && p.mine) a.state[size_t(p.b) * HP + o.k.unit] = o.kept(share, LSTM ? KEEP_C : KEEP_H);
    }
}
__device__ __forceinline__ void last_state(const Forward &a, Own &o) {
    EACH_SHARE(o.k) {
        const Place p = place(a, o.k, 0, share);
        const size_t at = size_t(p.b) * H + o.k.unit;
        if (p.mine && o.k.real && a.h_last) a.h_last[at] = o.kept(share, KEEP_H);
        if (LSTM && p.mine && o.k.real && a.c_last) a.c_last[at] = o.kept(share, KEEP_C);
    }
}

__device__ __forceinline__ Vectors vectors_of(const Forward &a, const Block &k, int step, int part) {
    return {(const u32 *)(a.h + (size_t(step) * a.batch + k.b0 + part * CC) * HP), HP / PER_WORD, k.count - part * CC};
}
__device__ __forceinline__ void read_inputs(Inputs &in, const Forward &a, const Block &k, int step, int part) {
#pragma unroll
    for (int s = 0; s < CHUNK_SHARES; s++) {
        const Place p = place(a, k, step, part * CHUNK_SHARES + s);
        const float *row = a.zx + row_of(a, p) * GW + k.unit;
#pragma unroll
        for (int q = 0; q < G; q++) in.x[s][q] = p.mine ? __ldcg(row + q * HP) : 0.0f;
    }
}

// Sends (mean, Σ(x − mean)²) of the block's part of the rows of the gates' norm.
__device__ __forceinline__ void send_gates(const Forward &a, const Block &k, const Place &p, const float z[G]) {
#pragma unroll
    for (int group = 0; group < NGRP; group++) {
        float sum = 0, square = 0, mean, rest, pivot = 0;
#pragma unroll
        for (int q = G - 1; q >= 0; q--)
            if (group_of(q) == group) pivot = z[q];
        pivot = __shfl_sync(0xffffffffu, pivot, 0, UNITS);
#pragma unroll
        for (int q = 0; q < G; q++)
            if (group_of(q) == group && k.real) {
                const float d = __fsub_rn(z[q], pivot);
                sum = __fadd_rn(sum, d), square = fmaf(d, d, square);
            }
        block_statistics(sum, square, pivot, k.inv_units * (1.0f / gates_of(group)), mean, rest);
        if (p.mine && k.u == 0) send2(a.gates + (p.at * NGRP + group) * GS + k.rank, mean, rest);
    }
}

// Phase 1: the product, and each block's part of the gates' statistics.
__device__ __forceinline__ void phase_product(const Forward &a, Own &o, const Inputs &in, int step, int part) {
#pragma unroll
    for (int s = 0; s < CHUNK_SHARES; s++) {
        const int share = part * CHUNK_SHARES + s;
        const Place p = place(a, o.k, step, share);
        float z[G];
        fold_warps<G>(z, parts_of(o.k.parts, part) + (s * COLS + o.k.column) * ROWS_PAD + o.k.u * G);
#pragma unroll
        for (int q = 0; q < G; q++) {
            float x = in.x[s][q];
            if (SNORM) z[q] = __fadd_rn(z[q], x), x = o.constant(CONST_CX, q);
            else x = fmaf(o.constant(CONST_GX, q), x, o.constant(CONST_CX, q));
            o.passed(share, q) = x, o.passed(share, G + q) = z[q];
        }
        if (NORM) send_gates(a, o.k, p, z);
    }
}

__device__ __forceinline__ void send_h(const Forward &a, const Block &k, const Place &p, float h) {
    send_elem(a.h + (p.at + a.batch) * HP + k.unit, narrow(h), k.u, p.mine);
    if (p.valid && k.real) a.y[p.time * a.y_time + p.b * a.y_batch + k.unit] = narrow(h);
}

__device__ __forceinline__ void keep_tape(
    const Forward &a, const Block &k, const Place &p, const float zn[G], const float *rstd, float state) {
    if (!p.mine) return;
    float *to = (SNORM ? a.zx + row_of(a, p) * GW : a.zh + p.at * GW) + k.unit;
#pragma unroll
    for (int q = 0; q < G; q++) to[q * HP] = zn[q];
    a.state[(p.at + a.batch) * HP + k.unit] = state;
    if (NORM && k.rank == 0 && k.u == 0)
#pragma unroll
        for (int group = 0; group < NGRP; group++) a.rh[p.at * NGRP + group] = rstd[group];
}

// Computes the cell from the pre-activations; sends its part of the cell's statistics, or h. Returns the state for the
// tape.
__device__ __forceinline__ float cell_step(
    const Forward &a, Own &o, const Place &p, int share, const float x[G], const float ha[G]) {
    const Block &k = o.k;
#if LSTM
    const float in = sigmoid(__fadd_rn(x[0], ha[0])), f = sigmoid(__fadd_rn(x[1], ha[1]));
    const float g = tanh_of(__fadd_rn(x[2], ha[2])), out = sigmoid(__fadd_rn(x[G - 1], ha[G - 1]));
    const float before = o.kept(share, KEEP_C);
    const float c = k.real ? fmaf(f, before, __fmul_rn(in, g)) : 0.0f;
#if CNORM
    o.kept(share, KEEP_O) = out, o.kept(share, KEEP_NEW) = c;
    const float pivot = __shfl_sync(0xffffffffu, c, 0, UNITS), d = k.real ? __fsub_rn(c, pivot) : 0.0f;
    float mean, rest;
    block_statistics(d, __fmul_rn(d, d), pivot, k.inv_units, mean, rest);
    if (p.mine && k.u == 0) send2(a.cells + p.at * GS + k.rank, mean, rest);
#else
    const float h = k.real && p.valid ? __fmul_rn(out, tanh_of(c)) : o.kept(share, KEEP_H);
    if (p.valid) o.kept(share, KEEP_C) = c;
    o.kept(share, KEEP_H) = h;
    send_h(a, k, p, h);
#endif
    return p.valid ? c : before;
#else
    const float r = sigmoid(__fadd_rn(x[0], ha[0])), z = sigmoid(__fadd_rn(x[1], ha[1]));
    const float n = tanh_of(fmaf(r, ha[2], x[2]));
    const float before = o.kept(share, KEEP_H);
    const float mixed = KEEPS ? fmaf(z, __fsub_rn(before, n), n) : fmaf(z, __fsub_rn(n, before), before);
    const float h = k.real && p.valid ? mixed : before;
    o.kept(share, KEEP_H) = h;
    send_h(a, k, p, h);
    return h;
#endif
}

// Phase 2: the gates, and each block's part of the cell's statistics.
__device__ __forceinline__ void phase_gates(const Forward &a, Own &o, int step, int share) {
    const Place p = place(a, o.k, step, share);
    float ha[G], x[G], zn[G], mean[NGRP], rstd[NGRP];
#pragma unroll
    for (int q = 0; q < G; q++) zn[q] = o.passed(share, G + q), x[q] = o.passed(share, q);
#if NORM
    const uint2 *rows = a.gates + p.at * NGRP * GS;
    uint2 m[TOGETHER(NGRP)][EACH];
    hold_off();
#pragma unroll
    for (int group = 0; group < NGRP; group++) {
        const int row = group % TOGETHER(NGRP);
        if (row == 0) take<TOGETHER(NGRP)>(m, rows + group * GS, p.mine, o.k.u, o.k.patience);
        if (group == 0) row_statistics<gates_of(0)>(m[row], p.mine, o.k.u, EPS_R, DEV_R, mean[0], rstd[0]);
        else row_statistics<gates_of(NGRP - 1)>(m[row], p.mine, o.k.u, EPS_R, DEV_R, mean[group], rstd[group]);
    }
#pragma unroll
    for (int q = 0; q < G; q++) zn[q] = __fmul_rn(__fsub_rn(zn[q], mean[group_of(q)]), rstd[group_of(q)]);
#endif
#pragma unroll
    for (int q = 0; q < G; q++) ha[q] = fmaf(o.constant(CONST_GH, q), zn[q], o.constant(CONST_CH, q));
    const float state = cell_step(a, o, p, share, x, ha);
    if (TRAIN) keep_tape(a, o.k, p, zn, rstd, state);
    if (p.mine && step + 1 < a.steps && o.k.u % 8 == 0) {
        const Place next = place(a, o.k, step + 1, share);
#pragma unroll
        for (int q = 0; q < G; q++) prefetch(a.zx + row_of(a, next) * GW + o.k.unit + q * HP);
    }
}

#define CELL_PHASE (LSTM && CNORM)
#if CELL_PHASE
// Phase 3: the cell's norm, and h.
__device__ __forceinline__ void phase_cell(const Forward &a, Own &o, int step, int share) {
    const Place p = place(a, o.k, step, share);
    float mean, rstd;
    uint2 m[1][EACH];
    hold_off();
    take<1>(m, a.cells + p.at * GS, p.mine, o.k.u, o.k.patience);
    row_statistics<1>(m[0], p.mine, o.k.u, EPS_C, DEV_C, mean, rstd);
    const float out = o.kept(share, KEEP_O), c = o.kept(share, KEEP_NEW);
    const float n = fmaf(o.constant(4, 0), __fmul_rn(__fsub_rn(c, mean), rstd), o.constant(4, 1));
    const float h = !o.k.real ? 0.0f : p.valid ? __fmul_rn(out, tanh_of(n)) : o.kept(share, KEEP_H);
    send_h(a, o.k, p, h);
    if (p.valid && o.k.real) o.kept(share, KEEP_C) = CARRIED ? n : c, o.kept(share, KEEP_H) = h;
    if (TRAIN && p.mine && o.k.rank == 0 && o.k.u == 0) a.cell[p.at * 2] = mean, a.cell[p.at * 2 + 1] = rstd;
}
#else
__device__ __forceinline__ void phase_cell(const Forward &, Own &, int, int) {}
#endif

extern "C" __global__ void __launch_bounds__(256, 1) rnn_forward(Forward a) {
    extern __shared__ __align__(16) float shared[];
    u32 *matrix;
    Own o;
    o.k = enter(a, shared, IN_REGISTERS ? 0 : SHARES * NKEPT, IN_REGISTERS ? 0 : SHARES * NPASSED, &matrix);
    Block &k = o.k;
    if (k.count <= 0) return;
    Matrix m;
    load_matrix(m, matrix, a.u, k.rank, k.warp, k.lane);
    __syncthreads();
#if FIXED
#pragma unroll
    for (int q = 0; q < 4 * G + 2; q++) o.fixed[q] = k.consts[q * UNITS + k.u];
#endif
    const int first = k.warp * PAIRS;
    if (k.worker) first_state(a, o);
    for (int step = 0; step < a.steps; step++) {
        if (k.patience.left) k.patience.left = a.patience;
        Window window;
        for (int part = 0; part < chunks_of(k); part++) {
            Inputs in;
            read_inputs(in, a, k, step, part);
            const Vectors v = vectors_of(a, k, step, part);
            if (part == 0) ask(window, v, first, k.lane);
            product(k.parts, m, window, v, part, first, k.warp, k.lane, k.patience);
            __syncthreads();
            // Request the first vectors of the next chunk while the sums of this one are combined.
            if (part + 1 < chunks_of(k)) ask(window, vectors_of(a, k, step, part + 1), first, k.lane);
            if (k.worker) phase_product(a, o, in, step, part);
        }
        if (k.worker) EACH_SHARE(k) phase_gates(a, o, step, share);
        if (k.worker && CELL_PHASE) EACH_SHARE(k) phase_cell(a, o, step, share);
        // Threads that are done must not poll for h yet: polling would slow down the others.
        __syncthreads();
    }
    if (k.worker) last_state(a, o);
    report(k.patience, a.report);
}
