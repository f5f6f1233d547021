// Backward pass of rows (rule 4), and with SUMS the sums of each chunk of 64 rows for γ and β (rule 5):
//
//   g = dy·γ   x̂ = (d − δ)·r   a = sum(g)/N   b = sum(g·x̂)/N   dx = r·fma(−x̂, b, g − a)
//   of a chunk, rows in order: fma(dy, x̂, ·) and · + dy
//
// With SUMS, each team takes one chunk and keeps its sums in registers; teams that share a warp fold theirs as adjacent
// pairs. Otherwise teams loop over rows. x and dy are prefetched into a ring in shared memory and stay there for both
// passes.
//
// Rule 6: a row is extreme if its r says so (then it is rescaled by 2^k) or a sum is not finite. It is recomputed with
// g′ = (dy·2^j)·(γ·2^l), using the powers of the row's largest |dy| and |γ|, and dx is scaled back by k − j − l.
#include "stats.cuh"
#include "params.cuh"

typedef BackwardParams Params;

constexpr int CHUNK = 64;
static_assert(VECS % PARTS == 0, "whole steps");

__device__ inline i64 row_of(i64 turn, i64 team, i64 teams) { return SUMS ? team * CHUNK + turn : team + turn * teams; }

// x and dy of the rows that a team processes, in order.
struct Inputs {
    Words* mine;
    const T *x, *dy;           // of the row that is fetched next, at this thread's first vector
    i64 x_next, dy_next;       // stride to the next row
    i64 left;                  // rows still to be fetched
    i64 room;                  // elements from this thread's first vector to the end of a row
    int step, slot;            // step and slot of the next fetch

    __device__ Inputs(const Params& p, const Team& team, Words* mine, i64 me, i64 teams, i64 turns) : mine(mine), step(0), slot(0) {
        i64 first = row_of(0, me, teams), by = SUMS ? 1 : teams;
        left = first >= p.rows ? 0 : (p.rows - first + by - 1) / by;
        left = left < turns ? left : turns;
        i64 row = left > 0 ? first : 0;
        room = p.n - team.at(0);
        x = p.x + row * p.stride_x + (room > 0 ? team.at(0) : 0);
        dy = p.dy + row * p.stride_dy + (room > 0 ? team.at(0) : 0);
        x_next = by * p.stride_x;
        dy_next = by * p.stride_dy;
    }

    // `read`: a word of each vector that was read from the slot.
    __device__ void fetch(const u32 (&read)[PARTS][2]) {
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            int at = (step * PARTS + part) * SPREAD;
            bool valid = left > 0 && (FULL || at < room);
            Words* to = mine + (slot * PARTS + part) * 2 * THREADS;
            copy_async(to, x + (valid ? at : 0), valid, read[part][0]);
            copy_async(to + THREADS, dy + (valid ? at : 0), valid, read[part][1]);
        }
        commit_async();
        slot = slot + 1 == RING ? 0 : slot + 1;
        if (++step == STEPS) {
            step = 0;
            left--;
            // Past the last row nothing is read, and the addresses stay valid.
            if (left > 0) {
                x += x_next;
                dy += dy_next;
            }
        }
    }

    // Reads vector v from the ring, where its step is in `slot`; without a ring, from global memory.
    __device__ void get(const Params& p, const Team& team, i64 row, i64 n, int slot, int v, A (&x)[VEC], A (&dy)[VEC],
                        u32 (&read)[2]) const {
        if (RING > 0) {
            const Words* from = mine + (slot * PARTS + v % PARTS) * 2 * THREADS;
            Words x_words = from[0], dy_words = from[THREADS];
            read[0] = x_words.x;
            read[1] = dy_words.x;
            unpack(x_words, x);
            unpack(dy_words, dy);
        } else {
            i64 place = row < p.rows ? row : p.rows - 1;
            load(p.x + place * p.stride_x, team.at(v), n, x);
            load(p.dy + place * p.stride_dy, team.at(v), n, dy);
        }
    }
};

__device__ inline int after(int slot, int steps) {
    slot += steps;
    return RING > 0 && slot >= RING ? slot - RING : slot;
}

// Waits until step `step` of the current row has arrived; up to RING − 1 − step later steps may still be in flight.
__device__ inline void wait_step(int step) {
#if RING > 0
    switch (step) {
        case 0: wait_async<RING - 1>(); break;
        case 1: wait_async<(RING > 2 ? RING - 2 : 0)>(); break;
        case 2: wait_async<(RING > 3 ? RING - 3 : 0)>(); break;
        default: wait_async<(RING > 4 ? RING - 4 : 0)>(); break;
    }
#endif
}

// Computes a and b of rule 4. `of(v, lane)` adds the terms g and g·x̂ of vector v to the lanes. Returns whether the
// sums are finite.
template <class F> __device__ inline bool dots(Team& team, const Params& p, i64 n, Terms& terms, F of) {
    A lane[2][PARTS][VEC] = {}, sum[2];
#pragma unroll
    for (int v = 0; v < VECS; v++) of(v, lane);
    team.sum(lane, sum, n);
    terms.a = CENTERED ? divide(whole(sum[0]), p.count) : A(0);
    terms.b = divide(sum[1], p.count);
    return finite(terms.a + terms.b);
}

// Calls `look(v, part, x, dy, γ)` for each vector of this thread, read again from where it is. Not unrolled: it is for
// rare rows and must not take registers from the common path.
template <class F> __device__ inline void each(const Team& team, const Params& p, const Inputs& inputs, i64 row, i64 n, int slot, const Span& span, F look) {
#pragma unroll 1
    for (int step = 0; step < STEPS; step++)
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            int v = step * PARTS + part;
            A x[VEC], dy[VEC], gain[VEC];
            u32 read[2];
            inputs.get(p, team, row, n, after(slot, step), v, x, dy, read);
            load_params<GAIN>(p.gain, span, team.at(v), n, A(1), gain);
            for (int j = 0; j < VEC; j++) gain[j] = gain_of(gain[j]);
            look(v, part, x, dy, gain);
        }
}

// Rule 6 for the row, where `wanted`. Other teams of the warp run along and keep their results.
__device__ inline void again(Team& team, const Params& p, const Inputs& inputs, i64 row, i64 n, int slot, const Span& span,
                             bool wanted, Terms& terms) {
    A infinity = A(1) / A(0), most_x = 0, most_dy = 0, most_gain = 0;
    each(team, p, inputs, row, n, slot, span, [&](int v, int, const A(&x)[VEC], const A(&dy)[VEC], const A(&gain)[VEC]) {
        for (int i = 0; i < VEC; i++)
            if (team.has<Any>(v, i, n)) {
                // A NaN fails the comparison and is kept as infinity.
                most_x = magnitude(x[i]) <= most_x ? most_x : finite(x[i]) ? magnitude(x[i]) : infinity;
                most_dy = magnitude(dy[i]) <= most_dy ? most_dy : finite(dy[i]) ? magnitude(dy[i]) : infinity;
                most_gain = magnitude(gain[i]) <= most_gain ? most_gain : finite(gain[i]) ? magnitude(gain[i]) : infinity;
            }
    });
    most_x = team.largest(most_x);
    most_dy = team.largest(most_dy);
    most_gain = team.largest(most_gain);
    Terms found = terms;
    bool scaled = wanted && was_scaled(terms.stat.r, p.eps) && finite(most_x);
    if (team.any(scaled)) {
        int k = scaled ? scaling_power(most_x, p.eps) : 0;
        Stat stat = {0, 0, 0};
        if (CENTERED) {
            A lane[1][PARTS][VEC] = {}, sum[1];
            each(team, p, inputs, row, n, slot, span, [&](int v, int part, const A(&x)[VEC], const A(&)[VEC], const A(&)[VEC]) {
                for (int i = 0; i < VEC; i++)
                    if (team.has<Any>(v, i, n)) lane[0][part][i] = lane[0][part][i] + scale(x[i], k);
            });
            team.sum(lane, sum, n);
            stat.m = divide(sum[0], p.count);
        }
        A lane[2][PARTS][VEC] = {}, sum[2];
        each(team, p, inputs, row, n, slot, span, [&](int v, int part, const A(&x)[VEC], const A(&)[VEC], const A(&)[VEC]) {
            for (int i = 0; i < VEC; i++)
                if (team.has<Any>(v, i, n)) {
                    A d = scale(x[i], k) - stat.m;
                    lane[0][part][i] = lane[0][part][i] + d;
                    lane[1][part][i] = fused(d, d, lane[1][part][i]);
                }
        });
        team.sum(lane, sum, n);
        A mean_square = divide(sum[1], p.count);
        if (CENTERED) {
            stat.delta = divide(sum[0], p.count);
            mean_square = fused(-stat.delta, stat.delta, mean_square);
            if (mean_square < 0) mean_square = 0;
        }
        stat.r = A(1) / root(mean_square + scaled_eps(p.eps, k));
        if (CENTERED) {
            // Constant row: every element is the largest magnitude, or every element is its negative.
            A above = 0, below = 0;
            each(team, p, inputs, row, n, slot, span, [&](int v, int, const A(&x)[VEC], const A(&)[VEC], const A(&)[VEC]) {
                for (int i = 0; i < VEC; i++)
                    if (team.has<Any>(v, i, n)) {
                        if (x[i] != most_x) above = 1;
                        if (x[i] != -most_x) below = 1;
                    }
            });
            above = team.largest(above);
            below = team.largest(below);
            if (above == 0 || below == 0) {
                stat = Stat{above == 0 ? most_x : -most_x, 0, A(1) / root(p.eps)};
                k = 0;
            }
        }
        if (scaled) {
            found.stat = stat;
            found.k = k;
        }
    }
    if (wanted && finite(most_dy) && finite(most_gain)) {
        found.j = power(most_dy);
        found.l = power(most_gain);
    }
    A lane[2][PARTS][VEC] = {}, sum[2];
    each(team, p, inputs, row, n, slot, span, [&](int v, int part, const A(&x)[VEC], const A(&dy)[VEC], const A(&gain)[VEC]) {
        for (int i = 0; i < VEC; i++)
            if (team.has<Any>(v, i, n)) {
                A g = scale(dy[i], found.j) * scale(gain[i], found.l);
                A x_hat = ((scale(x[i], found.k) - found.stat.m) - found.stat.delta) * found.stat.r;
                lane[0][part][i] = lane[0][part][i] + g;
                lane[1][part][i] = fused(g, x_hat, lane[1][part][i]);
            }
    });
    team.sum(lane, sum, n);
    found.a = CENTERED ? divide(sum[0], p.count) : A(0);
    found.b = divide(sum[1], p.count);
    if (wanted) terms = found;
}

// The statistics that the forward pass saved for a row.
__device__ __forceinline__ Stat saved_stat(const Params& p, i64 row) {
    return Stat{CENTERED ? p.m[row] : A(0), CENTERED ? p.delta[row] : A(0), p.rstd[row]};
}

// γ of the vectors of a row. KEEP: from registers.
struct Gains {
    const Params& p;
    const Team& team;
    const Span& span;
    i64 n;
    const Held& kept;

    __device__ __forceinline__ void get(int v, A (&gain)[VEC]) const {
        if (KEEP) {
#pragma unroll
            for (int j = 0; j < VEC; j++) gain[j] = kept[v][j];
        } else {
            load_params<GAIN>(p.gain, span, team.at(v), n, A(1), gain);
        }
#pragma unroll
        for (int j = 0; j < VEC; j++) gain[j] = gain_of(gain[j]);
    }
};

// Computes a and b of rule 4 as soon as the row has arrived. Returns whether they are finite.
__device__ __forceinline__ bool sum_row(const Params& p, Team& team, const Inputs& inputs, i64 row, i64 n, int slot, const Gains& gains,
                                        u32 (&read)[PARTS][2], Terms& terms) {
    const Stat& stat = terms.stat;
    return dots(team, p, n, terms, [&](int v, A(&lane)[2][PARTS][VEC]) {
        if (RING > 0 && v % PARTS == 0) wait_step(v / PARTS);
        A x[VEC], dy[VEC], gain[VEC];
        inputs.get(p, team, row, n, after(slot, v / PARTS), v, x, dy, read[v % PARTS]);
        gains.get(v, gain);
#pragma unroll
        for (int j = 0; j < VEC; j++)
            if (team.has<Any>(v, j, n)) {
                A g = dy[j] * gain[j];
                A x_hat = ((x[j] - stat.m) - stat.delta) * stat.r;
                lane[0][v % PARTS][j] = chained<Any>(lane[0][v % PARTS][j], g, v);
                lane[1][v % PARTS][j] = fused(g, x_hat, lane[1][v % PARTS][j]);
            }
    });
}

// Writes dx of a row, adds to the sums of its chunk, and fetches later rows. There are two versions, for ordinary rows and
// (CAREFUL) with all checks and rule 6: one branch per row instead of one per element.
template <bool CAREFUL> __device__ __forceinline__ void write_row(
    const Params& p, const Team& team, Inputs& inputs, i64 row, bool live, i64 n, int slot, const Gains& gains,
    const Terms& terms, u32 (&read)[PARTS][2], Held& gain_sum, Held& bias_sum) {
    const Stat& stat = terms.stat;
#pragma unroll
    for (int v = 0; v < VECS; v++) {
        A x[VEC], dy[VEC], gain[VEC], dx[VEC];
        inputs.get(p, team, row, n, after(slot, v / PARTS), v, x, dy, read[v % PARTS]);
        if (RING > 0 && v % PARTS == PARTS - 1) inputs.fetch(read);
        gains.get(v, gain);
#pragma unroll
        for (int j = 0; j < VEC; j++) {
            A own = dy[j], g = own * gain[j], x_own = x[j];
            if (CAREFUL) {
                g = scale(own, terms.j) * scale(gain[j], terms.l);
                x_own = scale(x_own, terms.k);
            }
            A x_hat = ((x_own - stat.m) - stat.delta) * stat.r;
            dx[j] = stat.r * fused(-x_hat, terms.b, g - terms.a);
            if (CAREFUL) dx[j] = scale(dx[j], terms.k - terms.j - terms.l);
            if (SUMS && (!CAREFUL || live) && team.has<Any>(v, j, n)) {
                gain_sum[v][j] = fused(own, x_hat, gain_sum[v][j]);
                bias_sum[v][j] = bias_sum[v][j] + own;
            }
        }
        if (RESIDUAL) {
            A dh[VEC];
            load(p.dh + (live ? row : p.rows - 1) * p.stride_dh, team.at(v), n, dh);
            unpack(pack(dx), dx);
#pragma unroll
            for (int j = 0; j < VEC; j++) dx[j] = dx[j] + dh[j];
        }
        if (DX) {
            if (FULL && !CAREFUL) store_words(p.dx + row * p.stride_dx + team.at(v), pack(dx));
            else store(p.dx + row * p.stride_dx, team.at(v), n, dx);
        }
    }
}

// Folds the sums of the teams that share a warp, and writes them. `chunk`: index of the team and of its chunk.
__device__ __forceinline__ void write_sums(const Params& p, const Team& team, i64 chunk, Held& gain_sum, Held& bias_sum) {
#pragma unroll
    for (int v = 0; v < VECS; v++) {
#pragma unroll
        for (int j = 0; j < VEC; j++)
#pragma unroll
            for (int o = TEAM; o < 32; o *= 2) {
                gain_sum[v][j] = gain_sum[v][j] + __shfl_xor_sync(~0u, gain_sum[v][j], o);
                bias_sum[v][j] = bias_sum[v][j] + __shfl_xor_sync(~0u, bias_sum[v][j], o);
            }
        i64 part = TEAM < 32 ? chunk / (32 / TEAM) : chunk;
        if (threadIdx.x % 32 < TEAM && part < p.parts)
#pragma unroll
            for (int j = 0; j < VEC; j++)
                if (team.has<Any>(v, j, p.n)) {
                    p.sums[part * p.n + team.at(v) + j] = gain_sum[v][j];
                    p.sums[(p.parts + part) * p.n + team.at(v) + j] = bias_sum[v][j];
                }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS) backward(const __grid_constant__ Params p) {
    extern __shared__ Words ring_memory[];
    __shared__ Exchange exchange;
    Team team(&exchange, nullptr, true);
    if (OVERLAPS) wait_for_earlier();
    // The sums for γ and β that may follow read only the statistics of scaled rows from this kernel, and wait for
    // those.
    let_next_start();
    i64 teams = i64(gridDim.x) / CLUSTER * TEAMS;
    i64 me = i64(blockIdx.x) / CLUSTER * TEAMS + (WHOLE_BLOCK ? 0 : threadIdx.x / TEAM);
    i64 turns = SUMS ? CHUNK : (p.rows + teams - 1) / teams;
    Inputs inputs(p, team, ring_memory + threadIdx.x, me, teams, turns);
    u32 read[PARTS][2] = {};
    if (RING > 0)
        for (int i = 0; i < RING; i++) inputs.fetch(read);
    int slot = 0;
    Held gain_sum = {}, bias_sum = {}, kept_gain;
    if (KEEP && SUMS)
#pragma unroll
        for (int v = 0; v < VECS; v++) load_params<GAIN>(p.gain, Span{0, 1}, team.at(v), p.n, A(1), kept_gain[v]);
    Stat next = {0, 0, 0};
    auto read_stat = [&](i64 turn) {
        i64 row = row_of(turn, me, teams);
        if (turn < turns && row < p.rows) next = saved_stat(p, row);
    };
    read_stat(0);
    for (i64 turn = 0; turn < turns; turn++) {
        i64 row = row_of(turn, me, teams);
        bool live = row < p.rows;
        // All teams of a warp continue together; a team that is a whole warp stops after its last row.
        if (TEAM == 32 && !live) break;
        i64 n = live ? p.n : 0;
        Terms terms = {next, 0, 0, 0, 0, 0};
        read_stat(turn + 1);
        const Stat& stat = terms.stat;
        Span span = span_of(live ? row : p.rows - 1, p.n, p.span, p.groups);
        // A team with one row loads γ before its sums.
        if (KEEP && !SUMS)
#pragma unroll
            for (int v = 0; v < VECS; v++) load_params<GAIN>(p.gain, span, team.at(v), n, A(1), kept_gain[v]);
        if (turn == 0) team.begin();
        const Gains gains = {p, team, span, n, kept_gain};
        bool fine = sum_row(p, team, inputs, row, n, slot, gains, read, terms);
        bool scaled = live && was_scaled(stat.r, p.eps), extreme = live && (!fine || scaled);
        if (team.any(extreme || !live)) {
            if (team.any(extreme)) again(team, p, inputs, row, n, slot, span, extreme, terms);
            if (scaled && p.lines && team.thread == 0 && team.block == 0) p.lines[row] = Line{stat.m, stat.delta, stat.r, terms.k};
            write_row<true>(p, team, inputs, row, live, n, slot, gains, terms, read, gain_sum, bias_sum);
        } else {
            write_row<false>(p, team, inputs, row, live, n, slot, gains, terms, read, gain_sum, bias_sum);
        }
        slot = after(slot, STEPS);
    }
    if (SUMS) write_sums(p, team, me, gain_sum, bias_sum);
    // No cluster barrier is needed here: a block that has received all messages of the last exchange is sent nothing
    // more.
}
