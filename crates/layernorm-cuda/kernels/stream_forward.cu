// Rows, forward (rule 3), streaming through shared memory; three rows at a time, each in another pass:
//
//   q       y = fma((d − δ)·r, γ, β)     δ and r have come
//   q + 1   sum(d), sum(d·d)             m has come
//   q + 2   sum(x)
//
// in this order, so that each sum has a pass of another row's to come by. RMS norm has the first two. A warp's slot is asked for
// again as soon as its row is written.
//
// Why two sets of each sum are enough: who sends sum(x) of q + 2 has taken that of q + 1, for which all warps have posted theirs,
// and each did so after it took that of q. Likewise sum(d).
//
// Rule 6: r is 0 or NaN where v + ε is not finite, and only there. All warps of a row see that in the same pass, and go through
// it again together, with exchanges of its own (Team).
#define TENSORS 1
#include "stream.cuh"

struct Params {
    const T* x;
    const T* residual;
    T* h;
    T* y;
    const void* gain;
    const void* bias;
    A* m;
    A* delta;
    A* rstd;
    i64 rows, n;
    i64 stride_x, stride_residual, stride_h, stride_y;
    i64 span, groups;
    Count count;
    A eps;
};

struct Pipe {
    Channel<1, 2> mean;
    Channel<2, 2> deviation;
    u64 full[HELD_WARPS * RING];
};

// Calls `look(v, part, x)` for each vector of this thread. Rolled up: for rare rows.
template <class F> __device__ inline void each(const Team& team, const Ring& ring, int slot, i64 n, F look) {
#pragma unroll 1
    for (int step = 0; step < STEPS; step++)
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            int v = step * PARTS + part;
            if (!exists(team.at(v), 0, n)) continue;
            A x[VEC];
            unpack(ring.get(slot, v, 0), x);
            look(v, part, x);
        }
}

// The row in `slot` scaled by 2^k: gives k and its statistics; NaN if an element is not finite.
__device__ inline int again(Team& team, const Ring& ring, int slot, const Params& p, Stat& stat) {
    A most = 0;
    each(team, ring, slot, p.n, [&](int, int, const A(&x)[VEC]) {
        for (int j = 0; j < VEC; j++) most = magnitude(x[j]) <= most ? most : finite(x[j]) ? magnitude(x[j]) : infinite();
    });
    most = team.largest(most);
    if (!finite(most)) {
        stat = Stat{nan_value(), nan_value(), nan_value()};
        return 0;
    }
    int k = power(most);
    stat = Stat{0, 0, 0};
    if (CENTERED) {
        A lane[1][PARTS][VEC] = {}, sum[1];
        each(team, ring, slot, p.n, [&](int, int part, const A(&x)[VEC]) {
            for (int j = 0; j < VEC; j++) lane[0][part][j] = lane[0][part][j] + scale(x[j], k);
        });
        team.sum(lane, sum, p.n);
        stat.m = divide(sum[0], p.count);
    }
    A lane[2][PARTS][VEC] = {}, sum[2];
    each(team, ring, slot, p.n, [&](int, int part, const A(&x)[VEC]) {
        for (int j = 0; j < VEC; j++) {
            A d = scale(x[j], k) - stat.m;
            lane[0][part][j] = lane[0][part][j] + d;
            lane[1][part][j] = fused(d, d, lane[1][part][j]);
        }
    });
    team.sum(lane, sum, p.n);
    A mean_square = divide(sum[1], p.count);
    if (CENTERED) {
        stat.delta = divide(sum[0], p.count);
        mean_square = fused(-stat.delta, stat.delta, mean_square);
        if (mean_square < 0) mean_square = 0;
    }
    stat.r = A(1) / root(mean_square + scaled_eps(p.eps, k));
    return k;
}

__device__ inline void save(const Params& p, i64 row, A m, A delta, A r) {
    if (p.m) p.m[row] = m;
    if (p.delta) p.delta[row] = delta;
    p.rstd[row] = r;
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS) forward(const __grid_constant__ Params p) {
    extern __shared__ __align__(128) Words memory[];
    __shared__ Exchange exchange;
    __shared__ Pipe pipe;
    pipe.mean.init();
    pipe.deviation.init();
    if (threadIdx.x == 0) {
        for (int i = 0; i < HELD_WARPS * RING; i++) own_init(&pipe.full[i], 1);
        barriers_made();
    }
    __syncthreads();
    Team team(&exchange);
    i64 teams = i64(gridDim.x) / CLUSTER * TEAMS;
    i64 first = i64(blockIdx.x) / CLUSTER * TEAMS + (WHOLE_BLOCK ? 0 : threadIdx.x / 32);
    int turns = first < p.rows ? int((p.rows - first + teams - 1) / teams) : 0;
    Ring ring(memory, pipe.full, team, p.n, turns);
    ring.tensor(0, team, p.x + (turns > 0 ? first * p.stride_x : 0), teams * p.stride_x);
    for (int i = 0; i < RING; i++) ring.ask();
    Columns<GAIN> gains(p.gain, team, p.n, memory + RING_WORDS);
    Columns<BIAS> biases(p.bias, team, p.n, memory + RING_WORDS + HELD_WARPS * Columns<GAIN>::SHARED);

    auto to_mean = [&](A(&sum)[1]) { sum[0] = divide(whole(sum[0]), p.count); };
    auto to_stat = [&](A(&sum)[2]) {
        A delta = 0, mean_square = divide(sum[1], p.count);
        if (CENTERED) {
            delta = divide(whole(sum[0]), p.count);
            mean_square = fused(-delta, delta, mean_square);
            // A NaN stays a NaN.
            if (mean_square < 0) mean_square = 0;
        }
        sum[0] = delta;
        sum[1] = A(1) / root(mean_square + p.eps);
    };
    Cursor loaded, second, last;
    A mean = 0, own_mean[1], own_stat[2];
    T* y = p.y + first * p.stride_y;

    for (int q = -2; q < turns; q++) {
        if (q >= 0) {
            A stat[2];
            if (WHOLE_BLOCK) pipe.deviation.take(q, stat, to_stat);
            else stat[0] = own_stat[0], stat[1] = own_stat[1];
            A delta = stat[0], r = stat[1];
            bool writer = team.thread == 0 && team.block == 0 && p.rstd;
            // `x_of` is the element as it is, or scaled.
            auto write = [&](A m, A delta, A r, auto x_of) {
#pragma unroll
                for (int v = 0; v < VECS; v++) {
                    if (exists(team.at(v), 0, p.n)) {
                        A x[VEC], gain[VEC], bias[VEC];
                        unpack(ring.get(last.slot, v % PIECE_VECS, 0), x);
                        gains.get(team, v, A(1), gain);
                        biases.get(team, v, A(-0.0), bias);
#pragma unroll
                        for (int j = 0; j < VEC; j++) x[j] = fused(((x_of(x[j]) - m) - delta) * r, gain_of(gain[j]), bias[j]);
                        write_words(y + team.at(v), pack(x));
                    }
                    if ((v + 1) % PIECE_VECS == 0) {
                        ring.ask();
                        last.next();
                    }
                }
            };
            if (r > 0) {
                if (writer) save(p, first + q * teams, mean, delta, r);
                write(mean, delta, r, [](A x) { return x; });
            } else {
                Stat found;
                int k = again(team, ring, last.slot, p, found);
                if (writer) save(p, first + q * teams, scale(found.m, -k), scale(found.delta, -k), scale(found.r, k));
                write(found.m, found.delta, found.r, [&](A x) { return scale(x, k); });
            }
            y += teams * p.stride_y;
        }
        if (q >= -1 && q + 1 < turns) {
            if (CENTERED) {
                A m[1];
                if (WHOLE_BLOCK) pipe.mean.take(q + 1, m, to_mean);
                else m[0] = own_mean[0];
                mean = m[0];
            }
            A lane[2][PARTS][VEC] = {};
#pragma unroll
            for (int v = 0; v < VECS; v++) {
                if (!CENTERED && v % PIECE_VECS == 0) ring.wait(second);
                if (exists(team.at(v), 0, p.n)) {
                    A x[VEC];
                    unpack(ring.get(second.slot, v % PIECE_VECS, 0), x);
#pragma unroll
                    for (int j = 0; j < VEC; j++) {
                        A d = CENTERED ? x[j] - mean : x[j];
                        if (CENTERED) lane[0][v % PARTS][j] = chained(lane[0][v % PARTS][j], d, v < PARTS);
                        lane[1][v % PARTS][j] = fused(d, d, lane[1][v % PARTS][j]);
                    }
                }
                if ((v + 1) % PIECE_VECS == 0) second.next();
            }
            A sum[2] = {CENTERED ? team.fold(lane[0]) : A(0), team.fold(lane[1])};
            if (WHOLE_BLOCK) {
                pipe.deviation.post(q + 1, sum, to_stat);
            } else {
                to_stat(sum);
                own_stat[0] = sum[0];
                own_stat[1] = sum[1];
            }
        }
        if (CENTERED && q + 2 < turns) {
            A lane[PARTS][VEC] = {};
#pragma unroll
            for (int v = 0; v < VECS; v++) {
                if (v % PIECE_VECS == 0) ring.wait(loaded);
                if (exists(team.at(v), 0, p.n)) {
                    A x[VEC];
                    unpack(ring.get(loaded.slot, v % PIECE_VECS, 0), x);
#pragma unroll
                    for (int j = 0; j < VEC; j++) lane[v % PARTS][j] = chained(lane[v % PARTS][j], x[j], v < PARTS);
                }
                if ((v + 1) % PIECE_VECS == 0) loaded.next();
            }
            A sum[1] = {team.fold(lane)};
            if (WHOLE_BLOCK) {
                pipe.mean.post(q + 2, sum, to_mean);
            } else {
                to_mean(sum);
                own_mean[0] = sum[0];
            }
        }
    }
    // Nobody goes while others may still send to it.
    if (CLUSTER > 1) cluster_sync();
}
