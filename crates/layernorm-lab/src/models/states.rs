//! What a recurrent network computes at each time step, for probes.
//!
//! ```text
//! a    pre-activations: what the gates' functions are applied to, in the order of the gates
//!      LSTM   i = σ(aᵢ)  f = σ(a_f)  g = tanh(a_g)  o = σ(a_o)
//!      GRU    r = σ(a_r)  z = σ(a_z)  n = tanh(a_n), where a_n includes the reset
//!      RNN    h = tanh(a)
//! c    cell state (LSTM)
//! h    hidden state
//! ```
//!
//! h and c are the network's own. The fused operation does not return a, so it is computed again from the input, the
//! previous h and the cell's parameters: a = LNx(W x) + LNh(U h) + b, or LNs(W x + U h) + b.

use burn::module::Param;
use burn::tensor::activation::sigmoid;
use burn::tensor::{Device, Tensor};
use layernorm_burn::functional::layer_norm;
use layernorm_burn::{Cell, Recurrent};
use layernorm_rnn::{Kind, NormSpec, Over};

/// The values of a time step.
#[derive(Clone, Debug)]
pub struct StepState {
    /// a `[B, G·H]`.
    pub a: Tensor<2>,
    /// c `[B, H]`, of an LSTM.
    pub c: Option<Tensor<2>>,
    /// h `[B, H]`.
    pub h: Tensor<2>,
}

/// Running statistics of a batch norm: one entry per time step, one number per unit.
#[derive(Clone, Debug, PartialEq)]
pub struct StepStatistics {
    /// What is normalized, in the letters of `super::steps`: `W x`, `U h`, `c` or `W x + U h`.
    pub of: &'static str,
    /// Means.
    pub means: Vec<Vec<f32>>,
    /// Variances.
    pub variances: Vec<Vec<f32>>,
}

/// A part of H units.
pub(super) fn part(x: &Tensor<2>, number: usize, hidden: usize) -> Tensor<2> {
    x.clone().narrow(1, number * hidden, hidden)
}

/// a_r, a_z and a_n of a GRU, from p = Nx(W x) + b and q = Nh(U h).
pub(super) fn gru(p: &Tensor<2>, q: &Tensor<2>, hidden: usize) -> [Tensor<2>; 3] {
    let [r, z] = [0, 1].map(|number| part(p, number, hidden) + part(q, number, hidden));
    let n = part(p, 2, hidden) + sigmoid(r.clone()) * part(q, 2, hidden);
    [r, z, n]
}

/// The states of the last layer of a fused network, for sequences `[B, T, I]`.
pub(super) fn fused(net: &Recurrent, x: Tensor<3>) -> Vec<StepState> {
    let [batch, steps, _] = x.dims();
    let (last, hidden) = (net.config().layers - 1, net.config().hidden);
    let of_layer = |states: &Tensor<3>, layer: usize| states.clone().narrow(0, layer, 1).squeeze_dim::<2>(0);
    let (mut states, mut h) = ([None, None], Tensor::<2>::zeros([batch, hidden], &x.device()));
    let mut seen = Vec::new();
    for step in 0..steps {
        let input = x.clone().narrow(1, step, 1);
        let (_, next) = net.forward(input.clone(), states, None);
        let [Some(all), c] = &next else { return seen };
        let input = if last == 0 { input.squeeze_dim::<2>(1) } else { of_layer(all, last - 1) };
        let a = preactivations(net, &net.cells[last], input, h);
        h = of_layer(all, last);
        seen.push(StepState { a, c: c.as_ref().map(|c| of_layer(c, last)), h: h.clone() });
        states = next;
    }
    seen
}

/// a of a cell from x and the previous h.
fn preactivations(net: &Recurrent, cell: &Cell, x: Tensor<2>, h: Tensor<2>) -> Tensor<2> {
    let (variant, hidden) = (&net.config().variant, net.config().hidden);
    let b = |sum: Tensor<2>| match &cell.bias {
        Some(bias) => sum + bias.val().unsqueeze_dim(0),
        None => sum,
    };
    let from_input = x.matmul(cell.input_weight.val().transpose());
    let from_input = normed(variant.input_norm, from_input, [&cell.input_norm_gain, &cell.input_norm_bias], hidden);
    let from_state = h.matmul(cell.recurrent_weight.val().transpose());
    let affine = [&cell.recurrent_norm_gain, &cell.recurrent_norm_bias];
    let from_state = normed(variant.recurrent_norm, from_state, affine, hidden);
    match variant.kind {
        Kind::Gru => Tensor::cat(gru(&b(from_input), &from_state, hidden).to_vec(), 1),
        Kind::Lstm | Kind::Rnn => {
            let affine = [&cell.sum_norm_gain, &cell.sum_norm_bias];
            b(normed(variant.sum_norm, from_input + from_state, affine, hidden))
        }
    }
}

/// A layer norm of each group of gates of `[B, G·H]`.
fn normed(norm: Option<NormSpec>, x: Tensor<2>, affine: [&Option<Param<Tensor<1>>>; 2], hidden: usize) -> Tensor<2> {
    let Some(norm) = norm else { return x };
    let units = x.dims()[1];
    let groups = match norm.over {
        Over::AllGates => vec![units],
        Over::EachGate => vec![hidden; units / hidden],
        Over::GatesAndCandidate => vec![units - hidden, hidden],
    };
    let mut start = 0;
    let parts = groups.into_iter().map(|count| {
        let [gain, bias] = affine.map(|param| param.as_ref().map(|param| param.val().narrow(0, start, count)));
        let part = layer_norm(x.clone().narrow(1, start, count), gain, bias, norm.eps);
        start += count;
        part
    });
    Tensor::cat(parts.collect(), 1)
}

/// One mean and one variance for all steps: those of all numbers together. The variance is the mean of the steps'
/// variances plus the variance of their means.
pub(super) fn pooled(moments: &[[Tensor<1>; 2]], device: &Device) -> [Tensor<1>; 2] {
    let units = moments.first().map_or(0, |[mean, _]| mean.dims()[0]);
    let average = |of: &dyn Fn(&[Tensor<1>; 2]) -> Tensor<1>| {
        let sum = moments.iter().map(of).fold(Tensor::zeros([units], device), |sum, x| sum + x);
        sum / moments.len().max(1) as f64
    };
    let mean = average(&|[mean, _]| mean.clone());
    let variance = average(&|[of_step, variance]| variance.clone() + (of_step.clone() - mean.clone()).powi_scalar(2));
    [mean, variance]
}
