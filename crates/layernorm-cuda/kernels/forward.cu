// Forward pass of rows (rule 3), with the residual of rule 7:
//
//   h = x + residual, rounded to the type      y = fma((d − δ)·r, γ, β)
//
// Teams loop over rows. Vectors are prefetched into a ring in shared memory. Each thread has its own part of the ring,
// so no barrier is needed. A row then stays in registers until it is written.
#include "stats.cuh"
#include "params.cuh"

typedef ForwardParams Params;

constexpr int INPUTS = RESIDUAL ? 2 : 1;
static_assert(RING == 0 || (VECS % PARTS == 0 && WORD_BYTES == 16), "whole steps of whole vectors are fetched");

struct Ring {
    Words* mine;                 // this thread's first slot
    const T *x, *residual;       // of the row that is fetched next, at this thread's first vector
    i64 x_next, residual_next;   // stride to the next row
    i64 left;                    // rows still to be fetched
    i64 room;                    // elements from this thread's first vector to the end of a row
    int step, slot;

    __device__ Ring(const Params& p, const Team& team, Words* mine, i64 first, i64 teams) : mine(mine), step(0), slot(0) {
        left = first >= p.rows ? 0 : (p.rows - first + teams - 1) / teams;
        i64 row = left > 0 ? first : 0;
        room = p.n - team.at(0);
        x = p.x + row * p.stride_x + (room > 0 ? team.at(0) : 0);
        residual = p.residual + row * p.stride_residual + (room > 0 ? team.at(0) : 0);
        x_next = teams * p.stride_x;
        residual_next = teams * p.stride_residual;
    }

    // `read`: a word of each vector that was read from the slot.
    __device__ void fetch(const u32 (&read)[PARTS][INPUTS]) {
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            int at = (step * PARTS + part) * SPREAD;
            bool valid = left > 0 && (FULL || at < room);
            Words* to = mine + (slot * PARTS + part) * INPUTS * THREADS;
            copy_async(to, x + (valid ? at : 0), valid, read[part][0]);
            if (RESIDUAL) copy_async(to + THREADS, residual + (valid ? at : 0), valid, read[part][INPUTS - 1]);
        }
        commit_async();
        slot = slot + 1 == RING ? 0 : slot + 1;
        if (++step == STEPS) {
            step = 0;
            left--;
            // Past the last row nothing is read, and the addresses stay valid.
            if (left > 0) {
                x += x_next;
                residual += residual_next;
            }
        }
    }
};

// Loads γ and β of a row.
__device__ __forceinline__ void load_row_params(const Params& p, const Team& team, const Span& span, i64 n, Held& gain, Held& bias) {
#pragma unroll
    for (int v = 0; v < VECS; v++) {
        load_params<GAIN>(p.gain, span, team.at(v), n, A(1), gain[v]);
        load_params<BIAS>(p.bias, span, team.at(v), n, A(-0.0), bias[v]);
    }
}

// Reads x + residual of one step of a row: from `slot` of the ring, or from row `place` in global memory. `read`: for the
// next fetch.
__device__ __forceinline__ void read_step(const Params& p, const Team& team, const Ring& ring, i64 place, i64 n, int step, int slot,
                                          u32 (&read)[PARTS][INPUTS], Held& x) {
    if (RING > 0) wait_async<RING - 1>();
#pragma unroll
    for (int part = 0; part < PARTS; part++) {
        int v = step * PARTS + part;
        if (v >= VECS) break;
        A other[VEC];
        if (RING > 0) {
            const Words* from = ring.mine + (slot * PARTS + part) * INPUTS * THREADS;
            Words words = *from;
            read[part][0] = words.x;
            unpack(words, x[v]);
            if (RESIDUAL) {
                words = from[THREADS];
                read[part][INPUTS - 1] = words.x;
                unpack(words, other);
            }
        } else {
            load(p.x + place * p.stride_x, team.at(v), n, x[v]);
            if (RESIDUAL) load(p.residual + place * p.stride_residual, team.at(v), n, other);
        }
        if (RESIDUAL)
#pragma unroll
            for (int j = 0; j < VEC; j++) x[v][j] = x[v][j] + other[j];
    }
}

// Rule 6 for row `place`, where `wanted`: reads x again, scales it by 2^k and recomputes the statistics. Replaces x by d.
// Returns k.
__device__ __forceinline__ int again(const Params& p, Team& team, i64 place, i64 n, bool wanted, Held& x, Stat& stat) {
#pragma unroll
    for (int v = 0; v < VECS; v++)
        load(RESIDUAL ? p.h + place * p.stride_h : p.x + place * p.stride_x, team.at(v), n, x[v]);
    return scale_row(team, x, n, p.count, p.eps, wanted, stat);
}

// Writes y of a row from d. KEEP: γ and β are in registers.
__device__ __forceinline__ void write_row(const Params& p, const Team& team, const Span& span, i64 row, i64 n, const Stat& stat,
                                          const Held& d, const Held& kept_gain, const Held& kept_bias) {
#pragma unroll
    for (int v = 0; v < VECS; v++) {
        A gain[VEC], bias[VEC], y[VEC];
        if (!KEEP) {
            load_params<GAIN>(p.gain, span, team.at(v), n, A(1), gain);
            load_params<BIAS>(p.bias, span, team.at(v), n, A(-0.0), bias);
        }
#pragma unroll
        for (int j = 0; j < VEC; j++) {
            A x_hat = (d[v][j] - stat.delta) * stat.r;
            y[j] = fused(x_hat, gain_of(KEEP ? kept_gain[v][j] : gain[j]), KEEP ? kept_bias[v][j] : bias[j]);
        }
        store(p.y + row * p.stride_y, team.at(v), n, y);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS) forward(const __grid_constant__ Params p) {
    extern __shared__ Words ring_memory[];
    __shared__ Exchange exchange;
    Team team(&exchange, nullptr, true);
    if (OVERLAPS) {
        wait_for_earlier();
        let_next_start();
    }
    i64 teams = i64(gridDim.x) / CLUSTER * TEAMS;
    int mine = WHOLE_BLOCK ? 0 : threadIdx.x / TEAM;
    i64 first = i64(blockIdx.x) / CLUSTER * TEAMS;
    Ring ring(p, team, ring_memory + threadIdx.x, first + mine, teams);
    u32 read[PARTS][INPUTS] = {};
    if (RING > 0)
        for (int i = 0; i < RING; i++) ring.fetch(read);
    int slot = 0;
    Held kept_gain, kept_bias;
    if (KEEP && RING > 0) load_row_params(p, team, Span{0, 1}, p.n, kept_gain, kept_bias);
    for (i64 base = first; base < p.rows; base += teams) {
        i64 row = base + mine;
        bool live = row < p.rows;
        i64 n = live ? p.n : 0;
        // A team without a row recomputes the last one and writes nothing.
        i64 place = live ? row : p.rows - 1;
        Held x;
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            read_step(p, team, ring, place, n, step, slot, read, x);
            if (RING > 0) {
                ring.fetch(read);
                slot = slot + 1 == RING ? 0 : slot + 1;
            }
        }
        if (RESIDUAL)
#pragma unroll
            for (int v = 0; v < VECS; v++) {
                Words rounded = pack(x[v]);
                unpack(rounded, x[v]);
                store(p.h + row * p.stride_h, team.at(v), n, x[v]);
            }
        Span span = span_of(place, p.n, p.span, p.groups);
        // A team with one row loads γ and β before its sums.
        if (KEEP && RING == 0) load_row_params(p, team, span, n, kept_gain, kept_bias);
        if (base == first) team.begin();
        bool extreme;
        Stat stat = statistics(team, x, n, p.count, p.eps, extreme);
        Stat saved = stat;
        extreme = extreme && live;
        if (team.any(extreme)) {
            int k = again(p, team, place, n, extreme, x, stat);
            saved = stat;
            if (extreme) {
                saved.m = scale(stat.m, -k);
                saved.delta = scale(stat.delta, -k);
                saved.r = scale(stat.r, k);
            }
        }
        if (team.thread == 0 && team.block == 0 && live && p.rstd) {
            if (p.m) p.m[row] = saved.m;
            if (p.delta) p.delta[row] = saved.delta;
            p.rstd[row] = saved.r;
        }
        write_row(p, team, span, row, n, stat, x, kept_gain, kept_bias);
    }
    // No cluster barrier is needed here: a block that has received all messages of the last exchange is sent nothing
    // more.
}
