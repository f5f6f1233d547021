// A kernel that does nothing: measures the launch overhead.
struct Params { unsigned long long unused; };

extern "C" __global__ void noop(const __grid_constant__ Params) {}
