//! Which combinations of network and norm are supported.

use super::*;

#[test]
fn every_network_with_every_supported_norm_gives_logits() {
    assert_eq!(fitting().count(), 7 * 7 - 4);
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
    for arch in archs() {
        let refused = matches!(arch, Arch::Mlp { .. } | Arch::Lstm { .. });
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
        (Arch::Lstm { hidden: 0, reads: Reads::Rows }, "hidden units: expected 1 or more, found 0"),
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

#[test]
fn invalid_initializations_are_rejected_with_what_was_found() {
    let usual = Start::new(1);
    let cases = [
        (Start { weight_scale: f64::NAN, ..usual.clone() }, "weight scale: expected a finite number, found NaN"),
        (Start { gain: f64::INFINITY, ..usual.clone() }, "gain: expected a finite number, found inf"),
        (Start { bias: f64::NAN, ..usual.clone() }, "bias: expected a finite number, found NaN"),
        (Start { epsilon: -1e-5, ..usual.clone() }, "ε: expected a finite number, 0 or more, found -0.00001"),
        (Start { epsilon: f64::NAN, ..usual }, "ε: expected a finite number, 0 or more, found NaN"),
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
        Arch::Lstm { .. } | Arch::Cnn { .. } => 3,
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
