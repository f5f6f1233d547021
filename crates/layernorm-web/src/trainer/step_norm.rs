//! A norm at one place of an LSTM. Each time step has its own statistics: their distributions differ between early and
//! late steps (Cooijmans et al., 2016). All steps share γ and β.

use super::norm::{Norm, NormKind, Pair, Pass};
use crate::error::Error;
use layernorm::{Context, Float};
use layernorm_rnn::{Params, Real, Slot};

/// A place of an LSTM where a norm can be.
#[derive(Debug)]
pub(super) struct StepNorm<A> {
    /// Places of γ and β in the parameters. The latter may be absent.
    slots: [Slot; 2],
    /// One for each step; empty without a norm.
    each: Vec<Norm<A>>,
    /// Gradients of γ and β from one step.
    dgain: Vec<A>,
    dbias: Vec<A>,
}

impl<A: Real> StepNorm<A> {
    pub(super) fn new(kind: NormKind, slots: [Slot; 2], width: usize, steps: usize) -> Self {
        let steps = if kind == NormKind::None { 0 } else { steps };
        let each = (0..steps).map(|_| Norm::new(kind, width)).collect();
        StepNorm { slots, each, dgain: vec![A::ZERO; width], dbias: vec![A::ZERO; width] }
    }

    fn parameters<'a>(&self, all: &'a Params<A>) -> Pair<&'a [A]> {
        let [gain, bias] = self.slots.map(|slot| all.get(0, 0, slot));
        Pair { gain: gain.unwrap_or_default(), bias }
    }

    /// Computes a = norm(z) at a step; z itself without a norm.
    pub(super) fn forward(
        &mut self,
        step: usize,
        z: &[A],
        a: &mut [A],
        parameters: &Params<A>,
        pass: Pass,
        cx: &mut Context,
    ) -> Result<(), Error> {
        let pair = self.parameters(parameters);
        match self.each.get_mut(step) {
            Some(norm) => norm.forward(z, a, &pair, pass, cx),
            None => {
                a.copy_from_slice(z);
                Ok(())
            }
        }
    }

    /// Computes dz from da, and adds this step's part to the gradients of γ and β.
    pub(super) fn backward(
        &mut self,
        step: usize,
        [z, da]: [&[A]; 2],
        dz: &mut [A],
        (parameters, gradients): (&Params<A>, &mut Params<A>),
        cx: &mut Context,
    ) -> Result<(), Error> {
        let pair = self.parameters(parameters);
        let Some(norm) = self.each.get_mut(step) else {
            dz.copy_from_slice(da);
            return Ok(());
        };
        let d = Pair { gain: &mut self.dgain[..], bias: pair.bias.map(|_| &mut self.dbias[..]) };
        norm.backward(z, da, dz, &pair, d, cx)?;
        for (slot, part) in self.slots.iter().zip([&self.dgain, &self.dbias]) {
            if let Some(gradient) = gradients.get_mut(0, 0, *slot) {
                add(gradient, part);
            }
        }
        Ok(())
    }
}

/// Adds numbers element by element.
pub(super) fn add<A: Float>(to: &mut [A], from: &[A]) {
    to.iter_mut().zip(from).for_each(|(to, &number)| *to = *to + number);
}
