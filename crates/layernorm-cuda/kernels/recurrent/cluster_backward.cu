// Backward time loop of a small 16-bit LSTM or GRU in clusters (cluster.cuh). The step is that of backward.cu.
//
// The tape of a step is copied to shared memory while the following step is processed; each thread copies its own part.
#include "common.cuh"
#include "cell.cuh"
#include "cluster.cuh"

struct Backward {
    const u32 *ut;         // [block][warp][DW][2 tiles][G][2][lane][4 words]
    const float *zx, *zh;  // the tape, as described in forward.cu
    const float *rh, *rx;  // 1/σ: [T, B, NGRP], and [rows, XGRP] of the input's norm
    const float *state, *cell;
    elem *dzh;             // [T, B, G·HP]
    elem *dzx;             // [rows, G·HP]
    const float *consts;
    const elem *dy;
    long long y_time, y_batch;
    const float *dh_last, *dc_last;  // [B, H] or null
    float *dh0, *dc0;                // [B, H] or null
    float *sums;                     // [B, 4·G·HP + 2·HP]: gradients of all constants
    const int *lengths;
    int steps, batch;
    int row_time, row_batch;
    int reverse;
};

#define XGROUP(q) (XGRP == 1 ? 0 : XGRP == 2 ? ((q) == G - 1) : (q))
#define XGATES(k) (XGRP == 1 ? G : XGRP == 2 ? ((k) ? 1 : G - 1) : 1)
// Rows of sums: of the gates' norm, then of the input's norm.
#define GROUPS (NORM * NGRP + XNORM * XGRP)
#define ANY_GROUPS (GROUPS ? GROUPS : 1)

// A thread's part of the tape of a step.
#define TAPE_X 0
#define TAPE_Z G
#define TAPE_STATE (2 * G)
#define TAPE_CELL (2 * G + 1)    // mean and 1/σ of c
#define TAPE_BEFORE (2 * G + 3)  // the same of the previous step
#define TAPE_RH (2 * G + 5)
#define TAPE_RX (TAPE_RH + NGRP)
#define TAPES (TAPE_RX + XGRP)
// Sums for the gradients of gains and biases.
#define SUM_GX 0
#define SUM_CX G
#define SUM_GH (2 * G)
#define SUM_CELL (3 * G)  // for γ and β of the cell; in a GRU, the first is CH of the candidate
#define SUMS (3 * G + 2)

struct Shared {
    u64 bars[2 + 16 * NT];                   // dh, double-buffered; gates and cells of each sequence
    float dh[2][CS][8 * NT][32];             // partial sums of all blocks for this block's units
    u32 dz[2][G][NT][8][16];                 // dzh of this block
    float2 gates[2][8 * NT][ANY_GROUPS][ROW];  // messages
    float2 cells[8 * NT][ROW];
    float tape[2][NT][TAPES][256];
    float sums[NT][SUMS][256];
};
static_assert(sizeof(Shared) == SHARED, "the host counts otherwise");

#include "cluster_dh.cuh"

__device__ __forceinline__ void fetch(float *to, const float *from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_at(to)), "l"(from) : "memory");
}
// Waits for all copies issued by this thread.
__device__ __forceinline__ void await_fetches() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// What a thread has throughout the loop: the constants of its unit, and one sequence per tile.
struct Own {
    Constants fixed;
    int length[NT];
    bool mine[NT];
    float carry[NT], after[NT];
    elem dy[NT];
    __device__ __forceinline__ float constant(int kind, int gate) const { return fixed.of(kind, gate); }
};
constexpr u32 DH_BYTES = CS * NT * 1024, GATE_BYTES = CS * GROUPS * 8, CELL_BYTES = CS * 8;

// What the phases of a step pass on.
struct Step {
    bool valid[NT];
    float own_dy[NT], gate[NT][4], before[NT];
#if LSTM
    float t[NT], cn[NT], gc[NT], out[NT], dn[NT];
#else
    float candidate[NT];
#endif
    float da[NT][4];  // of the gates; in a GRU, the fourth is that of the candidate on the input's side
    float dz[NT][G];
};

__device__ __forceinline__ Thread enter(Shared &sh) {
    Thread me = thread_of_cluster();
    me.bars = shared_at(&sh.bars[0]), me.bar_gates = shared_at(&sh.bars[2]), me.bar_cells = shared_at(&sh.bars[2 + 8 * NT]);
    if (me.tid == 0) {
        for (int i = 0; i < 2 + 16 * NT; i++) barrier_init(me.bars + 8 * i);
        // Nothing arrives for the last step.
        barrier_arrive(me.bars), barrier_expect(me.bars + 8, DH_BYTES);
        for (int i = 0; i < 8 * NT; i++) barrier_expect(me.bar_gates + 8 * i, GATE_BYTES), barrier_expect(me.bar_cells + 8 * i, CELL_BYTES);
    }
    return me;
}

// Reads the constants and the gradients of the last state.
__device__ __forceinline__ void start(const Backward &a, Shared &sh, const Thread &me, Own &o) {
    o.fixed.load(a.consts, me.unit);
#pragma unroll
    for (int n = 0; n < NT; n++) {
        const int b = me.sequence(n);
        o.mine[n] = b < a.batch;
        o.length[n] = !o.mine[n] ? 0 : a.lengths ? a.lengths[b] : a.steps;
        o.carry[n] = LSTM && o.mine[n] && me.real && a.dc_last ? a.dc_last[size_t(b) * H + me.unit] : 0.0f;
        o.after[n] = LSTM && o.mine[n] ? a.state[(size_t(a.steps) * a.batch + b) * HP + me.unit] : 0.0f;
        o.dy[n] = 0;
#pragma unroll
        for (int k = 0; k < SUMS; k++) sh.sums[n][k][me.tid] = 0;
    }
}

// Copies the tape of a step asynchronously. Past the end of a sequence there is only its state.
__device__ __forceinline__ void fetch_step(const Backward &a, Shared &sh, const Thread &me, Own &o, int s) {
#pragma unroll
    for (int n = 0; n < NT; n++) {
        const int b = me.sequence(n);
        const size_t at = size_t(s) * a.batch + b;
        float *to = &sh.tape[s & 1][n][0][me.tid];
        if (o.mine[n]) fetch(to + TAPE_STATE * 256, a.state + at * HP + me.unit);
        if (s < o.length[n]) {
            const long long time = time_of(s, o.length[n], a.reverse);
            const size_t row = size_t(time * a.row_time + b * (long long)a.row_batch);
#pragma unroll
            for (int k = 0; k < G; k++) {
                fetch(to + (TAPE_X + k) * 256, a.zx + row * GW + k * HP + me.unit);
                if (!SNORM) fetch(to + (TAPE_Z + k) * 256, a.zh + at * GW + k * HP + me.unit);
            }
#pragma unroll
            for (int k = 0; k < 2; k++) {
                if (CNORM) fetch(to + (TAPE_CELL + k) * 256, a.cell + at * 2 + k);
                if (CARRIED && s > 0) fetch(to + (TAPE_BEFORE + k) * 256, a.cell + (at - a.batch) * 2 + k);
            }
#pragma unroll
            for (int k = 0; k < NGRP; k++)
                if (NORM) fetch(to + (TAPE_RH + k) * 256, a.rh + at * NGRP + k);
#pragma unroll
            for (int k = 0; k < XGRP; k++)
                if (XNORM) fetch(to + (TAPE_RX + k) * 256, a.rx + row * XGRP + k);
            if (me.real) o.dy[n] = a.dy[time * a.y_time + b * a.y_batch + me.unit];
        }
    }
}

// The gradient of the output of a step, with that of the last state at the end of a sequence.
__device__ __forceinline__ void read_dy(const Backward &a, const Thread &me, const Own &o, Step &e, int s) {
#pragma unroll
    for (int n = 0; n < NT; n++) {
        e.own_dy[n] = widen(o.dy[n]);
        if (s == o.length[n] - 1 && me.real && a.dh_last) e.own_dy[n] = __fadd_rn(e.own_dy[n], a.dh_last[size_t(me.sequence(n)) * H + me.unit]);
    }
}

// Recomputes the gates.
__device__ __forceinline__ void recompute(Shared &sh, const Thread &me, Own &o, Step &e, int s) {
#pragma unroll
    for (int n = 0; n < NT; n++) {
        const float *tape = &sh.tape[s & 1][n][0][me.tid];
        const bool valid = e.valid[n] = s < o.length[n] && me.real;
        float ha[G], xa[G], *gate = e.gate[n];
#pragma unroll
        for (int k = 0; k < G; k++) {
            const float x = valid ? tape[(TAPE_X + k) * 256] : 0.0f;
            const float z = SNORM ? x : valid ? tape[(TAPE_Z + k) * 256] : 0.0f;
            xa[k] = SNORM ? o.constant(CONST_CX, k) : fmaf(o.constant(CONST_GX, k), x, o.constant(CONST_CX, k));
            ha[k] = fmaf(o.constant(CONST_GH, k), z, o.constant(CONST_CH, k));
        }
        e.before[n] = o.mine[n] ? tape[TAPE_STATE * 256] : 0.0f;
#if LSTM
        gate[0] = sigmoid(__fadd_rn(xa[0], ha[0])), gate[1] = sigmoid(__fadd_rn(xa[1], ha[1]));
        gate[2] = tanh_of(__fadd_rn(xa[2], ha[2])), gate[3] = sigmoid(__fadd_rn(xa[G - 1], ha[G - 1]));
        const float c = o.after[n];
        o.after[n] = e.before[n];
#if CNORM
        e.cn[n] = valid ? __fmul_rn(__fsub_rn(c, tape[TAPE_CELL * 256]), tape[(TAPE_CELL + 1) * 256]) : 0.0f;
        e.t[n] = tanh_of(fmaf(o.constant(4, 0), e.cn[n], o.constant(4, 1)));
        if (CARRIED && s > 0 && valid)
            e.before[n] = fmaf(o.constant(4, 0), __fmul_rn(__fsub_rn(e.before[n], tape[TAPE_BEFORE * 256]), tape[(TAPE_BEFORE + 1) * 256]), o.constant(4, 1));
#else
        e.t[n] = tanh_of(c);
#endif
#else
        gate[0] = sigmoid(__fadd_rn(xa[0], ha[0])), gate[1] = sigmoid(__fadd_rn(xa[1], ha[1]));
        gate[2] = tanh_of(fmaf(gate[0], ha[2], xa[2])), e.candidate[n] = ha[2];
#endif
    }
}

// Phase 1: dh, and the gradients within the cell that follow from it.
__device__ __forceinline__ void phase_cell(Shared &sh, const Thread &me, Own &o, Step &e, int it) {
#pragma unroll
    for (int n = 0; n < NT; n++) {
        const int row = n * 8 + me.warp;
        const float *gate = e.gate[n];
        float dh = e.valid[n] ? e.own_dy[n] : 0.0f;
        if (it > 0) dh = __fadd_rn(dh, sum_blocks(&sh.dh[it & 1][0][row][me.lane]));
#if LSTM
        const float out = gate[3], t = e.t[n];
        float dn = __fmul_rn(__fmul_rn(dh, out), fmaf(-t, t, 1.0f));
        if (CARRIED || !CNORM) dn = __fadd_rn(dn, o.carry[n]);
        if (!e.valid[n]) dn = 0;
        e.out[n] = __fmul_rn(__fmul_rn(dh, t), __fmul_rn(out, __fsub_rn(1.0f, out)));
        e.dn[n] = e.gc[n] = dn;
#if CNORM
        e.gc[n] = __fmul_rn(dn, o.constant(4, 0));
        const float sum = sum_lanes<32>(e.gc[n]), dot = sum_lanes<32>(__fmul_rn(e.gc[n], e.cn[n]));
        if (me.lane < CS)
            post2(at_block(shared_at(&sh.cells[row][me.rank]), me.lane), at_block(me.bar_cells + 8 * row, me.lane), sum, dot);
#endif
#else
        dh = __fadd_rn(dh, o.carry[n]);
        const float r = gate[0], z = gate[1], fresh = gate[2], before = e.before[n];
        const float rest = __fsub_rn(1.0f, z), part = KEEPS ? rest : z, old = KEEPS ? z : rest;
        const float dn = __fmul_rn(__fmul_rn(dh, part), fmaf(-fresh, fresh, 1.0f));
        e.da[n][0] = __fmul_rn(__fmul_rn(dn, e.candidate[n]), __fmul_rn(r, __fsub_rn(1.0f, r)));
        e.da[n][1] = __fmul_rn(__fmul_rn(__fmul_rn(dh, z), rest), KEEPS ? __fsub_rn(before, fresh) : __fsub_rn(fresh, before));
        e.da[n][2] = __fmul_rn(dn, r), e.da[n][3] = dn;
        if (e.valid[n]) o.carry[n] = __fmul_rn(dh, old);
#endif
    }
}

#if LSTM
// The gradients of an LSTM's gates, from that of its cell.
__device__ __forceinline__ void lstm_gates(Shared &sh, const Thread &me, Own &o, Step &e, int it, int n, const float *tape) {
    float dc = e.gc[n];
#if CNORM
    const int row = n * 8 + me.warp;
    const u32 bar = me.bar_cells + 8 * row;
    barrier_wait(bar, it & 1);
    if (me.lane == 0) barrier_expect(bar, CELL_BYTES);
    const float2 sums = cluster_sums(sh.cells[row], me.lane, 1.0f / H);
    dc = e.valid[n] ? __fmul_rn(tape[(TAPE_CELL + 1) * 256], fmaf(-e.cn[n], sums.y, __fsub_rn(dc, sums.x))) : 0.0f;
    if (!CARRIED) dc = __fadd_rn(dc, o.carry[n]);
#endif
    const float i = e.gate[n][0], f = e.gate[n][1], g = e.gate[n][2];
    e.da[n][0] = __fmul_rn(__fmul_rn(dc, g), __fmul_rn(i, __fsub_rn(1.0f, i)));
    e.da[n][1] = __fmul_rn(__fmul_rn(dc, e.before[n]), __fmul_rn(f, __fsub_rn(1.0f, f)));
    e.da[n][2] = __fmul_rn(__fmul_rn(dc, i), fmaf(-g, g, 1.0f));
    e.da[n][3] = e.out[n];
    if (e.valid[n]) o.carry[n] = __fmul_rn(dc, f);
}
#endif

// Phase 2: the gates, and this block's part of the sums that their norms need.
__device__ __forceinline__ void phase_gates(Shared &sh, const Thread &me, Own &o, Step &e, int s, int it) {
#pragma unroll
    for (int n = 0; n < NT; n++) {
        const int row = n * 8 + me.warp;
        const float *tape = &sh.tape[s & 1][n][0][me.tid];
        float *da = e.da[n];
#if LSTM
        lstm_gates(sh, me, o, e, it, n, tape);
#endif
#pragma unroll
        for (int k = 0; k < 4; k++) da[k] = e.valid[n] ? da[k] : 0.0f;
#pragma unroll
        for (int k = 0; k < GROUPS; k++) {
            const bool inputs = k >= NORM * NGRP;
            float sum = 0, dot = 0;
#pragma unroll
            for (int j = 0; j < G; j++)
                if (inputs ? XGROUP(j) == k - NORM * NGRP : group_of(j) == k) {
                    const float gj = __fmul_rn(da[!LSTM && inputs && j == 2 ? 3 : j], o.constant(inputs ? CONST_GX : CONST_GH, j));
                    const float hat = e.valid[n] ? tape[(inputs || SNORM ? TAPE_X + j : TAPE_Z + j) * 256] : 0.0f;
                    sum = __fadd_rn(sum, gj), dot = fmaf(gj, hat, dot);
                }
            sum = sum_lanes<32>(sum), dot = sum_lanes<32>(dot);
            if (me.lane < CS)
                post2(at_block(shared_at(&sh.gates[it & 1][row][k][me.rank]), me.lane), at_block(me.bar_gates + 8 * row, me.lane), sum, dot);
        }
    }
}

// Phase 3: dzh, through the norm.
__device__ __forceinline__ void phase_norm(Shared &sh, const Thread &me, Own &o, Step &e, int s, int it) {
#pragma unroll
    for (int n = 0; n < NT; n++) {
        const int row = n * 8 + me.warp;
        const float *tape = &sh.tape[s & 1][n][0][me.tid];
#if GROUPS
        const u32 bar = me.bar_gates + 8 * row;
        barrier_wait(bar, it & 1);
        if (me.lane == 0) barrier_expect(bar, GATE_BYTES);
#endif
#pragma unroll
        for (int k = 0; k < G; k++) e.dz[n][k] = e.da[n][k];
#if NORM
        float2 sums[NGRP];
#pragma unroll
        for (int k = 0; k < NGRP; k++) sums[k] = cluster_sums(sh.gates[it & 1][row][k], me.lane, 1.0f / (gates_of(k) * H));
#pragma unroll
        for (int k = 0; k < G; k++) {
            const int group = group_of(k);
            const float gk = __fmul_rn(e.da[n][k], o.constant(CONST_GH, k)), hat = tape[(SNORM ? TAPE_X + k : TAPE_Z + k) * 256];
            e.dz[n][k] = e.valid[n] ? __fmul_rn(tape[(TAPE_RH + group) * 256], fmaf(-hat, sums[group].y, __fsub_rn(gk, sums[group].x))) : 0.0f;
        }
#endif
#pragma unroll
        for (int k = 0; k < G; k++) ((elem *)sh.dz[it & 1][k][n][me.warp])[me.lane] = narrow(e.dz[n][k]);
    }
}

// Adds a step to the sums for gains and biases.
__device__ __forceinline__ void add_sums(
    float sums[SUMS], const Step &e, int n, const float x[G], const float z[G], const float dxa[G]) {
#pragma unroll
    for (int k = 0; k < G; k++) {
        if (XNORM) sums[SUM_GX + k] = fmaf(dxa[k], x[k], sums[SUM_GX + k]);
        sums[SUM_CX + k] = __fadd_rn(sums[SUM_CX + k], dxa[k]);
        if (NORM) sums[SUM_GH + k] = fmaf(e.da[n][k], z[k], sums[SUM_GH + k]);
    }
#if LSTM && CNORM
    sums[SUM_CELL] = fmaf(e.dn[n], e.cn[n], sums[SUM_CELL]), sums[SUM_CELL + 1] = __fadd_rn(sums[SUM_CELL + 1], e.dn[n]);
#elif !LSTM
    sums[SUM_CELL] = __fadd_rn(sums[SUM_CELL], e.da[n][2]);
#endif
}

// dzh and dzx for the products after the loop, and the sums.
__device__ __forceinline__ void record(const Backward &a, Shared &sh, const Thread &me, const Own &o, const Step &e, int s, int it) {
#pragma unroll
    for (int n = 0; n < NT; n++) {
        const int b = me.sequence(n);
        const float *tape = &sh.tape[s & 1][n][0][me.tid];
        float dxa[G], dx[G], x[G], z[G], sums[SUMS];
        // All reads before all writes; otherwise each read would wait for the previous write.
#pragma unroll
        for (int k = 0; k < SUMS; k++) sums[k] = sh.sums[n][k][me.tid];
#pragma unroll
        for (int k = 0; k < G; k++) x[k] = tape[(TAPE_X + k) * 256], z[k] = SNORM ? x[k] : tape[(TAPE_Z + k) * 256];
#pragma unroll
        for (int k = 0; k < G; k++) dxa[k] = e.da[n][!LSTM && k == 2 ? 3 : k], dx[k] = SNORM ? e.dz[n][k] : dxa[k];
#if XNORM
#pragma unroll
        for (int k = 0; k < XGRP; k++) {
            const float2 means = cluster_sums(sh.gates[it & 1][n * 8 + me.warp][NORM * NGRP + k], me.lane, 1.0f / (XGATES(k) * H));
#pragma unroll
            for (int j = 0; j < G; j++)
                if (XGROUP(j) == k) {
                    const float gj = __fmul_rn(dxa[j], o.constant(CONST_GX, j));
                    dx[j] = e.valid[n] ? __fmul_rn(tape[(TAPE_RX + k) * 256], fmaf(-x[j], means.y, __fsub_rn(gj, means.x))) : 0.0f;
                }
        }
#endif
        if (o.mine[n]) {
            const long long time = time_of(s, o.length[n], a.reverse);
            elem *row = a.dzx + size_t(time * a.row_time + b * (long long)a.row_batch) * GW + me.unit;
            elem *step = a.dzh + (size_t(s) * a.batch + b) * GW + me.unit;
#pragma unroll
            for (int k = 0; k < G; k++) row[k * HP] = narrow(dx[k]), step[k * HP] = narrow(e.dz[n][k]);
        }
        if (e.valid[n]) add_sums(sums, e, n, x, z, dxa);
#pragma unroll
        for (int k = 0; k < SUMS; k++) sh.sums[n][k][me.tid] = sums[k];
    }
}

// The gradients of the state before the first step, and the sums.
__device__ __forceinline__ void finish(const Backward &a, Shared &sh, const Thread &me, const Own &o) {
    barrier_wait(me.bars + 8 * (a.steps & 1), a.steps >> 1 & 1);
#pragma unroll
    for (int n = 0; n < NT; n++)
        if (o.mine[n]) {
            const int b = me.sequence(n);
            float dh = sum_blocks(&sh.dh[a.steps & 1][0][n * 8 + me.warp][me.lane]);
            if (!LSTM) dh = __fadd_rn(dh, o.carry[n]);
            if (me.real && a.dh0) a.dh0[size_t(b) * H + me.unit] = dh;
            if (LSTM && me.real && a.dc0) a.dc0[size_t(b) * H + me.unit] = o.carry[n];
            float *to = a.sums + size_t(b) * (4 * GW + 2 * HP) + me.unit;
            const float *sums = &sh.sums[n][0][me.tid];
#pragma unroll
            for (int k = 0; k < G; k++) {
                to[CONST_GX * GW + k * HP] = sums[(SUM_GX + k) * 256];
                to[CONST_CX * GW + k * HP] = sums[(SUM_CX + k) * 256];
                to[CONST_GH * GW + k * HP] = sums[(SUM_GH + k) * 256];
                to[CONST_CH * GW + k * HP] = sums[(!LSTM && k == 2 ? SUM_CELL : SUM_CX + k) * 256];
            }
            to[CONST_CELL] = LSTM ? sums[SUM_CELL * 256] : 0.0f;
            to[CONST_CELL + HP] = LSTM ? sums[(SUM_CELL + 1) * 256] : 0.0f;
        }
}

extern "C" __global__ void __launch_bounds__(256, 1) rnn_cluster_backward(Backward a) {
    extern __shared__ __align__(16) unsigned char memory[];
    Shared &sh = *(Shared *)memory;
    const Thread me = enter(sh);
    Matrix m;
    load_matrix(m, a.ut, me.rank, me.warp, me.lane);
    Own o;
    start(a, sh, me, o);
    fetch_step(a, sh, me, o, a.steps - 1);
    cluster_barrier();
    for (int s = a.steps - 1, it = 0; s >= 0; s--, it++) {
        const int turn = it & 1;
        Step e;
        // Recompute the gates while dh is in flight.
        await_fetches();
        read_dy(a, me, o, e, s);
        if (s > 0) fetch_step(a, sh, me, o, s - 1);
        recompute(sh, me, o, e, s);
        barrier_wait(me.bars + 8 * turn, it >> 1 & 1);
        if (me.tid == 0) barrier_expect(me.bars + 8 * turn, DH_BYTES);
        phase_cell(sh, me, o, e, it);
        phase_gates(sh, me, o, e, s, it);
        phase_norm(sh, me, o, e, s, it);
        __syncthreads();
        send_products(m, sh, turn, turn ^ 1, me.rank, me.warp, me.lane);
        // Not on the critical path.
        record(a, sh, me, o, e, s, it);
    }
    finish(a, sh, me, o);
    // No block may exit while another could still write to it.
    cluster_barrier();
}
