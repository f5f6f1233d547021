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

// What a thread has throughout the loop: the constants of its unit, and one sequence per tile. Past its end, a sequence
// reads and writes nothing but its state on the tape.
struct Own {
    Constants fixed;
    int length[NT];
    bool mine[NT];
    float x[NT][G], carried[NT], before[NT];
    __device__ __forceinline__ float constant(int kind, int gate) const { return fixed.of(kind, gate); }
};
constexpr u32 NEAR_BYTES = NEAR * NT * 512, FAR_BYTES = (CS - NEAR) * NT * 512;
constexpr u32 GATE_BYTES = CS * NGRP * 8, CELL_BYTES = CS * 8;

// Where the sequences' inputs and outputs of a step are, and how far apart those of two steps are.
struct Cursor {
    long long row_step, y_step;
    float *row[NT];
    elem *y[NT];
};

// What the phases of a step pass on.
struct Step {
    float z[NT][4], xa[NT][G], rstd[NT][NGRP];
    float o[NT], c[NT], h[NT];
    float cell_mean[NT], cell_rstd[NT], next[NT];
};

__device__ __forceinline__ Thread enter(const Forward &a, Shared &sh) {
    Thread me = thread_of_cluster();
    me.bars = shared_at(&sh.bars[0]), me.bar_gates = shared_at(&sh.bars[4]), me.bar_cells = shared_at(&sh.bars[4 + 8 * NT]);
    if (me.tid == 0) {
        for (int i = 0; i < 4 + 16 * NT; i++) barrier_init(me.bars + 8 * i);
        // h of step 0 is already there.
        barrier_arrive(me.bars), barrier_arrive(me.bars + 8);
        barrier_expect(me.bars + 16, NEAR_BYTES), barrier_expect(me.bars + 24, FAR_BYTES);
        for (int i = 0; i < 8 * NT; i++) barrier_expect(me.bar_gates + 8 * i, GATE_BYTES), barrier_expect(me.bar_cells + 8 * i, CELL_BYTES);
    }
    for (int i = me.tid; i < CS * NT * 8 * 16; i += 256) {
        const int b = me.b0 + i / 128 % NT * 8 + i / 16 % 8;
        ((u32 *)sh.h)[i] = b < a.batch ? *((const u32 *)(a.h + size_t(b) * HP) + i / 128 / NT * 16 + i % 16) : 0;
    }
    return me;
}

// Reads the constants, the first states and the input of the first step.
__device__ __forceinline__ void start(const Forward &a, const Thread &me, Own &o, Cursor &at) {
    at.row_step = (a.reverse ? -1LL : 1LL) * a.row_time * GW, at.y_step = a.reverse ? -a.y_time : a.y_time;
    o.fixed.load(a.consts, me.unit);
#pragma unroll
    for (int n = 0; n < NT; n++) {
        const int b = me.sequence(n);
        o.mine[n] = b < a.batch;
        o.length[n] = !o.mine[n] ? 0 : a.lengths ? a.lengths[b] : a.steps;
        o.carried[n] = o.mine[n] && me.real && a.c0 ? a.c0[size_t(b) * H + me.unit] : 0.0f;
        o.before[n] = o.mine[n] && me.real && a.h0 ? a.h0[size_t(b) * H + me.unit] : 0.0f;
        const long long first = a.reverse ? o.length[n] - 1 : 0;
        at.row[n] = a.zx + (first * a.row_time + (long long)b * a.row_batch) * GW + me.unit;
        at.y[n] = a.y + first * a.y_time + b * a.y_batch + me.unit;
#pragma unroll
        for (int k = 0; k < G; k++) o.x[n][k] = o.length[n] > 0 ? __ldcg(at.row[n] + k * HP) : 0.0f;
#if TRAIN
        if (o.mine[n]) a.state[size_t(b) * HP + me.unit] = LSTM ? o.carried[n] : o.before[n];
#endif
    }
}

// Sends this block's part of the gates' statistics of a sequence.
__device__ __forceinline__ void send_statistics(Shared &sh, const Thread &me, const float z[4], float inv_units, int row) {
#pragma unroll
    for (int k = 0; k < NGRP; k++) {
        float sum = 0, square = 0, pivot = 0, mean, rest;
#pragma unroll
        for (int j = G - 1; j >= 0; j--)
            if (group_of(j) == k) pivot = z[j];
        pivot = __shfl_sync(0xffffffffu, pivot, 0);
#pragma unroll
        for (int j = 0; j < G; j++)
            if (group_of(j) == k && me.real) {
                const float d = __fsub_rn(z[j], pivot);
                sum = __fadd_rn(sum, d), square = fmaf(d, d, square);
            }
        block_statistics(sum, square, pivot, inv_units * (1.0f / gates_of(k)), mean, rest);
        if (me.lane < CS)
            post2(at_block(shared_at(&sh.gates[row][k][me.rank]), me.lane), at_block(me.bar_gates + 8 * row, me.lane), mean, rest);
    }
}

// Phase 1, after the product: the sums of both halves of k, and this block's part of the gates' statistics.
__device__ __forceinline__ void phase_sums(Shared &sh, const Thread &me, const Own &o, Step &e, int turn, float inv_units) {
#pragma unroll
    for (int n = 0; n < NT; n++) {
        const int row = n * 8 + me.warp;
        const float4 p = *(const float4 *)&sh.parts[turn][0][row][4 * me.lane];
        const float4 r = *(const float4 *)&sh.parts[turn][1][row][4 * me.lane];
        float *z = e.z[n];
        z[0] = __fadd_rn(p.x, r.x), z[1] = __fadd_rn(p.y, r.y), z[2] = __fadd_rn(p.z, r.z), z[3] = __fadd_rn(p.w, r.w);
#pragma unroll
        for (int k = 0; k < G; k++) {
            if (SNORM) z[k] = __fadd_rn(z[k], o.x[n][k]), e.xa[n][k] = o.constant(CONST_CX, k);
            else e.xa[n][k] = fmaf(o.constant(CONST_GX, k), o.x[n][k], o.constant(CONST_CX, k));
        }
        if (NORM) send_statistics(sh, me, z, inv_units, row);
    }
}

#if LSTM
// The gates and the cell of an LSTM, and this block's part of the cell's statistics or, if the cell has no norm, h.
__device__ __forceinline__ void cell_of(
    Shared &sh, const Thread &me, const Own &o, Step &e, int s, int n, const float ha[G], float inv_units) {
    const float *xa = e.xa[n];
    const float i = sigmoid(__fadd_rn(xa[0], ha[0])), f = sigmoid(__fadd_rn(xa[1], ha[1]));
    const float g = tanh_of(__fadd_rn(xa[2], ha[2]));
    e.o[n] = sigmoid(__fadd_rn(xa[G - 1], ha[G - 1]));
    e.c[n] = me.real ? fmaf(f, o.carried[n], __fmul_rn(i, g)) : 0.0f;
#if CNORM
    const int row = n * 8 + me.warp;
    const float pivot = __shfl_sync(0xffffffffu, e.c[n], 0), d = me.real ? __fsub_rn(e.c[n], pivot) : 0.0f;
    float part, rest;
    block_statistics(d, __fmul_rn(d, d), pivot, inv_units, part, rest);
    if (me.lane < CS)
        post2(at_block(shared_at(&sh.cells[row][me.rank]), me.lane), at_block(me.bar_cells + 8 * row, me.lane), part, rest);
#else
    e.h[n] = me.real && s < o.length[n] ? __fmul_rn(e.o[n], tanh_of(e.c[n])) : o.before[n];
#endif
}
#else
// The gates of a GRU, and h.
__device__ __forceinline__ void cell_of(
    Shared &, const Thread &me, const Own &o, Step &e, int s, int n, const float ha[G], float) {
    const float *xa = e.xa[n];
    const float r = sigmoid(__fadd_rn(xa[0], ha[0])), z = sigmoid(__fadd_rn(xa[1], ha[1]));
    const float fresh = tanh_of(fmaf(r, ha[2], xa[2])), before = o.before[n];
    const float mixed = KEEPS ? fmaf(z, __fsub_rn(before, fresh), fresh) : fmaf(z, __fsub_rn(fresh, before), before);
    e.h[n] = me.real && s < o.length[n] ? mixed : before;
}
#endif

// Phase 2: the gates' norm, the gates, and this block's part of the cell's statistics.
__device__ __forceinline__ void phase_gates(Shared &sh, const Thread &me, const Own &o, Step &e, int s, float inv_units) {
#pragma unroll
    for (int n = 0; n < NT; n++) {
        float ha[G];
#if NORM
        const int row = n * 8 + me.warp;
        float mean[NGRP];
        const u32 bar = me.bar_gates + 8 * row;
        barrier_wait(bar, s & 1);
        if (me.lane == 0) barrier_expect(bar, GATE_BYTES);
        row_of_cluster<gates_of(0)>(sh.gates[row][0], me.lane, EPS_R, DEV_R, mean[0], e.rstd[n][0]);
#pragma unroll
        for (int k = 1; k < NGRP; k++)
            row_of_cluster<gates_of(NGRP - 1)>(sh.gates[row][k], me.lane, EPS_R, DEV_R, mean[k], e.rstd[n][k]);
#pragma unroll
        for (int k = 0; k < G; k++) e.z[n][k] = __fmul_rn(__fsub_rn(e.z[n][k], mean[group_of(k)]), e.rstd[n][group_of(k)]);
#endif
#pragma unroll
        for (int k = 0; k < G; k++) ha[k] = fmaf(o.constant(CONST_GH, k), e.z[n][k], o.constant(CONST_CH, k));
        cell_of(sh, me, o, e, s, n, ha, inv_units);
    }
}

// Phase 3: the cell's norm; sends h to all blocks.
__device__ __forceinline__ void phase_cell(const Forward &a, Shared &sh, const Thread &me, const Own &o, Step &e, int s) {
    const int next_turn = (s & 1) ^ 1;
#pragma unroll
    for (int n = 0; n < NT; n++) {
        const int row = n * 8 + me.warp;
#if LSTM && CNORM
        const u32 bar = me.bar_cells + 8 * row;
        barrier_wait(bar, s & 1);
        if (me.lane == 0) barrier_expect(bar, CELL_BYTES);
        row_of_cluster<1>(sh.cells[row], me.lane, EPS_C, DEV_C, e.cell_mean[n], e.cell_rstd[n]);
        e.next[n] = fmaf(o.constant(4, 0), __fmul_rn(__fsub_rn(e.c[n], e.cell_mean[n]), e.cell_rstd[n]), o.constant(4, 1));
        e.h[n] = !me.real ? 0.0f : s < o.length[n] ? __fmul_rn(e.o[n], tanh_of(e.next[n])) : o.before[n];
#endif
        ((elem *)sh.mine[row])[me.lane] = narrow(e.h[n]);
        __syncwarp();
        const uint4 v = *(const uint4 *)&sh.mine[row][4 * (me.lane & 3)];
        if (s + 1 < a.steps)
#pragma unroll
            for (int k = 0; k < CS; k += 8) {
                const int distance = k + (me.lane >> 2), to = (me.rank + distance) % CS;
                if (CS % 8 == 0 || distance < CS)
                    post4(at_block(shared_at(&sh.h[next_turn][me.rank][n][me.warp][4 * (me.lane & 3)]), to),
                          at_block(me.bars + 16 * next_turn + (distance < NEAR ? 0 : 8), to), v);
            }
#if TRAIN
        const int b = me.sequence(n);
        if (o.mine[n] && me.lane < 4) *(uint4 *)(a.h + (size_t(s + 1) * a.batch + b) * HP + me.rank * 32 + 8 * me.lane) = v;
#endif
    }
}

#if TRAIN
// Writes the tape of a sequence.
__device__ __forceinline__ void record(const Forward &a, const Thread &me, const Own &o, const Cursor &at, const Step &e, int s, int n) {
    const bool valid = s < o.length[n];
    const size_t slot = size_t(s) * a.batch + me.sequence(n);
    float *kept = SNORM ? at.row[n] : a.zh + slot * GW + me.unit;
    if (valid)
#pragma unroll
        for (int k = 0; k < G; k++) kept[k * HP] = e.z[n][k];
    if (o.mine[n]) a.state[(slot + a.batch) * HP + me.unit] = !LSTM ? e.h[n] : valid ? e.c[n] : o.carried[n];
    // Values that exist once per sequence are written by different blocks.
    if (valid && me.lane == 0 && me.rank == me.warp % CS) {
#pragma unroll
        for (int k = 0; k < NGRP; k++)
            if (NORM) a.rh[slot * NGRP + k] = e.rstd[n][k];
        if (LSTM && CNORM) *(float2 *)(a.cell + slot * 2) = make_float2(e.cell_mean[n], e.cell_rstd[n]);
    }
}
#endif

// The output of a step and its tape, and the state for the next one.
__device__ __forceinline__ void advance(
    const Forward &a, const Thread &me, Own &o, Cursor &at, const Step &e, int s) {
#pragma unroll
    for (int n = 0; n < NT; n++) {
        const bool valid = s < o.length[n];
        if (valid && me.real) *at.y[n] = narrow(e.h[n]);
#if TRAIN
        record(a, me, o, at, e, s, n);
#endif
        at.row[n] += at.row_step, at.y[n] += at.y_step;
#if LSTM
        if (valid && me.real) o.carried[n] = CNORM && CARRIED ? e.next[n] : e.c[n];
#endif
        o.before[n] = e.h[n];
    }
}

extern "C" __global__ void __launch_bounds__(256, 1) rnn_cluster_forward(Forward a) {
    extern __shared__ __align__(16) unsigned char memory[];
    Shared &sh = *(Shared *)memory;
    const Thread me = enter(a, sh);
    const float inv_units = 1.0f / real_units(me.rank);
    Matrix m;
    load_matrix(m, a.u, me.rank, me.warp, me.lane);
    Own o;
    Cursor at;
    start(a, me, o, at);
    cluster_barrier();
    for (int s = 0; s < a.steps; s++) {
        const int turn = s & 1;
        const u32 parity = s >> 1 & 1, bar = me.bars + 16 * turn;
        Step e;
        barrier_wait(bar, parity);
        product(m, sh, turn, bar + 8, parity, me.rank, me.warp, me.lane);
        if (me.tid == 0) {
            barrier_expect(bar, NEAR_BYTES);
            if (NEAR < CS) barrier_expect(bar + 8, FAR_BYTES);
        }
        __syncthreads();
        phase_sums(sh, me, o, e, turn, inv_units);
        // Load the next step's input while the statistics are in flight.
#pragma unroll
        for (int n = 0; n < NT; n++)
            if (s + 1 < o.length[n])
#pragma unroll
                for (int k = 0; k < G; k++) o.x[n][k] = __ldcg(at.row[n] + at.row_step + k * HP);
        phase_gates(sh, me, o, e, s, inv_units);
        phase_cell(a, sh, me, o, e, s);
        // Not on the critical path.
        advance(a, me, o, at, e, s);
    }
#pragma unroll
    for (int n = 0; n < NT; n++)
        if (o.mine[n] && me.real) {
            const size_t at = size_t(me.sequence(n)) * H + me.unit;
            if (a.h_last) a.h_last[at] = o.before[n];
            if (LSTM && a.c_last) a.c_last[at] = o.carried[n];
        }
    // No block may exit while another could still write to it.
    cluster_barrier();
}
