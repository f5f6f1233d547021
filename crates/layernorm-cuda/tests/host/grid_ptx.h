// Replacements for the functions with inline PTX in kernels/recurrent/common.cuh.
#pragma once

inline unsigned short bf16_of(float x) {
    unsigned bits = __float_as_uint(x);
    return x != x ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
inline elem narrow(float x) {
#if TYPE == 0
    return x == x ? x : __uint_as_float(0x7fffffffu);
#else
    return bf16_of(x);
#endif
}
inline float of_word(u32 word, int half) { return TYPE == 0 ? __uint_as_float(word) : __uint_as_float(half ? word & 0xffff0000u : word << 16); }

// c += A·B of m16n8, with as many words of k as a fragment has: accumulated in double, rounded once.
inline void mma(float c[4], const u32 a[4], u32 b0, u32 b1) {
    const u32 words[6] = {a[0], a[1], a[2], a[3], b0, b1};
    grid::show(words, 6);
    const int g = own_lane() / 4, t = own_lane() % 4;
    for (int i = 0; i < 4; i++) {
        const int row = g + (i >> 1) * 8, column = 2 * t + (i & 1);
        double sum = c[i];
        for (int k = 0; k < 8; k++)
            for (int e = 0; e < PER_WORD; e++) {
                const u32 x = grid::seen(row % 8 * 4 + k % 4)[row / 8 + k / 4 * 2], y = grid::seen(column * 4 + k % 4)[4 + k / 4];
                sum += double(of_word(x, e)) * of_word(y, e);
            }
        c[i] = float(sum);
    }
}
#if TYPE != 0
inline void mma_16(float c[4], const u32 a[4], u32 b0, u32 b1) { mma(c, a, b0, b1); }
#else
inline void mma_tf32(float c[4], const u32 a[4], u32 b0, u32 b1) {
    const u32 kept = 0xffffe000u, cut[4] = {a[0] & kept, a[1] & kept, a[2] & kept, a[3] & kept};
    mma(c, cut, b0 & kept, b1 & kept);
}
inline void split(u32 x, u32 &high, u32 &low) {
    high = (x + 0x1000u) & 0xffffe000u;
    low = TF32 ? 0 : __float_as_uint(__uint_as_float(x) - __uint_as_float(high));
}
#endif

inline void aligned(const void *p, size_t bytes) {
    if ((size_t)p % bytes) grid::fail("an address that is not aligned");
}
template <class W> W peek(const void *p) {
    aligned(p, sizeof(W));
    return *(const W *)p;
}
inline uint4 peek4(const void *p) { return peek<uint4>(p); }
inline uint2 peek2(const void *p) {
    aligned(p, 8);
    return *(const uint2 *)p;
}
// The words of one message may arrive one after the other.
inline void send1(void *p, u32 a) {
    aligned(p, 4);
    if (grid::self().block == grid::silent) return;
    grid::under_way.push_back([=] { *(u32 *)p = a; });
}
inline u32 message(float x) { return __float_as_uint(x == x ? x : __uint_as_float(0x7fffffffu)); }
inline void send2(void *p, float a, float b) {
    aligned(p, 8);
    send1(p, message(a)), send1((u32 *)p + 1, message(b));
}
inline void tell_host(u32 *to) { *to = 1; }
inline u64 peek_tagged(const u64 *p) { return peek<u64>(p); }
inline void send_tagged(u64 *p, float x, u32 tag) {
    aligned(p, 8);
    if (grid::self().block == grid::silent) return;
    grid::under_way.push_back([=] { *p = u64(tag) << 32 | __float_as_uint(x); });
}

inline u32 shared_address(const void *p) { return (const char *)p - grid::shared[grid::self().block]; }
inline void copy_aside(u32 to, const void *from) {
    char *place = grid::shared[grid::self().block] + to;
    aligned(place, 16), aligned(from, 16);
    // Until the copy has arrived, reads give NaN.
    memset(place, 0xff, 16);
    const int fiber = grid::now;
    const unsigned group = grid::self().group;
    if (grid::chance() % 2) {
        grid::self().late.push_back({group, [=] { memcpy(place, from, 16); }});
        return;
    }
    grid::self().copies[group]++;
    grid::under_way.push_back([=] {
        memcpy(place, from, 16);
        if (--grid::fibers[fiber].copies[group] == 0) grid::fibers[fiber].copies.erase(group);
    });
}
inline void end_group() { grid::self().group++; }
template <int LEFT> void await_groups() {
    auto &late = grid::self().late;
    for (size_t i = 0; i < late.size();)
        if (late[i].first + LEFT < grid::self().group) late[i].second(), late.erase(late.begin() + i);
        else i++;
    auto some = [] {
        for (const auto &group : grid::self().copies)
            if (group.first + LEFT < grid::self().group) return true;
        return false;
    };
    while (some()) grid::yield();
}
inline uint4 load_shared(u32 from) { return peek<uint4>(grid::shared[grid::self().block] + from); }
inline void sync_neighbours(int) { grid::meet(grid::neighbours[grid::now / 64], 64); }
inline float exp2_of(float x) { return std::exp2(x); }
inline float inverse_of(float x) { return 1.0f / x; }
inline void prefetch(const void *) {}
inline void idle(int) { grid::yield(); }
