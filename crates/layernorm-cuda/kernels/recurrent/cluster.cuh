// What the time loops of small 16-bit layers share: a cluster of blocks holds all of U in its registers, and its blocks hear
// from each other through distributed shared memory alone. Clusters know nothing of each other, so a sequence's bits do not
// depend on the batch, any number of clusters may run at a time, and none can wait for one that does not run.
//
//   CS = HP/32 blocks a cluster, 32 units a block, 8·NT sequences a cluster
//   a warp owns 4 units; a lane one unit of them (lane >> 3) and, of each 8 sequences, one: SEQ(lane)
//
// A message is stored in the receiver's shared memory by `st.async`, which counts its bytes on the receiver's barrier; a
// barrier's phase ends when all blocks' bytes have come. Statistics have one place each: nobody sends those of step s + 1
// before it has h of step s + 1 from all blocks, and a block sends that after its own threads have read those of step s. h
// has two places by turns, for the same reason one step further.
#define CS (HP / 32)
#define SEQ(lane) (2 * ((lane) & 3) + ((lane) >> 2 & 1))
// Messages of a column, one of each block; two more keep columns out of each other's banks.
#define ROW ((CS + 3) / 4 * 4 + 2)

__device__ __forceinline__ u32 shared_at(const void *p) { return u32(__cvta_generic_to_shared(p)); }
__device__ __forceinline__ u32 block_of_cluster() {
    u32 rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
// The same place in another block's shared memory.
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
// The phase under way ends when so many bytes have come.
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
// A barrier of the two warps that share rows.
__device__ __forceinline__ void partners_meet(int warp) { asm volatile("bar.sync %0, 64;" ::"r"(1 + (warp >> 1)) : "memory"); }

// The sum over a column's lanes of a warp, the same bits in each.
__device__ __forceinline__ float sum_column(float x) {
    x = __fadd_rn(x, __shfl_xor_sync(0xffffffffu, x, 8));
    return __fadd_rn(x, __shfl_xor_sync(0xffffffffu, x, 16));
}

// Numbers of a row that a warp has.
template <int GATES> __device__ __forceinline__ float warp_numbers(int rank, int warp) {
    return H == HP ? float(GATES * 4) : float(GATES * max(0, min(4, H - rank * 32 - warp * 4)));
}

// (mean, Σ(x − mean)²) of a warp's part of a row, from sums about one of its own numbers.
template <int GATES> __device__ __forceinline__ float2 warp_part(float sum, float square, float pivot, float numbers) {
    sum = sum_column(sum), square = sum_column(square);
    const float off = H == HP ? __fmul_rn(sum, 1.0f / (GATES * 4)) : __fdiv_rn(sum, fmaxf(numbers, 1.0f));
    return make_float2(__fadd_rn(pivot, off), fmaxf(fmaf(-off, sum, square), 0.0f));
}

// The warps' parts of a row as the block's. `from` is the first warp's, STRIDE the next one's distance.
template <int GATES, int STRIDE> __device__ __forceinline__ float2 block_part(const float2 *from, int rank) {
    float2 part[8];
#pragma unroll
    for (int w = 0; w < 8; w++) part[w] = from[w * STRIDE];
    const float pivot = part[0].x;
#pragma unroll
    for (int w = 0; w < 8; w++) {
        const float d = __fsub_rn(part[w].x, pivot), n = warp_numbers<GATES>(rank, w);
        part[w].y = fmaf(__fmul_rn(d, d), n, part[w].y);
        part[w].x = __fmul_rn(d, n);
    }
#pragma unroll
    for (int d = 1; d < 8; d *= 2)
#pragma unroll
        for (int w = 0; w < 8; w += 2 * d)
            part[w].x = __fadd_rn(part[w].x, part[w + d].x), part[w].y = __fadd_rn(part[w].y, part[w + d].y);
    const float off = H == HP ? __fmul_rn(part[0].x, 1.0f / (GATES * 32)) : __fdiv_rn(part[0].x, numbers_of<GATES>(rank));
    return make_float2(__fadd_rn(pivot, off), fmaxf(fmaf(-off, part[0].x, part[0].y), 0.0f));
}

// The blocks' parts of a row, to its mean and 1/σ. The column's lanes take a quarter of the blocks each.
template <int GATES> __device__ __forceinline__ void row_of_cluster(
    const float2 *parts, int quarter, float eps, bool dev, float &mean, float &rstd) {
    constexpr int EACH = (CS + 3) / 4;
    const float pivot = parts[0].x;
    float sum = 0, square = 0;
    float2 own[EACH];
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        const int block = quarter * EACH + j;
        if (EACH % 2 == 0 && j % 2 == 0) {
            const float4 two = *(const float4 *)(parts + block);
            own[j] = make_float2(two.x, two.y), own[(j + 1) % EACH] = make_float2(two.z, two.w);
        } else if (EACH % 2) own[j] = parts[CS % 4 == 0 || block < CS ? block : 0];
    }
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        const int block = quarter * EACH + j;
        if (CS % 4 == 0 || block < CS) {
            const float2 part = own[j];
            const float d = __fsub_rn(part.x, pivot), n = numbers_of<GATES>(block);
            sum = fmaf(d, n, sum), square = __fadd_rn(square, fmaf(__fmul_rn(d, d), n, part.y));
        }
    }
    sum = sum_column(sum), square = sum_column(square);
    const float off = __fmul_rn(sum, 1.0f / (GATES * H));
    const float var = fmaxf(fmaf(-off, off, __fmul_rn(square, 1.0f / (GATES * H))), 0.0f);
    mean = __fadd_rn(pivot, off);
    rstd = dev ? __fdiv_rn(1.0f, __fadd_rn(__fsqrt_rn(var), eps)) : rsqrtf(__fadd_rn(var, eps));
}
