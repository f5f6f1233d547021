//! An LSTM that reads a sample step by step, then a linear layer on its last state. The cell is that of layernorm-rnn.
//!
//! ```text
//! h, c = LSTM(x_1 … x_T)    logits = h_T W + b
//! dW = h_Tᵀ dlogits    db = Σ dlogits    dh_T = dlogits Wᵀ    then backward through time
//! ```

use super::network::{Named, Network, Updates, uniform};
use super::norm::NormKind;
use super::product::{column_sums, product, rows, transpose, transposed};
use crate::error::Error;
use layernorm::parts::{SplitMix64, memory};
use layernorm::{Context, Element};
use layernorm_rnn::{
    Config, Gradients, Init, Kind, Output, Params, Real, Runner, Sequences, Slot, State, Training, Variant,
};

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
    steps: usize,
    hidden: usize,
    classes: usize,
    network: layernorm_rnn::Network<A>,
    runner: Runner<A>,
    /// Of the last batch in training.
    output: Output<A>,
    gradients: Gradients<A>,
    /// W `[hidden, classes]`, then b.
    head: Vec<A>,
    dhead: Vec<A>,
    /// Zeros: only the last state has a gradient.
    dy: Vec<A>,
    dlast: State<A>,
    /// Wᵀ.
    across: Vec<A>,
}

/// Returns the cell for a norm: the paper's, or the one of PyTorch.
pub(super) fn variant(norm: NormKind) -> Result<Variant, Error> {
    match norm {
        NormKind::None => Ok(Variant::named(Kind::Lstm, "none")?),
        NormKind::Layer => Ok(Variant::named(Kind::Lstm, "paper")?),
        NormKind::Batch | NormKind::Rms => Err(Error::Value {
            option: "norm".to_owned(),
            expected: "none or layer for an LSTM (batch and RMS norm exist for the MLP)".to_owned(),
            found: NormKind::NAMES.iter().find(|(_, kind)| *kind == norm).map_or("", |(name, _)| name).to_owned(),
        }),
    }
}

impl<A: Real> Lstm<A> {
    /// Creates a network: all of the cell uniform in ±1/sqrt(hidden), as in PyTorch, and 1 added to the forget gate's
    /// bias; the linear layer uniform in ±sqrt(6/(hidden + classes)); weights times the scale.
    pub(super) fn new(spec: &LstmSpec) -> Result<Lstm<A>, Error> {
        let config = Config::new(variant(spec.norm)?, spec.inputs, spec.hidden);
        let init = Init { forget_bias: 1.0, ..Init::torch() };
        let mut network = layernorm_rnn::Network::<A>::new(config, init, spec.seed)?;
        let scale = A::from_f64(spec.weight_scale);
        for slot in [Slot::InputWeight, Slot::RecurrentWeight] {
            let weights = network.params_mut().get_mut(0, 0, slot).unwrap_or_default();
            weights.iter_mut().for_each(|weight| *weight = *weight * scale);
        }
        let weights = spec.hidden * spec.classes;
        let mut head: Vec<A> = memory::zeros(weights + spec.classes)?;
        let bound = spec.weight_scale * (6.0 / (spec.hidden + spec.classes) as f64).sqrt();
        uniform(&mut SplitMix64::stream(spec.seed, 1), bound, &mut head[..weights]);
        let state = || State { h: Vec::new(), c: Vec::new() };
        Ok(Lstm {
            steps: spec.steps,
            hidden: spec.hidden,
            classes: spec.classes,
            runner: Runner::new(Context::new().with_threads(1)?),
            output: Output { y: Vec::new(), state: state() },
            // Without a gradient of the input, which nobody needs.
            gradients: Gradients { input: Vec::new(), params: Params::zeros(&config)?, state: state() },
            dhead: memory::zeros(head.len())?,
            head,
            network,
            dy: Vec::new(),
            dlast: state(),
            across: Vec::new(),
        })
    }

    fn batch(&self, x: &[A]) -> usize {
        x.len() / (self.steps * self.network.config().input)
    }

    /// Computes the logits of the last states h.
    fn logits(&self, h: &[A], logits: &mut Vec<A>) -> Result<(), Error> {
        let (hidden, classes) = (self.hidden, self.classes);
        memory::refill(logits, h.len() / hidden * classes, A::ZERO)?;
        let (weight, bias) = self.head.split_at(hidden * classes);
        product(self.runner.context(), rows(h, hidden), weight, logits, classes)?;
        for row in logits.chunks_exact_mut(classes) {
            row.iter_mut().zip(bias).for_each(|(logit, &b)| *logit = *logit + b);
        }
        Ok(())
    }
}

impl<A: Real> Network<A> for Lstm<A> {
    fn train(&mut self, x: &[A], logits: &mut Vec<A>) -> Result<(), Error> {
        let batch = self.batch(x);
        let sequences = Sequences::new(x, self.steps, batch).batch_first();
        memory::refill(&mut self.output.y, batch * self.steps * self.hidden, A::ZERO)?;
        let Output { y, state } = &mut self.output;
        self.runner.train_into(&self.network, &sequences, None, Training::default(), y, state)?;
        self.logits(&self.output.state.h, logits)
    }

    fn backward(&mut self, x: &[A], dlogits: &[A]) -> Result<(), Error> {
        let (batch, weights) = (self.batch(x), self.hidden * self.classes);
        let (dweight, dbias) = self.dhead.split_at_mut(weights);
        let cx = self.runner.context();
        product(cx, transposed(&self.output.state.h, self.hidden), dlogits, dweight, self.classes)?;
        column_sums(dlogits, dbias);
        memory::refill(&mut self.across, weights, A::ZERO)?;
        transpose(&self.head[..weights], self.classes, &mut self.across);
        let State { h, c } = &mut self.dlast;
        memory::refill(h, batch * self.hidden, A::ZERO)?;
        memory::refill(c, batch * self.hidden, A::ZERO)?;
        product(cx, rows(dlogits, self.classes), &self.across, h, self.hidden)?;
        memory::refill(&mut self.dy, self.output.y.len(), A::ZERO)?;
        // Gradients of parameters are added to what is there.
        self.gradients.params.values_mut().fill(A::ZERO);
        self.runner.backward_into(&self.network, &self.dy, Some(&self.dlast), 0, &mut self.gradients)?;
        Ok(())
    }

    fn infer(&mut self, x: &[A], logits: &mut Vec<A>) -> Result<(), Error> {
        let sequences = Sequences::new(x, self.steps, self.batch(x)).batch_first();
        let output = self.runner.forward(&self.network, &sequences, None)?;
        self.logits(&output.state.h, logits)
    }

    fn updates(&mut self) -> Updates<'_, A> {
        vec![(self.network.params_mut().values_mut(), self.gradients.params.values()), (&mut self.head, &self.dhead)]
    }

    fn activations(&self) -> Vec<Named<'_, A>> {
        vec![("h of all steps".to_owned(), &self.output.y), ("c of the last step".to_owned(), &self.output.state.c)]
    }

    fn gradients(&self) -> Vec<Named<'_, A>> {
        let params = &self.gradients.params;
        let named = |entry: &layernorm_rnn::Entry| {
            (entry.slot.name().replace(['_', '.'], " "), &params.values()[entry.range.clone()])
        };
        params.entries().iter().map(named).chain([("output".to_owned(), &self.dhead[..])]).collect()
    }
}
