use super::*;
use crate::config::{Direction, Noise};
use crate::params::Slot;
use crate::variant::Reset;

/// Variants that each format has tensors for.
const FITS: [(Format, &str); 14] = [
    (Format::Native, "all"),
    (Format::Torch, "lstm/none gru/none rnn/none rnn/none-relu"),
    (Format::Torchaudio, "lstm/torchaudio lstm/none"),
    (Format::Fastrnns, "lstm/fastrnns lstm/none"),
    (
        Format::Keras,
        "lstm/fastrnns lstm/keras lstm/none gru/none gru/none-reset-before rnn/keras rnn/keras-relu rnn/none rnn/none-relu",
    ),
    (Format::Haste, "lstm/haste gru/haste"),
    (Format::Dreamer, "gru/dreamer"),
    (Format::DreamerTorch, "gru/dreamer"),
    (Format::Theano, "lstm/theano gru/theano"),
    (Format::Contrib, "lstm/per-gate lstm/none"),
    (Format::Tflite, "lstm/tflite lstm/tflite-cifg lstm/none"),
    (Format::Onnx, "lstm/none gru/none gru/none-reset-before rnn/none rnn/none-relu"),
    (Format::Paper, "lstm/paper lstm/haste gru/paper rnn/paper rnn/paper-relu"),
    (Format::Draw, "lstm/draw lstm/none"),
];

/// Writes and reads the network, and derives its sizes, too.
fn again(network: &Network<f64>, format: Format) -> Network<f64> {
    let bytes = to_bytes(network, format, Dtype::F64).unwrap();
    let config = network.config();
    let found = config_of(&bytes, format, config.variant, "").unwrap();
    // For a file of one direction, only our own description says which.
    let both = config.direction == Direction::Both;
    assert!(format == Format::Native || (found.direction == Direction::Both) == both);
    // tf.contrib's cells add forget_bias, and so do the variants derived from its files.
    let offset = if format == Format::Contrib { 1.0 } else { config.variant.offset };
    assert_eq!(found.variant.offset, offset);
    let variant = Variant { offset: config.variant.offset, ..found.variant };
    assert_eq!(Config { direction: config.direction, variant, ..found }, *config, "{}", format.name());
    load(&bytes, format, config, "").unwrap()
}

/// With one bias for two here, the sum is read back, in the first.
fn is_same_up_to_sums(a: &Network<f64>, b: &Network<f64>) -> bool {
    let params = |network: &Network<f64>, slot| network.params().get(0, 0, slot).unwrap().to_vec();
    let sums = |network| {
        let (x, h) = (params(network, Slot::InputBias), params(network, Slot::RecurrentBias));
        x.iter().zip(h).map(|(x, h)| x + h).collect::<Vec<f64>>()
    };
    // Not exactly equal if a constant was subtracted for the file and added again.
    let near = |(a, b): (f64, f64)| (a - b).abs() <= 2.0 * f64::EPSILON;
    sums(a).into_iter().zip(sums(b)).all(near)
        && params(a, Slot::InputWeight) == params(b, Slot::InputWeight)
        && params(b, Slot::RecurrentBias).iter().all(|&bias| bias == 0.0)
}

#[test]
fn every_variant_in_every_format_that_fits() {
    for (format, expected) in FITS {
        let mut fitting = Vec::new();
        for variant in Kind::ALL.into_iter().flat_map(Variant::all) {
            let mut variant = *variant;
            // Biases of projections only with projections: sizes.rs turns them off.
            variant.projection_bias = false;
            let before = network(Config::new(variant, 3, 5));
            if to_bytes(&before, format, Dtype::F64).is_err() {
                continue;
            }
            fitting.push(format!("{}/{}", variant.kind.name(), variant.name));
            let after = again(&before, format);
            let one_bias = matches!(format, Format::Torchaudio | Format::Contrib | Format::Tflite)
                || format == Format::Keras && !(variant.kind == Kind::Gru && variant.reset == Reset::Product);
            if one_bias && variant.name.starts_with("none") {
                assert!(is_same_up_to_sums(&before, &after), "{} {}", format.name(), variant.name);
            } else {
                assert_eq!(bits(&before), bits(&after), "{} {}", format.name(), variant.name);
            }
            assert_eq!(bits(&again(&after, format)), bits(&after));
        }
        if expected == "all" {
            assert_eq!(fitting.len(), Kind::ALL.into_iter().flat_map(Variant::all).count());
        } else {
            assert_eq!(fitting.join(" "), expected, "{}", format.name());
        }
    }
}

#[test]
fn layers_directions_and_projections() {
    let lstm = |name| Config::new(named(Kind::Lstm, name), 3, 4);
    // Twelve layers: layer 10 must come after layer 2.
    let mut cases = vec![
        (Format::Torch, lstm("none").with_layers(12)),
        (Format::Torch, lstm("none").with_layers(11).with_direction(Direction::Both).with_projection(2)),
        (Format::Torch, lstm("none").with_direction(Direction::Reverse)),
        (Format::Fastrnns, lstm("fastrnns").with_layers(12)),
        (Format::Fastrnns, lstm("fastrnns").with_layers(3).with_direction(Direction::Both)),
        (Format::Torchaudio, lstm("torchaudio").with_layers(12)),
        (Format::Keras, lstm("keras").with_layers(12)),
        (Format::Keras, lstm("keras").with_layers(12).with_direction(Direction::Both)),
        (Format::Haste, lstm("haste").with_layers(12)),
        (Format::Contrib, lstm("per-gate").with_layers(12).with_projection(3)),
        (Format::Contrib, lstm("per-gate").with_layers(2).with_direction(Direction::Both)),
        (Format::Tflite, lstm("tflite").with_direction(Direction::Both).with_projection(2)),
        (Format::Tflite, lstm("tflite-cifg").with_projection(2)),
        (Format::Onnx, Config::new(named(Kind::Gru, "none"), 3, 4).with_direction(Direction::Both)),
    ];
    for variant in Kind::ALL.into_iter().flat_map(Variant::all) {
        let config = Config::new(*variant, 1, 1).with_layers(2).with_direction(Direction::Both);
        cases.push((Format::Native, config));
    }
    for (format, config) in cases {
        let before = network(config);
        assert_eq!(bits(&before), bits(&again(&before, format)), "{} {:?}", format.name(), before.config());
    }
}

#[test]
fn cells_without_biases_and_with_peepholes() {
    let bare = |kind| Variant { input_bias: false, recurrent_bias: false, ..named(kind, "none") };
    for format in [Format::Torch, Format::Onnx, Format::Keras] {
        for kind in Kind::ALL {
            let before = network(Config::new(bare(kind), 3, 4));
            let bytes = to_bytes(&before, format, Dtype::F64).unwrap();
            // The requested variant has biases, but the file has none.
            assert_eq!(config_of(&bytes, format, named(kind, "none"), "").unwrap(), *before.config());
            assert_eq!(bits(&before), bits(&again(&before, format)));
        }
    }
    let peephole = Variant { peephole: true, ..named(Kind::Lstm, "none") };
    let before = network(Config::new(peephole, 3, 4));
    let bytes = to_bytes(&before, Format::Onnx, Dtype::F64).unwrap();
    assert_eq!(config_of(&bytes, Format::Onnx, named(Kind::Lstm, "none"), "").unwrap().variant, peephole);
    assert_eq!(bits(&before), bits(&again(&before, Format::Onnx)));
    // TensorFlow Lite's tensors tell whether gates are coupled and whether there are peepholes.
    let cifg = Variant { peephole: false, projection_bias: false, ..named(Kind::Lstm, "tflite-cifg") };
    let before = network(Config::new(cifg, 3, 4));
    let bytes = to_bytes(&before, Format::Tflite, Dtype::F64).unwrap();
    let found = config_of(&bytes, Format::Tflite, named(Kind::Lstm, "tflite"), "").unwrap();
    assert!(found.variant.coupled && !found.variant.peephole && !found.variant.projection_bias);
    assert_eq!(bits(&before), bits(&load(&bytes, Format::Tflite, &found, "").unwrap()));
}

#[test]
fn one_bias_for_two() {
    // nn.LSTM's two biases become one in a variant that has one.
    let two = network(Config::new(named(Kind::Lstm, "none"), 2, 2));
    let bytes = to_bytes(&two, Format::Torch, Dtype::F64).unwrap();
    let config = Config::new(Variant::plain(Kind::Lstm), 2, 2);
    let one: Network<f64> = load(&bytes, Format::Torch, &config, "").unwrap();
    let get = |network: &Network<f64>, slot| network.params().get(0, 0, slot).unwrap().to_vec();
    let (x, h) = (get(&two, Slot::InputBias), get(&two, Slot::RecurrentBias));
    assert!(get(&one, Slot::Bias).iter().zip(x.iter().zip(&h)).all(|(&b, (x, h))| b == x + h));
    assert_eq!(bits(&again(&one, Format::Torch)), bits(&one));
    // When written, the first has all of it; as gradients, both have it.
    let written = to_tensors(one.params(), Format::Torch, &config).unwrap();
    assert_eq!(written["bias_ih_l0"].values, get(&one, Slot::Bias));
    assert!(written["bias_hh_l0"].values.iter().all(|&bias| bias == 0.0));
    let gradients = map_gradients(one.params(), Format::Torch, &config).unwrap();
    assert_eq!(gradients["bias_ih_l0"], gradients["bias_hh_l0"]);
    assert_eq!(gradients["bias_ih_l0"].values, get(&one, Slot::Bias));
}

#[test]
fn a_file_of_our_own_describes_itself() {
    let noise = Noise { dropout: 0.1, recurrent_dropout: 0.25, zoneout_hidden: 1.0 / 3.0, ..Noise::default() };
    for variant in Kind::ALL.into_iter().flat_map(Variant::all) {
        let variant = Variant { name: "any\nname = you like", ..*variant }.with_eps(1.0 / 7.0);
        let before = network(Config::new(variant, 2, 3).with_noise(noise).with_direction(Direction::Reverse));
        let bytes = to_bytes(&before, Format::Native, Dtype::F64).unwrap();
        let after = load_native::<f64>(&bytes).unwrap();
        // Names that are not in the catalog are not preserved.
        let variant = Variant { name: "custom", ..before.config().variant };
        assert_eq!(*after.config(), Config { variant, ..*before.config() });
        assert_eq!(bits(&after), bits(&before));
        assert_eq!(to_bytes(&before, Format::Native, Dtype::F64).unwrap(), bytes);
        assert_eq!(config_of(&bytes, Format::Native, Variant::plain(Kind::Rnn), "").unwrap(), *after.config());
    }
    let clipped = Variant { cell_clip: Some(1e-3), projection_clip: Some(2.5), ..named(Kind::Lstm, "tflite") };
    let before = network(Config::new(clipped, 2, 3).with_projection(2).with_layers(2));
    assert_eq!(load_native::<f64>(&to_bytes(&before, Format::Native, Dtype::F64).unwrap()).unwrap(), before);
}

#[test]
fn formats_are_told_by_their_names() {
    for (format, fits) in FITS {
        let (kind, name) = if fits == "all" {
            ("gru", "haste")
        } else {
            fits.split_once(' ').map_or(fits, |f| f.0).split_once('/').unwrap()
        };
        let kind = Kind::ALL.into_iter().find(|k| k.name() == kind).unwrap();
        let name = if format == Format::Haste { "haste" } else { name };
        let bytes = to_bytes(&network(Config::new(named(kind, name), 3, 4)), format, Dtype::F32).unwrap();
        assert_eq!(detect(&bytes), Some(format));
        assert_eq!(format.name().parse::<Format>().unwrap(), format);
    }
    assert_eq!(detect(b"nothing"), None);
    assert!("pytorch".parse::<Format>().unwrap_err().to_string().contains("torchaudio"));
}

#[test]
fn dtypes_round_and_widen() {
    let config = Config::new(named(Kind::Gru, "dreamer"), 3, 4);
    let wide = network(config);
    for dtype in Dtype::ALL {
        let bytes = to_bytes(&wide, Format::Dreamer, dtype).unwrap();
        let back: Network<f32> = load(&bytes, Format::Dreamer, &config, "").unwrap();
        let round = |x: f64| match dtype {
            Dtype::F64 | Dtype::F32 => x as f32,
            Dtype::F16 => layernorm::f16::from_f64(x).to_f32(),
            Dtype::BF16 => layernorm::bf16::from_f64(x).to_f32(),
        };
        assert!(wide.params().values().iter().zip(back.params().values()).all(|(&w, &b)| round(w) == b));
        // Numbers that were rounded once are read back unchanged.
        let again = to_bytes(&back, Format::Dreamer, dtype).unwrap();
        let widened = load::<f64>(&again, Format::Dreamer, &config, "").unwrap();
        assert!(widened.params().values().iter().zip(back.params().values()).all(|(&w, &b)| w as f32 == b));
        assert_eq!(dtype.name().parse::<Dtype>().unwrap(), dtype);
    }
}
