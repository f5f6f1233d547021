//! Norms in networks: the axes they normalize, compared with a plain computation in f64.

use super::*;

/// Numbers that are normalized together have the same key; for units of positions of an image, `case` is the position.
fn key(arch: &Arch, norm: Norm, positions: usize, units: usize, case: usize, unit: usize) -> (usize, usize) {
    let image = case / positions;
    let whole = if matches!(arch, Arch::Cnn { .. }) { image } else { case };
    // Groups of at least four: four groups of 16, two of 12 and 8.
    let groups = if units == 16 { 4 } else { 2 };
    match norm {
        Norm::None | Norm::Weight => (case, unit),
        Norm::Batch => (0, unit),
        Norm::Layer | Norm::Rms => (whole, 0),
        Norm::Group => (whole, unit / (units / groups)),
        Norm::Instance => (image, unit),
    }
}

/// (x − m)/sqrt(v + ε) with r = 1/sqrt(v + ε), of all numbers with the same key; RMS norm has m = 0.
fn normalized(x: &[f64], keys: &[(usize, usize)], norm: Norm) -> Vec<(f64, f64)> {
    let mut rows: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
    keys.iter().zip(x).for_each(|(&key, &x)| rows.entry(key).or_default().push(x));
    let moments = rows.into_iter().map(|(key, row)| {
        let n = row.len() as f64;
        let mean = if norm == Norm::Rms { 0.0 } else { row.iter().sum::<f64>() / n };
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        (key, (mean, 1.0 / (variance + 1e-5).sqrt()))
    });
    let moments: BTreeMap<_, _> = moments.collect();
    keys.iter().zip(x).map(|(key, &x)| ((x - moments[key].0) * moments[key].1, moments[key].1)).collect()
}

#[test]
fn each_norm_uses_its_axes() {
    const IMAGES: usize = 4;
    let archs = archs().into_iter().filter(|arch| arch.as_recurrent().is_none());
    let cases = archs.flat_map(|arch| Norm::ALL.map(|norm| (arch.clone(), norm)));
    for (arch, norm) in cases.filter(|(arch, norm)| arch.refuses(*norm).is_none()) {
        // With autodiff, so that batch norm uses batch statistics.
        let mut taps = Taps::open();
        net(&arch, norm, &training()).forward(images(1, IMAGES, &training()), &mut taps);
        let seen = taps.seen();
        assert!(!seen.is_empty());
        for layer in seen {
            let [cases, units] = layer.before.dims();
            let (before, after) = (wide(&layer.before), wide(&layer.after));
            if matches!(norm, Norm::None | Norm::Weight) {
                assert_eq!(before, after, "{arch:?} {norm}");
                continue;
            }
            let positions = cases / IMAGES;
            let places = (0..cases).flat_map(|case| (0..units).map(move |unit| (case, unit)));
            let keys: Vec<_> = places.map(|(case, unit)| key(&arch, norm, positions, units, case, unit)).collect();
            for ((x, y), (expected, r)) in before.iter().zip(&after).zip(normalized(&before, &keys, norm)) {
                // x − m is rounded at the size of x, m at that of a typical x, which times r is about 1 or below |x|·r; what
                // follows are a few roundings of y.
                let tolerance = 8.0 * UNIT * (1.0 + expected.abs() + x.abs() * r);
                assert!((y - expected).abs() <= tolerance, "{arch:?} {norm} {}: {y} {expected}", layer.layer);
            }
        }
    }
}

#[test]
fn normalized_logits_have_mean_0_and_variance_1() {
    let arch = Arch::Mlp { hidden: vec![16], activation: Activation::Tanh, output_norm: true };
    for case in wide(&logits(&net(&arch, Norm::Layer, &cpu()), images(1, 5, &cpu()))).chunks(10) {
        let mean = case.iter().sum::<f64>() / 10.0;
        let variance = case.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 10.0;
        // Ten numbers of up to sqrt(10), each off by a few units; ε = 10⁻⁵ changes them by 10⁻⁵/v, where v is about 0.1
        // or more.
        assert!(mean.abs() < 40.0 * UNIT && (variance - 1.0).abs() < 1e-3, "{mean} {variance}");
    }
}

#[test]
fn the_activation_is_the_one_that_was_chosen() {
    let of = |activation| {
        let arch = Arch::Mlp { hidden: vec![16], activation, output_norm: false };
        let device = training();
        let mut taps = Taps::open();
        let net = net(&arch, Norm::Layer, &device);
        let logits = wide(&net.forward(images(1, 3, &device), &mut taps));
        let after = wide(&taps.seen().remove(0).after);
        let found = parameters(&net);
        let (weight, bias) = (&found["Mlp.last.weight"].values, &found["Mlp.last.bias"].values);
        (logits, after, weight.clone(), bias.clone())
    };
    type Function = fn(f64) -> f64;
    let (relu, tanh): (Function, Function) = (|x| x.max(0.0), f64::tanh);
    for (activation, function) in [(Activation::Relu, relu), (Activation::Tanh, tanh)] {
        let (logits, after, weight, bias) = of(activation);
        for (row, found) in after.chunks(16).zip(logits.chunks(10)) {
            for (unit, found) in found.iter().enumerate() {
                let terms = row.iter().enumerate().map(|(k, &x)| function(x) * f64::from(weight[10 * k + unit]));
                let expected = terms.clone().sum::<f64>() + f64::from(bias[unit]);
                // 16 products, a bias, and tanh, which is off by a few units: 20 units in total.
                let size: f64 = terms.map(f64::abs).sum::<f64>() + f64::from(bias[unit]).abs();
                assert!((found - expected).abs() <= 20.0 * UNIT * size, "{activation:?}: {found} {expected}");
            }
        }
    }
}

#[test]
fn norms_before_and_after_differ_and_without_norms_there_is_no_difference() {
    let of = |norm, pre_norm| {
        let arch = Arch::Transformer { width: 8, heads: 2, blocks: 2, pre_norm };
        bits(&logits(&net(&arch, norm, &cpu()), images(1, 3, &cpu())))
    };
    for norm in Norm::ALL {
        let plain = matches!(norm, Norm::None | Norm::Weight);
        assert_eq!(of(norm, true) == of(norm, false), plain, "{norm}");
    }
}

#[test]
fn heads_use_their_own_parts() {
    let of = |heads| {
        let arch = Arch::Transformer { width: 8, heads, blocks: 1, pre_norm: true };
        bits(&logits(&net(&arch, Norm::Layer, &cpu()), images(1, 3, &cpu())))
    };
    assert!(of(1) != of(2) && of(2) != of(8));
}

#[test]
fn taps_change_nothing() {
    for (arch, norm) in fitting() {
        let device = training();
        let net = net(&arch, norm, &device);
        let (closed, mut open) = (logits(&net, images(1, 3, &device)), Taps::open());
        let opened = net.forward(images(1, 3, &device), &mut open);
        assert_eq!(bits(&closed), bits(&opened), "{arch:?} {norm}");
        assert!(!open.seen().is_empty(), "{arch:?} {norm}");
    }
}
