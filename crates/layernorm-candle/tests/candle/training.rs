//! Training updates the parameters before a norm, where candle-nn's norms stop the gradient.

use crate::common::{CPU, builder, numbers, tensor, values};
use candle_core::{DType, Module, Tensor, Var};
use candle_nn::{Optimizer, SGD, VarBuilder, VarMap};

/// A linear layer, a norm, a linear layer: returns the losses, and whether the first layer has changed.
fn train(norm: impl FnOnce(VarBuilder) -> Box<dyn Module>, steps: usize) -> (f32, f32, bool) {
    let (map, vb) = builder(DType::F32);
    let start = |name: &str, shape: &[usize], seed| {
        let numbers: Vec<f32> =
            numbers(seed, shape.iter().product()).iter().map(|&x| x.clamp(-1.0, 1.0) as f32).collect();
        vb.get(shape, name).unwrap();
        map.data().lock().unwrap()[name].set(&tensor(&numbers, shape)).unwrap();
    };
    start("first.weight", &[8, 4], 1);
    start("last.weight", &[2, 8], 2);
    let first = candle_nn::linear_no_bias(4, 8, vb.pp("first")).unwrap();
    let norm = norm(vb.pp("norm"));
    let last = candle_nn::linear_no_bias(8, 2, vb.pp("last")).unwrap();
    let x = Tensor::from_vec(numbers(3, 64).iter().map(|&x| x as f32).collect::<Vec<_>>(), (16, 4), &CPU).unwrap();
    let target = x.narrow(1, 0, 2).unwrap().tanh().unwrap();
    let loss = || {
        let y = last.forward(&norm.forward(&first.forward(&x).unwrap()).unwrap()).unwrap();
        (y - &target).unwrap().sqr().unwrap().mean_all().unwrap()
    };
    let before = values::<f32>(first.weight());
    let first_loss = loss().to_scalar::<f32>().unwrap();
    let mut optimizer = SGD::new(map.all_vars(), 0.05).unwrap();
    for _ in 0..steps {
        optimizer.backward_step(&loss()).unwrap();
    }
    (first_loss, loss().to_scalar::<f32>().unwrap(), before != values::<f32>(first.weight()))
}

fn boxed<M: Module + 'static>(norm: candle_core::Result<M>) -> Box<dyn Module> {
    Box::new(norm.unwrap())
}

#[test]
fn parameters_before_our_norms_move() {
    type Make = fn(VarBuilder) -> Box<dyn Module>;
    let norms: [(&str, Make); 4] = [
        ("layer norm", |vb| boxed(layernorm_candle::layer_norm(8, 1e-5, vb))),
        ("RMS norm", |vb| boxed(layernorm_candle::rms_norm(8, 1e-5, vb))),
        ("group norm", |vb| boxed(layernorm_candle::group_norm(2, 8, 1e-5, vb))),
        ("group norm of one group", |vb| boxed(layernorm_candle::group_norm(1, 8, 1e-5, vb))),
    ];
    for (name, norm) in norms {
        let (before, after, moved) = train(norm, 100);
        assert!(moved, "{name}: the layer before it has not moved");
        assert!(after < 0.5 * before, "{name}: the loss went from {before} to {after}");
    }
}

/// The behavior of candle-nn 0.11.1: its layer norm (with a bias) and RMS norm of a contiguous input use
/// `apply_op3_no_bwd` and `apply_op2_no_bwd`, whose results have no graph. No error is reported: weight, bias and
/// everything before them silently stay unchanged (candle issues 2168, 2977, 3011). If this test fails, Candle has
/// fixed it: then update this file and the README.
#[test]
fn parameters_before_candles_norms_do_not() {
    let (_, _, moved) = train(|vb| boxed(candle_nn::layer_norm(8, 1e-5, vb)), 20);
    assert!(!moved, "candle-nn's layer norm lets gradients through now");
    let (_, _, moved) = train(|vb| boxed(candle_nn::rms_norm(8, 1e-5, vb)), 20);
    assert!(!moved, "candle-nn's RMS norm lets gradients through now");
    // Without a bias, its layer norm is composed of differentiable operations, and trains.
    let (_, _, moved) = train(|vb| boxed(candle_nn::layer_norm_no_bias(8, 1e-5, vb)), 20);
    assert!(moved);

    // The same input and the same loss: ours has a gradient, theirs has none at all.
    let x = Var::from_tensor(&tensor(&[1.0f32, 2.0, 4.0, 3.0], &[1, 4])).unwrap();
    let (weight, bias) = (tensor(&[1.0f32; 4], &[4]), tensor(&[0.0f32; 4], &[4]));
    let gradient = |norm: &dyn Module| {
        let gradients = norm.forward(&x).unwrap().sqr().unwrap().narrow(1, 0, 1).unwrap().sum_all().unwrap().backward();
        gradients.unwrap().get(&x).map(values::<f32>)
    };
    assert!(gradient(&candle_nn::LayerNorm::new(weight.clone(), bias.clone(), 1e-5)).is_none());
    let ours = gradient(&layernorm_candle::LayerNorm::new(weight, bias, 1e-5)).unwrap();
    assert!(ours.iter().any(|&dx| dx.abs() > 0.1), "{ours:?}");
}

/// An LSTM followed by a norm learns to remember the first number of a sequence.
#[test]
fn recurrent_networks_learn() {
    let map = VarMap::new();
    let vb = VarBuilder::from_varmap(&map, DType::F32, &CPU);
    let config =
        layernorm_candle::RecurrentConfig { seed: Some(1), ..layernorm_candle::RecurrentConfig::from("paper") };
    let lstm = layernorm_candle::lstm(1, 16, config, vb.pp("lstm")).unwrap();
    let norm = layernorm_candle::layer_norm(16, 1e-5, vb.pp("norm")).unwrap();
    let head = candle_nn::linear(16, 1, vb.pp("head")).unwrap();
    let x: Vec<f32> = numbers(5, 32 * 6).iter().map(|&x| x.clamp(-1.0, 1.0) as f32).collect();
    let x = Tensor::from_vec(x, (32, 6, 1), &CPU).unwrap();
    let target = x.narrow(1, 0, 1).unwrap().squeeze(1).unwrap();
    let loss = || {
        let (_, state) = lstm.forward(&x, None).unwrap();
        let y = head.forward(&norm.forward(&state.h.squeeze(0).unwrap()).unwrap()).unwrap();
        (y - &target).unwrap().sqr().unwrap().mean_all().unwrap()
    };
    let before = loss().to_scalar::<f32>().unwrap();
    let mut optimizer = candle_nn::AdamW::new_lr(map.all_vars(), 0.01).unwrap();
    for _ in 0..150 {
        optimizer.backward_step(&loss()).unwrap();
    }
    let after = loss().to_scalar::<f32>().unwrap();
    assert!(after < 0.2 * before, "the loss went from {before} to {after}");
}
