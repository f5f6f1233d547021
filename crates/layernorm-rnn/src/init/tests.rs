use super::*;
use crate::variant::Variant;

/// Returns W of a layer whose W is `[rows, columns]`.
fn matrix(rows: usize, columns: usize, scheme: Scheme, seed: u64) -> Vec<f64> {
    let variant = Variant::named(Kind::Rnn, "none").unwrap();
    let config = Config::new(variant, columns, rows);
    let mut params = Params::<f64>::zeros(&config).unwrap();
    Init { input_weight: scheme, ..BASE }.fill(&config, &mut params, seed).unwrap();
    params.get(0, 0, Slot::InputWeight).unwrap().to_vec()
}

/// Returns the largest |⟨u, v⟩ − δ| among the rows or, if they are fewer, the columns.
fn far_from_orthonormal(values: &[f64], rows: usize, columns: usize) -> f64 {
    let at = |long: usize, few: usize| {
        if rows <= columns { values[few * columns + long] } else { values[long * columns + few] }
    };
    let (few, long) = (rows.min(columns), rows.max(columns));
    let mut worst = 0f64;
    for i in 0..few {
        for j in 0..few {
            let product: f64 = (0..long).map(|k| at(k, i) * at(k, j)).sum();
            worst = worst.max((product - if i == j { 1.0 } else { 0.0 }).abs());
        }
    }
    worst
}

#[test]
fn orthogonal_of_any_shape() {
    for (rows, columns) in
        [(1, 1), (1, 7), (7, 1), (5, 5), (33, 33), (12, 40), (40, 12), (64, 64), (100, 70), (97, 131)]
    {
        for seed in 0..4 {
            let values = matrix(rows, columns, Scheme::Orthogonal { gain: 1.0 }, seed);
            let far = far_from_orthonormal(&values, rows, columns);
            assert!(far < 1e-14 * (rows + columns) as f64, "{rows}×{columns} seed {seed}: {far}");
        }
    }
}

#[test]
fn orthogonal_by_gate() {
    let variant = Variant::named(Kind::Lstm, "haste").unwrap();
    let config = Config::new(variant, 3, 8);
    let mut params = Params::<f64>::zeros(&config).unwrap();
    Init::haste().fill(&config, &mut params, 1).unwrap();
    let gates: Vec<&[f64]> = params.get(0, 0, Slot::RecurrentWeight).unwrap().chunks(64).collect();
    assert!(gates.iter().all(|gate| far_from_orthonormal(gate, 8, 8) < 1e-13));
    assert_ne!(gates[0], gates[1]);
    // The forget gate's bias is the second of four.
    let bias = params.get(0, 0, Slot::Bias).unwrap();
    assert!(bias.iter().enumerate().all(|(i, &b)| b == if i / 8 == 1 { 1.0 } else { 0.0 }));
    assert!(params.get(0, 0, Slot::InputNormGain).unwrap().iter().all(|&gain| gain == 1.0));
    assert!(params.get(0, 0, Slot::CellNormBias).unwrap().iter().all(|&bias| bias == 0.0));
}

#[test]
fn bounds_and_variances() {
    let (rows, columns) = (96, 160);
    let n = (rows * columns) as f64;
    let joint = (rows + columns + rows) as f64;
    // The bound, the variance, and the fourth moment divided by the squared variance.
    let uniform = |bound: f64| (bound, bound * bound / 3.0, 1.8);
    let cases = [
        (Scheme::Uniform { bound: 0.1 }, uniform(0.1)),
        (Scheme::UniformByHidden, uniform((1.0 / rows as f64).sqrt())),
        (Scheme::UniformByFanIn, uniform((1.0 / columns as f64).sqrt())),
        (Scheme::XavierUniform, uniform((6.0 / (rows + columns) as f64).sqrt())),
        (Scheme::XavierUniformJoint, uniform((6.0 / joint).sqrt())),
        (Scheme::OrthogonalIfSquare { bound: 0.2 }, uniform(0.2)),
        (Scheme::Normal { deviation: 2.0 }, (f64::INFINITY, 4.0, 3.0)),
        (Scheme::TruncatedNormalJoint, ((2.0 / joint).sqrt() * 2.0 / 0.8796, 2.0 / joint, 3.0)),
    ];
    for (scheme, (bound, variance, kurtosis)) in cases {
        let values = matrix(rows, columns, scheme, 7);
        assert!(values.iter().all(|value| value.abs() <= bound * 1.0001), "{scheme:?}");
        let mean = values.iter().sum::<f64>() / n;
        assert!(mean.abs() < 5.0 * (variance / n).sqrt(), "{scheme:?}: mean {mean}");
        let found = values.iter().map(|value| value * value).sum::<f64>() / n;
        // Five standard deviations of a mean of squares.
        let sigma = variance * ((kurtosis - 1.0) / n).sqrt();
        assert!((found - variance).abs() < 5.0 * sigma, "{scheme:?}: {found}, expected {variance}");
    }
}

#[test]
fn same_seed_same_numbers_and_no_two_parameters_alike() {
    let variant = Variant::named(Kind::Lstm, "none").unwrap();
    let config = Config::new(variant, 8, 8).with_layers(2).with_direction(crate::config::Direction::Both);
    let fill = |seed| {
        let mut params = Params::<f64>::zeros(&config).unwrap();
        Init::torch().fill(&config, &mut params, seed).unwrap();
        params
    };
    assert_eq!(fill(1), fill(1));
    assert_ne!(fill(1), fill(2));
    let params = fill(1);
    let mut firsts: Vec<f64> = params.entries().iter().map(|entry| params.values()[entry.range.start]).collect();
    firsts.sort_by(f64::total_cmp);
    assert!(firsts.windows(2).all(|pair| pair[0] != pair[1]));
}

#[test]
fn every_variant_has_a_start_of_its_own_and_f32_rounds_f64() {
    for kind in Kind::ALL {
        for variant in Variant::all(kind) {
            let config = Config::new(*variant, 3, 4);
            let init = Init::for_variant(variant);
            let mut wide = Params::<f64>::zeros(&config).unwrap();
            init.fill(&config, &mut wide, 3).unwrap();
            let mut narrow = Params::<f32>::zeros(&config).unwrap();
            init.fill(&config, &mut narrow, 3).unwrap();
            assert!(wide.values().iter().zip(narrow.values()).all(|(&w, &n)| w as f32 == n && w.is_finite()));
        }
    }
}

#[test]
fn impossible_numbers_are_refused() {
    let config = Config::new(Variant::plain(Kind::Gru), 2, 2);
    let mut params = Params::<f32>::zeros(&config).unwrap();
    let refused = |init: Init, params: &mut Params<f32>| init.fill(&config, params, 0).unwrap_err().to_string();
    let init = Init { bias: Scheme::Uniform { bound: -1.0 }, ..Init::paper() };
    assert!(refused(init, &mut params).contains("found -1"));
    let init = Init { forget_bias: f64::NAN, ..Init::paper() };
    assert!(refused(init, &mut params).contains("found NaN"));
}
