//! A slow and plain recurrent cell in f64, from the equations at the top of layernorm-rnn's `variant.rs`: one layer, forward in
//! time, one sequence, without a projection.
//!
//! It also measures how well conditioned a case is: with `shake` = u, every product, norm and nonlinearity is perturbed with a
//! random sign by as much as rounding with unit u would: a sum of k products by √k·u·Σ|product|, because rounding errors have
//! both signs, the rest by a few u.

use crate::random::Random;
use layernorm_rnn::{Activation, Config, EpsPlace, Kind, Norm, Over, Params, Reset, Slot, Update};

/// The loop over time steps.
#[derive(Debug)]
pub struct Loop<'a> {
    config: &'a Config,
    params: &'a Params<f64>,
    shake: f64,
    random: Random,
}

impl<'a> Loop<'a> {
    /// Exact up to f64's own rounding.
    pub fn new(config: &'a Config, params: &'a Params<f64>) -> Self {
        Loop { config, params, shake: 0.0, random: Random::new(0) }
    }

    /// Perturbed as if rounded with unit `shake`.
    pub fn shaken(self, shake: f64, seed: u64) -> Self {
        Loop { shake, random: Random::new(seed), ..self }
    }

    /// Runs a sequence x, `[T, I]`, from a zero state. Returns h at every step, `[T, H]`.
    pub fn run(&mut self, x: &[f64]) -> Vec<f64> {
        let (mut h, mut c) = (vec![0.0; self.config.hidden], vec![0.0; self.config.hidden]);
        let mut y = Vec::new();
        for x in x.chunks(self.config.input) {
            match self.config.variant.kind {
                Kind::Lstm => self.lstm(x, &mut h, &mut c),
                Kind::Gru => self.gru(x, &mut h),
                Kind::Rnn => self.rnn(x, &mut h),
            }
            y.extend_from_slice(&h);
        }
        y
    }

    fn get(&self, slot: Slot) -> Option<&'a [f64]> {
        self.params.get(0, 0, slot)
    }

    /// A number perturbed by up to `units` times the rounding unit.
    fn moved(&mut self, value: f64, units: f64) -> f64 {
        if self.shake == 0.0 {
            return value;
        }
        if self.random.bits() >> 63 == 0 { value + self.shake * units } else { value - self.shake * units }
    }

    /// Rows of M v + b for `gates` gates, starting at row `from`.
    fn product(&mut self, slot: Slot, bias: Option<&[f64]>, v: &[f64], from: usize, gates: usize) -> Vec<f64> {
        let m = self.get(slot).unwrap_or_default();
        let rows = from * self.config.hidden..(from + gates) * self.config.hidden;
        let row = |i: usize| {
            let bias = bias.map_or(0.0, |bias| bias[i]);
            let (sum, size) = dot(&m[i * v.len()..(i + 1) * v.len()], v);
            self.moved(sum + bias, ((v.len() + 1) as f64).sqrt() * (size + bias.abs()))
        };
        rows.map(row).collect()
    }

    /// W x + bx.
    fn zx(&mut self, x: &[f64]) -> Vec<f64> {
        let tied = self.config.variant.tied_bias;
        let bias = self.get(if tied { Slot::Bias } else { Slot::InputBias });
        self.product(Slot::InputWeight, bias, x, 0, self.config.variant.gates().len())
    }

    /// U h + bh for some of the gates.
    fn zh(&mut self, h: &[f64], from: usize, gates: usize) -> Vec<f64> {
        self.product(Slot::RecurrentWeight, self.get(Slot::RecurrentBias), h, from, gates)
    }

    /// The norm of the gates starting at gate `from`, each row separately.
    fn gate_norm(&mut self, norm: Option<Norm>, slots: [Slot; 2], v: Vec<f64>, from: usize) -> Vec<f64> {
        let Some(norm) = norm else { return v };
        let (gates, hidden) = (self.config.variant.gates().len(), self.config.hidden);
        let rows = match norm.over {
            Over::AllGates => vec![(0, gates)],
            Over::EachGate => (0..gates).map(|gate| (gate, gate + 1)).collect(),
            Over::GatesAndCandidate => vec![(0, gates - 1), (gates - 1, gates)],
        };
        let mut y = Vec::new();
        for (start, end) in rows.into_iter().filter(|&(start, end)| start >= from && (end - from) * hidden <= v.len()) {
            let cells = (start - from) * hidden..(end - from) * hidden;
            y.extend(self.norm(norm, slots, &v[cells], start * hidden));
        }
        y
    }

    /// The norm of one row, whose γ and β start at `at`.
    fn norm(&mut self, norm: Norm, slots: [Slot; 2], row: &[f64], at: usize) -> Vec<f64> {
        let n = row.len() as f64;
        let mean = row.iter().sum::<f64>() / n;
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        let r = match norm.eps_place {
            EpsPlace::Variance => 1.0 / (variance + norm.eps).sqrt(),
            EpsPlace::Deviation => 1.0 / (variance.sqrt() + norm.eps),
        };
        let [gain, bias] = slots.map(|slot| self.get(slot));
        // The error of x̂ is at most (k + 10)·u·(1 + |x̂|), where k is the depth of the sum: see bench/proof.rs.
        let depth = 12.0 + (n / 1024.0).log2().ceil().max(0.0);
        let element = |(i, x): (usize, &f64)| {
            let x_hat = (x - mean) * r;
            let (gain, bias) = (gain.map_or(1.0, |gain| gain[at + i]), bias.map_or(0.0, |bias| bias[at + i]));
            let y = gain * x_hat + bias;
            self.moved(y, (depth + 10.0) * gain.abs() * (1.0 + x_hat.abs()) + 2.0 * y.abs())
        };
        row.iter().enumerate().map(element).collect()
    }

    /// LNx(zx) and LNh(zh).
    fn sides(&mut self, x: &[f64], h: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let variant = &self.config.variant;
        let (zx, zh) = (self.zx(x), self.zh(h, 0, variant.gates().len()));
        let zx = self.gate_norm(variant.input_norm, [Slot::InputNormGain, Slot::InputNormBias], zx, 0);
        let zh = self.gate_norm(variant.recurrent_norm, RECURRENT, zh, 0);
        (zx, zh)
    }

    /// LNs(s) + b, with the bias of the gates starting at gate `from`.
    fn sum(&mut self, s: Vec<f64>, from: usize) -> Vec<f64> {
        let mut a = self.gate_norm(self.config.variant.sum_norm, [Slot::SumNormGain, Slot::SumNormBias], s, from);
        if let Some(bias) = self.get(Slot::Bias) {
            a.iter_mut().zip(&bias[from * self.config.hidden..]).for_each(|(a, b)| *a += b);
        }
        a
    }

    fn sigmoid(&mut self, a: f64) -> f64 {
        let s = 1.0 / (1.0 + (-a).exp());
        self.moved(s, 4.0 * s + a.abs() * s * (1.0 - s))
    }

    fn tanh(&mut self, a: f64) -> f64 {
        self.moved(a.tanh(), 4.0 * a.tanh().abs() + a.abs() * (1.0 - a.tanh().powi(2)))
    }

    fn lstm(&mut self, x: &[f64], h: &mut [f64], c: &mut [f64]) {
        let (variant, n) = (self.config.variant, self.config.hidden);
        let (zx, zh) = self.sides(x, h);
        let mut s: Vec<f64> = zx.iter().zip(&zh).map(|(x, h)| x + h).collect();
        let peephole = self.get(Slot::Peephole);
        // Coupled cells have no input gate, so f, g and o move one place to the front.
        let first = usize::from(variant.coupled);
        let [f, g, o] = [1 - first, 2 - first, 3 - first];
        if let Some(p) = peephole {
            let early = g - 1;
            (0..=early).for_each(|gate| (0..n).for_each(|j| s[gate * n + j] += p[gate * n + j] * c[j]));
        }
        let a = self.sum(s.clone(), 0);
        for j in 0..n {
            let forget = self.sigmoid(a[f * n + j] + variant.offset);
            let input = if variant.coupled { 1.0 - forget } else { self.sigmoid(a[j]) };
            let candidate = self.tanh(a[g * n + j]);
            let cell = forget * c[j] + input * candidate;
            let cell = variant.cell_clip.map_or(cell, |clip| cell.clamp(-clip, clip));
            c[j] = self.moved(cell, 2.0 * (forget * c[j]).abs() + 2.0 * (input * candidate).abs());
        }
        let late = match peephole {
            Some(p) => {
                let seen = (0..n).map(|j| s[o * n + j] + p[(o - 1) * n + j] * c[j]).collect();
                self.sum(seen, o)
            }
            None => a[o * n..].to_vec(),
        };
        let slots = [Slot::CellNormGain, Slot::CellNormBias];
        let shown = variant.cell_norm.map_or_else(|| c.to_vec(), |norm| self.norm(norm.norm, slots, c, 0));
        if variant.cell_norm.is_some_and(|norm| norm.carried) {
            c.copy_from_slice(&shown);
        }
        for j in 0..n {
            h[j] = self.sigmoid(late[j]) * self.tanh(shown[j]);
        }
    }

    fn gru(&mut self, x: &[f64], h: &mut [f64]) {
        let (variant, n) = (self.config.variant, self.config.hidden);
        let (zx, zh) = self.sides(x, h);
        let a = self.sum(zx.iter().zip(&zh).map(|(x, h)| x + h).collect(), 0);
        let r: Vec<f64> = (0..n).map(|j| self.sigmoid(a[j])).collect();
        let bias = self.get(Slot::Bias).map_or_else(|| vec![0.0; n], |bias| bias[2 * n..].to_vec());
        let again = (variant.reset == Reset::State).then(|| {
            let seen: Vec<f64> = r.iter().zip(&*h).map(|(r, h)| r * h).collect();
            let zh = self.zh(&seen, 2, 1);
            self.gate_norm(variant.recurrent_norm, RECURRENT, zh, 2)
        });
        for j in 0..n {
            let at = 2 * n + j;
            let candidate = match (variant.reset, &again) {
                (Reset::State, Some(again)) => zx[at] + again[j] + bias[j],
                (Reset::Sum, _) => r[j] * (a[at] - bias[j]) + bias[j],
                _ => zx[at] + r[j] * zh[at] + bias[j],
            };
            let candidate = self.tanh(candidate);
            let z = self.sigmoid(a[n + j] + variant.offset);
            let keep = if variant.update == Update::KeepsOld { z } else { 1.0 - z };
            h[j] = self.moved(keep * h[j] + (1.0 - keep) * candidate, 4.0 * (h[j].abs() + candidate.abs()));
        }
    }

    fn rnn(&mut self, x: &[f64], h: &mut [f64]) {
        let (zx, zh) = self.sides(x, h);
        let a = self.sum(zx.iter().zip(&zh).map(|(x, h)| x + h).collect(), 0);
        for (h, a) in h.iter_mut().zip(a) {
            *h = if self.config.variant.activation == Activation::Relu { a.max(0.0) } else { self.tanh(a) };
        }
    }
}

const RECURRENT: [Slot; 2] = [Slot::RecurrentNormGain, Slot::RecurrentNormBias];

/// Σ a·b and Σ |a·b|, in lanes so that the compiler can vectorize it.
fn dot(a: &[f64], b: &[f64]) -> (f64, f64) {
    let (mut sums, mut sizes) = ([0.0; 8], [0.0; 8]);
    for (a, b) in a.chunks(8).zip(b.chunks(8)) {
        for (lane, (a, b)) in a.iter().zip(b).enumerate() {
            sums[lane] += a * b;
            sizes[lane] += (a * b).abs();
        }
    }
    (sums.iter().sum(), sizes.iter().sum())
}
