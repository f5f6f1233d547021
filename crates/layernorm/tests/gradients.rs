//! Every backward against finite differences of its own forward, in f64.
//!
//! With a loss L = Σ w·y and a central difference of step h, the error is about h²·|L‴|/6 + 2⁻⁵²·|L|/h. At h = 10⁻⁵ both are
//! below 10⁻⁹ for inputs of size 1, so 10⁻⁷ (relative to the larger of the gradient and 1) leaves room for none of the
//! mistakes that one could make.

mod common;

use common::Random;
use layernorm::batch_norm::{self, BatchConfig, Moments};
use layernorm::group_norm::{self, GroupConfig};
use layernorm::weight_norm::{self, WeightGradients};
use layernorm::{Affine, Axes, Context, Gradients, NormConfig, Param, Saved, View, ViewMut, layer_norm, rms_norm};

const STEP: f64 = 1e-5;
const TOLERANCE: f64 = 1e-7;

/// Compares a gradient with central differences of `loss` in each element of `x`.
#[track_caller]
fn check(what: &str, x: &[f64], gradient: &[f64], loss: impl Fn(&[f64]) -> f64) {
    assert_eq!(x.len(), gradient.len());
    for i in 0..x.len() {
        let moved = |by: f64| {
            let mut x = x.to_vec();
            x[i] += by;
            loss(&x)
        };
        let difference = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
        let error = (difference - gradient[i]).abs() / difference.abs().max(1.0);
        assert!(error < TOLERANCE, "{what}, element {i}: gradient {}, difference {difference}", gradient[i]);
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// γ and β, each perhaps absent.
struct Parameters {
    gain: Option<Vec<f64>>,
    bias: Option<Vec<f64>>,
    zero_centered: bool,
}

impl Parameters {
    fn new(random: &mut Random, count: usize, choice: usize) -> Self {
        Parameters {
            gain: (choice & 1 != 0).then(|| random.normals(count)),
            bias: (choice & 2 != 0).then(|| random.normals(count)),
            zero_centered: choice & 4 != 0,
        }
    }

    fn affine<'a>(&'a self, shape: &[usize]) -> Affine<'a, f64> {
        let view = |values: &'a Vec<f64>| Param::Same(View::new(values, shape).unwrap());
        Affine {
            weight: self.gain.as_ref().map(view),
            bias: self.bias.as_ref().map(view),
            zero_centered: self.zero_centered,
        }
    }
}

/// What a backward pass gave.
struct Found {
    dx: Vec<f64>,
    dgain: Option<Vec<f64>>,
    dbias: Option<Vec<f64>>,
}

/// Runs `backward` into fresh vectors, for the parameters there are.
fn gradients(
    shape: &[usize],
    parameter_shape: &[usize],
    parameters: &Parameters,
    backward: impl FnOnce(Gradients<f64>),
) -> Found {
    let count = parameter_shape.iter().product();
    let mut dx = vec![0.0; shape.iter().product()];
    let mut dgain = parameters.gain.as_ref().map(|_| vec![0.0; count]);
    let mut dbias = parameters.bias.as_ref().map(|_| vec![0.0; count]);
    backward(Gradients {
        input: Some(ViewMut::new(&mut dx, shape).unwrap()),
        weight: dgain.as_mut().map(|d| ViewMut::new(d, parameter_shape).unwrap().into()),
        bias: dbias.as_mut().map(|d| ViewMut::new(d, parameter_shape).unwrap().into()),
    });
    Found { dx, dgain, dbias }
}

/// Checks all gradients of `forward(x, parameters) → y` under the loss Σ dy·y.
fn check_all(
    what: &str,
    x: &[f64],
    dy: &[f64],
    parameters: &Parameters,
    found: &Found,
    forward: impl Fn(&[f64], &Parameters) -> Vec<f64>,
) {
    check(&format!("{what}: dx"), x, &found.dx, |x| dot(dy, &forward(x, parameters)));
    if let (Some(gain), Some(dgain)) = (&parameters.gain, &found.dgain) {
        check(&format!("{what}: dγ"), gain, dgain, |gain| {
            let moved = Parameters { gain: Some(gain.to_vec()), bias: parameters.bias.clone(), ..*parameters };
            dot(dy, &forward(x, &moved))
        });
    }
    if let (Some(bias), Some(dbias)) = (&parameters.bias, &found.dbias) {
        check(&format!("{what}: dβ"), bias, dbias, |bias| {
            let moved = Parameters { bias: Some(bias.to_vec()), gain: parameters.gain.clone(), ..*parameters };
            dot(dy, &forward(x, &moved))
        });
    }
}

#[test]
fn layer_and_rms_norm() {
    let mut random = Random::new(1);
    let cases: &[(&[usize], &[isize], &[usize])] =
        &[(&[3, 5], &[-1], &[5]), (&[2, 3, 4], &[1], &[3]), (&[2, 3, 4], &[0, 2], &[2, 4]), (&[6], &[0], &[6])];
    for &(shape, axes, row_shape) in cases {
        for choice in 0..8 {
            for centered in [true, false] {
                let parameters = Parameters::new(&mut random, row_shape.iter().product(), choice);
                let (x, dy): (Vec<f64>, Vec<f64>) =
                    (random.normals(shape.iter().product()), random.normals(shape.iter().product()));
                let rows = x.len() / row_shape.iter().product::<usize>();
                let run = |x: &[f64], parameters: &Parameters, saved: &mut Saved<f64>| {
                    let mut y = vec![0.0; x.len()];
                    let config =
                        NormConfig::new().axes(Axes::These(axes)).affine(parameters.affine(row_shape)).eps(0.1);
                    let op = if centered { layer_norm::forward } else { rms_norm::forward };
                    let (from, to) = (View::new(x, shape).unwrap(), ViewMut::new(&mut y, shape).unwrap());
                    op(from, to, Some(saved.as_mut()), &config, &mut Context::new()).unwrap();
                    y
                };
                let mut saved = Saved::new(rows);
                run(&x, &parameters, &mut saved);
                let found = gradients(shape, row_shape, &parameters, |gradients| {
                    let config =
                        NormConfig::new().axes(Axes::These(axes)).affine(parameters.affine(row_shape)).eps(0.1);
                    let op = if centered { layer_norm::backward } else { rms_norm::backward };
                    let (x, dy) = (View::new(&x, shape).unwrap(), View::new(&dy, shape).unwrap());
                    op(x, dy, saved.as_ref(), gradients, &config, &mut Context::new()).unwrap();
                });
                let what = format!("{shape:?} axes {axes:?} parameters {choice} centered {centered}");
                check_all(&what, &x, &dy, &parameters, &found, |x, p| run(x, p, &mut Saved::new(rows)));
            }
        }
    }
}

#[test]
fn residual() {
    let mut random = Random::new(2);
    let shape = [3, 6];
    let [x, r, dy, dh]: [Vec<f64>; 4] = std::array::from_fn(|_| random.normals(18));
    let run = |x: &[f64], r: &[f64], saved: &mut Saved<f64>| {
        let (mut h, mut y) = (vec![0.0; 18], vec![0.0; 18]);
        layer_norm::forward_residual(
            View::new(x, &shape).unwrap(),
            View::new(r, &shape).unwrap(),
            ViewMut::new(&mut h, &shape).unwrap(),
            ViewMut::new(&mut y, &shape).unwrap(),
            Some(saved.as_mut()),
            &NormConfig::new(),
            &mut Context::new(),
        )
        .unwrap();
        (h, y)
    };
    let mut saved = Saved::new(3);
    let (h, _) = run(&x, &r, &mut saved);
    let mut dx = vec![0.0; 18];
    layer_norm::backward_residual(
        View::new(&h, &shape).unwrap(),
        View::new(&dy, &shape).unwrap(),
        Some(View::new(&dh, &shape).unwrap()),
        saved.as_ref(),
        Gradients { input: Some(ViewMut::new(&mut dx, &shape).unwrap()), ..Gradients::default() },
        &NormConfig::new(),
        &mut Context::new(),
    )
    .unwrap();
    let loss = |x: &[f64], r: &[f64]| {
        let (h, y) = run(x, r, &mut Saved::new(3));
        dot(&dy, &y) + dot(&dh, &h)
    };
    check("x", &x, &dx, |x| loss(x, &r));
    check("residual", &r, &dx, |r| loss(&x, r));
}

#[test]
fn group_and_instance_norm() {
    let mut random = Random::new(3);
    for (shape, groups) in [(&[2usize, 4, 3][..], 2), (&[3, 4], 2), (&[2, 3, 2, 2], 3), (&[2, 3, 5], 1)] {
        for choice in 0..8 {
            let channels = shape[1];
            let parameters = Parameters::new(&mut random, channels, choice);
            let count = shape.iter().product();
            let (x, dy): (Vec<f64>, Vec<f64>) = (random.normals(count), random.normals(count));
            let config = |p: &Parameters, f: &mut dyn FnMut(&GroupConfig<f64>)| {
                f(&GroupConfig { groups, affine: p.affine(&[channels]), eps: 0.1 })
            };
            let run = |x: &[f64], p: &Parameters, saved: &mut Saved<f64>| {
                let mut y = vec![0.0; x.len()];
                config(p, &mut |config| {
                    let (from, to) = (View::new(x, shape).unwrap(), ViewMut::new(&mut y, shape).unwrap());
                    group_norm::forward(from, to, Some(saved.as_mut()), config, &mut Context::new()).unwrap();
                });
                y
            };
            let mut saved = Saved::new(shape[0] * groups);
            run(&x, &parameters, &mut saved);
            let found = gradients(shape, &[channels], &parameters, |gradients| {
                let config = GroupConfig { groups, affine: parameters.affine(&[channels]), eps: 0.1 };
                let (x, dy) = (View::new(&x, shape).unwrap(), View::new(&dy, shape).unwrap());
                group_norm::backward(x, dy, saved.as_ref(), gradients, &config, &mut Context::new()).unwrap();
            });
            let what = format!("{shape:?} in {groups} groups, parameters {choice}");
            check_all(&what, &x, &dy, &parameters, &found, |x, p| run(x, p, &mut Saved::new(shape[0] * groups)));
        }
    }
}

#[test]
fn batch_norm_training_and_inference() {
    let mut random = Random::new(4);
    for shape in [&[5usize, 3][..], &[2, 3, 4], &[2, 2, 2, 3]] {
        for choice in 0..8 {
            let channels = shape[1];
            let parameters = Parameters::new(&mut random, channels, choice);
            let count = shape.iter().product();
            let (x, dy): (Vec<f64>, Vec<f64>) = (random.normals(count), random.normals(count));
            let mean: Vec<f64> = random.normals(channels);
            let var: Vec<f64> = random.map(channels, |z| z * z + 0.1);
            for training in [true, false] {
                let moments = Moments { mean: &mean, var: &var };
                let run = |x: &[f64], p: &Parameters, saved: &mut Saved<f64>| {
                    let mut y = vec![0.0; x.len()];
                    let config = BatchConfig { affine: p.affine(&[channels]), eps: 0.1 };
                    let (from, to) = (View::new(x, shape).unwrap(), ViewMut::new(&mut y, shape).unwrap());
                    if training {
                        batch_norm::forward(from, to, saved.as_mut(), &config, &mut Context::new()).unwrap();
                    } else {
                        batch_norm::infer(from, to, moments, &config, &mut Context::new()).unwrap();
                    }
                    y
                };
                let mut saved = Saved::new(channels);
                run(&x, &parameters, &mut saved);
                let found = gradients(shape, &[channels], &parameters, |gradients| {
                    let config = BatchConfig { affine: parameters.affine(&[channels]), eps: 0.1 };
                    let (x, dy) = (View::new(&x, shape).unwrap(), View::new(&dy, shape).unwrap());
                    let cx = &mut Context::new();
                    if training {
                        batch_norm::backward(x, dy, saved.as_ref(), gradients, &config, cx).unwrap();
                    } else {
                        batch_norm::infer_backward(x, dy, moments, gradients, &config, cx).unwrap();
                    }
                });
                let what = format!("{shape:?} training {training} parameters {choice}");
                check_all(&what, &x, &dy, &parameters, &found, |x, p| run(x, p, &mut Saved::new(channels)));
            }
        }
    }
}

#[test]
fn weight_norm_of_every_axis() {
    let mut random = Random::new(5);
    let shape = [3usize, 2, 4];
    for axis in [None, Some(0), Some(1), Some(2)] {
        let rows = axis.map_or(1, |axis: usize| shape[axis]);
        let (v, dw): (Vec<f64>, Vec<f64>) = (random.normals(24), random.normals(24));
        let g: Vec<f64> = random.normals(rows);
        let run = |v: &[f64], g: &[f64], saved: &mut Saved<f64>| {
            let mut w = vec![0.0; 24];
            let to = ViewMut::new(&mut w, &shape).unwrap();
            let (v, g) = (View::new(v, &shape).unwrap(), View::new(g, &[rows]).unwrap());
            weight_norm::forward(v, g, to, Some(saved.as_mut()), axis, &mut Context::new()).unwrap();
            w
        };
        let mut saved = Saved::new(rows);
        run(&v, &g, &mut saved);
        let (mut dv, mut dg) = (vec![0.0; 24], vec![0.0; rows]);
        weight_norm::backward(
            View::new(&v, &shape).unwrap(),
            View::new(&g, &[rows]).unwrap(),
            View::new(&dw, &shape).unwrap(),
            saved.as_ref(),
            WeightGradients {
                v: Some(ViewMut::new(&mut dv, &shape).unwrap()),
                g: Some(ViewMut::new(&mut dg, &[rows]).unwrap()),
            },
            axis,
            &mut Context::new(),
        )
        .unwrap();
        check(&format!("dv, axis {axis:?}"), &v, &dv, |v| dot(&dw, &run(v, &g, &mut Saved::new(rows))));
        check(&format!("dg, axis {axis:?}"), &g, &dg, |g| dot(&dw, &run(&v, g, &mut Saved::new(rows))));
    }
}
