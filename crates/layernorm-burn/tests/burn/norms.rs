//! The norms give the core's bits, forward and backward, in all four types.

use crate::common::{cpu, leaf, random, same, tensor, training, values};
use burn::tensor::{Element as BurnElement, Tensor};
use layernorm::batch_norm::{BatchConfig, Moments, Momentum, Running, RunningVariance};
use layernorm::group_norm::GroupConfig;
use layernorm::weight_norm::WeightGradients;
use layernorm::{
    Affine, Context, Element, Error, Gradients, NormConfig, Saved, View, ViewMut, batch_norm, bf16, f16, group_norm,
    layer_norm, rms_norm, weight_norm,
};
use layernorm_burn::functional;

/// The core's results.
struct Expected<T> {
    y: Vec<T>,
    dx: Vec<T>,
    dgamma: Vec<T>,
    dbeta: Vec<T>,
}

/// A case: x and dy `[N, C, S]`, γ and β of some length.
struct Case<T> {
    x: Vec<T>,
    dy: Vec<T>,
    gamma: Vec<T>,
    beta: Vec<T>,
}

const SHAPE: [usize; 3] = [9, 6, 37];

fn case<T: Element>(parameters: usize) -> Case<T> {
    let count = SHAPE.iter().product();
    let (x, dy) = (random(1, count), random(2, count));
    Case { x, dy, gamma: random(3, parameters), beta: random(4, parameters) }
}

type Forward<'a, T> = &'a dyn Fn(View<T>, ViewMut<T>, &mut Saved<<T as Element>::Acc>, Affine<T>) -> Result<(), Error>;
type Backward<'a, T> =
    &'a dyn Fn(View<T>, View<T>, &Saved<<T as Element>::Acc>, Gradients<T>, Affine<T>) -> Result<(), Error>;

fn core<T: Element>(case: &Case<T>, rows: usize, forward: Forward<T>, backward: Backward<T>) -> Expected<T> {
    let zeros = |n: usize| vec![T::default(); n];
    let n = case.gamma.len();
    let mut e = Expected { y: zeros(case.x.len()), dx: zeros(case.x.len()), dgamma: zeros(n), dbeta: zeros(n) };
    let view = |numbers| View::new(numbers, &SHAPE).unwrap();
    let affine = Affine::new(View::new(&case.gamma, &[n]).unwrap(), View::new(&case.beta, &[n]).unwrap());
    let mut saved = Saved::new(rows);
    forward(view(&case.x), ViewMut::new(&mut e.y, &SHAPE).unwrap(), &mut saved, affine).unwrap();
    let gradients = Gradients {
        input: Some(ViewMut::new(&mut e.dx, &SHAPE).unwrap()),
        weight: Some(ViewMut::new(&mut e.dgamma, &[n]).unwrap().into()),
        bias: Some(ViewMut::new(&mut e.dbeta, &[n]).unwrap().into()),
    };
    backward(view(&case.x), view(&case.dy), &saved, gradients, affine).unwrap();
    e
}

type Op<'a> = &'a dyn Fn(Tensor<3>, Tensor<1>, Tensor<1>) -> Tensor<3>;

/// Forward without and with a graph, then backward; also with an x of another memory order.
fn check<T: Element + BurnElement>(name: &str, case: &Case<T>, op: Op, expected: &Expected<T>) {
    let (name, n) = (format!("{name} of {}", <T as Element>::NAME), case.gamma.len());
    let device = cpu();
    let plain = |x| op(x, tensor(&case.gamma, [n], &device), tensor(&case.beta, [n], &device));
    let x = tensor(&case.x, SHAPE, &device);
    same(&format!("{name}: y"), &plain(x.clone()), &expected.y);
    let swapped = Tensor::cat(vec![x.clone().swap_dims(0, 2)], 0).swap_dims(0, 2);
    same(&format!("{name}: y of other strides"), &plain(swapped), &expected.y);

    let device = training();
    let (gamma, beta) = (leaf(&case.gamma, [n], &device), leaf(&case.beta, [n], &device));
    let x = leaf(&case.x, SHAPE, &device);
    let y = op(x.clone(), gamma.clone(), beta.clone());
    same(&format!("{name}: y in training"), &y, &expected.y);
    let gradients = (y * tensor(&case.dy, SHAPE, &device)).sum().backward();
    same(&format!("{name}: dx"), &x.grad(&gradients).unwrap(), &expected.dx);
    same(&format!("{name}: dγ"), &gamma.grad(&gradients).unwrap(), &expected.dgamma);
    same(&format!("{name}: dβ"), &beta.grad(&gradients).unwrap(), &expected.dbeta);
}

const EPS: f64 = 1e-5;

fn row<T>(affine: Affine<'_, T>) -> NormConfig<'_, T> {
    NormConfig::new().affine(affine).eps(EPS)
}

fn group<T>(groups: usize, affine: Affine<'_, T>) -> GroupConfig<'_, T> {
    GroupConfig { groups, affine, eps: EPS }
}

fn batch<T>(affine: Affine<'_, T>) -> BatchConfig<'_, T> {
    BatchConfig { affine, eps: EPS }
}

fn all<T: Element + BurnElement>() {
    let eps = EPS;
    let [samples, channels, width] = SHAPE;

    let case_last = case::<T>(width);
    let expected = core(
        &case_last,
        samples * channels,
        &|x, y, saved, affine| layer_norm::forward(x, y, Some(saved.as_mut()), &row(affine), &mut Context::new()),
        &|x, dy, saved, g, affine| layer_norm::backward(x, dy, saved.as_ref(), g, &row(affine), &mut Context::new()),
    );
    check("layer norm", &case_last, &|x, g, b| functional::layer_norm(x, Some(g), Some(b), eps), &expected);

    let expected = core(
        &case_last,
        samples * channels,
        &|x, y, saved, affine| rms_norm::forward(x, y, Some(saved.as_mut()), &row(affine), &mut Context::new()),
        &|x, dy, saved, g, affine| rms_norm::backward(x, dy, saved.as_ref(), g, &row(affine), &mut Context::new()),
    );
    check("RMS norm", &case_last, &|x, g, b| functional::rms_norm(x, Some(g), Some(b), eps), &expected);

    let case_channels = case::<T>(channels);
    for groups in [1, 3, channels] {
        let expected = core(
            &case_channels,
            samples * groups,
            &|x, y, s, affine| group_norm::forward(x, y, Some(s.as_mut()), &group(groups, affine), &mut Context::new()),
            &|x, dy, s, g, affine| {
                group_norm::backward(x, dy, s.as_ref(), g, &group(groups, affine), &mut Context::new())
            },
        );
        let op = |x, g, b| functional::group_norm(x, Some(g), Some(b), groups, eps);
        check(&format!("group norm, {groups} groups"), &case_channels, &op, &expected);
    }

    let expected = core(
        &case_channels,
        channels,
        &|x, y, saved, affine| batch_norm::forward(x, y, saved.as_mut(), &batch(affine), &mut Context::new()),
        &|x, dy, saved, g, affine| batch_norm::backward(x, dy, saved.as_ref(), g, &batch(affine), &mut Context::new()),
    );
    let op = |x: Tensor<3>, g, b| {
        let running =
            [tensor(&vec![0f32; channels], [channels], &cpu()), tensor(&vec![1f32; channels], [channels], &cpu())];
        functional::batch_norm_train(x, Some(g), Some(b), running, 0.1, eps).output
    };
    check("batch norm in training", &case_channels, &op, &expected);

    let (mean, var): (Vec<T::Acc>, Vec<T::Acc>) = (random(5, channels), random(6, channels));
    let var: Vec<T::Acc> = var.iter().map(|&v| layernorm::Float::abs(v)).collect();
    let moments = || Moments { mean: &mean, var: &var };
    let expected = core(
        &case_channels,
        channels,
        &|x, y, _, affine| batch_norm::infer(x, y, moments(), &batch(affine), &mut Context::new()),
        &|x, dy, _, g, affine| batch_norm::infer_backward(x, dy, moments(), g, &batch(affine), &mut Context::new()),
    );
    let wide = |numbers: &[T::Acc]| numbers.iter().map(|&x| layernorm::Float::to_f64(x)).collect::<Vec<f64>>();
    let op = |x: Tensor<3>, g, b| {
        let moments = [tensor(&wide(&mean), [channels], &cpu()), tensor(&wide(&var), [channels], &cpu())];
        functional::batch_norm(x, Some(g), Some(b), moments, eps)
    };
    check("batch norm at inference", &case_channels, &op, &expected);
}

#[test]
fn f32_has_the_cores_bits() {
    all::<f32>();
}

#[test]
fn f64_has_the_cores_bits() {
    all::<f64>();
}

#[test]
fn f16_has_the_cores_bits() {
    all::<f16>();
}

#[test]
fn bf16_has_the_cores_bits() {
    all::<bf16>();
}

/// f32 γ and β with an f16 input: their gradients are f32, from sums that were never rounded to f16.
#[test]
fn parameters_may_be_f32() {
    let case = case::<f16>(SHAPE[2]);
    let (n, device) = (SHAPE[2], training());
    let (gamma, beta): (Vec<f32>, Vec<f32>) = (random(3, n), random(4, n));
    let (g, b) = (leaf(&gamma, [n], &device), leaf(&beta, [n], &device));
    let y = functional::layer_norm(leaf(&case.x, SHAPE, &device), Some(g.clone()), Some(b), 1e-5);
    let gradients = (y * tensor(&case.dy, SHAPE, &device)).sum().backward();

    let (rows, mut y) = (SHAPE[0] * SHAPE[1], vec![f16::default(); case.x.len()]);
    let (mut saved, mut dgamma) = (Saved::new(rows), vec![0f32; n]);
    let affine = Affine {
        weight: Some(layernorm::Param::F32(View::new(&gamma, &[n]).unwrap())),
        bias: Some(layernorm::Param::F32(View::new(&beta, &[n]).unwrap())),
        zero_centered: false,
    };
    let (config, cx) = (NormConfig::new().affine(affine), &mut Context::new());
    let view = |numbers| View::new(numbers, &SHAPE).unwrap();
    layer_norm::forward(view(&case.x), ViewMut::new(&mut y, &SHAPE).unwrap(), Some(saved.as_mut()), &config, cx)
        .unwrap();
    let weight = Some(layernorm::ParamMut::F32(ViewMut::new(&mut dgamma, &[n]).unwrap()));
    let wanted = Gradients { weight, ..Gradients::default() };
    layer_norm::backward(view(&case.x), view(&case.dy), saved.as_ref(), wanted, &config, cx).unwrap();
    same("dγ of f32", &g.grad(&gradients).unwrap(), &dgamma);
}

#[test]
fn running_statistics_are_the_cores() {
    let (case, [_, channels, _], device) = (case::<f32>(SHAPE[1]), SHAPE, training());
    let bn = layernorm_burn::BatchNormConfig::new(channels).with_momentum(0.25).init(&device);
    let (mut mean, mut var) = (vec![0f32; channels], vec![1f32; channels]);
    for round in 0..3 {
        let x: Vec<f32> = case.x.iter().map(|x| x + round as f32).collect();
        let output = bn.forward(tensor(&x, SHAPE, &device));
        let (mut y, mut saved) = (vec![0f32; x.len()], Saved::new(channels));
        let (momentum, variance) = (Momentum::Exponential(0.25), RunningVariance::Biased);
        let running = Running { mean: &mut mean, var: &mut var, momentum, variance };
        let (from, to) = (View::new(&x, &SHAPE).unwrap(), ViewMut::new(&mut y, &SHAPE).unwrap());
        let ones = vec![1f32; channels];
        let zeros = vec![0f32; channels];
        let affine = Affine::new(View::new(&ones, &[channels]).unwrap(), View::new(&zeros, &[channels]).unwrap());
        let config = BatchConfig { affine, eps: 1e-5 };
        batch_norm::forward_running(from, to, saved.as_mut(), running, &config, &mut Context::new()).unwrap();
        same("y", &output, &y);
        same("running mean", &bn.running_mean.value_sync(), &mean);
        same("running variance", &bn.running_var.value_sync(), &var);
    }
    // Without autodiff the running statistics are used and not updated.
    use burn::module::Module;
    let valid = bn.valid();
    let y = valid.forward(tensor(&case.x, SHAPE, &cpu()));
    let (mut expected, ones, zeros) = (vec![0f32; case.x.len()], vec![1f32; channels], vec![0f32; channels]);
    let affine = Affine::new(View::new(&ones, &[channels]).unwrap(), View::new(&zeros, &[channels]).unwrap());
    let config = BatchConfig { affine, eps: 1e-5 };
    let (from, to) = (View::new(&case.x, &SHAPE).unwrap(), ViewMut::new(&mut expected, &SHAPE).unwrap());
    batch_norm::infer(from, to, Moments { mean: &mean, var: &var }, &config, &mut Context::new()).unwrap();
    same("y at inference", &y, &expected);
}

fn weight_norm_case<T: Element + BurnElement>(axis: Option<usize>) {
    let rows = axis.map_or(1, |axis| SHAPE[axis]);
    let count = SHAPE.iter().product();
    let (v, g, dw): (Vec<T>, Vec<T>, Vec<T>) = (random(1, count), random(2, rows), random(3, count));
    let (mut w, mut dv, mut dg) = (vec![T::default(); count], vec![T::default(); count], vec![T::default(); rows]);
    let (mut saved, cx) = (Saved::new(rows), &mut Context::new());
    let (from, lengths) = (View::new(&v, &SHAPE).unwrap(), View::new(&g, &[rows]).unwrap());
    let to = ViewMut::new(&mut w, &SHAPE).unwrap();
    weight_norm::forward(from, lengths, to, Some(saved.as_mut()), axis, cx).unwrap();
    let gradients = WeightGradients {
        v: Some(ViewMut::new(&mut dv, &SHAPE).unwrap()),
        g: Some(ViewMut::new(&mut dg, &[rows]).unwrap()),
    };
    let dy = View::new(&dw, &SHAPE).unwrap();
    weight_norm::backward(from, lengths, dy, saved.as_ref(), gradients, axis, cx).unwrap();

    let device = training();
    let (v, g) = (leaf(&v, SHAPE, &device), leaf(&g, [rows], &device));
    let found = functional::weight_norm(v.clone(), g.clone(), axis);
    same("w", &found, &w);
    let gradients = (found * tensor(&dw, SHAPE, &device)).sum().backward();
    same("dv", &v.grad(&gradients).unwrap(), &dv);
    same("dg", &g.grad(&gradients).unwrap(), &dg);
    same("w without a graph", &functional::weight_norm(v.inner(), g.inner(), axis), &w);
}

#[test]
fn weight_norm_has_the_cores_bits() {
    for axis in [None, Some(0), Some(1), Some(2)] {
        weight_norm_case::<f32>(axis);
        weight_norm_case::<f64>(axis);
    }
    weight_norm_case::<f16>(Some(0));
    weight_norm_case::<bf16>(Some(2));
}

/// Gradients that are not wanted are not computed, and their absence changes nothing else.
#[test]
fn frozen_and_absent_parameters() {
    let (case, n, device) = (case::<f32>(SHAPE[2]), SHAPE[2], training());
    let dy = || tensor(&case.dy, SHAPE, &device);
    let run = |x: Tensor<3>, gamma: Option<Tensor<1>>, beta: Option<Tensor<1>>| {
        (functional::layer_norm(x, gamma, beta, 1e-5) * dy()).sum().backward()
    };
    let (x, gamma, beta) =
        (leaf(&case.x, SHAPE, &device), leaf(&case.gamma, [n], &device), leaf(&case.beta, [n], &device));
    let all = run(x.clone(), Some(gamma.clone()), Some(beta.clone()));
    let only_x = run(x.clone(), Some(gamma.clone().detach()), Some(beta.clone().detach()));
    same("dx, γ frozen", &x.grad(&only_x).unwrap(), &values::<f32, 3>(&x.grad(&all).unwrap()));
    let only_gamma = run(x.clone().detach(), Some(gamma.clone()), None);
    same("dγ, x frozen", &gamma.grad(&only_gamma).unwrap(), &values::<f32, 1>(&gamma.grad(&all).unwrap()));
    let only_beta = run(x.clone().detach(), None, Some(beta.clone()));
    same("dβ alone", &beta.grad(&only_beta).unwrap(), &values::<f32, 1>(&beta.grad(&all).unwrap()));
    let ones = tensor(&vec![1f32; n], [n], &device);
    let (without, with) = (run(x.clone(), None, None), run(x.clone(), Some(ones), None));
    same("dx without γ", &x.grad(&without).unwrap(), &values::<f32, 3>(&x.grad(&with).unwrap()));
}

/// Gradient checkpointing retrieves x again, possibly recomputed; the gradients stay the same.
#[test]
fn checkpointing_changes_no_bit() {
    let (case, n) = (case::<f32>(SHAPE[2]), SHAPE[2]);
    let gradients = |device: burn::tensor::Device| {
        let (x, gamma) = (leaf(&case.x, SHAPE, &device), leaf(&case.gamma, [n], &device));
        let h = x.clone().mul_scalar(2.0).add_scalar(0.5);
        let y = functional::layer_norm(h, Some(gamma.clone()), None, 1e-5).tanh();
        let gradients = (y * tensor(&case.dy, SHAPE, &device)).sum().backward();
        (values::<f32, 3>(&x.grad(&gradients).unwrap()), values::<f32, 1>(&gamma.grad(&gradients).unwrap()))
    };
    assert_eq!(gradients(training()), gradients(training().gradient_checkpointing()));
}
