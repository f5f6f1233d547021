//! Memory of the cells: what a forward pass leaves for backward, and what a pass needs for itself.

use super::super::product::transpose;
use super::super::step_norm::add;
use crate::error::Error;
use layernorm::parts::memory;
use layernorm_rnn::{Params, Real, Slot};

/// The slots of biases: variants have one or two of them.
pub(super) const BIASES: [Slot; 3] = [Slot::InputBias, Slot::RecurrentBias, Slot::Bias];

/// Numbers of a batch of B samples. Except in training only one step is kept: T is 1, except in x.
#[derive(Debug)]
pub(super) struct Numbers<A> {
    /// x `[T, B, I]`.
    pub(super) x: Vec<A>,
    /// W x and U h `[T, B, 4H]`. Backward replaces them by their gradients.
    pub(super) zx: Vec<A>,
    pub(super) zh: Vec<A>,
    /// i, f, g, o `[T, B, 4H]`. Backward replaces them by da.
    pub(super) gates: Vec<A>,
    /// c and s `[T, B, H]`.
    pub(super) c: Vec<A>,
    pub(super) s: Vec<A>,
    /// h `[T + 1, B, H]`; the first is that before the first step.
    pub(super) h: Vec<A>,
    /// The state c and h `[B, H]` after the last step.
    pub(super) last_c: Vec<A>,
    pub(super) last_h: Vec<A>,
}

/// Memory of a pass.
#[derive(Debug)]
pub(super) struct Scratch<A> {
    /// Wᵀ `[I, 4H]` and Uᵀ `[H, 4H]`, or their gradients.
    pub(super) across: [Vec<A>; 2],
    /// The sum of the biases `[4H]`.
    pub(super) bias: Vec<A>,
    /// `[B, 4H]`.
    pub(super) wide: Vec<A>,
    /// `[B, H]`.
    pub(super) dc: Vec<A>,
    pub(super) dn: Vec<A>,
}

impl<A: Real> Numbers<A> {
    pub(super) fn new() -> Self {
        let [x, zx, zh, gates, c, s, h, last_c, last_h] = std::array::from_fn(|_| Vec::new());
        Numbers { x, zx, zh, gates, c, s, h, last_c, last_h }
    }

    /// Makes room for `kept` steps of a batch. The first states are 0.
    pub(super) fn prepare(&mut self, batch: usize, kept: usize, hidden: usize) -> Result<(), Error> {
        let count = batch * hidden;
        for wide in [&mut self.zx, &mut self.zh, &mut self.gates] {
            memory::refill(wide, 4 * kept * count, A::ZERO)?;
        }
        for (narrow, kept) in [(&mut self.c, kept), (&mut self.s, kept), (&mut self.h, kept + 1)] {
            memory::refill(narrow, kept * count, A::ZERO)?;
        }
        for last in [&mut self.last_c, &mut self.last_h] {
            memory::refill(last, count, A::ZERO)?;
        }
        Ok(())
    }

    /// Copies samples `[B, T, I]`, step by step.
    pub(super) fn read(&mut self, samples: &[A], batch: usize, steps: usize) -> Result<(), Error> {
        let inputs = samples.len() / (batch * steps);
        memory::refill(&mut self.x, samples.len(), A::ZERO)?;
        for (at, to) in self.x.chunks_exact_mut(inputs).enumerate() {
            let (step, sample) = (at / batch, at % batch);
            to.copy_from_slice(&samples[(sample * steps + step) * inputs..][..inputs]);
        }
        Ok(())
    }
}

impl<A: Real> Scratch<A> {
    pub(super) fn new() -> Self {
        let [input, recurrent, bias, wide, dc, dn] = std::array::from_fn(|_| Vec::new());
        Scratch { across: [input, recurrent], bias, wide, dc, dn }
    }

    /// Transposes W and U, adds the biases, and makes room for the rest.
    pub(super) fn prepare(&mut self, params: &Params<A>, batch: usize, hidden: usize) -> Result<(), Error> {
        for (slot, across) in [Slot::InputWeight, Slot::RecurrentWeight].into_iter().zip(&mut self.across) {
            let weight = params.get(0, 0, slot).unwrap_or_default();
            memory::refill(across, weight.len(), A::ZERO)?;
            transpose(weight, weight.len() / (4 * hidden), across);
        }
        memory::refill(&mut self.bias, 4 * hidden, A::ZERO)?;
        BIASES.iter().filter_map(|&slot| params.get(0, 0, slot)).for_each(|bias| add(&mut self.bias, bias));
        memory::refill(&mut self.wide, 4 * batch * hidden, A::ZERO)?;
        memory::refill(&mut self.dc, batch * hidden, A::ZERO)?;
        Ok(memory::refill(&mut self.dn, batch * hidden, A::ZERO)?)
    }
}
