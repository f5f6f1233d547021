// Uᵀ dzh in a cluster: a block multiplies its own dzh, 32 units of each gate, by the corresponding part of U for all H
// units, and sends each block the sums of its 32 units; dh is their sum over the blocks. So no block waits for dzh of
// another, and per sequence and block only H sums in f32 are sent instead of G·H elements.
#define DW ((CS + 7) / 8)         // blocks for which a warp computes products, two tiles of 16 units each
#define CHAINS (DW == 1 ? 2 : 1)  // accumulators per tile, so that four of them are in flight

struct Matrix {
    u32 w[DW][2][G][2][4];
};

__device__ __forceinline__ void load_matrix(Matrix &m, const u32 *packed, int rank, int warp, int lane) {
    const uint4 *from = (const uint4 *)packed + (rank * 8 + warp) * (DW * 2 * G * 2 * 32) + lane;
#pragma unroll
    for (int f = 0; f < DW * 2 * G * 2; f++) {
        const uint4 v = from[f * 32];
        u32 *to = m.w[f / 4 / G][f / 2 / G % 2][f / 2 % G][f % 2];
        to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
    }
}

// Sends the block's contribution to dh to all blocks.
__device__ __forceinline__ void send_products(const Matrix &m, Shared &sh, int from, int to, int rank, int warp, int lane) {
    if (warp * DW >= CS) return;
#pragma unroll
    for (int n = 0; n < NT; n++) {
        float acc[DW][2][CHAINS][4];
#pragma unroll
        for (int i = 0; i < DW * 2 * CHAINS * 4; i++) (&acc[0][0][0][0])[i] = 0;
#pragma unroll
        for (int k = 0; k < G; k++) {
            const uint4 b = *(const uint4 *)&sh.dz[from][k][n][lane >> 2][4 * (lane & 3)];
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const FragB fb = half ? frag_b(b.z, b.w) : frag_b(b.x, b.y);
#pragma unroll
                for (int i = 0; i < DW * 2; i++) {
                    const u32 *w = m.w[i / 2][i % 2][k][half];
                    multiply(acc[i / 2][i % 2][half % CHAINS], frag_a(w[0], w[1], w[2], w[3]), fb);
                }
            }
        }
        // Rows g and g + 8 of both tiles are four neighboring units; columns 2t and 2t + 1.
#pragma unroll
        for (int d = 0; d < DW; d++) {
            const int block = warp * DW + d;
            auto sum = [&](int tile, int j) {
                const float *first = acc[d][tile][0], *second = acc[d][tile][CHAINS - 1];
                return __float_as_uint(CHAINS == 2 ? __fadd_rn(first[j], second[j]) : first[j]);
            };
            if (DW == 1 || CS % 2 == 0 || block < CS)
#pragma unroll
                for (int k = 0; k < 2; k++)
                    post4(at_block(shared_at(&sh.dh[to][rank][n * 8 + 2 * (lane & 3) + k][4 * (lane >> 2)]), block),
                          at_block(shared_at(&sh.bars[to]), block), make_uint4(sum(0, k), sum(0, 2 + k), sum(1, k), sum(1, 2 + k)));
        }
    }
}

// Σ over the blocks, as a tree of neighbors.
__device__ __forceinline__ float sum_blocks(const float *first) {
    float part[CS];
#pragma unroll
    for (int r = 0; r < CS; r++) part[r] = first[r * NT * 256];
#pragma unroll
    for (int d = 1; d < CS; d *= 2)
#pragma unroll
        for (int r = 0; r + d < CS; r += 2 * d) part[r] = __fadd_rn(part[r], part[r + d]);
    return part[0];
}
