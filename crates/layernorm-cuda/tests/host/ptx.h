// Replacements, based on `simt.h`, for the kernels' functions with inline PTX; they have the same names.
#pragma once

inline u32 cluster_rank() { return simt::self().block; }
#ifdef WARPS
inline void team_sync(int own) { simt::meet(simt::team_meetings[16 * simt::self().block + own], 32 * WARPS); }
#endif
inline void cluster_sync() { simt::meet(simt::cluster_meeting, simt::threads * simt::cluster); }
inline void cluster_arrive() {}
inline void cluster_wait() { cluster_sync(); }
// Copies that a thread awaits itself; done immediately.
inline void copy_async(void* to, const void* from, bool valid, u32) {
    if ((size_t)to % 16 != 0 || (valid && (size_t)from % 16 != 0)) simt::fail("a copy that is not aligned");
    if (valid) memcpy(to, from, 16);
    else memset(to, 0, 16);
}
inline void commit_async() {}
template <int LEFT> void wait_async() {}
inline void own_init(u64* barrier, u32 arrivals) { simt::barriers[barrier] = simt::Barrier{int(arrivals), int(arrivals), 0, 0}; }
inline void own_expect(u64* barrier, u32 bytes) {
    simt::Barrier& found = simt::barriers.at(barrier);
    found.bytes += bytes;
    simt::arrive(found);
    simt::settle(found);
}
inline void own_arrive(u64* barrier) { own_expect(barrier, 0); }
inline void own_wait(u64* barrier, u32 parity) {
    while ((simt::barriers.at(barrier).phase & 1) == parity) simt::yield();
}
inline void barrier_init(u64* barrier) { own_init(barrier, 1); }
inline void barrier_expect(u64* barrier, u32 bytes) { own_expect(barrier, bytes); }
inline void barrier_wait(u64* barrier, u32 parity) { own_wait(barrier, parity); }
inline void come(u64* barrier, u32 bytes) {
    simt::Barrier& found = simt::barriers.at(barrier);
    found.bytes -= bytes;
    simt::settle(found);
}
inline void send(A* place, u64* barrier, u32 rank, A value) {
    A* to = simt::of_block(place, rank);
    u64* counted = simt::of_block(barrier, rank);
    simt::under_way.push_back([=] {
        *to = value;
        come(counted, sizeof(A));
    });
}
// A copy must follow the fences of all threads that have used its slot, or it may overtake a read. Here no copy
// overtakes, so the rule itself is checked.
inline Words from_slot(const Words* place) {
    simt::unfenced[simt::now].insert((const char*)place);
    return *place;
}
inline void to_slot(Words* place, const Words& words) {
    simt::unfenced[simt::now].insert((const char*)place);
    *place = words;
}
inline void before_copies() { simt::unfenced[simt::now].clear(); }
inline void check_fences(const void* place, u32 bytes) {
    for (auto& used : simt::unfenced) {
        auto found = used.lower_bound((const char*)place);
        if (found != used.end() && *found < (const char*)place + bytes) simt::fail("a copy from or to a place that was used without a fence");
    }
}
inline void bulk_load(void* to, const void* from, u32 bytes, u64* barrier, u64) {
    check_fences(to, bytes);
    if ((size_t)from % 16 != 0 || (size_t)to % 16 != 0 || bytes % 16 != 0) simt::fail("a bulk copy that is not aligned");
    // Until the copy has arrived, reads give NaN.
    memset(to, 0xff, bytes);
    simt::under_way.push_back([=] {
        memcpy(to, from, bytes);
        come(barrier, bytes);
    });
}
// A message becomes visible some time after it was sent.
inline void leave_message(u64* place, u32 turn, float value) {
    u64 word = u64(turn + 1) << 32 | __float_as_uint(value);
    simt::under_way.push_back([=] { *place = word; });
}
inline u64 look_at_message(const u64* place) {
    simt::yield();
    return *place;
}
// The source must stay unchanged until the copy has read it, which happens some time later.
inline std::map<int, std::vector<std::shared_ptr<bool>>> stores;  // per thread, in order
inline void bulk_store(void* to, const void* from, u32 bytes) {
    check_fences(from, bytes);
    if ((size_t)from % 16 != 0 || (size_t)to % 16 != 0 || bytes % 16 != 0) simt::fail("a bulk copy that is not aligned");
    auto read = std::make_shared<bool>(false);
    stores[simt::now].push_back(read);
    simt::under_way.push_back([=] {
        memcpy(to, from, bytes);
        *read = true;
    });
}
template <int LEFT> void stores_read() {
    auto& mine = stores[simt::now];
    for (size_t i = 0; i + LEFT < mine.size(); i++)
        while (!*mine[i]) simt::yield();
}
inline u32 count_one(u32* place) { return (*place)++; }
inline u64 read_once() { return 0; }
inline void barriers_made() {}
inline void made(A&) {}
inline u32 block_rank() { return cluster_rank(); }
inline void blocks_started() { cluster_sync(); }
inline void blocks_meet() { cluster_sync(); }
inline void put(A* place, A value) { *simt::of_block(place, 0) = value; }
