//! Rule 6: finite input never becomes NaN, and what comes out is what the formula gives, forward and backward.

mod common;

use common::{Random, assert_same_bits, contexts, name};
use layernorm::batch_norm::{self, BatchConfig};
use layernorm::group_norm::{self, GroupConfig};
use layernorm::weight_norm::{self, WeightGradients};
use layernorm::{Affine, BatchNorm, Context, Gradients, NormConfig, Param, Saved, View, ViewMut};
use layernorm::{layer_norm, rms_norm};
use layernorm_reference::norm as oracle;

struct Results {
    y: Vec<f32>,
    dx: Vec<f32>,
    dgain: Vec<f32>,
    dbias: Vec<f32>,
    saved: Saved<f32>,
}

fn run(x: &[f32], dy: &[f32], gain: &[f32], centered: bool, cx: &mut Context) -> Results {
    let n = gain.len();
    let shape = [x.len() / n, n];
    let mut results = Results {
        y: vec![0.0; x.len()],
        dx: vec![0.0; x.len()],
        dgain: vec![0.0; n],
        dbias: vec![0.0; n],
        saved: Saved::new(shape[0]),
    };
    let weight = Some(Param::Same(View::new(gain, &[n]).unwrap()));
    let config = NormConfig::new().affine(Affine { weight, bias: None, zero_centered: false });
    let view = View::new(x, &shape).unwrap();
    let forward = if centered { layer_norm::forward } else { rms_norm::forward };
    let backward = if centered { layer_norm::backward } else { rms_norm::backward };
    forward(view, ViewMut::new(&mut results.y, &shape).unwrap(), Some(results.saved.as_mut()), &config, cx).unwrap();
    let gradients = Gradients {
        input: Some(ViewMut::new(&mut results.dx, &shape).unwrap()),
        weight: Some(ViewMut::new(&mut results.dgain, &[n]).unwrap().into()),
        bias: Some(ViewMut::new(&mut results.dbias, &[n]).unwrap().into()),
    };
    backward(view, View::new(dy, &shape).unwrap(), results.saved.as_ref(), gradients, &config, cx).unwrap();
    results
}

fn largest(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(0.0, |max: f64, x| max.max(x.abs()))
}

/// The size of dx's largest term.
fn term_size(x: &[f64], dy: &[f64], gain: impl Fn(usize) -> f64, centered: bool) -> f64 {
    let g = largest(dy.iter().enumerate().map(|(i, dy)| dy * gain(i)));
    oracle::normalize(x, centered, 1e-5).stat.rstd.to_f64() * g * (x.len() as f64).sqrt()
}

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| f64::from(x)).collect()
}

/// Within 64 roundings of a number of this size: dx = r·(g − a − x̂·b) cancels, so it is as accurate as its largest term,
/// r·|g|·√n at the most; a term carries some ten roundings, the sums behind a and b some twenty.
fn assert_close(found: &[f32], expected: &[f64], size: f64, what: &str) {
    for (i, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        let error = (f64::from(found) - expected).abs();
        // Half a subnormal step where the result is that small.
        let bound = 64.0 * size * 2f64.powi(-24) + 2f64.powi(-150);
        assert!(error <= bound, "{what}: element {i}: found {found:e}, expected {expected:e}");
    }
}

fn check(x: &[f32], dy: &[f32], gain: &[f32], centered: bool) {
    let n = gain.len();
    let eps = f64::from(1e-5f32);
    let gain_of = |i: usize| f64::from(gain[i]);
    let rows: Vec<oracle::Row> = x.chunks(n).map(|row| oracle::normalize(&wide(row), centered, eps)).collect();
    let mut first: Option<Results> = None;
    for cx in &mut contexts() {
        let found = run(x, dy, gain, centered, cx);
        if let Some(first) = &first {
            assert_same_bits(&found.y, &first.y, || format!("y on {}", name(cx)));
            assert_same_bits(&found.dx, &first.dx, || format!("dx on {}", name(cx)));
            assert_same_bits(&found.dgain, &first.dgain, || format!("dγ on {}", name(cx)));
            assert_same_bits(&found.dbias, &first.dbias, || format!("dβ on {}", name(cx)));
            continue;
        }
        for row in 0..x.len() / n {
            let at = row * n..(row + 1) * n;
            let (x, dy) = (wide(&x[at.clone()]), wide(&dy[at.clone()]));
            let expected = oracle::forward(&x, gain_of, |_| 0.0, centered, eps);
            let size = largest(expected.iter().copied());
            assert_close(&found.y[at.clone()], &expected, size, &format!("y of row {row} on {}", name(cx)));
            let expected = oracle::backward(&x, &dy, gain_of, centered, eps);
            let size = term_size(&x, &dy, gain_of, centered);
            assert_close(&found.dx[at.clone()], &expected, size, &format!("dx of row {row} on {}", name(cx)));
        }
        for i in 0..n {
            let terms = || rows.iter().enumerate().map(|(row, r)| f64::from(dy[row * n + i]) * r.x_hat[i].to_f64());
            let (expected, size): (f64, f64) = (terms().sum(), terms().map(f64::abs).sum());
            if expected.abs() < f64::from(f32::MAX) {
                assert!((f64::from(found.dgain[i]) - expected).abs() <= 64.0 * size * 2f64.powi(-24), "dγ {i}");
            }
        }
        first = Some(found);
    }
}

#[test]
fn rows_of_every_size_mixed() {
    let mut random = Random::new(1);
    for n in [2, 7, 33, 300, 1500] {
        let mut x = Vec::new();
        for scale in [1.0, 1e30, 1e-30, 1e37, 1e18, 3e19, 1e5] {
            x.extend(random.map::<f32>(n, |z| (z * scale).clamp(-3.4e38, 3.4e38)));
        }
        let dy: Vec<f32> = random.normals(x.len());
        let gain: Vec<f32> = random.normals(n);
        check(&x, &dy, &gain, true);
        check(&x, &dy, &gain, false);
    }
}

#[test]
fn gradients_whose_sums_leave_the_range() {
    let mut random = Random::new(2);
    let n = 40;
    let x: Vec<f32> = random.normals(3 * n);
    let one = vec![1.0; n];
    // dx itself is inside the range: r·(g − a − x̂·b) with σ = 1 would not be, so x is large as well.
    let large: Vec<f32> = x.iter().map(|x| x * 1e4).collect();
    check(&large, &random.map(3 * n, |z| (z * 1e38).clamp(-3e38, 3e38)), &one, true);
    check(&large, &[3e38; 120], &one, true);
    check(&x, &random.map(3 * n, |z| z * 1e30), &random.map::<f32>(n, |z| z * 1e-20), true);
    check(&x, &random.map(3 * n, |z| z * 1e-34), &random.map::<f32>(n, |z| z * 1e37), true);
    check(&random.map::<f32>(3 * n, |z| z * 1e30), &random.map(3 * n, |z| z * 1e38), &one, false);
}

#[test]
fn sums_down_the_rows_that_overflow_on_the_way() {
    // 3e38 + 3e38 − 3e38 − 3e38, down the rows: the sum is 0, what is on the way is infinite.
    let x = [1.0f32, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0];
    let dy = [3e38f32, 0.0, 3e38, 0.0, -3e38, 0.0, -3e38, 0.0];
    for cx in &mut contexts() {
        let found = run(&x, &dy, &[1.0, 1.0], true, cx);
        assert_eq!(found.dbias[0], 0.0, "{}", name(cx));
        // x̂ is not 1 but a rounding below it, so what is left of the products is a rounding of theirs.
        assert!(found.dgain[0].abs() <= 4.0 * 3e38 * f32::EPSILON, "{} on {}", found.dgain[0], name(cx));
        // And what is really beyond the range is infinite, not NaN.
        let found = run(&x, &[3e38; 8], &[1.0, 1.0], true, cx);
        assert_eq!(found.dbias, [f32::INFINITY; 2]);
        assert!(found.dgain[0] == f32::NEG_INFINITY && found.dgain[1] == f32::INFINITY);
    }
}

#[test]
fn reported_statistics_are_those_of_the_row_as_it_is() {
    let x: Vec<f32> = Random::new(3).map(256, |z| 1e30 * z);
    let row = oracle::normalize(&wide(&x), true, 1e-5);
    for cx in &mut contexts() {
        let found = run(&x, &[1.0; 256], &[1.0; 256], true, cx);
        let (mean, rstd) = (f64::from(found.saved.mean()[0]), f64::from(found.saved.rstd[0]));
        assert!((mean / row.stat.mean.to_f64() - 1.0).abs() < 1e-5, "{mean:e}");
        assert!((rstd / row.stat.rstd.to_f64() - 1.0).abs() < 1e-6, "{rstd:e}");
    }
}

#[test]
fn an_epsilon_of_zero_gives_the_ieee_result_on_a_constant_row() {
    let mut y = [0.0f32; 4];
    let (x, config) = (View::new(&[2.0f32; 4], &[1, 4]).unwrap(), NormConfig::new().eps(0.0));
    layer_norm::forward(x, ViewMut::new(&mut y, &[1, 4]).unwrap(), None, &config, &mut Context::new()).unwrap();
    assert!(y.iter().all(|y| y.is_nan()), "0 · ∞");
}

#[test]
fn groups_of_large_numbers() {
    let mut random = Random::new(4);
    let (shape, groups) = ([3usize, 4, 50], 2);
    let x: Vec<f32> = random.map(600, |z| (1e30 * z).clamp(-3e38, 3e38));
    let dy: Vec<f32> = random.normals(600);
    let gain: Vec<f32> = random.normals(4);
    let mut first: Option<[Vec<f32>; 3]> = None;
    for cx in &mut contexts() {
        let (mut y, mut dx, mut dgain) = (vec![0.0; 600], vec![0.0; 600], vec![0.0; 4]);
        let weight = Some(Param::Same(View::new(&gain, &[4]).unwrap()));
        let config = GroupConfig { groups, affine: Affine { weight, bias: None, zero_centered: false }, eps: 1e-5 };
        let mut saved = Saved::new(6);
        let view = View::new(&x, &shape).unwrap();
        let to = ViewMut::new(&mut y, &shape).unwrap();
        group_norm::forward(view, to, Some(saved.as_mut()), &config, cx).unwrap();
        let gradients = Gradients {
            input: Some(ViewMut::new(&mut dx, &shape).unwrap()),
            weight: Some(ViewMut::new(&mut dgain, &[4]).unwrap().into()),
            bias: None,
        };
        group_norm::backward(view, View::new(&dy, &shape).unwrap(), saved.as_ref(), gradients, &config, cx).unwrap();
        for row in 0..6 {
            let at = row * 100..(row + 1) * 100;
            let gain_of = |i: usize| f64::from(gain[row % 2 * 2 + i / 50]);
            let (x, dy) = (wide(&x[at.clone()]), wide(&dy[at.clone()]));
            assert_close(&y[at.clone()], &oracle::forward(&x, gain_of, |_| 0.0, true, 1e-5), 10.0, "y");
            let size = term_size(&x, &dy, gain_of, true);
            assert_close(&dx[at.clone()], &oracle::backward(&x, &dy, gain_of, true, 1e-5), size, "dx");
        }
        for c in 0..4 {
            let expected: f64 = (0..3)
                .map(|sample| {
                    let start = (sample * 2 + c / 2) * 100;
                    let x_hat = oracle::normalize(&wide(&x[start..start + 100]), true, 1e-5).x_hat;
                    (0..50)
                        .map(|s| f64::from(dy[sample * 200 + c * 50 + s]) * x_hat[c % 2 * 50 + s].to_f64())
                        .sum::<f64>()
                })
                .sum();
            assert!((f64::from(dgain[c]) - expected).abs() < 1e-4, "dγ {c}: {} {expected}", dgain[c]);
        }
        let results = [y, dx, dgain];
        match &first {
            None => first = Some(results),
            Some(first) => first.iter().zip(&results).for_each(|(a, b)| assert_same_bits(b, a, || name(cx))),
        }
    }
}

#[test]
fn channels_of_large_numbers() {
    let mut random = Random::new(5);
    let (samples, channels) = (150, 5);
    let scale = [1.0, 1e30, 1e37, 1e-30, 1e19];
    let x: Vec<f32> =
        (0..samples * channels).map(|i| (random.normal() * scale[i % channels]).clamp(-3e38, 3e38) as f32).collect();
    let dy: Vec<f32> = random.normals(x.len());
    let column =
        |data: &[f32], c: usize| -> Vec<f64> { data.iter().skip(c).step_by(channels).map(|&x| f64::from(x)).collect() };
    for cx in &mut contexts() {
        let (mut y, mut dx, mut dgain) = (vec![0.0; x.len()], vec![0.0; x.len()], vec![0.0; channels]);
        let shape = [samples, channels];
        let mut saved = Saved::new(channels);
        let config = BatchConfig::default();
        let view = View::new(&x, &shape).unwrap();
        batch_norm::forward(view, ViewMut::new(&mut y, &shape).unwrap(), saved.as_mut(), &config, cx).unwrap();
        let gradients = Gradients {
            input: Some(ViewMut::new(&mut dx, &shape).unwrap()),
            weight: Some(ViewMut::new(&mut dgain, &[channels]).unwrap().into()),
            bias: None,
        };
        batch_norm::backward(view, View::new(&dy, &shape).unwrap(), saved.as_ref(), gradients, &config, cx).unwrap();
        for (c, &dgain) in dgain.iter().enumerate() {
            let (x, dy) = (column(&x, c), column(&dy, c));
            let narrow = |data: &[f32]| data.iter().skip(c).step_by(channels).copied().collect::<Vec<f32>>();
            let what = format!("channel {c} on {}", name(cx));
            assert_close(&narrow(&y), &oracle::forward(&x, |_| 1.0, |_| 0.0, true, 1e-5), 4.0, &format!("y, {what}"));
            let size = term_size(&x, &dy, |_| 1.0, true);
            assert_close(&narrow(&dx), &oracle::backward(&x, &dy, |_| 1.0, true, 1e-5), size, &format!("dx, {what}"));
            let x_hat = oracle::normalize(&x, true, 1e-5).x_hat;
            let expected: f64 = dy.iter().zip(x_hat).map(|(dy, x_hat)| dy * x_hat.to_f64()).sum();
            assert!((f64::from(dgain) - expected).abs() < 1e-4, "dγ, {what}");
        }
    }
    // A variance that fits is right also where its sum does not: half v, half v/2 has variance v²/16.
    let mut layer = BatchNorm::<f32>::new(1);
    layer.momentum = Some(1.0);
    let halves: Vec<f32> = (0..1024).map(|i| if i % 2 == 0 { 3e19 } else { 1.5e19 }).collect();
    layer.forward_train(&halves, &[1024, 1]).unwrap();
    let expected = 3e19f64 * 3e19 / 16.0 * 1024.0 / 1023.0;
    assert!((f64::from(layer.running_var[0]) / expected - 1.0).abs() < 1e-6, "{}", layer.running_var[0]);
    let mut layer = BatchNorm::<f32>::new(channels);
    layer.forward_train(&x, &[samples, channels]).unwrap();
    assert!(layer.running_mean.iter().all(|m| m.is_finite()));
}

#[test]
fn weights_of_any_size_keep_their_direction() {
    let mut random = Random::new(6);
    for scale in [1.0, 1e30, 1e-30, 1e-40, 3e37] {
        let v: Vec<f32> = random.map(2 * 300, |z| z * scale);
        let dw: Vec<f32> = random.normals(600);
        for cx in &mut contexts() {
            let (mut w, mut dg) = (vec![0.0; 600], vec![0.0; 2]);
            let mut saved = Saved::new(2);
            let (view, g) = (View::new(&v, &[2, 300]).unwrap(), View::new(&[2.0f32, -3.0], &[2]).unwrap());
            let to = ViewMut::new(&mut w, &[2, 300]).unwrap();
            weight_norm::forward(view, g, to, Some(saved.as_mut()), Some(0), cx).unwrap();
            let gradients = WeightGradients { v: None, g: Some(ViewMut::new(&mut dg, &[2]).unwrap()) };
            let dw_view = View::new(&dw, &[2, 300]).unwrap();
            weight_norm::backward(view, g, dw_view, saved.as_ref(), gradients, Some(0), cx).unwrap();
            for row in 0..2 {
                let v = wide(&v[row * 300..(row + 1) * 300]);
                let length = v.iter().map(|v| v * v).sum::<f64>().sqrt();
                let expected: Vec<f64> = v.iter().map(|v| v / length * [2.0, -3.0][row]).collect();
                let size = largest(expected.iter().copied());
                assert_close(
                    &w[row * 300..(row + 1) * 300],
                    &expected,
                    size,
                    &format!("scale {scale} on {}", name(cx)),
                );
                let expected: f64 = v.iter().zip(&dw[row * 300..]).map(|(v, &dw)| v / length * f64::from(dw)).sum();
                assert!((f64::from(dg[row]) - expected).abs() < 1e-5, "dg, scale {scale}");
            }
        }
    }
}
