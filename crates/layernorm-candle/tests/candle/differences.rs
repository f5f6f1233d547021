//! Gradients compared with central differences of the forward pass, in f64.

use crate::common::{builder, loss, numbers, tensor, values};
use candle_core::{DType, Tensor, Var};
use layernorm_candle::{RecurrentConfig, gru, lstm, ops, rnn};
use layernorm_rnn::Direction;

/// The step of a difference. The truncation error h² and the rounding error ε/h are both far below the tolerance.
const STEP: f64 = 1e-5;
const TOLERANCE: f64 = 1e-6;

/// Compares every gradient of Σ y·w with differences, number by number.
fn check(name: &str, vars: &[&Var], f: impl Fn() -> Tensor) {
    let weights = numbers(77, f().elem_count());
    let value = || {
        let y = f();
        loss(&y, &tensor(&weights, y.dims()))
    };
    let gradients = value().backward().unwrap();
    for (number, var) in vars.iter().enumerate() {
        let found = values::<f64>(gradients.get(var).unwrap_or_else(|| panic!("{name}: no gradient of {number}")));
        let start = values::<f64>(var);
        for i in 0..start.len() {
            let at = |offset: f64| {
                let mut moved = start.clone();
                moved[i] += offset;
                var.set(&tensor(&moved, var.dims())).unwrap();
                value().to_scalar::<f64>().unwrap()
            };
            let expected = (at(STEP) - at(-STEP)) / (2.0 * STEP);
            let off = (found[i] - expected).abs();
            assert!(off <= TOLERANCE * (1.0 + expected.abs()), "{name}, {number}[{i}]: {}, {expected}", found[i]);
        }
        var.set(&tensor(&start, var.dims())).unwrap();
    }
}

fn variable(seed: u64, shape: &[usize]) -> Var {
    let numbers: Vec<f64> = numbers(seed, shape.iter().product()).into_iter().map(|x| x.clamp(-1.5, 1.5)).collect();
    Var::from_tensor(&tensor(&numbers, shape)).unwrap()
}

#[test]
fn norms() {
    let (x, weight, bias) = (variable(1, &[3, 4, 6]), variable(2, &[6]), variable(3, &[6]));
    let all = [&x, &weight, &bias];
    check("layer", &all, || ops::layer_norm(&x, Some(&weight), Some(&bias), 1e-5).unwrap());
    check("layer, no bias", &all[..2], || ops::layer_norm(&x, Some(&weight), None, 1e-5).unwrap());
    check("rms", &all[..2], || ops::rms_norm(&x, Some(&weight), None, 1e-5).unwrap());
    check("turned", &all[..1], || ops::layer_norm(&x.transpose(1, 2).unwrap(), None, None, 1e-5).unwrap());
    let (weight, bias) = (variable(2, &[4]), variable(3, &[4]));
    for groups in [1, 2, 4] {
        let norm = || ops::group_norm(&x, Some(&weight), Some(&bias), groups, 1e-5).unwrap();
        check("group", &[&x, &weight, &bias], norm);
    }
}

/// y and the states in one vector, so that gradients come from all of them.
fn joined(parts: &[&Tensor]) -> Tensor {
    let flat: Vec<_> = parts.iter().map(|part| part.flatten_all().unwrap()).collect();
    Tensor::cat(&flat, 0).unwrap()
}

#[test]
fn recurrent_networks() {
    let x = variable(1, &[2, 3, 4]);
    // With a fixed seed: weights that happen to make three units almost equal would make the norms too steep for
    // differences.
    let config =
        |variant: &str| RecurrentConfig { direction: Direction::Both, seed: Some(1), ..RecurrentConfig::from(variant) };
    let (h, c) = (variable(2, &[2, 2, 3]), variable(3, &[2, 2, 3]));
    for variant in ["paper", "keras", "tflite", "none"] {
        let (map, vb) = builder(DType::F64);
        let lstm = lstm(4, 3, config(variant), vb).unwrap();
        let vars = map.all_vars();
        let all: Vec<&Var> = [&x, &h, &c].into_iter().chain(&vars).collect();
        check(&format!("lstm {variant}"), &all, || {
            let state = candle_nn::rnn::LSTMState::new(h.as_tensor().clone(), c.as_tensor().clone());
            let (y, last) = lstm.forward(&x, Some(&state)).unwrap();
            joined(&[&y, &last.h, &last.c])
        });
    }
    for variant in ["paper", "dreamer"] {
        let (map, vb) = builder(DType::F64);
        let gru = gru(4, 3, config(variant), vb).unwrap();
        let vars = map.all_vars();
        let all: Vec<&Var> = [&x].into_iter().chain(&vars).collect();
        check(&format!("gru {variant}"), &all, || {
            let (y, last) = gru.forward_lengths(&x, &[3, 2], None).unwrap();
            joined(&[&y, &last.h])
        });
    }
    let (map, vb) = builder(DType::F64);
    let rnn = rnn(4, 3, config("split"), vb).unwrap();
    let vars = map.all_vars();
    let all: Vec<&Var> = [&x, &h].into_iter().chain(&vars).collect();
    check("rnn split", &all, || {
        let (y, last) = rnn.forward(&x, Some(&h)).unwrap();
        joined(&[&y, &last])
    });
}
