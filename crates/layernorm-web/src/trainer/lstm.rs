//! An LSTM that reads a sample step by step, then a linear layer on its last state.
//!
//! ```text
//! h = LSTM(x_1 … x_T)    logits = h_T W + b
//! dW = h_Tᵀ dlogits    db = Σ dlogits    dh_T = dlogits Wᵀ    then backward through time
//! ```

use super::cells::Cells;
use super::network::{Named, Network, Updates, uniform};
use super::norm::NormKind;
use super::product::{column_sums, product, rows, transpose, transposed};
use crate::error::Error;
use layernorm::parts::{SplitMix64, memory};
use layernorm::{Context, Element};
use layernorm_rnn::Real;

/// What defines the network.
#[derive(Debug)]
pub(super) struct LstmSpec {
    pub(super) steps: usize,
    /// Numbers of a step.
    pub(super) inputs: usize,
    pub(super) hidden: usize,
    pub(super) classes: usize,
    pub(super) norm: NormKind,
    /// Factor of the initial weights.
    pub(super) weight_scale: f64,
    pub(super) seed: u64,
}

/// An LSTM with a linear layer.
#[derive(Debug)]
pub(super) struct Lstm<A: Element> {
    hidden: usize,
    classes: usize,
    cells: Cells<A>,
    /// W `[hidden, classes]`, then b.
    head: Vec<A>,
    dhead: Vec<A>,
    /// The gradient of the last h.
    dh: Vec<A>,
    /// Wᵀ.
    across: Vec<A>,
    cx: Context,
}

impl<A: Real> Lstm<A> {
    /// Creates a network: the cells with [`Cells::new`]; the linear layer uniform in ±sqrt(6/(hidden + classes)), times
    /// the scale.
    pub(super) fn new(spec: &LstmSpec) -> Result<Lstm<A>, Error> {
        let sizes = [spec.steps, spec.inputs, spec.hidden];
        let weights = spec.hidden * spec.classes;
        let mut head: Vec<A> = memory::zeros(weights + spec.classes)?;
        let bound = spec.weight_scale * (6.0 / (spec.hidden + spec.classes) as f64).sqrt();
        uniform(&mut SplitMix64::stream(spec.seed, 1), bound, &mut head[..weights]);
        Ok(Lstm {
            hidden: spec.hidden,
            classes: spec.classes,
            cells: Cells::new(spec.norm, sizes, spec.weight_scale, spec.seed)?,
            dhead: memory::zeros(head.len())?,
            head,
            dh: Vec::new(),
            across: Vec::new(),
            cx: Context::new().with_threads(1)?,
        })
    }

    /// Computes the logits, in training or at inference.
    fn forward(&mut self, x: &[A], training: bool, logits: &mut Vec<A>) -> Result<(), Error> {
        let (hidden, classes) = (self.hidden, self.classes);
        let h = if training { self.cells.train(x)? } else { self.cells.infer(x)? };
        memory::refill(logits, h.len() / hidden * classes, A::ZERO)?;
        let (weight, bias) = self.head.split_at(hidden * classes);
        product(&self.cx, rows(h, hidden), weight, logits, classes)?;
        for row in logits.chunks_exact_mut(classes) {
            row.iter_mut().zip(bias).for_each(|(logit, &b)| *logit = *logit + b);
        }
        Ok(())
    }
}

impl<A: Real> Network<A> for Lstm<A> {
    fn train(&mut self, x: &[A], logits: &mut Vec<A>) -> Result<(), Error> {
        self.forward(x, true, logits)
    }

    fn backward(&mut self, _: &[A], dlogits: &[A]) -> Result<(), Error> {
        let (hidden, classes) = (self.hidden, self.classes);
        let weights = hidden * classes;
        let (dweight, dbias) = self.dhead.split_at_mut(weights);
        product(&self.cx, transposed(self.cells.last(), hidden), dlogits, dweight, classes)?;
        column_sums(dlogits, dbias);
        memory::refill(&mut self.across, weights, A::ZERO)?;
        transpose(&self.head[..weights], classes, &mut self.across);
        memory::refill(&mut self.dh, dlogits.len() / classes * hidden, A::ZERO)?;
        product(&self.cx, rows(dlogits, classes), &self.across, &mut self.dh, hidden)?;
        self.cells.backward(&mut self.dh)
    }

    fn settle(&mut self, x: &[A], before: u64) -> Result<bool, Error> {
        if self.cells.settles() {
            self.cells.settle(x, before)?;
        }
        Ok(self.cells.settles())
    }

    fn infer(&mut self, x: &[A], logits: &mut Vec<A>) -> Result<(), Error> {
        self.forward(x, false, logits)
    }

    fn updates(&mut self) -> Updates<'_, A> {
        vec![self.cells.updates(), (&mut self.head, &self.dhead)]
    }

    fn activations(&self) -> Vec<Named<'_, A>> {
        let [h, c] = self.cells.states();
        vec![("h of all steps".to_owned(), h), ("c of the last step".to_owned(), c)]
    }

    fn gradients(&self) -> Vec<Named<'_, A>> {
        let gradients = self.cells.gradients();
        let named = |entry: &layernorm_rnn::Entry| {
            (entry.slot.name().replace(['_', '.'], " "), &gradients.values()[entry.range.clone()])
        };
        gradients.entries().iter().map(named).chain([("output".to_owned(), &self.dhead[..])]).collect()
    }
}
