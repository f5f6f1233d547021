//! The cells of an LSTM, step by step, with a norm in the places of the paper's layer norms:
//!
//! ```text
//! a = Nx(W x) + Nh(U h) + b              i = σ(aᵢ)   f = σ(a_f)   g = tanh(a_g)   o = σ(a_o)
//! c = f∘c + i∘g    s = tanh(Nc(c))       h = o∘s
//!
//! do = dh∘s    dc += Ncᵀ(dh∘o∘(1 − s²))    di = dc∘g    df = dc∘c of the step before    dg = dc∘i
//! da = (di∘i∘(1 − i), df∘f∘(1 − f), dg∘(1 − g²), do∘o∘(1 − o))
//! zx = W x    zh = U h    dzx, dzh: see the norm    dW = Σ dzx xᵀ    dU = Σ dzh hᵀ    db = Σ da
//! to the step before: dh = Uᵀ dzh    dc = dc∘f
//! ```
//! None and layer norm are the variants `none` and `paper` of layernorm-rnn. RMS and batch norm stand in the places of
//! the variant `haste`'s layer norms: β only in Nc, because b does the same as β of the others.
//!
//! Batch norm does two more things that its authors do. The first h is noise in training, not 0: images are blank in the
//! first steps, and without variance between the samples, division by sqrt(ε) at each of them makes gradients explode.
//! At inference, statistics are means over batches of training samples with the network as it is then
//! ([`Cells::settle`]): running means are inaccurate where few samples are not blank.

mod numbers;
#[cfg(test)]
mod tests;

use super::network::uniform;
use super::norm::{NormKind, Pass};
use super::product::{column_sums, product, rows, transpose, transposed};
use super::step_norm::{StepNorm, add};
use crate::error::Error;
use layernorm::batch_norm::Momentum;
use layernorm::parts::SplitMix64;
use layernorm::{Context, Element};
use layernorm_rnn::{Config, Init, Kind, Network, Params, Real, Slot, Variant, functions};
use numbers::{BIASES, Numbers, Scratch};

/// Initial γ of batch norm. Larger ones saturate tanh, and gradients vanish (Cooijmans et al., 2016).
const BATCH_GAIN: f64 = 0.1;
/// With batch norm, the first h in training is uniform in ± this number.
const NOISE: f64 = 0.1;

/// γ and β of Nx, Nh and Nc.
const NORMS: [[Slot; 2]; 3] = [
    [Slot::InputNormGain, Slot::InputNormBias],
    [Slot::RecurrentNormGain, Slot::RecurrentNormBias],
    [Slot::CellNormGain, Slot::CellNormBias],
];

/// Returns the cell whose parameters a network with this norm has.
pub(super) fn variant(norm: NormKind) -> Result<Variant, Error> {
    let name = match norm {
        NormKind::None => "none",
        NormKind::Layer => "paper",
        NormKind::Batch | NormKind::Rms => "haste",
    };
    Ok(Variant::named(Kind::Lstm, name)?)
}

/// The cells with their parameters.
#[derive(Debug)]
pub(super) struct Cells<A: Element> {
    norm: NormKind,
    seed: u64,
    steps: usize,
    inputs: usize,
    hidden: usize,
    params: Params<A>,
    gradients: Params<A>,
    /// Nx, Nh and Nc.
    norms: [StepNorm<A>; 3],
    /// Of the last batch in training.
    trained: Numbers<A>,
    /// Of the last other batch.
    inferred: Numbers<A>,
    scratch: Scratch<A>,
    cx: Context,
}

impl<A: Real> Cells<A> {
    /// Creates cells: all uniform in ±1/sqrt(hidden), as in PyTorch, and 1 added to the forget gate's bias; W and U times
    /// the scale; γ = 1, or 0.1 for batch norm; β = 0.
    pub(super) fn new(
        norm: NormKind,
        [steps, inputs, hidden]: [usize; 3],
        scale: f64,
        seed: u64,
    ) -> Result<Self, Error> {
        let config = Config::new(variant(norm)?, inputs, hidden);
        let init = Init { forget_bias: 1.0, ..Init::torch() };
        let mut params = Network::<A>::new(config, init, seed)?.params().clone();
        let mut change = |slot: Slot, to: &dyn Fn(A) -> A| {
            params.get_mut(0, 0, slot).unwrap_or_default().iter_mut().for_each(|number| *number = to(*number));
        };
        for slot in [Slot::InputWeight, Slot::RecurrentWeight] {
            change(slot, &|weight| weight * A::from_f64(scale));
        }
        if norm == NormKind::Batch {
            NORMS.iter().for_each(|[gain, _]| change(*gain, &|_| A::from_f64(BATCH_GAIN)));
        }
        let widths = [4 * hidden, 4 * hidden, hidden];
        Ok(Cells {
            norm,
            seed,
            steps,
            inputs,
            hidden,
            gradients: params.try_zeros_like()?,
            params,
            norms: std::array::from_fn(|at| StepNorm::new(norm, NORMS[at], widths[at], steps)),
            trained: Numbers::new(),
            inferred: Numbers::new(),
            scratch: Scratch::new(),
            cx: Context::new().with_threads(1)?,
        })
    }

    /// Returns whether inference needs [`Cells::settle`].
    pub(super) fn settles(&self) -> bool {
        self.norm == NormKind::Batch
    }

    /// Returns the parameters and their gradients.
    pub(super) fn updates(&mut self) -> (&mut [A], &[A]) {
        (self.params.values_mut(), self.gradients.values())
    }

    pub(super) fn gradients(&self) -> &Params<A> {
        &self.gradients
    }

    /// Returns h of all steps, and c of the last one, of the last batch in training.
    pub(super) fn states(&self) -> [&[A]; 2] {
        let Numbers { h, last_c, last_h, .. } = &self.trained;
        [h.get(last_h.len()..).unwrap_or_default(), last_c]
    }

    /// Returns h of the last step in training.
    pub(super) fn last(&self) -> &[A] {
        &self.trained.last_h
    }

    /// Reads samples `[B, T, I]` in training; returns h of the last step.
    pub(super) fn train(&mut self, x: &[A]) -> Result<&[A], Error> {
        self.forward(x, Pass::Training(Momentum::Exponential(0.0)), true)
    }

    /// Adds the statistics of a batch of training samples to those of inference. `before` is the number of batches added
    /// already; with 0, it replaces the statistics.
    pub(super) fn settle(&mut self, x: &[A], before: u64) -> Result<(), Error> {
        self.forward(x, Pass::Training(Momentum::Cumulative(before)), false)?;
        Ok(())
    }

    /// Reads samples at inference; returns h of the last step.
    pub(super) fn infer(&mut self, x: &[A]) -> Result<&[A], Error> {
        self.forward(x, Pass::Inference, false)
    }

    fn forward(&mut self, x: &[A], pass: Pass, training: bool) -> Result<&[A], Error> {
        let hidden = self.hidden;
        let batch = x.len() / (self.steps * self.inputs);
        let numbers = if training { &mut self.trained } else { &mut self.inferred };
        let kept = if training { self.steps } else { 1 };
        numbers.prepare(batch, kept, hidden)?;
        numbers.read(x, batch, self.steps)?;
        if self.norm == NormKind::Batch && pass != Pass::Inference {
            noise(self.seed, &mut numbers.last_h);
            numbers.h[..batch * hidden].copy_from_slice(&numbers.last_h);
        }
        self.scratch.prepare(&self.params, batch, hidden)?;
        let mut run = Forward { params: &self.params, pass, norms: &mut self.norms, cx: &mut self.cx };
        for step in 0..self.steps {
            let at = step % kept;
            run.gates(step, at, numbers, &mut self.scratch, [self.inputs, hidden])?;
            run.state(step, at, numbers, hidden)?;
        }
        Ok(&numbers.last_h)
    }

    /// Computes the gradients of the parameters after a forward pass in training, from that of the last h, which is
    /// overwritten.
    pub(super) fn backward(&mut self, dh: &mut [A]) -> Result<(), Error> {
        let (hidden, gates) = (self.hidden, 4 * self.hidden);
        let (narrow, wide) = (dh.len(), 4 * dh.len());
        let Numbers { zx, zh, gates: values, c, s, .. } = &mut self.trained;
        let Scratch { wide: dz, dc, dn, .. } = &mut self.scratch;
        let [input, recurrent, cell] = &mut self.norms;
        self.gradients.values_mut().fill(A::ZERO);
        dc.fill(A::ZERO);
        for step in (0..self.steps).rev() {
            let [few, many] = [narrow, wide].map(|count| step * count..(step + 1) * count);
            let a = &mut values[many.clone()];
            shown_back(a, &s[few.clone()], dh, dn, hidden);
            let both = (&self.params, &mut self.gradients);
            cell.backward(step, [&c[few.clone()], dn], &mut dz[..narrow], both, &mut self.cx)?;
            add(dc, &dz[..narrow]);
            let before = step.checked_sub(1).map(|step| &c[step * narrow..][..narrow]);
            gates_back(a, before, [&s[few], dh], dc, hidden);
            let both = (&self.params, &mut self.gradients);
            input.backward(step, [&zx[many.clone()], a], dz, both, &mut self.cx)?;
            zx[many.clone()].copy_from_slice(dz);
            let both = (&self.params, &mut self.gradients);
            recurrent.backward(step, [&zh[many.clone()], a], dz, both, &mut self.cx)?;
            zh[many].copy_from_slice(dz);
            let weight = self.params.get(0, 0, Slot::RecurrentWeight).unwrap_or_default();
            product(&self.cx, rows(dz, gates), weight, dh, hidden)?;
        }
        self.weights_back(narrow)
    }

    /// Computes the gradients of W, U and the biases from those of W x, U h and a of all steps; `count` is B·H.
    fn weights_back(&mut self, count: usize) -> Result<(), Error> {
        let Numbers { x, zx, zh, gates, h, .. } = &self.trained;
        let [dinput, drecurrent] = &mut self.scratch.across;
        product(&self.cx, transposed(x, self.inputs), zx, dinput, 4 * self.hidden)?;
        let before = transposed(&h[..h.len() - count], self.hidden);
        product(&self.cx, before, zh, drecurrent, 4 * self.hidden)?;
        for (slot, from) in [(Slot::InputWeight, dinput), (Slot::RecurrentWeight, drecurrent)] {
            transpose(from, 4 * self.hidden, self.gradients.get_mut(0, 0, slot).unwrap_or_default());
        }
        for slot in BIASES {
            if let Some(bias) = self.gradients.get_mut(0, 0, slot) {
                column_sums(gates, bias);
            }
        }
        Ok(())
    }
}

/// What a forward pass needs at every step.
struct Forward<'a, A> {
    params: &'a Params<A>,
    pass: Pass,
    norms: &'a mut [StepNorm<A>; 3],
    cx: &'a mut Context,
}

impl<A: Real> Forward<'_, A> {
    /// Computes i, f, g and o of a step, whose numbers are kept in place `at`.
    fn gates(
        &mut self,
        step: usize,
        at: usize,
        numbers: &mut Numbers<A>,
        scratch: &mut Scratch<A>,
        [inputs, hidden]: [usize; 2],
    ) -> Result<(), Error> {
        let batch = numbers.last_h.len() / hidden;
        let many = at * batch * 4 * hidden..(at + 1) * batch * 4 * hidden;
        let a = &mut numbers.gates[many.clone()];
        let (zx, zh) = (&mut numbers.zx[many.clone()], &mut numbers.zh[many]);
        let x = &numbers.x[step * batch * inputs..][..batch * inputs];
        let [input, recurrent, _] = &mut *self.norms;
        product(self.cx, rows(x, inputs), &scratch.across[0], zx, 4 * hidden)?;
        input.forward(step, zx, a, self.params, self.pass, self.cx)?;
        product(self.cx, rows(&numbers.last_h, hidden), &scratch.across[1], zh, 4 * hidden)?;
        recurrent.forward(step, zh, &mut scratch.wide, self.params, self.pass, self.cx)?;
        add(a, &scratch.wide);
        for a in a.chunks_exact_mut(4 * hidden) {
            add(a, &scratch.bias);
            let (i_and_f, g_and_o) = a.split_at_mut(2 * hidden);
            let (g, o) = g_and_o.split_at_mut(hidden);
            functions::sigmoid(self.cx, i_and_f)?;
            functions::tanh(self.cx, g)?;
            functions::sigmoid(self.cx, o)?;
        }
        Ok(())
    }

    /// Computes c, s and h of a step from its gates.
    fn state(&mut self, step: usize, at: usize, numbers: &mut Numbers<A>, hidden: usize) -> Result<(), Error> {
        let (gates, count) = (4 * hidden, numbers.last_h.len());
        let few = at * count..(at + 1) * count;
        let values = &numbers.gates[4 * few.start..4 * few.end];
        for (c, values) in numbers.last_c.chunks_exact_mut(hidden).zip(values.chunks_exact(gates)) {
            let [i, f, g, _] = parts(values);
            for (at, c) in c.iter_mut().enumerate() {
                *c = f[at] * *c + i[at] * g[at];
            }
        }
        let s = &mut numbers.s[few.clone()];
        self.norms[2].forward(step, &numbers.last_c, s, self.params, self.pass, self.cx)?;
        functions::tanh(self.cx, s)?;
        let h = numbers.last_h.chunks_exact_mut(hidden).zip(s.chunks_exact(hidden));
        for ((h, s), values) in h.zip(values.chunks_exact(gates)) {
            let [_, _, _, o] = parts(values);
            for (at, h) in h.iter_mut().enumerate() {
                *h = o[at] * s[at];
            }
        }
        numbers.h[few.end..few.end + count].copy_from_slice(&numbers.last_h);
        numbers.c[few].copy_from_slice(&numbers.last_c);
        Ok(())
    }
}

/// Writes the first h of batch norm in training: the same for every batch, which is in random order.
fn noise<A: Real>(seed: u64, h: &mut [A]) {
    uniform(&mut SplitMix64::stream(seed, 0), NOISE, h);
}

/// Splits the gates of a sample into i, f, g and o.
fn parts<A>(gates: &[A]) -> [&[A]; 4] {
    let hidden = gates.len() / 4;
    std::array::from_fn(|gate| &gates[gate * hidden..][..hidden])
}

/// Computes dh∘o∘(1 − s²), the gradient of Nc(c).
fn shown_back<A: Real>(gates: &[A], s: &[A], dh: &[A], dn: &mut [A], hidden: usize) {
    let samples = s.chunks_exact(hidden).zip(dh.chunks_exact(hidden)).zip(gates.chunks_exact(4 * hidden));
    for (((s, dh), gates), dn) in samples.zip(dn.chunks_exact_mut(hidden)) {
        let [_, _, _, o] = parts(gates);
        for (at, dn) in dn.iter_mut().enumerate() {
            *dn = dh[at] * o[at] * (A::ONE - s[at] * s[at]);
        }
    }
}

/// Replaces i, f, g and o by da, and dc by its part for the step before. `before` is c of that step, or none.
fn gates_back<A: Real>(gates: &mut [A], before: Option<&[A]>, [s, dh]: [&[A]; 2], dc: &mut [A], hidden: usize) {
    for (sample, (gates, dc)) in gates.chunks_exact_mut(4 * hidden).zip(dc.chunks_exact_mut(hidden)).enumerate() {
        let [s, dh] = [s, dh].map(|numbers| &numbers[sample * hidden..][..hidden]);
        let before = before.map(|c| &c[sample * hidden..][..hidden]);
        for at in 0..hidden {
            let [i, f, g, o] = std::array::from_fn(|gate| gates[gate * hidden + at]);
            let of_sigmoid = |gate: A| gate * (A::ONE - gate);
            gates[at] = dc[at] * g * of_sigmoid(i);
            gates[hidden + at] = before.map_or(A::ZERO, |c| dc[at] * c[at] * of_sigmoid(f));
            gates[2 * hidden + at] = dc[at] * i * (A::ONE - g * g);
            gates[3 * hidden + at] = dh[at] * s[at] * of_sigmoid(o);
            dc[at] = dc[at] * f;
        }
    }
}
