//! A mismatch is an error with the core's message, never a panic.

use crate::common::{CPU, builder, tensor};
use candle_core::{DType, Module, Result, Tensor};
use candle_nn::VarBuilder;
use candle_nn::rnn::{GRUState, LSTMState, RNN};
use layernorm_candle::{Recurrent, RecurrentConfig, gru, lstm, ops, rnn};
use layernorm_rnn::{Config, Direction, Kind, Network, Noise, Variant};

fn zeros(shape: &[usize]) -> Tensor {
    tensor(&vec![0.0f32; shape.iter().product()], shape)
}

fn refused<T>(result: Result<T>, words: &str) {
    let message = match result {
        Ok(_) => panic!("expected an error that says: {words}"),
        Err(error) => error.to_string(),
    };
    assert!(message.contains(words), "expected {words:?} in: {message}");
}

fn vb() -> VarBuilder<'static> {
    builder(DType::F32).1
}

#[test]
fn norms() {
    let x = zeros(&[2, 4]);
    let norm = |weight: &[usize], bias: &[usize]| ops::layer_norm(&x, Some(&zeros(weight)), Some(&zeros(bias)), 1e-5);
    refused(norm(&[5], &[4]), "weight: expected shape [4], found [5]");
    refused(norm(&[4], &[1, 4]), "bias: expected shape [4], found [1, 4]");
    refused(ops::rms_norm(&x, Some(&zeros(&[3])), None, 1e-5), "weight: expected shape [4], found [3]");
    refused(ops::layer_norm(&zeros(&[]), None, None, 1e-5), "dimension");
    refused(ops::layer_norm(&x, None, None, -1.0), "eps: expected a finite number, 0 or more, found -1");
    refused(ops::layer_norm(&x, None, None, f64::NAN), "eps: expected a finite number");
    refused(ops::group_norm(&x, None, None, 3, 1e-5), "groups: expected a divisor of the 4 channels, found 3");
    refused(ops::group_norm(&x, None, None, 0, 1e-5), "groups: expected a divisor of the 4 channels, found 0");
    refused(ops::group_norm(&x, None, None, usize::MAX, 1e-5), "groups: expected a divisor of the 4 channels");
    refused(ops::group_norm(&zeros(&[4]), None, None, 2, 1e-5), "expected at least 2 dimensions, found 1");
    let whole = Tensor::zeros((2, 4), DType::U32, &CPU).unwrap();
    refused(ops::layer_norm(&whole, None, None, 1e-5), "expected a tensor of f16, bf16, f32 or f64, found u32");
    // One number that is broadcast to more elements than fit in memory.
    let endless = zeros(&[1]).broadcast_as((1 << 45, 4)).unwrap();
    refused(ops::layer_norm(&endless, None, None, 1e-5), "out of memory: 562949953421312 bytes");
    refused(ops::group_norm(&endless, None, None, 2, 1e-5), "out of memory: 562949953421312 bytes");
    let deep = zeros(&[1; 17]);
    refused(ops::layer_norm(&deep, None, None, 1e-5), "expected at most 16 dimensions, found 17");
}

#[test]
fn constructors() {
    refused(layernorm_candle::layer_norm(4, -1.0, vb()), "eps: expected a finite number, 0 or more, found -1");
    refused(layernorm_candle::rms_norm(4, f64::INFINITY, vb()), "eps: expected a finite number");
    refused(layernorm_candle::group_norm(3, 4, 1e-5, vb()), "groups: expected a divisor of the 4 channels, found 3");
    refused(layernorm_candle::group_norm(0, 4, 1e-5, vb()), "groups: expected a divisor of the 4 channels, found 0");
    refused(layernorm_candle::instance_norm(4, f64::NAN, vb()), "eps: expected a finite number");
    let group = |weight: &[usize]| layernorm_candle::GroupNorm::new(zeros(weight), zeros(&[4]), 4, 2, 1e-5);
    refused(group(&[3]), "weight: expected shape [4], found [3]");
    let norm = layernorm_candle::group_norm(2, 4, 1e-5, vb()).unwrap();
    refused(norm.forward(&zeros(&[2, 6, 3])), "input: expected shape [2, 4, 3], found [2, 6, 3]");
    refused(norm.forward(&zeros(&[4])), "input: expected at least 2 dimensions, found 1");
    // A checkpoint that lacks the tensors, or has them in other shapes.
    let none = VarBuilder::from_tensors(Default::default(), DType::F32, &CPU);
    refused(layernorm_candle::layer_norm(4, 1e-5, none.clone()), "weight");
    refused(lstm(4, 3, "paper", none), "weight_ih_l0");
    let other = vb();
    lstm(4, 3, "paper", other.clone()).unwrap();
    refused(lstm(5, 3, "paper", other), "weight_ih_l0");
}

#[test]
fn recurrent_configurations() {
    refused(lstm(4, 3, "papier", vb()), "variant of lstm: expected one of paper, theano");
    refused(gru(0, 3, "paper", vb()), "input: expected 1 to 16777216, found 0");
    refused(rnn(4, 0, "paper", vb()), "hidden: expected 1 to 16777216, found 0");
    let with = |change: fn(&mut RecurrentConfig)| {
        let mut config = RecurrentConfig::from("paper");
        change(&mut config);
        config
    };
    refused(lstm(4, 3, with(|c| c.layers = 0), vb()), "layers: expected 1 to 1024, found 0");
    refused(lstm(4, 3, with(|c| c.eps = Some(-1.0)), vb()), "eps: expected a finite number, 0 or more, found -1");
    refused(gru(4, 3, with(|c| c.projection = Some(2)), vb()), "projection: expected an LSTM, found another cell");
    let noise = Noise { dropout: 0.5, ..Noise::default() };
    let config = Config::new(Variant::named(Kind::Gru, "paper").unwrap(), 4, 3).with_noise(noise);
    refused(Recurrent::new(config, true, None, vb()), "noise: expected none, found");
    let config = Config::new(Variant::named(Kind::Gru, "paper").unwrap(), 4, 3);
    let network = Network::<f32>::new(config, layernorm_rnn::Init::paper(), 1).unwrap();
    let constants = VarBuilder::zeros(DType::F32, &CPU);
    refused(Recurrent::from_network(&network, true, constants), "expected a VarBuilder of variables");
}

#[test]
fn sequences_and_states() {
    let lstm = lstm(4, 3, "paper", vb()).unwrap();
    let x = zeros(&[2, 5, 4]);
    refused(lstm.forward(&zeros(&[2, 5, 3]), None), "x: expected shape [2, 5, 4], found [2, 5, 3]");
    refused(lstm.forward(&zeros(&[5, 4]), None), "x: expected a shape of 3 dimensions");
    refused(lstm.forward(&x.to_dtype(DType::I64).unwrap(), None), "found i64");
    let state = |h: &[usize], c: &[usize]| LSTMState::new(zeros(h), zeros(c));
    refused(
        lstm.forward(&x, Some(&state(&[2, 1, 3], &[1, 2, 3]))),
        "initial h: expected shape [1, 2, 3], found [2, 1, 3]",
    );
    refused(
        lstm.forward(&x, Some(&state(&[1, 2, 3], &[1, 2, 4]))),
        "initial c: expected shape [1, 2, 3], found [1, 2, 4]",
    );
    refused(lstm.forward_lengths(&x, &[5, 6], None), "length of sequence 1: expected 1 to 5, found 6");
    refused(lstm.forward_lengths(&x, &[5, 0], None), "length of sequence 1: expected 1 to 5, found 0");
    refused(lstm.forward_lengths(&x, &[5], None), "expected");
    let gru = gru(4, 3, "paper", vb()).unwrap();
    let other = GRUState { h: zeros(&[1, 3, 3]) };
    refused(gru.forward(&x, Some(&other)), "initial h: expected shape [1, 2, 3], found [1, 3, 3]");
    let h = zeros(&[1, 2, 3]);
    refused(gru.net.forward(&x, [Some(&h), Some(&h)], None), "initial c");
    refused(gru.step(&zeros(&[2, 5]), &GRUState { h }), "x: expected shape [1, 2, 4], found [1, 2, 5]");
    let config = RecurrentConfig { direction: Direction::Both, ..RecurrentConfig::default() };
    let both = rnn(4, 3, config, vb()).unwrap();
    refused(both.step(&zeros(&[2, 4]), &zeros(&[2, 2, 3])), "step: expected a network that runs forward in time");
}

/// No sequences, and no steps.
#[test]
fn empty_sequences() {
    let lstm = lstm(4, 3, "paper", vb()).unwrap();
    for shape in [[0, 5, 4], [2, 0, 4]] {
        let x = candle_core::Var::from_tensor(&zeros(&shape)).unwrap();
        let (y, state) = lstm.forward(&x, None).unwrap();
        assert_eq!(y.dims(), [shape[0], shape[1], 3]);
        assert_eq!(state.c.dims(), [1, shape[0], 3]);
        let gradients = (y.sum_all().unwrap() + state.h.sum_all().unwrap()).unwrap().backward().unwrap();
        assert_eq!(gradients.get(&x).unwrap().dims(), shape);
    }
}
