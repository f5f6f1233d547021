// A thread block cluster on the CPU: every thread is a fiber. Warps run in random order and at random speeds; copies
// and messages arrive late, in random order. CUDA's intrinsics are at the end.
#pragma once
#include "bits.h"
#include "fiber.h"
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

#define __device__
#define __forceinline__ inline
#define __global__
#define __grid_constant__
#define __noinline__
#define __launch_bounds__(threads, blocks)
// glibc declares its own `finite`.
#define finite kernel_finite

struct uint2 { unsigned x, y; };
struct uint4 { unsigned x, y, z, w; };
struct float2 { float x, y; };
struct Place { int x; };

namespace simt {

struct Fiber { FiberContext context; std::vector<char> stack; int thread, block; bool done; };
struct Barrier { int arrivals, pending; long bytes; unsigned phase; };
struct Meeting { int arrived = 0; unsigned held = 0; };

constexpr int STATIC = 65536, DYNAMIC = 400000, STACK = 65536;

inline std::vector<Fiber> fibers;
inline int now;
inline FiberContext scheduler;
inline std::mt19937 chance;
inline std::map<const void*, Barrier> barriers;
inline std::vector<std::function<void()>> under_way;
inline std::vector<std::vector<char>> shared;  // per block
inline std::vector<Meeting> warp_meetings, block_meetings, team_meetings;  // teams: 16 per block
inline Meeting cluster_meeting;
inline std::vector<unsigned> deposits;
inline std::vector<char> votes;  // per block
inline std::vector<std::set<const char*>> unfenced;  // per thread: slots that it has accessed since its last fence
inline int threads, cluster, grid, first_block;

inline Fiber& self() { return fibers[now]; }
inline void yield() { self().context.switch_to(scheduler); }
inline int warp() { return self().block * (threads / 32) + self().thread / 32; }

inline void meet(Meeting& meeting, int all) {
    unsigned held = meeting.held;
    if (++meeting.arrived == all) {
        meeting.arrived = 0;
        meeting.held++;
    }
    while (meeting.held == held) yield();
}

inline unsigned exchange(unsigned value, int from) {
    Meeting& meeting = warp_meetings[warp()];
    int base = now - self().thread % 32;
    deposits[now] = value;
    meet(meeting, 32);
    unsigned other = deposits[base + from];
    meet(meeting, 32);
    return other;
}

inline void fail(const char* why) {
    puts(why);
    exit(2);
}

inline void arrive(Barrier& barrier) {
    if (--barrier.pending < 0) fail("one arrival too many");
}
inline void settle(Barrier& barrier) {
    if (barrier.pending != 0 || barrier.bytes != 0) return;
    barrier.pending = barrier.arrivals;
    barrier.phase++;
}

// The corresponding address in another block's shared memory.
template <class P> P* of_block(P* place, int block) {
    return (P*)((char*)place - shared[self().block].data() + shared[block].data());
}

inline void prepare(int total, void (*entry)()) {
    barriers.clear();
    under_way.clear();
    shared.assign(cluster, std::vector<char>(STATIC + DYNAMIC, 0x7f));
    warp_meetings.assign(total / 32, Meeting());
    block_meetings.assign(cluster, Meeting());
    team_meetings.assign(16 * cluster, Meeting());
    cluster_meeting = Meeting();
    deposits.assign(total, 0);
    votes.assign(cluster, 0);
    unfenced.assign(total, {});
    fibers.resize(total);
    for (int i = 0; i < total; i++) {
        Fiber& fiber = fibers[i];
        fiber.stack.resize(STACK);
        fiber.thread = i % threads;
        fiber.block = i / threads;
        fiber.done = false;
        fiber.context.start(fiber.stack.data(), STACK, entry);
    }
}

// Runs the cluster whose first block is `first`.
inline void run(int first, void (*entry)()) {
    int total = threads * cluster, warps = total / 32, left = total;
    first_block = first;
    prepare(total, entry);
    std::vector<int> slowness(warps, 1);
    for (long idle = 0; left > 0;) {
        if (chance() % 512 == 0)
            for (int& slow : slowness) slow = chance() % 16 == 0 ? 60 : 1 + chance() % 8;
        int warp = chance() % warps;
        if (chance() % slowness[warp] == 0)
            for (int i = 32 * warp; i < 32 * warp + 32; i++) {
                if (fibers[i].done) continue;
                now = i;
                scheduler.switch_to(fibers[i].context);
                left -= fibers[i].done;
            }
        if (!under_way.empty() && chance() % 4 == 0) {
            int which = chance() % under_way.size();
            auto arrival = under_way[which];
            under_way.erase(under_way.begin() + which);
            arrival();
            idle = 0;
        }
        if (++idle > 20000000) fail("nothing goes on");
    }
    if (!under_way.empty()) fail("a copy or message came after the end");
}

}  // namespace simt

#define threadIdx (Place{simt::self().thread})
#define blockIdx (Place{simt::first_block + simt::self().block})
#define gridDim (Place{simt::grid})

inline double __hiloint2double(int high, int low) { return bits_as<double>((unsigned long long)(unsigned)high << 32 | (unsigned)low); }
inline int __double2hiint(double x) { return int(bits_as<unsigned long long>(x) >> 32); }
inline float __shfl_xor_sync(unsigned, float value, int o) {
    return __uint_as_float(simt::exchange(__float_as_uint(value), (simt::self().thread % 32) ^ o));
}
inline unsigned __shfl_sync(unsigned, unsigned value, int lane) { return simt::exchange(value, lane); }
inline void __syncwarp() { simt::meet(simt::warp_meetings[simt::warp()], 32); }
inline void __syncthreads() { simt::meet(simt::block_meetings[simt::self().block], simt::threads); }
inline bool __any_sync(unsigned, bool wanted) {
    bool any = false;
    for (int lane = 0; lane < 32; lane++) any |= simt::exchange(wanted, lane) != 0;
    return any;
}
inline bool __syncthreads_or(bool wanted) {
    simt::Meeting& meeting = simt::block_meetings[simt::self().block];
    simt::votes[simt::self().block] |= wanted;
    simt::meet(meeting, simt::threads);
    bool any = simt::votes[simt::self().block];
    simt::meet(meeting, simt::threads);
    simt::votes[simt::self().block] = false;
    simt::meet(meeting, simt::threads);
    return any;
}
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline double __dsqrt_rn(double x) { return std::sqrt(x); }
template <class W> W __ldg(const W* place) { return *place; }
template <class W> W __ldcg(const W* place) { return *place; }
template <class W> void __stcs(W* place, W value) { *place = value; }
// Rounds to nearest even.
inline unsigned short bf16_of(float x) {
    unsigned bits = __float_as_uint(x);
    return x != x ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
