// Messages through global memory between blocks that are resident at the same time but do not form a cluster (TALKING).
// A message is a value and its turn in one 64-bit word, so no other memory ordering is needed.
#pragma once
#include "number.cuh"

#ifndef TALKING
#define TALKING 0
#endif

__device__ inline void leave_message(u64* place, u32 turn, float value) {
    u64 word = u64(turn + 1) << 32 | __float_as_uint(value);
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(place), "l"(word) : "memory");
}

__device__ inline u64 look_at_message(const u64* place) {
    u64 word;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(place) : "memory");
    return word;
}

// Polls until the message of this turn has arrived.
__device__ inline float await_message(const u64* place, u32 turn) {
    u64 word;
    do word = look_at_message(place);
    while (u32(word >> 32) != turn + 1);
    return __uint_as_float(u32(word));
}

// The messages of one team. Zeroed before the launch. The sets are used in rotation.
struct Messages {
    u64 dots[4][2][CLUSTER];
    u64 rare[2][2][CLUSTER];
};
