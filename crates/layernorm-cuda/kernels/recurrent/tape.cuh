// What backward.cu reads of the tape that forward.cu left.

// The cell of a step: what it was before, and ĉ. A GRU's h.
struct Cell {
    float before, chat;
};
__device__ __forceinline__ Cell read_cell(const Backward &a, const Own &o, const Place &p, int step) {
    Cell r = {};
    if (!p.valid || !o.k.real) return r;
    r.before = a.state[p.at * HP + o.k.unit];
#if LSTM
    r.chat = a.state[(p.at + a.batch) * HP + o.k.unit];
#endif
#if LSTM && CNORM
    r.chat = __fmul_rn(__fsub_rn(r.chat, a.cell[p.at * 2]), a.cell[p.at * 2 + 1]);
    if (CARRIED && step > 0) {
        const float *cell = a.cell + (p.at - a.batch) * 2;
        r.before = fmaf(o.constant(4, 0), __fmul_rn(__fsub_rn(r.before, cell[0]), cell[1]), o.constant(4, 1));
    }
#endif
    return r;
}
// What the first phase reads of a step.
struct Read {
    float x[G], z[G], dh;
    Cell cell;
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
    r.dh = widen(a.dy[p.time * a.y_time + p.b * a.y_batch + k.unit]);
    if (step == p.length - 1 && a.dh_last) r.dh = __fadd_rn(r.dh, a.dh_last[size_t(p.b) * H + k.unit]);
    r.cell = read_cell(a, o, p, step);
    return r;
}
// zx and ẑ again, for the norms of the gates and of the input.
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

// The step before, into L2.
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
