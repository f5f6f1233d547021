// Forward pass of rows (rule 3) that stream through shared memory:
//
//   y = fma((d − δ)·r, γ, β)
//
// Teams loop over rows. A row stays in registers from its first sum to y, so it is widened once and d is computed once.
// While one team waits for a sum, other teams of the block compute. A warp refills its slots as soon as it has its part
// of the first sum (immediately after the reads, the fence would wait for them), so all of the ring is in flight. γ and
// β of the block's columns are in shared memory too, once for all teams.
//
// Rule 6: an extreme row is read from global memory again.
#define TENSORS 1
#include "stream.cuh"
#include "params.cuh"

typedef ForwardParams Params;

static_assert(RING >= PIECES, "a row is there as a whole");

struct Pipe {
    Exchange exchanges[WHOLE_BLOCK ? TEAMS : 1];
    u64 full[HELD_WARPS * RING];
};

__device__ inline void save(const Params& p, i64 row, const Stat& stat) {
    if (p.m) p.m[row] = stat.m;
    if (p.delta) p.delta[row] = stat.delta;
    p.rstd[row] = stat.r;
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS) forward(const __grid_constant__ Params p) {
    extern __shared__ __align__(128) Words memory[];
    __shared__ Pipe pipe;
    if (threadIdx.x == 0) {
        for (int i = 0; i < HELD_WARPS * RING; i++) own_init(&pipe.full[i], 1);
        barriers_made();
    }
    __syncthreads();
    Team team(pipe.exchanges);
    int teams = gridDim.x / CLUSTER * TEAMS, first = blockIdx.x / CLUSTER * TEAMS + team.own;
    int turns = first < p.rows ? int((p.rows - first + teams - 1) / teams) : 0;
    auto row_of = [&](int turn) { return first + i64(turn) * teams; };
    auto from = [&](int, int turn) { return p.x + row_of(turn) * p.stride_x + team.first; };
    Ring ring(memory, pipe.full, team, p.n, turns);
    ring.start(from);
    char* kept = (char*)(memory + RING_WORDS);
    Columns<GAIN> gains(p.gain, team, p.n, kept);
    Columns<BIAS> biases(p.bias, team, p.n, kept + Columns<GAIN>::BYTES);
    __syncthreads();
    Cursor at;

    for (int q = 0; q < turns; q++) {
        int first_slot = at.slot;
        Held x;
        team.by_portion(p.n, [&](auto portion) {
            using W = decltype(portion);
#pragma unroll
            for (int v = 0; v < VECS; v++) {
                if (v % PIECE_VECS == 0) ring.wait(at);
                if (team.has<W>(v, 0, p.n)) {
                    unpack(ring.get(at.slot, v % PIECE_VECS, 0), x[v]);
                } else {
#pragma unroll
                    for (int j = 0; j < VEC; j++) x[v][j] = 0;
                }
                if ((v + 1) % PIECE_VECS == 0) at.next();
            }
        });
        bool extreme;
        Stat stat = statistics<true>(team, x, p.n, p.count, p.eps, extreme, [&] { ring.refill_row(first_slot, q, from); }), saved = stat;
        if (extreme) {
#pragma unroll
            for (int v = 0; v < VECS; v++) load(p.x + row_of(q) * p.stride_x, team.at(v), p.n, x[v]);
            int k = scale_row(team, x, p.n, p.count, p.eps, true, stat);
            saved = Stat{scale(stat.m, -k), scale(stat.delta, -k), scale(stat.r, k)};
        }
        if (team.thread == 0 && team.block == 0 && p.rstd) save(p, row_of(q), saved);
        T* y = p.y + row_of(q) * p.stride_y;
        team.by_portion(p.n, [&](auto portion) {
            using W = decltype(portion);
#pragma unroll
            for (int v = 0; v < VECS; v++)
                if (team.has<W>(v, 0, p.n)) {
                    A gain[VEC], bias[VEC];
                    gains.get(v, A(1), gain);
                    biases.get(v, A(-0.0), bias);
#pragma unroll
                    for (int j = 0; j < VEC; j++) x[v][j] = fused((x[v][j] - stat.delta) * stat.r, gain_of(gain[j]), bias[j]);
                    write_words(y + team.at(v), pack(x[v]));
                }
        });
    }
    // No block may exit while others can still send to it.
    if (CLUSTER > 1) cluster_sync();
}
