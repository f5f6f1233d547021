use super::*;
use crate::config::Direction;

fn torch() -> (Config, BTreeMap<String, Tensor<f64>>) {
    let config = Config::new(named(Kind::Lstm, "none"), 3, 4);
    let tensors = to_tensors(network(config).params(), Format::Torch, &config).unwrap();
    (config, tensors)
}

/// Returns the error message.
fn refused(tensors: &BTreeMap<String, Tensor<f64>>, format: Format, config: &Config, prefix: &str) -> String {
    from_tensors::<f64>(tensors, format, config, prefix).unwrap_err().to_string()
}

fn says(message: &str, words: &[&str]) {
    assert!(words.iter().all(|word| message.contains(word)), "{message}");
}

#[test]
fn bytes_that_are_no_file() {
    let (config, _) = torch();
    let bytes = to_bytes(&network(config), Format::Torch, Dtype::F32).unwrap();
    for end in [0, 4, 8, 40, bytes.len() / 2, bytes.len() - 1] {
        let error = load::<f32>(&bytes[..end], Format::Torch, &config, "").unwrap_err().to_string();
        says(&error, &["expected a safetensors file", "found"]);
        assert!(config_of(&bytes[..end], Format::Torch, config.variant, "").is_err());
        assert_eq!(detect(&bytes[..end]), None);
    }
    // Flip every byte of the header: the result is an error or a network, never a panic.
    let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    for at in 0..header {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x15;
        let _ = load::<f32>(&damaged, Format::Torch, &config, "");
        let _ = config_of(&damaged, Format::Torch, config.variant, "");
        let _ = detect(&damaged);
    }
}

#[test]
fn a_missing_tensor_is_named_with_those_there_are() {
    let (config, mut tensors) = torch();
    tensors.remove("weight_hh_l0");
    says(&refused(&tensors, Format::Torch, &config, ""), &["expected a tensor \"weight_hh_l0\"", "\"bias_hh_l0\""]);
    tensors.remove("weight_ih_l0");
    says(&refused(&tensors, Format::Torch, &config, ""), &["weight_ih", "found \"bias_hh_l0\""]);
    says(&refused(&tensors, Format::Torch, &config, "rnn."), &["rnn.weight_ih", "no tensors"]);
    says(&refused(&BTreeMap::new(), Format::Torch, &config, ""), &["no tensors"]);
}

#[test]
fn an_extra_tensor_is_named() {
    let (config, mut tensors) = torch();
    tensors.insert("weight_hr_l0".into(), Tensor { shape: vec![2, 4], values: vec![0.0; 8] });
    says(&refused(&tensors, Format::Torch, &config, ""), &["expected no tensors but", "\"weight_hr_l0\""]);
    let twice = tensors.remove("weight_hr_l0").unwrap();
    tensors.insert("bias_ih_l0:0".into(), twice);
    says(&refused(&tensors, Format::Torch, &config, ""), &["\"bias_ih_l0\" and \"bias_ih_l0:0\""]);
    // Under another prefix it is ignored.
    let mut tensors: BTreeMap<String, Tensor<f64>> =
        torch().1.into_iter().map(|(name, tensor)| (format!("decoder.{name}"), tensor)).collect();
    tensors.insert("embedding.weight".into(), Tensor { shape: vec![1], values: vec![0.0] });
    assert!(from_tensors::<f64>(&tensors, Format::Torch, &config, "decoder.").is_ok());
    assert!(from_tensors::<f64>(&tensors, Format::Torch, &config, "decoder").is_ok());
    // A prefix consists of whole words.
    assert!(from_tensors::<f64>(&tensors, Format::Torch, &config, "deco").is_err());
}

#[test]
fn a_wrong_shape_is_told_with_the_right_one() {
    let (config, mut tensors) = torch();
    tensors.get_mut("weight_ih_l0").unwrap().shape = vec![3, 16];
    says(&refused(&tensors, Format::Torch, &config, ""), &["weight_ih_l0", "[16, 3]", "found [3, 16]"]);
    let (_, mut tensors) = torch();
    tensors.get_mut("bias_ih_l0").unwrap().values.pop();
    says(&refused(&tensors, Format::Torch, &config, ""), &["bias_ih_l0", "[16]"]);
    let shapes = |shape: &[usize]| BTreeMap::from([("weight_ih_l0".to_owned(), shape.to_vec())]);
    let variant = || named(Kind::Lstm, "none");
    for shape in [&[][..], &[0, 3], &[15, 3], &[16], &[16, 0], &[16, 3, 1], &[1 << 40, 3]] {
        assert!(config_of_shapes(&shapes(shape), Format::Torch, variant(), "").is_err(), "{shape:?}");
    }
    let onnx = BTreeMap::from([("W".to_owned(), vec![3, 16, 3])]);
    assert!(config_of_shapes(&onnx, Format::Onnx, variant(), "").is_err());
    let dreamer = BTreeMap::from([("kernel".to_owned(), vec![4, 12])]);
    let error = config_of_shapes(&dreamer, Format::Dreamer, named(Kind::Gru, "dreamer"), "").unwrap_err().to_string();
    says(&error, &["more than 4", "found 4"]);
}

/// 2²⁴ hidden units would take 2⁵³ bytes. Shapes are checked first, so nothing is allocated.
#[test]
fn sizes_are_compared_with_the_tensors_before_memory_is_taken() {
    let small = network(Config::new(named(Kind::Lstm, "none"), 3, 4));
    let tensors = to_tensors(small.params(), Format::Native, small.config()).unwrap();
    let large = Config::new(named(Kind::Lstm, "none"), 3, 1 << 24);
    let description = Some((native::KEY, native::describe(&large)));
    let bytes = file::bytes(&tensors, Dtype::F32, description).unwrap();
    let error = load_native::<f32>(&bytes).unwrap_err().to_string();
    says(&error, &["\"l0.input_weight\"", "expected shape [67108864, 3], found [16, 3]"]);
    says(&refused(&tensors, Format::Native, &large, ""), &["expected shape [67108864, 3], found [16, 3]"]);
    // Without such tensors, the allocation fails.
    let error = Params::<f64>::zeros(&large).unwrap_err();
    assert_eq!(error, Error::OutOfMemory { bytes: 8 * ((1 << 26) * ((1 << 24) + 3) + (1 << 27)) });
}

/// As docs/RECURRENT.md says: the prefix of the names is found.
#[test]
fn modules_are_found_before_names() {
    let (config, tensors) = torch();
    let under = |module: &'static str| tensors.iter().map(move |(name, t)| (format!("{module}{name}"), t.clone()));
    let mut model: BTreeMap<String, Tensor<f64>> = under("encoder.lstm.").collect();
    let shapes = model.iter().map(|(name, tensor)| (name.clone(), tensor.shape.clone())).collect();
    assert_eq!(config_of_shapes(&shapes, Format::Torch, config.variant, "").unwrap(), config);
    for prefix in ["", "encoder", "encoder.", "encoder.lstm."] {
        assert_eq!(from_tensors::<f64>(&model, Format::Torch, &config, prefix).unwrap(), network(config), "{prefix}");
    }
    let names: Vec<String> = model.keys().cloned().collect();
    let gradients =
        map_gradients_like(network(config).params(), Format::Torch, &config, "", names.iter().map(String::as_str));
    assert_eq!(gradients.unwrap(), model);

    model.insert("head.weight".into(), Tensor { shape: vec![1], values: vec![0.0] });
    says(&refused(&model, Format::Torch, &config, ""), &["expected no tensors but", "found \"head.weight\""]);
    model.extend(under("decoder.lstm."));
    says(
        &refused(&model, Format::Torch, &config, ""),
        &["expected one network, found several: \"decoder.lstm.\", \"encoder.lstm.\"", "pass a prefix to select one"],
    );
    assert_eq!(from_tensors::<f64>(&model, Format::Torch, &config, "decoder").unwrap(), network(config));
}

#[test]
fn integers_are_refused() {
    let (config, _) = torch();
    let data = vec![0u8; 4 * 4 * 4 * 3];
    let view = safetensors::tensor::TensorView::new(safetensors::Dtype::I32, vec![16, 3], &data).unwrap();
    let bytes = safetensors::serialize([("weight_ih_l0", view)], None).unwrap();
    let error = load::<f32>(&bytes, Format::Torch, &config, "").unwrap_err().to_string();
    says(&error, &["weight_ih_l0", "expected F64, F32, F16 or BF16", "found I32"]);
}

#[test]
fn layers_and_directions_have_to_be_there() {
    let (config, mut tensors) = torch();
    let two = config.with_layers(2);
    says(&refused(&tensors, Format::Torch, &two, ""), &["expected 2 layer(s) in 1 direction(s), found 1 in 1"]);
    let reverse = tensors["weight_ih_l0"].clone();
    tensors.insert("weight_ih_l1_reverse".into(), reverse);
    says(&refused(&tensors, Format::Torch, &two, ""), &["other direction"]);
    let one_way = [("haste", Format::Haste), ("theano", Format::Theano), ("draw", Format::Draw)];
    for (name, format) in one_way {
        let both = Config::new(named(Kind::Lstm, name), 2, 2).with_direction(Direction::Both);
        says(&to_bytes(&network(both), format, Dtype::F32).unwrap_err().to_string(), &[format.name(), "2 direction"]);
    }
}

#[test]
fn another_cell_is_refused_even_if_its_tensors_are_alike() {
    let cases = [
        // The same tensors, but c is carried in one and not in the other.
        (Format::Fastrnns, Variant { bias: false, ..named(Kind::Lstm, "paper") }, "carried"),
        (Format::Torch, named(Kind::Gru, "none-reset-before"), "reset"),
        (Format::Torch, Variant { update: crate::variant::Update::TakesNew, ..named(Kind::Gru, "none") }, "update"),
        (Format::Torch, Variant { coupled: true, ..named(Kind::Lstm, "none") }, "coupled"),
        (Format::Torch, named(Kind::Lstm, "draw"), "cell_norm"),
        (Format::Paper, named(Kind::Lstm, "theano"), "tied"),
        (Format::Contrib, Variant { peephole: true, ..named(Kind::Lstm, "per-gate") }, "peephole"),
        (Format::Keras, Variant { bias: true, ..named(Kind::Gru, "haste") }, "norm"),
        (Format::Haste, named(Kind::Rnn, "none"), "lstm or gru"),
    ];
    for (format, variant, word) in cases {
        let error = to_bytes(&network(Config::new(variant, 2, 2)), format, Dtype::F32).unwrap_err().to_string();
        says(&error, &[format.name(), word]);
    }
}

#[test]
fn a_bias_without_a_place_has_to_be_zero() {
    // A GRU's recurrent bias is inside the reset gate's product: it is not part of b.
    let two = network(Config::new(named(Kind::Gru, "none"), 3, 4));
    let mut tensors = to_tensors(two.params(), Format::Torch, two.config()).unwrap();
    let config = Config::new(Variant::plain(Kind::Gru), 3, 4);
    says(&refused(&tensors, Format::Torch, &config, ""), &["bias_hh_l0", "expected zeros"]);
    tensors.get_mut("bias_hh_l0").unwrap().values.fill(0.0);
    assert!(from_tensors::<f64>(&tensors, Format::Torch, &config, "").is_ok());
}

#[test]
fn descriptions_that_are_wrong() {
    let config = Config::new(named(Kind::Lstm, "paper"), 2, 3);
    let text = native::describe(&config);
    assert_eq!(native::config(&text).unwrap(), config);
    for (from, to, word) in [
        ("kind = lstm", "kind = lsdm", "lsdm"),
        ("hidden = 3", "hidden = 0", "hidden"),
        ("hidden = 3", "hidden = many", "many"),
        ("version = 1", "version = 2", "version"),
        ("layers = 1\n", "", "layers"),
        ("1e-5 variance\nsum", "1e-5\nsum", "five words"),
        ("shown", "hidden", "hidden"),
        ("offset = 0.0", "offset = NaN", "offset"),
    ] {
        let damaged = text.replacen(from, to, 1);
        assert_ne!(damaged, text, "{from}");
        says(&native::config(&damaged).unwrap_err().to_string(), &[word]);
    }
    let (_, tensors) = torch();
    let bytes = file::bytes(&tensors, Dtype::F32, None).unwrap();
    says(&load_native::<f32>(&bytes).unwrap_err().to_string(), &["description"]);
}

#[test]
fn a_file_is_replaced_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let count = || std::fs::read_dir(folder.path()).unwrap().count();
    let (config, _) = torch();
    let network = network(config);
    let path = folder.path().join("lstm.safetensors");
    std::fs::write(&path, b"old").unwrap();
    save(&network, Format::Torch, Dtype::F64, &path).unwrap();
    assert_eq!(load::<f64>(&std::fs::read(&path).unwrap(), Format::Torch, &config, "").unwrap(), network);
    assert_eq!(count(), 1);
    // A directory is in the way, or the parent directory is missing.
    let taken = folder.path().join("taken");
    std::fs::create_dir(&taken).unwrap();
    std::fs::write(taken.join("file"), b"").unwrap();
    says(&save(&network, Format::Torch, Dtype::F64, &taken).unwrap_err().to_string(), &["taken", "is a directory"]);
    let nowhere = folder.path().join("no/where");
    says(
        &save(&network, Format::Torch, Dtype::F64, nowhere).unwrap_err().to_string(),
        &["no/where", "create a temporary file next to it"],
    );
    says(&save(&network, Format::Torch, Dtype::F64, "..").unwrap_err().to_string(), &["is a directory"]);
    assert_eq!(count(), 2);
}
