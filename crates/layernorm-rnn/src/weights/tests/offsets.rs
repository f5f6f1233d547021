//! Constants that a library adds to a gate itself: tf.contrib's `forget_bias` of 1, DreamerV3's −1.

use super::*;
use crate::network::Sequences;
use crate::params::Slot;
use crate::runner::Runner;
use crate::variant::Update;

const I: usize = 3;
const H: usize = 2;
const STEPS: usize = 5;

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Applies the layer norm of `rnn_ops`, with γ and β, to one row, with its variance epsilon of 1e-12.
fn normalized(row: &mut [f64], gamma: &[f64], beta: &[f64]) {
    let n = row.len() as f64;
    let mean = row.iter().sum::<f64>() / n;
    let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
    for (j, x) in row.iter_mut().enumerate() {
        *x = (*x - mean) / (variance + 1e-12).sqrt() * gamma[j] + beta[j];
    }
}

/// TensorFlow's `LayerNormBasicLSTMCell.call` for one sequence, with `forget_bias=1.0`: with norms if the tensors
/// have them, otherwise with `bias`, which makes it `BasicLSTMCell` and `LSTMCell`, too. Returns y `[T, H]`.
fn tensorflow(tensors: &BTreeMap<String, Tensor<f64>>, x: &[f64]) -> Vec<f64> {
    let get = |name: &str| {
        let mut found = tensors.iter().filter(|(other, _)| other.ends_with(name)).map(|(_, tensor)| &tensor.values);
        found.next()
    };
    let kernel = get("cell/kernel").unwrap();
    let (mut c, mut h, mut y) = ([0.0; H], [0.0; H], Vec::new());
    for x in x.chunks(I) {
        // args = concat([inputs, h], 1); concat = matmul(args, kernel); i, j, f, o = split(concat, 4, axis=1)
        let args = [x, &h].concat();
        let mut concat: Vec<f64> =
            (0..4 * H).map(|column| (0..I + H).map(|row| args[row] * kernel[row * 4 * H + column]).sum()).collect();
        if let Some(bias) = get("cell/bias") {
            concat.iter_mut().zip(bias).for_each(|(z, b)| *z += b);
        }
        for (gate, name) in ["input", "transform", "forget", "output"].into_iter().enumerate() {
            if let (Some(gamma), Some(beta)) = (get(&format!("/{name}/gamma")), get(&format!("/{name}/beta"))) {
                normalized(&mut concat[gate * H..(gate + 1) * H], gamma, beta);
            }
        }
        for k in 0..H {
            let (i, j, f, o) = (concat[k], concat[H + k], concat[2 * H + k], concat[3 * H + k]);
            c[k] = c[k] * sigmoid(f + 1.0) + sigmoid(i) * j.tanh();
            h[k] = sigmoid(o);
        }
        if let (Some(gamma), Some(beta)) = (get("state/gamma"), get("state/beta")) {
            normalized(&mut c, gamma, beta);
        }
        (0..H).for_each(|k| h[k] *= c[k].tanh());
        y.extend(h);
    }
    y
}

fn input() -> Vec<f64> {
    (0..STEPS * I).map(|i| ((i * 7) % 11) as f64 / 5.0 - 1.0).collect()
}

#[track_caller]
fn same_outputs(network: &Network<f64>, tensors: &BTreeMap<String, Tensor<f64>>) {
    let y = Runner::default().forward(network, &Sequences::new(&input(), STEPS, 1), None).unwrap().y;
    let expected = tensorflow(tensors, &input());
    let distance = y.iter().zip(&expected).fold(0.0f64, |most, (y, e)| most.max((y - e).abs()));
    assert!(distance < 1e-12, "{distance}: {y:?}, expected {expected:?}");
}

/// Returns the tensors of `LayerNormBasicLSTMCell(H, layer_norm=False)`.
fn without_norms() -> BTreeMap<String, Tensor<f64>> {
    let tensor = |shape: &[usize], seed: usize| {
        let count = shape.iter().product();
        Tensor { shape: shape.to_vec(), values: (0..count).map(|i| ((i * 5 + seed) % 13) as f64 / 9.0 - 0.7).collect() }
    };
    BTreeMap::from([
        ("rnn/layer_norm_basic_lstm_cell/kernel".to_owned(), tensor(&[I + H, 4 * H], 1)),
        ("rnn/layer_norm_basic_lstm_cell/bias".to_owned(), tensor(&[4 * H], 4)),
    ])
}

fn shapes(tensors: &BTreeMap<String, Tensor<f64>>) -> BTreeMap<String, Vec<usize>> {
    tensors.iter().map(|(name, tensor)| (name.clone(), tensor.shape.clone())).collect()
}

#[test]
fn contrib_without_norms_adds_forget_bias() {
    let tensors = without_norms();
    // Derived from the file, the constant becomes the variant's, and no number changes.
    let config = config_of_shapes(&shapes(&tensors), Format::Contrib, named(Kind::Lstm, "none"), "").unwrap();
    assert_eq!(config.variant.offset, 1.0);
    let network = from_tensors(&tensors, Format::Contrib, &config, "").unwrap();
    same_outputs(&network, &tensors);
    assert_eq!(to_tensors(network.params(), Format::Contrib, &config).unwrap(), tensors);
    // For a variant without an offset it goes into the bias.
    for variant in [named(Kind::Lstm, "none"), Variant::plain(Kind::Lstm)] {
        let network = from_tensors(&tensors, Format::Contrib, &Config::new(variant, I, H), "").unwrap();
        same_outputs(&network, &tensors);
    }
}

#[test]
fn contrib_with_norms_adds_forget_bias() {
    let network = network(Config::new(named(Kind::Lstm, "per-gate"), I, H));
    same_outputs(&network, &to_tensors(network.params(), Format::Contrib, network.config()).unwrap());
}

/// Whatever the variant adds itself, TensorFlow's cell computes the same from the file.
#[test]
fn written_for_contrib_the_constant_is_taken_off() {
    for offset in [0.0, 0.5, 1.0] {
        for name in ["none", "per-gate"] {
            let variant = Variant { offset, ..named(Kind::Lstm, name) };
            let network = network(Config::new(variant, I, H));
            same_outputs(&network, &to_tensors(network.params(), Format::Contrib, network.config()).unwrap());
        }
    }
}

/// A cell with an offset, for a library that adds none: the offset goes into the bias, in all layers and directions,
/// exactly for integers.
#[test]
fn an_offset_becomes_a_bias_elsewhere() {
    let variant = Variant { offset: 1.0, ..named(Kind::Lstm, "none") };
    let config = Config::new(variant, I, H).with_layers(2).with_direction(crate::config::Direction::Both);
    let before = network(config);
    let bytes = to_bytes(&before, Format::Torch, Dtype::F64).unwrap();
    let plain = Config { variant: named(Kind::Lstm, "none"), ..config };
    let after: Network<f64> = load(&bytes, Format::Torch, &plain, "").unwrap();
    let run = |network| Runner::default().forward(network, &Sequences::new(&input(), STEPS, 1), None).unwrap().y;
    assert!(run(&before).iter().zip(run(&after)).all(|(a, b)| (a - b).abs() < 1e-12));
    let bias = |network: &Network<f64>, layer| network.params().get(layer, 1, Slot::InputBias).unwrap()[H];
    assert_eq!((bias(&after, 0), bias(&after, 1)), (bias(&before, 0) + 1.0, bias(&before, 1) + 1.0));

    let gru = Variant { offset: -1.0, ..named(Kind::Gru, "none") };
    let before = network(Config::new(gru, I, H));
    let bytes = to_bytes(&before, Format::Onnx, Dtype::F64).unwrap();
    let after: Network<f64> = load(&bytes, Format::Onnx, &Config::new(named(Kind::Gru, "none"), I, H), "").unwrap();
    assert!(run(&before).iter().zip(run(&after)).all(|(a, b)| (a - b).abs() < 1e-12));
}

#[test]
fn other_constants_are_refused() {
    let tensors = without_norms();
    let half = Config::new(Variant { offset: 0.5, ..named(Kind::Lstm, "none") }, I, H);
    let error = from_tensors::<f64>(&tensors, Format::Contrib, &half, "").unwrap_err().to_string();
    assert!(error.contains("offset: expected 1, which the library adds by default, or 0, found 0.5"), "{error}");
    // No bias can absorb it.
    let bare = Variant { input_bias: false, recurrent_bias: false, ..named(Kind::Lstm, "none") };
    let error = to_bytes(&network(Config::new(bare, I, H)), Format::Contrib, Dtype::F64).unwrap_err().to_string();
    assert!(error.contains("offset: expected 1, which the library adds, or a bias"), "{error}");
    let error = Variant { offset: 1.0, update: Update::TakesNew, ..Variant::plain(Kind::Rnn) }.check().unwrap_err();
    assert!(error.to_string().contains("offset"), "{error}");
}

/// `torch.nn.LSTM` never clips the cell.
#[test]
fn clips_that_a_library_has_not_are_refused() {
    for variant in [
        Variant { cell_clip: Some(1.0), ..named(Kind::Lstm, "none") },
        Variant { projection_clip: Some(1.0), ..named(Kind::Lstm, "none") },
    ] {
        let network = network(Config::new(variant, I, H).with_projection(1));
        let error = to_bytes(&network, Format::Torch, Dtype::F64).unwrap_err().to_string();
        assert!(error.contains("cell_clip and projection_clip: expected none"), "{error}");
        to_bytes(&network, Format::Tflite, Dtype::F64).unwrap();
    }
}
