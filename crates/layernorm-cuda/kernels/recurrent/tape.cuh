// What backward.cu reads from the tape that forward.cu left.

// The cell of a step on the tape: c before its norm, before and after the step, and the norm's mean and 1/σ; if the
// normalized cell is carried, also those of the previous step. In a GRU, h before the step. Raw values: arithmetic here
// would wait for the loads.
struct Kept {
    float before, behind, mean, rstd, mean_before, rstd_before;
};
__device__ __forceinline__ Kept read_kept(const Backward &a, const Block &k, const Place &p, int step) {
    Kept r = {};
    if (!p.valid || !k.real) return r;
    r.before = a.state[p.at * HP + k.unit];
#if LSTM
    r.behind = a.state[(p.at + a.batch) * HP + k.unit];
#endif
#if LSTM && CNORM
    r.mean = a.cell[p.at * 2], r.rstd = a.cell[p.at * 2 + 1];
    if (CARRIED && step > 0) r.mean_before = a.cell[(p.at - a.batch) * 2], r.rstd_before = a.cell[(p.at - a.batch) * 2 + 1];
#endif
    return r;
}
// The cell before the step, and ĉ. In a GRU, h before the step.
struct Cell {
    float before, chat;
};
__device__ __forceinline__ Cell cell_of(const Own &o, const Place &p, int step, const Kept &kept) {
    Cell r = {};
    if (!p.valid || !o.k.real) return r;
    r.before = kept.before;
#if LSTM
    r.chat = kept.behind;
#endif
#if LSTM && CNORM
    r.chat = __fmul_rn(__fsub_rn(kept.behind, kept.mean), kept.rstd);
    if (CARRIED && step > 0)
        r.before = fmaf(o.constant(4, 0), __fmul_rn(__fsub_rn(kept.before, kept.mean_before), kept.rstd_before), o.constant(4, 1));
#endif
    return r;
}
// What the first phase reads of a step.
struct Read {
    float x[G], z[G];
    Kept kept;
    elem dy;
};
__device__ __forceinline__ Read read_tape(const Backward &a, const Own &o, int step, int share) {
    const Block &k = o.k;
    const Place p = place(a, k, step, share);
    Read r = {};
    if (!p.valid || !k.real) return r;
    const float *row = a.zx + row_of(a, p) * GW + k.unit;
#pragma unroll
    for (int q = 0; q < G; q++) r.x[q] = row[q * HP];
#if !SNORM
#pragma unroll
    for (int q = 0; q < G; q++) r.z[q] = a.zh[p.at * GW + q * HP + k.unit];
#endif
    r.dy = a.dy[p.time * a.y_time + p.b * a.y_batch + k.unit];
    r.kept = read_kept(a, k, p, step);
    return r;
}
// dh from the step's own output and, at the end of a sequence, from its last state.
__device__ __forceinline__ float own_dh(const Backward &a, const Block &k, const Place &p, int step, const Read &r) {
    if (!p.valid || !k.real) return 0.0f;
    const float dh = widen(r.dy);
    return step == p.length - 1 && a.dh_last ? __fadd_rn(dh, a.dh_last[size_t(p.b) * H + k.unit]) : dh;
}
// Reads zx and ẑ again, for the norms of the gates and of the input.
__device__ __forceinline__ void read_again(float x[G], float z[G], const Backward &a, const Block &k, const Place &p) {
#pragma unroll
    for (int q = 0; q < G; q++) {
        x[q] = 0, z[q] = 0;
        if (p.valid && k.real && (NORM || XNORM)) {
            x[q] = a.zx[row_of(a, p) * GW + q * HP + k.unit];
            z[q] = SNORM ? x[q] : a.zh[p.at * GW + q * HP + k.unit];
        }
    }
}

// Prefetches a step of the tape into L2.
__device__ __forceinline__ void prefetch_tape(const Backward &a, const Block &k, int step, int share) {
    const Place p = place(a, k, step, share);
    if (!p.valid || !k.real) return;
    if (k.u % 8 == 0) {
#pragma unroll
        for (int q = 0; q < G; q++) {
            prefetch(a.zx + row_of(a, p) * GW + k.unit + q * HP);
            if (!SNORM) prefetch(a.zh + p.at * GW + q * HP + k.unit);
        }
        prefetch(a.state + p.at * HP + k.unit);
    }
    if (k.u == 0) prefetch(a.dy + p.time * a.y_time + p.b * a.y_batch + k.unit);
}
