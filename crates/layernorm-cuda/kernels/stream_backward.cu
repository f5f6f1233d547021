// Backward pass of rows (rule 4) with the sums of each chunk of 64 rows for γ and β (rule 5), streaming through shared
// memory:
//
//   g = dy·γ   x̂ = (d − δ)·r   a = sum(g)/N   b = sum(g·x̂)/N   dx = r·fma(−x̂, b, g − a)
//   of a chunk, rows in order: fma(dy, x̂, ·) and · + dy, in registers of the thread that has the column
//
// A team of one block has one chunk; a team of several blocks loops over chunks. With several warps, sum(g) and
// sum(g·x̂) of row q + 1 are posted before row q is written, so that a sum has one pass to complete; a single warp has
// its sums at once.
//
// The blocks of a team form a cluster, or (TALKING) are resident at the same time (a cooperative launch) and exchange
// messages: clusters of 8 or 16 blocks leave every tenth multiprocessor unused, and a single chunk more than fits would
// double the time.
//
// Why four sets of sums are enough: whoever sends the sums of row q + 4 has taken those of q + 2, for which all warps
// have posted theirs, and each of them did so after it took those of q.
//
// Rule 6 as in backward.cu: all warps of a row detect in the same pass that it is extreme, and recompute it together
// from shared memory, with separate exchanges (Team). Its x̂ enters the sums at the row's turn.
#define TENSORS 2
#include "stream.cuh"
#include "params.cuh"

typedef BackwardParams Params;

constexpr int CHUNK = 64;
constexpr int SKEW = WHOLE_BLOCK;
static_assert(RING >= (1 + SKEW) * PIECES, "the rows at hand are there as a whole");
// Teams of several blocks are persistent and loop over chunks.
constexpr bool IN_TURN = CLUSTER > 1;

struct Pipe {
    Exchange exchange;
    Channel dots;
    A stats[TEAMS][1 + IN_TURN][3][CHUNK];  // of the rows of this chunk and of the next one
    u64 full[HELD_WARPS * RING];
};

// Calls `look(part, x, dy, γ)` for each vector of this thread. Not unrolled: for rare rows.
template <class F> __device__ inline void each(const Team& team, const Ring& ring, int slot, const Params& p, F look) {
#pragma unroll 1
    for (int step = 0; step < STEPS; step++)
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            int v = step * PARTS + part;
            if (v >= VECS || !team.has<Any>(v, 0, p.n)) continue;
            A x[VEC], dy[VEC], gain[VEC];
            unpack(ring.get(slot, v, 0), x);
            unpack(ring.get(slot, v, 1), dy);
            load_params<GAIN>(p.gain, Span{0, 1}, team.at(v), p.n, A(1), gain);
            for (int j = 0; j < VEC; j++) gain[j] = gain_of(gain[j]);
            look(part, x, dy, gain);
        }
}

__device__ inline void keep_most(A value, A& most) {
    // A NaN fails the comparison and is kept as infinity.
    most = magnitude(value) <= most ? most : finite(value) ? magnitude(value) : infinite();
}

// Whether all elements of the row in `slot` equal the largest magnitude, or all equal its negative; sets `m`
// accordingly.
__device__ inline bool constant(Team& team, const Ring& ring, int slot, const Params& p, A most, A& m) {
    A above = 0, below = 0;
    each(team, ring, slot, p, [&](int, const A(&x)[VEC], const A(&)[VEC], const A(&)[VEC]) {
        for (int i = 0; i < VEC; i++) {
            if (x[i] != most) above = 1;
            if (x[i] != -most) below = 1;
        }
    });
    above = team.largest(above);
    below = team.largest(below);
    m = above == 0 ? most : -most;
    return above == 0 || below == 0;
}

// The statistics of the row in `slot`, scaled by 2^k.
__device__ inline Stat scaled_stat(Team& team, const Ring& ring, int slot, const Params& p, int k) {
    Stat stat = {0, 0, 0};
    if (CENTERED) {
        A lane[1][PARTS][VEC] = {}, sum[1];
        each(team, ring, slot, p, [&](int part, const A(&x)[VEC], const A(&)[VEC], const A(&)[VEC]) {
            for (int i = 0; i < VEC; i++) lane[0][part][i] = lane[0][part][i] + scale(x[i], k);
        });
        team.sum(lane, sum, p.n);
        stat.m = divide(sum[0], p.count);
    }
    A lane[2][PARTS][VEC] = {}, sum[2];
    each(team, ring, slot, p, [&](int part, const A(&x)[VEC], const A(&)[VEC], const A(&)[VEC]) {
        for (int i = 0; i < VEC; i++) {
            A d = scale(x[i], k) - stat.m;
            lane[0][part][i] = lane[0][part][i] + d;
            lane[1][part][i] = fused(d, d, lane[1][part][i]);
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
    return stat;
}

// Rule 6 for the row in `slot`. Returns whether its r says that it was scaled.
__device__ inline bool again(Team& team, const Ring& ring, int slot, const Params& p, Terms& terms) {
    A most_x = 0, most_dy = 0, most_gain = 0;
    each(team, ring, slot, p, [&](int, const A(&x)[VEC], const A(&dy)[VEC], const A(&gain)[VEC]) {
        for (int i = 0; i < VEC; i++) {
            keep_most(x[i], most_x);
            keep_most(dy[i], most_dy);
            keep_most(gain[i], most_gain);
        }
    });
    most_x = team.largest(most_x);
    most_dy = team.largest(most_dy);
    most_gain = team.largest(most_gain);
    bool scaled = was_scaled(terms.stat.r, p.eps);
    if (scaled && finite(most_x)) {
        A m;
        if (CENTERED && constant(team, ring, slot, p, most_x, m)) {
            terms.stat = Stat{m, 0, A(1) / root(p.eps)};
        } else {
            terms.k = scaling_power(most_x, p.eps);
            terms.stat = scaled_stat(team, ring, slot, p, terms.k);
        }
    }
    if (finite(most_dy) && finite(most_gain)) {
        terms.j = power(most_dy);
        terms.l = power(most_gain);
    }
    A lane[2][PARTS][VEC] = {}, sum[2];
    each(team, ring, slot, p, [&](int part, const A(&x)[VEC], const A(&dy)[VEC], const A(&gain)[VEC]) {
        for (int i = 0; i < VEC; i++) {
            A g = scale(dy[i], terms.j) * scale(gain[i], terms.l);
            A x_hat = ((scale(x[i], terms.k) - terms.stat.m) - terms.stat.delta) * terms.stat.r;
            lane[0][part][i] = lane[0][part][i] + g;
            lane[1][part][i] = fused(g, x_hat, lane[1][part][i]);
        }
    });
    team.sum(lane, sum, p.n);
    terms.a = CENTERED ? divide(sum[0], p.count) : A(0);
    terms.b = divide(sum[1], p.count);
    return scaled;
}

// Reads m, δ and r of the rows of a chunk, by `threads` threads of which this is number `me`.
__device__ inline void read_stats(const Params& p, A (&to)[3][CHUNK], i64 chunk, int me, int threads) {
    for (int i = me; i < CHUNK; i += threads) {
        i64 row = chunk * CHUNK + i;
        bool live = row < p.rows;
        to[0][i] = live && CENTERED ? p.m[row] : A(0);
        to[1][i] = live && CENTERED ? p.delta[row] : A(0);
        to[2][i] = live ? p.rstd[row] : A(0);
    }
}

// The chunks of a team, whose rows it takes in turn. Only the very last chunk may be partial.
struct Chunks {
    const Params& p;
    i64 column;        // the warp's first
    int first, teams;  // the team's first chunk, and the distance to its next one

    __device__ i64 chunk_of(int turn) const { return first + i64(turn / CHUNK) * teams; }
    __device__ i64 row_of(int turn) const { return chunk_of(turn) * CHUNK + turn % CHUNK; }
    // The start of the warp's part of x (0) or dy (1).
    __device__ const T* operator()(int t, int turn) const {
        return (t == 0 ? p.x + row_of(turn) * p.stride_x : p.dy + row_of(turn) * p.stride_dy) + column;
    }
    // Number of rows.
    __device__ int rows() const {
        i64 all = (p.rows + CHUNK - 1) / CHUNK;
        if (first >= all) return 0;
        i64 rounds = IN_TURN ? (all - 1 - first) / teams : 0, left = p.rows - (first + rounds * teams) * CHUNK;
        return int(rounds * CHUNK + (left < CHUNK ? left : CHUNK));
    }
};

// From sum(g) and sum(g·x̂) to a and b.
struct ToMeans {
    const Params& p;
    __device__ __forceinline__ void operator()(A (&sum)[2]) const {
        sum[0] = CENTERED ? divide(whole(sum[0]), p.count) : A(0);
        sum[1] = divide(sum[1], p.count);
    }
};

__device__ __forceinline__ Stat stat_of(const Pipe& pipe, const Team& team, int q) {
    const A(&stats)[3][CHUNK] = pipe.stats[team.own][q / CHUNK % (1 + IN_TURN)];
    return Stat{stats[0][q % CHUNK], stats[1][q % CHUNK], stats[2][q % CHUNK]};
}

// Writes the sums of the chunk that ends before row q, for γ (0) or β (1), and resets them.
__device__ __forceinline__ void leave(const Params& p, const Team& team, const Chunks& chunks, Held& sums, int q, int which) {
    A* to = p.sums + (which * p.parts + chunks.chunk_of(q - 1)) * p.n;
    team.by_portion(p.n, [&](auto portion) {
        using W = decltype(portion);
#pragma unroll
        for (int v = 0; v < VECS; v++) {
            auto word = [&](int j) { return __float_as_uint(sums[v][j]); };
            if (team.has<W>(v, 0, p.n)) *(uint4*)(to + team.at(v)) = uint4{word(0), word(1), word(2), word(3)};
#pragma unroll
            for (int j = 0; j < VEC; j++) sums[v][j] = 0;
        }
    });
}

// This thread's sums of the row at `loaded`, whose statistics are `stat`; adds its dy to the sums of the chunk.
__device__ __forceinline__ void sum_row(const Params& p, const Team& team, const Ring& ring, const Columns<GAIN>& gains,
                                        const Stat& stat, Cursor& loaded, Held& bias_sum, A (&lane)[2][PARTS][VEC]) {
    team.by_portion(p.n, [&](auto portion) {
        using W = decltype(portion);
#pragma unroll
        for (int v = 0; v < VECS; v++) {
            if (v % PIECE_VECS == 0) ring.wait(loaded);
            if (team.has<W>(v, 0, p.n)) {
                A x[VEC], dy[VEC], gain[VEC];
                unpack(ring.get(loaded.slot, v % PIECE_VECS, 0), x);
                unpack(ring.get(loaded.slot, v % PIECE_VECS, 1), dy);
                gains.get(v, A(1), gain);
#pragma unroll
                for (int j = 0; j < VEC; j++) {
                    A g = dy[j] * gain_of(gain[j]);
                    A x_hat = ((x[j] - stat.m) - stat.delta) * stat.r;
                    if (CENTERED) lane[0][v % PARTS][j] = chained<W>(lane[0][v % PARTS][j], g, v);
                    lane[1][v % PARTS][j] = fused(g, x_hat, lane[1][v % PARTS][j]);
                    bias_sum[v][j] = bias_sum[v][j] + dy[j];
                    made(bias_sum[v][j]);
                }
            }
            if ((v + 1) % PIECE_VECS == 0) loaded.next();
        }
    });
}

// dx of row q at `last`; adds its dy·x̂ to the sums of the chunk. CAREFUL: rule 6.
template <bool CAREFUL> __device__ __forceinline__ void write_row(
    const Params& p, const Team& team, const Chunks& chunks, Ring& ring, const Columns<GAIN>& gains, const Terms& terms, int q,
    Cursor& last, Held& gain_sum) {
    const Stat& stat = terms.stat;
    T* dx_row = p.dx + chunks.row_of(q) * p.stride_dx;
    team.by_portion(p.n, [&](auto portion) {
        using W = decltype(portion);
#pragma unroll
        for (int v = 0; v < VECS; v++) {
            if (team.has<W>(v, 0, p.n)) {
                A x[VEC], dy[VEC], gain[VEC], dx[VEC];
                unpack(ring.get(last.slot, v % PIECE_VECS, 0), x);
                unpack(ring.get(last.slot, v % PIECE_VECS, 1), dy);
                gains.get(v, A(1), gain);
#pragma unroll
                for (int j = 0; j < VEC; j++) {
                    A g = dy[j] * gain_of(gain[j]), x_own = x[j];
                    if (CAREFUL) {
                        g = scale(dy[j], terms.j) * scale(gain_of(gain[j]), terms.l);
                        x_own = scale(x_own, terms.k);
                    }
                    A x_hat = ((x_own - stat.m) - stat.delta) * stat.r;
                    dx[j] = stat.r * fused(-x_hat, terms.b, g - terms.a);
                    if (CAREFUL) dx[j] = scale(dx[j], terms.k - terms.j - terms.l);
                    gain_sum[v][j] = fused(dy[j], x_hat, gain_sum[v][j]);
                    made(gain_sum[v][j]);
                }
                write_words(dx_row + team.at(v), pack(dx));
            }
            if ((v + 1) % PIECE_VECS == 0) {
                ring.refill(last.slot, chunks);
                last.next();
            }
        }
    });
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS) backward(const __grid_constant__ Params p) {
    extern __shared__ __align__(128) Words memory[];
    __shared__ Pipe pipe;
    int group = blockIdx.x / CLUSTER;
    pipe.dots.init();
    if (threadIdx.x == 0) {
        for (int i = 0; i < HELD_WARPS * RING; i++) own_init(&pipe.full[i], 1);
        barriers_made();
    }
    __syncthreads();
    Team team(&pipe.exchange, TALKING ? p.messages + group : nullptr);
    const Chunks chunks = {p, team.first, group * TEAMS + team.own, int(gridDim.x / CLUSTER * TEAMS)};
    const ToMeans to_means = {p};
    int turns = chunks.rows();
    Ring ring(memory, pipe.full, team, p.n, turns);
    ring.start(chunks);
    read_stats(p, pipe.stats[team.own][0], chunks.first, threadIdx.x % TEAM_THREADS, TEAM_THREADS);
    Columns<GAIN> gains(p.gain, team, p.n, memory + RING_WORDS);
    __syncthreads();
    Held gain_sum = {}, bias_sum = {};
    Cursor loaded, last;
    A pending[2] = {0, 0};
    bool first_post = false;

    // The sums of row q.
    auto dots = [&](int q) {
        Stat stat = stat_of(pipe, team, q);
        A lane[2][PARTS][VEC] = {};
        sum_row(p, team, ring, gains, stat, loaded, bias_sum, lane);
        A sum[2] = {CENTERED ? team.fold(lane[0]) : A(0), team.fold(lane[1])};
        if (WHOLE_BLOCK) {
            first_post = pipe.dots.post(q, sum, team.messages, to_means);
        } else {
            to_means(sum);
            pending[0] = sum[0];
            pending[1] = sum[1];
        }
    };
    // dx of row q.
    auto write = [&](int q, bool looks) {
        A mean[2];
        if (WHOLE_BLOCK) pipe.dots.take(q, looks, mean, team.messages, to_means);
        else mean[0] = pending[0], mean[1] = pending[1];
        Terms terms = {stat_of(pipe, team, q), mean[0], mean[1], 0, 0, 0};
        const Stat& stat = terms.stat;
        if (finite(terms.a + terms.b) && !was_scaled(stat.r, p.eps)) {
            write_row<false>(p, team, chunks, ring, gains, terms, q, last, gain_sum);
        } else {
            bool scaled = again(team, ring, last.slot, p, terms);
            if (scaled && p.lines && team.thread == 0 && team.block == 0) p.lines[chunks.row_of(q)] = Line{stat.m, stat.delta, stat.r, terms.k};
            write_row<true>(p, team, chunks, ring, gains, terms, q, last, gain_sum);
        }
    };

    for (int q = -SKEW; q < turns; q++) {
        int next = q + SKEW;
        // The warp that was first to post its part of row q collects the messages of the other blocks.
        bool looks = TALKING && q >= 0 && first_post;
        if (looks) pipe.dots.look(q, team.messages);
        if (next < turns) {
            if (IN_TURN && next > 0 && next % CHUNK == 0) leave(p, team, chunks, bias_sum, next, 1);
            // One warp reads the statistics of the next chunk. The others need them only after this warp has posted
            // more sums.
            if (IN_TURN && next % CHUNK == CHUNK / 2 && next + CHUNK / 2 < turns && Team::warp() == 0)
                read_stats(p, pipe.stats[team.own][(next / CHUNK + 1) % (1 + IN_TURN)], chunks.chunk_of(next + CHUNK), threadIdx.x, 32);
            dots(next);
        }
        if (q >= 0) {
            if (IN_TURN && q > 0 && q % CHUNK == 0) leave(p, team, chunks, gain_sum, q, 0);
            write(q, looks);
        }
    }
    if (turns > 0) {
        leave(p, team, chunks, gain_sum, turns, 0);
        leave(p, team, chunks, bias_sum, turns, 1);
    }
    // No block may exit while others can still send to it.
    if (CLUSTER > 1) cluster_sync();
}
