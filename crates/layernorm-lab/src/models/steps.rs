//! Recurrent networks computed one step at a time, for norms that the fused ones do not support:
//!
//! ```text
//! LSTM   a = Nx(W x) + Nh(U h) + b                i = σ(aᵢ)  f = σ(a_f)  g = tanh(a_g)  o = σ(a_o)
//!        c = f∘c + i∘g                            h = o∘tanh(Nc(c))
//! GRU    p = Nx(W x) + b   q = Nh(U h)            r = σ(p_r + q_r)  z = σ(p_z + q_z)  n = tanh(p_n + r∘q_n)
//!        h = (1 − z)∘h + z∘n                      Nx and Nh normalize the gates and the candidate separately
//! RNN    h = tanh(Ns(W x + U h) + b)
//! ```
//!
//! Batch norm keeps separate statistics for every time step, because the distributions differ between early and later
//! steps (Cooijmans et al., 2016). Steps beyond the training length use the statistics of the last one. For inference,
//! statistics are computed over many training images with equal weights ([`super::Net::settled`]): the first rows of an
//! image are mostly blank, and running means of rare values are inaccurate.

use super::Norm;
use super::norm::unbiased;
use super::recurrent::marked;
use super::start::Draw;
use super::states::{self, StepState, StepStatistics, part, pooled};
use burn::module::{Module, Param, ParamId, RunningState};
use burn::tensor::activation::sigmoid;
use burn::tensor::{Device, Tensor, TensorData};
use layernorm_burn::functional::{batch_norm, batch_norm_train, rms_norm};
use layernorm_rnn::{Kind, Network, Slot};

/// Initial gain of batch norm in an LSTM or GRU, multiplied by the requested gain; larger values saturate the gates. An
/// RNN has no gates, and γ scales its only path through time, so that with small values gradients would vanish.
const BATCH_GAIN: f64 = 0.1;
/// Momentum of the running statistics.
const MOMENTUM: f64 = 0.1;

/// A recurrent network with batch norm or RMS norm. W, U and b have a part of H rows for each of G gates.
#[derive(Module, Debug)]
pub struct StepCell {
    /// W `[G·H, I]`.
    input: Param<Tensor<2>>,
    /// U `[G·H, H]`.
    recurrent: Param<Tensor<2>>,
    /// b `[G·H]`.
    bias: Param<Tensor<1>>,
    /// Nx (LSTM, GRU).
    input_norm: Option<StepNorm>,
    /// Nh (LSTM, GRU).
    recurrent_norm: Option<StepNorm>,
    /// Nc (LSTM).
    cell_norm: Option<StepNorm>,
    /// Ns (RNN).
    sum_norm: Option<StepNorm>,
    #[module(skip)]
    kind: Kind,
}

/// A norm with separate statistics, if any, for each time step.
#[derive(Module, Debug)]
pub struct StepNorm {
    gain: Option<Param<Tensor<1>>>,
    bias: Option<Param<Tensor<1>>>,
    /// Running means and variances of each step (batch norm); empty for RMS norm.
    running: Vec<Moments>,
    /// RMS norm normalizes the units before this one and the others separately.
    #[module(skip)]
    split: Option<usize>,
    #[module(skip)]
    epsilon: f64,
    /// Momentum of the running statistics.
    #[module(skip)]
    momentum: f64,
}

/// W and U, transposed, and b, for all steps.
struct Weights {
    input: Tensor<2>,
    recurrent: Tensor<2>,
    bias: Tensor<2>,
}

/// h and c `[B, H]`. Only an LSTM uses c.
struct State {
    h: Tensor<2>,
    c: Tensor<2>,
}

/// Running mean and variance of a step.
#[derive(Module, Debug)]
pub struct Moments {
    mean: RunningState<Tensor<1>>,
    var: RunningState<Tensor<1>>,
}

impl StepCell {
    pub(super) fn new(network: &Network<f32>, steps: usize, norm: Norm, draw: &Draw<'_>) -> StepCell {
        let config = network.config();
        let (kind, hidden, gates) = (config.variant.kind, config.hidden, config.gate_width());
        let values = |slot| network.params().get(0, 0, slot).unwrap_or_default().to_vec();
        let matrix = |slot| {
            let values = values(slot);
            let columns = values.len() / gates;
            draw.param(values, [gates, columns])
        };
        let gated = kind != Kind::Rnn;
        let new = |units: usize, bias: bool| StepNorm::new(units, [gated, bias], steps, norm, draw);
        let split = (kind == Kind::Gru).then_some(2 * hidden);
        let of_product = || gated.then(|| StepNorm { split, ..new(gates, false) });
        StepCell {
            input: matrix(Slot::InputWeight),
            recurrent: matrix(Slot::RecurrentWeight),
            bias: draw.param(values(Slot::Bias), [gates]),
            input_norm: of_product(),
            recurrent_norm: of_product(),
            cell_norm: (kind == Kind::Lstm).then(|| new(hidden, true)),
            sum_norm: (kind == Kind::Rnn).then(|| new(hidden, false)),
            kind,
        }
    }

    /// The last h `[B, H]` of sequences `[B, T, I]`; with `marks`, the loss can be differentiated by h of every step.
    pub(super) fn forward(&self, x: Tensor<3>, mut marks: Option<&mut Vec<Tensor<3>>>) -> Tensor<2> {
        self.run(x, |_, mut state| {
            if let Some(marks) = &mut marks {
                state.h = marked(state.h.unsqueeze_dim(0), marks).squeeze_dim(0);
            }
            state
        })
    }

    /// a, c and h of every step.
    pub(super) fn states(&self, x: Tensor<3>) -> Vec<StepState> {
        let mut seen = Vec::new();
        self.run(x, |a, state| {
            let c = (self.kind == Kind::Lstm).then(|| state.c.clone());
            seen.push(StepState { a: Tensor::cat(a, 1), c, h: state.h.clone() });
            state
        });
        seen
    }

    /// The last h; `after` sees the pre-activations a of each step, in parts, and its state.
    fn run(&self, x: Tensor<3>, mut after: impl FnMut(Vec<Tensor<2>>, State) -> State) -> Tensor<2> {
        let [batch, steps, _] = x.dims();
        let [_, hidden] = self.recurrent.dims();
        let weights = Weights {
            input: self.input.val().transpose(),
            recurrent: self.recurrent.val().transpose(),
            bias: self.bias.val().unsqueeze_dim(0),
        };
        let zero = Tensor::<2>::zeros([batch, hidden], &x.device());
        let mut state = State { c: zero.clone(), h: zero };
        for step in 0..steps {
            // One product per step: the gradient of a slice of one product for all steps would be as large as the whole
            // at every step.
            let input = x.clone().narrow(1, step, 1).squeeze_dim::<2>(1);
            let (a, next) = self.step(&weights, input, state, step);
            state = after(a, next);
        }
        state.h
    }

    /// a and the state after a step, from x and the state before it.
    fn step(&self, of: &Weights, x: Tensor<2>, State { h, c }: State, step: usize) -> (Vec<Tensor<2>>, State) {
        let hidden = h.dims()[1];
        let normed = |norm: &Option<StepNorm>, x: Tensor<2>| match norm {
            Some(norm) => norm.forward(x, step),
            None => x,
        };
        let from_input = normed(&self.input_norm, x.matmul(of.input.clone()));
        let from_state = normed(&self.recurrent_norm, h.clone().matmul(of.recurrent.clone()));
        let bias = of.bias.clone();
        match self.kind {
            Kind::Lstm => {
                let a = from_input + from_state + bias;
                let [i, f, g, o] = [0, 1, 2, 3].map(|number| part(&a, number, hidden));
                let c = sigmoid(f) * c + sigmoid(i) * g.tanh();
                let h = sigmoid(o) * normed(&self.cell_norm, c.clone()).tanh();
                (vec![a], State { h, c })
            }
            Kind::Gru => {
                let [r, z, n] = states::gru(&(from_input + bias), &from_state, hidden);
                let (a, z, n) = (vec![r, z.clone(), n.clone()], sigmoid(z), n.tanh());
                (a, State { h: h.clone() + z * (n - h), c })
            }
            Kind::Rnn => {
                let a = normed(&self.sum_norm, from_input + from_state) + bias;
                (vec![a.clone()], State { h: a.tanh(), c })
            }
        }
    }

    /// The running statistics of its batch norms.
    pub(super) fn statistics(&self) -> Vec<StepStatistics> {
        let norms = [
            ("W x", &self.input_norm),
            ("U h", &self.recurrent_norm),
            ("c", &self.cell_norm),
            ("W x + U h", &self.sum_norm),
        ];
        let of = |(of, norm): (&'static str, &Option<StepNorm>)| norm.as_ref()?.statistics(of);
        norms.into_iter().filter_map(of).collect()
    }

    /// The same statistics for all steps.
    pub(super) fn with_shared_statistics(mut self) -> StepCell {
        let norms = [&mut self.input_norm, &mut self.recurrent_norm, &mut self.cell_norm, &mut self.sum_norm];
        norms.into_iter().flatten().for_each(StepNorm::share_statistics);
        self
    }

    /// Sets the momentum of the running statistics; returns whether there are any.
    pub(super) fn set_momentum(&mut self, momentum: f64) -> bool {
        let norms = [&mut self.input_norm, &mut self.recurrent_norm, &mut self.cell_norm, &mut self.sum_norm];
        norms.into_iter().flatten().fold(false, |any, norm| {
            norm.momentum = momentum;
            any || !norm.running.is_empty()
        })
    }

    /// W and U.
    pub(super) fn weights(&self) -> [ParamId; 2] {
        [self.input.id, self.recurrent.id]
    }
}

impl StepNorm {
    fn new(units: usize, [gated, bias]: [bool; 2], steps: usize, norm: Norm, draw: &Draw<'_>) -> StepNorm {
        let batch = norm == Norm::Batch;
        let gain = if batch && gated { BATCH_GAIN * draw.start.gain } else { draw.start.gain };
        StepNorm {
            gain: draw.start.affine.then(|| draw.constant(units, gain)),
            bias: (bias && draw.start.affine).then(|| draw.constant(units, draw.start.bias)),
            running: (0..if batch { steps } else { 0 }).map(|_| Moments::new(units, draw.device)).collect(),
            split: None,
            epsilon: draw.start.epsilon,
            momentum: MOMENTUM,
        }
    }

    /// `[B, units]` at a step.
    fn forward(&self, x: Tensor<2>, step: usize) -> Tensor<2> {
        let [gain, bias] = [&self.gain, &self.bias].map(|param| param.as_ref().map(Param::val));
        let Some(moments) = self.running.get(step).or(self.running.last()) else {
            return self.rms(x, gain, bias);
        };
        let states = [&moments.mean, &moments.var];
        if !x.device().is_autodiff() {
            return batch_norm(x, gain, bias, states.map(RunningState::value), self.epsilon);
        }
        let (cases, [mean, var]) = (x.dims()[0], states.map(RunningState::value_sync));
        let trained = batch_norm_train(x, gain, bias, [mean, var.clone()], self.momentum, self.epsilon);
        moments.mean.update(trained.running_mean);
        moments.var.update(unbiased(trained.running_var, var, self.momentum, cases));
        trained.output
    }

    /// The running statistics; `None` for RMS norm.
    fn statistics(&self, of: &'static str) -> Option<StepStatistics> {
        let numbers = |state: &RunningState<Tensor<1>>| state.value_sync().into_data().try_into_vec_as::<f32>().ok();
        let all = |state: fn(&Moments) -> &RunningState<Tensor<1>>| {
            self.running.iter().map(|moments| numbers(state(moments))).collect::<Option<Vec<_>>>()
        };
        let (means, variances) = (all(|moments| &moments.mean)?, all(|moments| &moments.var)?);
        (!means.is_empty()).then_some(StepStatistics { of, means, variances })
    }

    /// Replaces the running statistics of all steps by those of all steps together.
    fn share_statistics(&mut self) {
        let states = |moments: &Moments| [&moments.mean, &moments.var].map(RunningState::value_sync);
        let moments: Vec<[Tensor<1>; 2]> = self.running.iter().map(states).collect();
        let Some([first, _]) = moments.first() else { return };
        let [mean, var] = pooled(&moments, &first.device()).map(RunningState::new);
        self.running = vec![Moments { mean, var }];
    }

    /// RMS norm of rows, or of both parts of each row.
    fn rms(&self, x: Tensor<2>, gain: Option<Tensor<1>>, bias: Option<Tensor<1>>) -> Tensor<2> {
        let Some(split) = self.split else { return rms_norm(x, gain, bias, self.epsilon) };
        let units = x.dims()[1];
        let part = |start: usize, count: usize| {
            let of = |param: &Option<Tensor<1>>| param.clone().map(|param| param.narrow(0, start, count));
            rms_norm(x.clone().narrow(1, start, count), of(&gain), of(&bias), self.epsilon)
        };
        Tensor::cat(vec![part(0, split), part(split, units - split)], 1)
    }
}

impl Moments {
    fn new(units: usize, device: &Device) -> Moments {
        let all =
            |value: f32| RunningState::new(Tensor::from_data(TensorData::new(vec![value; units], [units]), device));
        Moments { mean: all(0.0), var: all(1.0) }
    }
}
