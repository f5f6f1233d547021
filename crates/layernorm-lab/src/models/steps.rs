//! An LSTM computed one step at a time, for norms that the fused one does not support:
//!
//! ```text
//! a = Nx(W x) + Nh(U h) + b      i = σ(aᵢ)  f = σ(a_f)  g = tanh(a_g)  o = σ(a_o)
//! c = f∘c + i∘g                  h = o∘tanh(Nc(c))
//! ```
//!
//! Batch norm keeps separate statistics for every time step, because the distributions differ between early and later
//! steps (Cooijmans et al., 2016). Steps beyond the training length use the statistics of the last one. For inference,
//! statistics are computed over many training images with equal weights ([`super::Net::settled`]): the first rows of an
//! image are mostly blank, and running means of rare values are inaccurate.

use super::Norm;
use super::lstm::marked;
use super::norm::unbiased;
use super::start::Draw;
use burn::module::{Module, Param, ParamId, RunningState};
use burn::tensor::activation::sigmoid;
use burn::tensor::{Device, Tensor, TensorData};
use layernorm_burn::functional::{batch_norm, batch_norm_train, rms_norm};
use layernorm_rnn::{Network, Slot};

/// Initial gain of batch norm, multiplied by the requested gain; larger values saturate the gates.
const BATCH_GAIN: f64 = 0.1;
/// Momentum of the running statistics.
const MOMENTUM: f64 = 0.1;

/// An LSTM with batch norm or RMS norm.
#[derive(Module, Debug)]
pub struct StepLstm {
    /// W `[4H, I]`.
    input: Param<Tensor<2>>,
    /// U `[4H, H]`.
    recurrent: Param<Tensor<2>>,
    /// b `[4H]`.
    bias: Param<Tensor<1>>,
    input_norm: StepNorm,
    recurrent_norm: StepNorm,
    cell_norm: StepNorm,
}

/// A norm with separate statistics, if any, for each time step.
#[derive(Module, Debug)]
pub struct StepNorm {
    gain: Param<Tensor<1>>,
    bias: Option<Param<Tensor<1>>>,
    /// Running means and variances of each step (batch norm); empty for RMS norm.
    running: Vec<Moments>,
    #[module(skip)]
    epsilon: f64,
    /// Momentum of the running statistics.
    #[module(skip)]
    momentum: f64,
}

/// Running mean and variance of a step.
#[derive(Module, Debug)]
pub struct Moments {
    mean: RunningState<Tensor<1>>,
    var: RunningState<Tensor<1>>,
}

impl StepLstm {
    pub(super) fn new(network: &Network<f32>, steps: usize, norm: Norm, draw: &Draw<'_>) -> StepLstm {
        let hidden = network.config().hidden;
        let values = |slot| network.params().get(0, 0, slot).unwrap_or_default().to_vec();
        let matrix = |slot| {
            let values = values(slot);
            let columns = values.len() / (4 * hidden);
            draw.param(values, [4 * hidden, columns])
        };
        let new = |units, bias| StepNorm::new(units, bias, steps, norm, draw);
        StepLstm {
            input: matrix(Slot::InputWeight),
            recurrent: matrix(Slot::RecurrentWeight),
            bias: draw.param(values(Slot::Bias), [4 * hidden]),
            input_norm: new(4 * hidden, false),
            recurrent_norm: new(4 * hidden, false),
            cell_norm: new(hidden, true),
        }
    }

    /// The last h `[B, H]` of sequences `[B, T, I]`; with `marks`, the loss can be differentiated by h of every step.
    pub(super) fn forward(&self, x: Tensor<3>, mut marks: Option<&mut Vec<Tensor<3>>>) -> Tensor<2> {
        let [batch, steps, _] = x.dims();
        let [_, hidden] = self.recurrent.dims();
        let (weight, recurrent) = (self.input.val().transpose(), self.recurrent.val().transpose());
        let bias = self.bias.val().unsqueeze_dim::<2>(0);
        let mut h = Tensor::<2>::zeros([batch, hidden], &x.device());
        let mut c = h.clone();
        for step in 0..steps {
            // One product per step: the gradient of a slice of one product for all steps would be as large as the whole
            // at every step.
            let input = x.clone().narrow(1, step, 1).squeeze_dim::<2>(1);
            let from_input = self.input_norm.forward(input.matmul(weight.clone()), step);
            let from_state = self.recurrent_norm.forward(h.matmul(recurrent.clone()), step);
            let a = from_input + from_state + bias.clone();
            let gate = |number: usize| a.clone().narrow(1, number * hidden, hidden);
            c = sigmoid(gate(1)) * c + sigmoid(gate(0)) * gate(2).tanh();
            h = sigmoid(gate(3)) * self.cell_norm.forward(c.clone(), step).tanh();
            if let Some(marks) = &mut marks {
                h = marked(h.unsqueeze_dim(0), marks).squeeze_dim(0);
            }
        }
        h
    }

    /// Sets the momentum of the running statistics; returns whether there are any.
    pub(super) fn set_momentum(&mut self, momentum: f64) -> bool {
        let norms = [&mut self.input_norm, &mut self.recurrent_norm, &mut self.cell_norm];
        norms.into_iter().fold(false, |any, norm| {
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
    fn new(units: usize, bias: bool, steps: usize, norm: Norm, draw: &Draw<'_>) -> StepNorm {
        let batch = norm == Norm::Batch;
        let gain = if batch { BATCH_GAIN * draw.start.gain } else { draw.start.gain };
        StepNorm {
            gain: draw.constant(units, gain),
            bias: bias.then(|| draw.constant(units, draw.start.bias)),
            running: (0..if batch { steps } else { 0 }).map(|_| Moments::new(units, draw.device)).collect(),
            epsilon: draw.start.epsilon,
            momentum: MOMENTUM,
        }
    }

    /// `[B, units]` at a step.
    fn forward(&self, x: Tensor<2>, step: usize) -> Tensor<2> {
        let (gain, bias) = (Some(self.gain.val()), self.bias.as_ref().map(Param::val));
        let Some(moments) = self.running.get(step).or(self.running.last()) else {
            return rms_norm(x, gain, bias, self.epsilon);
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
}

impl Moments {
    fn new(units: usize, device: &Device) -> Moments {
        let all =
            |value: f32| RunningState::new(Tensor::from_data(TensorData::new(vec![value; units], [units]), device));
        Moments { mean: all(0.0), var: all(1.0) }
    }
}
