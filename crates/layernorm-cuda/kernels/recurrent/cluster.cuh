// Shared by the time loops of small 16-bit layers: a cluster of blocks holds all of U in registers, and its blocks
// communicate only through distributed shared memory. Clusters are independent of each other. So the bits of a sequence
// do not depend on the batch, any number of clusters may be resident, and none can wait for one that is not running.
//
//   CS = HP/32 blocks per cluster, 32 units per block; 8·NT sequences per cluster, NT per warp: w and w + 8; one unit per lane
//
// So except for the product, a warp handles its sequences alone: shuffles give their statistics, and messages about them
// come only from the same warp of the other blocks. A message is stored in the receiver's shared memory by `st.async`,
// which counts its bytes on the receiver's barrier; a phase of the barrier ends when the bytes of all blocks have
// arrived. Statistics need only one buffer: nobody sends those of step s + 1 before it has this warp's h of step s + 1,
// which is sent after those of step s were read. h needs two buffers, by the same argument one step later.
#define CS (HP / 32)
// Messages per row, one from each block.
#define ROW ((CS + 3) / 4 * 4)

__device__ __forceinline__ u32 shared_at(const void *p) { return u32(__cvta_generic_to_shared(p)); }
__device__ __forceinline__ u32 block_of_cluster() {
    u32 rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
// The corresponding address in another block's shared memory.
__device__ __forceinline__ u32 at_block(u32 at, int rank) {
    u32 there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(rank));
    return there;
}
__device__ __forceinline__ void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ __forceinline__ void barrier_init(u32 bar) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" ::"r"(bar) : "memory");
}
__device__ __forceinline__ void barrier_arrive(u32 bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
// The current phase ends when this many bytes have arrived.
__device__ __forceinline__ void barrier_expect(u32 bar, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_wait(u32 bar, u32 parity) {
    asm volatile("{\n.reg .pred done;\nWAIT:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra DONE;\nbra WAIT;\nDONE:\n}" ::"r"(bar), "r"(parity) : "memory");
}
__device__ __forceinline__ void post2(u32 to, u32 bar, float a, float b) {
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];" ::"r"(to),
                 "r"(__float_as_uint(a)), "r"(__float_as_uint(b)), "r"(bar) : "memory");
}
__device__ __forceinline__ void post4(u32 to, u32 bar, uint4 v) {
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
                 "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "r"(bar) : "memory");
}

// The place of a thread. Kept separate from the arrays of its sequences: until their loops are unrolled, the
// compiler treats such a structure as memory, and the code grew by up to a tenth.
struct Thread {
    int tid, warp, lane, rank, unit;
    int b0;     // the cluster's first sequence
    bool real;  // whether the unit is not padding
    u32 bars, bar_gates, bar_cells;  // barriers: the first, and those of each sequence
    __device__ __forceinline__ int sequence(int n) const { return b0 + n * 8 + warp; }
};
__device__ __forceinline__ Thread thread_of_cluster() {
    Thread me;
    me.tid = threadIdx.x, me.warp = me.tid >> 5, me.lane = me.tid & 31;
    me.rank = block_of_cluster(), me.b0 = blockIdx.x / CS * (8 * NT), me.unit = me.rank * 32 + me.lane;
    me.real = H == HP || me.unit < H;
    return me;
}

// The constants of a unit.
struct Constants {
    float k[4 * G + 2];
    __device__ __forceinline__ void load(const float *from, int unit) {
#pragma unroll
        for (int i = 0; i < 4 * G + 2; i++) k[i] = from[i < 4 * G ? i / G * GW + i % G * HP + unit : CONST_CELL + (i - 4 * G) * HP + unit];
    }
    __device__ __forceinline__ float of(int kind, int gate) const { return k[kind * G + gate]; }
};

// The sum over the four lanes that share a row's messages, with the same bits in each.
__device__ __forceinline__ float sum_four(float x) {
    x = __fadd_rn(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return __fadd_rn(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

// Each of four lanes reads a quarter of a row's messages.
#define QUARTER ((CS + 3) / 4)
__device__ __forceinline__ void read_row(float2 own[QUARTER], const float2 *row, int lane) {
    const float2 *from = row + (lane & 3) * QUARTER;
    if constexpr (QUARTER % 2 == 0) {
#pragma unroll
        for (int j = 0; j < QUARTER; j += 2) {
            const float4 two = *(const float4 *)(from + j);
            own[j] = make_float2(two.x, two.y), own[j + 1] = make_float2(two.z, two.w);
        }
    } else
#pragma unroll
        for (int j = 0; j < QUARTER; j++) own[j] = from[j];
}

// Combines the blocks' (mean, Σ(x − mean)²) of a row into its mean and 1/σ; relative to the first block's mean, so that
// one pass is enough.
template <int GATES> __device__ __forceinline__ void row_of_cluster(
    const float2 *row, int lane, float eps, bool dev, float &mean, float &rstd) {
    float2 own[QUARTER];
    read_row(own, row, lane);
    const float pivot = row[0].x;
    float sum = 0, square = 0;
#pragma unroll
    for (int j = 0; j < QUARTER; j++) {
        const int block = (lane & 3) * QUARTER + j;
        if (CS % 4 == 0 || block < CS) {
            const float d = __fsub_rn(own[j].x, pivot), n = numbers_of<GATES>(block);
            sum = fmaf(d, n, sum), square = __fadd_rn(square, fmaf(__fmul_rn(d, d), n, own[j].y));
        }
    }
    sum = sum_four(sum), square = sum_four(square);
    const float off = __fmul_rn(sum, 1.0f / (GATES * H));
    const float var = not_below_zero(fmaf(-off, off, __fmul_rn(square, 1.0f / (GATES * H))));
    mean = __fadd_rn(pivot, off);
    rstd = dev ? __fdiv_rn(1.0f, __fadd_rn(__fsqrt_rn(var), eps)) : rsqrtf(__fadd_rn(var, eps));
}

// Two sums over the blocks, both multiplied by `scale`.
__device__ __forceinline__ float2 cluster_sums(const float2 *row, int lane, float scale) {
    float2 own[QUARTER];
    read_row(own, row, lane);
    float x = 0, y = 0;
#pragma unroll
    for (int j = 0; j < QUARTER; j++)
        if (CS % 4 == 0 || (lane & 3) * QUARTER + j < CS) x = __fadd_rn(x, own[j].x), y = __fadd_rn(y, own[j].y);
    return make_float2(__fmul_rn(sum_four(x), scale), __fmul_rn(sum_four(y), scale));
}
