// Replacements, based on `simt.h`, for the functions with inline PTX of the recurrent cluster kernels; they have the
// same names.
#pragma once
#define __align__(bytes) alignas(bytes)

struct float4 { float x, y, z, w; };
inline float2 make_float2(float x, float y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline float __shfl_sync(unsigned, float value, int lane, int = 32) { return __uint_as_float(simt::exchange(__float_as_uint(value), lane)); }
inline unsigned __shfl_down_sync(unsigned, unsigned, int) { simt::fail("not for these kernels"); return 0; }

inline float exp2_of(float x) { return std::exp2(x); }
inline float inverse_of(float x) { return 1 / x; }
inline void prefetch(const void*) {}
inline uint4 peek4(const void*) { simt::fail("not for these kernels"); return {}; }
inline uint2 peek2(const void*) { simt::fail("not for these kernels"); return {}; }
inline void tell_host(unsigned*) { simt::fail("not for these kernels"); }
inline void send1(void*, unsigned) { simt::fail("not for these kernels"); }
inline void send2(void*, float, float) { simt::fail("not for these kernels"); }
inline void send4(void*, float, float, float, float) { simt::fail("not for these kernels"); }

// A shared memory address: which block's, and the offset.
inline unsigned shared_at(const void* place) {
    size_t at = (const char*)place - simt::shared[simt::self().block].data();
    if (at >= simt::shared[0].size()) simt::fail("an address that is not in shared memory");
    return unsigned(at) | unsigned(simt::self().block) << 24;
}
inline unsigned at_block(unsigned at, int rank) { return (at & 0xffffff) | unsigned(rank) << 24; }
inline char* place_of(unsigned at) { return simt::shared.at(at >> 24).data() + (at & 0xffffff); }
inline int block_of_cluster() { return simt::self().block; }
inline void cluster_barrier() { simt::meet(simt::cluster_meeting, simt::threads * simt::cluster); }

inline void barrier_init(unsigned bar) { simt::barriers[place_of(bar)] = simt::Barrier{1, 1, 0, 0}; }
inline void barrier_expect(unsigned bar, unsigned bytes) {
    simt::Barrier& found = simt::barriers.at(place_of(bar));
    found.bytes += bytes;
    simt::arrive(found);
    simt::settle(found);
}
inline void barrier_arrive(unsigned bar) { barrier_expect(bar, 0); }
inline void barrier_wait(unsigned bar, unsigned parity) {
    while ((simt::barriers.at(place_of(bar)).phase & 1) == parity) simt::yield();
}
template <class V> void post(unsigned to, unsigned bar, V value) {
    if (to % sizeof(V) != 0) simt::fail("a message that is not aligned");
    simt::under_way.push_back([=] {
        memcpy(place_of(to), &value, sizeof value);
        simt::Barrier& found = simt::barriers.at(place_of(bar));
        found.bytes -= sizeof value;
        simt::settle(found);
    });
}
inline void post2(unsigned to, unsigned bar, float a, float b) { post(to, bar, float2{a, b}); }
inline void post4(unsigned to, unsigned bar, uint4 v) { post(to, bar, v); }

// Copies of a thread to its own shared memory; until they have arrived, reads give NaN.
inline std::vector<int> fetching;
inline void fetch(float* to, const float* from) {
    fetching.resize(simt::fibers.size());
    int who = simt::now;
    memset(to, 0xff, 4), fetching[who]++;
    simt::under_way.push_back([=] { *to = *from, fetching[who]--; });
}
inline void await_fetches() {
    while (!fetching.empty() && fetching[simt::now] > 0) simt::yield();
}

// m16n8k16, with the fragments of common.cuh.
inline std::vector<unsigned> fragments;
inline void mma_16(float c[4], const unsigned a[4], unsigned b0, unsigned b1) {
    fragments.resize(simt::fibers.size() * 6);
    int lane = simt::self().thread % 32, g = lane / 4, t = lane % 4;
    unsigned* first = &fragments[(simt::now - lane) * 6];
    for (int i = 0; i < 4; i++) first[lane * 6 + i] = a[i];
    first[lane * 6 + 4] = b0, first[lane * 6 + 5] = b1;
    __syncwarp();
    auto half = [](unsigned word, int e) { return double(__uint_as_float(e ? word & 0xffff0000u : word << 16)); };
    for (int i = 0; i < 4; i++) {
        double sum = c[i];
        for (int word = 0; word < 8; word++) {
            unsigned aw = first[(4 * g + word % 4) * 6 + word / 4 * 2 + i / 2], bw = first[(4 * (2 * t + i % 2) + word % 4) * 6 + 4 + word / 4];
            for (int e = 0; e < 2; e++) sum += half(aw, e) * half(bw, e);
        }
        c[i] = float(sum);
    }
    __syncwarp();
}
