//! A slow, plain implementation of recurrent networks, from the equations at the top of layernorm-rnn's `variant.rs`:
//! one sequence and one number at a time, in f64.
//!
//! It also measures how well conditioned a case is: with a [`Rounding`], every intermediate result is perturbed, with a
//! random sign, by as much as rounding would change it.

use layernorm::parts::SplitMix64;
use layernorm_rnn::{
    Activation, Config, Direction, EpsPlace, Gate, Kind, NormSpec, Over, Params, Reset, Slot, State, Update,
};
use std::cell::RefCell;

/// How far intermediate results are perturbed, for arithmetic with unit roundoff u.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rounding {
    /// Not at all: exact except for the rounding of f64.
    None,
    /// As far as rounding can change them in any order of summation: a product of k terms by k·u·Σ|w x|, every norm,
    /// function and sum by a few u.
    Worst(f64),
    /// As far as rounding usually changes them: a product of k terms by √k·u·Σ|w x|, because rounding errors have both
    /// signs, a norm by the contract's bound, functions and cells by a few u. Single sums and products are not
    /// perturbed.
    Usual(f64),
}

/// A network in f64.
#[derive(Debug)]
pub struct Oracle<'a> {
    config: &'a Config,
    params: &'a Params<f64>,
    rounding: Rounding,
    signs: RefCell<SplitMix64>,
}

/// The results of a sequence.
#[derive(Clone, Debug)]
pub struct Outputs {
    /// y of every step.
    pub y: Vec<Vec<f64>>,
    /// The last h of every cell: layer by layer, direction by direction.
    pub h: Vec<Vec<f64>>,
    /// The last c, in the same order.
    pub c: Vec<Vec<f64>>,
}

impl Outputs {
    /// All its numbers.
    pub fn numbers(&self) -> impl Iterator<Item = f64> {
        self.y.iter().chain(&self.h).chain(&self.c).flatten().copied()
    }
}

impl<'a> Oracle<'a> {
    /// A network of these parameters.
    pub fn new(config: &'a Config, params: &'a Params<f64>) -> Self {
        Oracle { config, params, rounding: Rounding::None, signs: RefCell::new(SplitMix64::new(0)) }
    }

    /// Adds rounding errors, with signs from a seed.
    pub fn rounded(self, rounding: Rounding, seed: u64) -> Self {
        Oracle { rounding, signs: RefCell::new(SplitMix64::new(seed)), ..self }
    }

    /// y, `[T, O]`, of a sequence x, `[T, I]`, from a zero state.
    pub fn outputs(&self, x: &[f64]) -> Vec<f64> {
        let cells = self.config.layers * self.config.directions();
        let zero = State { h: vec![0.0; cells * self.config.output()], c: vec![0.0; cells * self.config.hidden] };
        let sequence: Vec<Vec<f64>> = x.chunks(self.config.input).map(<[f64]>::to_vec).collect();
        self.run(&sequence, &zero, 0).y.concat()
    }

    /// Runs a sequence through all layers; `initial` is the state of a batch in which this sequence has index `b`.
    pub fn run(&self, sequence: &[Vec<f64>], initial: &State<f64>, b: usize) -> Outputs {
        let config = self.config;
        let (p, hidden) = (config.output(), config.hidden);
        let batch = initial.h.len() / p / config.layers / config.directions();
        let mut result = Outputs { y: sequence.to_vec(), h: Vec::new(), c: Vec::new() };
        for layer in 0..config.layers {
            let mut y = vec![Vec::new(); sequence.len()];
            for direction in 0..config.directions() {
                let place = (layer * config.directions() + direction) * batch + b;
                let mut h = initial.h[place * p..(place + 1) * p].to_vec();
                let mut c = match config.variant.kind {
                    Kind::Lstm => initial.c[place * hidden..(place + 1) * hidden].to_vec(),
                    _ => Vec::new(),
                };
                let mut times: Vec<usize> = (0..sequence.len()).collect();
                if config.direction == Direction::Reverse || direction == 1 {
                    times.reverse();
                }
                for t in times {
                    (h, c) = self.step((layer, direction), &result.y[t], &h, &c);
                    y[t].extend(&h);
                }
                result.h.push(h);
                result.c.push(c);
            }
            result.y = y;
        }
        result
    }

    fn get(&self, cell: (usize, usize), slot: Slot) -> Option<&'a [f64]> {
        self.params.get(cell.0, cell.1, slot)
    }

    /// Perturbs a number by some units of rounding, with a random sign.
    fn moved(&self, value: f64, units: f64) -> f64 {
        let (Rounding::Worst(u) | Rounding::Usual(u)) = self.rounding else { return value };
        if self.signs.borrow_mut().next_u64() & 1 == 0 { value + u * units } else { value - u * units }
    }

    fn is_usual(&self) -> bool {
        matches!(self.rounding, Rounding::Usual(_))
    }

    /// The result of a single sum or product, of this size.
    fn single(&self, value: f64, size: f64) -> f64 {
        if self.is_usual() { value } else { self.moved(value, size) }
    }

    /// W x + b.
    fn product(&self, w: &[f64], x: &[f64], bias: Option<&[f64]>) -> Vec<f64> {
        let terms = (x.len() + 1) as f64;
        let roundings = if self.is_usual() { terms.sqrt() } else { terms };
        let row = |(i, row): (usize, &[f64])| {
            let bias = bias.map_or(0.0, |bias| bias[i]);
            let (sum, size) = dot(row, x);
            self.moved(sum + bias, roundings * (size + bias.abs()))
        };
        w.chunks(x.len()).enumerate().map(row).collect()
    }

    /// The norm of each group of a row.
    fn norm(
        &self,
        norm: Option<NormSpec>,
        groups: &[usize],
        x: &[f64],
        gain: Option<&[f64]>,
        bias: Option<&[f64]>,
    ) -> Vec<f64> {
        let Some(norm) = norm else { return x.to_vec() };
        let (mut y, mut start) = (Vec::new(), 0);
        for &n in groups {
            let row = &x[start..start + n];
            let mean = row.iter().sum::<f64>() / n as f64;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
            let r = match norm.eps_place {
                EpsPlace::Variance => 1.0 / (variance + norm.eps).sqrt(),
                EpsPlace::Deviation => 1.0 / (variance.sqrt() + norm.eps),
            };
            let most = row.iter().fold(0.0f64, |most, x| most.max(x.abs()));
            for (k, x) in row.iter().enumerate() {
                let gain = gain.map_or(1.0, |gain| gain[start + k]);
                let bias = bias.map_or(0.0, |bias| bias[start + k]);
                let (x_hat, value) = ((x - mean) * r, gain * (x - mean) * r + bias);
                let units = if self.is_usual() {
                    // x̂ is off by at most (s + 10)·u·(1 + |x̂|), where s is the depth of its sums: the command's
                    // bench/proof.rs derives that.
                    let depth = 12.0 + (n as f64 / 1024.0).log2().ceil().max(0.0);
                    (depth + 10.0) * gain.abs() * (1.0 + x_hat.abs()) + 2.0 * value.abs()
                } else {
                    // One number is its own mean, exactly.
                    bias.abs() + if n == 1 { 0.0 } else { 4.0 * gain.abs() * r * most }
                };
                y.push(self.moved(value, units));
            }
            start += n;
        }
        y
    }

    fn groups(&self, norm: Option<NormSpec>) -> Vec<usize> {
        let (gates, hidden) = (self.config.variant.gates().len(), self.config.hidden);
        match norm.map_or(Over::AllGates, |norm| norm.over) {
            Over::AllGates => vec![gates * hidden],
            Over::EachGate => vec![hidden; gates],
            Over::GatesAndCandidate => vec![(gates - 1) * hidden, hidden],
        }
    }

    fn norm_x(&self, cell: (usize, usize), zx: &[f64]) -> Vec<f64> {
        let (norm, get) = (self.config.variant.input_norm, |slot| self.get(cell, slot));
        self.norm(norm, &self.groups(norm), zx, get(Slot::InputNormGain), get(Slot::InputNormBias))
    }

    fn norm_h(&self, cell: (usize, usize), zh: &[f64]) -> Vec<f64> {
        let (norm, get) = (self.config.variant.recurrent_norm, |slot| self.get(cell, slot));
        self.norm(norm, &self.groups(norm), zh, get(Slot::RecurrentNormGain), get(Slot::RecurrentNormBias))
    }

    fn norm_s(&self, cell: (usize, usize), s: &[f64]) -> Vec<f64> {
        let (norm, get) = (self.config.variant.sum_norm, |slot| self.get(cell, slot));
        self.norm(norm, &self.groups(norm), s, get(Slot::SumNormGain), get(Slot::SumNormBias))
    }

    /// f(a), where the slope of f is given: the usual error of a is a rounding of its own size.
    fn function(&self, a: f64, y: f64, slope: f64) -> f64 {
        self.moved(y, if self.is_usual() { 4.0 * y.abs() + a.abs() * slope } else { 8.0 * y })
    }

    fn sigmoid(&self, a: f64) -> f64 {
        let y = 1.0 / (1.0 + (-a).exp());
        self.function(a, y, y * (1.0 - y))
    }

    fn tanh(&self, a: f64) -> f64 {
        let y = a.tanh();
        self.function(a, y, 1.0 - y * y)
    }

    /// a∘b + c∘d.
    fn mix(&self, a: f64, b: f64, c: f64, d: f64) -> f64 {
        self.moved(a * b + c * d, 2.0 * ((a * b).abs() + (c * d).abs()))
    }

    fn add(&self, a: f64, b: f64) -> f64 {
        self.single(a + b, a.abs() + b.abs())
    }

    fn step(&self, cell: (usize, usize), x: &[f64], h: &[f64], c: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let (v, hidden, get) = (&self.config.variant, self.config.hidden, |slot| self.get(cell, slot));
        let u = get(Slot::RecurrentWeight).unwrap();
        let input_bias = if v.tied_bias { get(Slot::Bias) } else { get(Slot::InputBias) };
        let zx = self.product(get(Slot::InputWeight).unwrap(), x, input_bias);
        let mut zh = self.product(u, h, get(Slot::RecurrentBias));
        // What comes after the norms: b and the offset.
        let mut b = get(Slot::Bias).map_or(vec![0.0; zx.len()], <[f64]>::to_vec);
        let (start, end) = (self.gate(Gate::Forget).or(self.gate(Gate::Update)).unwrap_or(0), hidden);
        b[start..start + end].iter_mut().for_each(|b| *b += v.offset);

        let (mut new, carried) = match v.kind {
            Kind::Lstm => self.lstm(cell, &zx, &zh, &b, c),
            Kind::Gru => {
                if v.reset == Reset::State {
                    // The candidate's part of zh is U (r∘h) + bh: r comes first.
                    let (nx, nh) = (self.norm_x(cell, &zx), self.norm_h(cell, &zh));
                    let r = |k: usize| self.sigmoid(self.add(self.add(nx[k], nh[k]), b[k]));
                    let rh: Vec<f64> = (0..hidden).map(|k| self.single(r(k) * h[k], h[k])).collect();
                    let bias = get(Slot::RecurrentBias).map(|bias| &bias[2 * hidden..]);
                    let late = self.product(&u[2 * hidden * h.len()..], &rh, bias);
                    zh[2 * hidden..].copy_from_slice(&late);
                }
                (self.gru(cell, &zx, &zh, &b, h), Vec::new())
            }
            Kind::Rnn => (self.rnn(cell, &zx, &zh, &b), Vec::new()),
        };
        if self.config.projection.is_some() {
            new = self.product(get(Slot::Projection).unwrap(), &new, get(Slot::ProjectionBias));
            new.iter_mut().for_each(|h| *h = clip(*h, v.projection_clip));
        }
        let kept = |rate: f64, old: &[f64], new: Vec<f64>| -> Vec<f64> {
            if rate == 0.0 {
                return new;
            }
            old.iter().zip(new).map(|(old, new)| self.mix(rate, *old, 1.0 - rate, new)).collect()
        };
        let noise = &self.config.noise;
        (kept(noise.zoneout_hidden, h, new), kept(noise.zoneout_cell, c, carried))
    }

    /// The first row of a gate.
    fn gate(&self, gate: Gate) -> Option<usize> {
        let place = self.config.variant.gates().iter().position(|&g| g == gate)?;
        Some(place * self.config.hidden)
    }

    /// LNx(zx) + LNh(zh).
    fn sum(&self, cell: (usize, usize), zx: &[f64], zh: &[f64]) -> Vec<f64> {
        let (nx, nh) = (self.norm_x(cell, zx), self.norm_h(cell, zh));
        nx.iter().zip(&nh).map(|(x, h)| self.add(*x, *h)).collect()
    }

    fn lstm(&self, cell: (usize, usize), zx: &[f64], zh: &[f64], b: &[f64], c: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let (v, hidden) = (&self.config.variant, self.config.hidden);
        let at = |gate| self.gate(gate).unwrap();
        let mut s = self.sum(cell, zx, zh);
        let peephole = self.get(cell, Slot::Peephole).map(|p| p.chunks(hidden).collect::<Vec<_>>());
        let peep = |s: &mut [f64], start: usize, p: &[f64], c: &[f64]| {
            (0..hidden).for_each(|k| s[start + k] = self.mix(p[k], c[k], 1.0, s[start + k]));
        };
        if let Some(p) = &peephole {
            if !v.coupled {
                peep(&mut s, at(Gate::Input), p[0], c);
            }
            peep(&mut s, at(Gate::Forget), p[p.len() - 2], c);
        }
        let a = self.norm_s(cell, &s);
        let before = |a: &[f64], gate: Gate, k: usize| self.add(a[at(gate) + k], b[at(gate) + k]);
        let mut new = Vec::new();
        for (k, &old) in c.iter().enumerate() {
            let f = self.sigmoid(before(&a, Gate::Forget, k));
            let i = if v.coupled { 1.0 - f } else { self.sigmoid(before(&a, Gate::Input, k)) };
            let g = self.tanh(before(&a, Gate::Candidate, k));
            new.push(clip(self.mix(f, old, i, g), v.cell_clip));
        }
        if let Some(p) = &peephole {
            peep(&mut s, at(Gate::Output), p[p.len() - 1], &new);
        }
        let a = self.norm_s(cell, &s);
        let norm = v.cell_norm.map(|cell| cell.norm);
        let (gain, bias) = (self.get(cell, Slot::CellNormGain), self.get(cell, Slot::CellNormBias));
        let shown = self.norm(norm, &[hidden], &new, gain, bias);
        let h = (0..hidden).map(|k| {
            let (o, t) = (self.sigmoid(before(&a, Gate::Output, k)), self.tanh(shown[k]));
            self.single(o * t, o * t)
        });
        let h = h.collect();
        (h, if v.cell_norm.is_some_and(|norm| norm.carried) { shown } else { new })
    }

    fn gru(&self, cell: (usize, usize), zx: &[f64], zh: &[f64], b: &[f64], h: &[f64]) -> Vec<f64> {
        let (v, hidden) = (&self.config.variant, self.config.hidden);
        let (nx, nh) = (self.norm_x(cell, zx), self.norm_h(cell, zh));
        let sum: Vec<f64> = nx.iter().zip(&nh).map(|(x, h)| self.add(*x, *h)).collect();
        let a = self.norm_s(cell, &sum);
        let mut new = Vec::new();
        for (k, &old) in h.iter().enumerate() {
            let (kr, kz, kn) = (k, hidden + k, 2 * hidden + k);
            let r = self.sigmoid(self.add(a[kr], b[kr]));
            let z = self.sigmoid(self.add(a[kz], b[kz]));
            let n = self.tanh(match v.reset {
                Reset::State => self.add(self.add(nx[kn], nh[kn]), b[kn]),
                Reset::Product => self.add(self.mix(1.0, nx[kn], r, nh[kn]), b[kn]),
                Reset::Sum => self.mix(r, a[kn], 1.0, b[kn]),
            });
            new.push(match v.update {
                Update::KeepsOld => self.mix(z, old, 1.0 - z, n),
                Update::TakesNew => self.mix(1.0 - z, old, z, n),
            });
        }
        new
    }

    fn rnn(&self, cell: (usize, usize), zx: &[f64], zh: &[f64], b: &[f64]) -> Vec<f64> {
        let a = self.norm_s(cell, &self.sum(cell, zx, zh));
        let activate = |(a, b): (&f64, &f64)| match self.config.variant.activation {
            Activation::Tanh => self.tanh(self.add(*a, *b)),
            Activation::Relu => self.add(*a, *b).max(0.0),
        };
        a.iter().zip(b).map(activate).collect()
    }
}

fn clip(x: f64, limit: Option<f64>) -> f64 {
    limit.map_or(x, |limit| x.clamp(-limit, limit))
}

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
