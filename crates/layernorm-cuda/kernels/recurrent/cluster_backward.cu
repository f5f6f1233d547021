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

extern "C" __global__ void __launch_bounds__(256, 1) rnn_cluster_backward(Backward a) {
    extern __shared__ __align__(16) unsigned char memory[];
    Shared &sh = *(Shared *)memory;
    const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31;
    const int rank = block_of_cluster(), b0 = blockIdx.x / CS * (8 * NT), unit = rank * 32 + lane;
    const bool real = H == HP || unit < H;
    const u32 bar_dh = shared_at(&sh.bars[0]), bar_gates = shared_at(&sh.bars[2]), bar_cells = shared_at(&sh.bars[2 + 8 * NT]);
    constexpr u32 DH_BYTES = CS * NT * 1024, GATE_BYTES = CS * GROUPS * 8, CELL_BYTES = CS * 8;

    if (tid == 0) {
        for (int i = 0; i < 2 + 16 * NT; i++) barrier_init(bar_dh + 8 * i);
        // Nothing arrives for the last step.
        barrier_arrive(bar_dh), barrier_expect(bar_dh + 8, DH_BYTES);
        for (int i = 0; i < 8 * NT; i++) barrier_expect(bar_gates + 8 * i, GATE_BYTES), barrier_expect(bar_cells + 8 * i, CELL_BYTES);
    }
    Matrix m;
    load_matrix(m, a.ut, rank, warp, lane);
    float fixed[4 * G + 2];
#pragma unroll
    for (int k = 0; k < 4 * G + 2; k++) fixed[k] = a.consts[k < 4 * G ? k / G * GW + k % G * HP + unit : CONST_CELL + (k - 4 * G) * HP + unit];
    auto constant = [&](int kind, int gate) { return fixed[kind * G + gate]; };

    int length[NT];
    bool mine[NT];
    float carry[NT], after[NT];
    elem dy[NT];
    // Copies the tape of a step asynchronously. Past the end of a sequence there is only its state.
    auto fetch_step = [&](int s) {
#pragma unroll
        for (int n = 0; n < NT; n++) {
            const int b = b0 + n * 8 + warp;
            const size_t at = size_t(s) * a.batch + b;
            float *to = &sh.tape[s & 1][n][0][tid];
            if (mine[n]) fetch(to + TAPE_STATE * 256, a.state + at * HP + unit);
            if (s < length[n]) {
                const long long time = time_of(s, length[n], a.reverse);
                const size_t row = size_t(time * a.row_time + b * (long long)a.row_batch);
#pragma unroll
                for (int k = 0; k < G; k++) {
                    fetch(to + (TAPE_X + k) * 256, a.zx + row * GW + k * HP + unit);
                    if (!SNORM) fetch(to + (TAPE_Z + k) * 256, a.zh + at * GW + k * HP + unit);
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
                if (real) dy[n] = a.dy[time * a.y_time + b * a.y_batch + unit];
            }
        }
    };
#pragma unroll
    for (int n = 0; n < NT; n++) {
        const int b = b0 + n * 8 + warp;
        mine[n] = b < a.batch;
        length[n] = !mine[n] ? 0 : a.lengths ? a.lengths[b] : a.steps;
        carry[n] = LSTM && mine[n] && real && a.dc_last ? a.dc_last[size_t(b) * H + unit] : 0.0f;
        after[n] = LSTM && mine[n] ? a.state[(size_t(a.steps) * a.batch + b) * HP + unit] : 0.0f;
        dy[n] = 0;
#pragma unroll
        for (int k = 0; k < SUMS; k++) sh.sums[n][k][tid] = 0;
    }
    fetch_step(a.steps - 1);
    cluster_barrier();

    for (int s = a.steps - 1, it = 0; s >= 0; s--, it++) {
        const int turn = it & 1;
        float own_dy[NT], gate[NT][4], before[NT];
        bool valid[NT];
#if LSTM
        float t[NT], cn[NT], gc[NT], out[NT], dn[NT];
#else
        float candidate[NT];
#endif
        // Recompute the gates while dh is in flight.
        await_fetches();
#pragma unroll
        for (int n = 0; n < NT; n++) {
            own_dy[n] = widen(dy[n]);
            if (s == length[n] - 1 && real && a.dh_last) own_dy[n] = __fadd_rn(own_dy[n], a.dh_last[size_t(b0 + n * 8 + warp) * H + unit]);
        }
        if (s > 0) fetch_step(s - 1);
#pragma unroll
        for (int n = 0; n < NT; n++) {
            const float *tape = &sh.tape[s & 1][n][0][tid];
            valid[n] = s < length[n] && real;
            float ha[G], xa[G];
#pragma unroll
            for (int k = 0; k < G; k++) {
                const float x = valid[n] ? tape[(TAPE_X + k) * 256] : 0.0f;
                const float z = SNORM ? x : valid[n] ? tape[(TAPE_Z + k) * 256] : 0.0f;
                xa[k] = SNORM ? constant(CONST_CX, k) : fmaf(constant(CONST_GX, k), x, constant(CONST_CX, k));
                ha[k] = fmaf(constant(CONST_GH, k), z, constant(CONST_CH, k));
            }
            before[n] = mine[n] ? tape[TAPE_STATE * 256] : 0.0f;
#if LSTM
            gate[n][0] = sigmoid(__fadd_rn(xa[0], ha[0])), gate[n][1] = sigmoid(__fadd_rn(xa[1], ha[1]));
            gate[n][2] = tanh_of(__fadd_rn(xa[2], ha[2])), gate[n][3] = sigmoid(__fadd_rn(xa[G - 1], ha[G - 1]));
            const float c = after[n];
            after[n] = before[n];
#if CNORM
            cn[n] = valid[n] ? __fmul_rn(__fsub_rn(c, tape[TAPE_CELL * 256]), tape[(TAPE_CELL + 1) * 256]) : 0.0f;
            t[n] = tanh_of(fmaf(constant(4, 0), cn[n], constant(4, 1)));
            if (CARRIED && s > 0 && valid[n])
                before[n] = fmaf(constant(4, 0), __fmul_rn(__fsub_rn(before[n], tape[TAPE_BEFORE * 256]), tape[(TAPE_BEFORE + 1) * 256]), constant(4, 1));
#else
            t[n] = tanh_of(c);
#endif
#else
            gate[n][0] = sigmoid(__fadd_rn(xa[0], ha[0])), gate[n][1] = sigmoid(__fadd_rn(xa[1], ha[1]));
            gate[n][2] = tanh_of(fmaf(gate[n][0], ha[2], xa[2])), candidate[n] = ha[2];
#endif
        }
        // Phase 1: dh, and the gradients within the cell that follow from it.
        barrier_wait(bar_dh + 8 * turn, it >> 1 & 1);
        if (tid == 0) barrier_expect(bar_dh + 8 * turn, DH_BYTES);
        float da[NT][4];  // of the gates; in a GRU, the fourth is that of the candidate on the input's side
#pragma unroll
        for (int n = 0; n < NT; n++) {
            float dh = valid[n] ? own_dy[n] : 0.0f;
            if (it > 0) dh = __fadd_rn(dh, sum_blocks(&sh.dh[turn][0][n * 8 + warp][lane]));
#if LSTM
            const float o = gate[n][3];
            dn[n] = __fmul_rn(__fmul_rn(dh, o), fmaf(-t[n], t[n], 1.0f));
            if (CARRIED || !CNORM) dn[n] = __fadd_rn(dn[n], carry[n]);
            if (!valid[n]) dn[n] = 0;
            out[n] = __fmul_rn(__fmul_rn(dh, t[n]), __fmul_rn(o, __fsub_rn(1.0f, o)));
            gc[n] = dn[n];
#if CNORM
            gc[n] = __fmul_rn(dn[n], constant(4, 0));
            const float sum = sum_lanes<32>(gc[n]), dot = sum_lanes<32>(__fmul_rn(gc[n], cn[n]));
            if (lane < CS)
                post2(at_block(shared_at(&sh.cells[n * 8 + warp][rank]), lane), at_block(bar_cells + 8 * (n * 8 + warp), lane), sum, dot);
#endif
#else
            dh = __fadd_rn(dh, carry[n]);
            const float r = gate[n][0], zg = gate[n][1], fresh = gate[n][2];
            const float rest = __fsub_rn(1.0f, zg), part = KEEPS ? rest : zg, old = KEEPS ? zg : rest;
            const float dn = __fmul_rn(__fmul_rn(dh, part), fmaf(-fresh, fresh, 1.0f));
            da[n][0] = __fmul_rn(__fmul_rn(dn, candidate[n]), __fmul_rn(r, __fsub_rn(1.0f, r)));
            da[n][1] = __fmul_rn(__fmul_rn(__fmul_rn(dh, zg), rest), KEEPS ? __fsub_rn(before[n], fresh) : __fsub_rn(fresh, before[n]));
            da[n][2] = __fmul_rn(dn, r), da[n][3] = dn;
            if (valid[n]) carry[n] = __fmul_rn(dh, old);
#endif
        }
        // Phase 2: the gates, and this block's part of the sums that their norms need.
#pragma unroll
        for (int n = 0; n < NT; n++) {
            const float *tape = &sh.tape[s & 1][n][0][tid];
#if LSTM
            float dc = gc[n];
#if CNORM
            const u32 bar = bar_cells + 8 * (n * 8 + warp);
            barrier_wait(bar, it & 1);
            if (lane == 0) barrier_expect(bar, CELL_BYTES);
            const float2 sums = cluster_sums(sh.cells[n * 8 + warp], lane, 1.0f / H);
            dc = valid[n] ? __fmul_rn(tape[(TAPE_CELL + 1) * 256], fmaf(-cn[n], sums.y, __fsub_rn(dc, sums.x))) : 0.0f;
            if (!CARRIED) dc = __fadd_rn(dc, carry[n]);
#endif
            const float i = gate[n][0], f = gate[n][1], g = gate[n][2];
            da[n][0] = __fmul_rn(__fmul_rn(dc, g), __fmul_rn(i, __fsub_rn(1.0f, i)));
            da[n][1] = __fmul_rn(__fmul_rn(dc, before[n]), __fmul_rn(f, __fsub_rn(1.0f, f)));
            da[n][2] = __fmul_rn(__fmul_rn(dc, i), fmaf(-g, g, 1.0f));
            da[n][3] = out[n];
            if (valid[n]) carry[n] = __fmul_rn(dc, f);
#endif
#pragma unroll
            for (int k = 0; k < 4; k++) da[n][k] = valid[n] ? da[n][k] : 0.0f;
#pragma unroll
            for (int k = 0; k < GROUPS; k++) {
                const bool inputs = k >= NORM * NGRP;
                float sum = 0, dot = 0;
#pragma unroll
                for (int j = 0; j < G; j++)
                    if (inputs ? XGROUP(j) == k - NORM * NGRP : group_of(j) == k) {
                        const float gj = __fmul_rn(da[n][!LSTM && inputs && j == 2 ? 3 : j], constant(inputs ? CONST_GX : CONST_GH, j));
                        const float hat = valid[n] ? tape[(inputs || SNORM ? TAPE_X + j : TAPE_Z + j) * 256] : 0.0f;
                        sum = __fadd_rn(sum, gj), dot = fmaf(gj, hat, dot);
                    }
                sum = sum_lanes<32>(sum), dot = sum_lanes<32>(dot);
                if (lane < CS)
                    post2(at_block(shared_at(&sh.gates[turn][n * 8 + warp][k][rank]), lane), at_block(bar_gates + 8 * (n * 8 + warp), lane), sum, dot);
            }
        }
        // Phase 3: through the norm. Computes dzh and sends its products.
        float dz[NT][G];
#pragma unroll
        for (int n = 0; n < NT; n++) {
            const float *tape = &sh.tape[s & 1][n][0][tid];
#if GROUPS
            const u32 bar = bar_gates + 8 * (n * 8 + warp);
            barrier_wait(bar, it & 1);
            if (lane == 0) barrier_expect(bar, GATE_BYTES);
#endif
#pragma unroll
            for (int k = 0; k < G; k++) dz[n][k] = da[n][k];
#if NORM
            float2 sums[NGRP];
#pragma unroll
            for (int k = 0; k < NGRP; k++) sums[k] = cluster_sums(sh.gates[turn][n * 8 + warp][k], lane, 1.0f / (gates_of(k) * H));
#pragma unroll
            for (int k = 0; k < G; k++) {
                const int group = group_of(k);
                const float gk = __fmul_rn(da[n][k], constant(CONST_GH, k)), hat = tape[(SNORM ? TAPE_X + k : TAPE_Z + k) * 256];
                dz[n][k] = valid[n] ? __fmul_rn(tape[(TAPE_RH + group) * 256], fmaf(-hat, sums[group].y, __fsub_rn(gk, sums[group].x))) : 0.0f;
            }
#endif
#pragma unroll
            for (int k = 0; k < G; k++) ((elem *)sh.dz[turn][k][n][warp])[lane] = narrow(dz[n][k]);
        }
        __syncthreads();
        send_products(m, sh, turn, turn ^ 1, rank, warp, lane);
        // Not on the critical path: dzh and dzx for the products after the loop, and the sums.
#pragma unroll
        for (int n = 0; n < NT; n++) {
            const int b = b0 + n * 8 + warp;
            const float *tape = &sh.tape[s & 1][n][0][tid];
            float dxa[G], dx[G], x[G], z[G], sums[SUMS];
            // All reads before all writes; otherwise each read would wait for the previous write.
#pragma unroll
            for (int k = 0; k < SUMS; k++) sums[k] = sh.sums[n][k][tid];
#pragma unroll
            for (int k = 0; k < G; k++) x[k] = tape[(TAPE_X + k) * 256], z[k] = SNORM ? x[k] : tape[(TAPE_Z + k) * 256];
#pragma unroll
            for (int k = 0; k < G; k++) dxa[k] = da[n][!LSTM && k == 2 ? 3 : k], dx[k] = SNORM ? dz[n][k] : dxa[k];
#if XNORM
#pragma unroll
            for (int k = 0; k < XGRP; k++) {
                const float2 means = cluster_sums(sh.gates[turn][n * 8 + warp][NORM * NGRP + k], lane, 1.0f / (XGATES(k) * H));
#pragma unroll
                for (int j = 0; j < G; j++)
                    if (XGROUP(j) == k) {
                        const float gj = __fmul_rn(dxa[j], constant(CONST_GX, j));
                        dx[j] = valid[n] ? __fmul_rn(tape[(TAPE_RX + k) * 256], fmaf(-x[j], means.y, __fsub_rn(gj, means.x))) : 0.0f;
                    }
            }
#endif
            if (mine[n]) {
                const long long time = time_of(s, length[n], a.reverse);
                elem *row = a.dzx + size_t(time * a.row_time + b * (long long)a.row_batch) * GW + unit;
                elem *step = a.dzh + (size_t(s) * a.batch + b) * GW + unit;
#pragma unroll
                for (int k = 0; k < G; k++) row[k * HP] = narrow(dx[k]), step[k * HP] = narrow(dz[n][k]);
            }
            if (valid[n]) {
#pragma unroll
                for (int k = 0; k < G; k++) {
                    if (XNORM) sums[SUM_GX + k] = fmaf(dxa[k], x[k], sums[SUM_GX + k]);
                    sums[SUM_CX + k] = __fadd_rn(sums[SUM_CX + k], dxa[k]);
                    if (NORM) sums[SUM_GH + k] = fmaf(da[n][k], z[k], sums[SUM_GH + k]);
                }
#if LSTM && CNORM
                sums[SUM_CELL] = fmaf(dn[n], cn[n], sums[SUM_CELL]), sums[SUM_CELL + 1] = __fadd_rn(sums[SUM_CELL + 1], dn[n]);
#elif !LSTM
                sums[SUM_CELL] = __fadd_rn(sums[SUM_CELL], da[n][2]);
#endif
            }
#pragma unroll
            for (int k = 0; k < SUMS; k++) sh.sums[n][k][tid] = sums[k];
        }
    }
    // The gradients of the state before the first step, and the sums.
    barrier_wait(bar_dh + 8 * (a.steps & 1), a.steps >> 1 & 1);
#pragma unroll
    for (int n = 0; n < NT; n++)
        if (mine[n]) {
            const int b = b0 + n * 8 + warp;
            float dh = sum_blocks(&sh.dh[a.steps & 1][0][n * 8 + warp][lane]);
            if (!LSTM) dh = __fadd_rn(dh, carry[n]);
            if (real && a.dh0) a.dh0[size_t(b) * H + unit] = dh;
            if (LSTM && real && a.dc0) a.dc0[size_t(b) * H + unit] = carry[n];
            float *to = a.sums + size_t(b) * (4 * GW + 2 * HP) + unit;
            const float *sums = &sh.sums[n][0][tid];
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
    // No block may exit while another could still write to it.
    cluster_barrier();
}
