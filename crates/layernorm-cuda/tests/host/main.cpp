// Runs a kernel over some rows and compares bit for bit with a literal implementation of rules 2 to 6 of NUMERICS.md.
//
//   program N ROWS TEAMS OVERFLOW SEED      TEAMS: blocks or clusters of the grid
//
// HELD: rows in registers. EACH: one thread per row. LANES: one thread per lane of the sum. BACK: backward. DOWN: only
// the sums for γ and β, with CHUNKS chunks per warp, or with CHUNK_A_BLOCK one chunk per block.
#include "simt.h"
#if defined(CHUNK_A_BLOCK)
#include "down_chunk.cu"
#elif defined(DOWN)
#include "down.cu"
#elif defined(EACH)
#include "each_forward.cu"
#elif defined(LANES) && defined(BACK)
#include "lanes_backward.cu"
#elif defined(LANES)
#include "lanes_forward.cu"
#elif defined(HELD) && defined(BACK)
#include "backward.cu"
#elif defined(HELD)
#include "forward.cu"
#elif defined(BACK)
#include "stream_backward.cu"
#else
#include "stream_forward.cu"
#endif

#if defined(EACH)
struct Messages {};
constexpr bool TAKES_SUMS = false;
#elif defined(LANES)
constexpr bool TAKES_SUMS = false;
struct Messages {};
#elif defined(HELD)
constexpr bool TAKES_SUMS = SUMS;
#else
constexpr bool TAKES_SUMS = true;
#endif

static Params params;
static void entry() {
#if defined(DOWN)
    down(params);
#elif defined(BACK)
    backward(params);
#else
    forward(params);
#endif
    simt::self().done = true;
    simt::yield();
}

// ---- the rules ----

// Rule 2. `step(i, lane)` adds element i to its lane.
template <class F> float canonical(long n, F step) {
    long blocks = (n + 1023) / 1024, padded = 1;
    while (padded < blocks) padded *= 2;
    std::vector<float> sums(padded, 0.0f);
    for (long block = 0; block < blocks; block++) {
        float lane[256] = {};
        for (long i = block * 1024; i < n && i < (block + 1) * 1024; i++) lane[i % 256] = step(i, lane[i % 256]);
        for (int s = 128; s > 0; s /= 2)
            for (int l = 0; l < s; l++) lane[l] = lane[l] + lane[l + s];
        sums[block] = lane[0];
    }
    for (; padded > 1; padded /= 2)
        for (long i = 0; i < padded / 2; i++) sums[i] = sums[2 * i] + sums[2 * i + 1];
    return sums[0];
}

static float scaled(float x, int power) { return float(std::ldexp(double(x), power)); }
static int power_of(float most) { return most == 0 ? 0 : -std::ilogb(most); }

struct Rule3 { float m, delta, r; };

template <class X> Rule3 rule_3(long n, float eps, X x, float& variance) {
    Rule3 found = {0, 0, 0};
    float v;
    if (CENTERED) {
        found.m = canonical(n, [&](long i, float lane) { return lane + x(i); }) / float(n);
        auto d = [&](long i) { return x(i) - found.m; };
        found.delta = canonical(n, [&](long i, float lane) { return lane + d(i); }) / float(n);
        v = canonical(n, [&](long i, float lane) { return std::fma(d(i), d(i), lane); }) / float(n);
        v = std::fma(-found.delta, found.delta, v);
        if (v < 0) v = 0;
    } else {
        v = canonical(n, [&](long i, float lane) { return std::fma(x(i), x(i), lane); }) / float(n);
    }
    variance = v + eps;
    found.r = 1.0f / std::sqrt(variance);
    return found;
}

// Rule 6: whether a row is extreme in forward, and whether its r says so.
static bool extreme(float variance) { return !std::isfinite(variance) || variance < 0x1p-64f; }
static bool says_so(float r, float eps) { return r < 0x1p-64f || (eps < 0x1p-64f && r > 0x1p32f); }

// Rule 6, forward: the statistics of the scaled row, and the exponent of the scaling.
template <class X> Rule3 rule_6(long n, float eps, X x, int& power) {
    float most = 0, variance;
    power = 0;
    for (long i = 0; i < n; i++) {
        if (!std::isfinite(x(i))) return {NAN, NAN, NAN};
        most = std::max(most, std::fabs(x(i)));
    }
    bool constant = CENTERED;
    for (long i = 0; i < n; i++) constant = constant && x(i) == x(0);
    if (constant) return {x(0) + 0.0f, 0, 1.0f / std::sqrt(eps)};
    power = power_of(most);
    while (eps > 0 && power > 0 && std::ldexp(double(eps), 2 * power) >= 4) power--;
    float small = scaled(eps, 2 * power);
    if (power < 0 && eps > 0 && small < 0x1p-126f) small = 0x1p-126f;
    return rule_3(n, small, [&](long i) { return scaled(x(i), power); }, variance);
}

// ---- tensors ----

// One thread per row requires contiguous rows.
#if defined(EACH)
constexpr long GAP = 0;
#else
constexpr long GAP = 8;
#endif

struct Tensor {
    std::vector<T> all;
    T* first;
    long stride;
    Tensor(long rows, long n) : all(rows * (n + GAP) + 16), stride(n + GAP) {
        memset((void*)all.data(), 0xff, all.size() * sizeof(T));
        first = (T*)(((size_t)all.data() + 15) / 16 * 16);
    }
    T& at(long row, long i) { return first[row * stride + i]; }
    float get(long row, long i) { return widen(at(row, i)); }
};

// Small rows, and constant ones if there is an ε.
static void make_small(long row, bool constant, float& v, float& d) {
    switch (row % 9) {
        case 1: v = 1e-25f * v; break;
        case 2: v = 1e-42f * (1 + v); break;
        case 3: v = constant ? 0 : 1e-30f * v; break;
        case 4: v = constant ? -1e-30f : 1e-20f * v; break;
        case 5: v = 1e-18f * (1 + v); break;
        case 6: v = constant ? 0.1f : v; break;
        case 7: v = 1e-38f * v, d = 1e-30f * (1 + d); break;
        case 8: v = constant ? -0.0f : 1e-10f * v; break;
        default: break;
    }
}

// `overflow`: 0 plain rows; 1 also hard ones; 2 rows whose sums down the columns overflow, without NaN; 3 small rows,
// with the smallest ε; 4 small rows without ε.
static void fill(Tensor& x, Tensor& dy, long rows, long n, int overflow) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (long row = 0; row < rows; row++)
        for (long i = 0; i < n; i++) {
            float v = normal(random), d = normal(random);
            if (overflow > 2) make_small(row, overflow == 3, v, d);
            switch (overflow == 1 || overflow == 2 ? row % 9 : 0) {
                case 1: v = 1e37f * (1 + 2 * v); break;
                case 2: v = i % 2 ? 3e38f : -3e38f; break;
                case 3: v = i == n / 2 && overflow == 1 ? NAN : v; break;
                case 4: v = -3e37f; break;
                case 8: v = d = -0.0f; break;
                case 5: d = (overflow == 1 ? 2e36f : i % 3 ? 1.5e38f : 2e36f) * (1 + d / 8); break;
                case 6: v = 1e6f + v; break;
                case 7: v = 1e37f * v, d = 1e36f * (1 + d); break;
                default: break;
            }
            narrow(v, x.at(row, i));
            narrow(d, dy.at(row, i));
        }
}

static long wrong;
static void expect(const char* what, long row, long i, float found, float wanted) {
    bool same = (found != found && wanted != wanted) || __float_as_uint(found) == __float_as_uint(wanted);
    if (!same && wrong++ < 5) printf("%s of row %ld, element %ld: %.9g, expected %.9g\n", what, row, i, found, wanted);
}
static float rounded(float x) {
    T to;
    narrow(x, to);
    return widen(to);
}

struct Rows {
    long n, rows;
    Tensor x, dy, out, params;
    std::vector<float> m, delta, r;
    std::vector<Rule3> saved, used;
    std::vector<int> powers;
    float eps;
    Count count;

    Rows(long n, long rows, int overflow)
        : n(n), rows(rows), x(rows, n), dy(rows, n), out(rows, n), params(2, n), m(rows, -7.0f), delta(rows, -7.0f), r(rows, -7.0f), powers(rows) {
        eps = overflow == 3 ? 0x1p-149f : overflow == 4 ? 0 : 1e-5f;
        fill(x, dy, rows, n, overflow);
        std::mt19937 random(8);
        std::normal_distribution<float> normal;
        for (long i = 0; i < n; i++) {
            narrow(1 + 0.3f * normal(random), params.at(0, i));
            narrow(normal(random), params.at(1, i));
        }
        count = Count{float(n), (n & (n - 1)) == 0 ? 1.0f / n : 0.0f};
        for (long row = 0; row < rows; row++) {
            float variance;
            auto at = [&](long i) { return x.get(row, i); };
            Rule3 found = rule_3(n, eps, at, variance), kept = found;
            if (extreme(variance)) {
                found = rule_6(n, eps, at, powers[row]);
                kept = {scaled(found.m, -powers[row]), scaled(found.delta, -powers[row]), scaled(found.r, powers[row])};
            }
            used.push_back(found);
            saved.push_back(kept);
        }
    }
    float gain(long i) { return GAIN ? params.get(0, i) : 1.0f; }
    float bias(long i) { return BIAS ? params.get(1, i) : -0.0f; }
};

#if defined(DOWN)
// Rule 5 down a column, of a(row)·b(row).
template <class F, class G> float sum_of_column(long rows, F a, G b) {
    long chunks = (rows + CHUNK - 1) / CHUNK, padded = 1;
    while (padded < chunks) padded *= 2;
    std::vector<float> sums(padded, 0.0f);
    for (long row = 0; row < rows; row++) sums[row / CHUNK] = std::fma(a(row), b(row), sums[row / CHUNK]);
    for (; padded > 1; padded /= 2)
        for (long i = 0; i < padded / 2; i++) sums[i] = sums[2 * i] + sums[2 * i + 1];
    return sums[0];
}

// The same with rule 6.
template <class F, class G> float column(long rows, F a, G b) {
    float plain = sum_of_column(rows, a, b), most = 0;
    for (long row = 0; row < rows; row++) {
        if (!std::isfinite(a(row)) || !std::isfinite(b(row))) return plain;
        most = std::max(most, std::fabs(a(row)));
    }
    if (std::isfinite(plain)) return plain;
    int j = power_of(most);
    return scaled(sum_of_column(rows, [&](long row) { return scaled(a(row), j); }, b), -j);
}

static void check(Rows& it, int) {
    std::vector<Line> lines(it.rows);
    Tensor gradients(2, it.n);
    for (long row = 0; row < it.rows; row++) {
        it.m[row] = it.saved[row].m;
        it.delta[row] = it.saved[row].delta;
        it.r[row] = it.saved[row].r;
        if (says_so(it.r[row], it.eps)) lines[row] = Line{it.used[row].m, it.used[row].delta, it.used[row].r, it.powers[row]};
    }
    bool centered = CENTERED;
    params = Params{{it.x.first, it.dy.first, it.rows, it.n, 1, it.x.stride, 1, 0, it.dy.stride, 1, 0, centered ? it.m.data() : nullptr,
                     centered ? it.delta.data() : nullptr, it.r.data(), 1, 0, lines.data(), it.eps},
                    CHUNKS, &gradients.at(0, 0), &gradients.at(1, 0)};
    long tiles = (it.n + TILE - 1) / TILE;
    simt::grid = tiles * CLUSTER;
    for (long tile = 0; tile < tiles; tile++) simt::run(tile * CLUSTER, entry);
    for (long i = 0; i < it.n; i++) {
        auto dy = [&](long row) { return it.dy.get(row, i); };
        auto x_hat = [&](long row) {
            bool other = says_so(it.r[row], it.eps);
            Rule3 stat = other ? it.used[row] : it.saved[row];
            return ((scaled(it.x.get(row, i), other ? it.powers[row] : 0) - stat.m) - stat.delta) * stat.r;
        };
        expect("dgamma", 0, i, gradients.get(0, i), rounded(column(it.rows, dy, x_hat)));
        expect("dbeta", 0, i, gradients.get(1, i), rounded(column(it.rows, dy, [](long) { return 1.0f; })));
    }
}
#elif !defined(BACK)
static void check(Rows& it, int teams) {
    params = Params{it.x.first, nullptr, nullptr, it.out.first, it.params.first, &it.params.at(1, 0), it.m.data(), it.delta.data(), it.r.data(),
                    it.rows, it.n, it.x.stride, 0, 0, it.out.stride, 1, 1, it.count, it.eps};
    simt::grid = teams * CLUSTER;
    for (int team = 0; team < teams; team++) simt::run(team * CLUSTER, entry);
    for (long row = 0; row < it.rows; row++) {
        expect("m", row, 0, it.m[row], it.saved[row].m);
        expect("delta", row, 0, it.delta[row], it.saved[row].delta);
        expect("r", row, 0, it.r[row], it.saved[row].r);
        Rule3 used = it.used[row];
        for (long i = 0; i < it.n; i++) {
            float x_hat = ((scaled(it.x.get(row, i), it.powers[row]) - used.m) - used.delta) * used.r;
            expect("y", row, i, it.out.get(row, i), rounded(std::fma(x_hat, it.gain(i), it.bias(i))));
        }
    }
}
#else
// Rules 4 to 6 of a row; adds its dy and dy·x̂ to the sums.
static void check_row(Rows& it, const std::vector<Line>& lines, long row, std::vector<float>& gain_sum, std::vector<float>& bias_sum) {
    Rule3 stat = it.saved[row];
    int k = 0, j = 0, l = 0;
    float a, b;
    auto x_hat = [&](long i) { return ((scaled(it.x.get(row, i), k) - stat.m) - stat.delta) * stat.r; };
    auto g = [&](long i) { return scaled(it.dy.get(row, i), j) * scaled(it.gain(i), l); };
    auto means = [&] {
        a = CENTERED ? canonical(it.n, [&](long i, float lane) { return lane + g(i); }) / float(it.n) : 0.0f;
        b = canonical(it.n, [&](long i, float lane) { return std::fma(g(i), x_hat(i), lane); }) / float(it.n);
    };
    means();
    bool other = says_so(stat.r, it.eps);
    if (other || !std::isfinite(a + b)) {
        if (other) {
            stat = it.used[row];
            k = it.powers[row];
            expect("m of the scaled row", row, 0, lines[row].m, stat.m);
            expect("its power", row, 0, lines[row].k, k);
        }
        float most_dy = 0, most_gain = 0;
        for (long i = 0; i < it.n; i++) {
            most_dy = std::max(most_dy, std::fabs(it.dy.get(row, i)));
            most_gain = std::max(most_gain, std::fabs(it.gain(i)));
        }
        j = power_of(most_dy);
        l = power_of(most_gain);
        means();
    }
    for (long i = 0; i < it.n; i++) {
        float dx = scaled(stat.r * std::fma(-x_hat(i), b, g(i) - a), k - j - l);
        expect("dx", row, i, it.out.get(row, i), rounded(dx));
        gain_sum[i] = std::fma(it.dy.get(row, i), x_hat(i), gain_sum[i]);
        bias_sum[i] = bias_sum[i] + it.dy.get(row, i);
    }
}

// Teams that share a warp fold their chunks.
constexpr int FOLDED = TAKES_SUMS ? 32 / TEAM : 1;

static void check(Rows& it, int teams) {
    constexpr int CHUNK = 64;
    long n = it.n, chunks = (it.rows + CHUNK - 1) / CHUNK, parts = (chunks + FOLDED - 1) / FOLDED;
#ifdef LANES
    long groups = teams;
#else
    // There are fewer teams of several blocks than chunks, so they loop over chunks.
    long groups = !TAKES_SUMS ? teams : TALKING ? (chunks + 2) / 3 : (chunks + TEAMS - 1) / TEAMS;
#endif
    std::vector<float> sums(2 * parts * n, -7.0f);
    std::vector<Line> lines(it.rows);
    std::vector<Messages> messages(groups, Messages{});
    for (long row = 0; row < it.rows; row++) {
        it.m[row] = it.saved[row].m;
        it.delta[row] = it.saved[row].delta;
        it.r[row] = it.saved[row].r;
    }
    params = Params{it.x.first, it.dy.first, nullptr, it.out.first, it.params.first, it.m.data(), it.delta.data(), it.r.data(), sums.data(), lines.data(), messages.data(),
                    it.rows, n, parts, it.x.stride, it.dy.stride, 0, it.out.stride, 1, 1, it.count, it.eps};
    simt::grid = groups * CLUSTER;
    for (long group = 0; group < groups; group++) simt::run(group * CLUSTER, entry);
    for (long part = 0; part < parts; part++) {
        std::vector<std::vector<float>> gain_sums(FOLDED, std::vector<float>(n, 0.0f)), bias_sums = gain_sums;
        for (long row = part * FOLDED * CHUNK; row < it.rows && row < (part + 1) * FOLDED * CHUNK; row++)
            check_row(it, lines, row, gain_sums[row / CHUNK % FOLDED], bias_sums[row / CHUNK % FOLDED]);
        for (int w = 1; w < FOLDED; w *= 2)
            for (int at = 0; at < FOLDED; at += 2 * w)
                for (long i = 0; i < n; i++) {
                    gain_sums[at][i] = gain_sums[at][i] + gain_sums[at + w][i];
                    bias_sums[at][i] = bias_sums[at][i] + bias_sums[at + w][i];
                }
        // For LANES, another kernel computes them.
        for (long i = 0; i < n && TAKES_SUMS; i++) {
            expect("the chunk's sum for gamma", part, i, sums[part * n + i], gain_sums[0][i]);
            expect("the chunk's sum for beta", part, i, sums[(parts + part) * n + i], bias_sums[0][i]);
        }
    }
}
#endif

int main(int, char** words) {
    Rows rows(atol(words[1]), atol(words[2]), atoi(words[4]));
    simt::chance.seed(atoi(words[5]));
    simt::threads = THREADS;
    simt::cluster = CLUSTER;
    check(rows, atoi(words[3]));
    for (long row = 0; row < rows.rows; row++)
        for (long i = rows.n; i < rows.out.stride; i++)
            if (bits_as<unsigned char>(((unsigned char*)&rows.out.at(row, i))[0]) != 0xff && wrong++ < 5) printf("written after row %ld\n", row);
    printf("%ld wrong\n", wrong);
    return wrong != 0;
}
