// A block of a time loop, and what its threads own. In every phase of a step, a block processes up to ITEM chunks of
// sequences; a thread has one unit of one sequence in every share of a chunk.
#define PCOLS (256 / UNITS)
#define COLS (CC < PCOLS ? CC : PCOLS)  // sequences per share
#define CHUNK_SHARES (CC / COLS)
#define SHARES (ITEM * CHUNK_SHARES)
// If a thread has only one sequence, its values are in registers.
#define IN_REGISTERS (SHARES == 1)

struct Block {
    int tid, warp, lane;
    int rank;       // rank in its group
    int b0, count;  // first sequence of the group, and number of sequences
    int u, column, unit;
    bool worker, real;
    float inv_units;
    Patience patience;
    float *parts, *consts, *keeps, *temps;
};

// An unsuccessful poll takes as long as a successful one, and slows down the messages it polls for. So a block that has
// just sent its own message and has nothing else to do first waits for PAUSE cycles.
__device__ __forceinline__ void hold_off() {
    if (IN_REGISTERS && PAUSE > 0) idle(PAUSE);
}
// Rows of a norm whose messages are awaited together: all of them if there are enough registers.
#define TOGETHER(rows) (IN_REGISTERS ? (rows) : 1)

// A thread's sequence in a share of a chunk.
struct Place {
    int b, length;
    bool mine, valid;  // whether the sequence exists; whether it has this step
    long long time;    // time index in x and y
    size_t at;         // row index in [T, B]
};
template <class Args> __device__ __forceinline__ Place place(const Args &a, const Block &k, int step, int share) {
    Place p;
    const int column = share * COLS + k.column;
    p.mine = k.worker && column < k.count;
    p.b = k.b0 + (p.mine ? column : 0);  // any existing sequence, so that its messages can be read
    p.length = p.mine && a.lengths ? a.lengths[p.b] : a.steps;
    p.valid = p.mine && step >= 0 && step < p.length;
    p.time = time_of(step, p.length, a.reverse);
    p.at = size_t(max(step, 0)) * a.batch + p.b;
    return p;
}
template <class Args> __device__ __forceinline__ size_t row_of(const Args &a, const Place &p) {
    return size_t(p.time * a.row_time + p.b * (long long)a.row_batch);
}

// Number of chunks and shares that contain a sequence.
__device__ __forceinline__ int chunks_of(const Block &k) { return ITEM == 1 ? 1 : (k.count + CC - 1) / CC; }
__device__ __forceinline__ int shares_of(const Block &k) { return SHARES == 1 ? 1 : (k.count + COLS - 1) / COLS; }
#define EACH_SHARE(k) for (int share = 0; share < shares_of(k); share++)

// Sets up a block. Shared memory holds, in this order: partial sums, constants, values kept from step to step, values
// passed from phase to phase, and the matrix.
template <class Args> __device__ __forceinline__ Block enter(const Args &a, float *shared, int keeps, int temps, u32 **matrix) {
    Block k;
    k.tid = threadIdx.x, k.warp = k.tid >> 5, k.lane = k.tid & 31;
    k.rank = blockIdx.x % GS;
    k.b0 = a.first + blockIdx.x / GS * a.cols, k.count = min(a.cols, a.end - k.b0);
    k.u = k.tid % UNITS, k.column = k.tid / UNITS, k.unit = k.rank * UNITS + k.u;
    k.worker = k.column < COLS, k.real = H == HP || k.unit < H;
    k.inv_units = 1.0f / max(1, real_units(k.rank));
    k.patience = {a.patience, a.fail};
    k.parts = shared, k.consts = k.parts + TURNS * PARTS_SIZE, k.keeps = k.consts + (4 * G + 2) * UNITS;
    k.temps = k.keeps + keeps * 256, *matrix = (u32 *)(k.temps + temps * 256);
    for (int i = k.tid; i < 4 * G * UNITS; i += 256) {
        int q = i / UNITS, kind = q / G, gate = q % G;
        k.consts[i] = a.consts[kind * GW + gate * HP + k.rank * UNITS + i % UNITS];
    }
    for (int i = k.tid; i < 2 * UNITS; i += 256)
        k.consts[4 * G * UNITS + i] = a.consts[CONST_CELL + (i / UNITS) * HP + k.rank * UNITS + i % UNITS];
    return k;
}
