//! Whether a file holds exactly the network's numbers.

use super::*;
use crate::params::Slot;

fn with_biases(variant: Variant, x: f64, h: f64) -> Network<f64> {
    let config = Config::new(variant, 3, 4);
    let mut params = Params::zeros(&config).unwrap();
    params.get_mut(0, 0, Slot::InputBias).unwrap().fill(x);
    params.get_mut(0, 0, Slot::RecurrentBias).unwrap().fill(h);
    Network::from_params(config, params).unwrap()
}

#[test]
fn joined_biases_are_measured_in_the_type_of_the_file() {
    let network = with_biases(named(Kind::Lstm, "none"), 1.0, 1.0 / 1024.0);
    for (format, dtype, expected) in [
        // Two biases stay separate.
        (Format::Torch, Dtype::BF16, None),
        (Format::Keras, Dtype::F32, None),
        (Format::Keras, Dtype::F16, None),
        // 1 + 2⁻¹⁰ between 1 and 1 + 2⁻⁷.
        (Format::Keras, Dtype::BF16, Some(1.0 / 1024.0)),
    ] {
        let found = rounding(&network, format, dtype).unwrap();
        assert_eq!(found.as_ref().map(|rounding| rounding.largest), expected, "{} {dtype:?}", format.name());
        if let Some(rounding) = found {
            assert_eq!((rounding.tensor.as_str(), rounding.numbers), ("lstm/lstm_cell/bias", 16));
        }
    }
}

#[test]
fn none_reset_before_is_rounded_for_keras() {
    let network = with_biases(named(Kind::Gru, "none-reset-before"), 1.0, 2f64.powi(-30));
    let found = rounding(&network, Format::Keras, Dtype::F32).unwrap().unwrap();
    assert_eq!((found.largest, found.numbers), (2f64.powi(-30), 12));
    assert_eq!(rounding(&network, Format::Keras, Dtype::F64).unwrap(), None);
    // Even f64 cannot hold every sum.
    let network = with_biases(named(Kind::Gru, "none-reset-before"), 1.0, 2f64.powi(-60));
    assert_eq!(rounding(&network, Format::Keras, Dtype::F64).unwrap().unwrap().largest, 2f64.powi(-60));
}

#[test]
fn narrow_types_and_constants_are_measured() {
    let network = with_biases(named(Kind::Lstm, "none"), 2f64.powi(-30), 0.0);
    // forget_bias: 2⁻³⁰ − 1 is not representable in f32.
    let found = rounding(&network, Format::Contrib, Dtype::F32).unwrap().unwrap();
    assert_eq!((found.largest, found.numbers), (2f64.powi(-30), 4));
    assert_eq!(rounding(&network, Format::Contrib, Dtype::F64).unwrap(), None);
    let large = with_biases(named(Kind::Lstm, "none"), 1e6, 0.0);
    assert_eq!(rounding(&large, Format::Torch, Dtype::F16).unwrap().unwrap().largest, f64::INFINITY);
    let odd = with_biases(named(Kind::Lstm, "none"), f64::NAN, f64::INFINITY);
    assert_eq!(rounding(&odd, Format::Torch, Dtype::BF16).unwrap(), None);
}

#[test]
fn reading_is_measured() {
    let two = with_biases(named(Kind::Lstm, "none"), 1.0, 2f64.powi(-30));
    let bytes = to_bytes(&two, Format::Torch, Dtype::F64).unwrap();
    let one = Config::new(Variant::plain(Kind::Lstm), 3, 4);
    let wide: Network<f64> = load(&bytes, Format::Torch, &one, "").unwrap();
    assert_eq!(load_rounding(&wide, &bytes, Format::Torch, "").unwrap(), None);
    let narrow: Network<f32> = load(&bytes, Format::Torch, &one, "").unwrap();
    let found = load_rounding(&narrow, &bytes, Format::Torch, "").unwrap().unwrap();
    assert_eq!((found.largest, found.numbers), (2f64.powi(-30), 16));
    let sum = found.clone().and_then(Rounding { largest: 1.0, tensor: "other".into(), numbers: 2 });
    assert_eq!((sum.largest, sum.tensor.as_str(), sum.numbers), (1.0 + 2f64.powi(-30), "other", 18));
}
