//! Initial values depend only on the seed, not on the norm.

use super::*;

#[test]
fn networks_that_differ_only_in_the_norm_start_from_the_same_weights() {
    for (arch, norm) in fitting() {
        let plain = parameters(&net(&arch, Norm::None, &cpu()));
        let found = parameters(&net(&arch, norm, &cpu()));
        // The paper's GRU and RNN have no b besides β of their norms.
        let fused = matches!(norm, Norm::Layer | Norm::Group);
        let without_b = |name: &str| fused && matches!(name, "Gru.bias" | "Rnn.bias");
        for (name, numbers) in plain.iter().filter(|(name, _)| !without_b(name)) {
            assert_eq!(found.get(name), Some(numbers), "{arch:?} {norm}: {name}");
        }
        assert_eq!(found.len() > plain.len(), norm != Norm::None, "{arch:?} {norm}: {:?}", found.keys());
    }
}

#[test]
fn devices_change_no_weight() {
    for (arch, norm) in fitting() {
        assert_eq!(parameters(&net(&arch, norm, &cpu())), parameters(&net(&arch, norm, &training())));
    }
}

#[test]
fn other_seeds_and_other_layers_have_other_weights() {
    for arch in archs() {
        let of = |seed| parameters(&with_start(&arch, Norm::None, &Start::new(seed), &cpu()));
        let (first, second) = (of(1), of(2));
        let mut seen: Vec<f32> = Vec::new();
        for (name, numbers) in &first {
            let same = numbers.values.iter().zip(&second[name].values).filter(|(a, b)| a == b).count();
            // Two of 2²⁴ equally likely numbers are almost never equal.
            assert_eq!(same, 0, "{arch:?}: {name}");
            // Weights from one stream would start with the same number, up to their bound, so they are compared
            // relative to the last.
            let relative = numbers.values[0] / numbers.values[numbers.values.len() - 1];
            assert!(!seen.contains(&relative), "{arch:?}: {name}");
            seen.push(relative);
        }
    }
}

#[test]
fn weights_are_uniform_within_their_bound() {
    let arch = Arch::mlp(&[64]);
    let found = parameters(&net(&arch, Norm::None, &cpu()));
    for (name, inputs) in [("Mlp.hidden.0.weight", 30), ("Mlp.last.weight", 64)] {
        let bound = 1.0 / f64::from(inputs).sqrt();
        let relative: Vec<f64> = found[name].values.iter().map(|&w| f64::from(w) / bound).collect();
        // The mean of n uniform numbers in ±1 deviates by sqrt(1/3n), and that of their squares, 1/3, by sqrt(4/45n).
        let n = relative.len() as f64;
        assert!(relative.iter().all(|w| w.abs() <= 1.0 + 2.0 * UNIT), "{name}");
        let mean = relative.iter().sum::<f64>() / n;
        let square = relative.iter().map(|w| w * w).sum::<f64>() / n;
        assert!(mean.abs() < 4.0 * (1.0 / (3.0 * n)).sqrt(), "{name}: {mean}");
        assert!((square - 1.0 / 3.0).abs() < 4.0 * (4.0 / (45.0 * n)).sqrt(), "{name}: {square}");
    }
}

/// Whether a parameter is a gain of a norm, a bias of a norm, or something else.
fn kind(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap() {
        "gamma" | "gain" => "gain",
        "beta" => "bias",
        "bias" if name.contains("_norm.") => "bias",
        last if last.ends_with("_norm_gain") => "gain",
        last if last.ends_with("_norm_bias") => "bias",
        _ => "other",
    }
}

#[test]
fn gains_and_biases_have_the_given_initial_values() {
    let usual = Start::new(1);
    let other = Start { gain: 0.5, bias: 0.25, ..usual.clone() };
    for (arch, norm) in fitting() {
        let of = |start| parameters(&with_start(&arch, norm, start, &cpu()));
        let (before, after) = (of(&usual), of(&other));
        // The gains of batch norm in an LSTM or GRU start at a tenth.
        let tenth = matches!(arch, Arch::Lstm(_) | Arch::Gru(_)) && norm == Norm::Batch;
        let gains = if tenth { [0.1, 0.05] } else { [1.0, 0.5] };
        for (name, numbers) in &after {
            let all = |numbers: &Numbers, value: f32| numbers.values.iter().all(|&x| x == value);
            let right = match kind(name) {
                "gain" => all(&before[name], gains[0]) && all(numbers, gains[1]),
                "bias" => all(&before[name], 0.0) && all(numbers, 0.25),
                _ => before[name] == *numbers,
            };
            assert!(right, "{arch:?} {norm}: {name} {numbers:?}");
        }
        let there = |what| after.keys().any(|name| kind(name) == what);
        let normalizes = !matches!(norm, Norm::None | Norm::Weight);
        assert_eq!(there("gain"), normalizes, "{arch:?} {norm}");
        assert_eq!(there("bias"), arch.has_norm_bias(norm), "{arch:?} {norm}");
    }
}

/// γ and β are not trained: the gradients of the others are those of a network with γ = 1 and β = 0.
#[test]
fn without_affine_parameters_norms_only_normalize() {
    let fixed = Start { affine: false, ..Start::new(1) };
    for (arch, norm) in fitting() {
        let device = training();
        let net = with_start(&arch, norm, &fixed, &device);
        let loss = logits(&net, images(1, 4, &device)).square().sum();
        let gradients = burn::optim::GradientsParams::from_grads(loss.backward(), &net);
        #[derive(Default)]
        struct Trained {
            path: Vec<String>,
            gradients: burn::optim::GradientsParams,
            names: Vec<String>,
        }
        impl ModuleVisitor for Trained {
            fn enter_module(&mut self, name: &str, _: &str) {
                self.path.push(name.to_owned());
            }
            fn exit_module(&mut self, _: &str, _: &str) {
                self.path.pop();
            }
            fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
                if self.gradients.get::<D>(param.id).is_some() {
                    self.names.push(self.path.join("."));
                }
            }
        }
        let mut trained = Trained { gradients, ..Trained::default() };
        net.visit(&mut trained);
        assert!(trained.names.iter().all(|name| kind(name) == "other"), "{arch:?} {norm}: {:?}", trained.names);
        assert!(trained.names.iter().any(|name| name.ends_with("last.weight")), "{arch:?} {norm}");
        // Batch norm in an LSTM or GRU would start with γ = 0.1.
        if !(norm == Norm::Batch && matches!(arch, Arch::Lstm(_) | Arch::Gru(_))) {
            let same = with_start(&arch, norm, &Start::new(1), &device);
            let (fixed, trained) = (logits(&net, images(1, 4, &device)), logits(&same, images(1, 4, &device)));
            assert_eq!(bits(&fixed), bits(&trained), "{arch:?} {norm}");
        }
    }
}

#[test]
fn the_weight_scale_multiplies_weights_and_nothing_else() {
    let usual = Start::new(1);
    let larger = Start { weight_scale: 4.0, ..usual.clone() };
    for (arch, norm) in fitting() {
        let of = |start| parameters(&with_start(&arch, norm, start, &cpu()));
        let (before, after) = (of(&usual), of(&larger));
        for (name, numbers) in &before {
            // Products with a power of two are exact, and so are square roots of sums of their squares.
            let weight = numbers.shape.len() > 1 || name.contains("length");
            let factor = if weight { 4.0 } else { 1.0 };
            let expected: Vec<f32> = numbers.values.iter().map(|x| factor * x).collect();
            assert_eq!(after[name].values, expected, "{arch:?} {norm}: {name}");
        }
    }
}

#[test]
fn weight_norm_starts_as_the_network_without_it() {
    for arch in archs() {
        let of = |norm| wide(&logits(&net(&arch, norm, &cpu()), images(1, 5, &cpu())));
        let (plain, normalized) = (of(Norm::None), of(Norm::Weight));
        let largest = plain.iter().fold(0.0, |largest: f64, x| largest.max(x.abs()));
        for (plain, normalized) in plain.iter().zip(&normalized) {
            // g and g·v/‖v‖ are off by a few units each, and so is each layer's product of at most 30 numbers; there
            // are at most 36 layers and steps (pixels), none of which doubles an error.
            let tolerance = 36.0 * 34.0 * UNIT * largest;
            assert!((plain - normalized).abs() <= tolerance, "{arch:?}: {plain} {normalized}");
        }
    }
}

#[test]
fn the_forget_gates_bias_is_one_higher() {
    let found = parameters(&net(&lstm(Reads::Rows), Norm::Layer, &cpu()));
    let bias = &found["Lstm.bias"].values;
    let mean = |values: &[f32]| values.iter().sum::<f32>() / values.len() as f32;
    // The others are in ±1/sqrt(7) = ±0.378.
    let [others, forget] = [[&bias[..7], &bias[14..]].concat(), bias[7..14].to_vec()];
    assert!(others.iter().all(|b| b.abs() <= 0.378) && forget.iter().all(|b| (b - 1.0).abs() <= 0.378), "{bias:?}");
    assert!((mean(&forget) - 1.0).abs() < 0.378);
}
