// Bulk copies (cp.async.bulk) and the mbarriers that signal their completion. Compute capability 9.0 and newer.
//
// A bulk copy is not ordered after earlier accesses by threads, not even by the thread that issues it: shared memory is
// accessed through two proxies (PTX: generic and async), and a read may still be queued when a copy issued later
// writes. So memory that threads have read or written is copied to or from only after each of them has called
// `before_copies`, followed by a barrier. In the other direction, `own_wait` is enough.
#pragma once
#include "number.cuh"

__device__ inline u32 shared_address(const void* place) { return u32(__cvta_generic_to_shared(place)); }

// ---- barriers of this block ----

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

// HINT & 1: data that is read once need not stay in L2.
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

// Called by the thread that has initialized barriers: makes them visible to copies and to the cluster. A barrier of all
// threads must follow.
__device__ inline void barriers_made() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// ---- slots that copies fill or drain ----

__device__ inline Words from_slot(const Words* place) { return *place; }
__device__ inline void to_slot(Words* place, const Words& words) { *place = words; }

// Orders this thread's reads and writes of shared memory before the copies that are issued after the barrier that
// follows.
__device__ inline void before_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- from shared to global memory; issued by one thread, one group per copy ----

__device__ inline void bulk_store(void* to, const void* from, u32 bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\ncp.async.bulk.commit_group;" ::"l"(to), "r"(shared_address(from)),
                 "r"(bytes) : "memory");
}
// Waits until all copies except the last LEFT have read their source.
template <int LEFT> __device__ inline void stores_read() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(LEFT) : "memory"); }
