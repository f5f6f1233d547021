//! Which combinations of network and norm are supported.

use super::*;

#[test]
fn every_network_with_every_supported_norm_gives_logits() {
    // No instance norm in two MLPs and four recurrent networks, no group norm in the RNN.
    assert_eq!(fitting().count(), 9 * 7 - 6 - 1);
    for (arch, norm) in fitting() {
        for device in [cpu(), training()] {
            let logits = logits(&net(&arch, norm, &device), images(1, 3, &device));
            assert_eq!(logits.dims(), [3, 10], "{arch:?} {norm}");
            assert!(values(&logits).iter().all(|x| x.is_finite()), "{arch:?} {norm}: {logits}");
            assert!(values(&logits).iter().any(|&x| x != values(&logits)[0]), "{arch:?} {norm}: {logits}");
        }
    }
}

#[test]
fn an_unsupported_norm_says_why() {
    let rnn = recurrent(Kind::Rnn, Reads::Rows);
    assert!(rnn.refuses(Norm::Group).is_some_and(|why| why.contains("an RNN has no gates")));
    for kind in Kind::ALL {
        let stacked = Arch::recurrent(kind, RecurrentSize { hidden: 7, reads: Reads::Rows, layers: 2 });
        for norm in [Norm::Batch, Norm::Rms, Norm::Weight] {
            let error = Net::new(&stacked, norm, IMAGE, &Start::new(1), &cpu()).unwrap_err();
            assert!(error.contains("several layers support only none, layer and group"), "{error}");
        }
    }
    for arch in archs() {
        let refused = matches!(arch, Arch::Mlp { .. }) || arch.as_recurrent().is_some();
        assert_eq!(arch.refuses(Norm::Instance).is_some(), refused, "{arch:?}");
        if let Some(why) = arch.refuses(Norm::Instance) {
            let error = Net::new(&arch, Norm::Instance, IMAGE, &Start::new(1), &cpu()).unwrap_err();
            assert!(error.contains(arch.name()) && error.contains("instance") && error.contains(why), "{error}");
        }
    }
}

#[test]
fn invalid_sizes_are_rejected_with_what_was_found() {
    let transformer = |width, heads, blocks| Arch::Transformer { width, heads, blocks, pre_norm: true };
    let cases = [
        (Arch::mlp(&[16, 0]), "hidden units: expected 1 or more, found 0"),
        (Arch::lstm(0, Reads::Rows), "hidden units: expected 1 or more, found 0"),
        (Arch::Gru(RecurrentSize { hidden: 1, reads: Reads::Rows, layers: 0 }), "layers: expected 1 or more, found 0"),
        (Arch::Cnn { channels: [4, 0] }, "channels: expected 1 or more, found 0"),
        (Arch::Cnn { channels: [0, 4] }, "channels: expected 1 or more, found 0"),
        (transformer(0, 1, 1), "width: expected 1 or more, found 0"),
        (transformer(8, 2, 0), "blocks: expected 1 or more, found 0"),
        (transformer(8, 0, 1), "heads: expected a divisor of the width 8, found 0"),
        (transformer(8, 3, 1), "heads: expected a divisor of the width 8, found 3"),
    ];
    for (arch, expected) in cases {
        for norm in Norm::ALL {
            assert_eq!(Net::new(&arch, norm, IMAGE, &Start::new(1), &cpu()).unwrap_err(), expected);
        }
    }
}

#[test]
fn images_without_pixels_are_rejected() {
    for (arch, norm) in fitting() {
        for image in [[0, 5], [6, 0], [0, 0]] {
            let error = Net::new(&arch, norm, image, &Start::new(1), &cpu()).unwrap_err();
            assert!(error.contains(&format!("found {}×{}", image[0], image[1])), "{arch:?} {norm}: {error}");
        }
    }
}

/// The message about an ε that is infinite in f32.
const FOUND_LARGE: &str = "ε: expected a finite number, 0 or more, found 1000000000000000000000000000000000000000";

#[test]
fn invalid_initializations_are_rejected_with_what_was_found() {
    let usual = Start::new(1);
    let cases = [
        (Start { weight_scale: f64::NAN, ..usual.clone() }, "weight scale: expected a finite number, found NaN"),
        (Start { gain: f64::INFINITY, ..usual.clone() }, "gain: expected a finite number, found inf"),
        (Start { bias: f64::NAN, ..usual.clone() }, "bias: expected a finite number, found NaN"),
        (Start { epsilon: -1e-5, ..usual.clone() }, "ε: expected a finite number, 0 or more, found -0.00001"),
        (Start { epsilon: 1e39, ..usual.clone() }, FOUND_LARGE),
        (Start { epsilon: f64::NAN, ..usual.clone() }, "ε: expected a finite number, 0 or more, found NaN"),
        (
            Start { gain: 0.5, affine: false, ..usual },
            "gain and bias: expected 1 and 0 if they are not trained, found 0.5 and 0",
        ),
    ];
    for (start, expected) in cases {
        for (arch, norm) in fitting() {
            assert_eq!(Net::new(&arch, norm, IMAGE, &start, &cpu()).unwrap_err(), expected, "{arch:?} {norm}");
        }
    }
}

#[test]
fn norms_are_found_by_their_names() {
    for norm in Norm::ALL {
        assert_eq!(Norm::named(norm.name()), Some(norm));
        assert_eq!(serde_json::to_value(norm).unwrap(), norm.name());
    }
    assert_eq!(Norm::named("bach"), None);
}

#[test]
fn weights_are_named_in_order_and_are_there() {
    let count = |arch: &Arch| match arch {
        Arch::Mlp { hidden, .. } => hidden.len() + 1,
        Arch::Rnn(_) | Arch::Gru(_) | Arch::Lstm(_) | Arch::Cnn { .. } => 3,
        Arch::Transformer { blocks, .. } => 4 * blocks + 2,
    };
    for (arch, norm) in fitting() {
        let device = training();
        let net = net(&arch, norm, &device);
        let weights = net.weights();
        assert_eq!(weights.len(), count(&arch), "{arch:?} {norm}");
        assert_eq!(weights.last().unwrap().0, "logits");
        let loss = logits(&net, images(1, 3, &device)).square().sum();
        let gradients = burn::optim::GradientsParams::from_grads(loss.backward(), &net);
        for (name, weight) in weights {
            let gradient = match weight {
                Weight::Matrix(id) => gradients.get::<2>(id).map(|gradient| values(&gradient)),
                Weight::Filters(id) => gradients.get::<4>(id).map(|gradient| values(&gradient)),
            };
            let gradient = gradient.unwrap_or_else(|| panic!("{arch:?} {norm}: {name}"));
            assert!(gradient.iter().any(|&x| x != 0.0), "{arch:?} {norm}: {name}");
        }
    }
}

#[test]
fn networks_are_written_as_in_earlier_records() {
    use serde_json::{json, to_value};
    for kind in Kind::ALL {
        let size = RecurrentSize { hidden: 12, reads: Reads::Pixels, layers: 1 };
        let (one, two) = (Arch::recurrent(kind, size), Arch::recurrent(kind, RecurrentSize { layers: 2, ..size }));
        assert_eq!(to_value(&one).unwrap(), json!({"kind": kind.name(), "hidden": 12, "reads": "pixels"}));
        assert_eq!(to_value(&two).unwrap(), json!({"kind": kind.name(), "hidden": 12, "reads": "pixels", "layers": 2}));
        for arch in [one, two] {
            assert_eq!(serde_json::from_value::<Arch>(to_value(&arch).unwrap()).unwrap(), arch);
        }
    }
    let start = Start::new(1);
    let mut written = json!({"seed": 1, "weight_scale": 1.0, "gain": 1.0, "bias": 0.0, "epsilon": 1e-5});
    assert_eq!(to_value(&start).unwrap(), written);
    assert_eq!(serde_json::from_value::<Start>(written.clone()).unwrap(), start);
    written["affine"] = json!(false);
    assert_eq!(to_value(Start { affine: false, ..start }).unwrap(), written);
}
