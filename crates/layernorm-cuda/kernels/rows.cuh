// Rows on the GPU: which thread holds which element, and the canonical sum (rule 2) over them.
//
// A team works on a row: TEAM threads of a warp (rows within one block of 1024 elements), or WARPS warps in each of
// CLUSTER thread blocks, one warp per block of 1024. A thread block has one or more teams. The thread blocks of a team
// form a cluster and exchange sums through shared memory, or (TALKING) are merely resident at the same time and
// exchange them through global memory. A thread holds VECS vectors of VEC elements; vector v of thread t starts at
// element (v·TEAM + t)·VEC of the team's (or warp's) block of 1024. So the lane bits, from high to low, are: some bits
// of v, the thread, the position in the vector. The steps of a lane (i, i + 256, …) are the remaining bits of v, so a
// chain of four stays in one thread.
//
//   STEPS × PARTS vectors, of which the last step may lack some:  v = step·PARTS + part
//
// The fold goes high bit first: parts in registers, threads by shuffles (each keeps half of its values while it has
// more than one), positions in the vector last. Then blocks of 1024 are folded as adjacent pairs, through shared
// memory. The order does not depend on TEAM, WARPS or CLUSTER.
#pragma once
#include "number.cuh"

#include "bulk.cuh"
#include "messages.cuh"

constexpr int SPREAD = TEAM * VEC;                          // elements covered by one vector of each thread
constexpr int LANE_PARTS = SPREAD >= 256 ? 1 : 256 / SPREAD;
constexpr int PARTS = VECS < LANE_PARTS ? VECS : LANE_PARTS;
constexpr int STEPS = (VECS + PARTS - 1) / PARTS;
static_assert(SPREAD <= 256, "a vector of each thread covers at most the 256 lanes");
static_assert(FULL || VECS % PARTS == 0, "whole steps, of which vectors may be missing");
static_assert(TEAM == 32 || (WARPS == 1 && CLUSTER == 1), "part of a warp is a team by itself");

constexpr int BESIDE = VEC > TEAM ? VEC / TEAM : 1;          // values left per thread after folding over the threads
constexpr int APART = VEC / BESIDE;                          // threads over which the positions in a vector are spread

constexpr int BLOCKS = WARPS * CLUSTER;                     // blocks of 1024 per team
constexpr bool WHOLE_BLOCK = WARPS > 1 || CLUSTER > 1;      // whether a team is more than (part of) a warp
constexpr int TEAM_THREADS = TEAM * WARPS;                  // threads per team in a thread block
constexpr int TEAMS = THREADS / TEAM_THREADS;               // teams per thread block
constexpr int padded(int n) { return n <= 1 ? 1 : 2 * padded((n + 1) / 2); }
constexpr int PADDED_WARPS = padded(WARPS), PADDED_CLUSTER = padded(CLUSTER);
static_assert(!WHOLE_BLOCK || TEAMS <= 16, "a barrier each");
static_assert(!TALKING || CLUSTER <= 32, "a lane for each block's message");
static_assert(CLUSTER == 1 || PADDED_WARPS == WARPS, "blocks of a cluster hold whole powers of two, which fold by themselves");

// Whether an index in the padded tree over the blocks that share a row is that of a real block.
__device__ inline bool in_cluster(int rank) { return CLUSTER == PADDED_CLUSTER || rank < CLUSTER; }

__device__ inline u32 cluster_rank() {
    u32 rank = 0;
#if TALKING
    rank = blockIdx.x % CLUSTER;
#elif CLUSTER > 1
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
    return rank;
}

__device__ inline void cluster_sync() {
#if CLUSTER > 1 && !TALKING
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// The same split in two, without memory ordering: all blocks have started and initialized their barriers.
__device__ inline void cluster_arrive() {
#if CLUSTER > 1
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}
__device__ inline void cluster_wait() {
#if CLUSTER > 1
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// ---- messages between the blocks of a cluster: values, whose bytes are counted by a barrier of the receiver ----

__device__ inline void barrier_init(u64* barrier) {
#if CLUSTER > 1 && !TALKING
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" ::"r"(shared_address(barrier)) : "memory");
#endif
}

// The current phase ends when this many bytes have arrived.
__device__ inline void barrier_expect(u64* barrier, u32 bytes) {
#if CLUSTER > 1 && !TALKING
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
#endif
}

__device__ inline void barrier_wait(u64* barrier, u32 phase) {
#if CLUSTER > 1 && !TALKING
    asm volatile(
        "{\n.reg .pred done;\nagain:\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n}" ::"r"(shared_address(barrier)), "r"(phase) : "memory");
#endif
}

__device__ inline void send(A* place, u64* barrier, u32 rank, A value) {
#if CLUSTER > 1 && !TALKING
    u32 to, counted;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(shared_address(place)), "r"(rank));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(counted) : "r"(shared_address(barrier)), "r"(rank));
#if ELEM == F64
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.f64 [%0], %1, [%2];" ::"r"(to), "d"(value), "r"(counted) : "memory");
#else
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(to), "f"(value), "r"(counted) : "memory");
#endif
#endif
}

// Sums of the warps of a team, double-buffered: one set is read while the next is written.
struct Exchange {
    A sums[2][2][PADDED_WARPS];
    A ranks[2][2][TALKING ? 1 : CLUSTER];
    u64 barriers[2];
};

// Barrier for all threads of a team in a thread block.
__device__ inline void team_sync(int own) {
    if (TEAMS == 1) __syncthreads();
    else asm volatile("bar.sync %0, %1;" ::"r"(own), "n"(TEAM_THREADS) : "memory");
}

// Folds over the threads, high bit first. Of LIVE values each thread keeps half: the upper thread the upper half.
template <int O, int LIVE> __device__ inline void exchange_halves(A (&lane)[VEC]) {
    if constexpr (O > 0) {
        if constexpr (LIVE > 1) {
            constexpr int HALF = LIVE / 2;
            bool upper = threadIdx.x & O;
#pragma unroll
            for (int j = 0; j < HALF; j++) {
                A send = upper ? lane[j] : lane[j + HALF], keep = upper ? lane[j + HALF] : lane[j];
                lane[j] = keep + __shfl_xor_sync(~0u, send, O);
            }
            exchange_halves<O / 2, HALF>(lane);
        } else {
            lane[0] = lane[0] + __shfl_xor_sync(~0u, lane[0], O);
            exchange_halves<O / 2, 1>(lane);
        }
    }
}

// Which vectors of a thread exist, as far as is known at compile time: all below WHOLE, none from SOME on; `Team::has`
// decides in between.
template <int W, int S> struct Portion { static constexpr int WHOLE = W, SOME = S; };
typedef Portion<FULL ? VECS : 0, VECS> Any;

// For rows in which not all warps have all of their vectors: how many the warp at the row's end has, and whether some
// of its threads have one more (MORE). −1: not known.
#ifndef LAST
#define LAST -1
#define MORE 0
#endif
typedef Portion<LAST, LAST + MORE> End;
static_assert(LAST < 0 || LAST + MORE <= VECS, "no more than there is room for");
static_assert(LAST < 0 || !WHOLE_BLOCK || VECS * SPREAD == 1024, "a warp has a block of 1024");

// Adds a value of vector v to a chain. If no thread of the warp lacks the first value, the chain starts with it: 0 +
// value is value except for −0. A sum is then −0 instead of +0 only if all values are −0; `whole` corrects that. Not
// for sums of products, which may be −0 on their own when a product underflows.
template <class W> __device__ inline A chained(A chain, A value, int v) { return v < PARTS && v < W::WHOLE ? value : chain + value; }
__device__ inline A whole(A sum) { return FULL || LAST >= 0 ? sum + A(0) : sum; }

struct Team {
    int thread;     // index within the team's part of a warp
    i64 first;      // first element of the row that this thread's warp holds
    int block;      // index of the block of 1024 that the warp holds
    u32 turn;       // exchanges so far: the sets alternate, and a barrier changes phase every second exchange
    int own;        // index of the team in the thread block
    Exchange* exchange;
    Messages* messages;

    // `exchanges`: one per team of the block. `later`: `begin` will be called before the first exchange.
    __device__ Team(Exchange* exchanges, Messages* messages = nullptr, bool later = false) : turn(0), messages(messages) {
        thread = threadIdx.x % TEAM;
        own = threadIdx.x / TEAM_THREADS;
        exchange = exchanges + (WHOLE_BLOCK ? own : 0);
        block = WHOLE_BLOCK ? cluster_rank() * WARPS + warp() : 0;
        first = i64(block) * 1024;
        if (WHOLE_BLOCK) {
            // Entries past the last block of 1024 are the +0 of the padded tree. Those past the last block of a cluster
            // are not stored.
            if (PADDED_WARPS > WARPS)
                for (int i = threadIdx.x % TEAM_THREADS; i < 2 * 2 * PADDED_WARPS; i += TEAM_THREADS) (&exchange->sums[0][0][0])[i] = 0;
            if (threadIdx.x % TEAM_THREADS == 0)
                for (int i = 0; i < 2; i++) barrier_init(&exchange->barriers[i]);
            if (later) cluster_arrive();
            else if (CLUSTER > 1 && !TALKING) cluster_sync();
            else __syncthreads();
        }
    }

    // Completes a constructor call with `later`. Loads issued before this are in flight while the blocks start.
    __device__ void begin() {
        if (!WHOLE_BLOCK) return;
        if (CLUSTER > 1) cluster_wait();
        else __syncthreads();
    }

    // Index of the warp within the team's part of the thread block.
    __device__ static int warp() { return threadIdx.x / 32 % WARPS; }

    // Index of the first element of this thread's vector v.
    __device__ i64 at(int v) const { return first + v * SPREAD + thread * VEC; }

    // Whether element j of vector v exists in a row of n elements.
    template <class W> __device__ bool has(int v, int j, i64 n) const {
        // The same condition as in `load` and `store`, so that it is evaluated once.
        return v < W::WHOLE || (v < W::SOME && (ALIGNED ? at(v) : at(v) + j) < n);
    }

    // Calls `work` with the portion of a row of n elements that the warp has: all of its block of 1024, the end of the
    // row, or nothing. If that is not known at compile time, or not used (PORTIONS), every vector is checked. `work`
    // must not contain a thread block barrier, because warps would reach it from different places.
    template <bool PORTIONS = true, class F> __device__ void by_portion(i64 n, F work) const {
        if constexpr (LAST < 0 || !PORTIONS) {
            work(Any{});
        } else if constexpr (!WHOLE_BLOCK) {
            work(End{});
        } else {
            i64 left = n - first;
            if (left >= 1024) work(Portion<VECS, VECS>{});
            else if (CLUSTER > 1 && left <= 0) work(Portion<0, 0>{});
            else if constexpr (LAST < VECS) work(End{});
        }
    }

    // One sum over the lanes of a warp (or smaller team), given the lanes of this thread. All threads get it.
    __device__ A fold(A (&lane)[PARTS][VEC]) const {
#pragma unroll
        for (int h = padded(PARTS) / 2; h > 0; h /= 2)
#pragma unroll
            for (int p = 0; p < h; p++)
                if (p + h < PARTS)
#pragma unroll
                    for (int j = 0; j < VEC; j++) lane[p][j] = lane[p][j] + lane[p + h][j];
        exchange_halves<TEAM / 2, VEC>(lane[0]);
        // Positions in the vector: the high ones are now spread over threads; the low ones (with few threads) are next
        // to each other.
#pragma unroll
        for (int o = TEAM / 2; o * APART >= TEAM; o /= 2)
#pragma unroll
            for (int j = 0; j < BESIDE; j++) lane[0][j] = lane[0][j] + __shfl_xor_sync(~0u, lane[0][j], o);
#pragma unroll
        for (int h = BESIDE / 2; h > 0; h /= 2)
#pragma unroll
            for (int j = 0; j < h; j++) lane[0][j] = lane[0][j] + lane[0][j + h];
        return lane[0][0];
    }

    // NS sums over the row. All threads of the team get them. `n` only tells whether lanes are missing. `folded` is
    // called as soon as the warp has folded its part and no longer needs its elements.
    template <int NS> __device__ void sum(A (&lane)[NS][PARTS][VEC], A (&total)[NS], i64 n) {
        sum(lane, total, n, [] {});
    }
    template <int NS, class F> __device__ void sum(A (&lane)[NS][PARTS][VEC], A (&total)[NS], i64 n, F folded) {
#pragma unroll
        for (int s = 0; s < NS; s++) total[s] = fold(lane[s]);
        folded();
        if (!WHOLE_BLOCK) {
            // A missing lane is +0, which turns a sum of −0 into +0.
            if (n < 256)
#pragma unroll
                for (int s = 0; s < NS; s++) total[s] = total[s] + A(0);
            return;
        }
        blocks<NS>(total);
    }

    // The tree over blocks of 1024, of which each warp contributes one: over the warps of each thread block, then over
    // the blocks of the cluster, to each of which one warp sends. A set is overwritten only after all have read it:
    // whoever sends the next one has read this one.
    template <int NS> __device__ void blocks(A (&total)[NS]) {
        share<NS>(total, [](A a, A b) { return a + b; });
    }

    template <int NS, class F> __device__ void share(A (&total)[NS], F join) {
        int lane = threadIdx.x % 32, set = turn & 1;
        if (WARPS > 1) {
#pragma unroll
            for (int s = 0; s < NS; s++)
                if (lane == 0) exchange->sums[set][s][warp()] = total[s];
            team_sync(own);
#pragma unroll
            for (int s = 0; s < NS; s++) {
                total[s] = exchange->sums[set][s][lane % PADDED_WARPS];
#pragma unroll
                for (int o = 1; o < PADDED_WARPS; o *= 2) total[s] = join(total[s], __shfl_xor_sync(~0u, total[s], o));
            }
        }
        if constexpr (CLUSTER > 1) {
            int rank = lane % PADDED_CLUSTER;
            if constexpr (TALKING) {
#pragma unroll
                for (int s = 0; s < NS; s++) {
                    if (warp() == 0 && lane == 0) leave_message(&messages->rare[set][s][cluster_rank()], turn, total[s]);
                    total[s] = in_cluster(rank) ? await_message(&messages->rare[set][s][rank], turn) : A(0);
                }
            } else {
                u64* barrier = &exchange->barriers[set];
                if (warp() == 0 && lane == 0) barrier_expect(barrier, NS * CLUSTER * sizeof(A));
#pragma unroll
                for (int s = 0; s < NS; s++)
                    if (warp() == 0 && lane < CLUSTER) send(&exchange->ranks[set][s][cluster_rank()], barrier, lane, total[s]);
                barrier_wait(barrier, turn >> 1 & 1);
#pragma unroll
                for (int s = 0; s < NS; s++) total[s] = in_cluster(rank) ? exchange->ranks[set][s][rank] : A(0);
            }
#pragma unroll
            for (int s = 0; s < NS; s++)
#pragma unroll
                for (int o = 1; o < PADDED_CLUSTER; o *= 2) total[s] = join(total[s], __shfl_xor_sync(~0u, total[s], o));
        }
        turn++;
    }

    // The largest of non-negative numbers over the team; NaN and infinity become infinity.
    __device__ A largest(A value) {
        A infinity = A(1) / A(0);
        if (!(value < infinity)) value = infinity;
#pragma unroll
        for (int o = TEAM / 2; o > 0; o /= 2) {
            A other = __shfl_xor_sync(~0u, value, o);
            value = other > value ? other : value;
        }
        if (!WHOLE_BLOCK) return value;
        A one[1] = {value};
        share<1>(one, [](A a, A b) { return a > b ? a : b; });
        return one[0];
    }

    // Whether any team that runs in lockstep with this one wants it.
    __device__ bool any(bool wanted) const { return WHOLE_BLOCK ? wanted : __any_sync(~0u, wanted); }
};

// ---- memory ----

// `read`: a word last read from this place. The data dependency orders the copy after that read without delaying
// anything else.
__device__ inline void copy_async(void* to, const void* from, bool valid, u32 read) {
    u32 place = u32(__cvta_generic_to_shared(to)), bytes = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2; // %3" ::"r"(place), "l"(from), "r"(bytes), "r"(read));
}
__device__ inline void commit_async() { asm volatile("cp.async.commit_group;"); }
template <int LEFT> __device__ inline void wait_async() { asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory"); }

__device__ inline Words load_words(const T* from) { return *(const Words*)from; }
__device__ inline void store_words(T* to, const Words& from) { __stcs((Words*)to, from); }

// Loads the vector of a row that starts at element `at`; elements from n on are 0. FULL: all vectors of all threads
// exist in every row, and a row that does not exist (n = 0) is not written.
__device__ inline void load(const T* row, i64 at, i64 n, A (&to)[VEC]) {
#if FULL
    unpack(load_words(row + at), to);
#elif ALIGNED
    if (at < n) {
        unpack(load_words(row + at), to);
        return;
    }
#pragma unroll
    for (int j = 0; j < VEC; j++) to[j] = 0;
#else
#pragma unroll
    for (int j = 0; j < VEC; j++) to[j] = at + j < n ? A(widen(row[at + j])) : A(0);
#endif
}

__device__ inline void store(T* row, i64 at, i64 n, const A (&from)[VEC]) {
#if FULL
    if (n > 0) store_words(row + at, pack(from));
#elif ALIGNED
    if (at < n) store_words(row + at, pack(from));
#else
#pragma unroll
    for (int j = 0; j < VEC; j++)
        if (at + j < n) narrow(from[j], row[at + j]);
#endif
}

// Where a row finds its gain and bias: element i has number offset + i/span.
struct Span { i64 offset; i64 span; };
__device__ inline Span span_of(i64 row, i64 n, i64 span, i64 groups) {
    return Span{groups == 1 ? 0 : row % groups * (PER_CHANNEL ? n / span : n), span};
}

#ifndef OVERLAPS
#define OVERLAPS 0
#endif
// Parameters are not written while a kernel runs. But a kernel that starts before the previous launch has ended must
// not read them before it has waited, so the compiler must not treat them as constant.
template <class W> __device__ inline W read_parameter(const W* from) { return OVERLAPS ? *from : __ldg(from); }

// Loads VEC parameters from element `at` of a row on. PER_CHANNEL: several elements share one.
template <int KIND> __device__ inline void load_params(const void* from, const Span& span, i64 at, i64 n, A absent, A (&to)[VEC]) {
    if (KIND == 0) {
#pragma unroll
        for (int j = 0; j < VEC; j++) to[j] = absent;
        return;
    }
#if PER_CHANNEL
#pragma unroll
    for (int j = 0; j < VEC; j++) to[j] = FULL || at + j < n ? parameter<KIND>(from, span.offset + (at + j) / span.span, absent) : absent;
#elif ALIGNED
    typedef typename ParamType<KIND>::type P;
    if (!FULL && at >= n) {
#pragma unroll
        for (int j = 0; j < VEC; j++) to[j] = absent;
        return;
    }
    const P* place = (const P*)from + span.offset + at;
    if constexpr (sizeof(P) == sizeof(T)) {
        unpack(read_parameter((const Words*)place), to);
    } else {
        // f32 parameters of a 16-bit type (two vectors) or of f64 (half a vector).
#pragma unroll
        for (int j = 0; j < VEC; j += 2) {
            float2 two = read_parameter((const float2*)(place + j));
            to[j] = two.x;
            to[j + 1] = two.y;
        }
    }
#else
#pragma unroll
    for (int j = 0; j < VEC; j++) to[j] = at + j < n ? parameter<KIND>(from, span.offset + at + j, absent) : absent;
#endif
}
