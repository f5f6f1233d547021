//! A multilayer perceptron: linear, norm and max(0, x) for each hidden layer, then a linear layer.
//!
//! ```text
//! hidden   z = x W + b    a = norm(z)    y = max(0, a)
//! output   z = x W + b, the logits
//!
//! da = dy where a > 0    dz: see the norm    dW = xᵀ dz    db = Σ dz    dx = dz Wᵀ
//! ```
//! W is `[inputs, outputs]`. Layers with a norm keep b, as in PyTorch: without it, layer norm would not see how long a
//! sample is.

use super::network::{Named, Network, Updates, uniform};
use super::norm::{Norm, NormKind, Pair, Pass};
use super::product::{column_sums, product, rows, transpose, transposed};
use crate::error::Error;
use layernorm::batch_norm::Momentum;
use layernorm::parts::{SplitMix64, memory};
use layernorm::{Context, Float};
use std::ops::Range;

/// Weight of a batch in the running statistics of batch norm, as in PyTorch.
const MOMENTUM: Momentum = Momentum::Exponential(0.1);

/// What defines an MLP.
#[derive(Debug)]
pub(super) struct MlpSpec<'a> {
    pub(super) inputs: usize,
    pub(super) hidden: &'a [usize],
    pub(super) classes: usize,
    pub(super) norm: NormKind,
    /// Factor of the initial weights.
    pub(super) weight_scale: f64,
    pub(super) seed: u64,
}

/// A layer: its sizes and the places of its parameters.
#[derive(Debug)]
struct Layer<A> {
    inputs: usize,
    outputs: usize,
    /// W.
    weight: Range<usize>,
    /// b.
    bias: Range<usize>,
    /// γ; empty without a norm.
    gain: Range<usize>,
    /// β; empty without a norm.
    shift: Range<usize>,
    norm: Option<Norm<A>>,
    /// Whether max(0, x) follows.
    hidden: bool,
}

/// Numbers of a layer for one batch.
#[derive(Debug, Default)]
struct Numbers<A> {
    z: Vec<A>,
    /// norm(z); empty without a norm.
    a: Vec<A>,
    /// max(0, a); empty in the last layer.
    y: Vec<A>,
}

impl<A> Numbers<A> {
    /// Returns what enters max(0, x).
    fn activation(&self) -> &[A] {
        if self.a.is_empty() { &self.z } else { &self.a }
    }
}

/// Memory of a backward pass.
#[derive(Debug, Default)]
struct Scratch<A> {
    da: Vec<A>,
    dz: Vec<A>,
    dx: Vec<A>,
    /// Wᵀ.
    across: Vec<A>,
}

/// A multilayer perceptron.
#[derive(Debug)]
pub(super) struct Mlp<A> {
    layers: Vec<Layer<A>>,
    parameters: Vec<A>,
    gradients: Vec<A>,
    /// Of the last batch in training.
    trained: Vec<Numbers<A>>,
    /// Of the last batch at inference.
    inferred: Vec<Numbers<A>>,
    scratch: Scratch<A>,
    cx: Context,
}

impl<A: Float> Mlp<A> {
    /// Creates a network: W of hidden layers uniform in ±sqrt(6/inputs) (He), of the last in ±sqrt(6/(inputs + outputs))
    /// (Glorot), both times the scale; b of hidden layers uniform in ±1/sqrt(inputs), of the last 0; γ = 1; β = 0.
    pub(super) fn new(spec: &MlpSpec) -> Result<Mlp<A>, Error> {
        let (mut layers, mut end, mut inputs) = (Vec::new(), 0, spec.inputs);
        for (at, &outputs) in spec.hidden.iter().chain([&spec.classes]).enumerate() {
            let hidden = at < spec.hidden.len();
            let normed = hidden && spec.norm != NormKind::None;
            let weight = end..end + inputs * outputs;
            let bias = weight.end..weight.end + outputs;
            let affine = if normed { outputs } else { 0 };
            let gain = bias.end..bias.end + affine;
            let shift = gain.end..gain.end + affine;
            end = shift.end;
            let norm = normed.then(|| Norm::new(spec.norm, outputs));
            layers.push(Layer { inputs, outputs, weight, bias, gain, shift, norm, hidden });
            inputs = outputs;
        }
        let mut parameters: Vec<A> = memory::zeros(end)?;
        let mut random = SplitMix64::stream(spec.seed, 1);
        for layer in &layers {
            let fan = if layer.hidden { layer.inputs } else { layer.inputs + layer.outputs };
            let bound = spec.weight_scale * (6.0 / fan as f64).sqrt();
            uniform(&mut random, bound, &mut parameters[layer.weight.clone()]);
            if layer.hidden {
                uniform(&mut random, (1.0 / layer.inputs as f64).sqrt(), &mut parameters[layer.bias.clone()]);
            }
            parameters[layer.gain.clone()].fill(A::ONE);
        }
        let numbers = || layers.iter().map(|_| Numbers { z: Vec::new(), a: Vec::new(), y: Vec::new() }).collect();
        Ok(Mlp {
            trained: numbers(),
            inferred: numbers(),
            layers,
            gradients: memory::zeros(end)?,
            parameters,
            scratch: Scratch { da: Vec::new(), dz: Vec::new(), dx: Vec::new(), across: Vec::new() },
            cx: Context::new().with_threads(1)?,
        })
    }

    fn forward(&mut self, x: &[A], pass: Pass, logits: &mut Vec<A>) -> Result<(), Error> {
        let all = if pass == Pass::Inference { &mut self.inferred } else { &mut self.trained };
        for (at, layer) in self.layers.iter_mut().enumerate() {
            let (before, rest) = all.split_at_mut(at);
            let x = before.last().map_or(x, |numbers| &numbers.y[..]);
            layer.forward(x, &self.parameters, &mut rest[0], pass, &mut self.cx)?;
        }
        if let Some(last) = all.last() {
            memory::refill(logits, last.z.len(), A::ZERO)?;
            logits.copy_from_slice(&last.z);
        }
        Ok(())
    }
}

impl<A: Float> Layer<A> {
    fn forward(
        &mut self,
        x: &[A],
        parameters: &[A],
        numbers: &mut Numbers<A>,
        pass: Pass,
        cx: &mut Context,
    ) -> Result<(), Error> {
        let Numbers { z, a, y } = numbers;
        let count = x.len() / self.inputs * self.outputs;
        let (weight, bias) = (&parameters[self.weight.clone()], &parameters[self.bias.clone()]);
        memory::refill(z, count, A::ZERO)?;
        product(cx, rows(x, self.inputs), weight, z, self.outputs)?;
        for row in z.chunks_exact_mut(self.outputs) {
            row.iter_mut().zip(bias).for_each(|(z, &b)| *z = *z + b);
        }
        if let Some(norm) = &mut self.norm {
            memory::refill(a, count, A::ZERO)?;
            let pair = Pair { gain: &parameters[self.gain.clone()], bias: Some(&parameters[self.shift.clone()]) };
            norm.forward(z, a, &pair, pass, cx)?;
        }
        if self.hidden {
            memory::refill(y, count, A::ZERO)?;
            let a = if self.norm.is_some() { &*a } else { &*z };
            // A NaN stays a NaN.
            y.iter_mut().zip(a).for_each(|(y, &a)| *y = if a < A::ZERO { A::ZERO } else { a });
        }
        Ok(())
    }

    /// Computes the gradients of the parameters from dy in `scratch.dx`, and leaves the gradient of x there if wanted.
    fn backward(
        &mut self,
        x: &[A],
        numbers: &Numbers<A>,
        (parameters, gradients): (&[A], &mut [A]),
        scratch: &mut Scratch<A>,
        wants_dx: bool,
        cx: &mut Context,
    ) -> Result<(), Error> {
        let Scratch { da, dz, dx, across } = scratch;
        std::mem::swap(da, dx);
        if self.hidden {
            let rectified = da.iter_mut().zip(numbers.activation()).filter(|(_, a)| **a <= A::ZERO);
            rectified.for_each(|(da, _)| *da = A::ZERO);
        }
        let (dlinear, dnorm) = gradients.split_at_mut(self.gain.start);
        let (dweight, dbias) = dlinear[self.weight.start..].split_at_mut(self.weight.len());
        match &mut self.norm {
            Some(norm) => {
                memory::refill(dz, da.len(), A::ZERO)?;
                let pair = Pair { gain: &parameters[self.gain.clone()], bias: Some(&parameters[self.shift.clone()]) };
                let (gain, rest) = dnorm.split_at_mut(self.gain.len());
                norm.backward(&numbers.z, da, dz, &pair, Pair { gain, bias: Some(&mut rest[..self.outputs]) }, cx)?;
            }
            None => std::mem::swap(da, dz),
        }
        column_sums(dz, dbias);
        product(cx, transposed(x, self.inputs), dz, dweight, self.outputs)?;
        if wants_dx {
            memory::refill(across, self.inputs * self.outputs, A::ZERO)?;
            transpose(&parameters[self.weight.clone()], self.outputs, across);
            memory::refill(dx, x.len(), A::ZERO)?;
            product(cx, rows(dz, self.outputs), across, dx, self.inputs)?;
        }
        Ok(())
    }
}

impl<A: Float> Network<A> for Mlp<A> {
    fn train(&mut self, x: &[A], logits: &mut Vec<A>) -> Result<(), Error> {
        self.forward(x, Pass::Training(MOMENTUM), logits)
    }

    fn backward(&mut self, x: &[A], dlogits: &[A]) -> Result<(), Error> {
        memory::refill(&mut self.scratch.dx, dlogits.len(), A::ZERO)?;
        self.scratch.dx.copy_from_slice(dlogits);
        for (at, layer) in self.layers.iter_mut().enumerate().rev() {
            let x = if at == 0 { x } else { &self.trained[at - 1].y };
            let parameters = (&self.parameters[..], &mut self.gradients[..]);
            layer.backward(x, &self.trained[at], parameters, &mut self.scratch, at > 0, &mut self.cx)?;
        }
        Ok(())
    }

    fn infer(&mut self, x: &[A], logits: &mut Vec<A>) -> Result<(), Error> {
        self.forward(x, Pass::Inference, logits)
    }

    fn updates(&mut self) -> Updates<'_, A> {
        vec![(&mut self.parameters, &self.gradients)]
    }

    fn activations(&self) -> Vec<Named<'_, A>> {
        let numbers = self.trained.iter().map(Numbers::activation);
        self.names().zip(numbers).collect()
    }

    fn gradients(&self) -> Vec<Named<'_, A>> {
        let ranges = self.layers.iter().map(|layer| layer.weight.start..layer.shift.end);
        self.names().zip(ranges.map(|range| &self.gradients[range])).collect()
    }
}

impl<A> Mlp<A> {
    fn names(&self) -> impl Iterator<Item = String> {
        let last = self.layers.len() - 1;
        (0..=last).map(move |at| if at < last { format!("layer {}", at + 1) } else { "output".to_owned() })
    }
}
