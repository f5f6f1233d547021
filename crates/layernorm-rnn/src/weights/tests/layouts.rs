use super::*;
use crate::params::Slot;

/// Encodes a position in a number: gate, unit, column.
fn number(gate: usize, unit: usize, column: usize) -> f64 {
    (100 * gate + 10 * unit + column) as f64
}

/// With H = 2 units: a parameter of the library with these gates (by our index), as `[G·H, columns]`.
fn rows(gates: &[usize], columns: usize, from: usize) -> Vec<Vec<f64>> {
    let row = |&gate: &usize| (0..2).map(move |unit| (0..columns).map(|c| number(gate, unit, from + c)).collect());
    gates.iter().flat_map(row).collect()
}

fn tensor(rows: &[Vec<f64>]) -> Tensor<f64> {
    Tensor { shape: vec![rows.len(), rows[0].len()], values: rows.concat() }
}

fn vector(rows: &[Vec<f64>]) -> Tensor<f64> {
    Tensor { shape: vec![rows.concat().len()], values: rows.concat() }
}

fn transposed(rows: &[Vec<f64>]) -> Tensor<f64> {
    let columns: Vec<Vec<f64>> = (0..rows[0].len()).map(|c| rows.iter().map(|row| row[c]).collect()).collect();
    tensor(&columns)
}

fn beside(left: Vec<Vec<f64>>, right: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    left.into_iter().zip(right).map(|(left, right)| [left, right].concat()).collect()
}

fn map(tensors: Vec<(&str, Tensor<f64>)>) -> BTreeMap<String, Tensor<f64>> {
    tensors.into_iter().map(|(name, tensor)| (name.to_owned(), tensor)).collect()
}

/// Checks that all parameters are in our own order: row r of G·H belongs to gate r / 2 and unit r % 2.
fn check(network: &Network<f64>, slot: Slot, columns: usize, from: usize) {
    let gates: Vec<usize> = (0..network.config().variant.gates().len()).collect();
    let expected = rows(&gates, columns, from).concat();
    assert_eq!(network.params().get(0, 0, slot).unwrap(), expected, "{slot:?}");
}

fn read(tensors: &BTreeMap<String, Tensor<f64>>, format: Format, variant: Variant, prefix: &str) -> Network<f64> {
    let shapes = tensors.iter().map(|(name, tensor)| (name.clone(), tensor.shape.clone())).collect();
    let config = config_of_shapes(&shapes, format, variant, prefix).unwrap();
    assert_eq!((config.input, config.hidden), (3, 2));
    let network = from_tensors(tensors, format, &config, prefix).unwrap();
    // As gradients with the names of the file: the same tensors again.
    let names = tensors.keys().map(String::as_str);
    assert_eq!(map_gradients_like(network.params(), format, &config, prefix, names).unwrap(), *tensors);
    network
}

#[test]
fn haste_has_i_g_f_o_in_columns_and_two_gains_in_one() {
    let order = [0, 2, 1, 3];
    let gamma = beside(rows(&order, 1, 5), rows(&order, 1, 6));
    let tensors = map(vec![
        ("kernel", transposed(&rows(&order, 3, 0))),
        ("recurrent_kernel", transposed(&rows(&order, 2, 3))),
        ("bias", vector(&rows(&order, 1, 7))),
        ("gamma", transposed(&gamma)),
        ("gamma_h", Tensor { shape: vec![2], values: vec![1.0, 2.0] }),
        ("beta_h", Tensor { shape: vec![2], values: vec![3.0, 4.0] }),
    ]);
    assert_eq!(tensors["gamma"].shape, [2, 8]);
    let network = read(&tensors, Format::Haste, named(Kind::Lstm, "haste"), "");
    check(&network, Slot::InputWeight, 3, 0);
    check(&network, Slot::RecurrentWeight, 2, 3);
    check(&network, Slot::InputNormGain, 1, 5);
    check(&network, Slot::RecurrentNormGain, 1, 6);
    check(&network, Slot::Bias, 1, 7);
    assert_eq!(network.params().get(0, 0, Slot::CellNormBias).unwrap(), [3.0, 4.0]);
}

#[test]
fn dreamer_has_reset_candidate_update_and_h_before_x() {
    let order = [0, 2, 1];
    let (x, h) = (rows(&order, 3, 0), rows(&order, 2, 3));
    let norm = || (vector(&rows(&order, 1, 5)), vector(&rows(&order, 1, 6)));
    let jax = map(vec![
        ("agent/rssm/gru/kernel", transposed(&beside(h.clone(), x.clone()))),
        ("agent/rssm/gru/norm/scale", norm().0),
        ("agent/rssm/gru/norm/bias", norm().1),
    ]);
    let torch = map(vec![
        ("dynamics._cell._layer.weight", tensor(&beside(x, h))),
        ("dynamics._cell._norm.weight", norm().0),
        ("dynamics._cell._norm.bias", norm().1),
    ]);
    let variant = || named(Kind::Gru, "dreamer");
    for network in [
        read(&jax, Format::Dreamer, variant(), "agent/rssm/"),
        read(&torch, Format::DreamerTorch, variant(), "dynamics._cell"),
        // Without a prefix, the place is found as well.
        read(&torch, Format::DreamerTorch, variant(), ""),
    ] {
        check(&network, Slot::InputWeight, 3, 0);
        check(&network, Slot::RecurrentWeight, 2, 3);
        check(&network, Slot::SumNormGain, 1, 5);
        check(&network, Slot::SumNormBias, 1, 6);
    }
}

#[test]
fn keras_gru_has_z_r_h_and_two_rows_of_biases() {
    let order = [1, 0, 2];
    let both = beside(rows(&order, 1, 5), rows(&order, 1, 6));
    let mut tensors = map(vec![
        ("gru/gru_cell/kernel:0", transposed(&rows(&order, 3, 0))),
        ("gru/gru_cell/recurrent_kernel:0", transposed(&rows(&order, 2, 3))),
        ("gru/gru_cell/bias:0", transposed(&both)),
    ]);
    let network = read(&tensors, Format::Keras, named(Kind::Gru, "none"), "");
    check(&network, Slot::InputWeight, 3, 0);
    check(&network, Slot::RecurrentWeight, 2, 3);
    check(&network, Slot::InputBias, 1, 5);
    check(&network, Slot::RecurrentBias, 1, 6);
    tensors.insert("gru/gru_cell/bias:0".into(), vector(&rows(&order, 1, 5)));
    let network = read(&tensors, Format::Keras, named(Kind::Gru, "none-reset-before"), "");
    check(&network, Slot::InputBias, 1, 5);
    assert!(network.params().get(0, 0, Slot::RecurrentBias).unwrap().iter().all(|&bias| bias == 0.0));
}

#[test]
fn theano_gru_has_its_candidate_apart() {
    let (gates, one) = ([0, 1], [2]);
    let mut tensors = vec![
        ("encoder_W", transposed(&rows(&gates, 3, 0))),
        ("encoder_Wx", transposed(&rows(&one, 3, 0))),
        ("encoder_U", transposed(&rows(&gates, 2, 3))),
        ("encoder_Ux", transposed(&rows(&one, 2, 3))),
        ("encoder_b", vector(&rows(&gates, 1, 5))),
        ("encoder_bx", vector(&rows(&one, 1, 5))),
    ];
    let norms = [("encoder_s1", "encoder_s2", 6), ("encoder_b1", "encoder_b2", 7), ("encoder_s3", "encoder_s4", 8)];
    for (wide, narrow, column) in norms.into_iter().chain([("encoder_b3", "encoder_b4", 9)]) {
        tensors.push((wide, vector(&rows(&gates, 1, column))));
        tensors.push((narrow, vector(&rows(&one, 1, column))));
    }
    let network = read(&map(tensors), Format::Theano, named(Kind::Gru, "theano"), "encoder_");
    check(&network, Slot::InputWeight, 3, 0);
    check(&network, Slot::RecurrentWeight, 2, 3);
    check(&network, Slot::InputBias, 1, 5);
    check(&network, Slot::InputNormGain, 1, 6);
    check(&network, Slot::InputNormBias, 1, 7);
    check(&network, Slot::RecurrentNormGain, 1, 8);
    check(&network, Slot::RecurrentNormBias, 1, 9);
}

/// ONNX: W `[1, 8, 3]` and so on, for H = 2.
fn onnx(order: &[usize]) -> BTreeMap<String, Tensor<f64>> {
    let stacked = |mut tensor: Tensor<f64>| {
        tensor.shape.insert(0, 1);
        tensor
    };
    let biases = [rows(order, 1, 5), rows(order, 1, 6)].concat();
    let seen = [order[0], order[1], order[2]].map(|gate| [number(gate, 0, 7), number(gate, 1, 7)]).concat();
    map(vec![
        ("W", stacked(tensor(&rows(order, 3, 0)))),
        ("R", stacked(tensor(&rows(order, 2, 3)))),
        ("B", stacked(vector(&biases))),
        ("P", Tensor { shape: vec![1, 6], values: seen }),
    ])
}

#[test]
fn onnx_has_i_o_f_c_and_both_biases_in_one() {
    let network = read(&onnx(&[0, 3, 1, 2]), Format::Onnx, named(Kind::Lstm, "none"), "");
    check(&network, Slot::InputWeight, 3, 0);
    check(&network, Slot::RecurrentWeight, 2, 3);
    check(&network, Slot::InputBias, 1, 5);
    check(&network, Slot::RecurrentBias, 1, 6);
    // i, f, o.
    let peephole = [0, 1, 3].map(|gate| [number(gate, 0, 7), number(gate, 1, 7)]).concat();
    assert_eq!(network.params().get(0, 0, Slot::Peephole).unwrap(), peephole);
}

#[test]
fn onnx_couples_by_the_input_gate() {
    // ONNX Runtime: f = 1 − i. Here i = 1 − f, so f is their i with the sign flipped.
    let tensors = onnx(&[0, 3, 1, 2]);
    let variant = Variant { coupled: true, peephole: true, ..named(Kind::Lstm, "none") };
    let config = Config::new(variant, 3, 2);
    let network: Network<f64> = from_tensors(&tensors, Format::Onnx, &config, "").unwrap();
    let weight = network.params().get(0, 0, Slot::InputWeight).unwrap();
    let theirs = &tensors["W"].values;
    // Ours: f, g, o. Theirs: i, o, f, c.
    assert!(
        (0..6).all(|k| weight[k] == -theirs[k] && weight[6 + k] == theirs[18 + k] && weight[12 + k] == theirs[6 + k])
    );
    let peephole = network.params().get(0, 0, Slot::Peephole).unwrap();
    assert_eq!(peephole, [-7.0, -17.0, 307.0, 317.0]);
    let written = to_tensors(network.params(), Format::Onnx, &config).unwrap();
    assert_eq!(from_tensors::<f64>(&written, Format::Onnx, &config, "").unwrap(), network);
}

#[test]
fn contrib_has_one_kernel_on_x_and_h_and_an_unread_bias() {
    let order = [0, 2, 1, 3];
    let place = "rnn/layer_norm_lstm_cell/";
    let mut tensors =
        BTreeMap::from([(format!("{place}kernel"), transposed(&beside(rows(&order, 3, 0), rows(&order, 2, 3))))]);
    for (gate, name) in ["input", "forget", "transform", "output"].into_iter().enumerate() {
        tensors.insert(format!("{place}{name}/gamma"), vector(&rows(&[gate], 1, 5)));
        tensors.insert(format!("{place}{name}/beta"), vector(&rows(&[gate], 1, 6)));
    }
    tensors.insert(format!("{place}state/gamma"), vector(&rows(&[0], 1, 7)));
    tensors.insert(format!("{place}state/beta"), vector(&rows(&[0], 1, 8)));
    let network = read(&tensors, Format::Contrib, named(Kind::Lstm, "per-gate"), "rnn");
    check(&network, Slot::InputWeight, 3, 0);
    check(&network, Slot::RecurrentWeight, 2, 3);
    check(&network, Slot::SumNormGain, 1, 5);
    check(&network, Slot::SumNormBias, 1, 6);
    tensors.insert(format!("{place}bias"), vector(&rows(&order, 1, 9)));
    let again: Network<f64> = from_tensors(&tensors, Format::Contrib, network.config(), "").unwrap();
    assert_eq!(again, network);
}
