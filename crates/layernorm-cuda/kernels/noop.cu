// A kernel that does nothing: the least that a launch costs.
struct Params { unsigned long long unused; };

extern "C" __global__ void noop(const __grid_constant__ Params) {}
