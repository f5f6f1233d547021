// A cell as data, and the distribution of its work. The host defines:
//   H, HP       hidden units; rounded up to a multiple of 32. Units from H on are padding: 0 everywhere, excluded from statistics
//   G           gates: 4 for an LSTM (i, f, g, o), 3 for a GRU (r, z, n)
//   UNITS, GS   units per block, blocks per group: UNITS·GS = HP. Each group processes `cols` sequences
//   NT          a chunk is CC = 8·NT sequences
//   LSTM        1 or 0 (GRU)
//   RNORM       LNh over the recurrent product            SNORM     LNs over the sum
//   NGRP        rows of that norm: 1, 2 (a GRU's gates and candidate) or G
//   XNORM       LNx over the input product                XGRP      rows of that norm
//   CNORM       LNc over the cell                         CARRIED   the normalized cell is carried to the next step
//   KEEPS       z is the weight of the old h
//   EPS_R, EPS_C, DEV_R, DEV_C    ε of both norms, and whether it is added to the deviation
//   TRAIN       whether the tape is written
//   ITEM        maximum number of chunks per group
//   PAUSE       cycles from sending a message of a norm to the first poll for those of the others (block.cuh)
// and for the product (product.cuh) PAIRS, PR, PS, RING, SPLIT, FOLDED and TURNS.
//
// Letters: zx, zh are the products; a = (GX·zx + CX) + (GH·ẑ + CH), with ẑ = zh or its norm; with SNORM a = GH·ŝ + CH +
// CX.
#define WARPS 8
#define CC (8 * NT)
#define GW (G * HP)
#define CONST_GX 0
#define CONST_CX 1
#define CONST_GH 2
#define CONST_CH 3
#define CONST_CELL (4 * GW)

#if RNORM || SNORM
#define NORM 1
#else
#define NORM 0
#endif

// The group of a gate in the norm of the gates, and the number of gates in a group.
__device__ __forceinline__ constexpr int group_of(int gate) {
    return NGRP == 1 ? 0 : NGRP == 2 ? (gate == G - 1) : gate;
}
__device__ __forceinline__ constexpr int gates_of(int group) {
    return NGRP == 1 ? G : NGRP == 2 ? (group ? 1 : G - 1) : 1;
}

// Units of a block that are not padding.
__device__ __forceinline__ int real_units(int rank) { return max(0, min(UNITS, H - rank * UNITS)); }

// The number of values of a block in a row: its units times the gates of a group.
template <int GATES> __device__ __forceinline__ float numbers_of(int rank) {
    return H == GS * UNITS ? float(GATES * UNITS) : float(GATES * real_units(rank));
}

// Messages per lane, row and column: lane u reads those of the blocks u, u + UNITS, …
#define EACH ((GS + UNITS - 1) / UNITS)

// Polls a column's messages, of several rows of a norm.
template <int ROWS_OF> __device__ __forceinline__ void look(uint2 m[ROWS_OF][EACH], const uint2 *at, bool mine, int u) {
#pragma unroll
    for (int i = 0; i < ROWS_OF * EACH; i++) {
        const int row = i / EACH, j = i % EACH;
        // If every lane has a message, it is read unconditionally: `at` belongs to some column that exists.
        if (GS % UNITS == 0 || (mine && j * UNITS + u < GS)) m[row][j] = peek2(at + row * GS + j * UNITS + u);
    }
}
template <int ROWS_OF> __device__ __forceinline__ bool came(const uint2 m[ROWS_OF][EACH], bool mine, int u) {
    bool empty = false;
#pragma unroll
    for (int i = 0; i < ROWS_OF * EACH; i++) empty |= mine && i % EACH * UNITS + u < GS && empty2(m[i / EACH][i % EACH]);
    return !__any_sync(0xffffffffu, empty);
}
// All lanes of a warp wait together: diverged lanes would slow down every following shuffle.
template <int ROWS_OF> __device__ __forceinline__ void take(
    uint2 m[ROWS_OF][EACH], const uint2 *at, bool mine, int u, Patience &patience) {
    look<ROWS_OF>(m, at, mine, u);
    while (!came<ROWS_OF>(m, mine, u) && wait_more(patience)) look<ROWS_OF>(m, at, mine, u);
}

// Combines (mean, Σ(x − mean)²) of every block's part of a row into the row's mean and 1/σ. All lanes of the column
// must call it; `mine` says whether the column exists.
template <int GATES> __device__ __forceinline__ void row_statistics(
    const uint2 m[EACH], bool mine, int u, float eps, bool dev, float &mean, float &rstd) {
    // Relative to the first block's mean, so that one pass is enough.
    const float pivot = __shfl_sync(0xffffffffu, mine ? __uint_as_float(m[0].x) : 0.0f, 0, UNITS);
    float sum = 0, square = 0;
#pragma unroll
    for (int j = 0; j < EACH; j++)
        if (mine && j * UNITS + u < GS) {
            const float d = __fsub_rn(__uint_as_float(m[j].x), pivot), n = numbers_of<GATES>(j * UNITS + u);
            sum = fmaf(d, n, sum);
            square = __fadd_rn(square, fmaf(__fmul_rn(d, d), n, __uint_as_float(m[j].y)));
        }
    sum = sum_lanes<UNITS>(sum), square = sum_lanes<UNITS>(square);
    const float off = __fmul_rn(sum, 1.0f / (GATES * H));
    const float var = not_below_zero(fmaf(-off, off, __fmul_rn(square, 1.0f / (GATES * H))));
    mean = __fadd_rn(pivot, off);
    rstd = dev ? __fdiv_rn(1.0f, __fadd_rn(__fsqrt_rn(var), eps)) : rsqrtf(__fadd_rn(var, eps));
}

// Σ over all blocks of two sums, both multiplied by `scale`.
__device__ __forceinline__ void row_sums(const uint2 m[EACH], bool mine, int u, float scale, float &a, float &b) {
    float x = 0, y = 0;
#pragma unroll
    for (int j = 0; j < EACH; j++)
        if (mine && j * UNITS + u < GS) {
            x = __fadd_rn(x, __uint_as_float(m[j].x));
            y = __fadd_rn(y, __uint_as_float(m[j].y));
        }
    a = __fmul_rn(sum_lanes<UNITS>(x), scale);
    b = __fmul_rn(sum_lanes<UNITS>(y), scale);
}

// (mean, Σ(x − mean)²) of a block's part of a row, from sums relative to one of its own values, which is never far from
// the mean.
__device__ __forceinline__ void block_statistics(float sum, float square, float pivot, float inverse, float &mean, float &rest) {
    sum = sum_lanes<UNITS>(sum), square = sum_lanes<UNITS>(square);
    const float off = __fmul_rn(sum, inverse);
    mean = __fadd_rn(pivot, off), rest = not_below_zero(fmaf(-off, sum, square));
}

// Time index of a step: forward in time, or backward from the end of the sequence.
__device__ __forceinline__ int time_of(int s, int length, int reverse) { return reverse && s < length ? length - 1 - s : s; }

// Packs the elements of two neighboring units and sends them (16-bit types), or sends one (f32).
__device__ __forceinline__ void send_elem(elem *at, elem x, int u, bool mine) {
#if TYPE == 0
    if (mine) send1(at, __float_as_uint(x));
#else
    const u32 other = __shfl_down_sync(0xffffffffu, u32(x), 1);
    if (mine && !(u & 1)) send1(at, u32(x) | other << 16);
#endif
}
