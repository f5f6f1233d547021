// A grid of simultaneously resident blocks on the CPU: every thread is a fiber. Warps run in random order and at random
// speeds. Messages between blocks and asynchronous copies arrive late and in random order. The replacements for the
// inline PTX of kernels/recurrent are at the end.
#pragma once
#include "bits.h"
#include "fiber.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <vector>

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(threads, blocks)
using std::max;
using std::min;

struct uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(16) float4 { float x, y, z, w; };
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

namespace grid {

constexpr int THREADS = 256, STACK = 49152, GUARD = 64;
struct Index { unsigned x; };
struct Meeting { int arrived = 0; unsigned held = 0; };
// What a lane shows to the others of its warp. Double-buffered, so that one barrier per exchange is enough.
struct Deposit { unsigned words[2][6]; };
struct Fiber {
    FiberContext context;
    std::vector<char> stack;
    int thread, block;
    bool done;
    unsigned exchanges, group;
    std::map<unsigned, int> copies;                                // in flight, per group
    std::vector<std::pair<unsigned, std::function<void()>>> late;  // copies that arrive only when they are awaited
    Deposit deposit;
};

inline std::vector<Fiber> fibers;
inline int now, blocks, silent = -1;  // messages of the silent block never arrive
inline FiberContext scheduler;
inline std::mt19937 chance;
inline std::vector<std::function<void()>> under_way;
inline std::vector<char *> shared;  // per block
inline std::vector<Meeting> warps, neighbours, all;

inline Fiber &self() { return fibers[now]; }
inline void yield() { self().context.switch_to(scheduler); }
inline void fail(const char *why) {
    puts(why);
    exit(2);
}
inline void meet(Meeting &meeting, int count) {
    const unsigned held = meeting.held;
    if (++meeting.arrived == count) meeting.arrived = 0, meeting.held++;
    while (meeting.held == held) yield();
}
// Shows words to the warp; afterwards `seen(lane)` returns those of another lane.
inline unsigned turn;
inline void show(const unsigned *words, int count) {
    Fiber &me = self();
    memcpy(me.deposit.words[me.exchanges & 1], words, count * 4);
    meet(warps[now / 32], 32);
    turn = me.exchanges++ & 1;
}
inline const unsigned *seen(int lane) { return fibers[now / 32 * 32 + lane].deposit.words[turn]; }

// Runs `entry` in every thread of `count` blocks with `bytes` of shared memory, and checks that nothing past its end is
// written.
inline void run(int count, size_t bytes, void (*entry)()) {
    blocks = count;
    under_way.clear();
    shared.clear();
    for (int i = 0; i < count; i++) {
        shared.push_back((char *)aligned_alloc(128, (bytes + GUARD + 127) / 128 * 128));
        memset(shared[i], 0x7f, bytes + GUARD);
    }
    const int total = count * THREADS;
    warps.assign(total / 32, Meeting()), neighbours.assign(total / 64, Meeting()), all.assign(count, Meeting());
    fibers.resize(total);
    for (int i = 0; i < total; i++) {
        Fiber &f = fibers[i];
        f.stack.resize(STACK);
        f.thread = i % THREADS, f.block = i / THREADS, f.done = false, f.exchanges = 0, f.group = 0;
        f.copies.clear(), f.late.clear();
        f.context.start(f.stack.data(), STACK, entry);
    }
    std::vector<int> slowness(total / 32, 1);
    for (int left = total; left > 0;) {
        if (chance() % 4096 == 0)
            for (int &slow : slowness) slow = chance() % 16 == 0 ? 40 : 1 + chance() % 4;
        const int warp = chance() % (total / 32);
        if (chance() % slowness[warp] == 0)
            for (int i = 32 * warp; i < 32 * warp + 32; i++) {
                if (fibers[i].done) continue;
                now = i;
                scheduler.switch_to(fibers[i].context);
                left -= fibers[i].done;
            }
        for (int n = chance() % 64; n > 0 && !under_way.empty(); n--) {
            const int which = chance() % under_way.size();
            std::swap(under_way[which], under_way.back());
            const auto arrival = under_way.back();
            under_way.pop_back();
            arrival();
        }
    }
    for (const auto &arrival : under_way) arrival();
    for (char *memory : shared) {
        for (int i = 0; i < GUARD; i++)
            if (memory[bytes + i] != 0x7f) fail("shared memory was written beyond its end");
        free(memory);
    }
}
inline void leave() {
    self().done = true;
    yield();
}

}  // namespace grid

#define threadIdx (grid::Index{unsigned(grid::self().thread)})
#define blockIdx (grid::Index{unsigned(grid::self().block)})
#define blockDim (grid::Index{1})
#define gridDim (grid::Index{1})

template <class W> W exchanged(W value, int from) {
    const unsigned word = bits_as<unsigned>(value);
    grid::show(&word, 1);
    return bits_as<W>(*grid::seen(from));
}
inline int own_lane() { return grid::self().thread % 32; }
template <class W> W __shfl_xor_sync(unsigned, W value, int d) { return exchanged(value, own_lane() ^ d); }
template <class W> W __shfl_down_sync(unsigned, W value, int d) { return exchanged(value, min(31, own_lane() + d)); }
template <class W> W __shfl_sync(unsigned, W value, int lane, int width) { return exchanged(value, (own_lane() & ~(width - 1)) + lane); }
inline bool __any_sync(unsigned, bool is) {
    const unsigned word = is;
    grid::show(&word, 1);
    bool any = false;
    for (int lane = 0; lane < 32; lane++) any |= *grid::seen(lane) != 0;
    return any;
}
inline bool __all_sync(unsigned mask, bool is) { return !__any_sync(mask, !is); }
inline void __syncwarp() { grid::show(nullptr, 0); }
inline void __syncthreads() { grid::meet(grid::all[grid::self().block], grid::THREADS); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
template <class W> W __ldcg(const W *place) { return *place; }
