//! Gradients against finite differences, and training as a page does it.

use super::loss::cross_entropy;
use super::lstm::{Lstm, LstmSpec};
use super::mlp::{Mlp, MlpSpec};
use super::network::Network;
use super::norm::NormKind;
use crate::engine::Engine;
use crate::message::Value;
use layernorm::Context;
use layernorm::parts::SplitMix64;

const BATCH: usize = 5;
const CLASSES: usize = 3;

fn numbers(seed: u64, count: usize) -> Vec<f64> {
    let mut random = SplitMix64::new(seed);
    (0..count).map(|_| 4.0 * random.uniform() - 2.0).collect()
}

fn loss(network: &mut dyn Network<f64>, x: &[f64], labels: &[u8]) -> (f64, Vec<f64>) {
    let mut logits = Vec::new();
    network.train(x, &mut logits).unwrap();
    let score = cross_entropy(&Context::new(), &mut logits, labels).unwrap();
    (score.loss, logits)
}

/// Compares every gradient with the difference of the loss at ±h around the parameter, in f64.
///
/// With h = 10⁻⁵ the rounding errors of the loss, below 10⁻¹⁴, are divided by 2·10⁻⁵: an error below 10⁻⁹. The third
/// derivative is of the order of 10³ at most for these weights and inputs, times h²/6: below 10⁻⁷.
fn gradients_are_differences(network: &mut dyn Network<f64>, x: &[f64], what: &str) {
    const STEP: f64 = 1e-5;
    let labels = [0, 2, 1, 1, 0];
    // Away from where all biases are 0 and all gains 1.
    for (number, (parameters, _)) in network.updates().into_iter().enumerate() {
        let shift = numbers(7 + number as u64, parameters.len());
        parameters.iter_mut().zip(shift).for_each(|(parameter, shift)| *parameter += 0.1 * shift);
    }
    let (_, dlogits) = loss(network, x, &labels);
    network.backward(x, &dlogits).unwrap();
    let expected: Vec<Vec<f64>> = network.updates().into_iter().map(|(_, gradients)| gradients.to_vec()).collect();
    let mut moved = 0;
    for (group, gradients) in expected.iter().enumerate() {
        for (at, gradient) in gradients.iter().enumerate() {
            let mut at_shift = |shift: f64| {
                network.updates()[group].0[at] += shift;
                let (value, _) = loss(network, x, &labels);
                network.updates()[group].0[at] -= shift;
                value
            };
            let difference = (at_shift(STEP) - at_shift(-STEP)) / (2.0 * STEP);
            let error = (difference - gradient).abs();
            assert!(error < 1e-6 * (1.0 + gradient.abs()), "{what}, {group}, {at}: {gradient} and {difference}");
            moved += usize::from(gradient.abs() > 1e-3);
        }
    }
    assert!(moved > 20, "{what}: only {moved} gradients are not about 0");
}

#[test]
fn gradients_of_the_mlp_are_finite_differences() {
    for (_, norm) in NormKind::NAMES {
        for hidden in [&[][..], &[6], &[9, 4]] {
            let spec = MlpSpec { inputs: 7, hidden, classes: CLASSES, norm, weight_scale: 1.0, seed: 3 };
            let mut mlp = Mlp::<f64>::new(&spec).unwrap();
            gradients_are_differences(&mut mlp, &numbers(1, BATCH * 7), &format!("{norm:?}, {hidden:?}"));
        }
    }
}

#[test]
fn gradients_of_the_lstm_are_finite_differences() {
    for (_, norm) in NormKind::NAMES {
        let spec = LstmSpec { steps: 4, inputs: 3, hidden: 5, classes: CLASSES, norm, weight_scale: 1.0, seed: 3 };
        let mut lstm = Lstm::<f64>::new(&spec).unwrap();
        gradients_are_differences(&mut lstm, &numbers(2, BATCH * 4 * 3), &format!("{norm:?}"));
    }
}

/// Two classes of points that no linear layer can tell apart: those on two rings for the MLP; for the LSTM those whose
/// two numbers have the same sign, because layer and RMS norm see no more than the sign of a single input.
fn points(network: &str, count: usize, seed: u64) -> (Vec<f32>, Vec<u8>) {
    let mut random = SplitMix64::new(seed);
    let mut x = Vec::new();
    let labels = (0..count).map(|i| {
        let radius = if i % 2 == 0 { 0.5 } else { 1.5 } + 0.2 * random.uniform();
        let angle = std::f64::consts::TAU * random.uniform();
        let point = [(radius * angle.cos()) as f32, (radius * angle.sin()) as f32];
        x.extend(point);
        if network == "mlp" { (i % 2) as u8 } else { u8::from(point[0] * point[1] > 0.0) }
    });
    let labels = labels.collect();
    (x, labels)
}

fn options(network: &str, norm: &str, batch: f64) -> Vec<(String, Value)> {
    let ((x, labels), (test_x, test_labels)) = (points(network, 256, 1), points(network, 128, 2));
    let data = Value::object([
        ("x", Value::Floats(x)),
        ("labels", Value::Bytes(labels)),
        ("testX", Value::Floats(test_x)),
        ("testLabels", Value::Bytes(test_labels)),
    ]);
    let text = |text: &str| Value::Text(text.to_owned());
    let Value::Object(fields) = Value::object([
        ("network", text(network)),
        ("norm", text(norm)),
        ("layers", Value::List(vec![Value::Number(16.0)])),
        ("hidden", Value::Number(8.0)),
        ("steps", Value::Number(2.0)),
        ("inputs", Value::Number(1.0)),
        ("classes", Value::Number(2.0)),
        ("optimizer", text("adam")),
        ("learningRate", Value::Number(0.01)),
        ("batch", Value::Number(batch)),
        ("seed", Value::Number(1.0)),
        ("data", data),
    ]) else {
        unreachable!("an object")
    };
    fields
}

fn call(engine: &mut Engine, command: &str, fields: Vec<(String, Value)>) -> Result<Value, String> {
    let request = Value::List(vec![Value::Text(command.to_owned()), Value::Object(fields)]);
    engine.run(request).map_err(|error| error.to_string())
}

fn number(value: &Value, name: &str) -> f64 {
    match value.get(name) {
        Some(Value::Number(number)) => *number,
        other => panic!("{name}: {other:?}"),
    }
}

fn networks() -> impl Iterator<Item = (&'static str, &'static str)> {
    ["mlp", "lstm"].into_iter().flat_map(|network| NormKind::NAMES.map(|(norm, _)| (network, norm)))
}

#[test]
fn every_network_learns() {
    for (network, norm) in networks() {
        let mut engine = Engine::new().unwrap();
        let trainer = call(&mut engine, "trainer", options(network, norm, 32.0)).unwrap();
        let of = |more: &[(&str, Value)]| -> Vec<(String, Value)> {
            let more = more.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
            [("trainer".to_owned(), trainer.clone())].into_iter().chain(more).collect()
        };
        let mut steps = |count: f64| call(&mut engine, "trainer.step", of(&[("count", Value::Number(count))])).unwrap();
        let first = steps(10.0);
        steps(600.0);
        let last = steps(10.0);
        assert_eq!(number(&last, "step"), 620.0);
        assert_eq!(last.get("finite"), Some(&Value::Flag(true)));
        let test = call(&mut engine, "trainer.evaluate", of(&[])).unwrap();
        let found = (number(&first, "loss"), number(&last, "loss"), number(&test, "accuracy"));
        // The noise of batch norm's statistics keeps the loss higher.
        let part = if norm == "batch" { 0.5 } else { 0.3 };
        assert!(found.1 < part * found.0 && found.2 > 0.95, "{network}, {norm}: {found:?}");
        let seen = |engine: &mut Engine| call(engine, "trainer.activations", of(&[])).unwrap();
        let before = seen(&mut engine);
        let predicted = call(&mut engine, "trainer.predict", of(&[("x", Value::Floats(vec![0.1; 6]))])).unwrap();
        assert!(matches!(predicted, Value::Floats(logits) if logits.len() == 6 && logits[0] == logits[2]));
        assert_eq!(seen(&mut engine), before, "{network}, {norm}: inference changed what was seen");
        call(&mut engine, "trainer.free", of(&[])).unwrap();
        let error = call(&mut engine, "trainer.step", of(&[])).unwrap_err();
        assert_eq!(error, "trainer 0 does not exist: it was freed");
    }
}

#[test]
fn a_batch_of_one_works_with_every_norm() {
    for (network, norm) in networks() {
        let mut engine = Engine::new().unwrap();
        let trainer = call(&mut engine, "trainer", options(network, norm, 1.0)).unwrap();
        let of = vec![("trainer".to_owned(), trainer), ("count".to_owned(), Value::Number(50.0))];
        let steps = call(&mut engine, "trainer.step", of).unwrap();
        assert_eq!(steps.get("finite"), Some(&Value::Flag(true)), "{network}, {norm}");
    }
}

#[test]
fn wrong_options_are_errors_that_say_what_came() {
    let wrong = |network: &str, norm: &str, name: &str, value: Value| {
        let mut fields = options(network, norm, 32.0);
        match fields.iter_mut().find(|(field, _)| field == name) {
            Some((_, field)) => *field = value,
            None => fields.push((name.to_owned(), value)),
        }
        call(&mut Engine::new().unwrap(), "trainer", fields).unwrap_err()
    };
    let cases = [
        (wrong("lstm", "group", "seed", Value::Number(1.0)), "norm: expected one of none, batch, layer, rms"),
        (wrong("mlp", "none", "batch", Value::Number(257.0)), "batch: expected at most the 256 samples, found 257"),
        (wrong("mlp", "none", "classes", Value::Number(1.0)), "data.labels[1]: expected a class from 0 to 0, found 1"),
        (wrong("mlp", "none", "inputs", Value::Number(3.0)), "data.x: expected 1536 elements"),
        (
            wrong("mlp", "none", "learningRate", Value::Number(-1.0)),
            "learningRate: expected a finite number greater than 0",
        ),
        (wrong("mlp", "none", "layers", Value::List(vec![Value::Number(0.0)])), "layers: expected 1 to 16384 units"),
        (
            wrong("mlp", "none", "layers", Value::List(vec![Value::Number(16384.0); 4])),
            "layers: expected a network of at most",
        ),
        (wrong("mlp", "none", "colour", Value::Number(1.0)), "unknown option \"colour\""),
    ];
    for (found, expected) in cases {
        assert!(found.contains(expected), "expected {expected:?} in {found:?}");
    }
}
