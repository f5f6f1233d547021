// How a block's product in backward.cu reaches the owners of its rows: the blocks of its team, or the block itself.

#if SPLIT > 1
// A sum and its step are one 64-bit word. A slot is reused two steps later. By then the blocks of the team have read
// it, because what is written depends on dzh that they sent afterwards.
__device__ __forceinline__ u64 *mail_at(const Backward &a, int step, int b, int part, int unit) {
    return a.mail + ((size_t(step & 1) * a.batch + b) * SPLIT + part) * HP + unit;
}
__device__ __forceinline__ void send_sums(const Backward &a, Own &o, int step, int part) {
    const Block &k = o.k;
    const int base = k.rank / SPLIT * ROWS, in_chunk = k.count - part * CC;
#pragma unroll
    for (int id = k.tid; id < ROWS * CC; id += 256) {
        const int row = id % ROWS, column = id / ROWS;
        if (column >= in_chunk) continue;
        float sum[1];
        fold_warps<1>(sum, parts_of(k.parts, part) + column * ROWS_PAD + row);
        send_tagged(mail_at(a, step, k.b0 + part * CC + column, k.rank % SPLIT, base + row), sum[0], step + 1);
    }
}
__device__ __forceinline__ float take_sums(const Backward &a, Own &o, const Place &p, int step, int) {
    u64 word[SPLIT];
    while (true) {
        bool empty = false;
#pragma unroll
        for (int part = 0; part < SPLIT; part++) word[part] = peek_tagged(mail_at(a, step, p.b, part, o.k.unit));
#pragma unroll
        for (int part = 0; part < SPLIT; part++) empty |= p.mine && u32(word[part] >> 32) != u32(step + 1);
        if (!__any_sync(0xffffffffu, empty) || !__all_sync(0xffffffffu, wait_more(o.k.patience))) break;
    }
    float sum[SPLIT];
#pragma unroll
    for (int part = 0; part < SPLIT; part++) sum[part] = __uint_as_float(u32(word[part]));
#pragma unroll
    for (int d = 1; d < SPLIT; d *= 2)
#pragma unroll
        for (int part = 0; part < SPLIT; part += 2 * d) sum[part] = __fadd_rn(sum[part], sum[part + d]);
    return sum[0];
}
#else
// Without teams, the sums are the block's own.
__device__ __forceinline__ void send_sums(const Backward &, Own &o, int, int part) {
    if (!o.k.worker) return;
#pragma unroll
    for (int s = 0; s < CHUNK_SHARES; s++) {
        float sum[1];
        fold_warps<1>(sum, parts_of(o.k.parts, part) + (s * COLS + o.k.column) * ROWS_PAD + o.k.u);
        o.passed(part * CHUNK_SHARES + s, DN) = sum[0];
    }
}
__device__ __forceinline__ float take_sums(const Backward &, Own &o, const Place &, int, int share) { return o.passed(share, DN); }
#endif
