// Rows that stream through shared memory, and sums over them that nobody waits for.
//
// Who holds what is as in rows.cuh: a warp has a block of 1024 of a row (TEAM = 32), a row has WARPS warps in each of CLUSTER
// thread blocks. But a row lies in shared memory, not in registers, and each pass reads it there.
//
//   Ring     of a warp's own: RING slots, each a piece (1/PIECES) of its part of a row, of TENSORS tensors. One lane asks for
//            whole pieces (cp.async.bulk), a barrier a slot says when they have come. The warp that reads is the warp that asks
//            for the next, so no other barrier guards a slot.
//   Channel  a sum on its way over the row. Each warp posts its part and goes on with another row; the warp that comes last
//            folds them (and sends the block's to the cluster); all take the sum when they need it, a pass later.
//
// Orders: the chain and the fold of a lane's block are Team::fold's. Warps fold as adjacent pairs, padded with +0, then the
// blocks of the cluster, which hold powers of two. Who comes last does not enter: it reads the parts by their places.
#pragma once
#include "stats.cuh"

static_assert(TEAM == 32, "a warp has a block of 1024");
static_assert(STEPS % PIECES == 0, "a piece is whole steps");
static_assert(RING >= PIECES, "a row is there as a whole");

constexpr int PIECE_VECS = VECS / PIECES;
constexpr int SLOT_WORDS = PIECE_VECS * 32;                     // of one tensor
constexpr int PIECE = PIECE_VECS * SPREAD;                      // elements of a piece
constexpr int HELD_WARPS = THREADS / 32;
constexpr int RING_WORDS = HELD_WARPS * RING * TENSORS * SLOT_WORDS;

// ---- barriers of one's own block ----

__device__ inline void own_init(u64* barrier, u32 arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
__device__ inline void own_arrive(u64* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
__device__ inline void own_expect(u64* barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}
__device__ inline void own_wait(u64* barrier, u32 parity) {
    asm volatile(
        "{\n.reg .pred done;\nagain:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n}" ::"r"(shared_address(barrier)), "r"(parity) : "memory");
}

// One more, and how many there were. Orders nothing.
__device__ inline u32 count_one(u32* place) {
    u32 before;
    asm volatile("atom.relaxed.cta.shared::cta.add.u32 %0, [%1], 1;" : "=r"(before) : "r"(shared_address(place)) : "memory");
    return before;
}

// HINT & 1: what is read once need not stay in L2.
__device__ inline void bulk_load(void* to, const void* from, u32 bytes, u64* barrier, u64 policy) {
#if HINT & 1
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(
                     shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(barrier)), "l"(policy) : "memory");
#else
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(barrier)) : "memory");
#endif
}
__device__ inline u64 read_once() {
    u64 policy = 0;
#if HINT & 1
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
#endif
    return policy;
}
// HINT & 2: an ordinary store.
__device__ inline void write_words(T* to, const Words& from) {
#if HINT & 2
    *(Words*)to = from;
#else
    __stcs((Words*)to, from);
#endif
}

__device__ inline A infinite() { return __uint_as_float(0x7f800000u); }

// The value is made here: else the compiler makes it where the loop ends, and keeps what it is made of until then.
__device__ inline void made(A& value) { asm volatile("" : "+f"(value)); }

// ---- a warp's ring ----

// Slots are used in turn; a barrier changes its parity every time round.
struct Cursor {
    int slot;
    u32 parity;
    __device__ Cursor() : slot(0), parity(0) {}
    __device__ void next() {
        if (++slot == RING) {
            slot = 0;
            parity ^= 1;
        }
    }
};

struct Ring {
    Words* slots;              // this lane's first place
    u64* full;
    const T* from[TENSORS];    // of the row that is asked for next, at the warp's first element
    i64 by[TENSORS];           // from there to the next
    int left;                  // rows to ask for
    int room;                  // elements of a row from the warp's first one on; 0 or less: it has none
    int piece, slot;           // what is asked for next, and where it goes
    u64 policy;

    __device__ Ring(Words* memory, u64* barriers, const Team& team, i64 n, int rows) : left(rows), piece(0), slot(0), policy(read_once()) {
        int warp = threadIdx.x / 32;
        slots = memory + warp * RING * TENSORS * SLOT_WORDS + threadIdx.x % 32;
        full = barriers + warp * RING;
        room = int(n - team.first < PIECE * PIECES ? n - team.first : PIECE * PIECES);
    }

    // Tensor t: its first row, and from a row to the next one that is wanted, in elements.
    __device__ void tensor(int t, const Team& team, const T* first, i64 stride) {
        from[t] = first + (room > 0 ? team.first : 0);
        by[t] = stride;
    }

    // Asks for the next piece. All lanes have read what lay in its slot. A piece without elements has come at once.
    __device__ void ask() {
        if (left <= 0) return;
        __syncwarp();
        if (threadIdx.x % 32 == 0) {
            int count = FULL ? PIECE : room - piece * PIECE;
            count = count < 0 ? 0 : count < PIECE ? count : PIECE;
            u32 bytes = count * sizeof(T);
            own_expect(full + slot, TENSORS * bytes);
            if (FULL || bytes > 0)
#pragma unroll
                for (int t = 0; t < TENSORS; t++)
                    bulk_load(slots + (slot * TENSORS + t) * SLOT_WORDS, from[t] + piece * PIECE, bytes, full + slot, policy);
        }
        slot = slot + 1 == RING ? 0 : slot + 1;
        if (++piece == PIECES) {
            piece = 0;
            left--;
#pragma unroll
            for (int t = 0; t < TENSORS; t++) from[t] += by[t];
        }
    }

    __device__ void wait(const Cursor& at) const { own_wait(full + at.slot, at.parity); }

    // Vector v of the row whose first piece is in `slot`.
    __device__ Words get(int first, int v, int t) const {
        int at = first + v / PIECE_VECS;
        if (PIECES > 1 && at >= RING) at -= RING;
        return slots[(at * TENSORS + t) * SLOT_WORDS + v % PIECE_VECS * 32];
    }
};

// ---- sums on their way ----

// NS sums, of which SETS are on their way at most. A set is used again when all warps of all blocks have taken it: the users say
// why that is so.
template <int NS, int SETS> struct Channel {
    A parts[2][NS][32];          // of the warps; places past the last are +0
    A ranks[SETS][NS][CLUSTER];  // of the blocks; with one block, what `finish` made of the sums
    u64 ready[SETS];
    u64 gathered[2];
    u32 arrived[2];

    // By all threads, before the block's (or cluster's) barrier.
    __device__ void init() {
        for (int i = threadIdx.x; i < 2 * NS * 32; i += THREADS) (&parts[0][0][0])[i] = 0;
        if (threadIdx.x == 0) {
            for (int i = 0; i < SETS; i++) own_init(&ready[i], 1);
            for (int i = 0; i < 2; i++) own_init(&gathered[i], WARPS);
            arrived[0] = arrived[1] = 0;
        }
    }

    // This warp's part of sum number `turn`. A warp posts turn + 2 only after it has taken `turn`, so two sets of parts do.
    template <class F> __device__ void post(u32 turn, const A (&value)[NS], F finish) {
        int lane = threadIdx.x % 32, warp = threadIdx.x / 32, half = turn & 1, set = turn % SETS;
        u32 before = 0;
        if (lane == 0) {
#pragma unroll
            for (int s = 0; s < NS; s++) parts[half][s][warp] = value[s];
            // The barrier passes the parts on; an atomic with release would wait for all of the thread's stores.
            own_arrive(&gathered[half]);
            before = count_one(&arrived[half]);
        }
        before = __shfl_sync(~0u, before, 0);
        if (before + 1 != (turn / 2 + 1) * WARPS) return;
        // The last of the block: all have arrived before they counted.
        own_wait(&gathered[half], turn / 2 & 1);
        A total[NS];
#pragma unroll
        for (int s = 0; s < NS; s++) {
            total[s] = *(volatile A*)&parts[half][s][lane % PADDED_WARPS];
#pragma unroll
            for (int o = 1; o < PADDED_WARPS; o *= 2) total[s] = total[s] + __shfl_xor_sync(~0u, total[s], o);
        }
        if (CLUSTER == 1) {
            finish(total);
            if (lane == 0) {
#pragma unroll
                for (int s = 0; s < NS; s++) ranks[set][s][0] = total[s];
                own_arrive(&ready[set]);
            }
        } else {
            if (lane == 0) own_expect(&ready[set], NS * CLUSTER * sizeof(A));
#pragma unroll
            for (int s = 0; s < NS; s++)
                if (lane < CLUSTER) send(&ranks[set][s][cluster_rank()], &ready[set], lane, total[s]);
        }
    }

    // Sum number `turn` as `finish` makes it, for all lanes.
    template <class F> __device__ void take(u32 turn, A (&value)[NS], F finish) {
        int lane = threadIdx.x % 32, set = turn % SETS;
        u32 parity = turn / SETS & 1;
        if (CLUSTER == 1) {
            own_wait(&ready[set], parity);
#pragma unroll
            for (int s = 0; s < NS; s++) value[s] = *(volatile A*)&ranks[set][s][0];
        } else {
            barrier_wait(&ready[set], parity);
#pragma unroll
            for (int s = 0; s < NS; s++) {
                value[s] = *(volatile A*)&ranks[set][s][lane % CLUSTER];
#pragma unroll
                for (int o = 1; o < CLUSTER; o *= 2) value[s] = value[s] + __shfl_xor_sync(~0u, value[s], o);
            }
            finish(value);
        }
    }
};

// ---- γ and β of this thread's columns: PARAMS 0 read each time, 1 in registers, 2 in shared memory, all as they are stored; 3 in
// registers, widened ----

template <int KIND> struct Columns {
    static constexpr int EACH = KIND == 2 ? VEC / 4 : 1;                          // words a vector: f32 beside 16 bits has two
    static constexpr int SHARED = PARAMS == 2 && KIND ? VECS * EACH * 32 : 0;     // words of a warp
    Words kept[PARAMS == 1 && KIND ? VECS * EACH : 1];
    A wide[PARAMS == 3 && KIND ? VECS : 1][VEC];
    Words* shared;                                                                // this lane's own places
    const void* from;

    __device__ const Words* place(const Team& team, int v) const {
        typedef typename ParamType<KIND>::type P;
        return (const Words*)((const P*)from + team.at(v));
    }

    __device__ static void widen_words(const Words (&words)[EACH], A (&to)[VEC]) {
        if constexpr (KIND == 1) {
            unpack(words[0], to);
        } else {
#pragma unroll
            for (int i = 0; i < EACH; i++) {
                to[4 * i] = __uint_as_float(words[i].x);
                to[4 * i + 1] = __uint_as_float(words[i].y);
                to[4 * i + 2] = __uint_as_float(words[i].z);
                to[4 * i + 3] = __uint_as_float(words[i].w);
            }
        }
    }

    __device__ Columns(const void* from, const Team& team, i64 n, Words* memory) : from(from) {
        shared = memory + threadIdx.x / 32 * SHARED + threadIdx.x % 32;
        if constexpr (PARAMS != 0 && KIND != 0) {
#pragma unroll
            for (int v = 0; v < VECS; v++) {
                Words words[EACH];
#pragma unroll
                for (int i = 0; i < EACH; i++) {
                    words[i] = FULL || team.at(v) < n ? __ldg(place(team, v) + i) : Words{0, 0, 0, 0};
                    if constexpr (PARAMS == 1) kept[v * EACH + i] = words[i];
                    if constexpr (PARAMS == 2) shared[(v * EACH + i) * 32] = words[i];
                }
                if constexpr (PARAMS == 3) widen_words(words, wide[v]);
            }
        }
    }

    __device__ void get(const Team& team, int v, A absent, A (&to)[VEC]) const {
        if constexpr (KIND == 0) {
#pragma unroll
            for (int j = 0; j < VEC; j++) to[j] = absent;
        } else if constexpr (PARAMS == 3) {
#pragma unroll
            for (int j = 0; j < VEC; j++) to[j] = wide[v][j];
        } else {
            Words words[EACH];
#pragma unroll
            for (int i = 0; i < EACH; i++) {
                if constexpr (PARAMS == 0) words[i] = __ldg(place(team, v) + i);
                if constexpr (PARAMS == 1) words[i] = kept[v * EACH + i];
                if constexpr (PARAMS == 2) words[i] = shared[(v * EACH + i) * 32];
            }
            widen_words(words, to);
        }
    }
};

// After barriers were made by one thread: seen by the copies and by the cluster. Then comes a barrier of all.
__device__ inline void barriers_made() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
