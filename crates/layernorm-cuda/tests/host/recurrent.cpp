// A recurrent layer in clusters, forward and backward, in bf16, compared with its equations in double precision.
//
//   program STEPS BATCH REVERSE SEED
#include "simt.h"
#include "recurrent_ptx.h"

#undef threadIdx
#undef blockIdx
#undef gridDim
#define threadIdx (Place{0})
#define blockIdx (Place{0})
#define blockDim (Place{1})
#define gridDim (Place{1})
namespace packing {
#include "prepare.cu"
}
#undef threadIdx
#undef blockIdx
#define threadIdx (Place{simt::self().thread})
#define blockIdx (Place{simt::first_block + simt::self().block})

#define SHARED SHARED_FORWARD
namespace there {
#include "cluster_forward.cu"
}
#undef SHARED
#define SHARED SHARED_BACKWARD
namespace back {
#include "cluster_backward.cu"
}

static there::Forward forward_args;
static back::Backward backward_args;
static void forward_entry() {
    there::rnn_cluster_forward(forward_args);
    simt::self().done = true;
    simt::yield();
}
static void backward_entry() {
    back::rnn_cluster_backward(backward_args);
    simt::self().done = true;
    simt::yield();
}

typedef unsigned short u16;
typedef std::vector<double> Row;
static float rounded(double x) { return __uint_as_float(unsigned(bf16_of(float(x))) << 16); }
static std::mt19937 numbers;
static float normal() { return std::normal_distribution<float>()(numbers); }

static int steps, batch, reverse;
static std::vector<int> lengths;
static std::vector<u16> u;                             // [G·H, H]
static std::vector<float> consts, zx, rx, h0, c0, dh_last, dc_last;
static std::vector<u16> dy;
static double weight(int gate, int row, int column) { return __uint_as_float(unsigned(u[(size_t(gate) * H + row) * H + column]) << 16); }
static double constant(int kind, int gate, int unit) { return consts[kind * G * HP + gate * HP + unit]; }
static double of_cell(int kind, int unit) { return consts[4 * G * HP + kind * HP + unit]; }
static int row_of(int s, int b) { return (reverse ? lengths[b] - 1 - s : s) * batch + b; }
static int group(int count, int gate) { return count == 1 ? 0 : count == 2 ? gate == G - 1 : gate; }

// The equations for one sequence.
struct Step {
    Row x, z, xa, ha, c, carried, n, h;  // z is normalized; carried and h are the values before the step
    double rh[G], mean, rstd;
};
static double sigma(double x) { return 1 / (1 + std::exp(-x)); }
static void normalize(Row& x, int count, int gates, double eps, bool deviation, double r[], double* means = nullptr) {
    for (int k = 0; k < count; k++) {
        double sum = 0, square = 0, n = 0;
        for (int i = 0; i < gates * H; i++)
            if (group(count, i / H) == k) sum += x[i], n++;
        for (int i = 0; i < gates * H; i++)
            if (group(count, i / H) == k) square += (x[i] - sum / n) * (x[i] - sum / n);
        r[k] = deviation ? 1 / (std::sqrt(square / n) + eps) : 1 / std::sqrt(square / n + eps);
        for (int i = 0; i < gates * H; i++)
            if (group(count, i / H) == k) x[i] = (x[i] - sum / n) * r[k];
        if (means) means[k] = sum / n;
    }
}

static void one_step(Step& t, Row& h, Row& c) {
    t.h = h, t.carried = c, t.z.assign(G * H, 0), t.xa.resize(G * H), t.ha.resize(G * H), t.c.resize(H), t.n.resize(H);
    for (int i = 0; i < G * H; i++)
        for (int j = 0; j < H; j++) t.z[i] += weight(i / H, i % H, j) * rounded(h[j]);
    if (SNORM)
        for (int i = 0; i < G * H; i++) t.z[i] += t.x[i];
    if (RNORM || SNORM) normalize(t.z, NGRP, G, EPS_R, DEV_R, t.rh);
    for (int i = 0; i < G * H; i++) {
        t.xa[i] = (SNORM ? 0 : constant(0, i / H, i % H) * t.x[i]) + constant(1, i / H, i % H);
        t.ha[i] = constant(2, i / H, i % H) * t.z[i] + constant(3, i / H, i % H);
    }
    auto a = [&](int gate, int j) { return t.xa[gate * H + j] + t.ha[gate * H + j]; };
    if (LSTM) {
        for (int j = 0; j < H; j++) t.c[j] = sigma(a(1, j)) * c[j] + sigma(a(0, j)) * std::tanh(a(2, j));
        Row hat = t.c;
        if (CNORM) normalize(hat, 1, 1, EPS_C, DEV_C, &t.rstd, &t.mean);
        for (int j = 0; j < H; j++) {
            t.n[j] = CNORM ? of_cell(0, j) * hat[j] + of_cell(1, j) : hat[j];
            h[j] = sigma(a(G - 1, j)) * std::tanh(t.n[j]), c[j] = CNORM && CARRIED ? t.n[j] : t.c[j];
        }
    } else
        for (int j = 0; j < H; j++) {
            double z = sigma(a(1, j)), n = std::tanh(t.xa[2 * H + j] + sigma(a(0, j)) * t.ha[2 * H + j]);
            h[j] = KEEPS ? z * h[j] + (1 - z) * n : (1 - z) * h[j] + z * n;
        }
}

// LN'(g) of each group: r·(g − mean(g) − x̂·mean(g·x̂)).
static Row through(const Row& g, const Row& hat, int count, int gates, const double r[]) {
    Row out = g;
    for (int k = 0; k < count; k++) {
        double sum = 0, dot = 0, n = 0;
        for (int i = 0; i < gates * H; i++)
            if (group(count, i / H) == k) sum += g[i], dot += g[i] * hat[i], n++;
        for (int i = 0; i < gates * H; i++)
            if (group(count, i / H) == k) out[i] = r[k] * (g[i] - sum / n - hat[i] * dot / n);
    }
    return out;
}

struct Gradient {
    Row dh, carry, sums;  // sums in the kernel's layout
    Row dzh, dzx;         // of the current step
};

static void cell_back(const Step& t, Gradient& d, Row& dha, Row& dxa) {
    auto a = [&](int gate, int j) { return t.xa[gate * H + j] + t.ha[gate * H + j]; };
    if (!LSTM) {
        for (int j = 0; j < H; j++) {
            double r = sigma(a(0, j)), z = sigma(a(1, j)), n = std::tanh(t.xa[2 * H + j] + r * t.ha[2 * H + j]);
            double dh = d.dh[j] + d.carry[j], dn = dh * (KEEPS ? 1 - z : z) * (1 - n * n);
            dha[j] = dn * t.ha[2 * H + j] * r * (1 - r), dha[H + j] = dh * z * (1 - z) * (KEEPS ? t.h[j] - n : n - t.h[j]);
            dha[2 * H + j] = dn * r, dxa = dha, d.carry[j] = dh * (KEEPS ? z : 1 - z);
        }
        for (int j = 0; j < H; j++) dxa[2 * H + j] = dha[2 * H + j] / sigma(a(0, j));
        return;
    }
    Row g(H), hat(H);
    for (int j = 0; j < H; j++) {
        double o = sigma(a(G - 1, j)), th = std::tanh(t.n[j]);
        double dn = d.dh[j] * o * (1 - th * th) + (CARRIED || !CNORM ? d.carry[j] : 0);
        dha[(G - 1) * H + j] = d.dh[j] * th * o * (1 - o), g[j] = dn;
        if (CNORM) {
            hat[j] = (t.c[j] - t.mean) * t.rstd, g[j] = dn * of_cell(0, j);
            d.sums[4 * G * HP + j] += dn * hat[j], d.sums[4 * G * HP + HP + j] += dn;
        }
    }
    if (CNORM) g = through(g, hat, 1, 1, &t.rstd);
    for (int j = 0; j < H; j++) {
        double dc = g[j] + (CNORM && !CARRIED ? d.carry[j] : 0), i = sigma(a(0, j)), f = sigma(a(1, j)), n = std::tanh(a(2, j));
        dha[j] = dc * n * i * (1 - i), dha[H + j] = dc * t.carried[j] * f * (1 - f), dha[2 * H + j] = dc * i * (1 - n * n);
        d.carry[j] = dc * f;
    }
    dxa = dha;
}

static void step_back(const Step& t, Gradient& d, const float* rx_row) {
    Row dha(G * H), dxa(G * H);
    cell_back(t, d, dha, dxa);
    Row gh = dha, gx = dxa;
    for (int i = 0; i < G * H; i++) {
        int at = i / H * HP + i % H;
        gh[i] *= constant(2, i / H, i % H), gx[i] *= constant(0, i / H, i % H);
        if (XNORM) d.sums[at] += dxa[i] * t.x[i];
        d.sums[G * HP + at] += dxa[i], d.sums[3 * G * HP + at] += !LSTM && i / H == 2 ? dha[i] : dxa[i];
        if (RNORM || SNORM) d.sums[2 * G * HP + at] += dha[i] * t.z[i];
    }
    double r[G];
    for (int k = 0; k < XGRP; k++) r[k] = rx_row[k];
    d.dzh = RNORM || SNORM ? through(gh, t.z, NGRP, G, t.rh) : dha;
    d.dzx = SNORM ? d.dzh : XNORM ? through(gx, t.x, XGRP, G, r) : dxa;
    for (int j = 0; j < H; j++) {
        d.dh[j] = 0;
        for (int i = 0; i < G * H; i++) d.dh[j] += rounded(d.dzh[i]) * weight(i / H, i % H, j);
    }
}

// Distances and norms of each result.
static std::map<std::string, std::pair<double, double>> gaps;
static void compare(const char* what, double found, double wanted) {
    gaps[what].first += found == found ? (found - wanted) * (found - wanted) : INFINITY;
    gaps[what].second += wanted * wanted;
}

struct Memory {
    std::vector<unsigned> packed, packed_back;
    std::vector<float> zx, zh, rh, state, cell, h_last, c_last, dh0, dc0, sums;
    std::vector<u16> h, y, dzh, dzx;
};

static void run_kernels(Memory& m) {
    const float bad = __uint_as_float(0xffffffff);
    size_t rows = size_t(steps) * batch;
    m.packed.resize(size_t(CS) * 8 * PW * 512), m.packed_back.resize(size_t(CS) * 8 * DW * 2 * G * 256);
    packing::PackCluster pack = {u.data(), m.packed.data(), H, G, CS}, pack_back = {u.data(), m.packed_back.data(), H, G, CS};
    packing::rnn_pack_cluster(pack), packing::rnn_pack_cluster_back(pack_back);
    m.zx = zx, m.zh.assign(rows * G * HP, bad), m.rh.assign(rows * NGRP, bad), m.cell.assign(rows * 2, bad);
    m.state.assign((rows + batch) * HP, bad), m.h.assign((rows + batch) * HP, 0xffff), m.y.assign(rows * H, 0xffff);
    for (int b = 0; b < batch; b++)
        for (int j = 0; j < HP; j++) m.h[b * HP + j] = bf16_of(j < H ? h0[b * H + j] : 0);
    m.h_last.assign(batch * H, bad), m.c_last = m.dh0 = m.dc0 = m.h_last;
    m.dzh.assign(rows * G * HP, 0xffff), m.dzx = m.dzh, m.sums.assign(batch * (4 * G * HP + 2 * HP), bad);
    forward_args = {m.packed.data(), m.zx.data(), m.zh.data(), m.rh.data(), m.state.data(), m.cell.data(), m.h.data(), consts.data(),
                    m.y.data(), batch * H, H, h0.data(), c0.data(), m.h_last.data(), m.c_last.data(), lengths.data(),
                    steps, batch, batch, 1, reverse};
    backward_args = {m.packed_back.data(), m.zx.data(), m.zh.data(), m.rh.data(), rx.data(), m.state.data(), m.cell.data(), m.dzh.data(),
                     m.dzx.data(), consts.data(), dy.data(), batch * H, H, dh_last.data(), dc_last.data(), m.dh0.data(),
                     m.dc0.data(), m.sums.data(), lengths.data(), steps, batch, batch, 1, reverse};
    int clusters = (batch + 8 * NT - 1) / (8 * NT);
    simt::threads = 256, simt::cluster = CS, simt::grid = clusters * CS;
    for (int c = 0; c < clusters; c++) simt::run(c * CS, forward_entry);
    for (int c = 0; c < clusters; c++) fetching.clear(), simt::run(c * CS, backward_entry);
}

static void compare_sequence(const Memory& m, int b) {
    auto wide = [](u16 x) { return __uint_as_float(unsigned(x) << 16); };
    Row h(h0.begin() + b * H, h0.begin() + (b + 1) * H), c(c0.begin() + b * H, c0.begin() + (b + 1) * H);
    std::vector<Step> all(lengths[b]);
    for (int s = 0; s < lengths[b]; s++) {
        all[s].x.resize(G * H);
        for (int i = 0; i < G * H; i++) all[s].x[i] = zx[size_t(row_of(s, b)) * G * HP + i / H * HP + i % H];
        one_step(all[s], h, c);
        for (int j = 0; j < H; j++) compare("y", wide(m.y[size_t(row_of(s, b)) * H + j]), h[j]);
    }
    for (int j = 0; j < H; j++) compare("last h", m.h_last[b * H + j], h[j]), compare("last c", LSTM ? m.c_last[b * H + j] : 0, LSTM ? c[j] : 0);
    Gradient d = {Row(H), Row(H), Row(4 * G * HP + 2 * HP), {}, {}};
    if (LSTM) d.carry.assign(dc_last.begin() + b * H, dc_last.begin() + (b + 1) * H);
    for (int s = steps - 1; s >= 0; s--) {
        bool valid = s < lengths[b];
        size_t row = valid ? row_of(s, b) : size_t(s) * batch + b, at = size_t(s) * batch + b;
        if (valid) {
            for (int j = 0; j < H; j++) d.dh[j] += wide(dy[row * H + j]) + (s == lengths[b] - 1 ? dh_last[b * H + j] : 0);
            step_back(all[s], d, &rx[row * XGRP]);
        }
        for (int i = 0; i < G * HP; i++) {
            bool there = valid && i % HP < H;
            compare("dzh", wide(m.dzh[at * G * HP + i]), there ? d.dzh[i / HP * H + i % HP] : 0);
            compare("dzx", wide(m.dzx[row * G * HP + i]), there ? d.dzx[i / HP * H + i % HP] : 0);
        }
    }
    for (int j = 0; j < H; j++) {
        compare("dh0", m.dh0[b * H + j], d.dh[j] + (LSTM ? 0 : d.carry[j]));
        compare("dc0", LSTM ? m.dc0[b * H + j] : 0, LSTM ? d.carry[j] : 0);
    }
    for (size_t i = 0; i < d.sums.size(); i++) compare("sums", m.sums[b * d.sums.size() + i], d.sums[i]);
}

int main(int count, char** words) {
    if (count != 5) return 1;
    steps = atoi(words[1]), batch = atoi(words[2]), reverse = atoi(words[3]);
    simt::chance.seed(atoi(words[4])), numbers.seed(atoi(words[4]));
    size_t rows = size_t(steps) * batch;
    for (int b = 0; b < batch; b++) lengths.push_back(b % 3 == 1 ? 1 + b % steps : steps);
    for (int i = 0; i < G * H * H; i++) u.push_back(bf16_of(normal() / std::sqrt(float(H))));
    for (int i = 0; i < 4 * G * HP + 2 * HP; i++) consts.push_back(i % HP >= H ? 0 : 0.3f * normal() + (i / (G * HP) % 2 == 0));
    for (size_t i = 0; i < rows * G * HP; i++) zx.push_back(i % HP < H ? normal() : 0);
    for (size_t i = 0; i < rows * XGRP; i++) rx.push_back(1 + std::fabs(normal()));
    for (size_t i = 0; i < rows * H; i++) dy.push_back(bf16_of(normal()));
    for (auto* state : {&h0, &c0, &dh_last, &dc_last})
        for (int i = 0; i < batch * H; i++) state->push_back(0.5f * normal());
    Memory m;
    run_kernels(m);
    for (int b = 0; b < batch; b++) compare_sequence(m, b);
    // y and dz are rounded to bf16, by at most 2^-9 of the norm. h and dzh are rounded the same way on both sides,
    // except for an occasional number that lies between two bf16 values: 2^-8 of it, and it is one of G·H in a sum, so
    // 2^-8/√(G·H) or about 2^-12 of their norm. The bound is eight times that; the errors of f32 itself are far below.
    bool good = true;
    for (auto& [what, gap] : gaps) {
        double off = std::sqrt(gap.first / std::max(gap.second, 1e-30)), bound = what == "y" || what[1] == 'z' ? 0x1.2p-9 : 0x1p-9;
        if (gap.second == 0 ? gap.first != 0 : !(off < bound)) printf("%s: off by %.3g of its norm\n", what.c_str(), off), good = false;
    }
    return good ? 0 : 1;
}
