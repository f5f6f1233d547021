// Forward pass of short rows (rule 3), with one thread per row, so that no sum crosses threads:
//
//   y = fma((d − δ)·r, γ, β)
//
// A row is VECS vectors of 16 bytes (VECS is a power of two), and rows are contiguous. A warp processes 32 rows (a tile), which
// arrive as one bulk copy in one of the warp's RING slots of shared memory. y overwrites x there and leaves as one bulk
// copy. γ and β are in shared memory, widened.
//
// Bank conflicts: the k-th vector that a thread reads is number k ^ turned, so that eight neighboring threads read
// eight different 16-byte banks. The tree of rule 2 adds lanes l and l + s, s a power of two. Registers k and k + h
// then hold vectors whose numbers differ in the same bit, and the order of the two does not change their sum.
//
// Rule 6: an extreme row is read from its slot again.
#include "bulk.cuh"
#include "params.cuh"

typedef ForwardParams Params;

constexpr int N = VECS * VEC, TILE = 32, SLOT = TILE * VECS, HELD_WARPS = THREADS / 32, QUARTERS = VEC / 4;
static_assert(VECS == 4 || VECS == 8 || VECS == 16, "banks");
static_assert(RING >= 2, "one to write from while the next comes");
static_assert(ELEM != F64, "vectors of four f32");

struct Pipe {
    uint4 params[2][QUARTERS][VECS];  // γ and β, as vectors of four
    u64 full[HELD_WARPS * RING];
};

typedef A Held[VECS][VEC];

// Rule 2 for the lanes L, L + S, …. Lanes past N are +0, whose only effect is to turn a sum of −0 into +0.
template <int S, int L, class F> __device__ inline A tree(const F& term) {
    if constexpr (S == N) return term(L / VEC, L % VEC);
    else return tree<2 * S, L>(term) + tree<2 * S, L + S>(term);
}
template <class F> __device__ inline A mean(const Count& count, const F& term) { return (tree<1, 0>(term) + A(0)) * count.inverse; }

__device__ inline A variance_of(A mean_square, A delta) {
    if (CENTERED) mean_square = fused(-delta, delta, mean_square);
    // A NaN stays a NaN.
    return mean_square < 0 ? A(0) : mean_square;
}

// Rule 3. Replaces x by d.
__device__ inline Stat statistics(Held& x, const Count& count, A eps, bool& extreme) {
    Stat stat = {0, 0, 0};
    if (CENTERED) {
        stat.m = mean(count, [&](int v, int j) { return x[v][j]; });
#pragma unroll
        for (int v = 0; v < VECS; v++)
#pragma unroll
            for (int j = 0; j < VEC; j++) x[v][j] = x[v][j] - stat.m;
        stat.delta = mean(count, [&](int v, int j) { return x[v][j]; });
    }
    A variance = variance_of(mean(count, [&](int v, int j) { return x[v][j] * x[v][j]; }), stat.delta) + eps;
    extreme = is_extreme(variance);
    stat.r = A(1) / root(variance);
    return stat;
}

// Rule 6, not unrolled and in local memory: for rare rows, which must not take registers from the common path.

template <class F> __device__ inline A rare_mean(const A (&x)[N], const Count& count, F term) {
    A lane[N];
#pragma unroll 1
    for (int i = 0; i < N; i++) lane[i] = term(x[i]);
#pragma unroll 1
    for (int s = N / 2; s > 0; s /= 2)
#pragma unroll 1
        for (int i = 0; i < s; i++) lane[i] = lane[i] + lane[i + s];
    return (lane[0] + A(0)) * count.inverse;
}

// Computes the statistics of x·2^k, or NaN if an element is not finite. Replaces x by d. Returns k.
__device__ inline int scale_row(A (&x)[N], const Count& count, A eps, Stat& stat) {
    A most = 0;
    bool whole = true, same = CENTERED;
#pragma unroll 1
    for (int i = 0; i < N; i++) {
        whole = whole && finite(x[i]);
        same = same && x[i] == x[0];
        most = magnitude(x[i]) > most ? magnitude(x[i]) : most;
    }
    if (!whole) {
        stat = Stat{nan_value(), nan_value(), nan_value()};
        return 0;
    }
    // For a constant row, d is known to be 0, and all statistics except m follow from d. −0 + 0 is 0.
    A m = x[0] + A(0);
    int k = same ? 0 : scaling_power(most, eps);
#pragma unroll 1
    for (int i = 0; i < N; i++) x[i] = same ? x[i] - m : scale(x[i], k);
    stat = Stat{0, 0, 0};
    if (CENTERED) {
        stat.m = rare_mean(x, count, [](A value) { return value; });
#pragma unroll 1
        for (int i = 0; i < N; i++) x[i] = x[i] - stat.m;
        stat.delta = rare_mean(x, count, [](A value) { return value; });
    }
    stat.r = A(1) / root(variance_of(rare_mean(x, count, [](A value) { return value * value; }), stat.delta) + scaled_eps(eps, k));
    if (same) stat.m = m;
    return k;
}

// Loads γ and β; called by all threads.
__device__ inline void fill_params(Pipe& pipe, const Params& p) {
    for (int i = threadIdx.x; i < QUARTERS * VECS; i += THREADS) {
        int v = i % VECS, quarter = i / VECS;
        u32 gain[4], bias[4];
        for (int j = 0; j < 4; j++) {
            int at = v * VEC + quarter * 4 + j;
            gain[j] = __float_as_uint(gain_of(parameter<GAIN>(p.gain, at, A(1))));
            bias[j] = __float_as_uint(parameter<BIAS>(p.bias, at, A(-0.0)));
        }
        pipe.params[0][quarter][v] = uint4{gain[0], gain[1], gain[2], gain[3]};
        pipe.params[1][quarter][v] = uint4{bias[0], bias[1], bias[2], bias[3]};
    }
}

__device__ inline void widened(const uint4& words, A (&to)[4]) {
    to[0] = __uint_as_float(words.x);
    to[1] = __uint_as_float(words.y);
    to[2] = __uint_as_float(words.z);
    to[3] = __uint_as_float(words.w);
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS) forward(const __grid_constant__ Params p) {
    extern __shared__ __align__(128) Words memory[];
    __shared__ Pipe pipe;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int turned = VECS >= 8 ? lane % 8 : lane / 2 % VECS;
    Words* slots = memory + warp * RING * SLOT;
    u64* full = pipe.full + warp * RING;
    i64 tiles = (p.rows + TILE - 1) / TILE, step = i64(gridDim.x) * HELD_WARPS, first = i64(blockIdx.x) * HELD_WARPS + warp;
    auto bytes_of = [&](i64 tile) {
        i64 left = p.rows - tile * TILE;
        return u32((left < TILE ? left : TILE) * N * sizeof(T));
    };
    auto ask = [&](i64 tile, int slot) {
        if (lane != 0 || tile >= tiles) return;
        own_expect(full + slot, bytes_of(tile));
        bulk_load(slots + slot * SLOT, p.x + tile * TILE * N, bytes_of(tile), full + slot, 0);
    };
    if (lane == 0) {
        for (int i = 0; i < RING; i++) own_init(full + i, 1);
        barriers_made();
        for (int i = 0; i < RING; i++) ask(first + i * step, i);
    }
    fill_params(pipe, p);
    __syncthreads();

    int slot = 0, before = RING - 1;
    u32 parity = 0;
    for (i64 tile = first; tile < tiles; tile += step) {
        own_wait(full + slot, parity);
        Words* mine = slots + slot * SLOT + lane * VECS;
        i64 row = tile * TILE + lane;
        bool live = row < p.rows, extreme;
        Held x;
#pragma unroll
        for (int v = 0; v < VECS; v++) unpack(from_slot(mine + (v ^ turned)), x[v]);
        Stat stat = statistics(x, p.count, p.eps, extreme), saved = stat;
        if (extreme && live) {
            A again[N];
#pragma unroll 1
            for (int i = 0; i < N; i++) again[i] = widen(((const T*)mine)[i]);
            int k = scale_row(again, p.count, p.eps, stat);
#pragma unroll
            for (int v = 0; v < VECS; v++)
#pragma unroll
                for (int j = 0; j < VEC; j++) x[v][j] = again[(v ^ turned) * VEC + j];
            saved = Stat{scale(stat.m, -k), scale(stat.delta, -k), scale(stat.r, k)};
        }
        if (live && p.rstd) {
            if (p.m) p.m[row] = saved.m;
            if (p.delta) p.delta[row] = saved.delta;
            p.rstd[row] = saved.r;
        }
#pragma unroll
        for (int v = 0; v < VECS; v++) {
#pragma unroll
            for (int quarter = 0; quarter < QUARTERS; quarter++) {
                A gain[4], bias[4];
                widened(pipe.params[0][quarter][v ^ turned], gain);
                widened(pipe.params[1][quarter][v ^ turned], bias);
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    A& value = x[v][quarter * 4 + j];
                    value = fused((value - stat.delta) * stat.r, gain[j], bias[j]);
                }
            }
            to_slot(mine + (v ^ turned), pack(x[v]));
        }
        before_copies();
        __syncwarp();
        if (lane == 0) {
            bulk_store(p.y + tile * TILE * N, slots + slot * SLOT, bytes_of(tile));
            // The slot of the previous tile is free once its copy has read it.
            stores_read<1>();
            if (tile != first) ask(tile + (RING - 1) * step, before);
        }
        before = slot;
        if (++slot == RING) {
            slot = 0;
            parity ^= 1;
        }
    }
    // Shared memory must stay valid until all copies have read it.
    if (lane == 0) stores_read<0>();
}
