// Compares the results of two calls, in vectors of 16 bytes.
struct Params {
    const uint4* from;
    uint4* first;
    unsigned long long vectors;
    unsigned long long* count;
};

// Keeps the results of the first call.
extern "C" __global__ void keep(const __grid_constant__ Params p) {
    unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < p.vectors; i += step) p.first[i] = p.from[i];
}

// Counts the vectors of a later call that differ in any bit.
extern "C" __global__ void differ(const __grid_constant__ Params p) {
    unsigned long long found = 0, step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < p.vectors; i += step) {
        uint4 a = p.from[i], b = p.first[i];
        found += ((a.x ^ b.x) | (a.y ^ b.y) | (a.z ^ b.z) | (a.w ^ b.w)) != 0;
    }
    if (found) atomicAdd(p.count, found);
}
