// The statistics of a row that a team holds in registers (rule 3), and rule 6 for extreme rows.
//
//   m = sum(x)/N   d = x − m   δ = sum(d)/N   v = max(0, fma(−δ, δ, sum(d·d)/N))   r = 1/sqrt(v + ε)
//   RMS norm: m = δ = 0
//
// Extreme (v + ε not finite, or below LEAST_VARIANCE): all NaN if an element is not finite; m is the element and δ = v
// = 0 if all elements of a centered row are equal; otherwise recomputed with x·2^k and ε·2^(2k), k = −⌊log₂ max|x|⌋ or
// what ε allows.
#pragma once
#include "rows.cuh"
#include "terms.cuh"

// Elements of this thread: VECS vectors.
typedef A Held[VECS][VEC];

// Rule 3. Replaces x by d. `folded` is called once, when the warp has used all of its elements for the first time.
template <bool PORTIONS, class F>
__device__ inline Stat statistics(Team& team, Held& x, i64 n, const Count& count, A eps, bool& extreme, F folded) {
    Stat stat = {0, 0, 0};
    if (CENTERED) {
        A lane[1][PARTS][VEC] = {}, sum[1];
        team.by_portion<PORTIONS>(n, [&](auto portion) {
            using W = decltype(portion);
#pragma unroll
            for (int v = 0; v < VECS; v++)
#pragma unroll
                for (int j = 0; j < VEC; j++)
                    if (team.has<W>(v, j, n)) lane[0][v % PARTS][j] = chained<W>(lane[0][v % PARTS][j], x[v][j], v);
        });
        team.sum(lane, sum, n, folded);
        stat.m = divide(whole(sum[0]), count);
    }
    A mean_square;
    if (CENTERED) {
        A lane[2][PARTS][VEC] = {}, sum[2];
        team.by_portion<PORTIONS>(n, [&](auto portion) {
            using W = decltype(portion);
#pragma unroll
            for (int v = 0; v < VECS; v++)
#pragma unroll
                for (int j = 0; j < VEC; j++)
                    if (team.has<W>(v, j, n)) {
                        A d = x[v][j] = x[v][j] - stat.m;
                        lane[0][v % PARTS][j] = chained<W>(lane[0][v % PARTS][j], d, v);
                        lane[1][v % PARTS][j] = fused(d, d, lane[1][v % PARTS][j]);
                    }
        });
        team.sum(lane, sum, n);
        stat.delta = divide(whole(sum[0]), count);
        mean_square = fused(-stat.delta, stat.delta, divide(sum[1], count));
        // A NaN stays a NaN.
        if (mean_square < 0) mean_square = 0;
    } else {
        A lane[1][PARTS][VEC] = {}, sum[1];
        team.by_portion<PORTIONS>(n, [&](auto portion) {
            using W = decltype(portion);
#pragma unroll
            for (int v = 0; v < VECS; v++)
#pragma unroll
                for (int j = 0; j < VEC; j++)
                    if (team.has<W>(v, j, n)) lane[0][v % PARTS][j] = fused(x[v][j], x[v][j], lane[0][v % PARTS][j]);
        });
        team.sum(lane, sum, n, folded);
        mean_square = divide(sum[0], count);
    }
    A variance = mean_square + eps;
    extreme = is_extreme(variance);
    stat.r = A(1) / root(variance);
    return stat;
}

// Checks every vector: for rows in registers, and for rare rows, where code size matters more than speed.
__device__ inline Stat statistics(Team& team, Held& x, i64 n, const Count& count, A eps, bool& extreme) {
    return statistics<false>(team, x, n, count, eps, extreme, [] {});
}

// The largest magnitude of the team's elements; infinity if one is not finite.
__device__ inline A largest(Team& team, const Held& x, i64 n) {
    A max = 0;
#pragma unroll
    for (int v = 0; v < VECS; v++)
#pragma unroll
        for (int j = 0; j < VEC; j++)
            if (team.has<Any>(v, j, n)) {
                A value = magnitude(x[v][j]);
                max = value < max ? max : value;
                if (!finite(value)) max = A(1) / A(0);
            }
    return team.largest(max);
}

// Whether all elements of the team equal `max`, the largest magnitude, or all equal −max; sets `m` accordingly.
__device__ inline bool constant(Team& team, const Held& x, i64 n, A max, A& m) {
    A above = 0, below = 0;
#pragma unroll
    for (int v = 0; v < VECS; v++)
#pragma unroll
        for (int j = 0; j < VEC; j++)
            if (team.has<Any>(v, j, n)) {
                if (x[v][j] != max) above = 1;
                if (x[v][j] != -max) below = 1;
            }
    above = team.largest(above);
    below = team.largest(below);
    m = above == 0 ? max : -max;
    return above == 0 || below == 0;
}

// Rule 6, where `wanted`: scales the team's x by 2^k and recomputes the statistics, or sets them to NaN. Replaces x by
// d. Returns k.
__device__ inline int scale_row(Team& team, Held& x, i64 n, const Count& count, A eps, bool wanted, Stat& stat) {
    A max = largest(team, x, n);
    bool scaled = wanted && finite(max), same = false;
    A m = 0;
    if (CENTERED) same = constant(team, x, n, max, m) && scaled;
    int k = scaled && !same ? scaling_power(max, eps) : 0;
    // For a constant row, d is known to be 0, and all statistics except m follow from d.
    if (scaled)
#pragma unroll
        for (int v = 0; v < VECS; v++)
#pragma unroll
            for (int j = 0; j < VEC; j++) x[v][j] = same ? x[v][j] - m : scale(x[v][j], k);
    bool extreme;
    Stat again = statistics(team, x, n, count, scaled ? scaled_eps(eps, k) : eps, extreme);
    if (same) again.m = m;
    if (scaled) stat = again;
    if (wanted && !scaled) stat = Stat{nan_value(), nan_value(), nan_value()};
    return k;
}
