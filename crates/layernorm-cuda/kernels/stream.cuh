// Rows that stream through shared memory, and sums over them that are computed asynchronously.
//
// Elements are distributed as in rows.cuh: a warp has a block of 1024 of a row (TEAM = 32), and a row has WARPS warps
// in each of CLUSTER thread blocks.
//
//   Ring     private to a warp: RING slots, each a piece (1/PIECES) of its part of a row, of TENSORS tensors. One lane issues a
//            bulk copy per piece (cp.async.bulk); one barrier per slot signals its arrival. The warp that reads a slot also issues
//            the next copy into it, so a fence and a warp barrier protect it (`release`).
//   Channel  a sum over the row in progress. Each warp posts its part and continues with another row. The last warp to arrive
//            folds the parts (and sends the block's sum to the other blocks). All warps take the sum one pass later.
//   Columns  γ or β of the block's columns, widened once and kept in shared memory.
//
// Order of the sums: chains and the fold of a block of 1024 are those of Team::fold. Warps fold as adjacent pairs,
// padded with +0, then the blocks of the team, which hold powers of two, in the same way. It does not matter which warp
// arrives last, because it reads the parts by index.
#pragma once
#include "stats.cuh"

static_assert(TEAM == 32, "a warp has a block of 1024");
static_assert(VEC == 4, "parameters lie as vectors of four");
static_assert(PIECES == 1 || (STEPS % PIECES == 0 && VECS % PARTS == 0), "a piece is whole steps");

constexpr int PIECE_VECS = VECS / PIECES;
constexpr int SLOT_WORDS = PIECE_VECS * 32;                     // per tensor
constexpr int PIECE = PIECE_VECS * SPREAD;                      // elements per piece
constexpr int HELD_WARPS = THREADS / 32;
constexpr int RING_WORDS = HELD_WARPS * RING * TENSORS * SLOT_WORDS;

// Adds one and returns the previous value. No memory ordering.
__device__ inline u32 count_one(u32* place) {
    u32 before;
    asm volatile("atom.relaxed.cta.shared::cta.add.u32 %0, [%1], 1;" : "=r"(before) : "r"(shared_address(place)) : "memory");
    return before;
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

// Forces the value to be computed here. Otherwise the compiler computes it at the end of the loop and keeps its
// operands alive until then.
__device__ inline void made(A& value) { asm volatile("" : "+f"(value)); }

// ---- a warp's ring ----

// Slots are used in rotation; a barrier changes its parity on every round.
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

// The source of a copy is a function of the row's turn, so that no addresses stay in registers. Pieces go round the
// ring in order: a slot that is released receives the piece RING later.
struct Ring {
    Words* slots;  // this lane's word in the first slot
    u64* full;
    int room;      // elements of a row from the warp's first one on; 0 or less if it has none
    int turns;     // number of rows to load
    u64 policy;
    int next_turn, next_piece;  // for `refill`

    __device__ Ring(Words* memory, u64* barriers, const Team& team, i64 n, int turns) : turns(turns), policy(read_once()), next_turn(RING / PIECES), next_piece(RING % PIECES) {
        int warp = threadIdx.x / 32;
        slots = memory + warp * RING * TENSORS * SLOT_WORDS + threadIdx.x % 32;
        full = barriers + warp * RING;
        room = int(n - team.first < PIECE * PIECES ? n - team.first : PIECE * PIECES);
    }

    // Issues the copies of a piece of the row of a turn, if there is one. `from(t, turn)` is the start of the warp's
    // part of that row of tensor t. A piece without elements is complete at once.
    template <class F> __device__ void ask(int slot, int turn, int piece, F from) {
        if (turn < turns && threadIdx.x % 32 == 0) {
            int count = FULL ? PIECE : room - piece * PIECE;
            count = count < 0 ? 0 : count < PIECE ? count : PIECE;
            u32 bytes = count * sizeof(T);
            own_expect(full + slot, TENSORS * bytes);
            if (FULL || bytes > 0)
#pragma unroll
                for (int t = 0; t < TENSORS; t++)
                    bulk_load(slots + (slot * TENSORS + t) * SLOT_WORDS, from(t, turn) + piece * PIECE, bytes, full + slot, policy);
        }
    }

    // Loads the first rows.
    template <class F> __device__ void start(F from) {
        for (int slot = 0; slot < RING; slot++) ask(slot, slot / PIECES, slot % PIECES, from);
    }

    // Called by all lanes after their last reads of slots that are about to be refilled. Without the fence, copies
    // overtook reads, and rows came out with elements of the team's next row (`layernorm-gpu-bench repeat` detects it):
    // a warp barrier alone does not wait until reads have been performed.
    __device__ static void release() {
        before_copies();
        __syncwarp();
    }

    // Refills the slots from `slot` on that held the whole row of a turn.
    template <class F> __device__ void refill_row(int slot, int turn, F from) {
        if (turn + RING / PIECES >= turns) return;
        release();
#pragma unroll
        for (int i = RING; i < RING + PIECES; i++, slot = slot + 1 == RING ? 0 : slot + 1) ask(slot, turn + i / PIECES, i % PIECES, from);
    }

    // Refills one slot; slots come in order. The position is kept in variables, which takes fewer registers if rows
    // have several pieces.
    template <class F> __device__ void refill(int slot, F from) {
        if (next_turn >= turns) return;
        release();
        ask(slot, next_turn, next_piece, from);
        if (PIECES == 1 || ++next_piece == PIECES) {
            next_piece = 0;
            next_turn++;
        }
    }

    __device__ void wait(const Cursor& at) const { own_wait(full + at.slot, at.parity); }

    // Vector v of the row whose first piece is in slot `first`.
    __device__ Words get(int first, int v, int t) const {
        int at = first + v / PIECE_VECS;
        if (PIECES > 1 && at >= RING) at -= RING;
        return from_slot(slots + (at * TENSORS + t) * SLOT_WORDS + v % PIECE_VECS * 32);
    }
};

// ---- sums in progress ----

// Within a cluster the sum travels as messages to shared memory; between other blocks (TALKING) as messages through
// global memory.
//
// Two sums at once, with at most four sets in flight. A set is reused after all warps of all blocks have taken it; the
// caller must ensure that.
//
// Arriving at a barrier publishes the reads and writes of the arriving thread, not those of its warp. So all lanes of a
// warp arrive: each has read what others overwrite next.
struct Channel {
    static constexpr int NS = 2, SETS = 4;
    A parts[2][NS][PADDED_WARPS];  // of the warps; entries past the last are +0
    // In a cluster, the sums of its blocks; otherwise one entry, the result of `finish`.
    A found[SETS][NS][CLUSTER > 1 && !TALKING ? CLUSTER : 1];
    u64 ready[SETS];
    u64 gathered[2];
    u32 arrived[2];
    // Overwritten only after all warps have the previous sum.
    alignas(16) u64 seen[NS][CLUSTER];

    // Called by all threads before a thread block barrier.
    __device__ void init() {
        for (int i = threadIdx.x; i < 2 * NS * PADDED_WARPS; i += THREADS) (&parts[0][0][0])[i] = 0;
        if (threadIdx.x == 0) {
            for (int i = 0; i < SETS; i++) own_init(&ready[i], TALKING ? 64 : 32);
            for (int i = 0; i < 2; i++) own_init(&gathered[i], 32 * WARPS), arrived[i] = 0;
        }
    }

    __device__ void pass_on(int set, const A (&total)[NS]) {
        if (threadIdx.x % 32 == 0)
#pragma unroll
            for (int s = 0; s < NS; s++) found[set][s][0] = total[s];
        own_arrive(&ready[set]);
    }

    // Posts this warp's part of sum number `turn`; returns whether it was the first to do so. A warp posts turn + 2
    // only after it has taken `turn`, so two sets of parts are enough.
    template <class F> __device__ bool post(u32 turn, const A (&value)[NS], Messages* messages, F finish) {
        int lane = threadIdx.x % 32, half = turn & 1;
        u32 before = 0;
        if (lane == 0)
#pragma unroll
            for (int s = 0; s < NS; s++) parts[half][s][Team::warp()] = value[s];
        // The barrier publishes the parts; an atomic with release semantics would wait for all stores of the thread.
        own_arrive(&gathered[half]);
        if (lane == 0) before = count_one(&arrived[half]);
        before = __shfl_sync(~0u, before, 0) - turn / 2 * WARPS;
        if (before + 1 != WARPS) return before == 0;
        // This warp was the last of the block to count; lanes of others may still be arriving.
        own_wait(&gathered[half], turn / 2 & 1);
        A total[NS];
#pragma unroll
        for (int s = 0; s < NS; s++) {
            total[s] = *(volatile A*)&parts[half][s][lane % PADDED_WARPS];
#pragma unroll
            for (int o = 1; o < PADDED_WARPS; o *= 2) total[s] = total[s] + __shfl_xor_sync(~0u, total[s], o);
        }
        if constexpr (CLUSTER == 1) {
            finish(total);
            pass_on(turn % SETS, total);
        } else if constexpr (!TALKING) {
            int set = turn % SETS;
            if (lane == 0) own_expect(&ready[set], NS * CLUSTER * sizeof(A));
            else own_arrive(&ready[set]);
#pragma unroll
            for (int s = 0; s < NS; s++)
                if (lane < CLUSTER) send(&found[set][s][cluster_rank()], &ready[set], lane, total[s]);
        } else {
            if (lane == 0)
#pragma unroll
                for (int s = 0; s < NS; s++) leave_message(&messages->dots[turn % SETS][s][cluster_rank()], turn, total[s]);
            own_arrive(&ready[turn % SETS]);
        }
        return before == 0;
    }

    // Requests the messages of sum number `turn`, one pass after they were sent and one pass before they are needed.
    // Called by one warp, the first that posted its part.
    __device__ void look(u32 turn, const Messages* messages) {
        int lane = threadIdx.x % 32;
        if (lane < CLUSTER) copy_async(&seen[0][0] + 2 * lane, &messages->dots[turn % SETS][0][0] + 2 * lane, true, 0);
        commit_async();
    }

    // Sum number `turn`, after `finish`, for all lanes. `first`: whether this warp has called `look`.
    template <class F> __device__ void take(u32 turn, bool first, A (&value)[NS], const Messages* messages, F finish) {
        int set = turn % SETS, rank = threadIdx.x % PADDED_CLUSTER;
        if constexpr (CLUSTER > 1 && !TALKING) {
            barrier_wait(&ready[set], turn / SETS & 1);
#pragma unroll
            for (int s = 0; s < NS; s++) {
                value[s] = in_cluster(rank) ? *(volatile A*)&found[set][s][rank] : A(0);
#pragma unroll
                for (int o = 1; o < PADDED_CLUSTER; o *= 2) value[s] = value[s] + __shfl_xor_sync(~0u, value[s], o);
            }
            finish(value);
            return;
        }
        if (first) {
            wait_async<0>();
            __syncwarp();
            A total[NS];
#pragma unroll
            for (int s = 0; s < NS; s++) {
                total[s] = 0;
                if (!in_cluster(rank)) continue;
                u64 word = *(volatile u64*)&seen[s][rank];
                // If a message had not arrived yet, wait for it.
                total[s] = u32(word >> 32) == turn + 1 ? __uint_as_float(u32(word)) : await_message(&messages->dots[set][s][rank], turn);
            }
#pragma unroll
            for (int s = 0; s < NS; s++)
#pragma unroll
                for (int o = 1; o < PADDED_CLUSTER; o *= 2) total[s] = total[s] + __shfl_xor_sync(~0u, total[s], o);
            finish(total);
            pass_on(set, total);
        }
        own_wait(&ready[set], turn / SETS & 1);
#pragma unroll
        for (int s = 0; s < NS; s++) value[s] = *(volatile A*)&found[set][s][0];
    }
};

// ---- γ or β (KIND 0: absent) of the block's columns, as f32 ----

template <int KIND> struct Columns {
    static constexpr int BYTES = KIND ? TEAM_THREADS * VECS * 16 : 0;
    uint4* mine;  // this thread's first entry

    // Corresponding threads of all teams share entries, and the teams divide the loading among them. A thread block
    // barrier must precede `get`.
    __device__ Columns(const void* from, const Team& team, i64 n, void* memory) {
        mine = (uint4*)memory + Team::warp() * VECS * 32 + threadIdx.x % 32;
        if constexpr (KIND != 0)
            for (int v = team.own; v < VECS; v += TEAMS) {
                A wide[VEC];
                load_params<KIND>(from, Span{0, 1}, team.at(v), n, A(0), wide);
                mine[v * 32] = uint4{__float_as_uint(wide[0]), __float_as_uint(wide[1]), __float_as_uint(wide[2]), __float_as_uint(wide[3])};
            }
    }

    __device__ void get(int v, A absent, A (&to)[VEC]) const {
        if constexpr (KIND == 0) {
#pragma unroll
            for (int j = 0; j < VEC; j++) to[j] = absent;
        } else {
            uint4 words = mine[v * 32];
            to[0] = __uint_as_float(words.x);
            to[1] = __uint_as_float(words.y);
            to[2] = __uint_as_float(words.z);
            to[3] = __uint_as_float(words.w);
        }
    }
};
