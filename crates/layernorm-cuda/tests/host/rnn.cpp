// A time loop, forward or (BACK) backward, compared with the same cell in double precision. The host defines the
// constants by which the kernel is specialized, and STEPS, BATCH, COLUMNS (sequences per group) and SHARED (bytes).
//
//   program SEED SHOWN          prints the bits of the first SHOWN sequences, as one number
//   program SEED SHOWN BLOCK    messages of this block never arrive: the others must give up and tell the host
#include "grid.h"
#ifdef BACK
#include "backward.cu"
#else
#include "forward.cu"
#endif
#include "prepare.cu"

typedef std::vector<double> Row;
// Unsuccessful polls before a thread gives up; fewer if it is supposed to.
static u32 patience = 1 << 20;
static constexpr int T = STEPS, B = BATCH, GROUPS = (BATCH + COLUMNS - 1) / COLUMNS;

static double rounded(double x) { return widen(narrow(float(x))); }
static double sigma(double x) { return 1 / (1 + std::exp(-x)); }

// Numbers within ±1, per sequence or for the layer: the same whatever the batch is.
struct Numbers {
    std::mt19937 random;
    explicit Numbers(int of) : random(of) {}
    double next() { return random() * (2.0 / 4294967296.0) - 1; }
};

struct Layer {
    std::vector<param> u;       // [G·H, H]
    std::vector<float> consts;  // GX, CX, GH, CH, γ, β
    Layer() : u(size_t(G) * H * H), consts(4 * GW + 2 * HP, 0.0f) {
        Numbers numbers(1);
        for (auto &x : u) x = narrow(float(numbers.next() * 1.5 / std::sqrt(double(H))));
        for (int kind = 0; kind < 4; kind++)
            for (int gate = 0; gate < G; gate++)
                for (int unit = 0; unit < H; unit++) consts[kind * GW + gate * HP + unit] = float((kind % 2 == 0) + 0.3 * numbers.next());
        for (int kind = 0; kind < 2; kind++)
            for (int unit = 0; unit < H; unit++) consts[4 * GW + kind * HP + unit] = float((kind == 0) + 0.3 * numbers.next());
    }
    double constant(int kind, int gate, int unit) const { return consts[kind * GW + gate * HP + unit]; }
    double weight(int gate, int unit, int other) const { return widen(u[(size_t(gate) * H + unit) * H + other]); }
};

// One norm: replaces values [count] by (x − mean)·r.
static double normalise(std::vector<double *> &row, double eps, double *mean = nullptr) {
    double sum = 0, square = 0;
    for (double *x : row) sum += *x;
    const double m = sum / row.size();
    for (double *x : row) square += (*x - m) * (*x - m);
    const double r = 1 / std::sqrt(square / row.size() + eps);
    for (double *x : row) *x = (*x - m) * r;
    if (mean) *mean = m;
    return r;
}
// Its derivative: r·(g − mean(g) − x̂·mean(g·x̂)).
static void denormalise(std::vector<double *> &g, const std::vector<double> &x, double r) {
    double sum = 0, dot = 0;
    for (size_t i = 0; i < g.size(); i++) sum += *g[i], dot += *g[i] * x[i];
    sum /= g.size(), dot /= g.size();
    for (size_t i = 0; i < g.size(); i++) *g[i] = r * (*g[i] - sum - x[i] * dot);
}

// A sequence: the inputs, the tape, and the gradients.
struct Sequence {
    int length;
    std::vector<Row> zx, zh, y, state, dy, dzh, dzx;  // [step][gate·H + unit], [step][unit]
    std::vector<Row> rh, rx;
    Row mean, rstd, h0, c0, h, c, dh_last, dc_last, dh0, dc0, sums;

    explicit Sequence(int b) : length(b % 3 == 1 ? std::max(1, T - 1 - b % 2) : T) {
        Numbers numbers(100 + b);
        auto row = [&](int n) { Row r(n); for (double &x : r) x = float(numbers.next()); return r; };
        for (int s = 0; s < T; s++) {
            zx.push_back(row(G * H)), dy.push_back(row(H)), rx.push_back(row(XGRP));
            for (double &x : zx.back()) x = float(2 * x);
            for (double &x : dy.back()) x = rounded(x);
            for (double &x : rx.back()) x = float(x * x + 0.5);
        }
        h0 = row(H), c0 = row(H), dh_last = row(H), dc_last = row(H);
        sums.assign(4 * G * H + 2 * H, 0.0);
    }
    void forward(const Layer &layer);
    void backward(const Layer &layer);
};

void Sequence::forward(const Layer &layer) {
    h = h0, c = c0;
    state.push_back(LSTM ? c : h);
    for (int s = 0; s < length; s++) {
        Row z(G * H, 0.0), seen(H), a(G * H), fresh(H);
        for (int k = 0; k < H; k++) seen[k] = rounded(h[k]);
        for (int q = 0; q < G * H; q++)
            for (int k = 0; k < H; k++) z[q] += layer.weight(q / H, q % H, k) * seen[k];
        for (int q = 0; SNORM && q < G * H; q++) z[q] += zx[s][q];
        rh.push_back(Row(NGRP, 1.0));
        for (int group = 0; NORM && group < NGRP; group++) {
            std::vector<double *> row;
            for (int q = 0; q < G * H; q++)
                if (group_of(q / H) == group) row.push_back(&z[q]);
            rh[s][group] = normalise(row, EPS_R);
        }
        zh.push_back(z);
        auto xa = [&](int q, int u) { return (SNORM ? 0 : layer.constant(0, q, u) * zx[s][q * H + u]) + layer.constant(1, q, u); };
        auto ha = [&](int q, int u) { return layer.constant(2, q, u) * z[q * H + u] + layer.constant(3, q, u); };
        mean.push_back(0), rstd.push_back(1);
        if (LSTM) {
            for (int u = 0; u < H; u++)
                c[u] = sigma(xa(1, u) + ha(1, u)) * c[u] + sigma(xa(0, u) + ha(0, u)) * std::tanh(xa(2, u) + ha(2, u));
            state.push_back(c);
            Row n = c;
            std::vector<double *> row;
            for (double &x : n) row.push_back(&x);
            if (CNORM) rstd[s] = normalise(row, EPS_C, &mean[s]);
            for (int u = 0; u < H; u++) {
                if (CNORM) n[u] = layer.constant(4, 0, u) * n[u] + layer.constant(4, 0, HP + u);
                h[u] = sigma(xa(G - 1, u) + ha(G - 1, u)) * std::tanh(n[u]);
            }
            if (CARRIED) c = n;
        } else {
            for (int u = 0; u < H; u++) {
                const double r = sigma(xa(0, u) + ha(0, u)), zg = sigma(xa(1, u) + ha(1, u)), n = std::tanh(xa(2, u) + r * ha(2, u));
                h[u] = KEEPS ? zg * h[u] + (1 - zg) * n : (1 - zg) * h[u] + zg * n;
            }
            state.push_back(h);
        }
        y.push_back(h);
    }
}

void Sequence::backward(const Layer &layer) {
    Row carry = LSTM ? dc_last : Row(H, 0.0);
    dzh.assign(T, Row(G * H, 0.0)), dzx.assign(T, Row(G * H, 0.0));
    for (int s = length - 1; s >= -1; s--) {
        Row dh(H, 0.0);
        for (int k = 0; s + 1 < length && k < H; k++)
            for (int q = 0; q < G * H; q++) dh[k] += layer.weight(q / H, q % H, k) * rounded(dzh[s + 1][q]);
        for (int u = 0; u < H; u++) {
            if (s >= 0) dh[u] += dy[s][u];
            if (s == length - 1) dh[u] += dh_last[u];
            if (!LSTM) dh[u] += carry[u];
        }
        if (s < 0) {
            dh0 = dh, dc0 = carry;
            break;
        }
        Row da(G * H), dxa(G * H), dc(H), chat(H);
        auto xa = [&](int q, int u) { return (SNORM ? 0 : layer.constant(0, q, u) * zx[s][q * H + u]) + layer.constant(1, q, u); };
        auto ha = [&](int q, int u) { return layer.constant(2, q, u) * zh[s][q * H + u] + layer.constant(3, q, u); };
        if (LSTM) {
            std::vector<double *> row;
            for (int u = 0; u < H; u++) {
                chat[u] = CNORM ? (state[s + 1][u] - mean[s]) * rstd[s] : state[s + 1][u];
                const double gain = CNORM ? layer.constant(4, 0, u) : 1, bias = CNORM ? layer.constant(4, 0, HP + u) : 0;
                const double o = sigma(xa(G - 1, u) + ha(G - 1, u)), t = std::tanh(gain * chat[u] + bias);
                const double dn = dh[u] * o * (1 - t * t) + (CARRIED ? carry[u] : 0);
                da[(G - 1) * H + u] = dh[u] * t * o * (1 - o), dc[u] = dn * gain;
                if (CNORM) sums[4 * G * H + u] += dn * chat[u], sums[4 * G * H + H + u] += dn;
                row.push_back(&dc[u]);
            }
            if (CNORM) denormalise(row, chat, rstd[s]);
            for (int u = 0; u < H; u++) {
                const double i = sigma(xa(0, u) + ha(0, u)), f = sigma(xa(1, u) + ha(1, u)), g = std::tanh(xa(2, u) + ha(2, u));
                double before = state[s][u];
                if (CARRIED && s > 0) before = layer.constant(4, 0, u) * (before - mean[s - 1]) * rstd[s - 1] + layer.constant(4, 0, HP + u);
                if (!CARRIED) dc[u] += carry[u];
                da[u] = dc[u] * g * i * (1 - i), da[H + u] = dc[u] * before * f * (1 - f), da[2 * H + u] = dc[u] * i * (1 - g * g);
                carry[u] = dc[u] * f;
            }
            dxa = da;
        } else {
            for (int u = 0; u < H; u++) {
                const double r = sigma(xa(0, u) + ha(0, u)), z = sigma(xa(1, u) + ha(1, u)), n = std::tanh(xa(2, u) + r * ha(2, u));
                const double dn = dh[u] * (KEEPS ? 1 - z : z) * (1 - n * n), back = state[s][u];
                da[u] = dn * ha(2, u) * r * (1 - r), da[H + u] = dh[u] * z * (1 - z) * (KEEPS ? back - n : n - back), da[2 * H + u] = dn * r;
                carry[u] = dh[u] * (KEEPS ? z : 1 - z);
                dxa[u] = da[u], dxa[H + u] = da[H + u], dxa[2 * H + u] = dn;
            }
        }
        for (int q = 0; q < G * H; q++) {
            if (XNORM) sums[q] += dxa[q] * zx[s][q];
            sums[G * H + q] += dxa[q], sums[3 * G * H + q] += da[q];
            if (NORM) sums[2 * G * H + q] += da[q] * zh[s][q];
            dzh[s][q] = da[q] * (NORM ? layer.constant(2, q / H, q % H) : 1), dzx[s][q] = dxa[q] * (XNORM ? layer.constant(0, q / H, q % H) : 1);
        }
        auto through = [&](Row &d, const Row &x, int groups, const Row &r, auto of) {
            for (int group = 0; group < groups; group++) {
                std::vector<double *> row;
                std::vector<double> values;
                for (int q = 0; q < G * H; q++)
                    if (of(q / H) == group) row.push_back(&d[q]), values.push_back(x[q]);
                denormalise(row, values, r[group]);
            }
        };
        if (NORM) through(dzh[s], zh[s], NGRP, rh[s], [](int q) { return group_of(q); });
        if (SNORM) dzx[s] = dzh[s];
        if (XNORM) through(dzx[s], zx[s], XGRP, rx[s], [](int q) { return XGRP == 1 ? 0 : XGRP == 2 ? int(q == G - 1) : q; });
    }
}

// ---- the kernel's inputs, and its results ----

static int wrong;
static double worst;
// Checks ‖found − expected‖ ≤ tolerance·‖expected‖.
struct Gap {
    const char *what;
    double gap = 0, norm = 0;
    void add(double found, double expected) { gap += (found - expected) * (found - expected), norm += expected * expected; }
    ~Gap() {
        // As in bench/gpu (check.rs): u·(1 + √T) forward, three times that backward. u is half a unit in the last place
        // of the type, and 2^-20 for f32, whose products are three tf32 products.
        const double u = TYPE == 0 ? std::ldexp(1.0, TF32 ? -11 : -20) : std::ldexp(1.0, -8);
#ifdef BACK
        const double tolerance = 3 * u * (1 + std::sqrt(double(T)));
#else
        const double tolerance = u * (1 + std::sqrt(double(T)));
#endif
        const double share = std::sqrt(gap / norm) / tolerance;
        worst = std::max(worst, share);
        if (!(share <= 1) && wrong++ < 8) printf("%s: off by %.2e of its norm\n", what, std::sqrt(gap / norm));
    }
};
static u64 hash = 14695981039346656037ull;
template <class W> static void show(W x) {
    unsigned char bytes[sizeof(W)];
    memcpy(bytes, &x, sizeof x);
    for (unsigned char byte : bytes) hash = (hash ^ byte) * 1099511628211ull;
}
template <class W> struct Memory {
    std::vector<char> all;
    W *at;
    explicit Memory(size_t count, int byte = 0) : all(count * sizeof(W) + 256, char(byte)) { at = (W *)(((size_t)all.data() + 255) / 256 * 256); }
};

static std::vector<u32> pack(const Layer &layer, bool back) {
    std::vector<u32> packed(size_t(GS) * 8 * PAIRS * MT * 256 + 64);
    static Pack p;
    p = Pack{layer.u.data(), (u32 *)(((size_t)packed.data() + 15) / 16 * 16), H, HP, G, UNITS, GS, PAIRS, MT, SPLIT, back};
    grid::fibers.resize(1);
    grid::fibers[0].thread = grid::fibers[0].block = grid::now = 0;
    rnn_pack(p);
    return packed;
}
static const u32 *aligned_start(const std::vector<u32> &packed) { return (const u32 *)(((size_t)packed.data() + 15) / 16 * 16); }

struct Tensors {
    Memory<float> zx, zh, rh, rx, state, cell, h0, c0, h_last, c_last;
    Memory<elem> h, y;
    Memory<uint2> gates, inputs, cells;
    std::vector<int> lengths;
    u32 fail = 0, report = 0;
    explicit Tensors(std::vector<Sequence> &all)
        : zx(T * B * GW), zh(T * B * GW, 0xff), rh(T * B * NGRP, 0xff), rx(T * B * XGRP), state((T + 1) * B * HP, 0), cell(T * B * 2, 0xff), h0(B * H),
          c0(B * H), h_last(B * H, 0xff), c_last(B * H, 0xff), h((T + 1) * B * HP, 0xff), y(T * B * H, 0xff), gates(T * B * NGRP * GS, 0xff),
          inputs(T * B * XGRP * GS, 0xff), cells(T * B * GS, 0xff) {
        for (int b = 0; b < B; b++) {
            lengths.push_back(all[b].length);
            for (int s = 0; s < T; s++) {
                const int time = time_of(s, all[b].length, 1);
                for (int q = 0; q < G * H; q++) zx.at[(size_t(time) * B + b) * GW + q / H * HP + q % H] = all[b].zx[s][q];
                for (int n = 0; n < XGRP; n++) rx.at[(time * B + b) * XGRP + n] = all[b].rx[s][n];
            }
            for (int u = 0; u < HP; u++) h.at[size_t(b) * HP + u] = narrow(u < H ? float(all[b].h0[u]) : 0.0f);
            for (int u = 0; u < H; u++) h0.at[b * H + u] = all[b].h0[u], c0.at[b * H + u] = all[b].c0[u];
        }
    }
};

#ifndef BACK
static Forward args;
static void entry() {
    rnn_forward(args);
    grid::leave();
}
static void check(std::vector<Sequence> &all, Tensors &t, int shown) {
    Gap y{"y"}, last{"the last state"}, zh{"ẑ"}, state{"c"};
    for (int b = 0; b < B; b++) {
        for (int s = 0; s < all[b].length; s++) {
            const size_t row = size_t(time_of(s, all[b].length, 1)) * B + b, at = size_t(s) * B + b;
            for (int u = 0; u < H; u++) {
                y.add(widen(t.y.at[row * H + u]), all[b].y[s][u]);
                state.add(t.state.at[(at + B) * HP + u], all[b].state[s + 1][u]);
                if (b < shown) show(t.y.at[row * H + u]);
            }
            const float *kept = SNORM ? t.zx.at + row * GW : t.zh.at + at * GW;
            for (int q = 0; q < G * H; q++) zh.add(kept[q / H * HP + q % H], all[b].zh[s][q]);
        }
        for (int u = 0; u < H; u++) {
            last.add(t.h_last.at[b * H + u], all[b].h[u]);
            if (LSTM) last.add(t.c_last.at[b * H + u], all[b].c[u]);
        }
    }
}
static void launch(const Layer &layer, std::vector<Sequence> &all, Tensors &t, int shown) {
    const std::vector<u32> packed = pack(layer, false);
    args = Forward{aligned_start(packed), t.zx.at, t.zh.at, t.rh.at, t.state.at, t.cell.at, t.h.at, t.gates.at, t.cells.at, layer.consts.data(),
                   t.y.at, (long long)B * H, H, t.h0.at, t.c0.at, t.h_last.at, t.c_last.at, t.lengths.data(), &t.fail, &t.report, T, B, 0, B, COLUMNS, B, 1, 1, patience};
    grid::run(GS * GROUPS, SHARED, entry);
    check(all, t, shown);
}
#else
static Backward args;
static void entry() {
    rnn_backward(args);
    grid::leave();
}
struct Gradients {
    Memory<elem> dy, dzh, dzx;
    Memory<u64> mail;
    Memory<float> dh_last, dc_last, dh0, dc0, sums;
    explicit Gradients(std::vector<Sequence> &all)
        : dy(T * B * H), dzh(T * B * GW, 0xff), dzx(T * B * GW, 0xff), mail(2 * B * SPLIT * HP, 0xff), dh_last(B * H), dc_last(B * H), dh0(B * H, 0xff),
          dc0(B * H, 0xff), sums(B * (4 * GW + 2 * HP), 0xff) {
        for (int b = 0; b < B; b++)
            for (int u = 0; u < H; u++) {
                dh_last.at[b * H + u] = all[b].dh_last[u], dc_last.at[b * H + u] = all[b].dc_last[u];
                for (int s = 0; s < T; s++) dy.at[(size_t(time_of(s, all[b].length, 1)) * B + b) * H + u] = narrow(float(all[b].dy[s][u]));
            }
    }
};
static void put_tape(std::vector<Sequence> &all, Tensors &t) {
    for (int b = 0; b < B; b++) {
        for (int u = 0; u < H; u++) t.state.at[b * HP + u] = all[b].state[0][u];
        for (int s = 0; s < all[b].length; s++) {
            const size_t at = size_t(s) * B + b;
            float *to = SNORM ? t.zx.at + (size_t(time_of(s, all[b].length, 1)) * B + b) * GW : t.zh.at + at * GW;
            for (int q = 0; q < G * H; q++) to[q / H * HP + q % H] = all[b].zh[s][q];
            for (int n = 0; n < NGRP; n++) t.rh.at[at * NGRP + n] = all[b].rh[s][n];
            for (int u = 0; u < H; u++) t.state.at[(at + B) * HP + u] = all[b].state[s + 1][u];
            t.cell.at[at * 2] = all[b].mean[s], t.cell.at[at * 2 + 1] = all[b].rstd[s];
        }
    }
}
static void check(std::vector<Sequence> &all, Gradients &g, int shown) {
    Gap dzh{"dzh"}, dzx{"dzx"}, first{"the first state's gradient"}, sums{"the sums"};
    for (int b = 0; b < B; b++) {
        for (int s = 0; s < T; s++)
            for (int q = 0; q < G * H; q++) {
                const size_t row = size_t(time_of(s, all[b].length, 1)) * B + b, at = size_t(s) * B + b, column = q / H * HP + q % H;
                dzh.add(widen(g.dzh.at[at * GW + column]), all[b].dzh[s][q]), dzx.add(widen(g.dzx.at[row * GW + column]), all[b].dzx[s][q]);
                if (b < shown) show(g.dzx.at[row * GW + column]);
            }
        for (int u = 0; u < H; u++) {
            first.add(g.dh0.at[b * H + u], all[b].dh0[u]);
            if (LSTM) first.add(g.dc0.at[b * H + u], all[b].dc0[u]);
            if (b < shown) show(g.dh0.at[b * H + u]);
        }
        const float *found = g.sums.at + size_t(b) * (4 * GW + 2 * HP);
        for (int q = 0; q < 4 * G * H; q++) sums.add(found[q / H * HP + q % H], all[b].sums[q]);
        for (int u = 0; LSTM && u < 2 * H; u++) sums.add(found[4 * GW + u / H * HP + u % H], all[b].sums[4 * G * H + u]);
    }
}
static void launch(const Layer &layer, std::vector<Sequence> &all, Tensors &t, int shown) {
    for (Sequence &one : all) one.backward(layer);
    put_tape(all, t);
    Gradients g(all);
    const std::vector<u32> packed = pack(layer, true);
    args = Backward{aligned_start(packed), t.zx.at, t.zh.at, t.rh.at, t.rx.at, t.state.at, t.cell.at, g.dzh.at, g.dzx.at, t.gates.at, t.inputs.at, t.cells.at,
                    g.mail.at, layer.consts.data(), g.dy.at, (long long)B * H, H, g.dh_last.at, g.dc_last.at, g.dh0.at, g.dc0.at, g.sums.at,
                    t.lengths.data(), &t.fail, &t.report, T, B, 0, B, COLUMNS, B, 1, 1, patience};
    grid::run(GS * GROUPS, SHARED, entry);
    check(all, g, shown);
}
#endif

int main(int count, char **words) {
    grid::chance.seed(atoi(words[1]));
    const bool gives_up = count > 3;
    if (gives_up) grid::silent = atoi(words[3]), patience = 300;
    const Layer layer;
    std::vector<Sequence> all;
    for (int b = 0; b < B; b++) all.emplace_back(b), all[b].forward(layer);
    Tensors t(all);
    launch(layer, all, t, atoi(words[2]));
    if (gives_up) {
        printf("fail %u, report %u\n", t.fail, t.report);
        return t.fail == 1 && t.report == 1 ? 0 : 1;
    }
    if (t.fail || t.report) puts("a thread gave up"), wrong++;
    if (wrong) return 1;
    printf("%016llx %.3f\n", hash, worst);
    return 0;
}
